"""A net of stock Caffe layers and its weights as one ONNX model."""

from pathlib import Path

import caffe
import onnx
from caffe.proto.caffe_pb2 import NetParameter
from onnx import ModelProto

from latent_domains.common.files import expect_file
from latent_domains.common.program import ProgramError
from latent_domains.convert.onnx.layer import Refused
from latent_domains.convert.onnx.net import BATCH, check_layers, onnx_model
from latent_domains.data.lmdb_io import by
from latent_domains.models import prototxt
from latent_domains.models.definition import for_tests
from latent_domains.models.model import load, read_model

PRODUCER = "caffe-latent-domains"


def export(net: Path, weights: Path) -> tuple[ModelProto, caffe.Net]:
    """Return a model as ONNX, and the Caffe net with its weights.

    Raises ProgramError naming the file if one is missing, damaged or not the other's, or if the net has a layer with
    no exact counterpart in ONNX.
    """
    expect_file(net, "a deploy net")
    try:
        check_layers(for_tests(prototxt.read(net, NetParameter()), net))  # before Caffe opens what its layers name
        model = read_model(net, weights)
        loaded = load(model)
        made = onnx_model(
            model,
            loaded,
            producer=PRODUCER,
            about=_about(net),
            metadata={
                "net": net.name,
                "weights": weights.name,
                **{f"input {name}": _input_note(loaded.blobs[name].shape) for name in loaded.inputs},
            },
        )
    except Refused as refused:
        raise ProgramError(f"{net}: {refused}") from refused
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ProgramError(f"{net}: onnx.checker refuses what was made of it: {error}") from error
    return made, loaded


def _about(net: Path) -> str:
    """The comment that the prototxt begins with: the converters say in it what the input must be."""
    comment = []
    for line in net.read_text().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return "\n".join(comment)


def _input_note(shape: tuple[int, ...]) -> str:
    return f"{free(shape)} 32-bit floats, prepared as for Caffe: its order of channels (B, G, R), its mean subtracted"


def free(shape: tuple[int, ...]) -> str:
    return f"{BATCH}×{by(tuple(shape)[1:])}"


def sizes(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """A value's declared shape; the batch counts as 0."""
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
