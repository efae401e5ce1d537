"""Names of domains and datasets, made from names of folders; shares of domains in a mixture, in percent: 80:20."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from unicodedata import category

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import composed


def domain_names(folders: Sequence[Path]) -> list[str]:
    """Return a name for each folder: its own, reduced to safe characters; a repeated name gets a number."""
    names: list[str] = []
    for name in map(folder_label, folders):
        candidates = (name, *(f"{name}_{number}" for number in range(2, len(folders) + 2)))
        names.append(next(one for one in candidates if one not in names))
    return names


def folder_label(folder: Path) -> str:
    """Return the folder's own name in letters and digits of any script, dots, dashes and underscores."""
    return safe_name(own_name(folder)) or "images"


def own_name(folder: Path) -> str:
    """Return the name of a folder: of a link its own, of . and .. that of the folder that they mean."""
    return folder.name if folder.name not in ("", "..") else folder.resolve().name


def safe_name(name: str) -> str:
    """Reduce a name to letters and digits of any script, dots, dashes and underscores."""
    kept = (char if char in "_.-" or category(char)[0] in "LMN" else " " for char in composed(name))
    return re.sub(" +", "_", "".join(kept)).strip(".-")


def shares_text(shares: Iterable[int | None]) -> str:
    """Return shares as text."""
    return ":".join(map(str, shares))


def check_shares(shares: Sequence[int], domains: int) -> None:
    """Raise ProgramError unless there is a percentage of at least 1 for each domain and they add up to 100."""
    if len(shares) != domains or min(shares) < 1 or sum(shares) != 100:
        raise ProgramError(
            f"shares: got {shares_text(shares)}, expected {domains} percentages of at least 1 that add up to 100"
        )


def mixture_counts(counts: Sequence[int], shares: Sequence[int]) -> list[int]:
    """Return each domain's records, out of ``counts``, in the largest mixture with these shares; all without shares."""
    if not shares:
        return list(counts)
    count, share = min(zip(counts, shares, strict=True), key=lambda pair: pair[0] / pair[1])
    return [max(1, count * other // share) for other in shares]
