"""Whether a file that a program wrote is whole, and how one tells it from another."""

import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import onnx
from caffe.proto.caffe_pb2 import NetParameter, SolverParameter
from google.protobuf import text_format

from latent_domains.data import lmdb_io


def _ends(*endings: str) -> Callable[[Path], object]:
    def check(file: Path) -> object:
        text = file.read_text()
        if not text.rstrip("\n").endswith(endings) or not text.endswith(("\n", *endings)):
            raise ValueError(f"it ends in {text[-20:]!r}")
        return text.count("\n")

    return check


def _prototxt(file: Path) -> object:
    message = SolverParameter() if file.name.startswith("solver") else NetParameter()
    text_format.Parse(file.read_text(), message)
    return len(message.ListFields())


def _caffemodel(file: Path) -> object:
    net = NetParameter.FromString(file.read_bytes())
    return [(layer.name, sum(len(blob.data) for blob in layer.blobs)) for layer in net.layer]


def _lmdb(file: Path) -> object:
    found = 0
    with lmdb_io.open_lmdb(file.parent) as (_, transaction):
        for key, value in transaction.cursor():
            found = zlib.crc32(value, zlib.crc32(key, found))
    return found


def _onnx(file: Path) -> object:
    model = onnx.load(file)
    onnx.checker.check_model(model)
    return len(model.graph.node)


_CHECKS: dict[str, Callable[[Path], object]] = {
    ".json": lambda file: sorted(json.loads(file.read_text())),
    ".prototxt": _prototxt,
    ".caffemodel": _caffemodel,
    ".mdb": _lmdb,
    ".onnx": _onnx,
    ".csv": _ends(""),
    ".md": _ends(""),
    ".txt": _ends(""),
    ".html": _ends("</html>"),
    ".svg": _ends("</svg>"),
}

_IN_PLACE = ("snapshots", "lock")
"""Files that are written bit by bit: what reads them looks whether they are whole."""


def outputs(folder: Path) -> dict[str, str]:
    """Every file below a folder, by its name in it: what it holds in a word, or why it is not whole.

    Logs may end anywhere; temporary files have names of their own, that begin with a dot.
    """
    found = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        check = _CHECKS.get(file.suffix)
        if check is None or name.startswith(".") or "/." in name or any(part in file.parts for part in _IN_PLACE):
            continue
        try:
            found[name] = str(check(file)) if file.is_file() else "no file"
        except Exception as error:  # whatever a reader makes of half a file
            found[name] = f"{HALF}: {type(error).__name__}: {error}"
    return found


HALF = "not whole"


def leftovers(folder: Path) -> list[str]:
    """Temporary folders that stayed, but for empty ones: a signal may come just when one was made."""
    found = (
        path for path in folder.rglob(".*") if re.fullmatch(r"\..+\.[a-z0-9_]{8}", path.name) and any(path.iterdir())
    )
    return sorted(str(path.relative_to(folder)) for path in found)
