"""A run's features before its domains are aligned, and after: those that the classifier sees."""

from dataclasses import dataclass

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
"""Layers that normalise; the first MDALayer counts, or where there is none the first BatchNorm."""


@dataclass(frozen=True)
class AlignedFeatures:
    """Of n images: ``before`` (n×p) is what the first aligning layer gets, ``after`` (n×q) what the classifier gets.

    ``domains`` (n) are indices into ``names``, the sources' parts and then the targets; ``labels`` (n) the classes, -1
    where nobody knows them. ``before`` is None where nothing normalises.
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

    Runs that see the target are asked with their training net, where each batch is aligned with its own statistics and
    assignments, as the layers are defined; the others with their deploy net, whose statistics are the sources'.
    Raises ProgramError if nets or data are not as they should be, if there are fewer than ``FEWEST`` images, or if the
    features are not finite.
    """
    check_nets(folder)
    check_data(folder)  # Caffe would abort
    features = (_of_training_net if folder.experiment.sees_target else _of_deploy_net)(folder, snapshot, images)
    if len(features.after) < FEWEST:
        raise ProgramError(f"{len(features.after)} images, expected at least {FEWEST}")
    if not all(np.isfinite(values).all() for values in (features.before, features.after) if values is not None):
        raise ProgramError(f"{snapshot.model}: they are not finite: the training diverged")
    return features


def _of_training_net(folder: RunFolder, snapshot: Snapshot, images: int) -> AlignedFeatures:
    before, after = _blobs(folder, "train")
    inputs = folder.experiment.batch_inputs
    rows = list(folder.batch_rows().values())
    caffe.set_random_seed(0)  # of mirrored and cropped images
    net = folder.load_net("train", caffe.TRAIN, snapshot.model)
    # At most as many batches as have no image of any domain twice.
    epoch = min(lmdb_io.count(folder.train_lmdbs[name]) // size for name, size in zip(inputs, rows, strict=True))
    batches = max(1, min(images // sum(rows), epoch))
    found: tuple[list[NDArray[np.float32]], ...] = ([], [])
    for _ in range(batches):
        net.forward()
        for blob, rows_found in zip((before, after), found, strict=True):
            rows_found.append(_flat(net, blob))
    labels = [_labels(folder, name, size * batches) for name, size in zip(inputs, rows, strict=True)]
    return AlignedFeatures(
        np.concatenate(found[0]),
        np.concatenate(found[1]),
        np.tile(np.repeat(np.arange(len(inputs)), rows), batches),
        np.concatenate([of_domain.reshape(batches, -1) for of_domain in labels], axis=1).ravel(),
        inputs,
        before,
        after,
    )


def _of_deploy_net(folder: RunFolder, snapshot: Snapshot, images: int) -> AlignedFeatures:
    before, after = _blobs(folder, "deploy")
    experiment, data = folder.experiment, folder.experiment.data
    net = folder.load_net("deploy", caffe.TEST, snapshot.model)
    lmdbs = {part: folder.train_lmdbs[part] for part in experiment.source_inputs}
    lmdbs |= {target: folder.data_folder / data.train_lmdb(target) for target in experiment.targets}
    rows: dict[str | None, list[NDArray[np.float32]]] = {before: [], after: []}
    domains, labels = [], []
    for domain, (name, lmdb) in enumerate(lmdbs.items()):
        for inputs, of_images in batches(lmdb, data.preprocessing, data.test_batch_limit, max(1, images // len(lmdbs))):
            feed(net, inputs)
            net.forward()
            for blob, found in rows.items():
                if blob:
                    found.append(_flat(net, blob))
            domains += [domain] * len(inputs)
            labels.append(np.full_like(of_images, -1) if name in data.unlabelled else of_images)
    return AlignedFeatures(
        np.concatenate(rows[before]) if before else None,
        np.concatenate(rows[after]),
        np.array(domains),
        np.concatenate(labels),
        tuple(lmdbs),
        before,
        after,
    )


def _blobs(folder: RunFolder, net: str) -> tuple[str | None, str]:
    """The bottom of the first aligning layer, and that of the classifier, which is the last InnerProduct."""
    layers = list(folder.read_net(net).layer)
    aligning = [layer for wanted in _ALIGNING for layer in layers if kind(layer) == wanted]
    classifiers = [layer for layer in layers if layer.type == "InnerProduct"]
    if not classifiers:
        raise ProgramError(f"{folder.net(net)}: no InnerProduct layer, expected a classifier")
    return (aligning[0].bottom[0] if aligning else None), classifiers[-1].bottom[0]


def _flat(net: caffe.Net, blob: str) -> NDArray[np.float32]:
    data = net.blobs[blob].data
    return data.reshape(len(data), -1).copy()


def _labels(folder: RunFolder, part: str, count: int) -> NDArray[np.int64]:
    """Labels of the first ``count`` records of a batch input, from the beginning again at the end, as Caffe reads."""
    if part in folder.experiment.data.unlabelled:
        return np.full(count, -1)
    return np.resize(lmdb_io.read_labels(folder.train_lmdbs[part], count), count)
