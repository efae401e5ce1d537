"""The SLURM profile on a real SLURM of one node: a whole table, and runs that are cut off or fail."""

import signal
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


def test_what_is_cut_off_goes_on_and_what_fails_says_why(slurm, tiny_data, tmp_path):
    """A job nears its time limit, another is cancelled, a third cannot work."""
    endless = make_experiment("digits", "source_only", batch_size=4, iterations=1_000_000)
    limited, cancelled, broken = (
        write_run(endless, tmp_path / name, data=tiny_data, solver_mode="CPU")
        for name in ("limited", "cancelled", "broken")
    )
    net = broken.net("train")
    net.write_text(net.read_text().replace('type: "Pooling"', 'type: "Puling"'))
    resources = ("mem_mb=500", "runtime=3", "slurm_extra='--signal=TERM@60'")
    runs = "runs=['limited','cancelled','broken']"
    process = submit(slurm, tmp_path, *RUNS, "--default-resources", *resources, "--config", runs, "--", "all")
    try:
        wait("a run to cancel", lambda: state_of(cancelled).iteration >= 20, process)
        job = next(number for number, what in slurm.jobs().items() if "cancelled" in what)
        slurm.run("scancel", job)
        wait("a stop", lambda: state_of(cancelled).state is State.INTERRUPTED, process)
        at_cancel = stopped_with_a_snapshot(cancelled)
        cancelled = lasting(cancelled, at_cancel + 20)
        wait("a stop", lambda: state_of(limited).state is State.INTERRUPTED, process)
        at_limit = stopped_with_a_snapshot(limited)
        limited = lasting(limited, at_limit + 20)
        output, _ = process.communicate(timeout=900)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, output
    assert slurm.state(job) == "CANCELLED"
    assert "TIMEOUT" not in slurm.run("squeue", "--noheader", "--states=all", "--format=%T"), "it ended by itself"
    for folder, start in ((cancelled, at_cancel), (limited, at_limit)):
        assert state_of(folder).state is State.FINISHED, output
        sessions = folder.read_record().training.sessions
        assert [session.ended for session in sessions][-2:] == ["stopped", "finished"]
        assert sessions[-1].from_iteration == start
    state = state_of(broken)
    assert state.state is State.FAILED and "layer pool1 (Puling) is not allowed" in state.note
    logs = (tmp_path / ".snakemake" / "slurm_logs").rglob("*.log")
    assert any("layer pool1 (Puling) is not allowed" in log.read_text() for log in logs)


def test_ctrl_c_ends_the_jobs_too_with_a_snapshot(slurm, tiny_data, tmp_path):
    endless = make_experiment("digits", "source_only", batch_size=4, iterations=1_000_000)
    folder = write_run(endless, tmp_path / "run", data=tiny_data, solver_mode="CPU")
    process = submit(slurm, tmp_path, *RUNS, "--config", "runs=['run']", "--", "all")
    try:
        wait("an iteration", lambda: state_of(folder).iteration >= 20, process)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1, output
    wait_until(lambda: not slurm.jobs("pending,running,completing"), "an end of the jobs", every=0.5)
    assert state_of(folder).state is State.INTERRUPTED
    stopped_with_a_snapshot(folder)


def stopped_with_a_snapshot(folder: RunFolder) -> int:
    """The iteration of the snapshot that a stopped training wrote, at the very iteration at which it was stopped."""
    session = folder.read_training().sessions[-1]
    snapshot = folder.latest_snapshot()
    assert session.ended == "stopped" and snapshot.iteration >= session.to_iteration > 0
    return snapshot.iteration
