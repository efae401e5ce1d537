"""How far two nets are apart on the same inputs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by

TOLERANCE = 1e-4
"""The largest difference of a converter's result, relative to the largest value of the blob."""


@dataclass(frozen=True)
class Difference:
    """How far a blob is from what it should be."""

    name: str
    relative: float
    """The largest difference of a value, as a part of the largest expected value.

    Infinite if a value is not finite, and where all expected values are 0 unless all found ones are.
    """


def difference(name: str, expected: NDArray[np.floating], found: NDArray[np.floating]) -> Difference:
    """Compare two arrays. Raises ProgramError if their shapes differ."""
    if expected.shape != found.shape:
        raise ProgramError(f"{name}: found {by(found.shape)} values, expected {by(expected.shape)}")
    expected, found = expected.astype(np.float64), found.astype(np.float64)
    if not (np.isfinite(expected).all() and np.isfinite(found).all()):
        return Difference(name, np.inf)
    largest = np.abs(found - expected).max(initial=0)
    scale = np.abs(expected).max(initial=0)
    return Difference(name, float(largest / scale) if scale else (np.inf if largest else 0.0))


def differences(
    expected: Mapping[str, NDArray[np.floating]],
    found: Mapping[str, NDArray[np.floating]],
    softmaxes: Mapping[str, str] | None = None,
) -> list[Difference]:
    """Compare the blobs ``found`` with those ``expected`` by the same names.

    ``softmaxes`` names the inputs of those that a softmax makes. It turns the rounding of a large input, which is
    relative to its size, into a difference of the same absolute size: that is divided by the size over 10.
    """
    rows = []
    for name, values in found.items():
        row = difference(name, expected[name], values)
        if softmaxes and name in softmaxes:
            largest = float(np.abs(expected[softmaxes[name]]).max(initial=0))
            row = replace(row, relative=row.relative / max(1.0, largest / 10))
        rows.append(row)
    return rows


def worst(rows: Sequence[Difference]) -> Difference:
    """The blob with the largest difference."""
    return max(rows, key=lambda row: row.relative)


def keep_worst(rows: dict[str, Difference], others: Iterable[Difference]) -> None:
    """Replace rows, by name, by those of ``others`` with a larger difference: batch by batch."""
    for row in others:
        rows[row.name] = worst([rows.get(row.name, row), row])


def require(file: Path, rows: Sequence[Difference], tolerance: float = TOLERANCE, hint: str = "") -> None:
    """Raise ProgramError naming the model's ``file``, with the ``hint``, if a difference is above ``tolerance``."""
    furthest = worst(rows)
    if not furthest.relative <= tolerance:
        width = max(len(row.name) for row in rows)
        table = "\n".join(f"  {row.name:{width}}  {row.relative:.1e}" for row in rows)
        raise ProgramError(
            f"{file}: the two sides differ by {furthest.relative:.1e} of the largest value in {furthest.name}, "
            f"expected at most {tolerance:g}{hint}; nothing is written\n{table}"
        )
