"""Which classes a trained net takes for which: confusion counts over a target's test images."""

import caffe
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import read_classes
from latent_domains.runs.run_folder import RunFolder, Snapshot


def confusion_counts(folder: RunFolder, snapshot: Snapshot, target: str, *, quiet: bool = True) -> NDArray[np.int64]:
    """Confusion counts (classes×classes; rows true, columns predicted) of the run's test net for ``target``.

    Each test image counts once; the trace is what Caffe's Accuracy layer counts as correct.
    Raises ProgramError if a score is no number, as after a training that diverged.
    """
    file = folder.test_nets[target]
    _, batches = folder.test_batches()[target]
    net = caffe.Net(str(file.resolve()), caffe.TEST, weights=str(snapshot.model.resolve()))
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
