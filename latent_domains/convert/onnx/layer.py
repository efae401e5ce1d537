"""A Caffe layer while it is written as ONNX, and the error for layers without an exact counterpart there."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from latent_domains.common.program import ProgramError
from latent_domains.models.graph import Value
from latent_domains.models.model import Array

OPSET = 13
"""Of December 2020: every runtime in use knows it, and Softmax has one axis in it."""

IR_VERSION = 7
"""The file format of the ONNX release that brought OPSET; older runtimes refuse newer ones."""


class OnnxGraph:
    """Collects nodes and constants. ``reserved`` are the names that values of the Caffe net have."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._values = set(reserved)
        self._nodes: set[str] = set()

    def new_value(self, name: str) -> str:
        """Return ``name``, or one like it if it is taken."""
        return _unique(name, self._values)

    def constant(self, name: str, values: NDArray[Any]) -> str:
        """Add a constant and return its name. Floating point numbers become 32-bit ones."""
        name = self.new_value(name)
        if values.dtype.kind == "f":
            values = values.astype(np.float32, copy=False)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str], name: str, **attributes: Any) -> None:
        """Add a node."""
        self.nodes.append(helper.make_node(op, inputs, outputs, _unique(name, self._nodes), **attributes))

    def model(
        self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto], **fields: Any
    ) -> ModelProto:
        """Return the graph as a model of OPSET. ``fields`` are more fields of it: doc_string, producer_name."""
        return helper.make_model(
            helper.make_graph(self.nodes, name, inputs, outputs, self.constants),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            **fields,
        )


def _unique(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


class Refused(ProgramError):
    """A layer that cannot be written as ONNX. The message names it, its type and the field that ONNX lacks."""


def refusal(layer: LayerParameter, reason: str) -> Refused:
    """Return the refusal of a layer."""
    return Refused(f"layer {layer.name} ({layer.type}): {reason}")


@dataclass(frozen=True)
class Layer:
    """A layer of a Caffe net with its bottoms, its tops and its parameters.

    Its values have their names in the ONNX graph and their shapes in the Caffe net, the batch first.
    """

    param: LayerParameter
    bottoms: tuple[Value, ...]
    tops: tuple[Value, ...]
    blobs: Sequence[Array]
    graph: OnnxGraph

    def refuse(self, reason: str) -> Refused:
        """Return the refusal of this layer."""
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
        """Return an axis counted from the front. Raises Refused for the first: the batch is free to have any size."""
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
