"""Train, test, deploy and domain nets of an experiment: one family for all methods and networks."""

from collections.abc import Mapping

from caffe import NetSpec
from caffe import layers as L
from caffe.net_spec import Top
from caffe.proto.caffe_pb2 import PoolingParameter

from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import NETWORKS
from latent_domains.models.prototxt import Comment, net_text
from latent_domains.nets import domains, losses
from latent_domains.nets.inputs import Batch, images, training_batch
from latent_domains.networks.blocks import Normalisation
from latent_domains.networks.network import Network

COMMENTS: tuple[Comment, ...] = (
    (
        lambda layer: layer.data_param.HasField("shuffle_seed"),
        "Each epoch has an order of its own. Stock Caffe knows no shuffle_seed; without it the LMDB's order is read.",
    ),
    (
        lambda layer: layer.data_param.HasField("records"),
        "All classes are read in equal shares. Stock Caffe knows no records; without it each record is read once.",
    ),
    (
        lambda layer: len(layer.convolution_param.pad_end) > 0,
        "As TensorFlow pads: more behind the last row and column than before the first. Stock Caffe knows no pad_end.",
    ),
    (
        lambda layer: layer.type == "Data" and len(layer.top) == 1 and layer.name.startswith("data_"),
        "Target images come without a label top: nothing in this net can see their labels.",
    ),
    (
        lambda layer: layer.type == "Data" and layer.name.startswith("domain_label_"),
        "Known domains of the source images, one record for each of theirs; -1 where unknown.",
    ),
    (
        lambda layer: layer.type == "Slice" and layer.top[0] == "log_w_nchw",
        "Of a file: the logarithms of w (0 where unknown), 1 where unknown, and the most probable domain (-1).",
    ),
    (
        lambda layer: layer.type == "Convolution" and len(layer.param) > 0 and layer.param[0].lr_mult == 0,
        "The convolutions are frozen, as in the paper: they come from ImageNet.",
    ),
    (
        lambda layer: layer.pooling_param.round_mode == PoolingParameter.FLOOR,
        "As Torch pools: padded, and rounded down where Caffe rounds up.",
    ),
    (
        lambda layer: layer.type == "Slice" and layer.top[0] in ("stem_source", "domain_features"),
        "Sources and targets part ways: a branch predicts the domains of its own images alone.",
    ),
    (
        lambda layer: layer.type == "DummyData" and layer.dummy_data_param.shape[0].dim[1] == 1,
        "A group of one known domain: the softmax over one constant logit is 1.",
    ),
    (
        lambda layer: layer.name == "w",
        "w: a row of domain probabilities for each image, the sources' rows first.",
    ),
    (
        lambda layer: layer.python_param.layer == "MDALayer",
        "mDA, then a Scale that all domains share. The three blobs of mDA (sums of means and of variances, and their\n"
        "# divisor) are its own: it updates them in forward, the solver must not.",
    ),
)


def network_of(experiment: Experiment) -> Network:
    """Return the network of the experiment's nets."""
    return NETWORKS[experiment.net.network]


def make_nets(
    experiment: Experiment,
    data_folder: str,
    *,
    sizes: Mapping[str, int],
    test_batch_sizes: Mapping[str, int],
    domain_label_lmdbs: Mapping[str, str] | None = None,
    record_files: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the nets of ``experiment`` as prototxt, with the images' LMDBs under ``data_folder``.

    By name: ``train``; a test net for each target (``experiment.task.tests``); ``deploy``; and ``domains`` if a branch
    predicts domains. ``sizes`` are the rows of a training batch by part
    (:func:`latent_domains.experiment.batches.batch_sizes`), ``test_batch_sizes`` those of a test batch by target.
    ``domain_label_lmdbs`` names, for each part of the sources in order, the LMDB of its domain labels (in the order of
    its images); it is needed exactly when the experiment reads such labels. ``record_files`` names, likewise, files
    with the numbers of the records to read, if not every record is read once (``equal_classes``).
    """
    known, records, parts = (
        dict(domain_label_lmdbs or {}),
        dict(record_files or {}),
        list(experiment.task.source_inputs),
    )
    for name, found, is_read in (
        ("domain_label_lmdbs", known, experiment.reads_domain_labels),
        ("record_files", records, experiment.recipe.equal_classes),
    ):
        if list(found) != (needed := parts if is_read else []):
            raise ValueError(f"{name}: got {list(found)}, expected {needed}")
    nets = {"train": train_net(experiment, sizes, data_folder, known, records)}
    for name, target in experiment.task.tests.items():
        nets[name] = test_net(experiment, target, data_folder, test_batch_sizes[target])
    nets["deploy"] = deploy_net(experiment)
    if experiment.method.predicts_domains:
        nets["domains"] = domain_net(experiment)
    title = f"{experiment.dataset}_{experiment.method.name}"
    return {name: net_text(f"{title}_{name}", net.to_proto(), COMMENTS) for name, net in nets.items()}


def train_net(
    experiment: Experiment,
    sizes: Mapping[str, int],
    data_folder: str,
    domain_label_lmdbs: Mapping[str, str],
    record_files: Mapping[str, str],
) -> NetSpec:
    """Return the training net. Source rows come first in every blob; no blob has target labels."""
    network = network_of(experiment)
    n = NetSpec()
    batch = training_batch(n, experiment, sizes, data_folder, domain_label_lmdbs, record_files)
    stem = network.stem(n, batch.data, experiment)
    source_logits, target_logits = _domain_logits(n, experiment, batch, stem)
    w = None
    if experiment.method.sees_target:
        w = domains.assignment_rows(n, experiment, sizes, batch, source_logits, target_logits)
    scores = network.scores(n, stem, _normalisation(experiment, w), experiment)
    if not experiment.method.sees_target:
        losses.classification(n, scores, batch.labels)
        return n
    n.scores_source, n.scores_target = batch.split(scores)
    losses.classification(n, n.scores_source, batch.labels)
    losses.target_entropy(n, experiment, n.scores_target)
    if source_logits is not None:
        losses.domain_prediction(n, experiment, source_logits, batch.domain_labels)
    if target_logits is not None:
        losses.target_domain_prediction(n, experiment, target_logits)
    return n


def test_net(experiment: Experiment, target: str, data_folder: str, batch_size: int) -> NetSpec:
    """Return the test net: accuracy on a target's test images, with the target's running statistics."""
    n = NetSpec()
    lmdb = f"{data_folder}/{experiment.data.test_lmdb(target)}"
    data = images(n, "data", experiment, lmdb, batch_size, "label", mirror=experiment.recipe.test_mirror)
    n[experiment.task.accuracy_name(target)] = L.Accuracy(_target_scores(n, experiment, data), n.label)
    return n


def deploy_net(experiment: Experiment) -> NetSpec:
    """Return the deploy net: class probabilities of target images with the target's statistics.

    It has a branch only if there are several latent target domains.
    """
    n = _with_input(experiment)
    n.prob = L.Softmax(_target_scores(n, experiment, n.data))
    return n


def domain_net(experiment: Experiment) -> NetSpec:
    """Return only the stem and the branches: probabilities of the latent source and target domains (N×k)."""
    n = _with_input(experiment)
    stem = network_of(experiment).stem(n, n.data, experiment)
    if experiment.method.has_branch:
        n.domain_prob = L.Softmax(_logits(n, experiment, stem, experiment.k, _SOURCE))
    if experiment.method.has_target_branch:
        n.target_domain_prob = L.Softmax(_logits(n, experiment, stem, experiment.k_target, _TARGET))
    return n


_SOURCE, _TARGET = "domain", "target_domain"
"""Prefixes of the names of each branch's layers."""


def _with_input(experiment: Experiment) -> NetSpec:
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, *experiment.data.shape]})
    return n


def _domain_logits(n: NetSpec, experiment: Experiment, batch: Batch, stem: Top) -> tuple[Top | None, Top | None]:
    """Return logits of the source rows (n×k) and of the target rows (n×k_target); None without a branch for them.

    The branches share nothing but the stem.
    """
    network = network_of(experiment)
    if not experiment.method.predicts_domains:
        return None, None
    if not network.branch_sees_all:
        n.stem_source, n.stem_target = batch.split(stem)
    source = target = None
    if experiment.method.has_branch:
        rows = _own_rows(n, experiment, batch, stem, _SOURCE)
        source = network.domain_classifier.logits(n, rows, experiment, experiment.k, _SOURCE)
    elif not network.branch_sees_all:
        _silence(n, "stem_source")
    if experiment.method.has_target_branch:
        rows = _own_rows(n, experiment, batch, stem, _TARGET)
        target = network.domain_classifier.logits(n, rows, experiment, experiment.k_target, _TARGET)
    elif not network.branch_sees_all:
        _silence(n, "stem_target")
    return source, target


def _own_rows(n: NetSpec, experiment: Experiment, batch: Batch, stem: Top, prefix: str) -> Top:
    """Return the features of a branch for its own rows: the sources' or the targets'."""
    network = network_of(experiment)
    if not network.branch_sees_all:
        return network.branch(n, n.stem_source if prefix == _SOURCE else n.stem_target, experiment, prefix)
    own, unused = f"{prefix}_features", f"{prefix}_features_unused"
    parts = (own, unused) if prefix == _SOURCE else (unused, own)
    n[parts[0]], n[parts[1]] = batch.split(network.branch(n, stem, experiment, prefix))
    _silence(n, unused)
    return n[own]


def _logits(n: NetSpec, experiment: Experiment, stem: Top, k: int, prefix: str) -> Top:
    """Return domain logits (N×k) of images that all belong to the branch's group."""
    network = network_of(experiment)
    return network.domain_classifier.logits(n, network.branch(n, stem, experiment, prefix), experiment, k, prefix)


def _silence(n: NetSpec, name: str) -> None:
    n[f"silence_{name}"] = L.Silence(n[name], ntop=0)


def _target_scores(n: NetSpec, experiment: Experiment, data: Top) -> Top:
    network = network_of(experiment)
    stem = network.stem(n, data, experiment)
    w = None
    if experiment.method.has_target_branch:
        logits = _logits(n, experiment, stem, experiment.k_target, _TARGET)
        w = domains.target_assignment(n, experiment, logits)
    return network.scores(n, stem, _normalisation(experiment, w), experiment)


def _normalisation(experiment: Experiment, w: Top | None) -> Normalisation:
    method, fraction = experiment.method, experiment.recipe.moving_average_fraction
    trains_branch = not (method.predicts_domains and method.no_w_gradient)
    return Normalisation(method.normalisation, experiment.num_domains, fraction, w, w_gradient=trains_branch)
