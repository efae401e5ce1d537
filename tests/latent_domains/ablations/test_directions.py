"""Directions of features that were made to have them, and of a real run."""

import numpy as np
import pytest

from latent_domains.ablations.directions import centred, directions, probe, split, tables, uncentred
from latent_domains.common.program import ProgramError
from latent_domains.runs.outputs import source_usage
from latent_domains.runs.write import write_run
from tests.fixtures import TEST
from tests.run_folders import small

SOURCES = {"a": 100, "b": 300}


def features() -> np.ndarray:
    """The mean (5, 0, 0), one source 3 to the left of the other along the second axis, nothing along the third."""
    f = np.zeros((400, 3))
    f[:, 0] = 5
    f[:100, 1] = -2.25
    f[100:, 1] = 0.75
    return f


def test_a_mean_is_the_first_direction_of_the_second_moment():
    found = uncentred(features())
    assert found["first_larger_side"] == 1
    assert found["first_with_mean"] == pytest.approx(1)
    assert found["first_share"] == found["mean_share"] == pytest.approx(25 / (25 + 3 * 2.25 * 0.25))
    assert uncentred(features() - features().mean(axis=0))["first_with_mean"] is None


def test_the_first_component_is_what_differs():
    found = centred(features(), SOURCES)
    assert found == pytest.approx({"component_share": 1, "component_larger_side": 0.75, "component_purity": 1})


def test_a_split_is_judged_by_the_true_sources():
    logits = np.eye(2)[[0] * 50 + [1] * 350]
    assert split(logits, SOURCES) == pytest.approx({"larger_side": 350 / 400, "purity": (300 + 50) / 400})


def test_a_probe_is_tested_on_what_it_has_not_seen():
    rng = np.random.default_rng(0)
    even = {"a": 200, "b": 200}
    noise = rng.standard_normal((400, 300))
    assert 0.4 < probe(noise, even) < 0.6
    assert probe(noise + 10 * np.repeat([0, 1], 200)[:, None], even) == 1
    assert probe(noise, {"a": 400}) is None and probe(noise, {"a": 399, "b": 1}) is None


def test_a_run_before_and_after_its_training(trained):
    before, after = directions(trained, TEST)
    assert (before["iteration"], after["iteration"]) == (0, 4)
    assert before["held_out"] and before["images"] == {"mnist": TEST, "mnistm": TEST}
    assert before["logits_purity"] >= 0.5 and before["gradient_second_moment_near_uniform"] > 0.99
    assert before["first_share"] != after["first_share"]
    first, second = tables([before, after]).split("\n\n")
    for text in (first, second):
        assert [line.split(" | ")[1].strip() for line in text.splitlines()[2:]] == ["0", "4"]


def test_the_logits_are_those_that_a_record_judges(tiny_data, tmp_path):
    """Without BN the batch does not matter: purity and share are those of the record, of the same images."""
    from latent_domains.training.train import train_all

    run = write_run(small(branch_norm="none", iterations=2), tmp_path / "run", data=tiny_data)
    train_all([run], threads=1)
    usage = source_usage(run, run.latest_snapshot(), quiet=True)
    _, after = directions(run, TEST)
    assert (after["logits_larger_side"], after["logits_purity"]) == (max(usage.share), usage.purity)


def test_a_run_without_a_branch_is_refused(trained_on_sources):
    with pytest.raises(ProgramError, match="source_only has no branch that predicts domains: expected mda"):
        directions(trained_on_sources, TEST)
