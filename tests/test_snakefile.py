"""The Snakefile end to end: real Snakemake, real Caffe, tiny LMDBs, killed, failed, mended and run again."""

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.program import ROOT
from latent_domains.runs.run_folder import RunFolder, is_run_folder
from latent_domains.runs.write import write_run
from latent_domains.tables.definition import load
from latent_domains.training.train import train_all
from tests.faults.stage import kill_all
from tests.fixtures import tiny_table
from tests.programs import program

pytest.importorskip("snakemake", reason="Snakemake is not installed (requirements/workflow.txt)")

TABLE = tiny_table("""\
  - name: good
    paper: {values: [81.7]}
    runs: {method: source_only, batch_size: 2, iterations: 990}
  - name: bad
    paper: {values: [82.5]}
    runs: {method: source_only, batch_size: 2, iterations: 2}
  - name: shallow
    paper: {missing: none}
    baseline: {method: svm}
""")
SLOW = "source_only_iterations990_batch2_seed0"
BAD = "source_only_iterations2_batch2_seed0"
SHALLOW = "svm_mnist+mnistm-usps_seed0"


def command(folder: Path, data: Path, *targets: str) -> list[str]:
    options = [target for target in targets if target.startswith("-")]
    chosen = [target for target in targets if "=" in target]
    targets = tuple(target for target in targets if target not in options + chosen)
    arguments = ["--snakefile", ROOT / "Snakefile", "--directory", folder, "--cores", "2", *options]
    settings = [f"experiments={folder / 'experiments'}", f"data={data}", *chosen]
    return [sys.executable, "-m", "snakemake", *map(str, arguments), "--config", *settings, "--", *targets]


def snakemake(folder: Path, data: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    """One call, from outside of the repository."""
    return subprocess.run(
        command(folder, data, *targets),
        cwd=folder,
        text=True,
        capture_output=True,
        timeout=600,
        env={**os.environ, "SOLVER_MODE": "CPU"},
    )


def stamps(folder: Path) -> dict[str, int]:
    """When each record was written."""
    return {file.parent.name: file.stat().st_mtime_ns for file in folder.glob("runs/digits/*/record.json")}


def numbers(folder: Path) -> dict[str, str]:
    """What the table says of each row's own accuracy."""
    lines = [line.split("|") for line in (folder / "tables" / "tiny.md").read_text().splitlines() if line[:1] == "|"]
    return {line[1].strip(): line[3].strip() for line in lines[2:]}


def test_a_target_that_nothing_makes_is_named(tmp_path):
    done = snakemake(tmp_path, tmp_path / "data", f"experiments={ROOT / 'experiments'}", "-n", "digits")
    assert done.returncode == 1
    assert "digits: nothing that can be made, expected all, tables/ and one of demo, " in done.stdout


def test_each_seeds_lmdbs_are_built_before_its_runs(tmp_path):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "tiny.yaml").write_text(
        TABLE.replace("seeds: [0]", "seeds: [0, 4]\ndata_per_seed: true")
    )
    done = snakemake(tmp_path, tmp_path / "data", "-n", "-p", "tables/tiny.md")
    assert done.returncode == 0, done.stderr
    for seed in (0, 4):
        own = shlex.quote(str(tmp_path / "data" / f"seed{seed}"))
        assert done.stdout.count(f"LMDBs of seed{seed}/digits") == 1
        downloads = shlex.quote(str(tmp_path / "data" / "downloads"))
        assert f"get_data digits --out {own} --seed {seed} --downloads {downloads}" in done.stdout
        given = rf"--seed {seed} --sources mnist\+mnistm --targets usps .*--data {re.escape(own)} --force"
        assert re.search(given, done.stdout)


def test_a_table_is_made_whatever_happens_on_the_way(tiny_data, tmp_path):
    runs = tmp_path / "runs" / "digits"
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "tiny.yaml").write_text(TABLE)
    shutil.copy(ROOT / "experiments" / "office31.yaml", tmp_path / "experiments")
    bad = next(run for run in load(tmp_path / "experiments" / "tiny.yaml").runs if run.name == BAD)
    broken = write_run(bad, runs / BAD, data=tiny_data, solver_mode="CPU")
    whole = broken.solver.read_text()
    broken.solver.write_text("base_lr: !")

    def has_snapshot() -> bool:
        run = runs / SLOW
        return is_run_folder(run) and RunFolder.load(run).latest_snapshot() is not None

    # Everything is killed once the first run has a snapshot, and the log leads to it.
    with subprocess.Popen(
        command(tmp_path, tiny_data, str(Path("runs/digits") / SLOW / "record.json")),
        cwd=tmp_path,
        env={**os.environ, "SOLVER_MODE": "CPU"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            deadline = time.monotonic() + 300
            while not has_snapshot():
                assert time.monotonic() < deadline and process.poll() is None, "no snapshot came"
                time.sleep(0.05)
        finally:
            kill_all(process.pid)
    assert not stamps(tmp_path)

    # The same again: that run goes on, the damaged one fails and says why, the table is there all the same. So is one
    # without data.
    done = snakemake(tmp_path, tiny_data, "tables/tiny.md", "tables/office31")
    assert done.returncode == 1
    assert "solver.prototxt" in done.stderr and "error: " in done.stderr, "the reason is not on the terminal"
    assert set(stamps(tmp_path)) == {SLOW, SHALLOW}
    assert re.search(r"Resuming from .+model_iter_\d+\.solverstate", (runs / SLOW / "train.log").read_text())
    assert {name: number[0].isdecimal() for name, number in numbers(tmp_path).items()} == {
        "good": True,
        "bad": False,
        "shallow": True,
    }
    assert re.search(r"^\d\. failed: \S+solver\.prototxt: ", (tmp_path / "tables/tiny.md").read_text(), re.MULTILINE)

    assert (tmp_path / "tables/tiny.md").stat().st_mtime_ns < min(stamps(tmp_path).values()), "it stays as it is"
    assert "tables/office31.md: made without" not in done.stderr, "nothing of that table failed"

    reason = "Office-31 is not on this machine: "
    assert f"office31: {reason}--config images=DIR names its unpacked archive" in done.stderr
    assert f"1. {reason}" in (tmp_path / "tables" / "office31.md").read_text()

    # Mended, and one record is deleted: it is evaluated again, not trained; what stands is left alone.
    broken.solver.write_text(whole)
    (runs / SLOW / "record.json").unlink()
    log, before = (runs / SLOW / "train.log").read_bytes(), stamps(tmp_path)
    for file in (*tiny_data.glob("digits/*/data.mdb"), tmp_path / "experiments" / "tiny.yaml"):
        os.utime(file)
    done = snakemake(tmp_path, tiny_data, "tables/tiny")
    assert done.returncode == 0, done.stderr
    after = stamps(tmp_path)
    assert set(after) == {SLOW, BAD, SHALLOW} and after[SHALLOW] == before[SHALLOW]
    assert (runs / SLOW / "train.log").read_bytes() == log
    assert all(number[0].isdecimal() for number in numbers(tmp_path).values())
    assert (tmp_path / "tables" / "tiny" / "report.html").stat().st_size > 10_000

    # Nothing is left to do, and nothing can be: not even by force.
    done = snakemake(tmp_path, tiny_data)
    assert done.returncode == 0 and "Nothing to be done" in done.stderr
    forced = snakemake(tmp_path, tiny_data, "--forceall", "tables/tiny.md")
    assert forced.returncode == 0 and "training" not in forced.stderr
    assert stamps(tmp_path) == after

    # Other settings make another table, and what was remade once because its record was gone is remade again.
    for name in (SLOW, BAD):
        (runs / name / "record.json").unlink()
    again = snakemake(tmp_path, tiny_data, "-n", "seeds=0", "tables/tiny.md").stdout
    assert all(f"training digits/{name}" in again for name in (SLOW, BAD)) and SHALLOW not in again


def test_a_run_that_another_process_finishes_keeps_its_record(tiny_data, tmp_path):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "tiny.yaml").write_text(TABLE)
    run = next(run for run in load(tmp_path / "experiments" / "tiny.yaml").runs if run.name == BAD)
    folder = write_run(run, tmp_path / "runs" / "digits" / BAD, data=tiny_data, solver_mode="CPU")
    train_all([folder], threads=1)
    record = folder.record.read_bytes()
    folder.record.unlink()  # for a while it is as if the other one still trained
    log = tmp_path / "runs" / "logs" / "digits" / f"{BAD}.log"
    arguments = command(tmp_path, tiny_data, str(folder.record.relative_to(tmp_path)))
    with ExitStack() as held, ExitStack() as started:
        held.enter_context(folder.locked())
        environment = {**os.environ, "SOLVER_MODE": "CPU"}
        second = started.enter_context(subprocess.Popen(arguments, cwd=tmp_path, env=environment))
        started.callback(lambda: second.poll() is None and kill_all(second.pid))
        deadline = time.monotonic() + 300
        while not (log.is_file() and f"waiting for process {os.getpid()} on " in log.read_text()):
            assert time.monotonic() < deadline and second.poll() is None, "it does not wait"
            time.sleep(0.1)
        folder.record.write_bytes(record)
        held.close()
        assert second.wait(300) == 0
    assert folder.record.read_bytes() == record


def test_a_table_of_imported_features(tmp_path):
    """What others computed, from arrays to a table of paired seeds."""
    rng = np.random.default_rng(0)
    for domain in "abc":
        labels = np.arange(30) % 3
        np.savez(tmp_path / f"{domain}.npz", X=rng.normal(size=(30, 6)) + 4 * labels[:, None], y=labels)
    domains = [part for domain in "abc" for part in ("--domain", f"{domain}={tmp_path / domain}.npz")]
    done = program("import_features", *domains, "--out", tmp_path / "data" / "mine")
    assert done.returncode == 0, done.stderr
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mine.yaml").write_text("""
title: Mine
source: not in the paper
dataset: ../data/mine/dataset.json
seeds: [0]
columns:
  - {name: a-b to c, sources: [a, b], targets: [c]}
rows:
  - name: net
    paper: &none {missing: mine}
    runs: {method: mda, batch_size: 12, iterations: 2}
  - name: neighbour
    paper: *none
    baseline: {method: 1nn}
""")
    done = snakemake(tmp_path, tmp_path / "data", "tables/mine.csv")
    assert done.returncode == 0, done.stderr
    rows = csv.DictReader((tmp_path / "tables" / "mine.csv").read_text().splitlines())
    found = {row["row"]: row for row in rows}
    assert set(found) == {"net", "neighbour"} and float(found["net"]["seed 0"]) >= 0
    assert float(found["neighbour"]["mean"]) > 80, "classes that lie far apart"


def test_what_a_shell_reads_is_quoted():
    """--config data='x; touch Y' is a folder's name and no command."""
    blocks = re.findall(r"\n +shell:\n((?: +\".*\n)+)", (ROOT / "Snakefile").read_text())
    fields = {field for block in blocks for field in re.findall(r"{([^{}]+)}", block) if not field.endswith(":q")}
    assert len(blocks) == 7
    assert fields == {"threads", "params.records"}, "expected two numbers"
