"""A small ONNX model of pictures, as somebody's backbone."""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

FIRST, SECOND, FEATURES, CLASSES = 3, 4, 6, 5
"""Channels of the two blocks, and numbers that come out."""

TERMS = 2 + 3 + FIRST + SECOND + 64
"""How many roundings are in a feature: of a pixel that enters, of three convolutions, of the mean of 8×8."""


def weights() -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    shapes = {
        "a": (FIRST, 3, 1, 1),
        "b": (SECOND, FIRST, 1, 1),
        "c": (FEATURES, SECOND, 1, 1),
        "d": (FEATURES, CLASSES),
    }
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def model(side: int | str = 8, *, batch: int | str = "N", outputs: tuple[str, ...] = ("features",)) -> ModelProto:
    """1×1 convolutions one, two and three with ReLU between; ``features`` are the means; ``classes`` come after."""
    nodes = [
        helper.make_node("Conv", ["pixels", "a"], ["one"], "first"),
        helper.make_node("Relu", ["one"], ["one_relu"]),
        helper.make_node("Conv", ["one_relu", "b"], ["two"], "second"),
        helper.make_node("Relu", ["two"], ["two_relu"]),
        helper.make_node("Conv", ["two_relu", "c"], ["three"], "third"),
        helper.make_node("GlobalAveragePool", ["three"], ["features"], "pool"),
        helper.make_node("Flatten", ["features"], ["flat"]),
        helper.make_node("MatMul", ["flat", "d"], ["classes"], "head"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [batch, 3, side, side])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(values, name) for name, values in weights().items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def save(path: Path, made: ModelProto | None = None) -> Path:
    onnx.save(made or model(), str(path))
    return path


def with_external_data(made: ModelProto, file: Path, location: str = "data.bin") -> Path:
    """Save a model whose tensors lie in a file beside it; return that file."""
    place = file.parent / location
    place.unlink(missing_ok=True)  # onnx would append
    onnx.save(made, str(file), save_as_external_data=True, location=location, size_threshold=0)
    return place


def by_hand(pixels: NDArray[np.floating]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Maps one and two (C×H×W) and the features of what enters (3×H×W)."""
    w = {name: values.astype(np.float64).squeeze() for name, values in weights().items()}
    one = np.einsum("ij,jhw->ihw", w["a"], pixels)
    two = np.einsum("ij,jhw->ihw", w["b"], np.maximum(one, 0))
    return one, two, np.einsum("ij,jhw->ihw", w["c"], np.maximum(two, 0)).mean(axis=(1, 2))


def statistics(*maps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means, then standard deviations, of the channels of each of the maps."""
    return np.concatenate([values for one in maps for values in (one.mean(axis=(1, 2)), one.std(axis=(1, 2)))])
