"""The nets of every method, read as graphs and run in Caffe on real LMDBs."""

import json
from pathlib import Path

import caffe
import numpy as np
import pytest
from caffe.proto import caffe_pb2

from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.experiment.methods import CONTROLS, METHODS
from latent_domains.models.graph import kind
from latent_domains.runs.domain_labels import UNKNOWN, write_domain_labels
from tests.latent_domains.nets import experiments
from tests.latent_domains.nets.graphs import layers, parse

BATCH = 8


def nets_of(method: str, data: Path | str = "data", **options) -> tuple[Experiment, dict[str, str]]:
    return experiments.nets_of("digits", method, data=data, test_batch=10, batch_size=BATCH, **options)


def load(text: str, folder: Path, phase: int) -> caffe.Net:
    file = folder / "net.prototxt"
    file.write_text(text)
    return caffe.Net(str(file), phase)


def losses(net: caffe_pb2.NetParameter) -> dict[str, float]:
    found = {}
    for layer in net.layer:
        if kind(layer) == "SoftmaxWithLoss":
            found[layer.name] = layer.loss_weight[0] if layer.loss_weight else 1.0
        elif kind(layer) == "EntropyLossLayer":
            found[layer.name] = layer.loss_weight[0]
    return found


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        ("plain", {}, {"loss_class": 1}),
        ("source_only", {}, {"loss_class": 1}),
        ("dial", {}, {"loss_class": 1, "entropy_class": 0.1}),
        ("multi_source", {}, {"loss_class": 1, "entropy_class": 0.1}),
        ("random_w", {}, {"loss_class": 1, "entropy_class": 0.1}),
        ("kmeans_w", {"k": 3}, {"loss_class": 1, "entropy_class": 0.1}),
        ("mda", {}, {"loss_class": 1, "entropy_class": 0.1, "entropy_domain": 0.1}),
        (
            "mda",
            {"lambda_b": 0.3},
            {"loss_class": 1, "entropy_class": 0.1, "entropy_domain": 0.1, "domain_balance": -0.3},
        ),
        (
            "mda",
            {"known_share": 0.2, "domain_label_lmdbs": {"mnist": "a", "mnistm": "b"}},
            {"loss_class": 1, "entropy_class": 0.1, "entropy_domain": 0.1, "loss_domain": 0.5},
        ),
    ],
)
def test_family_loss_terms_are_those_of_equation_7(method, options, expected):
    assert losses(parse(nets_of(method, **options)[1]["train"])) == pytest.approx(expected)


@pytest.mark.parametrize("method", METHODS)
def test_family_every_layer_with_parameters_is_normalised(method):
    layers = parse(nets_of(method)[1]["train"]).layer
    norm = "BatchNorm" if method == "source_only" else "MDALayer"
    normalised = {layer.bottom[0] for layer in layers if kind(layer) == norm and not layer.name.startswith("domain")}
    assert normalised == (set() if method == "plain" else {"conv1", "conv2", "fc3", "fc4", "fc5"})


@pytest.mark.parametrize("method", [method for method in METHODS if method not in CONTROLS])
@pytest.mark.parametrize("sources", [("mnist",), ("mnist", "mnistm")])
def test_family_nets_train_and_test_in_caffe(method, sources, tiny_data, tmp_path):
    _, nets = nets_of(method, tiny_data, sources=sources)
    train = load(nets["train"], tmp_path, caffe.TRAIN)
    outputs = train.forward()
    train.backward()
    rows = BATCH * (len(sources) + (METHODS[method].sees_target))
    first = "data" if rows > BATCH else "data_mnist"
    assert train.blobs[first].data.shape == (rows, 3, 28, 28)
    assert all(np.isfinite(value).all() for value in outputs.values())
    assert set(outputs) == set(losses(parse(nets["train"]))) | {"source_accuracy"}
    for name, blobs in train.params.items():
        for i, blob in enumerate(blobs):
            assert np.isfinite(blob.diff).all(), f"{name}[{i}]"
    test = load(nets["test"], tmp_path, caffe.TEST)
    test.share_with(train)
    assert 0 <= test.forward()["accuracy"] <= 1
    deploy = load(nets["deploy"], tmp_path, caffe.TEST)
    deploy.share_with(train)
    deploy.blobs["data"].reshape(5, 3, 28, 28)
    assert np.allclose(deploy.forward()["prob"].sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_family_w_of_mda_is_the_branchs_softmax_for_sources_and_one_hot_for_the_target(k, tiny_data, tmp_path):
    _, nets = nets_of("mda", tiny_data, k=k)
    net = load(nets["train"], tmp_path, caffe.TRAIN)
    net.forward()
    w, logits = net.blobs["w"].data, net.blobs["domain_fc4"].data.astype(float)
    softmax = np.exp(logits - logits.max(axis=1, keepdims=True))
    softmax /= softmax.sum(axis=1, keepdims=True)
    assert w.shape == (3 * BATCH, k + 1)
    np.testing.assert_allclose(w[: 2 * BATCH, :k], softmax, atol=1e-6)
    assert not w[: 2 * BATCH, k].any()
    assert not w[2 * BATCH :, :k].any()
    assert (w[2 * BATCH :, k] == 1).all()


@pytest.mark.parametrize("held", [False, True])
def test_family_permuted_w_stays_in_its_class_and_source_and_gradients_find_their_row(held, tiny_data, tmp_path):
    settings = {"branch_norm": "logits", "lambda_d": 0.0, "no_w_gradient": held}
    net = load(nets_of("mda", tiny_data, permuted_w=True, **settings)[1]["train"], tmp_path, caffe.TRAIN)
    net.forward()
    predicted, w = (net.blobs[name].data for name in ("w_source", "w"))
    places = net.blobs["w_places"].data.astype(int)
    assert (places != np.arange(2 * BATCH)).any() and (places // BATCH == np.repeat([0, 1], BATCH)).all()
    labels = net.blobs["label"].data
    assert (labels[places] == labels).all()
    np.testing.assert_array_equal(w[: 2 * BATCH], predicted[places])
    net.backward()
    if not held:
        np.testing.assert_array_equal(net.blobs["w_source"].diff[places], net.blobs["w_permuted"].diff)
    assert (np.abs(net.params["domain_conv2"][0].diff).max() > 0) != held


@pytest.mark.parametrize(("method", "columns"), [("dial", [0, 0, 1]), ("multi_source", [0, 1, 2])])
def test_family_w_of_known_domains_is_one_hot(method, columns, tiny_data, tmp_path):
    experiment, nets = nets_of(method, tiny_data)
    net = load(nets["train"], tmp_path, caffe.TRAIN)
    net.forward()
    np.testing.assert_array_equal(net.blobs["w"].data, np.eye(experiment.num_domains)[np.repeat(columns, BATCH)])


@pytest.mark.parametrize("method", CONTROLS)
@pytest.mark.parametrize("k", [2, 3])
def test_family_w_of_a_control_is_what_its_labels_say(method, k, tiny_data, tmp_path):
    """Those of ghost parts come in orders of their own: each image meets another one in each epoch."""
    labels = {"mnist": [i % k for i in range(48)], "mnistm": [(i + 1) % k for i in range(48)]}
    for source, values in labels.items():
        write_domain_labels(tmp_path / source, values)
    lmdbs = {source: str(tmp_path / source) for source in labels}
    _, nets = nets_of(method, tiny_data, k=k, domain_label_lmdbs=lmdbs)
    net, met = load(nets["train"], tmp_path, caffe.TRAIN), []
    for start in range(0, 96, BATCH):
        outputs = net.forward()
        columns = [*(labels["mnist"] * 2)[start:][:BATCH], *(labels["mnistm"] * 2)[start:][:BATCH], *[k] * BATCH]
        w = net.blobs["w"].data
        if method == "ghost_w":
            met.append(w.argmax(axis=1)[: 2 * BATCH].reshape(2, BATCH))
            columns[: 2 * BATCH] = met[-1].ravel()
        np.testing.assert_array_equal(w, np.eye(k + 1)[columns])
    if method == "ghost_w":
        epochs = np.concatenate(met, axis=1).reshape(2, 2, 48)  # source, epoch, image
        assert (np.sort(epochs) == np.sort(list(labels.values()))[:, None]).all()
        assert (epochs[:, 0] != epochs[:, 1]).any(axis=1).all() and (epochs[0] != epochs[1]).any()
    assert set(outputs) == {"loss_class", "entropy_class", "source_accuracy"}
    assert "domains" not in nets and not [name for name in net.params if name.startswith("domain")]


def test_family_known_domain_labels_fix_w_and_reach_the_domain_loss(tiny_data, tmp_path):
    labels = {"mnist": [0, UNKNOWN] * 24, "mnistm": [UNKNOWN, 1] * 24}
    for source, values in labels.items():
        write_domain_labels(tmp_path / source, values)
    lmdbs = {source: str(tmp_path / source) for source in labels}
    _, nets = nets_of("mda", tiny_data, known_share=0.5, domain_label_lmdbs=lmdbs)
    net = load(nets["train"], tmp_path, caffe.TRAIN)
    outputs = net.forward()
    w, logits = net.blobs["w"].data[: 2 * BATCH, :2], net.blobs["domain_fc4"].data.astype(float)
    log_softmax = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    known = np.array((labels["mnist"] * 24)[:BATCH] + (labels["mnistm"] * 24)[:BATCH])
    np.testing.assert_array_equal(w[known >= 0], np.eye(2)[known[known >= 0]])
    np.testing.assert_allclose(w[known < 0], np.exp(log_softmax)[known < 0], atol=1e-6)
    rows = np.flatnonzero(known >= 0)
    assert outputs["loss_domain"] == pytest.approx(-log_softmax[rows, known[rows]].mean(), abs=1e-5)
    entropy = -(np.exp(log_softmax) * log_softmax).sum(axis=1)
    assert outputs["entropy_domain"] == pytest.approx(entropy[known < 0].mean(), abs=1e-5)


def test_family_balance_term_is_the_entropy_of_the_mean_assignment(tiny_data, tmp_path):
    _, nets = nets_of("mda", tiny_data, k=3, lambda_b=0.3)
    net = load(nets["train"], tmp_path, caffe.TRAIN)
    outputs = net.forward()
    mean = net.blobs["w"].data[: 2 * BATCH, :3].astype(float).mean(axis=0)
    assert outputs["domain_balance"] == pytest.approx(-(mean * np.log(mean)).sum(), abs=1e-4)
    for layer in ("loss_class", "entropy_class", "entropy_domain"):
        net.blobs[layer].diff[...] = 0
    net.backward()
    assert np.abs(net.params["domain_fc4"][0].diff).max() > 0


def test_family_domain_label_lmdbs_must_fit_the_known_share():
    with pytest.raises(ValueError, match="domain_label_lmdbs"):
        nets_of("mda", known_share=0.5)
    with pytest.raises(ValueError, match="domain_label_lmdbs"):
        nets_of("mda", domain_label_lmdbs={"mnist": "a", "mnistm": "b"})


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
def test_family_loss_weights_crops_and_means(dataset, lambdas, crop, mean, scale):
    sources = make_experiment(dataset, "mda").sources
    known = {source: f"known/{source}" for source in sources}
    experiment, nets = experiments.nets_of(dataset, known_share=0.1, domain_label_lmdbs=known)
    net = layers(nets["train"])
    found = tuple(net[name].loss_weight[0] for name in ("entropy_class", "entropy_domain", "loss_domain"))
    assert found == pytest.approx(lambdas)
    if experiment.method.has_target_branch:
        assert net["entropy_target_domain"].loss_weight[0] == pytest.approx(lambdas[1])
    for phase in ("train", *experiment.task.tests):
        for layer in parse(nets[phase]).layer:
            if layer.type == "Data" and not layer.name.startswith("domain_label"):
                transform = layer.transform_param
                assert (transform.crop_size, list(transform.mean_value)) == (crop, mean)
                assert transform.scale == pytest.approx(scale)


@pytest.mark.parametrize(
    ("dataset", "options"),
    [
        ("digits", {}),
        ("office31", {"branch_norm": "centred"}),
        ("office_caltech_fc7", {"branch_norm": "logits"}),
        ("pacs", {}),
        ("pacs_lite0", {"branch_input": "early"}),
    ],
)
def test_family_running_averages_and_eps(dataset, options):
    for method, chosen in (("mda", options), ("source_only", {})):
        for layer in parse(experiments.nets_of(dataset, method, **chosen)[1]["train"]).layer:
            if kind(layer) == "MDALayer":
                values = json.loads(layer.python_param.param_str)
                assert values["moving_average_fraction"] == 0.95 and "eps" not in values  # the layer's default, 1e-5
            if layer.type == "BatchNorm":
                p = layer.batch_norm_param
                assert p.moving_average_fraction == pytest.approx(0.95) and p.eps == pytest.approx(1e-5)


def test_family_only_training_images_are_mirrored_and_only_where_the_paper_does():
    for dataset, mirrored in (("pacs", True), ("office31", False)):
        _, nets = experiments.nets_of(dataset)
        for name in ("train", "test"):
            flags = {layer.transform_param.mirror for layer in parse(nets[name]).layer if layer.type == "Data"}
            assert flags == {mirrored and name == "train"}
    assert {
        layer.transform_param.mirror
        for layer in parse(experiments.nets_of("pacs", test_mirror=True)[1]["test"]).layer
        if layer.type == "Data"
    } == {True}
