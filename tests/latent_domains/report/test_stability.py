"""Whether seeds find the same latent domains."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from latent_domains.report.comparison import tasks_of
from latent_domains.report.page import TableBlock, Text
from latent_domains.report.runs import load_runs
from latent_domains.report.stability import agreement, stability_blocks
from latent_domains.runs.outputs import looked_at_lmdbs, source_probabilities


def test_agreement_is_over_all_pairs():
    a = np.array([0, 0, 1, 1])
    assert agreement([a, 1 - a, np.array([0, 1, 0, 1])]) == pytest.approx([1, -0.5, -0.5])


@pytest.fixture(scope="module")
def loaded(runs):
    found, _ = load_runs([folder.path for folder in runs.values()])
    return found


def test_seeds_are_compared_on_the_same_images(runs, loaded):
    block, _ = stability_blocks(tasks_of(loaded))
    rows = []
    for name in ("mda", "mda seed 1"):
        lmdbs, held_out = looked_at_lmdbs(runs[name])
        assert held_out
        found = source_probabilities(runs[name], runs[name].final_snapshot(), lmdbs=lmdbs, quiet=True)
        rows.append(np.concatenate([p.argmax(axis=1) for p in found.values()]))
    expected = f"{adjusted_rand_score(*rows):.2f}"
    collapsed = sum(runs[name].read_record().domain_usage.collapsed for name in ("mda", "mda seed 1"))
    assert isinstance(block, TableBlock)
    assert block.rows == [("mDA, k=2, 20 % of domain labels known", "2", "60", expected, expected, str(collapsed))]


def test_one_seed_is_compared_with_nothing(loaded):
    assert stability_blocks(tasks_of([run for run in loaded if run.experiment.seed == 0])) == []


def test_why_seeds_cannot_be_compared(loaded, tmp_path):
    """A record alone has no net to ask; a run on other data has other images."""
    first, second = (run for run in loaded if run.experiment.has_branch)
    (note,) = stability_blocks(tasks_of([first, replace(second, folder=None)]))
    assert isinstance(note, Text) and note.note and "of mda seed 1 there is the record alone" in note.text
    other = with_data(second, tmp_path / "data")
    shutil.rmtree(tmp_path / "data/digits/mnist_test")
    shutil.copytree(tmp_path / "data/digits/mnistm_test", tmp_path / "data/digits/mnist_test")
    (note,) = stability_blocks(tasks_of([first, other]))
    assert f"mda seed 1 has other images than mda: {tmp_path}/data/digits/mnist_test" in note.text


def with_data(run, place):
    """The run with a copy of its data."""
    shutil.copytree(run.folder.data_folder, place)
    return replace(run, folder=replace(run.folder, data_folder=place))


def test_seeds_that_have_data_of_their_own_are_compared(loaded, tmp_path):
    """Their held-out images are the same ones, in other places."""
    first, second = (run for run in loaded if run.experiment.has_branch)
    blocks = stability_blocks(tasks_of([first, with_data(second, tmp_path / "seed1")]))
    assert blocks == stability_blocks(tasks_of([first, second])) and isinstance(blocks[0], TableBlock)
