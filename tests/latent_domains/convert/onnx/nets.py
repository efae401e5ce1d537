"""Small nets with random parameters, written as ONNX and compared with Caffe."""

import tempfile
from pathlib import Path

import caffe
import numpy as np
import onnx
from caffe.proto.caffe_pb2 import NetParameter
from onnx import ModelProto

from latent_domains.convert.onnx.export import MEAN, compare, onnx_model
from latent_domains.data.preprocessing import Transform
from latent_domains.models.compare import Difference
from latent_domains.models.model import Array, Model, load
from latent_domains.models.prototxt import for_phase, net_text
from tests.latent_domains.nets.graphs import parse


def with_input(layers: str, *dims: int) -> str:
    """The prototxt of layers that read ``data``; ``dims`` are the input's, without the batch."""
    shape = " ".join(f"dim: {dim}" for dim in (2, *dims))
    return f'layer {{ name: "in" type: "Input" top: "data" input_param {{ shape {{ {shape} }} }} }}\n{layers}'


def random_model(net: NetParameter, seed: int = 0) -> Model:
    """A net with random parameters that keep activations in range; statistics have the divisor 2."""
    rng = np.random.default_rng(seed)
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(net_text("random", net))
        file.flush()
        made = caffe.Net(file.name, caffe.TEST)
    types = {layer.name: layer.type for layer in net.layer}

    def values(layer: str, number: int, shape: tuple[int, ...]) -> Array:
        if types[layer] == "BatchNorm":
            drawn = (rng.normal(size=shape), rng.uniform(1, 4, shape), np.full(shape, 2))[number]
        elif number == 0 and len(shape) > 1:
            drawn = rng.normal(size=shape) * np.sqrt(2 / np.prod(shape[1:]))
        else:
            drawn = rng.uniform(0.5, 1.5, shape)
        return np.asarray(drawn, np.float32)

    return Model(
        net,
        {
            name: [values(name, i, tuple(blob.data.shape)) for i, blob in enumerate(blobs)]
            for name, blobs in made.params.items()
        },
    )


def exported(model: Model) -> ModelProto:
    """The model as ONNX. Raises Refused as the exporter does."""
    made = onnx_model(model, load(model), producer="tests", about="", metadata={})
    onnx.checker.check_model(made, full_check=True)
    return made


def compare_runtime(model: Model) -> list[Difference]:
    """The largest difference of each blob, on batches of 1 and of 3."""
    made = exported(model)
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        Path(file.name).write_bytes(made.SerializeToString())
        return compare(model.net, load(model), made, Path(file.name), None, Transform((MEAN,)))


def compared(text: str) -> list[Difference]:
    """:func:`compare_runtime` of a net with random parameters."""
    return compare_runtime(random_model(for_phase(parse(text), caffe.TEST, Path("test.prototxt"))))


def assert_agrees(text: str, *blobs: str) -> None:
    """Assert that both sides agree on ``blobs`` at least, to a tenth of what a converter may differ by."""
    rows = {row.name: row.relative for row in compared(text)}
    assert set(blobs) <= set(rows), f"compared {sorted(rows)}, expected {blobs} too"
    assert max(rows.values()) <= 1e-5, rows
