"""A Caffe layer while it is written as ONNX, and the error for layers that have no exact counterpart there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.convert.onnx.graph import OnnxGraph
from latent_domains.models.graph import Value
from latent_domains.models.model import Array


class Refused(ProgramError):
    """A layer that cannot be written as ONNX. The message names it, its type and the field that ONNX lacks."""


def refusal(layer: LayerParameter, reason: str) -> Refused:
    """The refusal of a layer."""
    return Refused(f"layer {layer.name} ({layer.type}): {reason}")


@dataclass(frozen=True)
class Layer:
    """A layer of a Caffe net with what it reads, what it writes and its parameters.

    Its values have their names in the ONNX graph and their shapes in the Caffe net, the batch first.
    """

    param: LayerParameter
    bottoms: tuple[Value, ...]
    tops: tuple[Value, ...]
    blobs: Sequence[Array]
    graph: OnnxGraph

    def refuse(self, reason: str) -> Refused:
        """The refusal of this layer."""
        return refusal(self.param, reason)

    @property
    def x(self) -> Value:
        """The first bottom."""
        return self.bottoms[0]

    @property
    def y(self) -> Value:
        """The first top."""
        return self.tops[0]

    def axis(self, field: str, axis: int, axes: int) -> int:
        """An axis counted from the front. Raises Refused for the first: the batch is free to have any size."""
        axis = axis + axes if axis < 0 else axis
        if axis == 0:
            raise self.refuse(f"{field}: the first axis is the batch, which is left free; expected another one")
        return axis

    def last(self, op: str, inputs: Sequence[str], **attributes: Any) -> None:
        """Add the node that writes the layer's tops. It has the layer's name."""
        self.graph.node(op, inputs, [top.name for top in self.tops], self.param.name, **attributes)

    def before(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node that works for the last one and return what it writes."""
        name = self.graph.new_value(f"{self.param.name}/{op.lower()}")
        self.graph.node(op, inputs, [name], name, **attributes)
        return name

    def parameter(self, what: str, values: NDArray[Any]) -> str:
        """Add one of the layer's parameters as a constant."""
        return self.graph.constant(f"{self.param.name}/{what}", values)

    def number(self, what: str, value: float) -> str:
        """Add a number as a constant."""
        return self.parameter(what, np.array(value, np.float32))

    def whole_numbers(self, what: str, values: Sequence[int]) -> str:
        """Add sizes or axes as a constant."""
        return self.parameter(what, np.array(values, np.int64))
