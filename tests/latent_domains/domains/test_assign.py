"""All ways to give pictures domains, through their one interface."""

from pathlib import Path

import caffe
import numpy as np
import pytest

from latent_domains.data import lmdb_io
from latent_domains.domains.assign import WAYS
from latent_domains.domains.pictures import Pictures, W
from latent_domains.runs.outputs import domain_probabilities
from latent_domains.runs.run_folder import RunFolder
from tests.run_folders import small

SOURCES = np.repeat([0, 1], 48)


@pytest.fixture
def images(tiny_data: Path) -> Pictures:
    return Pictures(small("style_w"), tiny_data)


def assign(name: str, images: Pictures, k: int = 2, seed: int = 0, **options: object) -> W:
    """w, which is the same again, has rows that add up to 1 where a domain is known, and is in the pictures' order."""
    w, again = (WAYS[name](images, k, seed, **options) for _ in range(2))
    np.testing.assert_array_equal(w, again)
    assert w.shape == (sum(images.counts), k)
    sums = w.sum(axis=1)
    assert np.all((abs(sums - 1) < 1e-6) | (sums == 0))
    parts = images.by_part(w)
    assert list(parts) == list(images.experiment.task.source_inputs)
    np.testing.assert_array_equal(np.concatenate(list(parts.values())), w)
    return w


def test_known(images):
    assert assign("known", images).argmax(axis=1).tolist() == SOURCES.tolist()
    half, other = (assign("known", images, seed=seed, share=0.5) for seed in (0, 1))
    known = half.any(axis=1)
    assert known[:48].sum() == known[48:].sum() == 24 and (half[known].argmax(axis=1) == SOURCES[known]).all()
    assert (half != other).any()


def test_at_random(images):
    w = assign("at_random", images, 3)
    assert w[:48].sum(axis=0).tolist() == w[48:].sum(axis=0).tolist() == [16] * 3
    assert (w != assign("at_random", images, 3, seed=1)).any()


def test_pixels(images):
    """Gray digits are one cluster, of two; those in colours are in both."""
    w = assign("pixels", images)
    assert len(set(w.argmax(axis=1))) == 2 and set(w.ravel()) == {0, 1}


def test_style(images):
    found = assign("style", images).argmax(axis=1)
    assert (found == SOURCES).all() or (found != SOURCES).all()
    surest = assign("style", images, share=0.25)
    known = surest.any(axis=1)
    assert known.sum() == 24 and (surest[known].argmax(axis=1) == found[known]).all()
    counted = assign("style", images, counted=True).argmax(axis=1)
    assert (counted == SOURCES).all() or (counted != SOURCES).all()


def test_from_file(tiny_data, tmp_path):
    file, names = tmp_path / "domains.csv", [*lmdb_io.record_names(tiny_data / "digits" / "mnist_train")]
    names += lmdb_io.record_names(tiny_data / "digits" / "mnistm_train")
    file.write_text("path,a,b\n" + "".join(f"{name},{n / 95:.6f},{1 - n / 95:.6f}\n" for n, name in enumerate(names)))
    images = Pictures(small("multi_source", domains=file), tiny_data)
    np.testing.assert_allclose(assign("from_file", images)[:, 0], np.arange(96) / 95, atol=1e-6)


@pytest.mark.program
def test_branch(trained: RunFolder):
    net = trained.load_net("domains", caffe.TEST, trained.final_snapshot().model)
    images = Pictures(trained.experiment, trained.data_folder)
    w = assign("branch", images, 3, net=net)
    lmdbs = {source: trained.train_lmdbs[source] for source in ("mnist", "mnistm")}
    found, _ = domain_probabilities(trained, trained.final_snapshot().model, lmdbs)
    np.testing.assert_allclose(w, np.concatenate(list(found.values())), atol=1e-6)
