"""Coverage-guided fuzzing of what reads bytes from outside, with atheris, which is no package of this project:

    python3.11 -m venv FOLDER && FOLDER/bin/pip install atheris
    . ./env.sh && FOLDER/bin/python -m tests.faults.fuzz pth --seconds 3600 --keep found

A reader may return or raise what it documents. For anything else, or if it takes 10 s of the processor, the smallest
input is kept as found/READER-ERROR. What takes 10 minutes by the clock or 2 GB ends the run, and libFuzzer keeps its
input. The inputs that reached something new stay in found/corpus/READER, where the next call begins.
"""

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import atheris

_PARSERS = ["torchfile", "yaml", "pickletools", "zipfile", "json", "google.protobuf.text_format"]
with atheris.instrument_imports(include=["latent_domains", *_PARSERS]):
    from latent_domains.common import pixel_limit

    pixel_limit.set_default()  # as every program does before it imports OpenCV
    import cv2
    import numpy as np
    import torch
    from caffe.proto.caffe_pb2 import Datum
    from google.protobuf.message import DecodeError
    from safetensors.torch import save

    from latent_domains.common.program import ROOT, ProgramError
    from latent_domains.convert.torch import read as checkpoints
    from latent_domains.convert.torch.tensors import CheckpointError
    from latent_domains.data.image_list import read_list
    from latent_domains.data.lmdb_io import datum_image, encoded_datum, image_datum
    from latent_domains.experiment.experiment import from_json
    from latent_domains.models.gate import read_net
    from latent_domains.runs.record import Record, Training, read
    from latent_domains.tables.definition import load
    from tests.faults.words import changed
    from tests.latent_domains.convert.torch.lua import Object, tensor, written


def _net(file: Path) -> None:
    read_net(file)


def _record(file: Path) -> None:
    with contextlib.suppress(ProgramError):
        read(Training, file)
    found = read(Record, file)
    found.check(from_json(found.experiment), "record")


def _datum(file: Path) -> None:
    with contextlib.suppress(DecodeError, ValueError):
        datum_image(Datum.FromString(file.read_bytes()))


def _checkpoint(file: Path) -> None:
    """Of any format: what is in the file tells. All tensors are read, whether a ResNet has them or not."""
    with contextlib.suppress(CheckpointError):
        for each in checkpoints._tensors(file.read_bytes()).values():
            with contextlib.suppress(CheckpointError):
                each.values()
        checkpoints.read_resnet(file, head=True)


def _torch(**options: bool) -> bytes:
    file = io.BytesIO()
    torch.save({"conv1.weight": torch.ones(2, 2), "state_dict": {"a": torch.zeros(3)}}, file, **options)
    return file.getvalue()


def _files(*patterns: str) -> list[bytes]:
    return [file.read_bytes() for pattern in patterns for file in sorted(ROOT.glob(pattern))[:3]]


def _records(*tables: str) -> list[bytes]:
    """A record of each table."""
    files = [ROOT / "results" / table / "records.jsonl" for table in tables]
    return [json.dumps(json.loads(file.read_text().splitlines()[-1])["record"]).encode() for file in files]


def _encoded(suffix: str) -> bytes:
    return encoded_datum(cv2.imencode(suffix, _IMAGE)[1].tobytes(), 1).SerializeToString()


_SUFFIXES = (".jpg", ".png", ".bmp", ".tiff", ".webp", ".ppm")
_IMAGE = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
_LUA = Object("nn.Sequential", {"modules": [Object("nn.Linear", {"weight": tensor([[1.0, 2.0]])})]})
READERS: dict[str, tuple[Callable[[Path], object], list[bytes]]] = {
    "pth": (_checkpoint, [_torch()]),
    "legacy": (_checkpoint, [_torch(_use_new_zipfile_serialization=False)]),
    "t7": (_checkpoint, [written(_LUA)]),
    "safetensors": (_checkpoint, [save({"fc.bias": torch.ones(4)})]),
    "prototxt": (_net, _files("prototxt/mnist/*_deploy.prototxt", "prototxt/mnist/*_train.prototxt")),
    "datum": (_datum, [image_datum(_IMAGE, 1).SerializeToString(), *map(_encoded, _SUFFIXES)]),
    "list": (lambda file: read_list(file, Path()), [b"a b/c.png 3\n\nd.jpg -1\n"]),
    "record": (_record, _records("digits", "pacs_features", "digits_first")),
    "yaml": (load, _files("experiments/*.yaml")),
}
"""Each reader of a file, and what it begins from."""

TEXTS = ("prototxt", "list", "record", "yaml")
"""Readers of text: every other input is changed by its words."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fuzz")
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=240, help="of the processor (default: %(default)s)")
    parser.add_argument("--keep", type=Path, default=Path("found"), metavar="DIR")
    options = parser.parse_args()
    reader, seeds = READERS[options.reader]
    corpus = options.keep / "corpus" / options.reader
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / str(number)).write_bytes(seed)
    folder = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm"))
    file = folder / f"input.{'yaml' if options.reader == 'yaml' else 'file'}"
    began, inputs = time.process_time(), 0

    def once(data: bytes) -> None:
        nonlocal inputs
        inputs += 1
        if time.process_time() - began > options.seconds:
            shutil.rmtree(folder)
            print(f"{options.reader}: {inputs} inputs, {len(list(corpus.iterdir()))} in the corpus", flush=True)
            os._exit(0)  # libFuzzer's own limit is one of the clock
        file.write_bytes(data)
        begun = time.process_time()
        try:
            reader(file)
        except ProgramError:
            pass
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            keep(f"{type(error).__name__}-{Path(place.filename).stem}-{place.lineno}", data, str(error))
        if (taken := time.process_time() - begun) > 10:
            keep("slow", data, f"{taken:.0f} s")

    def mutated(data: bytes, limit: int, seed: int) -> bytes:
        random = Random(seed)
        if options.reader in TEXTS and random.random() < 0.5:
            return changed(data, random)[:limit]
        return atheris.Mutate(data, limit)

    def keep(name: str, data: bytes, why: str) -> None:
        kept = options.keep / f"{options.reader}-{name}"
        if not kept.exists() or len(kept.read_bytes()) > len(data):
            kept.write_bytes(data)
            print(f"{kept}: {len(data)} bytes: {why}", file=sys.stderr)

    limits = ["-rss_limit_mb=2000", "-timeout=600", "-max_len=8192"]
    arguments = [sys.argv[0], *limits, f"-artifact_prefix={options.keep}/{options.reader}-", str(corpus)]
    atheris.Setup(arguments, once, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
