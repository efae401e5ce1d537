"""Compares ONNX Runtime with Caffe on the same inputs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import caffe
from caffe.proto.caffe_pb2 import NetParameter
from onnx import ModelProto
from tqdm import tqdm

from latent_domains.convert.onnx.net import blob_names
from latent_domains.models.compare import Difference, differences, keep_worst, makers
from latent_domains.models.inputs import in_batches, tried
from latent_domains.models.model import forward
from latent_domains.models.onnx_runtime import Runtime, with_outputs

MEAN = 128
"""Subtracted from pixels for the comparison alone, if nothing is known of the net's own mean: values of both signs."""


def compare(
    definition: NetParameter,
    net: caffe.Net,
    made: ModelProto,
    file: Path,
    images: Path | None,
    mean: Sequence[float] = (MEAN,),
    scale: float = 1.0,
) -> list[Difference]:
    """Compare every blob of ``made``, and the outputs of the ``file`` that it was written to, with Caffe's.

    ``definition`` is that of ``net``. Inputs are random pixels, one and several at once, and images of a folder, if
    any, less ``mean`` and times ``scale``. Returns the largest difference of each. Raises ProgramError if ONNX Runtime
    refuses the model or the file.
    """
    (name,) = net.inputs
    rows, _ = tried(net.blobs[name].shape[1:], images, mean, scale)
    inside = Runtime(with_outputs(made, blob_names(made, net.blobs)).SerializeToString())
    written = Runtime(str(file))
    kinds = makers(definition)
    largest: dict[str, Difference] = {}
    for batch in tqdm([rows[:1], *in_batches(rows)], desc="comparing", unit="batch"):
        expected = forward(net, batch)
        keep_worst(largest, differences(expected, inside.forward({name: batch}), kinds))
        for row in differences(expected, written.forward({name: batch}), kinds):
            keep_worst(largest, [replace(row, name=f"{row.name} (of the file)")])
    return list(largest.values())
