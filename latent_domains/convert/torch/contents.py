"""The tensors that a net is made of, out of a state dict: all there, nothing else, of their shapes, and numbers."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.wording import by, some
from latent_domains.convert.torch.tensors import CheckpointError, Tensor, of_values
from latent_domains.convert.torch.words import plain

STATISTICS = ("weight", "bias", "running_mean", "running_var")
"""Tensors of a BN that count; num_batches_tracked does not."""

_NO_HEAD = "--no-head to do without"

Values = Mapping[str, NDArray[np.float32]]


def take(
    tensors: Mapping[str, Tensor],
    shapes: Mapping[str, tuple[int, ...]],
    net: str,
    classifier: tuple[str, int],
    head: bool,
) -> tuple[int | None, Values, tuple[str, ...]]:
    """The classes, the values (finite, as float32) of all tensors, and notes: what was done to them, what left out.

    ``net`` says what it is by its blocks; ``shapes`` are those of its tensors but for the ``classifier``'s, which is
    given by its name and its inputs, and may lack a bias. Without ``head`` all of it is left out, whatever it is, and
    the classes are None. Raises CheckpointError naming the tensors that are missing, too many, of another shape or not
    finite.
    """
    head_name, channels = classifier
    weight, bias = f"{head_name}.weight", f"{head_name}.bias"
    of_head = [name for name in tensors if name.startswith(f"{head_name}.")]
    classes, notes = None, []
    if head:
        classes = _classes(tensors, weight, channels, of_head)
        shapes = {**shapes, weight: (classes, channels), bias: (classes,)}
        if bias not in tensors:
            tensors = {**tensors, bias: of_values(np.zeros(classes))}
            notes.append(f"no {bias}: taken as zeros")
    else:
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(f"{head_name}.")}
        if others := [name for name in of_head if name not in (weight, bias)]:
            notes.append(f"left out with the head: {some(map(plain, others))}")

    def advice(*wrong: str) -> str:
        return f", or {_NO_HEAD}" if all(name.startswith(f"{head_name}.") for name in wrong) else ""

    missing = [name for name in shapes if name not in tensors]
    extra = [name for name in tensors if name not in shapes and not name.endswith(".num_batches_tracked")]
    if missing or extra:
        raise CheckpointError(
            f"{net} by its blocks, but {' and '.join(_named(missing, 'lacking') + _named(extra, 'with'))}"
            f"{advice(*missing, *extra)}"
        )
    for name, shape in shapes.items():
        if tensors[name].shape != shape:
            raise CheckpointError(
                f"tensor {name} is {by(tensors[name].shape)}, expected {by(shape)} in {net}{advice(name)}"
            )
    values = {name: _values(name, tensors[name]) for name in shapes}
    return classes, values, (*notes, *_conversions({name: tensors[name] for name in shapes}))


def _classes(tensors: Mapping[str, Tensor], weight: str, channels: int, of_head: list[str]) -> int:
    if weight not in tensors:
        but = f", but {some(map(plain, of_head))}" if of_head else ""
        raise CheckpointError(f"it has no {weight}, the classifier{but}: expected one, or {_NO_HEAD}")
    shape = tensors[weight].shape
    if len(shape) != 2 or not shape[0]:
        raise CheckpointError(f"tensor {weight} is {by(shape)}, expected classes×{channels}, or {_NO_HEAD}")
    return shape[0]


def _values(name: str, tensor: Tensor) -> NDArray[np.float32]:
    try:
        values = tensor.values()
    except CheckpointError as error:
        raise CheckpointError(f"tensor {name}: {error}") from error
    if not np.isfinite(values).all():
        raise CheckpointError(f"tensor {name} holds {(~np.isfinite(values)).sum()} numbers that are not finite")
    if name.endswith("running_var") and values.min() < 0:
        raise CheckpointError(f"tensor {name} holds a variance of {values.min():g}, expected none below 0")
    return values


def _conversions(tensors: Mapping[str, Tensor]) -> Iterator[str]:
    for kind in sorted({tensor.kind for tensor in tensors.values()} - {"float32"}):
        count = sum(tensor.kind == kind for tensor in tensors.values())
        yield f"{count} of {len(tensors)} tensors are {kind}: converted to float32"


def _named(names: list[str], word: str) -> list[str]:
    return [f"{word} {some(map(plain, names))}"] if names else []
