"""Writing run folders as a program, by the commands of the documentation too."""

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from latent_domains.common.files import json_text, write_text
from latent_domains.experiment.datasets import named
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs import write
from latent_domains.runs.run_folder import RunFolder
from tests.programs import child, files_up_to, program, replacing
from tests.test_documented_commands import PROGRAMS


@pytest.mark.program
def test_write_run_as_a_program(tiny_data, tmp_path):
    run = tmp_path / "run"
    made = program("write_run", "--method", "mda", "--k", 3, "--data", tiny_data, run)
    assert made.returncode == 0, made.stderr
    assert RunFolder.load(run).experiment == make_experiment("digits", "mda", k=3)
    again = program("write_run", "--method", "mda", run)
    assert again.returncode == 1
    assert again.stderr == f"error: {run} exists already: choose another name or pass --force to replace it\n"
    wrong = program("write_run", "--method", "dial", "--k", 3, tmp_path / "other")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("error: k: got 3, expected 1 for dial: a setting of mda, ")
    full = child("write_run", "--data", tiny_data, tmp_path / "other", before=files_up_to(100_000))
    assert (full.returncode, full.stderr.count("\n")) == (1, 1), full.stderr
    assert full.stderr.startswith("error: ") and "File too large" in full.stderr
    assert not list(tmp_path.glob("*other*"))


def documented(page: str) -> list[str]:
    """The arguments of the commands on a page of docs/ that write a run."""
    here = [command for name, command in PROGRAMS if name == f"docs/{page}"]
    return [command.removeprefix("tools.write_run ") for command in here if command.startswith("tools.write_run ")]


@pytest.mark.parametrize("command", documented("experiments.md"))
def test_write_run_documented_commands_write_runs(command, request, tmp_path, monkeypatch):
    """On data that is there, and on data that is not there yet; no initial weights are drawn, which are large."""
    pictures = request.getfixturevalue("styles" if "style" in command else "pictures")
    monkeypatch.setattr(write, "draw_weights", lambda nets, seed, file: file.touch())
    arguments = [word for word in shlex.split(command) if not word.startswith("runs/")]
    for number, word in enumerate(arguments):
        if word.endswith(".json"):  # which tools.extract_features writes
            arguments[number] = str(tmp_path / "dataset.json")
            features = replace(named("pacs_lite0"), name=Path(word).parent.name)
            write_text(tmp_path / "dataset.json", json_text(features.to_json()))
    done = program("write_run", tmp_path / "run", *replacing(arguments, ("--data", pictures)))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "solver.prototxt").is_file()


def test_write_run_documented_commands_were_found():
    assert len(documented("experiments.md")) >= 6
