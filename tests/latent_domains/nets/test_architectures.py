"""AlexNet, its fc7 features and ResNet18, read as graphs."""

import json

import pytest

from latent_domains.experiment.experiment import METHODS, SOURCE_ONLY, make_experiment
from latent_domains.nets.committed import FEATURES, committed_files, default_experiments
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import STATISTICS, kind, learners, parameters_above, parse

RESIDUAL = [f"{stage}{block}_branch{part}" for stage in "2345" for block in "ab" for part in ("2a", "2b")] + [
    f"{stage}a_branch1" for stage in "345"
]


def layers(text: str) -> dict[str, object]:
    return {layer.name: layer for layer in parse(text).layer}


# --- AlexNet


CONVOLUTIONS = ("conv1", "conv2", "conv3", "conv4", "conv5")

BVLC = (
    # name, type, bottom, top and what matters of BVLC's AlexNet up to fc7, whose weights are to be loaded
    ("conv1", "Convolution", "data", "conv1", {"num_output": 96, "kernel_size": [11], "stride": [4]}),
    ("relu1", "ReLU", "conv1", "conv1", {}),
    ("norm1", "LRN", "conv1", "norm1", {"local_size": 5, "alpha": 1e-4, "beta": 0.75}),
    ("pool1", "Pooling", "norm1", "pool1", {"pool": 0, "kernel_size": 3, "stride": 2, "pad": 0, "round_mode": 0}),
    ("conv2", "Convolution", "pool1", "conv2", {"num_output": 256, "kernel_size": [5], "pad": [2], "group": 2}),
    ("relu2", "ReLU", "conv2", "conv2", {}),
    ("norm2", "LRN", "conv2", "norm2", {"local_size": 5, "alpha": 1e-4, "beta": 0.75}),
    ("pool2", "Pooling", "norm2", "pool2", {"pool": 0, "kernel_size": 3, "stride": 2, "pad": 0, "round_mode": 0}),
    ("conv3", "Convolution", "pool2", "conv3", {"num_output": 384, "kernel_size": [3], "pad": [1], "group": 1}),
    ("relu3", "ReLU", "conv3", "conv3", {}),
    ("conv4", "Convolution", "conv3", "conv4", {"num_output": 384, "kernel_size": [3], "pad": [1], "group": 2}),
    ("relu4", "ReLU", "conv4", "conv4", {}),
    ("conv5", "Convolution", "conv4", "conv5", {"num_output": 256, "kernel_size": [3], "pad": [1], "group": 2}),
    ("relu5", "ReLU", "conv5", "conv5", {}),
    ("pool5", "Pooling", "conv5", "pool5", {"pool": 0, "kernel_size": 3, "stride": 2, "pad": 0, "round_mode": 0}),
    ("fc6", "InnerProduct", "pool5", "fc6", {"num_output": 4096, "bias_term": True}),
    ("relu6", "ReLU", "fc6", "fc6", {}),
    ("fc7", "InnerProduct", "fc6", "fc7", {"num_output": 4096, "bias_term": True}),
)


def settings(layer) -> object:
    """The parameters of a layer's own type."""
    fields = {"Convolution": "convolution", "LRN": "lrn", "Pooling": "pooling", "InnerProduct": "inner_product"}
    return getattr(layer, f"{fields[layer.type]}_param")


def test_alexnet_up_to_fc7_is_bvlcs():
    net = list(parse(committed_files()[FEATURES]).layer)
    assert net[0].type == "Input" and len(net) == 1 + len(BVLC)
    for layer, (name, kind_, bottom, top, expected) in zip(net[1:], BVLC, strict=True):
        assert (layer.name, layer.type, list(layer.bottom), list(layer.top)) == (name, kind_, [bottom], [top])
        for field, value in expected.items():
            found = getattr(settings(layer), field)
            assert (found if isinstance(value, (int, float)) else list(found)) == pytest.approx(value), (name, field)


@pytest.mark.parametrize("method", METHODS)
def test_every_alexnet_has_the_layers_of_bvlcs(method):
    bvlc = {layer.name: layer for layer in parse(committed_files()[FEATURES]).layer if layer.type != "ReLU"}
    for phase in ("train", "test", "deploy"):
        net = layers(nets_of("office31", method)[1][phase])
        assert "fc8" not in net
        for name, layer in bvlc.items():
            if name != "data":
                assert settings(net[name]) == settings(layer), (phase, name)
        for name in ("conv1", "norm1", "pool1", "conv2", "norm2", "pool2", "conv3", "conv4", "conv5", "pool5", "fc6"):
            assert list(net[name].bottom) == list(bvlc[name].bottom), (phase, name)


@pytest.mark.parametrize("dataset", ["office31", "office_caltech", "office31_fc7", "office_caltech_fc7"])
@pytest.mark.parametrize("method", METHODS)
def test_what_learns_in_alexnet(dataset, method):
    experiment, nets = nets_of(dataset, method)
    found = learners(parse(nets["train"]))
    expected = {}
    normalised = ["fc7", "classifier"]
    if not dataset.endswith("_fc7"):
        expected = {name: [(0, 0), (0, 0)] for name in CONVOLUTIONS}
        expected |= {"fc6": [(1, 1), (2, 0)], "fc7": [(1, 1), (2, 0)]}
        normalised.insert(0, "fc6")
    if method == "plain":
        expected["classifier"] = [(10, 1), (20, 0)]
    else:
        norm = "bn" if method == "source_only" else "mda"
        expected["classifier"] = [(10, 1)]
        for name in normalised:
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


def test_resnet_has_the_layers_of_resnet18():
    net = layers(nets_of("pacs")[1]["deploy"])
    p = net["conv1"].convolution_param
    assert (p.num_output, p.kernel_size[0], p.stride[0], p.pad[0], p.bias_term) == (64, 7, 2, 3, False)
    filters = {"2": 64, "3": 128, "4": 256, "5": 512}
    below = "pool1"
    for stage in "2345":
        for block in "ab":
            name = f"{stage}{block}"
            halved = [2] if block == "a" and stage != "2" else []
            for part, bottom, kernel, stride in (
                ("branch2a", below, 3, halved),
                ("branch2b", f"scale{name}_branch2a", 3, []),
                ("branch1", below, 1, [2]),
            ):
                if part == "branch1" and not halved:
                    assert f"res{name}_branch1" not in net
                    continue
                layer = net[f"res{name}_{part}"]
                p = layer.convolution_param
                assert list(layer.bottom) == [bottom] and not p.bias_term
                assert (p.num_output, list(p.kernel_size), list(p.stride)) == (filters[stage], [kernel], stride)
                assert list(p.pad) == ([1] if kernel == 3 else [])
            shortcut = f"scale{name}_branch1" if halved else below
            assert list(net[f"res{name}"].bottom) == [shortcut, f"scale{name}_branch2b"]
            below = f"res{name}"
    assert list(net["pool5"].bottom) == ["res5b"] and net["pool5"].pooling_param.global_pooling
    assert list(net["classifier"].bottom) == ["pool5"]


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
        "w_amazon_logits",
        "w_amazon",
        "w_caltech_logits",
        "w_caltech",
        "w_target",
    ]


@pytest.mark.parametrize(
    ("sources", "targets"),
    [
        (("amazon", "caltech"), ("webcam", "dslr")),
        (("webcam", "dslr"), ("amazon", "caltech")),
        (("caltech", "webcam", "dslr"), ("amazon",)),
    ],
)
@pytest.mark.parametrize("dataset", ["office_caltech", "office_caltech_fc7"])
def test_every_setting_of_office_caltech(dataset, sources, targets):
    experiment, nets = nets_of(dataset, sources=sources, targets=targets)
    assert (experiment.k, experiment.k_target) == (len(sources), len(targets))
    assert ("target_domain_fc" in layers(nets["deploy"])) == (len(targets) > 1)


# --- the paper's values


@pytest.mark.parametrize(
    ("dataset", "lambdas", "crop", "mean", "scale"),
    [
        ("digits", (0.1, 0.1, 0.5), 0, [127.5], 1 / 128),
        ("office31", (0.2, 0.2, 0.5), 227, [104, 117, 123], 1),
        ("office_caltech", (0.2, 0.2, 0.5), 227, [104, 117, 123], 1),
        ("pacs", (0.1, 0.0001, 0.5), 224, [104, 117, 123], 1),
        ("office31_fc7", (0.2, 0.2, 0.5), 0, [], 1),
        ("office_caltech_fc7", (0.2, 0.2, 0.5), 0, [], 1),
    ],
)
def test_loss_weights_crops_and_means(dataset, lambdas, crop, mean, scale):
    sources = make_experiment(dataset, "mda").sources
    known = {source: f"known/{source}" for source in sources}
    experiment, nets = nets_of(dataset, known_share=0.1, domain_label_lmdbs=known)
    net = layers(nets["train"])
    found = tuple(net[name].loss_weight[0] for name in ("entropy_class", "entropy_domain", "loss_domain"))
    assert found == pytest.approx(lambdas)
    if experiment.has_target_branch:
        assert net["entropy_target_domain"].loss_weight[0] == pytest.approx(lambdas[1])
    for phase in ("train", *experiment.tests):
        for layer in parse(nets[phase]).layer:
            if layer.type == "Data" and not layer.name.startswith("domain_label"):
                transform = layer.transform_param
                assert (transform.crop_size, list(transform.mean_value)) == (crop, mean)
                assert transform.scale == pytest.approx(scale)


@pytest.mark.parametrize("dataset", ["digits", "office31", "office_caltech_fc7", "pacs"])
def test_running_averages_and_eps(dataset):
    for method in ("mda", "source_only"):
        for layer in parse(nets_of(dataset, method)[1]["train"]).layer:
            if kind(layer) == "MDALayer":
                values = json.loads(layer.python_param.param_str)
                assert values["moving_average_fraction"] == 0.95 and "eps" not in values  # the layer's default, 1e-5
            if layer.type == "BatchNorm":
                p = layer.batch_norm_param
                assert p.moving_average_fraction == pytest.approx(0.95) and p.eps == pytest.approx(1e-5)


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
