"""A backbone as an ONNX model that turns pictures into features, and how pixels become its input."""

import hashlib
import json
from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by
from latent_domains.models.onnx_file import Runtime, with_outputs

Order = Literal["bgr", "rgb"]

NAMED = 5
"""The most values of a graph that a message names."""


class OnnxBackbone:
    """The values ``layer`` (None: the only output) and ``early`` of an ONNX model, run one picture at a time.

    A picture is resized to ``size`` (None: not resized) and cut to its central square of side ``crop`` (None: the side
    of the model's input). Its channels, in ``order``, enter as (value - ``mean``) * ``scale``; ``mean`` and ``scale``
    have one number, or one for each channel. ``layer`` gives a row of numbers. Each of ``early`` gives maps of C
    channels: after that row come the channels' means, then their standard deviations. These are the last ``early_size``
    of all ``row_size`` numbers.

    ``name`` is the model's name in messages, ``weights`` a hash of its weights. Refuses values that the model lacks.
    """

    def __init__(
        self,
        model: ModelProto,
        name: str,
        weights: str,
        *,
        layer: str | None = None,
        early: Sequence[str] = (),
        size: int | None = None,
        crop: int | None = None,
        mean: Sequence[float] = (0.0,),
        scale: Sequence[float] = (1.0,),
        order: Order = "bgr",
    ) -> None:
        self._name, self._order, self._size = name, order, size
        self._input, self._crop = _input(name, model, crop)
        if size is not None and size < self._crop:
            raise ProgramError(f"--size: got {size}, expected at least {self._crop}, the side of what {name} takes")
        chosen = [_value(name, model, layer), *(_value(name, model, block) for block in early)]
        self._mean, self._scale = (np.array(values, np.float32).reshape(-1, 1, 1) for values in (mean, scale))
        self._description = {
            "weights": weights,
            "layer": chosen[0],
            "early": " ".join(chosen[1:]),
            "size": size or "as stored",
            "crop": self._crop,
            "mean": " ".join(f"{value:g}" for value in mean),
            "scale": " ".join(f"{value:g}" for value in scale),
            "order": order,
        }
        self._chosen = chosen
        wanted = with_outputs(model, dict.fromkeys(chosen))
        self._runtime = Runtime(wanted.SerializeToString(), name=name, threads=1)  # threads share out pictures
        self._last: set[str] = set()
        blank = self._run(np.zeros((3, self._crop, self._crop), np.float32))
        if self._last:
            self._description["channels_last"] = " ".join(sorted(self._last))
        self.early_size = sum(2 * len(rows) for rows in blank[1:])
        self.row_size = len(blank[0]) + self.early_size
        are_means = [np.repeat(False, len(blank[0])), *(np.repeat([True, False], len(rows)) for rows in blank[1:])]
        self.early_means = np.flatnonzero(np.concatenate(are_means))
        """Indices of the channels' means in a row."""

    @property
    def description(self) -> dict[str, str | int]:
        """All that determines the features of a picture."""
        return dict(self._description)

    @property
    def digest(self) -> str:
        """Eight digits that change with the description."""
        return hashlib.sha256(json.dumps(self._description, sort_keys=True).encode()).hexdigest()[:8]

    def features(self, picture: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the row of a picture (3×H×W, as B, G, R): the features, then the early statistics."""
        final, *maps = self._run(self._pixels(picture))
        statistics = [values for rows in maps for values in (rows.mean(axis=1), rows.std(axis=1))]
        return np.concatenate([final, *statistics]).astype(np.float32, copy=False)

    def _pixels(self, picture: NDArray[np.uint8]) -> NDArray[np.float32]:
        side = self._crop
        if self._size is not None and picture.shape[1:] != (self._size, self._size):
            picture = cv2.resize(picture.transpose(1, 2, 0), (self._size, self._size)).transpose(2, 0, 1)
        top, left = ((length - side) // 2 for length in picture.shape[1:])
        if min(top, left) < 0:
            raise ProgramError(
                f"{self._name}: takes squares of {side}, found pictures of {by(picture.shape)}: pass --size {side}"
            )
        square = picture[:: 1 if self._order == "bgr" else -1, top : top + side, left : left + side]
        return (square - self._mean) * self._scale

    def _run(self, pixels: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Return the final row (C), and each early map as C×(H·W)."""
        values = self._runtime.forward({self._input: pixels[np.newaxis]})
        final, *maps = (values[name] for name in self._chosen)
        if final.size != max(final.shape, default=0):
            raise self._not_expected(self._chosen[0], final, "a row of numbers: 1×C or 1×C×1×1")
        return [final.ravel(), *map(self._by_channel, self._chosen[1:], maps)]

    def _by_channel(self, name: str, of_map: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a map as C×(H·W). Some nets have 1×H×W×C: there the equal sides of the square come first."""
        if of_map.ndim != 4 or len(of_map) != 1:
            raise self._not_expected(name, of_map, "maps of several channels: 1×C×H×W or 1×H×W×C")
        one, two, three = of_map.shape[1:]
        if one == two != three:
            self._last.add(name)
            return of_map.reshape(one * two, three).T
        return of_map.reshape(one, two * three)

    def _not_expected(self, name: str, found: NDArray[np.float32], expected: str) -> ProgramError:
        return ProgramError(f"{self._name}: {name} is {by(found.shape)} for one picture, expected {expected}")


def _input(where: str, model: ModelProto, crop: int | None) -> tuple[str, int]:
    """Return the name of the model's only input and the side of the square that it takes."""
    weights = {one.name for one in model.graph.initializer}
    inputs = [one for one in model.graph.input if one.name not in weights]
    if len(inputs) != 1:
        found = ", ".join(one.name for one in inputs) or "none"
        raise ProgramError(f"{where}: its inputs are {found}, expected a single one, of pictures")
    (only,) = inputs
    dims = only.type.tensor_type.shape.dim
    if len(dims) != 4:
        raise ProgramError(f"{where}: its input {only.name} has {len(dims)} axes, expected pictures, N×3×H×W")
    if dims[1].dim_value not in (0, 3):  # 0: its size is free
        found = "×".join(str(dim.dim_value or "N") for dim in dims)
        raise ProgramError(f"{where}: its input {only.name} is {found}, expected pictures, N×3×H×W")
    side = crop or dims[2].dim_value
    if not side:
        raise ProgramError(f"{where}: the size of its input {only.name} is free: --crop says the side of the square")
    return only.name, side


def _value(where: str, model: ModelProto, name: str | None) -> str:
    """Return the value of this ``name``, or the first output of the node of this name; for None the only output."""
    if name is None:
        outputs = [one.name for one in model.graph.output]
        if len(outputs) != 1:
            raise ProgramError(f"{where}: its outputs are {', '.join(outputs) or 'none'}: --layer chooses one")
        return outputs[0]
    values = [output for node in model.graph.node for output in node.output if output]
    nodes = {node.name: node.output[0] for node in model.graph.node if node.name and node.output}
    if name in values:
        return name
    if name not in nodes:
        some = ", ".join(values[-NAMED:])
        raise ProgramError(f"{where}: no layer {name!r} among its {len(values)} values, the last of which are {some}")
    return nodes[name]
