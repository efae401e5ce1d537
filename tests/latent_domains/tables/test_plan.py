"""What the workflow would do: its config, what can be made here and from what."""

import subprocess
import sys
from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import Experiment
from latent_domains.tables.definition import BaselineRun, run_path
from latent_domains.tables.inputs import why_missing
from latent_domains.tables.options import seed_list
from latent_domains.tables.plan import Config, Plan, baseline_options
from tests.latent_domains.tables.tables import write_record


def plan(tmp_path: Path, **config) -> Plan:
    return Plan(Config(data=tmp_path / "data", runs=tmp_path / "runs", **config))


def with_lmdbs(tmp_path: Path, dataset: str, *domains: str) -> None:
    for domain in domains:
        folder = tmp_path / "data" / dataset / domain
        folder.mkdir(parents=True)
        (folder / "data.mdb").touch()


def test_reading_the_workflow_does_not_import_caffe():
    code = "import sys, latent_domains.tables.plan; sys.exit('caffe' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_config_is_read_as_snakemake_gives_it(tmp_path):
    found = Config.read({"seeds": "0,2", "iterations": 20, "images": str(tmp_path), "data": "d", "threads": 2})
    assert found == Config(seeds=(0, 2), iterations=20, images=str(tmp_path), data=Path("d"), threads=2)
    assert Config.read({"seeds": 3}).seeds == (3,) and Config.read({"seeds": [3, 4]}).seeds == (3, 4)
    assert Config.read({"seeds": "3, 4"}).seeds == seed_list("3, 4") == (3, 4), "as --seeds of the programs"
    assert Config.read({"weights": None}) == Config()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"seed": 0}, "--config: found the key 'seed', expected some of seeds, iterations, images"),
        ({"seeds": "0-4"}, "--config: seeds: found '0-4', expected seeds such as 0,1,2"),
        ({"iterations": 0}, "--config: iterations: found 0"),
        ({"images": "/nowhere"}, "images: found '/nowhere', expected a folder, a set's unpacked archive"),
        ({"solver_mode": "cpu"}, "--config: solver_mode: found 'cpu'"),
    ],
)
def test_a_wrong_value_is_named(config, message):
    with pytest.raises(ProgramError, match=message):
        Config.read(config)


def test_digits_can_always_be_made(tmp_path):
    here = plan(tmp_path)
    table = here.tables["digits"]
    run = table.runs[0]
    assert here.obstacles(table) == [] and len(here.records(table)) == 75
    assert here.prerequisites(run) == [tmp_path / "data" / ".built" / "seed0" / "digits"]
    with_lmdbs(tmp_path, "seed0/digits", *(f"{d}_{s}" for d in ("mnist", "mnistm", "usps") for s in ("train", "test")))
    assert here.prerequisites(run) == []
    assert here.images_options("digits") == ["digits", "--out", str(tmp_path / "data")]


def test_every_seed_of_the_digits_has_lmdbs_of_its_own(tmp_path):
    here, data = plan(tmp_path, seeds=(0, 3)), tmp_path / "data"
    runs = here.tables["digits"].runs
    assert {(run.seed, here.data_folder(run)) for run in runs} == {(0, data / "seed0"), (3, data / "seed3")}
    assert {file for run in runs for file in here.prerequisites(run)} == {
        data / ".built" / "seed0" / "digits",
        data / ".built" / "seed3" / "digits",
    }
    options = ["--out", str(data / "seed3"), "--seed", "3"]
    assert here.images_options("seed3/demo") == ["demo", *options]
    for fetched in ("digits", "digits_hard"):
        assert here.images_options(f"seed3/{fetched}") == [fetched, *options, "--downloads", str(data / "downloads")]
    (shared,) = {here.data_folder(run) for run in here.tables["pacs"].runs}
    assert shared == data


def test_image_sets_need_their_images(tmp_path):
    here = plan(tmp_path)
    table = here.tables["office31"]
    assert here.records(table) == []
    assert here.obstacles(table) == ["Office-31 is not on this machine: --config images=DIR names its unpacked archive"]
    given = plan(tmp_path, images="archive")
    assert len(given.records(table)) == 75 and given.obstacles(table) == []
    assert given.images_options("office31")[3:] == ["--images", "archive", "--jobs", "1"]
    assert given.prerequisites(table.runs[0]) == [
        tmp_path / "data/.built/office31",
        tmp_path / "data/weights/bvlc_alexnet.caffemodel",
    ]


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    """What weights are at hand is what a test puts there."""
    for name in ("DATA_MIRROR", "WEIGHTS_MIRROR"):
        monkeypatch.delenv(name, raising=False)


def test_weights_are_fetched_given_or_left_out(tmp_path):
    with_lmdbs(tmp_path, "pacs", "art_painting", "cartoon", "photo", "sketch")
    runs = {run.method.name: run for run in plan(tmp_path).tables["pacs"].runs}
    fetched = {method: plan(tmp_path).prerequisites(run) for method, run in runs.items()}
    folder = tmp_path / "data" / "weights"
    assert fetched == {
        "source_only": [folder / "resnet18.caffemodel"],
        "dial": [folder / "resnet18_mda2.caffemodel"],
        "mda": [folder / "resnet18_mda4.caffemodel"],
        "multi_source": [folder / "resnet18_mda4.caffemodel"],
    }
    assert plan(tmp_path).pretrained["resnet18"] == [2, 4]
    assert plan(tmp_path).weights_files("resnet18") == [
        str(folder / f"resnet18{mda}.caffemodel") for mda in ("", "_mda2", "_mda4")
    ]
    command = plan(tmp_path).weights_command("resnet18")
    assert command[:6] == ["python", "-m", "tools.get_weights", "resnet18", "--out", str(folder)]
    assert command[6:] == ["--num-domains", "2", "--num-domains", "4"]
    assert plan(tmp_path).weights_files("alexnet") == [str(folder / "bvlc_alexnet.caffemodel")]
    assert plan(tmp_path).weights_command("alexnet")[2:4] == ["tools.get_weights", "alexnet"]
    assert plan(tmp_path, weights="none").prerequisites(runs["mda"]) == []


def test_weights_that_are_at_hand_stand_in(tmp_path, monkeypatch):
    """Where only a mirror folder has some, or the caffemodels of some are there."""
    folder, mirror = tmp_path / "data" / "weights", tmp_path / "mirror" / "weights" / "resnet18_cntk"
    assert "resnet18" in plan(tmp_path).pretrained
    mirror.mkdir(parents=True)
    (mirror / "ResNet18.onnx").touch()
    monkeypatch.setenv("DATA_MIRROR", str(tmp_path / "mirror"))
    assert "resnet18_cntk" in plan(tmp_path).pretrained and "resnet18" not in plan(tmp_path).pretrained
    assert plan(tmp_path).weights_command("resnet18_cntk")[2:4] == ["tools.get_weights", "resnet18_cntk"]
    assert str(folder / "resnet18_cntk_mda4.caffemodel") in plan(tmp_path).weights_files("resnet18_cntk")
    folder.mkdir(parents=True)
    (folder / "resnet18_mda4.caffemodel").touch()
    assert "resnet18" in plan(tmp_path).pretrained


def test_features_come_from_images_and_weights(tmp_path):
    here = plan(tmp_path)
    table = here.tables["office31_fc7"]
    assert here.records(table) == [] and "Office-31 is not on this machine" in here.obstacles(table)[0]
    given = plan(tmp_path, images="archive")
    assert len(given.records(table)) == 45
    assert given.prerequisites(table.runs[0]) == [tmp_path / "data/.built/office31_fc7"]
    weights = tmp_path / "data/weights/bvlc_alexnet.caffemodel"
    assert given.before_derived("office31_fc7") == [tmp_path / "data/.built/office31", weights]
    with_lmdbs(tmp_path, "office31", "amazon", "dslr", "webcam")
    assert here.before_derived("office31_fc7") == [weights] and len(here.records(table)) == 45
    options = ["--weights", str(weights), "--data", str(tmp_path / "data"), "--jobs", "2"]
    assert here.derived_command("office31_fc7", 2) == ["python", "-m", "tools.extract_features", "office31", *options]
    assert set(here.feature_sets) == {"office31_fc7", "office_caltech_fc7", "office_caltech_lite0", "pacs_lite0"}
    assert here.derived_command("pacs_lite0", 2)[3:6] == ["pacs", "--backbone", "lite0"]
    assert here.before_derived("pacs_lite0") == [tmp_path / "data/.built/pacs"]


def test_what_is_finished_needs_nothing_and_is_in_the_table(tmp_path):
    first = plan(tmp_path).tables["office31"].runs[0]
    write_record(tmp_path / "runs", first, 0.9)
    here = plan(tmp_path)
    assert run_path(first) not in here.unfinished and len(here.unfinished) == len(here.runs) - 1
    assert here.records(here.tables["office31"]) == [tmp_path / "runs/office31/plain_seed0/record.json"]
    assert here.to_make(here.tables["office31"]) == []
    assert here.to_make(here.tables["digits"]) == here.records(here.tables["digits"])


MIXED = """
title: "Mixed"
source: none
dataset: digits
seeds: [0]
columns: [{name: U, sources: [mnist, mnistm], targets: [usps], shares: [80, 20]}]
rows: [{name: ours, paper: {missing: ours}, runs: {method: mda}}]
"""


def test_a_mixture_whose_shares_are_chosen_is_joined(tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "mixed.yaml").write_text(MIXED)
    here = plan(tmp_path, experiments=tmp_path / "tables")
    (run,), name, data = here.tables["mixed"].runs, "digits.mnist80+mnistm20_train", tmp_path / "data"
    assert (run.task.undivided, run.task.shares) == (True, (80, 20)) and not here.obstacle(run)
    assert here.prerequisites(run) == [data / ".built" / name, data / ".built" / "digits"]
    assert here.before_derived(name) == [data / ".built" / "digits"]
    folder = data / "digits"
    inputs = [str(folder / f"{source}_train") for source in ("mnist", "mnistm")]
    assert here.derived_command(name, 2)[3:] == ["--shares", "80:20", *inputs, str(folder / "mnist80+mnistm20_train")]
    with_lmdbs(tmp_path, "digits", *(f"{domain}_{split}" for domain in run.data.domains for split in ("train", "test")))
    assert here.prerequisites(run) == [data / ".built" / name] and here.before_derived(name) == []
    with_lmdbs(tmp_path, "digits", "mnist80+mnistm20_train")
    assert here.prerequisites(run) == []


def test_mixtures_of_a_seeds_own_data_are_joined_there_in_its_order(tmp_path):
    here = plan(tmp_path)
    run = next(run for run in here.tables["digits_undivided"].runs if run.seed == 3)
    (name,) = [path.relative_to(tmp_path / "data" / ".built").as_posix() for path in here.prerequisites(run)][:1]
    assert name == "seed3/digits.mnist50+mnistm50_train" and not here.obstacle(run)
    assert here.before_derived(name) == [tmp_path / "data" / ".built" / "seed3" / "digits"]
    folder = tmp_path / "data" / "seed3" / "digits"
    files = [str(folder / f"{part}_train") for part in ("mnist", "mnistm", "mnist50+mnistm50")]
    assert here.derived_command(name, 2)[3:] == ["--seed", "3", "--shares", "50:50", *files]


def test_sources_that_are_joined_can_be_made_once_their_domains_are_there(tmp_path):
    here = plan(tmp_path)
    runs = here.tables["pacs_features"].runs
    trained = [run for run in runs if isinstance(run, Experiment) and run.target == "photo"]
    run = next(run for run in trained if run.task.undivided)
    assert here.obstacle(run)
    with_lmdbs(tmp_path, "pacs_lite0", *run.data.domains)
    (mark,) = (path.name for path in here.prerequisites(run))
    sources = ("art_painting", "cartoon", "sketch")
    assert mark == f"pacs_lite0.{'+'.join(sources)}" and not here.obstacle(run)
    folder = tmp_path / "data" / "pacs_lite0"
    files = [str(folder / name) for name in (*sources, "+".join(sources))]
    assert here.derived_command(mark, 2)[2:] == ["tools.join_lmdbs", *files]


def test_statistics_of_style_are_extracted_before_the_runs_that_find_domains_by_them(tmp_path):
    here = plan(tmp_path)
    on_features, fine_tuned = (
        next(run for run in here.tables[table].runs if isinstance(run, Experiment) and run.method.name == "style_w")
        for table in ("pacs_styles", "pacs_160")
    )
    given = plan(tmp_path, images="archive")
    for run in (on_features, fine_tuned):
        assert here.obstacle(run).startswith("PACS is not on this machine: ") and not given.obstacle(run)
        assert tmp_path / "data/.built/pacs_style" in given.prerequisites(run)
    assert given.before_derived("pacs_style") == [tmp_path / "data/.built/pacs"]
    with_lmdbs(tmp_path, "pacs_160", *fine_tuned.data.domains)
    assert here.obstacle(fine_tuned).startswith("PACS is not on this machine: ")
    assert why_missing(fine_tuned, tmp_path / "data").startswith("the statistics of style of PACS are not on this mac")
    with_lmdbs(tmp_path, "pacs", *fine_tuned.data.domains)
    assert not here.obstacle(fine_tuned) and here.before_derived("pacs_style") == []
    assert here.derived_command("pacs_style", 2)[2:5] == ["tools.extract_features", "pacs", "--style"]
    with_lmdbs(tmp_path, "pacs_style", *fine_tuned.sources)
    assert tmp_path / "data/.built/pacs_style" not in here.prerequisites(fine_tuned)


def test_baselines_are_called_with_their_options():
    task = {"dataset": "office31_fc7", "sources": ("amazon", "dslr"), "targets": ("webcam",), "seed": 3}
    run = BaselineRun(method="gong2013", classifier="svm", dimension=20, k=2, variant="matching", **task)
    assert " ".join(baseline_options(run)) == (
        "gong2013 --dataset office31_fc7 --seed 3 --sources amazon+dslr --targets webcam "
        "--classifier svm --dimension 20 --normalise z --k 2"
    )


def test_definitions_may_be_elsewhere(tmp_path):
    with pytest.raises(ProgramError, match=r"found no NAME\.yaml, expected the definitions of tables"):
        _ = plan(tmp_path, experiments=tmp_path).tables
