"""Compares ONNX Runtime with Caffe on the same inputs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import caffe
from onnx import ModelProto
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.convert.onnx.net import blob_names
from latent_domains.models import inputs
from latent_domains.models.compare import Difference, differences, keep_worst
from latent_domains.models.model import Array, forward
from latent_domains.models.onnx_runtime import Runtime, with_outputs

BATCHES = (1, 3)
"""Rows of the random batches."""

MEAN = 128
"""Subtracted from pixels for the comparison alone, if nothing is known of the net's own mean: values of both signs."""


def batches(
    net: caffe.Net, images: Path | None, seed: int, mean: Sequence[float] = (MEAN,), scale: float = 1.0
) -> Iterator[dict[str, Array]]:
    """Inputs to compare on: random batches of BATCHES rows, then those images of a folder, if any.

    All are pixels less ``mean``, times ``scale``.
    """
    noise = {name: inputs.noise(net.blobs[name].shape[1:], seed + i, mean, scale) for i, name in enumerate(net.inputs)}
    for rows in BATCHES:
        yield {name: values[:rows] for name, values in noise.items()}
    if images is not None:
        if len(net.inputs) != 1:
            raise ProgramError(f"--images: the net has the inputs {', '.join(net.inputs)}, expected a single one")
        (name,) = net.inputs
        _, pictures = inputs.images(images, net.blobs[name].shape[1:], mean, scale)
        yield from ({name: batch} for batch in inputs.in_batches(pictures))


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
    kinds = {name: layer.type for name, layer in net.layer_dict.items()}
    softmaxes = {net.top_names[name][0]: net.bottom_names[name][0] for name in kinds if kinds[name] == "Softmax"}
    largest: dict[str, Difference] = {}
    for batch in tqdm(list(batches(net, images, seed, mean, scale)), desc="comparing", unit="batch"):
        expected = forward(net, batch)
        keep_worst(largest, differences(expected, inside.forward(batch), softmaxes))
        for row in differences(expected, written.forward(batch), softmaxes):
            keep_worst(largest, [replace(row, name=f"{row.name} (of the file)")])
    return list(largest.values())
