"""The tensors that a net is made of, out of a state dict: all there, nothing else, of their shapes, and numbers."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.wording import by, some
from latent_domains.convert.torch.tensors import CheckpointError, Tensor
from latent_domains.convert.torch.words import plain

STATISTICS = ("weight", "bias", "running_mean", "running_var")
"""Tensors of a BN that count; num_batches_tracked does not."""

Values = Mapping[str, NDArray[np.float32]]


def take(
    tensors: Mapping[str, Tensor],
    shapes: Mapping[str, tuple[int, ...]],
    net: str,
    classifier: tuple[str, int],
    head: bool,
) -> tuple[int | None, Values, tuple[str, ...]]:
    """The classes, the values (finite, as float32) of all tensors, and what was done to the numbers.

    ``net`` says what it is by its blocks; ``shapes`` are those of its tensors but for the ``classifier``'s, which is
    given by its name and its inputs. Without ``head`` that is left out, and the classes are None. Raises
    CheckpointError naming the tensors that are missing, too many, of another shape or not finite.
    """
    name, channels = classifier
    weight, bias = f"{name}.weight", f"{name}.bias"
    classes = _classes(tensors, weight, channels) if head else None
    expected = {**shapes, **({weight: (classes, channels), bias: (classes,)} if head else {})}
    missing = [name for name in expected if name not in tensors]
    extra = [
        name
        for name in tensors
        if name not in expected and not name.endswith(".num_batches_tracked") and (head or name not in (weight, bias))
    ]
    if missing or extra:
        raise CheckpointError(
            f"{net} by its blocks, but {' and '.join(_named(missing, 'lacking') + _named(extra, 'with'))}"
        )
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise CheckpointError(f"tensor {name} is {by(tensors[name].shape)}, expected {by(shape)} in {net}")
    values = {name: _values(name, tensors[name]) for name in expected}
    return classes, values, tuple(_conversions({name: tensors[name] for name in expected}))


def _classes(tensors: Mapping[str, Tensor], weight: str, channels: int) -> int:
    if weight not in tensors:
        raise CheckpointError(f"it has no {weight}, the classifier: expected one, or --no-head to do without")
    shape = tensors[weight].shape
    if len(shape) != 2 or not shape[0]:
        raise CheckpointError(f"tensor {weight} is {by(shape)}, expected classes×{channels}")
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
