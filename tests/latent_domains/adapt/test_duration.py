"""How long training takes, in numbers and in words."""

import pytest

from latent_domains.adapt import duration
from latent_domains.adapt.duration import in_words, measure, memory_note, total
from latent_domains.experiment.datasets import adapted, named, of_network
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.write import write_run


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (5940, "99 min"), (10080, "2 h 48 min"), (360000, "100 h 0 min")],
)
def test_words(seconds, words):
    assert in_words(seconds) == words


@pytest.mark.program
def test_iterations_tests_and_the_evaluation_count(tiny_data, tmp_path):
    experiment = make_experiment("digits", "mda", batch_size=10, iter_size=2, known_share=0.5)
    folder = write_run(experiment, tmp_path / "run", data=tiny_data)
    assert folder.batch_rows() == {"mnist": 10, "mnistm": 10, "usps": 10}, "domain labels are no images"
    # 250 iterations of 2 seconds for 60 images; 3 tests and the evaluation of 30 images at a third of that
    assert total(folder, 250, 2.0) == pytest.approx(500 + 4 * 30 * 2 / 60 / 3)
    threads, seconds = measure(folder, 1)
    assert threads == 1 and 0.001 < seconds < 60


@pytest.mark.parametrize(
    ("network", "images", "gib"),
    [("resnet18", 40, None), ("resnet18", 48, "5.8"), ("resnet50", 12, "5.3"), ("mnist", 10**6, None)],
)
def test_memory_that_is_not_there(monkeypatch, network, images, gib):
    monkeypatch.setattr(duration, "available_gib", lambda: 5.0)
    said = (
        f"a batch of {images} images takes about {gib} GiB of memory and 5.0 GiB are free: a smaller --batch-size takes"
    )
    assert memory_note(of_network(network), images) == (gib and f"{said} less")


def test_smaller_images_take_less_memory(monkeypatch):
    monkeypatch.setattr(duration, "available_gib", lambda: 5.0)
    assert "a batch of 48 images takes about 9.3 GiB" in memory_note(of_network("lite0"), 48)
    assert memory_note(adapted(named("pacs"), "lite0", 128), 48) is None


def test_memory_of_this_machine():
    assert 0.01 < duration.available_gib() < 10**6
