"""The SLURM profile on a real SLURM of one node: a whole table, and runs that are cut off."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.run_state import State, state_of
from latent_domains.runs.write import write_run
from tests.cluster.slurm import Cluster
from tests.fixtures import tiny_table
from tests.programs import wait_until
from tests.run_folders import lasting

pytestmark = pytest.mark.slurm

PROFILE = ROOT / "experiments" / "profiles" / "slurm"
RUNS = ("--snakefile", ROOT / "tests" / "cluster" / "runs.smk")

TABLE = tiny_table("""\
  - name: source only
    paper: {values: [57.1]}
    runs: {method: source_only, batch_size: 4, iterations: 20}
""").replace("[0]", "[0, 1]")


def submit(cluster: Cluster, folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """Snakemake with the profile, in ``folder``; a cluster of a test has no accounting and little patience."""
    command = ["snakemake", "--profile", PROFILE, "--directory", folder, "--latency-wait", "10"]
    command += ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "3", *arguments]
    return subprocess.Popen(
        list(map(str, command)),
        cwd=ROOT,
        env={**cluster.environment, "SOLVER_MODE": "CPU"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def wait(what: str, there: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 400) -> None:
    def ready() -> bool:
        assert process.poll() is None, f"Snakemake ended before {what}:\n{process.stdout.read()}"
        return there()

    wait_until(ready, what, seconds=seconds, every=0.5)


def test_a_table_is_made_of_jobs(slurm, tiny_data, tmp_path):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "tiny.yaml").write_text(TABLE)
    settings = [f"experiments={tmp_path / 'experiments'}", f"data={tiny_data}"]

    def make() -> list[str]:
        """Make the table; return what became of all jobs so far."""
        process = submit(slurm, tmp_path, "--config", *settings, "--", "tables/tiny")
        output, _ = process.communicate(timeout=900)
        assert process.returncode == 0, output
        return slurm.run("squeue", "--noheader", "--states=all", "--format=%T").split()

    assert make() == ["COMPLETED"] * 3, "each run and the report were a job"
    assert "| source only" in (tmp_path / "tables" / "tiny.md").read_text()
    folders = [RunFolder.load(path) for path in sorted((tmp_path / "runs" / "digits").glob("source_only_*"))]
    assert len(folders) == 2 and all(state_of(folder).state is State.FINISHED for folder in folders)

    folders[0].record.unlink()
    assert make() == ["COMPLETED"] * 5, "one more for one record, and the report"


def test_a_job_that_is_cut_off_goes_on(slurm, tiny_data, tmp_path):
    """One nears its time limit, another is cancelled."""
    endless = make_experiment("digits", "source_only", batch_size=4, iterations=1_000_000)
    limited, cancelled = (
        write_run(endless, tmp_path / name, data=tiny_data, solver_mode="CPU") for name in ("limited", "cancelled")
    )
    resources = ("mem_mb=500", "runtime=3", "slurm_extra='--signal=TERM@60'")
    runs = "runs=['limited','cancelled']"
    process = submit(slurm, tmp_path, *RUNS, "--default-resources", *resources, "--config", runs, "--", "all")
    begins = {}
    try:
        wait("a run to cancel", lambda: state_of(cancelled).iteration >= 20, process)
        slurm.run("scancel", next(number for number, what in slurm.jobs().items() if "cancelled" in what))
        for folder in (cancelled, limited):
            wait("a stop", lambda folder=folder: state_of(folder).state is State.INTERRUPTED, process)
            begins[folder.path] = stopped_with_a_snapshot(folder)
            lasting(folder, begins[folder.path] + 20)
        output, _ = process.communicate(timeout=900)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, output
    for path, start in begins.items():
        sessions = RunFolder.load(path).read_record().training.sessions
        assert [session.ended for session in sessions][-2:] == ["stopped", "finished"]
        assert sessions[-1].from_iteration == start


def stopped_with_a_snapshot(folder: RunFolder) -> int:
    """The iteration of the snapshot that a stopped training wrote, at the very iteration at which it was stopped."""
    session = folder.read_training().sessions[-1]
    snapshot = folder.latest_snapshot()
    assert session.ended == "stopped" and snapshot.iteration >= session.to_iteration > 0
    return snapshot.iteration
