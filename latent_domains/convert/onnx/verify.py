"""Compares ONNX Runtime with Caffe on the same inputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import caffe
import numpy as np
from onnx import ModelProto
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.convert.onnx.net import blob_names
from latent_domains.models import inputs
from latent_domains.models.compare import Difference, difference, keep_worst
from latent_domains.models.model import Array, forward
from latent_domains.models.onnx_runtime import Runtime, with_outputs

BATCHES = (1, 3)
"""Rows of the random batches."""


MEAN = 128
"""Subtracted from pixels for the comparison alone, if nothing is known of the net's own mean: values of both signs."""

CALMING_STEPS = 4
"""Nets are not linear: one step towards smaller inputs may not be enough."""

SMALLEST_FACTOR = np.float32(1 / 256)
"""No net is trained on smaller pixels; with smaller ones it would be its biases alone that are compared."""

LOGIT = 20
"""The largest input of a Softmax that a comparison is good for. Far above it the probabilities are 0 and 1 whatever the
net does before, or a rounding error of large numbers decides between two classes."""


def batches(
    net: caffe.Net, images: Path | None, seed: int, mean: Sequence[float] = (MEAN,), scale: float = 1.0
) -> Iterator[dict[str, Array]]:
    """Inputs to compare on: random batches of BATCHES rows, then those images of a folder, if any.

    All are pixels less ``mean``, times ``scale`` and a factor that keeps every Softmax at work.
    """
    noise = {name: inputs.noise(net.blobs[name].shape[1:], seed + i, mean, scale) for i, name in enumerate(net.inputs)}
    factor = _calming(net, noise)
    for rows in BATCHES:
        yield {name: factor * values[:rows] for name, values in noise.items()}
    if images is not None:
        if len(net.inputs) != 1:
            raise ProgramError(f"--images: the net has the inputs {', '.join(net.inputs)}, expected a single one")
        (name,) = net.inputs
        _, pictures = inputs.images(images, net.blobs[name].shape[1:], mean, scale)
        yield from ({name: factor * batch} for batch in inputs.in_batches(pictures))


def _calming(net: caffe.Net, batch: Mapping[str, Array]) -> np.float32:
    """The factor, at most 1, for inputs that leave no Softmax with more than about LOGIT."""
    logits = [
        blob for name, layer in net.layer_dict.items() if layer.type == "Softmax" for blob in net.bottom_names[name]
    ]
    factor = np.float32(1)
    for _ in range(CALMING_STEPS if logits else 0):
        blobs = forward(net, {name: factor * values for name, values in batch.items()})
        largest = max(np.abs(blobs[name]).max() for name in logits)
        if not largest > LOGIT:  # NaN too: the comparison says so
            break
        factor = max(factor * np.float32(LOGIT / largest), SMALLEST_FACTOR)
    return factor


def compare(
    net: caffe.Net,
    made: ModelProto,
    file: Path,
    images: Path | None,
    seed: int,
    mean: Sequence[float] = (MEAN,),
    scale: float = 1.0,
) -> list[Difference]:
    """Compare every blob of ``made``, and the outputs of the ``file`` that it was written to, with Caffe's.

    The inputs are :func:`batches`. Returns the largest difference of each. Raises ProgramError if ONNX Runtime refuses
    the model or the file.
    """
    inside = Runtime(with_outputs(made, blob_names(made, net.blobs)).SerializeToString())
    written = Runtime(str(file))
    largest: dict[str, Difference] = {}
    for batch in tqdm(list(batches(net, images, seed, mean, scale)), desc="comparing", unit="batch"):
        expected = forward(net, batch)
        rows = [difference(name, expected[name], values) for name, values in inside.forward(batch).items()]
        for name, values in written.forward(batch).items():
            rows.append(replace(difference(name, expected[name], values), name=f"{name} (of the file)"))
        keep_worst(largest, rows)
    return list(largest.values())
