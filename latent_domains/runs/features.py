"""A run's features before the first alignment of domains, and after the last: those that the classifier sees."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import caffe
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.input_batches import batches
from latent_domains.models.graph import kind
from latent_domains.models.model import feed
from latent_domains.runs.preflight import check_data, check_nets
from latent_domains.runs.run_folder import RunFolder, Snapshot

FEWEST = 20
"""Images that a picture of features needs."""

_ALIGNING = ("MDALayer", "BatchNorm")
"""Layers that normalise. The first MDALayer counts, or the first BatchNorm if there is no MDALayer."""


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
    """Features of about ``images`` training images, as many of each domain as a training batch has, each image once.

    A run that sees the target is asked with its training net: there each batch is aligned with its own statistics and
    w. Another run is asked with its deploy net, whose statistics are the sources'. Raises ProgramError if nets or data
    are wrong, if there are fewer than ``FEWEST`` images, or if the features are not finite.
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
    """The bottom of the first aligning layer, and that of the classifier, which is the last InnerProduct."""
    layers = list(folder.read_net(net).layer)
    aligning = [layer for wanted in _ALIGNING for layer in layers if kind(layer) == wanted]
    classifiers = [layer for layer in layers if layer.type == "InnerProduct"]
    if not classifiers:
        raise ProgramError(f"{folder.net(net)}: no InnerProduct layer, expected a classifier")
    return (aligning[0].bottom[0] if aligning else None), classifiers[-1].bottom[0]
