"""The digits data set from tiny files of the same formats, and from the real ones where they are at hand."""

import gzip
import hashlib
import struct
from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.data import lmdb_io
from latent_domains.data.published_file import PublishedFile
from latent_domains.data.sets import bsds500, digits, mnistm, urls
from latent_domains.experiment.datasets import DATASETS
from tests.programs import Done, names, program, replacing

PARTS = ["mnist_test", "mnist_train", "mnistm_test", "mnistm_train", "usps_test", "usps_train"]
RNG = np.random.default_rng(0)
MNIST = {split: RNG.integers(0, 256, (n, 28, 28)).astype(np.uint8) for split, n in (("train", 30), ("test", 20))}
USPS = {split: np.round(RNG.uniform(-1, 1, (n, 256)), 4) for split, n in (("train", 20), ("test", 10))}
PHOTOGRAPHS = [RNG.integers(0, 256, (40, 50, 3)).astype(np.uint8) for _ in range(3)]


@pytest.fixture
def tiny_mirror(tmp_path, monkeypatch) -> Path:
    """A mirror folder with tiny MNIST and USPS files, pinned in place of the real ones."""
    folder = tmp_path / "mirror"

    def put(path: str, contents: bytes) -> PublishedFile:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(gzip.compress(contents))
        return PublishedFile(path, path, {"sha256": hashlib.sha256(contents).hexdigest()}, ())

    for split, name in (("train", "train"), ("test", "t10k")):
        n = len(MNIST[split])
        images = put(f"mnist/{name}-images.gz", struct.pack(">4I", 0x803, n, 28, 28) + MNIST[split].tobytes())
        labels = put(f"mnist/{name}-labels.gz", struct.pack(">2I", 0x801, n) + bytes(i % 10 for i in range(n)))
        monkeypatch.setattr(urls, f"MNIST_{split.upper()}", (images, labels))
        rows = (f"{i % 10} {' '.join(map(str, row))}\n" for i, row in enumerate(USPS[split]))
        monkeypatch.setattr(urls, f"USPS_{split.upper()}", put(f"usps/{split}.gz", "".join(rows).encode()))
    monkeypatch.setattr(bsds500, "load", lambda *_: PHOTOGRAPHS)
    return folder


def get(tmp_path: Path, *options: object) -> Done:
    given = ("--out", tmp_path / "data", "--mirror", tmp_path / "mirror")
    return program("get_data", "digits", *replacing(given, options))


def by_source(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n×28×28×3) and labels in the order of their source, which the keys name."""
    keys = [int(key.decode().rsplit("_", 1)[1]) for key, _ in lmdb_io.read(path)]
    images, labels = lmdb_io.read_images(path)
    order = np.argsort(keys)
    return np.moveaxis(images[order], 1, 3), labels[order]


def test_resized_six_lmdbs_hold_the_three_domains(tiny_mirror, tmp_path):
    done = get(tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "data" / "digits"
    assert names(folder) == PARTS
    for split, number in (("train", 0), ("test", 1)):
        images, labels = by_source(folder / f"mnist_{split}")
        assert np.array_equal(images, MNIST[split][..., None].repeat(3, axis=3))
        assert labels.tolist() == [i % 10 for i in range(len(images))]
        images, labels = by_source(folder / f"mnistm_{split}")
        patches = mnistm.random_patches(PHOTOGRAPHS, len(images), 28, np.random.default_rng([0, 1000 + number]))
        assert np.array_equal(images, np.abs(patches.astype(int) - MNIST[split][..., None]))
        assert labels.tolist() == [i % 10 for i in range(len(images))]
        images, labels = by_source(folder / f"usps_{split}")
        small = np.rint((USPS[split].reshape(-1, 16, 16) + 1) * 127.5).astype(np.uint8)
        assert np.array_equal(images, digits.resized(small)[..., None].repeat(3, axis=3))
        assert labels.tolist() == [i % 10 for i in range(len(images))]


def test_digits_the_hard_digits_are_the_same_and_variants_of_them(tiny_mirror, tmp_path):
    out, options = tmp_path / "data", ("--out", tmp_path / "data", "--mirror", tmp_path / "mirror")
    assert program("get_data", "digits_hard", *options).returncode == 0 and get(tmp_path).returncode == 0
    variants = ("inverted", "usps_bicubic", "usps_nearest")
    assert names(out / "digits_hard") == sorted(
        [*PARTS, *(f"{name}_{split}" for name in variants for split in ("test", "train"))]
    )
    for part in PARTS:
        hard, papers = (out / dataset / part / "data.mdb" for dataset in ("digits_hard", "digits"))
        assert hard.read_bytes() == papers.read_bytes()
    for split in ("train", "test"):
        images, labels = by_source(out / "digits_hard" / f"inverted_{split}")
        assert np.array_equal(images, 255 - MNIST[split][..., None].repeat(3, axis=3))
        assert labels.tolist() == [i % 10 for i in range(len(images))]
        small = np.rint((USPS[split].reshape(-1, 16, 16) + 1) * 127.5).astype(np.uint8)
        for name, way in (("bicubic", cv2.INTER_CUBIC), ("nearest", cv2.INTER_NEAREST)):
            images, labels = by_source(out / "digits_hard" / f"usps_{name}_{split}")
            expected = np.stack([cv2.resize(image, (28, 28), interpolation=way) for image in small])
            assert np.array_equal(images, expected[..., None].repeat(3, axis=3))
            assert labels.tolist() == [i % 10 for i in range(len(images))]
    for name, domains in digits.DOMAINS.items():
        assert domains == DATASETS[name].domains


def test_digits_the_seed_draws_the_training_images_order_and_patches(tiny_mirror, tmp_path):
    def built(seed: int, folder: str) -> dict[str, bytes]:
        assert get(tmp_path, "--seed", seed, "--out", tmp_path / folder).returncode == 0
        return {name: (tmp_path / folder / "digits" / name / "data.mdb").read_bytes() for name in PARTS}

    first, again, other = built(3, "a"), built(3, "b"), built(4, "c")
    assert first == again
    assert {name for name in PARTS if first[name] == other[name]} == {"mnist_test", "mnistm_test", "usps_test"}
    for name, same_images in (("mnist_train", True), ("usps_train", True), ("mnistm_train", False)):
        kept = [by_source(tmp_path / folder / "digits" / name) for folder in "ac"]
        assert np.array_equal(kept[0][0], kept[1][0]) == same_images and np.array_equal(kept[0][1], kept[1][1])


# --- the real thing


@pytest.mark.slow
def test_digits_the_real_data_sets(mirror, tmp_path):
    done = program("get_data", "digits", "--out", tmp_path, "--mirror", mirror)
    assert done.returncode == 0, done.stderr
    sizes = {"mnist": (60000, 10000), "mnistm": (60000, 10000), "usps": (7291, 2007)}
    for domain, counts in sizes.items():
        for split, count in zip(("train", "test"), counts, strict=True):
            found = lmdb_io.describe(tmp_path / "digits" / f"{domain}_{split}")
            assert (found.records, found.shape) == (count, (3, 28, 28))
            assert list(found.class_counts) == list(range(10)) and found.same_size
    of_usps = lmdb_io.describe(tmp_path / "digits" / "usps_train").class_counts.values()
    assert " ".join(map(str, of_usps)) == "1194 1005 731 658 652 556 664 645 542 644"
