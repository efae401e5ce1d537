"""Pictures of the latent domains."""

import shutil

import numpy as np
import pytest
from matplotlib.figure import Figure

from latent_domains.data.lmdb_io import read_images
from latent_domains.experiment.experiment import make_experiment
from latent_domains.report.samples import (
    MOST_DOMAINS,
    largest,
    mosaic,
    mosaic_chart,
    read_source_images,
    surest_and_least_sure,
)
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.fixtures import TEST
from tests.training import train_here


def test_pictures_in_a_strip():
    images = np.zeros((3, 3, 4, 6), np.uint8)
    images[0, 2] = 200  # red, in BGR
    assert mosaic(images, 2)[0, 0].tolist() == [200, 0, 0]
    assert mosaic(images, 2)[-1, -1].tolist() == [255, 255, 255]
    for chosen, said in ((images, []), (images[:, :1], []), (images[:0], ["no image"])):
        axes = Figure().subplots()
        mosaic_chart("t", "a", chosen, 100, 100).draw(axes)
        assert [text.get_text() for text in axes.texts] == said and len(axes.images) == (not said)


def test_surest_and_least_sure_the_surest_and_the_least_sure_are_others():
    sure = np.array([0.6, 0.9, 0.7, 0.8, 0.55], np.float32)
    rows = np.stack([sure, 1 - sure], axis=1)
    assert [chosen.tolist() for chosen in surest_and_least_sure(rows, 0, count=3)] == [[1, 3, 2], [4, 0]]
    assert [chosen.tolist() for chosen in surest_and_least_sure(rows, 1)] == [[], []]


def test_pictures_of_the_largest_domains_alone_are_shown():
    assert largest(np.array([2, 0, 5])) == ([0, 1, 2], "")
    counts = np.arange(MOST_DOMAINS + 3)[::-1]
    assert largest(counts) == (list(range(MOST_DOMAINS)), "These are the 12 largest of 15 latent domains.")
    assert largest(counts[::-1])[0] == list(range(3, MOST_DOMAINS + 3))


@pytest.mark.program
def test_pictures_of_features_are_their_images(lite0_features, tmp_path):
    experiment = make_experiment("pacs_lite0", "mda", branch_input="early", iterations=1, batch_size=8)
    folder = write_run(experiment, tmp_path / "run", data=lite0_features)
    train_here(folder)
    found = read_source_images(folder, folder.final_snapshot())
    images, _ = read_images(lite0_features / "pacs" / "art_painting")
    assert np.array_equal(found.images[: len(images)], images)
    assert found.probabilities.shape == (len(found.images), 3) and len(found.images) == 42

    apart = tmp_path / "apart"
    shutil.copytree(lite0_features / "pacs_lite0", apart / "pacs_lite0")
    other = RunFolder(folder.path, experiment, apart)
    assert read_source_images(other, folder.final_snapshot()).images is None, "the pictures are not there"
    shutil.copytree(lite0_features / "pacs" / "photo", apart / "pacs" / "photo")
    for domain in ("art_painting", "cartoon"):
        shutil.copytree(lite0_features / "pacs" / "photo", apart / "pacs" / domain)
    assert read_source_images(other, folder.final_snapshot()).images is None, "they are pictures of others"


@pytest.mark.program
def test_read_source_images_held_out_images_are_looked_at(runs, tiny_data):
    found = read_source_images(runs["mda"], runs["mda"].final_snapshot())
    images, _ = read_images(tiny_data / "digits" / "mnist_test")
    assert np.array_equal(found.images[:TEST], images)
    assert found.sources == ["mnist"] * TEST + ["mnistm"] * TEST and found.probabilities.shape == (2 * TEST, 2)
