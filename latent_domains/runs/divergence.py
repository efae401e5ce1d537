"""Detect a training that diverged: a value that is not finite never becomes finite again."""

import math
import re

import caffe
import numpy as np

from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder, Snapshot

_ADVICE = "the training diverged; begin it again with a lower learning rate (--base-lr, and --force to replace the run)"


def check_loss(folder: RunFolder, iteration: int, loss: float) -> None:
    """Raise ProgramError naming the log unless the training loss of ``iteration`` is finite."""
    if not math.isfinite(loss):
        raise ProgramError(f"{folder.log}: the loss at iteration {iteration} is {loss}: {_ADVICE}")


def advice(failure: str) -> str:
    """Return advice if one of our layers met NaN or infinity (``failure`` is caffe's message); else nothing."""
    return f": {_ADVICE}" if re.search(r'Layer "[^"]*": .*\b(nan|inf)\b', failure) else ""


def check_snapshot(folder: RunFolder, snapshot: Snapshot) -> None:
    """Raise ProgramError naming file and layer unless all that the deploy net takes from a snapshot is finite."""
    for name, blobs in folder.load_net("deploy", caffe.TEST, snapshot.model).params.items():
        if not all(np.isfinite(blob.data).all() for blob in blobs):
            raise ProgramError(f"{snapshot.model}: layer {name} holds values that are not finite: {_ADVICE}")
