"""What a run's branches predict: domain probabilities of training images, and how their use changed along training."""

from collections.abc import Iterator
from pathlib import Path

import caffe
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.data.lmdb_io import count
from latent_domains.runs.domain_usage import domain_usage
from latent_domains.runs.lmdb_batches import batches as read_batches
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
    return _probabilities(folder, _load(folder, snapshot), "domain_prob", source_lmdbs(folder), limit, quiet)


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
    return _probabilities(folder, _load(folder, snapshot), "target_domain_prob", lmdbs, limit, quiet)


def source_lmdbs(folder: RunFolder) -> dict[str, Path]:
    """LMDBs of the source images by their true domain; of the undivided mixture if it is not known."""
    experiment = folder.experiment
    lmdbs = {source: folder.data / experiment.data.train_lmdb(source) for source in experiment.sources}
    if experiment.undivided and not all((lmdb / "data.mdb").is_file() for lmdb in lmdbs.values()):
        return {part: folder.train_lmdbs[part] for part in experiment.source_parts}
    return lmdbs


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
        yield snapshot.iteration, _load(folder, snapshot)


def _initial(folder: RunFolder) -> caffe.Net | None:
    """The domain net as the solver's seed initialises it.

    None where that is not known: the run began from weights, or the branch comes after a BatchNorm, which has no
    statistics yet.
    """
    net = caffe.Net(str(folder.net("domains").resolve()), caffe.TEST)
    training = folder.read_training()
    if (training and training.weights) or any(layer.type == "BatchNorm" for layer in net.layers):
        return None
    caffe.set_random_seed(folder.experiment.seed)
    whole = caffe.Net(str(folder.net("train").resolve()), caffe.TRAIN)  # its fillers take their numbers in turns
    for name, blobs in net.params.items():
        for blob, initial in zip(blobs, whole.params[name], strict=True):
            blob.data[...] = initial.data
    return net


def _load(folder: RunFolder, snapshot: Snapshot) -> caffe.Net:
    return caffe.Net(str(folder.net("domains").resolve()), caffe.TEST, weights=str(snapshot.model.resolve()))


def _probabilities(
    folder: RunFolder, net: caffe.Net, blob: str, lmdbs: dict[str, Path], limit: int | None, quiet: bool
) -> dict[str, NDArray[np.float32]]:
    data = folder.experiment.data
    limit = min(limit or data.usage_images, data.usage_images)
    found = {}
    for domain, lmdb in lmdbs.items():
        rows = []
        with tqdm(desc=f"domains of {domain}", total=min(limit, count(lmdb)), unit="img", disable=quiet) as bar:
            for inputs, _ in read_batches(lmdb, data, data.test_batch_limit, limit):
                net.blobs["data"].reshape(*inputs.shape)
                net.blobs["data"].data[...] = inputs
                rows.append(net.forward()[blob].copy())
                bar.update(len(inputs))
        found[domain] = np.concatenate(rows)
    return found
