"""An adaptation's folder: the options that it was begun with, and what an earlier call has left in it."""

import json

import pytest

from latent_domains.adapt.folder import Paths, check_goes_on, keep_settings, remove_results
from latent_domains.common.program import ProgramError
from latent_domains.runs.lock import locked
from tests.latent_domains.adapt.adaptations import begin


def test_keep_settings_takes_an_option_of_the_method_that_was_none_for_the_default_of_then(tmp_path):
    paths = Paths(tmp_path / "out")
    keep_settings(paths, {"--k-target": 3})
    keep_settings(paths, {"--k-target": None, "--weights": None})
    paths.run.mkdir()
    keep_settings(paths, {"--k-target": 1, "--weights": None}, by_default=["--k-target"])
    for changed in ({"--k-target": 1, "--weights": "w"}, {"--k-target": 2, "--weights": None}):
        with pytest.raises(ProgramError, match=r"was not given, is [w2]"):
            keep_settings(paths, changed)


def test_check_goes_on_and_remove_results_of_a_training_that_was_begun(tiny_data, tmp_path):
    paths = Paths(tmp_path / "task")
    check_goes_on(paths)
    assert not paths.is_begun
    folder = begin(paths.root, tiny_data)
    check_goes_on(paths)
    assert paths.is_begun
    (folder.path / "experiment.json").write_text("{}")  # nobody can read it
    with pytest.raises(ProgramError, match=r"experiment\.json"):
        check_goes_on(paths)
    paths.settings.write_text("{}")
    with locked(paths.run), pytest.raises(ProgramError, match="it is being trained already"):
        remove_results(paths, [])
    remove_results(paths, [tmp_path / "mine.caffemodel"])
    assert [file.name for file in paths.root.iterdir()] == ["settings.json"] and not paths.is_begun


def test_check_goes_on_does_not_mix_results_of_a_run_that_somebody_deleted_with_others(tmp_path):
    """DIAL makes no domains.csv, and without labels there are no baselines: those of before would stay."""
    paths = Paths(tmp_path / "task")
    paths.baselines.mkdir(parents=True)
    paths.domains.touch()
    message = (
        f"^{paths.root}: found domains.csv, baselines of a training, but its folder run is missing: choose another"
    )
    with pytest.raises(ProgramError, match=message):
        check_goes_on(paths)


def test_check_goes_on_after_a_call_that_ended_after_counting_domains(tmp_path):
    paths = Paths(tmp_path / "out")
    paths.root.mkdir()
    paths.found.write_text("page")
    check_goes_on(paths)
    remove_results(paths, [])
    assert not paths.found.exists()


def test_check_goes_on_refuses_a_folder_that_was_moved(tiny_data, tmp_path):
    """Its run reads the LMDBs of the old place, where others may be by now. A link to the old place is no other one."""
    begin(tmp_path / "task", tiny_data)
    (tmp_path / "task").rename(tmp_path / "moved")
    with pytest.raises(ProgramError, match=r"moved was moved or copied: its run reads .*task/data, expected .*--force"):
        check_goes_on(Paths(tmp_path / "moved"))
    (tmp_path / "task").symlink_to("moved")
    check_goes_on(Paths(tmp_path / "moved"))


def test_keep_settings_of_a_folder_that_was_begun_before_there_was_an_option(tmp_path):
    """Its run says what was done then, and is compared as well."""
    paths = Paths(tmp_path)
    paths.settings.write_text(json.dumps({"--k": 2}))
    paths.features.run.mkdir(parents=True)
    keep_settings(paths, {"--k": 2, "--style-share": 0.5})
    with pytest.raises(ProgramError, match=r"begun with other options: --k was 2, is not given"):
        keep_settings(paths, {"--k": None})
