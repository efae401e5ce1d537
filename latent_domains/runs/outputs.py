"""Outputs of a run's nets: classes of test images, domains of source images, features around the alignment."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import caffe
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.input_batches import batches
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.lmdb_io import count, count_filled, record_names
from latent_domains.data.lmdb_plans import classes_of
from latent_domains.models.classifier import blob_of_images
from latent_domains.models.graph import kind
from latent_domains.models.model import feed
from latent_domains.runs.preflight import check_data, check_nets
from latent_domains.runs.record import DomainUsage, domain_usage
from latent_domains.runs.run_folder import RunFolder, Snapshot

HISTORY_IMAGES = 1000
"""Images of each source for the history of how latent domains are used."""


def source_usage(folder: RunFolder, snapshot: Snapshot) -> DomainUsage | None:
    """Return domain usage on the source images of :func:`evaluation_lmdbs`; None if no branch predicts them."""
    if not folder.experiment.method.has_branch:
        return None
    lmdbs, held_out = evaluation_lmdbs(folder)
    return domain_usage(*domain_probabilities(folder, snapshot.model, lmdbs), held_out=held_out)


def target_usage(folder: RunFolder, snapshot: Snapshot) -> DomainUsage | None:
    """Return domain usage of the targets' branch, on their training images; None without such a branch.

    It has no NMI with classes if the labels of a target are unknown.
    """
    experiment = folder.experiment
    if not experiment.method.has_target_branch:
        return None
    lmdbs = {target: folder.train_lmdbs[target] for target in experiment.targets}
    found, labels = domain_probabilities(folder, snapshot.model, lmdbs, blob="target_domain_prob")
    return domain_usage(found, None if set(lmdbs) & set(experiment.data.unlabelled) else labels)


def usage_history(folder: RunFolder) -> list[DomainUsage]:
    """Return :func:`source_usage` on fewer images at every existing snapshot, and before training.

    There is no entry before training if the run began from given weights, or if a BatchNorm, which has no statistics
    yet, comes before the branch. Empty without a branch for source domains.
    """
    if not folder.experiment.method.has_branch:
        return []
    training, net = folder.read_training(), folder.read_net("domains")
    known = not (training and training.weights) and all(layer.type != "BatchNorm" for layer in net.layer)
    weights = {0: folder.initial} if known else {}
    weights |= {snapshot.iteration: snapshot.model for snapshot in folder.complete_snapshots()}
    lmdbs, held_out = evaluation_lmdbs(folder)
    history = []
    for iteration in sorted(weights):
        found = domain_probabilities(folder, weights[iteration], lmdbs, limit=HISTORY_IMAGES)
        history.append(domain_usage(*found, held_out=held_out).model_copy(update={"iteration": iteration}))
    return history


def source_lmdbs(folder: RunFolder) -> dict[str, Path]:
    """Return the LMDBs of the source images by their true domain; that of the undivided mixture if it is unknown."""
    experiment = folder.experiment
    lmdbs = {source: folder.data_folder / experiment.data.train_lmdb(source) for source in experiment.sources}
    if experiment.task.undivided and not all(map(is_lmdb, lmdbs.values())):
        return {part: folder.train_lmdbs[part] for part in experiment.task.source_inputs}
    return lmdbs


def evaluation_lmdbs(folder: RunFolder) -> tuple[dict[str, Path], bool]:
    """Return the LMDBs of the source images on which latent domains are judged, and whether they are held out.

    They are training images if the dataset has no test split, an LMDB of it is missing, or a source's test and training
    images share a name (the test split of PACS contains the training images as well).
    """
    data, train = folder.experiment.data, source_lmdbs(folder)
    tests = {source: folder.data_folder / data.test_lmdb(source) for source in folder.experiment.sources}
    if not data.test_split or not all(map(is_lmdb, tests.values())):
        return train, False
    for source, lmdb in tests.items():
        count_filled(lmdb)
        whole = train.get(source) or next(iter(train.values()))  # of a mixture there is no other
        if not set(record_names(lmdb)).isdisjoint(record_names(whole)):
            return train, False
    return tests, True


def domain_probabilities(
    folder: RunFolder,
    weights: Path,
    lmdbs: Mapping[str, Path],
    *,
    blob: str = "domain_prob",
    limit: int | None = None,
) -> tuple[dict[str, NDArray[np.float32]], dict[str, NDArray[np.int64]]]:
    """Return a branch's probabilities (n×k, ``blob`` of the domain net) and the labels (n), for each domain's images.

    It uses the first ``limit`` records of each of ``lmdbs``, by default the dataset's number.
    """
    data, net = folder.experiment.data, folder.load_net("domains", caffe.TEST, weights)
    limit, form = limit or data.usage_images, (data.preprocessing, data.test_batch_limit)
    rows = {domain: blob_of_images(net, blob, lmdb, *form, limit) for domain, lmdb in lmdbs.items()}
    found, labels = ({domain: pair[number] for domain, pair in rows.items()} for number in (0, 1))
    return found, labels


def confusion_counts(folder: RunFolder, snapshot: Snapshot, target: str) -> NDArray[np.int64]:
    """Return confusion counts (classes×classes; rows true, columns predicted) of the run's test net for ``target``.

    Each test image counts once, and of the last batch only the rest counts. The trace is what Caffe's Accuracy layer
    counts as correct. Refuses scores that are not numbers, as after a training that diverged.
    """
    data, images = folder.experiment.data, count(folder.test_lmdbs[target])
    rows, _ = folder.test_batches()[target]
    (name,) = (name for name, tested in folder.experiment.task.tests.items() if tested == target)
    caffe.set_random_seed(folder.experiment.seed)  # of images that are mirrored at random
    net = folder.load_net(name, caffe.TEST, snapshot.model)
    scores_blob, label_blob = net.bottom_names[folder.experiment.task.accuracy_name(target)]
    classes = data.classes
    counts = np.zeros((classes, classes), np.int64)
    for first in tqdm(range(0, images, rows), desc=f"test on {target}", unit="batch", leave=False):
        net.forward()
        scores = net.blobs[scores_blob].data.reshape(-1, classes)[: images - first]
        if np.isnan(scores).any():  # Caffe's Accuracy would count something all the same
            raise ProgramError(f"{snapshot.model}: scores on {target} are NaN: the training diverged")
        labels = net.blobs[label_blob].data.astype(np.int64).ravel()[: images - first]
        np.add.at(counts, (labels, predictions(scores, labels)), 1)
    return counts


def predictions(scores: NDArray[np.floating], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the class (n) of the largest score in each row of ``scores`` (n×classes).

    If an image's true class (``labels``, n) ties with another one, the other one is the prediction: Caffe's Accuracy
    counts this as an error.
    """
    largest = scores == scores.max(axis=1, keepdims=True)
    largest[np.arange(len(labels)), labels] &= largest.sum(axis=1) == 1
    return largest.argmax(axis=1)


def class_names(folder: RunFolder) -> list[str] | None:
    """Return the names of the classes in the order of their labels, from ``classes.txt`` beside one of the run's LMDBs.

    None if there is none, or none with as many classes as the nets have.
    """
    for lmdb in (*folder.test_lmdbs.values(), *folder.train_lmdbs.values()):
        if len(names := classes_of(lmdb)) == folder.experiment.data.classes:
            return list(names)
    return None


FEWEST = 20
"""Fewest images of a picture of features."""

_ALIGNING = ("MDALayer", "BatchNorm")
"""Layers that normalise: the first MDALayer, or the first BatchNorm if there is no MDALayer."""


@dataclass(frozen=True)
class AlignedFeatures:
    """Features of n images: ``before`` (n×p) go into the first aligning layer, ``after`` (n×q) into the classifier.

    ``before`` is None if nothing normalises. ``domains`` (n) are indices into ``names``: the sources' parts, then the
    targets. ``labels`` (n) are the classes, -1 if unknown.
    """

    before: NDArray[np.float32] | None
    after: NDArray[np.float32]
    domains: NDArray[np.int64]
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    before_blob: str | None
    after_blob: str


def aligned_features(folder: RunFolder, snapshot: Snapshot, images: int) -> AlignedFeatures:
    """Return features of about ``images`` training images, each once, with a training batch's shares of the domains.

    A run that sees the target uses its training net: there each batch is aligned with its own statistics and w. Another
    run uses its deploy net, whose statistics are the sources'. Refuses fewer than ``FEWEST`` images.
    """
    check_nets(folder)
    check_data(folder)  # Caffe would abort
    experiment = folder.experiment
    name, run_batches = ("train", _run_training_net) if experiment.method.sees_target else ("deploy", _run_deploy_net)
    lmdbs = {part: folder.train_lmdbs[part] for part in experiment.task.source_inputs}
    lmdbs |= {target: folder.data_folder / experiment.data.train_lmdb(target) for target in experiment.targets}
    blobs = _blobs(folder, name)
    found = [
        (*(net.blobs[blob].data.reshape(len(domains), -1).copy() if blob else None for blob in blobs), domains, labels)
        for net, domains, labels in run_batches(folder, snapshot, lmdbs, images)
    ]
    before, after, domains, labels = (
        None if column[0] is None else np.concatenate(column) for column in zip(*found, strict=True)
    )
    if len(after) < FEWEST:
        raise ProgramError(f"{len(after)} images, expected at least {FEWEST}")
    if not all(np.isfinite(values).all() for values in (before, after) if values is not None):
        raise ProgramError(f"{snapshot.model}: they are not finite: the training diverged")
    for number, part in enumerate(lmdbs):
        if part in experiment.data.unlabelled:
            labels[domains == number] = -1
    return AlignedFeatures(before, after, domains, labels, tuple(lmdbs), *blobs)


_Batches = Iterator[tuple[caffe.Net, NDArray[np.int64], NDArray[np.int64]]]
"""The net after each forward pass; the domains and the labels of its rows."""


def _run_training_net(folder: RunFolder, snapshot: Snapshot, lmdbs: Mapping[str, Path], images: int) -> _Batches:
    rows = folder.batch_rows()
    caffe.set_random_seed(0)  # for mirrors and crops
    net = folder.load_net("train", caffe.TRAIN, snapshot.model)
    # No more batches than read each image of any domain once.
    epoch = min(lmdb_io.count(lmdbs[part]) // size for part, size in rows.items())
    count = max(1, min(images // sum(rows.values()), epoch))
    # A smaller LMDB is read again from its beginning.
    labels = [np.resize(lmdb_io.read_labels(lmdbs[part], count * size), (count, size)) for part, size in rows.items()]
    for of_batch in zip(*labels, strict=True):
        net.forward()
        yield net, np.repeat(np.arange(len(rows)), list(rows.values())), np.concatenate(of_batch)


def _run_deploy_net(folder: RunFolder, snapshot: Snapshot, lmdbs: Mapping[str, Path], images: int) -> _Batches:
    data = folder.experiment.data
    net = folder.load_net("deploy", caffe.TEST, snapshot.model)
    for domain, lmdb in enumerate(lmdbs.values()):
        for inputs, labels in batches(lmdb, data.preprocessing, data.test_batch_limit, max(1, images // len(lmdbs))):
            feed(net, inputs)
            net.forward()
            yield net, np.full(len(inputs), domain), labels


def _blobs(folder: RunFolder, net: str) -> tuple[str | None, str]:
    """Return the bottom of the first aligning layer, and that of the classifier, which is the last InnerProduct."""
    layers = list(folder.read_net(net).layer)
    aligning = [layer for wanted in _ALIGNING for layer in layers if kind(layer) == wanted]
    classifiers = [layer for layer in layers if layer.type == "InnerProduct"]
    if not classifiers:
        raise ProgramError(f"{folder.net(net)}: no InnerProduct layer, expected a classifier")
    return (aligning[0].bottom[0] if aligning else None), classifiers[-1].bottom[0]
