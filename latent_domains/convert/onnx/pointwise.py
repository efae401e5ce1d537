"""Layers that work on each value alone, or on one of each bottom: ReLU and its kin, Clip, Eltwise, …; and Softmax."""

from collections.abc import Callable

import numpy as np
from caffe.proto.caffe_pb2 import EltwiseParameter

from latent_domains.convert.onnx.layer import Layer


def relu(layer: Layer) -> None:
    """With a slope below 0 where there is one."""
    x, _ = layer.one_to_one()
    slope = layer.param.relu_param.negative_slope
    if slope:
        layer.last("LeakyRelu", [x.name], alpha=slope)
    else:
        layer.last("Relu", [x.name])


def prelu(layer: Layer) -> None:
    """A slope below 0 for each channel, the second axis, or one for all."""
    x, _ = layer.one_to_one()
    slopes = layer.blobs[0].reshape(-1, *[1] * (len(x.shape) - 2))
    layer.last("PRelu", [x.name, layer.parameter("slope", slopes)])


def plain(op: str) -> Callable[[Layer], None]:
    """How a layer is written that has no parameters and is ``op`` in ONNX."""

    def write(layer: Layer) -> None:
        x, _ = layer.one_to_one()
        layer.last(op, [x.name])

    return write


def clip(layer: Layer) -> None:
    """Values below ``min`` become that, those above ``max`` that."""
    x, _ = layer.one_to_one()
    param = layer.param.clip_param
    bounds = [layer.parameter(what, np.array(getattr(param, what), np.float32)) for what in ("min", "max")]
    layer.last("Clip", [x.name, *bounds])


def softmax(layer: Layer) -> None:
    """Along any axis but the batch."""
    x, _ = layer.one_to_one()
    layer.last("Softmax", [x.name], axis=layer.axis("axis", layer.param.softmax_param.axis, len(x.shape)))


def power(layer: Layer) -> None:
    """(shift + scale · x) ^ power, always as three nodes: it is rare."""
    x, _ = layer.one_to_one()
    param = layer.param.power_param
    numbers = {
        what: layer.parameter(what, np.array(value, np.float32))
        for what, value in (("scale", param.scale), ("shift", param.shift), ("power", param.power))
    }
    scaled = layer.before("Mul", [x.name, numbers["scale"]])
    layer.last("Pow", [layer.before("Add", [scaled, numbers["shift"]]), numbers["power"]])


def eltwise(layer: Layer) -> None:
    """Sum with coefficients, product or maximum of bottoms of one shape."""
    layer.check_counts(tops=1)
    param = layer.param.eltwise_param
    names = [bottom.name for bottom in layer.bottoms]
    if param.operation == EltwiseParameter.SUM:
        # Runtimes fuse the sum of two best as Add.
        layer.last("Add" if len(names) == 2 else "Sum", _weighted(layer, names))
    elif param.operation == EltwiseParameter.PROD:
        product = names[0]
        for name in names[1:-1]:
            product = layer.before("Mul", [product, name])
        layer.last("Mul", [product, names[-1]])
    else:
        layer.last("Max", names)


def _weighted(layer: Layer, names: list[str]) -> list[str]:
    """The summands, multiplied where their coefficient is not 1."""
    coefficients = layer.param.eltwise_param.coeff or [1.0] * len(names)
    return [
        name if value == 1 else layer.before("Mul", [name, layer.parameter("coeff", np.array(value, np.float32))])
        for name, value in zip(names, coefficients, strict=True)
    ]
