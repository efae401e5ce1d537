"""Names of domains and data sets, made of those of folders; shares of domains in a mixture, in percent: 80:20."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from unicodedata import category

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import composed


def domain_names(folders: Sequence[Path]) -> list[str]:
    """Return a name for each folder, its own as far as files and layers can bear
    it; the second of a name gets a number.
    """
    names: list[str] = []
    for name in map(folder_label, folders):
        candidates = (name, *(f"{name}_{number}" for number in range(2, len(folders) + 2)))
        names.append(next(one for one in candidates if one not in names))
    return names


def folder_label(folder: Path) -> str:
    """Return the folder's own name in letters and digits of any script, dots, dashes and underscores."""
    return safe_name(own_name(folder)) or "images"


def own_name(folder: Path) -> str:
    """Return what a folder is called: a link has its own name, and this folder
    (.) and that above it (..) have theirs.
    """
    return folder.name if folder.name not in ("", "..") else folder.resolve().name


def safe_name(name: str) -> str:
    """Reduce a name to letters and digits of any script, dots, dashes and underscores."""
    kept = (char if char in "_.-" or category(char)[0] in "LMN" else " " for char in composed(name))
    return re.sub(" +", "_", "".join(kept)).strip(".-")


def shares_text(shares: Iterable[int | None]) -> str:
    """Shares as they are written."""
    return ":".join(map(str, shares))


def check_shares(shares: Sequence[int], domains: int) -> None:
    """Raise ProgramError unless there is a percentage of at least 1 for each domain and they add up to 100."""
    if len(shares) != domains or min(shares) < 1 or sum(shares) != 100:
        raise ProgramError(
            f"shares: got {shares_text(shares)}, expected {domains} percentages of at least 1 that add up to 100"
        )


def mixture_counts(counts: Sequence[int], shares: Sequence[int]) -> list[int]:
    """Records of each domain in the largest mixture with these shares, out of ``counts``; all without shares.

    The domain that limits it is used whole; the others' records are rounded down, but to 1 at least.
    """
    if not shares:
        return list(counts)
    count, share = min(zip(counts, shares, strict=True), key=lambda pair: pair[0] / pair[1])
    return [max(1, count * other // share) for other in shares]
