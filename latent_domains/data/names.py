"""Names of domains and datasets, made of the names of folders."""

import re
from collections.abc import Sequence
from pathlib import Path
from unicodedata import category

from latent_domains.data.image_list import composed


def domain_names(folders: Sequence[Path]) -> list[str]:
    """A name for each folder, its own as far as files and layers can bear it; the second of a name gets a number."""
    names: list[str] = []
    for name in map(folder_label, folders):
        candidates = (name, *(f"{name}_{number}" for number in range(2, len(folders) + 2)))
        names.append(next(one for one in candidates if one not in names))
    return names


def folder_label(folder: Path) -> str:
    """The folder's own name in letters and digits of any script, dots, dashes and underscores."""
    return safe_name(own_name(folder)) or "images"


def own_name(folder: Path) -> str:
    """What a folder is called: a link has its own name, and this folder (.) and that above it (..) have theirs."""
    return folder.name if folder.name not in ("", "..") else folder.resolve().name


def safe_name(name: str) -> str:
    """Reduce a name to letters and digits of any script, dots, dashes and underscores."""
    kept = (char if char in "_.-" or category(char)[0] in "LMN" else " " for char in composed(name))
    return re.sub(" +", "_", "".join(kept)).strip(".-")
