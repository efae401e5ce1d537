"""What the workflow would do: its config, which runs it makes and how."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.experiment.datasets import DATASETS
from latent_domains.tables.definition import BaselineRun
from latent_domains.tables.options import Config, seed_list
from latent_domains.tables.plan import Plan
from tests.latent_domains.tables.tables import TEXT, plan, small_table, write_record


@pytest.mark.program
def test_plan_does_not_import_caffe():
    code = "import sys, latent_domains.tables.plan; sys.exit('caffe' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_config_is_read_as_snakemake_gives_it(tmp_path):
    found = Config.read({"seeds": "0,2", "iterations": 20, "images": str(tmp_path), "data": "d", "threads": 2})
    assert found == Config(seeds=(0, 2), iterations=20, images=str(tmp_path), data=Path("d"), threads=2)
    assert found.choices == ["--data", "d", "--seeds", "0,2", "--iterations", "20"]
    assert Config.read({"seeds": 3}).seeds == (3,) and Config.read({"seeds": [3, 4]}).seeds == (3, 4)
    assert Config.read({"seeds": "3, 4"}).seeds == seed_list("3, 4") == (3, 4), "as --seeds of the programs"
    assert Config.read({"weights": None}) == Config()
    assert Config.read({"runs": "~/r", "data": "a/~"}) == Config(runs=Path.home() / "r", data=Path("a/~"))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"seed": 0}, "--config: found the key 'seed', expected some of seeds, iterations, images"),
        ({"seeds": "0-4"}, "--config: seeds: found '0-4', expected a whole number of at least 0"),
        ({"iterations": 0}, "--config: iterations: found 0"),
        ({"images": "/nowhere"}, "images: found '/nowhere', expected a folder, a set's unpacked archive"),
        ({"runs": "a{run}"}, "--config: runs: found 'a{run}', expected no braces"),
        ({"data": "~nobody at all/x"}, "--config: data: found '~nobody at all/x', expected the home folder of a user"),
        ({"solver_mode": "cpu"}, "--config: solver_mode: found 'cpu'"),
    ],
)
def test_config_names_a_wrong_value(config, message):
    with pytest.raises(ProgramError, match=message):
        Config.read(config)


def test_plan_names_a_table_that_is_not_there(tmp_path):
    with pytest.raises(ProgramError, match=r"experiments: found no NAME\.yaml, expected the definitions of tables"):
        _ = plan(tmp_path).tables
    with pytest.raises(ProgramError, match=r"^tables/dgits: no such table, expected one of digits, pacs$"):
        plan(tmp_path, "digits", "pacs").table("dgits")


def test_plan_refuses_two_tables_of_other_datasets_of_one_name(tmp_path):
    """A run of the one would be trained in place of the other's, whose folder has the same name."""
    here = plan(tmp_path)
    data = replace(DATASETS["digits"], name="mine")
    for table, one in (("a", data), ("b", replace(data, made_by="else")), ("c", replace(data, usage_images=9))):
        (tmp_path / f"{table}.json").write_text(json.dumps(one.to_json()))
        small_table(tmp_path / "experiments", TEXT.replace("dataset: digits", f"dataset: ../{table}.json"))
        (tmp_path / "experiments" / "small.yaml").rename(tmp_path / "experiments" / f"{table}.yaml")
    folder = tmp_path / "experiments"
    message = f"{folder}/c.yaml: dataset: {folder}/../c.json describes another mine than {folder}/../a.json, which "
    with pytest.raises(ProgramError, match=f"^{re.escape(message)}"):
        _ = here.tables
    (folder / "c.yaml").unlink()
    assert list(here.tables) == ["a", "b"]


def test_plan_makes_runs_that_are_not_finished_and_can_be_made(tmp_path):
    here = plan(tmp_path, "digits", "office31", "office_caltech_surf")
    digits, office31 = here.table("digits"), here.table("office31")
    assert len(here.to_make(digits)) == 75 and here.obstacles(digits) == []
    assert here.to_make(office31) == [] and here.obstacles(office31) == [
        "Office-31 is not on this machine: --config images=DIR names its unpacked archive"
    ]
    before = [here.contents(table) for table in (digits, office31)]
    records = [write_record(tmp_path / "runs", table.runs[0], 0.9) for table in (digits, office31)]
    after = [here.contents(table) for table in (digits, office31)]
    assert after[0] == before[0], "a run that is made in this call makes no other table"
    assert after[1] != before[1], "a record that came from elsewhere does, however old it is"
    assert [here.records(digits), here.records(office31)] == [records[:1], records[1:]]
    assert len(here.to_make(digits)) == 74 and f"train/digits/{digits.runs[0].name}" not in here.to_make(digits)
    baselines = here.to_make(here.table("office_caltech_surf"))
    assert "baseline/office_caltech_surf/gfk_d20_amazon+caltech-webcam+dslr_seed0" in baselines


def test_run_script_writes_a_run_from_its_table_then_trains_it(tmp_path, monkeypatch):
    for name in ("DATA_MIRROR", "WEIGHTS_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    here = plan(Path(), "pacs", seeds=(3,), solver_mode="CPU")
    mda = next(run for run in here.table("pacs").runs if run.method.name == "mda")
    write, train = here.run_script(mda, threads=2).split(" && ")
    options = "--runs runs --data data --seeds 3 --solver-mode CPU"
    assert write == f"python -m tools.tables experiments/pacs.yaml --write {mda.name} {options}"
    assert train == (
        "exec python -m tools.on_free_gpu python -m tools.train --resume --wait --solver-mode CPU "
        f"--weights data/weights/resnet18_mda4.caffemodel runs/pacs/{mda.name} --threads 2"
    )
    assert (here.gpus_of(mda), here.memory(mda)) == (None, 8000)
    begins_at_random = Plan(Config(weights="none", experiments=Path("experiments"), runs=Path("x; touch y")))
    assert begins_at_random.run_script(mda, threads=1).endswith(f" 'x; touch y/pacs/{mda.name}' --threads 1")


def test_run_script_calls_baselines_with_their_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = {"dataset": "office31_fc7", "sources": ("amazon", "dslr"), "targets": ("webcam",), "seed": 3}
    run = BaselineRun(method="gong2013", classifier="svm", dimension=20, k=2, variant="matching", **task)
    assert plan(Path(), "digits").run_script(run, threads=1) == (
        "exec python -m tools.baselines gong2013 --dataset office31_fc7 --seed 3 --sources amazon+dslr "
        "--targets webcam --classifier svm --dimension 20 --normalise z --k 2 --data data "
        f"--force runs/office31_fc7/{run.name}/record.json"
    )
