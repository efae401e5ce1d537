"""Whether there is an LMDB: apart from ``lmdb_io``, so that a caller who asks nothing else need not import Caffe."""

from pathlib import Path


def is_lmdb(folder: Path) -> bool:
    """Whether a folder holds an LMDB, whole or damaged."""
    return (folder / "data.mdb").is_file()
