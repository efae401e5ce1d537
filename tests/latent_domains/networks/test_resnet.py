"""ResNets read as graphs, and trained on real pictures, if only for a few iterations."""

import pytest

from latent_domains.convert.torch.conversion import converted_net
from latent_domains.data import lmdb_io
from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.methods import METHODS
from latent_domains.experiment.networks import NETWORKS
from latent_domains.models.graph import kind
from latent_domains.networks.resnet import DEPTHS, blocks, resnet_of
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import layers, learners, parse
from tests.pictures import QUICK, train
from tests.programs import program


@pytest.mark.parametrize("network", ["resnet18", "lite0", "mobilenet_v2"])
@pytest.mark.parametrize(
    ("method", "layer", "num_domains"), [("source_only", "bn", 0), ("mda", "mda", 4), ("dial", "mda", 2)]
)
def test_converted_net_is_the_trained_one_up_to_its_features(method, layer, num_domains, network):
    trained = list(parse(nets_of("pacs", method, network=network)[1]["deploy"]).layer)
    assert [layer.name for layer in trained][-2:] == ["classifier", "prob"]
    assert list(converted_net(NETWORKS[network], layer, num_domains, None).to_proto().layer) == trained[:-2]
    whole = list(converted_net(NETWORKS[network], layer, num_domains, 10).to_proto().layer)
    assert whole[:-2] == trained[:-2] and [layer.name for layer in whole][-2:] == ["fc10", "prob"]


@pytest.mark.parametrize("layers", DEPTHS)
def test_blocks_layers_are_counted_as_their_net_is_called(layers):
    net = converted_net(resnet_of(layers), "bn", 0, 10).to_proto()
    shortcuts = [layer for layer in net.layer if layer.name.endswith("_branch1") and layer.type == "Convolution"]
    weighted = [layer for layer in net.layer if layer.type in ("Convolution", "InnerProduct")]
    assert len(weighted) - len(shortcuts) == layers and len(shortcuts) == (4 if layers >= 50 else 3)
    names = [name for _, _, name in blocks(DEPTHS[layers])]
    assert [layer.name for layer in net.layer if layer.type == "Eltwise"] == [f"res{name}" for name in names]
    three = "2b" if layers >= 50 else "2a"  # the first 3×3 convolution of a block
    strided = {layer.name for layer in net.layer if list(layer.convolution_param.stride) == [2]}
    assert strided == {"conv1"} | {f"res{stage}a_branch{part}" for stage in "345" for part in ("1", three)}


def test_blocks_a_stage_of_more_blocks_than_letters_is_named_as_he_et_al_did():
    names = [name for _, _, name in blocks(DEPTHS[152])]
    assert names[:4] == ["2a", "2b", "2c", "3a"] and names[11:14] == ["4a", "4b1", "4b2"] and names[46] == "4b35"
    assert len(set(names)) == len(names) == 50


RESIDUAL = [f"{stage}{block}_branch{part}" for stage in "2345" for block in "ab" for part in ("2a", "2b")] + [
    f"{stage}a_branch1" for stage in "345"
]


def test_resnet_every_bn_of_resnet_but_conv1s_is_mda():
    net = layers(nets_of("pacs")[1]["train"])
    mda = {name for name, layer in net.items() if kind(layer) == "MDALayer"}
    assert mda == {f"mda{name}" for name in RESIDUAL}
    norms = {name for name, layer in net.items() if layer.type == "BatchNorm" and not name.startswith("domain_")}
    assert norms == {"bn_conv1"}
    for name in RESIDUAL:
        assert list(net[f"mda{name}"].bottom) == [f"res{name}", "w"]
        assert list(net[f"scale{name}"].bottom) == [f"mda{name}"]


@pytest.mark.parametrize(
    ("geometry", "pad", "floor", "projection"), [("torch", 1, True, False), ("caffe", 0, False, True)]
)
def test_resnet_geometries_of_resnet(geometry, pad, floor, projection):
    net = layers(nets_of("pacs", geometry=geometry)[1]["deploy"])
    pool = net["pool1"].pooling_param
    assert (pool.kernel_size, pool.stride, pool.pad) == (3, 2, pad)
    assert (pool.round_mode == pool.FLOOR) == floor
    assert ("res2a_branch1" in net) == projection
    assert list(net["res2a"].bottom) == ["scale2a_branch1" if projection else "pool1", "scale2a_branch2b"]


def test_branch_of_resnet_is_one_residual_block_on_all_rows_of_the_batch():
    net = layers(nets_of("pacs")[1]["train"])
    block = [name for name in net if name.startswith("domain_res")]
    assert {net[n].convolution_param.num_output for n in block if net[n].type == "Convolution"} == {64}
    strides = {n: list(net[n].convolution_param.stride) for n in block if net[n].type == "Convolution"}
    assert strides == {"domain_res2a_branch1": [2], "domain_res2a_branch2a": [2], "domain_res2a_branch2b": []}
    for name in ("domain_res2a_branch1", "domain_res2a_branch2a"):
        assert list(net[name].bottom) == ["scale_conv1"]
    split = next(layer for layer in net.values() if "domain_features" in layer.top)
    assert (list(split.bottom), list(split.slice_param.slice_point)) == (["domain_pool"], [36])
    assert list(net["domain_fc"].bottom) == ["domain_features"]


@pytest.mark.parametrize("options", [{}, {"network": "lite0", "image_size": 64}], ids=["resnet18", "lite0"])
@pytest.mark.parametrize("method", [method for method in METHODS if method != "plain"])
def test_resnet_what_learns(method, options):
    for name, found in learners(parse(nets_of("pacs", method, **options)[1]["train"])).items():
        if name in ("classifier", "domain_fc"):
            assert found == [(10, 1), (20, 0)], name
        elif "scale" in name:
            assert found == [(1, 0)] * 2, name
        elif "bn" in name or "mda" in name:
            assert found == [(0, 0)] * 3, name
        else:
            assert found == [(1, 1)], name


@pytest.mark.program
def test_resnet_resnet18_trains_on_pictures_of_its_size(pictures, tmp_path):
    train(make_experiment("pacs", "mda", **QUICK), tmp_path / "run", pictures, caffe_test=True)


SMALL = QUICK | {"image_size": 64}


@pytest.mark.program
@pytest.mark.parametrize(("method", "options"), [("source_only", {}), ("mda", {"k": 1})])
def test_resnet_resnet18_trains_without_a_branch(method, options, small_pictures, tmp_path):
    train(make_experiment("pacs", method, **SMALL, **options), tmp_path / "run", small_pictures)


@pytest.mark.program
def test_resnet_resnet18_trains_by_other_options(small_pictures, tmp_path):
    options = {"geometry": "caffe", "iter_size": 2, "test_mirror": True, "known_share": 0.5}
    record = train(make_experiment("pacs", "mda", **SMALL, **options), tmp_path / "run", small_pictures)
    assert "loss_domain" in record["last_values"]


@pytest.mark.program
def test_resnet_resnet18_trains_on_an_undivided_source(small_pictures, tmp_path):
    data = small_pictures / "pacs_64"
    mixture = data / "art_painting+cartoon+photo"
    assert program("join_lmdbs", *(data / name for name in mixture.name.split("+")), mixture).returncode == 0
    assert lmdb_io.count(mixture) == 3 * 14
    record = train(make_experiment("pacs", "mda", undivided=True, **SMALL), tmp_path / "run", small_pictures)
    # The divided LMDBs lie beside it, so it can be told how the branch divided the mixture.
    assert record["domain_usage"]["sources"] == ["art_painting", "cartoon", "photo"]
