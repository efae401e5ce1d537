"""How fast LMDBs are built, beside Caffe's convert_imageset."""

import os
import shutil
import subprocess
import time
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


def rounds(commands: dict[str, list[str]], out: Path, rounds: int, store: str) -> dict[str, list[float]]:
    """Return each command's seconds, round by round."""
    seconds: dict[str, list[float]] = {label: [] for label in commands}
    with tqdm(total=rounds * len(commands), desc=f"bench {store}", unit="run") as bar:
        for _ in range(rounds):
            for label, command in commands.items():
                seconds[label].append(_seconds(command, out))
                bar.update()
    return seconds
