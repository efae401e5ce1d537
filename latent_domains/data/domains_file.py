"""A CSV file of the domains of pictures: from ``tools.discover`` or a run, edited by hand, or from elsewhere.

A row names a picture (column ``picture`` or ``path``, and perhaps ``source``) and its domain: a number or a name in the
column ``domain``, a probability for each domain, or both. If all of these are empty, the domain is unknown.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.files import expect_file, sha256
from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import in_order

PICTURE = ("picture", "path")
PROBABILITY = "probability of "
"""Prefix of the probability columns if there is a column ``domain``; without it all other columns are probabilities."""

NEAR = 1e-3
"""Tolerance of the sum of the probabilities, which should be 1."""


@dataclass(frozen=True, eq=False)
class DomainsFile:
    """Domains of n pictures; ``w`` (n×k) has their probabilities, and zeros where they are unknown."""

    file: Path
    pictures: tuple[tuple[str | None, str], ...]
    """Source, if the file names it, and path of each."""
    lines: tuple[int, ...]
    """Line in the file of each."""
    w: NDArray[np.float64]

    @property
    def k(self) -> int:
        """The number of domains."""
        return self.w.shape[1]

    @property
    def all_known(self) -> bool:
        """Whether no picture's domain is unknown."""
        return bool(self.w.any(axis=1).all())


def domains_digest(file: Path) -> str:
    """Return twelve digits that change with the file's contents."""
    expect_file(file, "a CSV file of pictures and their domains")
    return sha256(file)[:12]


def read_domains_file(file: Path) -> DomainsFile:
    """Read the file. Errors name the file and the row."""
    expect_file(file, "a CSV file of pictures and their domains")
    try:
        with file.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as stream:
            reader = csv.reader(stream)
            header = next(reader, [])
            rows = {}
            for row in reader:
                if any(map(str.strip, row)):
                    rows[reader.line_num] = row
    except csv.Error as error:
        raise ProgramError(f"{file}: {error}, expected a CSV file") from error
    names = [name.strip() for name in header]
    picture = next((name for name in PICTURE if name in names), None)
    chances = _columns_of_probabilities(names)
    if picture is None or len(set(names)) < len(names) or not ("domain" in names or chances):
        raise ProgramError(
            f"{file}: found the columns {', '.join(names) or 'of nothing'}, each expected once: picture (or path), and "
            "domain or a column of probabilities for each domain"
        )
    for line, row in rows.items():
        if len(row) != len(names):
            raise ProgramError(f"{file}: row {line}: found {len(row)} cells, expected {len(names)} as in row 1")
    cells = [dict(zip(names, map(str.strip, row), strict=True)) for row in rows.values()]
    if not cells:
        raise ProgramError(f"{file}: no rows, expected one for each picture")
    domains = [str(number) for number in range(1, len(chances) + 1)]
    if not chances:
        domains = in_order(filter(None, (row["domain"] for row in cells)))
    if not domains:
        raise ProgramError(f"{file}: no domain in any row, expected some that are known")
    w = np.array([_row(row, chances, domains, f"{file}: row {n}") for n, row in zip(rows, cells, strict=True)])
    return DomainsFile(file, tuple((row.get("source"), row[picture]) for row in cells), tuple(rows), w)


def _columns_of_probabilities(names: Sequence[str]) -> list[str]:
    if "domain" in names:
        return [name for name in names if name.startswith(PROBABILITY)]
    return [name for name in names if name not in (*PICTURE, "source", "probability")]


def _row(row: dict[str, str], chances: Sequence[str], domains: Sequence[str], where: str) -> NDArray[np.float64]:
    """Return w (k) of a picture; zeros if it is unknown."""
    said, found = row.get("domain", ""), [row[name] for name in chances]
    if said and said not in domains:
        raise ProgramError(f"{where}: found the domain {said!r}, expected a number from 1 to {len(domains)}, or none")
    if not any(found):
        return np.array([float(name == said) for name in domains])
    try:
        w = np.array([float(cell) for cell in found])
    except ValueError:
        raise ProgramError(f"{where}: found the probabilities {', '.join(found)}, expected numbers, or none") from None
    if not (w >= 0).all() or not abs(w.sum() - 1) <= NEAR:  # NaN is neither
        raise ProgramError(
            f"{where}: found the probabilities {', '.join(found)}, whose sum is {w.sum():g}, expected numbers of at "
            f"least 0 whose sum is 1 (within {NEAR:g})"
        )
    if said and w[domains.index(said)] < w.max():
        raise ProgramError(
            f"{where}: found the domain {said}, but {domains[w.argmax()]} is the most probable one, expected the same "
            "(probabilities may be left empty: then the domain is certain)"
        )
    return w / w.sum()
