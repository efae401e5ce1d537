"""What a report is made of: run folders, records alone and baselines, each read and checked."""

import re
from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import make_experiment
from latent_domains.report.runs import load_runs
from latent_domains.runs.write import write_run
from tests.latent_domains.report.records import write_record
from tests.run_folders import small


def test_load_runs_names_of_runs_are_unique(tmp_path):
    experiment = make_experiment("digits", "mda")
    paths = [write_record(tmp_path / folder / "run.json", experiment, 0.5) for folder in ("a", "b")]
    assert len({run.name for run in load_runs(paths)[0]}) == 2


def test_load_runs_a_folder_of_run_folders_is_its_runs(tiny_data, tmp_path):
    for name in ("b", "a"):
        write_run(small(), tmp_path / "runs" / name, data=tiny_data)
    write_record(tmp_path / "c.json", make_experiment("digits", "mda"), 0.5)
    assert [run.name for run in load_runs([tmp_path / "runs", tmp_path / "c.json"])[0]] == ["a", "b", "c"]
    (tmp_path / "none").mkdir()
    with pytest.raises(ProgramError, match=r"none: no experiment\.json in it or its folders"):
        load_runs([tmp_path / "none"])


def test_load_runs_what_is_no_record_is_named(tmp_path):
    file = tmp_path / "x.json"
    with pytest.raises(ProgramError, match=r"x\.json: no such file, expected a run folder or a record"):
        load_runs([file])
    file.write_text('{"accuracy": 0.5, "targets": {}, "domain_usage": null, "experiment": {"k": 1}}')
    with pytest.raises(ProgramError, match=r"x\.json: experiment: schema: found None, expected 2"):
        load_runs([file])


@pytest.mark.parametrize(("make", "name"), [(Path.mkdir, "experiment.json"), (Path.touch, "solver.prototxt")])
def test_load_runs_a_run_whose_description_is_gone_is_no_record_alone(make, name, tmp_path):
    write_record(tmp_path / "record.json", make_experiment("digits", "mda"), 0.5)
    assert len(load_runs([tmp_path])[0]) == 1
    make(tmp_path / name)
    with pytest.raises(ProgramError, match=r"no experiment\.json in it, expected a run folder"):
        load_runs([tmp_path])


USAGE = {"sources": ["a"], "images": 1, "counts": [[1, 0]], "share": [1.0, 0.0], "purity": 1.0, "nmi": 0.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": {"usps": {"accuracy": 1.0, "confusion": [[1, 2], [3, 4]]}}}, "targets: usps: confusion"),
        ({"classes": ["a"]}, "classes: found ['a'], expected 10 names"),
        ({"domain_usage": None}, "domain_usage: found None, expected an object, as there are latent domains"),
        ({"domain_usage": {**USAGE, "share": [1.0]}}, "domain_usage: counts [[1, 0]] and share [1.0] do not fit"),
        ({"domain_usage_history": [USAGE]}, "domain_usage_history: iteration is None, expected a number"),
    ],
)
def test_load_runs_a_damaged_record_is_named(change, message, tmp_path):
    record = write_record(tmp_path / "r.json", make_experiment("digits", "mda"), **{"accuracy": 0.5, **change})
    with pytest.raises(ProgramError, match=re.escape(f"r.json: {message}")):
        load_runs([record])
