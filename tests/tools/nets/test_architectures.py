"""AlexNet, its fc7 features and ResNet18, read as graphs."""

import pytest

from tests.tools.nets.graphs import STATISTICS, kind, learners, parameters_above, parse
from tools.batches import batch_sizes, published_counts
from tools.experiment import METHODS, SOURCE_ONLY, Experiment, make_experiment
from tools.nets import make_nets
from tools.nets.committed import default_experiments

RESIDUAL = [f"{stage}{block}_branch{part}" for stage in "2345" for block in "ab" for part in ("2a", "2b")] + [
    f"{stage}a_branch1" for stage in "345"
]


def nets_of(dataset: str, method: str = "mda", **options) -> tuple[Experiment, dict[str, str]]:
    labels = options.pop("domain_label_lmdbs", None)
    experiment = make_experiment(dataset, method, **options)
    sizes = batch_sizes(experiment, published_counts(experiment))
    tests = dict.fromkeys(experiment.targets, 5)
    return experiment, make_nets(
        experiment, "data", sizes=sizes, test_batch_sizes=tests, domain_label_lmdbs=labels
    )


def layers(text: str) -> dict[str, object]:
    return {layer.name: layer for layer in parse(text).layer}


# --- AlexNet


CONVOLUTIONS = {
    # name: (num_output, kernel_size, stride, pad, group) of BVLC's AlexNet
    "conv1": (96, 11, 4, 0, 1),
    "conv2": (256, 5, 1, 2, 2),
    "conv3": (384, 3, 1, 1, 1),
    "conv4": (384, 3, 1, 1, 2),
    "conv5": (256, 3, 1, 1, 2),
}


def test_alexnet_has_bvlcs_layers():
    net = layers(nets_of("office31")[1]["train"])
    for name, expected in CONVOLUTIONS.items():
        p = net[name].convolution_param
        found = (p.num_output, p.kernel_size[0], p.stride[0] if p.stride else 1, p.pad[0] if p.pad else 0, p.group)
        assert found == expected and p.bias_term, name
    assert [name for name in net if name.startswith("norm")] == ["norm1", "norm2"]
    assert {(net[n].lrn_param.local_size, round(net[n].lrn_param.alpha, 6)) for n in ("norm1", "norm2")} == {(5, 1e-4)}
    pools = {name: net[name].pooling_param for name in ("pool1", "pool2", "pool5")}
    assert {(p.kernel_size, p.stride, p.pool) for p in pools.values()} == {(3, 2, 0)}
    for name in ("fc6", "fc7"):
        assert net[name].inner_product_param.num_output == 4096 and net[name].inner_product_param.bias_term
    assert "fc8" not in net


@pytest.mark.parametrize("dataset", ["office31", "office_caltech"])
@pytest.mark.parametrize("method", METHODS)
def test_what_learns_in_alexnet(dataset, method):
    experiment, nets = nets_of(dataset, method)
    found = learners(parse(nets["train"]))
    expected = {name: [(0, 0), (0, 0)] for name in CONVOLUTIONS}
    expected |= {"fc6": [(1, 1), (2, 0)], "fc7": [(1, 1), (2, 0)]}
    if method == "plain":
        expected["classifier"] = [(10, 1), (20, 0)]
    else:
        norm = "bn" if method == "source_only" else "mda"
        expected["classifier"] = [(10, 1)]
        for name in ("fc6", "fc7", "classifier"):
            expected |= {f"{name}_{norm}": [(0, 0)] * 3, f"{name}_scale": [(1, 0)] * 2}
    if experiment.has_branch:
        expected["domain_fc"] = [(10, 1), (20, 0)]
    if experiment.has_target_branch:
        expected["target_domain_fc"] = [(10, 1), (20, 0)]
    assert found == expected


def test_alexnet_normalises_before_the_activation():
    net = parse(nets_of("office31")[1]["train"])
    order = [layer.name for layer in net.layer]
    for name, relu in (("fc6", "relu6"), ("fc7", "relu7")):
        start = order.index(name)
        assert order[start : start + 4] == [name, f"{name}_mda", f"{name}_scale", relu]
    assert order[order.index("classifier") :][:3] == ["classifier", "classifier_mda", "classifier_scale"]


def test_dropout_is_where_there_is_no_normalisation():
    for method in METHODS:
        net = parse(nets_of("office31", method)[1]["train"])
        drops = [layer.name for layer in net.layer if layer.type == "Dropout"]
        assert drops == (["drop6", "drop7"] if method == "plain" else []), method


def test_branch_of_alexnet_is_that_of_the_paper():
    net = parse(nets_of("office31")[1]["train"])
    order = [kind(layer) for layer in net.layer if layer.name.startswith("domain_")]
    assert order == ["ReLU", "Pooling", "InnerProduct"]
    pool = next(layer for layer in net.layer if layer.name == "domain_pool").pooling_param
    assert pool.global_pooling and pool.pool == pool.AVE
    stem = next(layer for layer in net.layer if "stem_source" in layer.top)
    assert list(stem.bottom) == ["pool5"]


# --- fc7 features


@pytest.mark.parametrize("dataset", ["office31_fc7", "office_caltech_fc7"])
def test_features_are_normalised_and_nothing_below_is_left(dataset):
    net = layers(nets_of(dataset)[1]["train"])
    assert not [layer.name for layer in net.values() if layer.type in ("Convolution", "LRN", "Pooling")]
    assert [n for n in net if n.startswith("fc")] == ["fc7_mda", "fc7_scale"]
    assert list(net["fc7_mda"].bottom) == ["data", "w"]
    for layer in net.values():
        if layer.type == "Data":
            assert not layer.HasField("transform_param"), layer.name


def test_features_come_before_the_activation():
    net = parse(nets_of("office31_fc7")[1]["train"])
    order = [layer.name for layer in net.layer]
    assert order[order.index("fc7_mda") :][:4] == ["fc7_mda", "fc7_scale", "relu7", "classifier"]


# --- ResNet18


def test_every_bn_of_resnet_but_conv1s_is_mda():
    net = layers(nets_of("pacs")[1]["train"])
    mda = {name for name, layer in net.items() if kind(layer) == "MDALayer"}
    assert mda == {f"mda{name}" for name in RESIDUAL}
    norms = {name for name, layer in net.items() if layer.type == "BatchNorm" and not name.startswith("domain_")}
    assert norms == {"bn_conv1"}
    for name in RESIDUAL:
        assert list(net[f"mda{name}"].bottom) == [f"res{name}", "w"]
        assert list(net[f"scale{name}"].bottom) == [f"mda{name}"]


def test_source_only_resnet_has_the_names_of_caffes_resnet():
    net = layers(nets_of("pacs", "source_only")[1]["train"])
    expected = {f"{layer}{name}" for name in RESIDUAL for layer in ("res", "bn", "scale")}
    assert expected | {"conv1", "bn_conv1", "scale_conv1", "pool1", "res2a", "res5b", "classifier"} <= set(net)


@pytest.mark.parametrize(
    ("geometry", "pad", "floor", "projection"), [("torch", 1, True, False), ("caffe", 0, False, True)]
)
def test_geometries_of_resnet(geometry, pad, floor, projection):
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
    split = next(layer for layer in net.values() if "domain_logits" in layer.top)
    assert (list(split.bottom), list(split.slice_param.slice_point)) == (["domain_fc"], [36])


@pytest.mark.parametrize("method", [method for method in METHODS if method != "plain"])
def test_what_learns_in_resnet(method):
    for name, found in learners(parse(nets_of("pacs", method)[1]["train"])).items():
        if name in ("classifier", "domain_fc"):
            assert found == [(10, 1), (20, 0)], name
        elif "scale" in name:
            assert found == [(1, 0)] * 2, name
        elif "bn" in name or "mda" in name:
            assert found == [(0, 0)] * 3, name
        else:
            assert found == [(1, 1)], name


# --- several targets


@pytest.mark.parametrize("dataset", ["office_caltech", "office_caltech_fc7"])
def test_two_latent_target_branches_share_no_parameter(dataset):
    experiment, nets = nets_of(dataset)
    net = parse(nets["train"])
    # What has parameters on the ways from the logits of each group back to what both branches read.
    source, target = (parameters_above(net, w) for w in ("w_source", "w_target"))
    stem = parameters_above(net, "stem_source") | parameters_above(net, "stem_target")
    assert source - stem and target - stem
    assert not (source - stem) & (target - stem)
    shared_names = [param.name for layer in net.layer for param in layer.param if param.name]
    assert not shared_names
    assert (experiment.k, experiment.k_target, experiment.num_domains) == (2, 2, 4)


def test_each_branch_decides_about_its_own_rows():
    net = layers(nets_of("office_caltech")[1]["train"])
    assert list(net["w_source"].bottom) == ["domain_fc"] and '"first": 0' in net["w_source"].python_param.param_str
    assert list(net["w_target"].bottom) == ["target_domain_fc"]
    assert '"first": 2' in net["w_target"].python_param.param_str
    assert list(net["w"].bottom) == ["w_source", "w_target"]
    split = next(layer for layer in net.values() if "stem_target" in layer.top)
    assert list(net["target_domain_relu"].bottom) == ["stem_target"]
    rows = sum(net[f"data_{domain}"].data_param.batch_size for domain in ("amazon", "caltech"))
    assert list(split.slice_param.slice_point) == [rows]


@pytest.mark.parametrize("phase", ["test_webcam", "test_dslr", "deploy"])
def test_several_targets_need_their_branch_in_tests_too(phase):
    net = layers(nets_of("office_caltech")[1][phase])
    assert "target_domain_fc" in net and "domain_fc" not in net
    assert {tuple(layer.bottom)[1:] for layer in net.values() if kind(layer) == "MDALayer"} == {("w_target",)}


def test_each_target_has_a_test_net_of_its_own():
    experiment, nets = nets_of("office_caltech")
    assert experiment.tests == {"test_webcam": "webcam", "test_dslr": "dslr"}
    for name, target in experiment.tests.items():
        net = layers(nets[name])
        assert net["data"].data_param.source == f"data/office_caltech/{target}"
        assert f"accuracy_{target}" in net


def test_known_sources_and_latent_targets():
    net = layers(nets_of("office_caltech", "multi_source", k_target=2)[1]["train"])
    assert "target_domain_fc" in net and "domain_fc" not in net
    assert [n for n in net if n.startswith("w_")] == [
        "w_amazon_logits", "w_amazon", "w_caltech_logits", "w_caltech", "w_target",
    ]  # fmt: skip


@pytest.mark.parametrize(("sources", "targets"), [
    (("amazon", "caltech"), ("webcam", "dslr")),
    (("webcam", "dslr"), ("amazon", "caltech")),
    (("caltech", "webcam", "dslr"), ("amazon",)),
])  # fmt: skip
@pytest.mark.parametrize("dataset", ["office_caltech", "office_caltech_fc7"])
def test_every_setting_of_office_caltech(dataset, sources, targets):
    experiment, nets = nets_of(dataset, sources=sources, targets=targets)
    assert (experiment.k, experiment.k_target) == (len(sources), len(targets))
    assert ("target_domain_fc" in layers(nets["deploy"])) == (len(targets) > 1)


# --- inputs


@pytest.mark.parametrize(
    ("dataset", "method"),
    [
        (name, experiment.method)
        for name in ("office31", "office_caltech", "pacs", "office31_fc7")
        for experiment in default_experiments(name)
    ],
)
def test_a_batch_has_the_papers_size(dataset, method):
    net = layers(nets_of(dataset, method)[1]["train"])
    rows = {name: layer.data_param.batch_size for name, layer in net.items() if layer.type == "Data"}
    assert sum(rows.values()) == (48 if dataset == "pacs" else 256)
    assert ("data_sketch" in rows or "data_webcam" in rows) == (method not in SOURCE_ONLY)


def test_only_training_images_are_mirrored_and_only_where_the_paper_does():
    for dataset, mirrored in (("pacs", True), ("office31", False)):
        _, nets = nets_of(dataset)
        for name in ("train", "test"):
            flags = {layer.transform_param.mirror for layer in parse(nets[name]).layer if layer.type == "Data"}
            assert flags == {mirrored and name == "train"}
    assert {
        layer.transform_param.mirror
        for layer in parse(nets_of("pacs", test_mirror=True)[1]["test"]).layer
        if layer.type == "Data"
    } == {True}


def test_an_undivided_source_is_one_stream_of_unknown_domains():
    experiment, nets = nets_of("pacs", undivided=True)
    net = layers(nets["train"])
    data = {name: layer.data_param for name, layer in net.items() if layer.type == "Data"}
    assert {name: (p.source, p.batch_size) for name, p in data.items()} == {
        "data_art_painting+cartoon+photo": ("data/pacs/art_painting+cartoon+photo", 36),
        "data_sketch": ("data/pacs/sketch", 12),
    }
    assert experiment.k == 3 and '"num_domains": 4' in net["w_source"].python_param.param_str


def test_known_domain_labels_are_read_in_step_with_their_images():
    lmdbs = {"amazon": "known/a", "dslr": "known/d"}
    net = layers(nets_of("office31", known_share=0.05, domain_label_lmdbs=lmdbs)[1]["train"])
    for source in lmdbs:
        assert net[f"domain_label_{source}"].data_param.batch_size == net[f"data_{source}"].data_param.batch_size
    assert net["loss_domain"].loss_weight[0] == 0.5
    assert list(net["w_source"].bottom) == ["domain_fc", "domain_labels"]


def test_statistics_are_the_only_parameters_that_nobody_learns_but_the_frozen_ones():
    net = parse(nets_of("pacs")[1]["train"])
    frozen = {layer.name for layer in net.layer if layer.param and all(param.lr_mult == 0 for param in layer.param)}
    assert frozen == {layer.name for layer in net.layer if kind(layer) in STATISTICS}
