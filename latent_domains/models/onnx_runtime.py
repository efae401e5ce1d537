"""Runs ONNX models in ONNX Runtime, on the CPU."""

from collections.abc import Iterable, Mapping

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by, one_line

Array = NDArray[np.float32]

MADE_OF = "sha256 of the weights"
"""The key in a model's metadata for the hash of the caffemodel that it was made of."""


class Runtime:
    """An ONNX model (its bytes or its file) on so many ``threads`` (0: one a core). Messages begin with ``name``.

    Raises ProgramError if ONNX Runtime refuses the model.
    """

    def __init__(self, model: bytes | str, *, name: str = "", threads: int = 0) -> None:
        self._name = f"{name}: " if name else ""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        try:
            self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its classes share no other base
            raise ProgramError(f"{self._name}ONNX Runtime refuses the model: {one_line(error)}") from error
        self.inputs = {value.name: tuple(value.shape) for value in self._session.get_inputs()}
        """The shape of each input: numbers, and names of sizes that are free."""
        self.outputs = {value.name: tuple(value.shape) for value in self._session.get_outputs()}
        """The same of the outputs."""
        self.metadata: dict[str, str] = self._session.get_modelmeta().custom_metadata_map
        """The metadata of the model."""

    def forward(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Every output by its name. Raises ProgramError if the model fails on these inputs."""
        names = list(self.outputs)
        rows = {name: np.ascontiguousarray(values) for name, values in batch.items()}
        try:
            return dict(zip(names, self._session.run(names, rows), strict=True))
        except Exception as error:
            shapes = ", ".join(f"{name} {by(values.shape)}" for name, values in batch.items())
            raise ProgramError(f"{self._name}ONNX Runtime fails on {shapes}: {one_line(error)}") from error


def with_outputs(model: ModelProto, names: Iterable[str]) -> ModelProto:
    """A copy whose outputs are the inner values of these ``names``, in this order."""
    copy = ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.extend(ValueInfoProto(name=name) for name in names)
    return copy
