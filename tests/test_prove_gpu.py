"""tests/prove_gpu.sh without a GPU: its steps, with stand-ins for the programs that they call."""

import os
import subprocess
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from latent_domains.experiment.methods import METHODS

pytestmark = pytest.mark.program

PROGRAMS = ("python", "caffe", "nvidia-smi", "compute-sanitizer")


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs that note how they are called; those called with the word ``dial`` fail."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in PROGRAMS:
        script = f'echo "{name} $*" >>"{tmp_path}/calls"; echo done; case "$*" in *dial*) exit 3 ;; esac'
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return folder


def prove(programs: Path, out: Path, mode: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{programs}:/usr/bin:/bin", "MODE": mode}
    return subprocess.run([ROOT / "tests/prove_gpu.sh", out], env=env, capture_output=True, text=True, check=False)


def test_prove_gpu_every_step_is_taken_and_what_failed_is_counted(programs: Path, tmp_path: Path) -> None:
    done = prove(programs, tmp_path / "deep/out", "GPU")
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and lines[-1].startswith("2 steps failed; their output is in ")
    steps = {line.split()[0]: line for line in lines[:-1]}
    assert {"device", "tests", "bench", "time-resnet18-mda-True", "memcheck", "data", "train-ghost_w"} <= {*steps}
    assert "FAILED (3)" in steps["write-dial"] and "passed" in steps["train-mda"]
    calls = (tmp_path / "calls").read_text()
    assert "bench --gpu 0" in calls and "--solver-mode GPU" in calls and "-m gpu and not torch and not browser" in calls
    trained = [line.removeprefix("train-") for line in steps if line.startswith("train-")]
    assert len(trained) == 7 and {*trained} <= {*METHODS}


def test_prove_gpu_a_trial_without_a_gpu_trains_alone_and_replaces_no_folder(programs: Path, tmp_path: Path) -> None:
    steps = [line.split()[0] for line in prove(programs, tmp_path / "out", "CPU").stdout.splitlines()[:-1]]
    assert steps[0] == "data" and len(steps) == 15
    (tmp_path / "calls").unlink()
    done = prove(programs, tmp_path / "out", "CPU")
    assert done.returncode == 1 and "exists" in done.stderr and not (tmp_path / "calls").exists()
