"""Train, test, deploy and domain nets of an experiment: one family for all methods and architectures."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from caffe import NetSpec
from caffe import layers as L
from caffe.net_spec import Top

from tools.experiment import Experiment
from tools.nets import domains, losses, mnist
from tools.nets.blocks import Normalisation

# An architecture is a module with stem(n, data), branch(n, stem, k) and trunk(n, stem, normalise, classes).
NETWORKS: dict[str, ModuleType] = {"mnist": mnist}


@dataclass(frozen=True)
class Nets:
    """The texts of an experiment's nets; ``domains`` is None where no branch predicts domains."""

    train: str
    test: str
    deploy: str
    domains: str | None


def make_nets(
    experiment: Experiment,
    data_folder: str,
    *,
    test_batch_size: int,
    domain_label_lmdbs: Mapping[str, str] | None = None,
) -> Nets:
    """The nets of ``experiment`` as prototxt, with the images' LMDBs under ``data_folder``.

    ``domain_label_lmdbs`` names, for each source in order, the LMDB of its known domain labels (in the order of
    the source's images); it is needed exactly when ``experiment.known_share`` is above 0.
    """
    name = f"{experiment.data.name}_{experiment.method}"
    known = dict(domain_label_lmdbs or {})
    if list(known) != (list(experiment.sources) if experiment.known_share else []):
        raise ValueError(f"domain_label_lmdbs: got {list(known)} for known share {experiment.known_share}")
    return Nets(
        train=_text(f"{name}_train", train_net(experiment, data_folder, known)),
        test=_text(f"{name}_test", test_net(experiment, data_folder, test_batch_size)),
        deploy=_text(f"{name}_deploy", deploy_net(experiment)),
        domains=_text(f"{name}_domains", domain_net(experiment))
        if experiment.has_branch
        else None,
    )


def train_net(experiment: Experiment, data_folder: str, domain_label_lmdbs: dict[str, str]) -> NetSpec:
    """The training net. Source rows come first in every blob; target labels are in no blob at all."""
    network = NETWORKS[experiment.data.network]
    n = NetSpec()
    batch = domains.training_batch(n, experiment, data_folder, domain_label_lmdbs)
    stem = network.stem(n, batch.data)
    logits = w = None
    if experiment.has_branch:
        n.stem_source, n.stem_target = _split_rows(experiment, stem)
        n.silence_stem_target = L.Silence(n.stem_target, ntop=0)
        logits = network.branch(n, n.stem_source, experiment.k)
    if experiment.method != "source_only":
        w = domains.assignment_rows(n, experiment, logits, batch.domain_labels)
    scores = network.trunk(n, stem, _normalisation(experiment, w), experiment.data.classes)
    if experiment.method == "source_only":
        losses.classification(n, scores, batch.labels)
        return n
    n.scores_source, n.scores_target = _split_rows(experiment, scores)
    losses.classification(n, n.scores_source, batch.labels)
    losses.target_entropy(n, experiment, n.scores_target)
    if logits is not None:
        losses.domain_prediction(n, experiment, logits, batch.domain_labels)
    return n


def test_net(experiment: Experiment, data_folder: str, batch_size: int) -> NetSpec:
    """Accuracy on the target's test images, with the target's running statistics."""
    n = NetSpec()
    lmdb = f"{data_folder}/{experiment.data.test_lmdb(experiment.target)}"
    data = domains.images(n, "data", experiment, lmdb, batch_size, "label")
    n.accuracy = L.Accuracy(_target_scores(n, experiment, data), n.label)
    return n


def deploy_net(experiment: Experiment) -> NetSpec:
    """Class probabilities of target images: no branch, the target's statistics."""
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, *experiment.data.shape]})
    n.prob = L.Softmax(_target_scores(n, experiment, n.data))
    return n


def domain_net(experiment: Experiment) -> NetSpec:
    """Probabilities of the latent source domains (N×k): the stem and the branch alone."""
    network = NETWORKS[experiment.data.network]
    n = NetSpec()
    n.data = L.Input(shape={"dim": [1, *experiment.data.shape]})
    n.domain_prob = L.Softmax(network.branch(n, network.stem(n, n.data), experiment.k))
    return n


def _target_scores(n: NetSpec, experiment: Experiment, data: Top) -> Top:
    network = NETWORKS[experiment.data.network]
    return network.trunk(n, network.stem(n, data), _normalisation(experiment, None), experiment.data.classes)


def _normalisation(experiment: Experiment, w: Top | None) -> Normalisation:
    num_domains = 0 if experiment.method == "source_only" else experiment.num_domains
    return Normalisation(num_domains, experiment.data.recipe.moving_average_fraction, w)


def _split_rows(experiment: Experiment, top: Top) -> tuple[Top, Top]:
    """The source rows and the target rows of a training blob."""
    return L.Slice(top, axis=0, slice_point=experiment.batch_size * len(experiment.sources), ntop=2)


def _text(name: str, net: NetSpec) -> str:
    return f'name: "{name}"\n{net.to_proto()}'
