"""What is made of a task, what is decided about its folder, and the stages of its training."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from latent_domains.adapt import settings
from latent_domains.adapt.decision import Decision, decide, remove_results
from latent_domains.adapt.learner import Learner
from latent_domains.adapt.stages import batch_notes, experiment_of, open_run, train
from latent_domains.adapt.task import Paths, Task
from latent_domains.common.program import ProgramError
from latent_domains.data.domain_images import Domain, TaskImages
from latent_domains.data.image_list import Found
from latent_domains.experiment.batches import batch_sizes
from latent_domains.experiment.datasets import from_json
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.lock import locked
from latent_domains.runs.run_folder import RunFolder


def task(
    root: Path, counts: Mapping[str, int] = {}, network: str = "resnet18", targets: int = 1, **chosen: Any
) -> Task:
    """A task on so many images of each domain, the last ones of which are targets."""
    domains = [Domain(name, Path(name), (None,) * count, Found()) for name, count in counts.items()]
    sources, last = domains[: len(domains) - targets], domains[len(domains) - targets :]
    images = TaskImages(tuple(sources), tuple(last), ("cat", "dog"), ())
    options = {"method": "mda", "iterations": None, "k": None, **chosen}
    return Task(Paths(root), images, Learner(network), options, "adapt")


def begin(root: Path, tiny_data: Path) -> RunFolder:
    """A run of one iteration on the tiny digits, in a task's folder."""
    ours = task(root)
    ours.paths.data.mkdir(parents=True)
    (ours.paths.data / "digits").symlink_to(tiny_data / "digits")
    return open_run(ours, make_experiment("digits", "source_only", iterations=1), Decision.NEW, "CPU")


def test_the_datasets_description_is_that_of_the_run(tiny_data, tmp_path):
    """Not that of a call with other options, which ended before there was a run."""
    paths = Paths(tmp_path)
    paths.dataset.mkdir(parents=True)
    with pytest.raises(ProgramError, match=r"dataset\.json: a folder is there, expected to write a file"):
        open_run(task(tmp_path), make_experiment("digits", "dial"), Decision.NEW, "CPU")
    assert not paths.run.exists()
    ours = Paths(tmp_path / "ours")
    ours.dataset.parent.mkdir(parents=True)
    ours.dataset.write_text("of other options")
    (ours.data / "digits").symlink_to(tiny_data / "digits")
    experiment = make_experiment("digits", "source_only", iterations=1)
    folder = open_run(task(ours.root), experiment, Decision.NEW, "CPU")
    assert from_json(json.loads(ours.dataset.read_text())) == experiment.data
    assert open_run(task(ours.root), experiment, Decision.CONTINUE, "CPU") == folder
    with pytest.raises(ProgramError, match=r"another experiment: method is 'source_only' there, 'dial' here.*--force"):
        open_run(task(ours.root), make_experiment("digits", "dial"), Decision.CONTINUE, "CPU")


def test_what_is_done_with_a_folder_is_decided_by_its_run_and_force(tiny_data, tmp_path):
    paths = Paths(tmp_path / "task")
    assert decide(paths, replaces=False) is Decision.NEW
    folder = begin(paths.root, tiny_data)
    assert decide(paths, replaces=False) is Decision.CONTINUE
    folder.record.touch()
    assert decide(paths, replaces=False) is Decision.FINISHED
    (folder.path / "experiment.json").write_text("{}")  # nobody can read it
    assert decide(paths, replaces=True) is Decision.REPLACE
    paths.settings.write_text("{}")
    with locked(paths.run), pytest.raises(ProgramError, match="it is being trained already"):
        remove_results(paths, [])
    remove_results(paths, [tmp_path / "mine.caffemodel"])
    assert [file.name for file in paths.root.iterdir()] == ["settings.json"]


def test_results_of_a_run_that_somebody_deleted_are_not_mixed_with_those_of_another_one(tmp_path):
    """DIAL makes no domains.csv, and without labels there are no baselines: those of before would stay."""
    paths = Paths(tmp_path / "task")
    paths.baselines.mkdir(parents=True)
    paths.domains.touch()
    message = f"^{paths.root}: found domains.csv, baselines of a training whose folder run is gone: choose another"
    with pytest.raises(ProgramError, match=message):
        decide(paths, replaces=False)
    assert decide(paths, replaces=True) is Decision.REPLACE


def test_a_folder_that_was_moved_is_refused_before_anything_is_built(tiny_data, tmp_path):
    """Its run reads the LMDBs of the old place, where others may be by now. A link to the old place is no other one."""
    begin(tmp_path / "task", tiny_data)
    (tmp_path / "task").rename(tmp_path / "moved")
    with pytest.raises(ProgramError, match=r"moved was moved or copied: its run reads .*task/data, expected .*--force"):
        decide(Paths(tmp_path / "moved"), replaces=False)
    (tmp_path / "task").symlink_to("moved")
    assert decide(Paths(tmp_path / "moved"), replaces=False) is Decision.CONTINUE


def test_a_folder_that_was_begun_before_there_was_an_option_goes_on(tmp_path):
    """Its run says what was done then, and is compared as well."""
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"--k": 2}))
    settings.keep(file, {"--k": 2, "--style-share": 0.5}, begun=True)
    with pytest.raises(ProgramError, match=r"begun with other options: --k was 2, is not given"):
        settings.keep(file, {"--k": None}, begun=True)


@pytest.mark.program
def test_what_is_wrong_with_a_run_is_told_before_an_iteration_is_measured(tiny_data, tmp_path):
    folder = begin(tmp_path / "task", tiny_data)
    (folder.data_folder / "digits").unlink()
    with pytest.raises(ProgramError, match="no LMDB there; build it with"):
        train(folder, Decision.CONTINUE, None, 1, "CPU")


def test_a_finished_run_of_other_records_is_refused_with_advice_for_adapt(tiny_data, tmp_path):
    folder = begin(tmp_path / "task", tiny_data)
    name = folder.experiment.data.train_lmdb(folder.experiment.sources[0])
    folder.training.write_text(json.dumps({"seconds": 1.0, "lmdbs": {name: "of yesterday"}}))
    with pytest.raises(ProgramError, match=r"was of yesterday, is .*; choose another --out, or pass --force"):
        train(folder, Decision.FINISHED, None, 1, "CPU")


@pytest.mark.parametrize(("images", "interval"), [(4_000, 200), (20_000, 417), (172_500, 1200)])
def test_a_large_target_is_tested_less_often(images, interval, tmp_path):
    """A test of as many images as 417 batches of 48 comes after so many; 1,200 batches are all of the training."""
    counts = {"one": 5_000, "other": 400_000, "target": images}
    recipe = experiment_of(task(tmp_path, dict.fromkeys(counts, 1)), counts).data.recipe
    assert (recipe.iterations, recipe.batch_size, recipe.test_interval) == (1200, 48, interval)


def test_a_branch_that_no_model_could_have_is_refused(tmp_path):
    counts = {"night": 20, "dusk": 20, "dawn": 20}
    ours = task(tmp_path, counts, "lite0", targets=2, k_target=2, branch_input="early")
    with pytest.raises(ProgramError, match=r"branch_input: got 'early' with k_target 2, expected final: .* latent tar"):
        experiment_of(ours, counts)


@pytest.mark.parametrize(
    ("split", "images", "expected"),
    [
        (None, (1_000, 1_000), (16, 16, 16)),
        ("per_group", (1_000, 1_000), (12, 12, 24)),
        ("by_size", (1_000, 1_000), (16, 16, 16)),
        ("per_domain", (1_000, 10), (10, 10, 10)),
        ("per_group", (1_000, 10), (8, 7, 15)),
        ("equally", (1_000, 10), (10, 10, 10)),
        ("by_size", (1_000, 10), (23, 23, 2)),
    ],
)
def test_the_size_of_a_batch_however_it_is_divided(split, images, expected, tmp_path):
    counts = {"one": images[0], "other": images[0], "target": images[1]}
    ours = task(tmp_path, counts, batch_split=split)
    experiment = experiment_of(ours, counts)
    assert tuple(batch_sizes(experiment, counts).values()) == expected
    notes = list(batch_notes(ours.images, experiment))
    assert bool(notes) == (sum(expected) < 48)
    assert all(f" images: so a batch has {sum(expected)} images, not 48 as " in note for note in notes)


def test_a_small_domain_makes_smaller_batches_and_that_is_said(tmp_path):
    def told(smallest: int, **chosen: Any) -> list[str]:
        counts = {"one": smallest, "other": 500, "target": 500}
        ours = task(tmp_path, counts, "mnist", **chosen)
        return list(batch_notes(ours.images, experiment_of(ours, counts)))

    assert told(128) == [] and told(3, batch_size=32) == []
    for method, domains in (("mda", 3), ("source_only", 2)):
        (note,) = told(3, method=method)
        assert note.startswith(f"one has 3 images: so a batch has {8 * domains} images, not {128 * domains} as the net")
