"""How long training takes, in numbers and in words."""

import pytest

from latent_domains.adapt.duration import duration_text, estimate_seconds, measure_iteration
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.write import write_run


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (5940, "99 min"), (10080, "2 h 48 min"), (360000, "100 h 0 min")],
)
def test_words(seconds, words):
    assert duration_text(seconds) == words


@pytest.mark.program
def test_iterations_tests_and_the_evaluation_count(tiny_data, tmp_path):
    experiment = make_experiment("digits", "mda", batch_size=10, iter_size=2, known_share=0.5)
    folder = write_run(experiment, tmp_path / "run", data=tiny_data)
    assert folder.batch_rows() == {"mnist": 10, "mnistm": 10, "usps": 10}, "domain labels are no images"
    # 250 iterations of 2 seconds for 60 images; 3 tests and the evaluation of 30 images at a third of that
    assert estimate_seconds(folder, 250, 2.0) == pytest.approx(500 + 4 * 30 * 2 / 60 / 3)
    threads, seconds = measure_iteration(folder, 1)
    assert threads == 1 and 0.001 < seconds < 60
