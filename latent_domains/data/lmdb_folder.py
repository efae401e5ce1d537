"""The files of an LMDB's folder. Apart from ``lmdb_io``, so that callers need not import Caffe."""

from pathlib import Path

NOTE = "source.json"
"""File in each LMDB folder that says how the LMDB was made (:mod:`~latent_domains.data.lmdb_note`)."""

CLASSES = "classes.txt"
"""File in an LMDB folder with the names of the classes in the order of their labels, one a line."""

DOMAINS = "domains.txt"
"""File of a mixture with the name of the LMDB that each record is from, a line for each, in their order."""

_OURS = frozenset({"data.mdb", "lock.mdb", NOTE, CLASSES, DOMAINS})


def is_lmdb(folder: Path) -> bool:
    """Whether a folder holds an LMDB, whole or damaged."""
    return (folder / "data.mdb").is_file()


def other_files(folder: Path) -> list[str]:
    """Names of files in a folder that do not belong to an LMDB of ours, sorted; the name of a file itself."""
    inside = folder.iterdir() if folder.is_dir() else [folder]
    left = f".{NOTE}."  # of a program that was killed while it wrote the note again
    return sorted(path.name for path in inside if path.name not in _OURS and not path.name.startswith(left))
