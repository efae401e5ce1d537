"""Coverage-guided fuzzing of what reads bytes from outside, with atheris, which is no package of this project:

    python3.11 -m venv FOLDER && FOLDER/bin/pip install atheris
    . ./env.sh && FOLDER/bin/python -m tests.faults.fuzz pth --seconds 240 --keep found

A reader may return or raise what it documents. For anything else the smallest input is kept as found/READER-ERROR. What
takes 10 s or 2 GB ends the run, and libFuzzer keeps its input.
"""

import argparse
import contextlib
import io
import json
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["latent_domains", "torchfile", "yaml", "pickletools", "zipfile"]):
    import numpy as np
    import torch
    from caffe.proto.caffe_pb2 import Datum, NetParameter
    from google.protobuf.message import DecodeError
    from safetensors.torch import save

    from latent_domains.common.program import ROOT, ProgramError
    from latent_domains.convert.torch import lua_resnet, pth, safetensors_file, t7
    from latent_domains.convert.torch.resnet import residual_net
    from latent_domains.convert.torch.state import state_dict, without_prefix
    from latent_domains.convert.torch.tensors import CheckpointError
    from latent_domains.data.image_list import read_list
    from latent_domains.data.lmdb_io import datum_image, image_datum
    from latent_domains.experiment.experiment import from_json
    from latent_domains.models import prototxt
    from latent_domains.models.drawing import read_net
    from latent_domains.models.gate import admit
    from latent_domains.runs.predict import read_description
    from latent_domains.runs.record import Failure, Record, Training, read
    from latent_domains.tables.definition import load
    from tests.latent_domains.convert.torch.lua import Object, tensor, written

_DESCRIPTION = {
    "name": "a",
    "classes": ["b", "c"],
    "preprocessing": {"stored_shape": [3, 28, 28], "crop": None, "mean": [1.5], "scale": 0.1},
}

DOCUMENTED = (ProgramError, CheckpointError)


def _net(file: Path) -> None:
    net = prototxt.read(file, NetParameter())
    admit(net, file)
    read_net(file)


def _record(file: Path) -> None:
    for kind in (Training, Failure, Record):
        with contextlib.suppress(ProgramError):
            found = read(kind, file)
            if isinstance(found, Record) and found.experiment is not None:
                found.check(from_json(found.experiment), "record")


def _datum(file: Path) -> None:
    with contextlib.suppress(DecodeError, ValueError):
        datum_image(Datum.FromString(file.read_bytes()))


def _checkpoint(read: Callable[[bytes], dict]) -> Callable[[Path], None]:
    def reader(file: Path) -> None:
        tensors = read(file.read_bytes())
        for tensor in tensors.values():
            with contextlib.suppress(CheckpointError):
                tensor.values()
        residual_net(tensors, head=True)

    return reader


def _saved(**options: bool) -> bytes:
    file = io.BytesIO()
    torch.save({"conv1.weight": torch.ones(2, 2), "state_dict": {"a": torch.zeros(3)}}, file, **options)
    return file.getvalue()


def _lua() -> bytes:
    return written(Object("nn.Sequential", {"modules": [Object("nn.Linear", {"weight": tensor([[1.0, 2.0]])})]}))


def _read(*names: str) -> list[bytes]:
    return [(ROOT / name).read_bytes() for name in names]


_RECORD = sorted((ROOT / "results").glob("*/*_seed0.json"))[:3]
_NETS = [f"prototxt/{name}.prototxt" for name in ("mnist/digits_train", "resnet18/pacs_deploy")]

READERS: dict[str, tuple[Callable[[Path], object], Callable[[], list[bytes]]]] = {
    "pth": (_checkpoint(lambda data: state_dict(pth.read_zip(data))), lambda: [_saved()]),
    "legacy": (
        _checkpoint(lambda data: state_dict(pth.read_legacy(data))),
        lambda: [_saved(_use_new_zipfile_serialization=False)],
    ),
    "t7": (_checkpoint(lambda data: lua_resnet.state_dict(t7.read(data))), lambda: [_lua()]),
    "safetensors": (
        _checkpoint(lambda data: without_prefix(safetensors_file.read(data))),
        lambda: [save({"fc.bias": torch.ones(4)})],
    ),
    "prototxt": (_net, lambda: _read(*_NETS)),
    "datum": (_datum, lambda: [image_datum(np.zeros((2, 2, 3), np.uint8), 1).SerializeToString()]),
    "list": (lambda file: read_list(file, Path()), lambda: [b"a b/c.png 3\n\nd.jpg -1\n"]),
    "record": (_record, lambda: [file.read_bytes() for file in _RECORD]),
    "description": (read_description, lambda: [json.dumps(_DESCRIPTION).encode()]),
    "yaml": (load, lambda: _read("experiments/digits.yaml", "experiments/office31_known.yaml")),
}
"""Each reader of a file, and what it may begin from."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fuzz")
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--keep", type=Path, default=Path("found"), metavar="DIR")
    options = parser.parse_args()
    reader, seeds = READERS[options.reader]
    options.keep.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm"))
    corpus, file = folder / "corpus", folder / f"input.{'yaml' if options.reader == 'yaml' else 'file'}"
    corpus.mkdir()
    for number, seed in enumerate(seeds()):
        (corpus / str(number)).write_bytes(seed)

    def once(data: bytes) -> None:
        file.write_bytes(data)
        try:
            reader(file)
        except DOCUMENTED:
            pass
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            kept = options.keep / f"{options.reader}-{type(error).__name__}-{Path(place.filename).stem}-{place.lineno}"
            if not kept.exists() or len(kept.read_bytes()) > len(data):
                kept.write_bytes(data)
                print(f"{kept}: {len(data)} bytes: {error}", file=sys.stderr)

    limits = [f"-max_total_time={options.seconds}", "-rss_limit_mb=2000", "-timeout=10", "-max_len=8192"]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={options.keep}/{options.reader}-", str(corpus)], once)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
