"""What makes the data that runs lack, and in which order."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from latent_domains.experiment.datasets import DATASETS, Features
from latent_domains.experiment.experiment import Experiment
from latent_domains.tables.needs import why_missing
from tests.latent_domains.tables.tables import plan


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch):
    """What weights are at hand is what a test puts there."""
    for name in ("DATA_MIRROR", "WEIGHTS_MIRROR"):
        monkeypatch.delenv(name, raising=False)


def with_lmdbs(tmp_path: Path, dataset: str, *domains: str) -> None:
    for domain in domains:
        folder = tmp_path / "data" / dataset / domain
        folder.mkdir(parents=True)
        (folder / "data.mdb").touch()


def command(here, job: str) -> str:
    words = here.command(job, threads=2)
    assert words[:2] == ["python", "-m"]
    return " ".join(words[2:])


def test_needs_of_digits_are_lmdbs_for_every_seed(tmp_path):
    here, data = plan(tmp_path, "digits", "demo", seeds=(0, 3)), tmp_path / "data"
    for run in here.table("digits").runs:
        assert here.before_run(run) == [f"fetch/seed{run.seed}/digits"]
    options = f"--out {data}/seed3 --seed 3 --downloads {data}/downloads"
    assert command(here, "fetch/seed3/digits") == f"tools.get_data digits {options}"
    assert command(here, "fetch/seed3/demo") == f"tools.get_data demo --out {data}/seed3 --seed 3"
    with_lmdbs(tmp_path, "seed0/digits", *(f"{d}_{s}" for d in ("mnist", "mnistm", "usps") for s in ("train", "test")))
    assert here.before_run(here.table("digits").runs[0]) == []
    made_meanwhile = plan(tmp_path, "digits", "demo", seeds=(0,))
    assert made_meanwhile.command("fetch/seed0/digits", threads=2) == ["true"]


def test_needs_of_image_sets_are_their_images_and_weights(tmp_path):
    here = plan(tmp_path, "office31", "pacs_160", images="archive")
    table, data = here.table("office31"), tmp_path / "data"
    assert len(here.to_make(table)) == 75 and here.obstacles(table) == []
    assert here.before_run(table.runs[0]) == ["fetch/office31", "fetch/weights/alexnet"]
    assert command(here, "fetch/office31") == f"tools.get_data office31 --images archive --out {data} --jobs 2"
    sized = next(run for run in here.table("pacs_160").runs if isinstance(run, Experiment))
    assert "fetch/pacs_160" in here.before_run(sized)
    assert (
        command(here, "fetch/pacs_160")
        == f"tools.get_data pacs --images archive --image-size 160 --out {data} --jobs 2"
    )


def test_needs_are_weights_for_all_nets_or_none(tmp_path, monkeypatch):
    with_lmdbs(tmp_path, "pacs", "art_painting", "cartoon", "photo", "sketch")
    here, folder = plan(tmp_path, "pacs"), tmp_path / "data" / "weights"
    runs = {run.method.name: run for run in here.table("pacs").runs}
    assert {method: here.needs.weights(run).name for method, run in runs.items()} == {
        "source_only": "resnet18.caffemodel",
        "dial": "resnet18_mda2.caffemodel",
        "mda": "resnet18_mda4.caffemodel",
        "multi_source": "resnet18_mda4.caffemodel",
    }
    assert here.before_run(runs["mda"]) == ["fetch/weights/resnet18"]
    numbers = "--num-domains 2 --num-domains 4"
    assert command(here, "fetch/weights/resnet18") == f"tools.get_weights resnet18 --out {folder} {numbers}"
    at_random = plan(tmp_path, "pacs", weights="none")
    assert at_random.before_run(runs["mda"]) == [] and at_random.needs.weights(runs["mda"]) is None
    in_mirror = tmp_path / "weights" / "resnet18_cntk"
    in_mirror.mkdir(parents=True)
    (in_mirror / "ResNet18.onnx").touch()
    monkeypatch.setenv("DATA_MIRROR", str(tmp_path))
    assert here.before_run(runs["mda"]) == ["fetch/weights/resnet18_cntk"]
    assert here.needs.weights(runs["mda"]).name == "resnet18_cntk_mda4.caffemodel"
    folder.mkdir(parents=True)
    (folder / "resnet18_mda4.caffemodel").touch()
    assert here.before_run(runs["mda"]) == []


def test_needs_of_features_are_images_and_weights(tmp_path):
    here, data = plan(tmp_path, "office31_fc7", "pacs_features"), tmp_path / "data"
    table = here.table("office31_fc7")
    assert here.to_make(table) == [] and "Office-31 is not on this machine" in here.obstacles(table)[0]
    given = plan(tmp_path, "office31_fc7", "pacs_features", images="archive", solver_mode="GPU")
    assert len(given.to_make(table)) == 45 and given.before_run(table.runs[0]) == ["derive/office31_fc7"]
    assert given.before_need("derive/office31_fc7") == ["fetch/office31", "fetch/weights/alexnet"]
    options = f"--weights {data}/weights/bvlc_alexnet.caffemodel --data {data} --jobs 2"
    assert command(given, "derive/office31_fc7") == f"tools.extract_features office31 {options}"
    assert given.before_need("derive/pacs_lite0") == ["fetch/pacs"], "its weights are in a package"
    assert command(given, "derive/pacs_lite0").startswith("tools.extract_features pacs --backbone lite0 ")
    with_lmdbs(tmp_path, "office31", "amazon", "dslr", "webcam")
    assert here.before_need("derive/office31_fc7") == ["fetch/weights/alexnet"] and len(here.to_make(table)) == 45


MIXED = """
title: "Mixed"
source: none
dataset: digits
seeds: [3]
data_per_seed: {own}
columns: [{{name: U, sources: [mnist, mnistm], targets: [usps], shares: [80, 20]}}]
rows: [{{name: ours, paper: {{missing: ours}}, runs: {{method: mda}}}}]
"""


@pytest.mark.parametrize(("own", "data", "seed"), [("false", "", ""), ("true", "seed3/", "--seed 3 ")])
def test_needs_of_mixtures_are_domains_in_the_order_of_their_seeds_data(tmp_path, own, data, seed):
    here = plan(tmp_path)
    (tmp_path / "experiments" / "mixed.yaml").write_text(MIXED.format(own=own))
    (run,), job = here.table("mixed").runs, f"derive/{data}digits.mnist80+mnistm20_train"
    assert here.before_run(run) == [job, f"fetch/{data}digits"] and not here.needs.record(run).obstacle
    assert here.before_need(job) == [f"fetch/{data}digits"]
    folder = tmp_path / "data" / f"{data}digits"
    files = " ".join(str(folder / f"{part}_train") for part in ("mnist", "mnistm", "mnist80+mnistm20"))
    assert command(here, job) == f"tools.join_lmdbs {seed}--shares 80:20 {files}"
    with_lmdbs(tmp_path, f"{data}digits", *(f"{d}_{s}" for d in run.data.domains for s in ("train", "test")))
    here = plan(tmp_path)
    assert here.before_run(run) == [job] and here.before_need(job) == []
    join = f"python -m tools.join_lmdbs {seed}--shares 80:20 {files}"
    lacking = f"{data}digits/mnist80+mnistm20_train is not on this machine: {join}"
    assert why_missing(run, tmp_path / "data", per_seed=bool(data)) == lacking
    with_lmdbs(tmp_path, f"{data}digits", "mnist80+mnistm20_train")
    assert here.before_run(run) == []
    (tmp_path / "data" / f"{data}digits" / "usps_test" / "data.mdb").unlink()
    lacking = f"{tmp_path}/data/{data}digits/usps_test is not on this machine: python -m tools.get_data digits"
    assert why_missing(run, tmp_path / "data", per_seed=bool(data)).startswith(lacking)


def test_needs_of_runs_that_find_domains_by_style_are_its_statistics(tmp_path):
    here, given = plan(tmp_path, "pacs_styles", "pacs_160"), plan(tmp_path, "pacs_styles", "pacs_160", images="archive")
    on_features, fine_tuned = (
        next(run for run in here.table(table).runs if isinstance(run, Experiment) and run.method.name == "style_w")
        for table in ("pacs_styles", "pacs_160")
    )
    for run in (on_features, fine_tuned):
        assert here.needs.record(run).obstacle.startswith("PACS is not on this machine: ")
        assert not given.needs.record(run).obstacle and "derive/pacs_style" in given.before_run(run)
    assert given.before_need("derive/pacs_style") == ["fetch/pacs"]
    with_lmdbs(tmp_path, "pacs_160", *fine_tuned.data.domains)
    assert here.needs.record(fine_tuned).obstacle.startswith("PACS is not on this machine: ")
    commands = "python -m tools.get_data pacs --images DIR, then python -m tools.extract_features pacs --style"
    assert why_missing(fine_tuned, tmp_path / "data") == f"PACS is not on this machine: {commands}"
    with_lmdbs(tmp_path, "pacs", *fine_tuned.data.domains)
    assert not here.needs.record(fine_tuned).obstacle and here.before_need("derive/pacs_style") == []
    assert why_missing(fine_tuned, tmp_path / "data").startswith("the statistics of style of PACS are not on this mac")
    assert command(here, "derive/pacs_style").startswith("tools.extract_features pacs --style ")
    with_lmdbs(tmp_path, "pacs_style", *fine_tuned.sources)
    assert "derive/pacs_style" not in here.before_run(fine_tuned)


@pytest.mark.parametrize(
    ("like", "changes", "reason"),
    [
        ("pacs_lite0", {"features": Features("pictures", "x")}, "pictures are not on .*: python .* DIR --style"),
        ("pacs", {}, "mine are not on this machine: python .* FILE.json --style"),
        ("pacs_lite0", {"features": Features(None, "x")}, "mine: they are made of pictures of 3×256×256"),
    ],
)
def test_needs_are_made_by_hand_if_they_are_statistics_of_ones_own_pictures(like, changes, reason, tmp_path):
    """The workflow knows no folder of them. It called extract_features with the dataset's name, which failed."""
    (tmp_path / "mine.json").write_text(json.dumps(replace(DATASETS[like], name="mine", **changes).to_json()))
    here = plan(tmp_path)
    text = MIXED.format(own="false").replace("digits", "../mine.json").replace(", shares: [80, 20]", "")
    text = text.replace("[mnist, mnistm]", "[photo, cartoon]").replace("usps", "sketch").replace("mda", "style_w")
    (tmp_path / "experiments" / "mixed.yaml").write_text(text)
    (run,) = here.table("mixed").runs
    with_lmdbs(tmp_path, "mine", *run.data.domains)
    assert re.fullmatch(f".*statistics of style of {reason}", here.needs.record(run).obstacle)
    assert (
        not here.to_make(here.table("mixed")) and why_missing(run, tmp_path / "data") == here.needs.record(run).obstacle
    )
    with_lmdbs(tmp_path, run.data.style, *run.sources)
    assert not here.needs.record(run).obstacle
