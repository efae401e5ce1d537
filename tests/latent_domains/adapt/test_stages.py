"""What is made of a task, and a folder that is in the way."""

import json
from pathlib import Path

import pytest

from latent_domains.adapt.learner import Learner
from latent_domains.adapt.stages import batch_notes, experiment_of, open_run
from latent_domains.adapt.task import Paths, Task
from latent_domains.adapt.trees import Domain, TaskImages
from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import Found
from latent_domains.experiment.datasets import from_json
from latent_domains.experiment.experiment import make_experiment


def test_a_folder_where_the_datasets_description_goes(tmp_path):
    paths = Paths(tmp_path / "task")
    paths.dataset.mkdir(parents=True)
    with pytest.raises(ProgramError, match=r"dataset\.json: a folder is there, expected to write a file"):
        open_run(paths, make_experiment("digits", "dial"), "CPU")
    assert not paths.run.exists()


def test_the_description_is_that_of_the_run(tiny_data, tmp_path):
    """Not that of a call with other options, which ended before there was a run."""
    paths = Paths(tmp_path / "task")
    paths.dataset.parent.mkdir(parents=True)
    paths.dataset.write_text("of other options")
    experiment = make_experiment("digits", "source_only", iterations=1)
    (paths.data / "digits").symlink_to(tiny_data / "digits")
    open_run(paths, experiment, "CPU")
    assert from_json(json.loads(paths.dataset.read_text())) == experiment.data


@pytest.mark.parametrize(("images", "interval"), [(4_000, 200), (20_000, 417), (172_500, 1200)])
def test_a_large_target_is_tested_less_often(images, interval, tmp_path):
    """A test of as many images as 417 batches of 48 comes after so many; 1,200 batches are all of the training."""
    one, other, target = (Domain(name, Path(name), (), Found()) for name in ("one", "other", "target"))
    found = TaskImages((one, other), (target,), ("cat", "dog"), ())
    counts = {"one": 5_000, "other": 400_000, "target": images}
    chosen = {"method": "mda", "iterations": None, "k": None}
    task = Task(Paths(tmp_path), found, Learner("resnet18"), chosen, "adapt")
    recipe = experiment_of(task, counts).data.recipe
    assert (recipe.iterations, recipe.batch_size, recipe.test_interval) == (1200, 48, interval)


def test_a_branch_that_no_model_could_have_is_refused(tmp_path):
    night, dusk, dawn = (Domain(name, Path(name), (), Found()) for name in ("night", "dusk", "dawn"))
    found = TaskImages((night,), (dusk, dawn), ("cat", "dog"), ())
    chosen = {"method": "mda", "iterations": None, "k": None, "k_target": 2, "branch_input": "early"}
    task = Task(Paths(tmp_path), found, Learner("lite0"), chosen, "adapt")
    with pytest.raises(
        ProgramError, match=r"branch_input: got 'early' with k_target 2, expected final: .* latent targets"
    ):
        experiment_of(task, {"night": 20, "dusk": 20, "dawn": 20})


def test_a_small_domain_makes_smaller_batches_and_that_is_said(tmp_path):
    def told(smallest: int, method: str = "mda", **chosen: int) -> list[str]:
        entries = {"one": smallest, "other": 500, "target": 500}
        *sources, target = (Domain(name, Path(name), (None,) * size, Found()) for name, size in entries.items())
        found = TaskImages(tuple(sources), (target,), ("cat", "dog"), ())
        chosen = {"method": method, "iterations": None, "k": None, **chosen}
        task = Task(Paths(tmp_path), found, Learner("mnist"), chosen, "adapt")
        return list(batch_notes(found, experiment_of(task, entries)))

    assert told(128) == [] and told(3, batch_size=32) == []
    for method in ("mda", "source_only"):
        (note,) = told(3, method)
        assert note.startswith("one has 3 images: so the batches are of 8 images a domain, not of 128 as the network's")
