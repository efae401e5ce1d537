"""An ONNX graph while it is made: its nodes and constants, and names that are all different; and the model of it."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

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
        """The whole as a model of OPSET. ``fields`` are more of its own: doc_string, producer_name."""
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
