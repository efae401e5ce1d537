"""What is made of a task, and a folder that is in the way."""

import json
from pathlib import Path

import pytest

from latent_domains.adapt.learner import Learner
from latent_domains.adapt.stages import batch_notes, begin_anew, experiment_of, open_run, train
from latent_domains.adapt.task import Paths, Task
from latent_domains.adapt.trees import Domain, TaskImages
from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import Found
from latent_domains.experiment.batches import batch_sizes
from latent_domains.experiment.datasets import from_json
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.lock import locked


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


@pytest.mark.program
def test_what_is_wrong_with_a_run_is_told_before_an_iteration_is_measured(tiny_data, tmp_path):
    paths = Paths(tmp_path / "task")
    paths.data.mkdir(parents=True)
    (paths.data / "digits").symlink_to(tiny_data / "digits")
    folder = open_run(paths, make_experiment("digits", "source_only", iterations=1), "CPU")
    (paths.data / "digits").unlink()
    with pytest.raises(ProgramError, match="no LMDB there; build it with"):
        train(folder, None, 1, "CPU")


def test_what_an_earlier_call_left_is_deleted_even_if_nobody_can_read_it(tmp_path):
    paths = Paths(tmp_path / "task")
    begin_anew(paths, [])
    paths.root.mkdir()
    begin_anew(paths, [])
    paths.run.mkdir()
    (paths.run / "experiment.json").write_text("{}")
    with pytest.raises(ProgramError, match=r"task: no settings\.json in it, so --force does not empty it"):
        begin_anew(paths, [])
    paths.settings.write_text("{}")
    with locked(paths.run), pytest.raises(ProgramError, match="it is being trained already"):
        begin_anew(paths, [])
    begin_anew(paths, [tmp_path / "mine.caffemodel"])
    assert [file.name for file in paths.root.iterdir()] == ["settings.json"]


@pytest.mark.parametrize(
    ("split", "images", "expected"),
    [
        (None, (1_000, 1_000), (16, 16, 16)),
        ("per_domain", (1_000, 1_000), (16, 16, 16)),
        ("per_group", (1_000, 1_000), (12, 12, 24)),
        ("equally", (1_000, 1_000), (16, 16, 16)),
        ("by_size", (1_000, 1_000), (16, 16, 16)),
        (None, (1_000, 10), (10, 10, 10)),
        ("per_domain", (1_000, 10), (10, 10, 10)),
        ("per_group", (1_000, 10), (8, 7, 15)),
        ("equally", (1_000, 10), (10, 10, 10)),
        ("by_size", (1_000, 10), (23, 23, 2)),
        ("by_size", (10, 10), (10, 10, 10)),
    ],
)
def test_the_size_of_a_batch_however_it_is_divided(split, images, expected, tmp_path):
    counts = {"one": images[0], "other": images[0], "target": images[1]}
    *sources, target = (Domain(name, Path(name), (None,) * size, Found()) for name, size in counts.items())
    found = TaskImages(tuple(sources), (target,), ("cat", "dog"), ())
    chosen = {"method": "mda", "iterations": None, "k": None, "batch_split": split}
    experiment = experiment_of(Task(Paths(tmp_path), found, Learner("resnet18"), chosen, "adapt"), counts)
    assert tuple(batch_sizes(experiment, counts).values()) == expected
    notes = list(batch_notes(found, experiment))
    assert bool(notes) == (sum(expected) < 48)
    assert all(f" images: so a batch has {sum(expected)} images, not 48 as " in note for note in notes)


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
        domains = 2 if method == "source_only" else 3
        assert note.startswith(f"one has 3 images: so a batch has {8 * domains} images, not {128 * domains} as the net")
