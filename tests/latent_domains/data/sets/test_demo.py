import re

import cv2
import numpy as np
from sklearn.datasets import load_digits

from latent_domains.common.artefact import make_missing
from latent_domains.data import lmdb_io
from latent_domains.data.lmdb_io import read_images
from latent_domains.data.sets import demo
from tests.programs import names, program


def test_plain_digits_are_bright_on_black():
    images, labels = demo.plain(np.random.default_rng(0), 50)
    assert images.shape == (50, 28, 28) and images.dtype == np.uint8
    assert np.bincount(labels).tolist() == [5] * 10
    ink = images.max(axis=(1, 2))
    assert not images[:, 0, 0].any() and ink.min() >= 190 and len(set(ink)) > 10


def test_photo_digits_on_photographs_are_coloured_differences():
    images, labels = demo.photo(np.random.default_rng(0), 50)
    assert images.shape == (50, 28, 28, 3) and images.dtype == np.uint8
    assert np.bincount(labels).tolist() == [5] * 10
    channels = images.reshape(-1, 3).astype(int)
    assert (np.abs(channels[:, 0] - channels[:, 2]) > 20).mean() > 0.2, "colours"


def test_handwritten_handwriting_is_scikit_learns_enlarged():
    halves = [demo.handwritten(split) for split in ("train", "test")]
    assert [images.shape for images, _ in halves] == [(1197, 28, 28), (600, 28, 28)]
    images, labels = map(np.concatenate, zip(*halves, strict=True))
    source = load_digits()
    assert labels.tolist() == source.target.tolist()
    small = np.stack([cv2.resize(image, (8, 8), interpolation=cv2.INTER_LINEAR) for image in images]) / 255 * 16
    assert np.abs(small - source.images).mean() < 0.3, "8×8 again, of 0 to 16"
    assert images.max() == 255 and np.median(images) < 60, "bright on dark"


def test_plans_the_seed_draws_the_training_images_and_not_the_test_images(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "RENDERED", {"train": 20, "test": 10})
    for seed in (0, 1):
        make_missing(demo.plans(tmp_path / str(seed), seed))
    for name in ("plain", "photo"):
        for split, same in (("train", False), ("test", True)):
            images = [read_images(tmp_path / seed / "demo" / f"{name}_{split}", 20)[0] for seed in "01"]
            assert np.array_equal(*images) == same, (name, split)
        train, test = (read_images(tmp_path / "0/demo" / f"{name}_{split}", 20)[0] for split in ("train", "test"))
        assert not any(np.array_equal(one, other) for one in train for other in test), name


def test_demo_the_program_builds_all_six_once(tmp_path):
    done = program("get_data", "demo", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    parts = [f"{name}_{split}" for name in ("plain", "photo", "handwritten") for split in ("train", "test")]
    assert names(tmp_path / "demo") == sorted(parts) and names(tmp_path) == ["demo"]
    for name, count in zip(parts, (5000, 1000, 5000, 1000, 1197, 600), strict=True):
        found = lmdb_io.describe(tmp_path / "demo" / name)
        assert (found.records, found.shape) == (count, (3, 28, 28))
        assert list(found.class_counts) == list(range(10))
    again = program("get_data", "demo", "--out", tmp_path)
    assert re.findall(r"demo/(\w+): built before", again.stdout) == parts
    other = program("get_data", "demo", "--out", tmp_path, "--seed", 2)
    assert other.returncode == 1 and "plain_train: made with seed 0 instead of 2" in other.stderr
