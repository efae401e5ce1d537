"""How fast LMDBs are built, beside Caffe's convert_imageset."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from tqdm import tqdm

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data.image_list import SUFFIXES
from latent_domains.data.sets.demo import load_photographs
from latent_domains.data.sets.mnistm import random_patches

CROP = 227


def make_set(folder: Path, source: Path | None, count: int, seed: int) -> None:
    """Fill ``folder`` with ``count`` JPEGs."""
    if source is None:
        crops = random_patches(load_photographs()[::3], min(count, 500), CROP, np.random.default_rng(seed))
        files = [cv2.imencode(".jpg", crop)[1].tobytes() for crop in crops]
    else:
        paths = sorted(path for path in source.rglob("*") if path.suffix.lower() in SUFFIXES & {".jpg", ".jpeg"})
        files = [path.read_bytes() for path in paths[:count]]
    if not files:
        raise ProgramError(f"--images {source}: no JPEGs below it")
    for i in tqdm(range(count), desc="make the set", unit="img"):
        (folder / f"{i:06d}.jpg").write_bytes(files[i % len(files)])


def _seconds(command: list[str], out: Path) -> float:
    """Return how long a program takes to make the LMDB ``out``, which is then removed."""
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise ProgramError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    shutil.rmtree(out)
    os.sync()  # its writing must not slow the next one down
    return seconds


def compare(
    images: Path | None, *, count: int, side: int, rounds: int, jobs: Sequence[int], tmp: Path | None, seed: int
) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of convert_imageset and of build_lmdb by ``jobs``, round by round: by store, by program.

    ``images`` is a folder of JPEGs, of which ``count`` are taken; without it the set is made of photographs.
    """
    caffe = shutil.which("convert_imageset")
    if caffe is None:
        raise ProgramError("convert_imageset is not on the PATH: source env.sh first")
    with tempfile.TemporaryDirectory(dir=tmp) as name:
        files, listing, out = Path(name) / "images", Path(name) / "list.txt", Path(name) / "lmdb"
        files.mkdir()
        make_set(files, images, count, seed)
        listing.write_text("".join(f"{path.name} {i % 7}\n" for i, path in enumerate(sorted(files.iterdir()))))
        found = {}
        for store, theirs, ours in (
            ("raw", [], []),
            ("jpg", ["--encoded", "--encode_type=jpg"], ["--encoded", "jpg"]),
        ):
            reference = [caffe, f"--resize_height={side}", f"--resize_width={side}", *theirs, f"{files}/"]
            commands = {"convert_imageset": [*reference, str(listing), str(out)]}
            for number in jobs:
                builder = [sys.executable, "-m", "tools.build_lmdb", str(listing), str(out), "--root", str(files)]
                options = ["--resize", f"{side}x{side}", "--no-shuffle", "--jobs", str(number), *ours]
                commands[f"build_lmdb --jobs {number}"] = builder + options
            found[store] = {label: [] for label in commands}
            for _ in tqdm(range(rounds), desc=f"bench {store}", unit="round"):
                for label, command in commands.items():
                    found[store][label].append(_seconds(command, out))
    return found
