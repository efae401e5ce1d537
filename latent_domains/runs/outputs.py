"""What a run's nets put out: classes of the test images, domain probabilities of training images and their use along
training."""

from collections.abc import Iterator
from pathlib import Path

import caffe
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import read_classes
from latent_domains.data.input_batches import batches
from latent_domains.data.lmdb_io import count, read_images
from latent_domains.runs.domain_usage import domain_usage
from latent_domains.runs.record import DomainUsage
from latent_domains.runs.run_folder import RunFolder, Snapshot

HISTORY_IMAGES = 1000
"""Images of each source on which the use of the domains is followed along training."""


def source_probabilities(
    folder: RunFolder, snapshot: Snapshot, *, limit: int | None = None, quiet: bool = False
) -> dict[str, NDArray[np.float32]]:
    """The branch's probabilities (n×k) for the first ``limit`` training images of each source.

    Empty if no branch predicts them. An undivided source is looked at by its domains where their LMDBs are there too.
    """
    if not folder.experiment.has_branch:
        return {}
    net = folder.load_net("domains", caffe.TEST, snapshot.model)
    return _probabilities(folder, net, "domain_prob", source_lmdbs(folder), limit, quiet)


def target_probabilities(
    folder: RunFolder, snapshot: Snapshot, *, limit: int | None = None, quiet: bool = False
) -> dict[str, NDArray[np.float32]]:
    """The targets' branch's probabilities (n×k_target) for the first ``limit`` training images of each target.

    Empty if no branch predicts them.
    """
    experiment = folder.experiment
    if not experiment.has_target_branch:
        return {}
    lmdbs = {target: folder.train_lmdbs[target] for target in experiment.targets}
    net = folder.load_net("domains", caffe.TEST, snapshot.model)
    return _probabilities(folder, net, "target_domain_prob", lmdbs, limit, quiet)


def source_lmdbs(folder: RunFolder) -> dict[str, Path]:
    """LMDBs of the source images by their true domain; of the undivided mixture if it is not known."""
    experiment = folder.experiment
    lmdbs = {source: folder.data_folder / experiment.data.train_lmdb(source) for source in experiment.sources}
    if experiment.undivided and not all((lmdb / "data.mdb").is_file() for lmdb in lmdbs.values()):
        return {part: folder.train_lmdbs[part] for part in experiment.source_parts}
    return lmdbs


def latent_domain_images(
    folder: RunFolder, snapshot: Snapshot, seed: int, count: int = 48, limit: int = 1000
) -> list[NDArray[np.uint8]]:
    """Up to ``count`` source images of each latent domain (n×C×H×W), drawn by ``seed`` from those assigned to it."""
    probabilities = source_probabilities(folder, snapshot, limit=limit, quiet=True)
    images = np.concatenate([read_images(lmdb, limit)[0] for lmdb in source_lmdbs(folder).values()])
    assigned = np.concatenate(list(probabilities.values())).argmax(axis=1)
    order = np.random.default_rng(seed).permutation(len(images))
    return [images[order[assigned[order] == d][:count]] for d in range(folder.experiment.k)]


def usage_history(folder: RunFolder, *, quiet: bool = False) -> list[DomainUsage]:
    """Domain usage on some source images at every snapshot that is there, and before training.

    Empty if no branch predicts source domains.
    """
    if not folder.experiment.has_branch:
        return []
    lmdbs = source_lmdbs(folder)
    found = []
    for iteration, net in _nets_along_training(folder):
        usage = domain_usage(_probabilities(folder, net, "domain_prob", lmdbs, HISTORY_IMAGES, quiet))
        found.append(usage.model_copy(update={"iteration": iteration}))
    return found


def _nets_along_training(folder: RunFolder) -> Iterator[tuple[int, caffe.Net]]:
    """Iteration and domain net, as initialised and at every snapshot."""
    if (net := _initial(folder)) is not None:
        yield 0, net
    for snapshot in sorted(folder.whole_snapshots(), key=lambda snapshot: snapshot.iteration):
        yield snapshot.iteration, folder.load_net("domains", caffe.TEST, snapshot.model)


def _initial(folder: RunFolder) -> caffe.Net | None:
    """The domain net as the solver's seed initialises it.

    None where that is not known: the run began from weights, or the branch comes after a BatchNorm, which has no
    statistics yet.
    """
    net = folder.load_net("domains", caffe.TEST)
    training = folder.read_training()
    if (training and training.weights) or any(layer.type == "BatchNorm" for layer in net.layers):
        return None
    caffe.set_random_seed(folder.experiment.seed)
    whole = folder.load_net("train", caffe.TRAIN)  # its fillers take their numbers in turns
    for name, blobs in net.params.items():
        for blob, initial in zip(blobs, whole.params[name], strict=True):
            blob.data[...] = initial.data
    return net


def _probabilities(
    folder: RunFolder, net: caffe.Net, blob: str, lmdbs: dict[str, Path], limit: int | None, quiet: bool
) -> dict[str, NDArray[np.float32]]:
    data = folder.experiment.data
    limit = min(limit or data.usage_images, data.usage_images)
    found = {}
    for domain, lmdb in lmdbs.items():
        rows = []
        with tqdm(desc=f"domains of {domain}", total=min(limit, count(lmdb)), unit="img", disable=quiet) as bar:
            for inputs, _ in batches(lmdb, data.preprocessing, data.test_batch_limit, limit):
                net.blobs["data"].reshape(*inputs.shape)
                net.blobs["data"].data[...] = inputs
                rows.append(net.forward()[blob].copy())
                bar.update(len(inputs))
        found[domain] = np.concatenate(rows)
    return found


def confusion_counts(folder: RunFolder, snapshot: Snapshot, target: str, *, quiet: bool = True) -> NDArray[np.int64]:
    """Confusion counts (classes×classes; rows true, columns predicted) of the run's test net for ``target``.

    Each test image counts once; the trace is what Caffe's Accuracy layer counts as correct.
    Raises ProgramError if a score is no number, as after a training that diverged.
    """
    _, batches = folder.test_batches()[target]
    (name,) = (name for name, tested in folder.experiment.tests.items() if tested == target)
    net = folder.load_net(name, caffe.TEST, snapshot.model)
    scores_blob, label_blob = net.bottom_names[folder.experiment.accuracy_name(target)]
    classes = folder.experiment.data.classes
    counts = np.zeros((classes, classes), np.int64)
    for _ in tqdm(range(batches), desc=f"test on {target}", unit="batch", disable=quiet):
        net.forward()
        scores = net.blobs[scores_blob].data.reshape(-1, classes)
        if np.isnan(scores).any():  # Caffe's Accuracy would count something all the same
            raise ProgramError(f"{snapshot.model}: scores on {target} are NaN: the training diverged")
        labels = net.blobs[label_blob].data.astype(np.int64).ravel()
        np.add.at(counts, (labels, predictions(scores, labels)), 1)
    return counts


def predictions(scores: NDArray[np.floating], labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The class (n) of the largest of each row of ``scores`` (n×classes).

    Caffe's Accuracy takes an image whose own class (``labels``, n) ties with another for an error: the other one is
    the prediction here.
    """
    largest = scores == scores.max(axis=1, keepdims=True)
    largest[np.arange(len(labels)), labels] &= largest.sum(axis=1) == 1
    return largest.argmax(axis=1)


def class_names(folder: RunFolder) -> list[str] | None:
    """Names of the classes in the order of their labels, from the ``classes.txt`` in a folder of the run's LMDBs.

    None if there is none, or none that names as many classes as the nets have.
    """
    for lmdb in (*folder.test_lmdbs.values(), *folder.train_lmdbs.values()):
        file = lmdb / "classes.txt"
        if file.is_file() and len(names := read_classes(file)) == folder.experiment.data.classes:
            return names
    return None
