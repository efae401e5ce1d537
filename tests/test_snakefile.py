"""The Snakefile end to end: real Snakemake, real Caffe, tiny LMDBs, killed, failed, mended and run again."""

import csv
import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.program import ROOT
from latent_domains.runs.run_folder import RunFolder, is_run_folder
from latent_domains.runs.write import write_run
from latent_domains.tables.definition import Run, load
from tests.fixtures import tiny_table
from tests.programs import kill_all, program, wait_until
from tests.training import train_here

pytest.importorskip("snakemake", reason="Snakemake is not installed (requirements/workflow.txt)")

BAD_ROW = """\
  - name: bad
    paper: {values: [82.5]}
    runs: {method: source_only, batch_size: 2, iterations: 2}
"""
TABLE = tiny_table(f"""\
  - name: good
    paper: {{values: [81.7]}}
    runs: {{method: source_only, batch_size: 2, iterations: 990}}
{BAD_ROW}  - name: shallow
    paper: {{missing: none}}
    baseline: {{method: svm}}
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


def written(folder: Path, text: str) -> Run:
    """Write the table's file; return its run that is to fail."""
    (folder / "experiments").mkdir()
    (folder / "experiments" / "tiny.yaml").write_text(text)
    return next(run for run in load(folder / "experiments" / "tiny.yaml").runs if run.name == BAD)


@pytest.mark.program
def test_snakefile_a_table_that_is_not_there_is_named(tmp_path):
    written(tmp_path, TABLE)
    done = snakemake(tmp_path, tmp_path / "data", "-n", "tables/tyni")
    assert done.returncode == 1
    assert "tables/tyni: no such table, expected one of tiny" in done.stdout


@pytest.mark.program
def test_snakefile_a_table_is_made_whatever_happens_on_the_way(tiny_data, tmp_path):
    runs = tmp_path / "runs" / "digits"
    bad = written(tmp_path, TABLE)
    shutil.copy(ROOT / "experiments" / "office31.yaml", tmp_path / "experiments")
    broken = write_run(bad, runs / BAD, data=tiny_data, solver_mode="CPU")
    whole = broken.solver.read_text()
    broken.solver.write_text("base_lr: !")

    def has_snapshot() -> bool:
        run = runs / SLOW
        return is_run_folder(run) and RunFolder.load(run).latest_snapshot() is not None

    # Everything is killed once the first run has a snapshot.
    with subprocess.Popen(
        command(tmp_path, tiny_data, "tables/tiny"),
        cwd=tmp_path,
        env={**os.environ, "SOLVER_MODE": "CPU"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: has_snapshot() or process.poll() is not None, "a snapshot", seconds=300, every=0.05)
        finally:
            kill_all(process.pid)
    assert has_snapshot() and SLOW not in stamps(tmp_path)

    # The same again: that run goes on, the damaged one fails and says why. The table without data is there.
    done = snakemake(tmp_path, tiny_data, "tables/tiny", "tables/office31")
    assert done.returncode == 1
    assert "solver.prototxt" in done.stderr and "error: " in done.stderr, "the reason is not on the terminal"
    assert set(stamps(tmp_path)) == {SLOW, SHALLOW}
    assert re.search(r"Resuming from .+model_iter_\d+\.solverstate", (runs / SLOW / "train.log").read_text())
    reason = "Office-31 is not on this machine: "
    assert f"{reason}--config images=DIR names its unpacked archive" in done.stderr
    assert f"1. {reason}" in (tmp_path / "tables" / "office31.md").read_text()

    # The table of what is finished, as the last lines say.
    assert f"python -m tools.tables {tmp_path}/experiments/NAME.yaml --runs runs --data {tiny_data}\n" in done.stdout
    definition = tmp_path / "experiments" / "tiny.yaml"
    places = ("--runs", tmp_path / "runs", "--data", tiny_data, "--out", tmp_path / "tables")
    assert program("tables", definition, *places).returncode == 0
    assert {name: number[0].isdecimal() for name, number in numbers(tmp_path).items()} == {
        "good": True,
        "bad": False,
        "shallow": True,
    }
    assert re.search(r"^\d\. failed: \S+solver\.prototxt: ", (tmp_path / "tables/tiny.md").read_text(), re.MULTILINE)

    # Mended, and one record is deleted: it is evaluated again, not trained; what stands is left alone.
    broken.solver.write_text(whole)
    (runs / SLOW / "record.json").unlink()
    os.utime(runs / SHALLOW / "record.json", (1, 1))
    log, before = (runs / SLOW / "train.log").read_bytes(), stamps(tmp_path)
    for file in (*tiny_data.glob("digits/*/data.mdb"), definition):
        os.utime(file)
    done = snakemake(tmp_path, tiny_data, "tables/tiny")
    assert done.returncode == 0, done.stderr
    after = stamps(tmp_path)
    assert set(after) == {SLOW, BAD, SHALLOW} and after[SHALLOW] == before[SHALLOW]
    assert (runs / SLOW / "train.log").read_bytes() == log
    assert all(number[0].isdecimal() for number in numbers(tmp_path).values())
    assert (tmp_path / "tables" / "tiny" / "report.html").stat().st_size > 10_000
    assert len(list((tmp_path / ".snakemake" / "made").iterdir())) <= 1, "only the killed call may leave its marks"

    # Nothing is left to do, and no run can be repeated: not even by force.
    done = snakemake(tmp_path, tiny_data)
    assert done.returncode == 0 and "Nothing to be done" in done.stderr
    forced = snakemake(tmp_path, tiny_data, "--forceall", "tables/tiny.md")
    assert forced.returncode == 0 and "train digits/" not in forced.stderr
    assert stamps(tmp_path) == after

    # Another definition makes the table again, even if it is older than the table, as from an archive.
    definition.write_text(f"{definition.read_text()}\n# another definition\n")
    os.utime(definition, (1, 1))
    assert "tables/tiny.md" in snakemake(tmp_path, tiny_data, "-n", "tables/tiny").stdout

    # A run whose record is gone is made again, and no other; a shell completes the table's name as a folder's.
    (runs / SLOW / "record.json").unlink()
    again = snakemake(tmp_path, tiny_data, "-n", "tables/tiny/").stdout
    assert f"train digits/{SLOW}" in again and "tables/tiny.md" in again and BAD not in again


@pytest.mark.program
def test_snakefile_a_run_that_another_process_finishes_keeps_its_record(tiny_data, tmp_path):
    run = written(tmp_path, tiny_table(BAD_ROW))
    folder = write_run(run, tmp_path / "runs" / "digits" / BAD, data=tiny_data, solver_mode="CPU")
    train_here(folder)
    record = folder.record_file.read_bytes()
    folder.record_file.unlink()  # for a while it is as if the other one still trained
    log = tmp_path / "runs" / "logs" / "digits" / f"{BAD}.log"
    arguments = command(tmp_path, tiny_data, "tables/tiny.md")
    with ExitStack() as held, ExitStack() as started:
        held.enter_context(folder.locked())
        environment = {**os.environ, "SOLVER_MODE": "CPU"}
        second = started.enter_context(subprocess.Popen(arguments, cwd=tmp_path, env=environment))
        started.callback(lambda: second.poll() is None and kill_all(second.pid))
        waiting = f"waiting for process {os.getpid()} on "
        wait_until(lambda: log.is_file() and waiting in log.read_text(), "that it waits", seconds=300, every=0.1)
        folder.record_file.write_bytes(record)
        held.close()
        assert second.wait(300) == 0
    assert folder.record_file.read_bytes() == record


@pytest.mark.program
def test_snakefile_a_table_of_imported_features(tmp_path):
    """What others computed, from arrays to a table, in folders whose names a shell would take apart."""
    tmp_path /= "my features; it's"
    tmp_path.mkdir()
    rng = np.random.default_rng(0)
    for domain in "abc":
        labels = np.arange(30) % 3
        np.savez(tmp_path / f"{domain}.npz", X=rng.normal(size=(30, 6)) + 4 * labels[:, None], y=labels)
    domains = [part for domain in "abc" for part in ("--domain", f"{domain}={tmp_path / domain}.npz")]
    done = program("import_features", *domains, "--out", tmp_path / "data" / "mine")
    assert done.returncode == 0, done.stderr
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mine.v2.yaml").write_text("""
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
    done = snakemake(tmp_path, tmp_path / "data", "tables/mine.v2.csv")
    assert done.returncode == 0, done.stderr
    rows = csv.DictReader((tmp_path / "tables" / "mine.v2.csv").read_text().splitlines())
    found = {row["row"]: row for row in rows}
    assert set(found) == {"net", "neighbour"} and float(found["net"]["seed 0"]) >= 0
    assert float(found["neighbour"]["mean"]) > 80, "classes that lie far apart"
