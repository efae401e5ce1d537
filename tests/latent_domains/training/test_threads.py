import os
from pathlib import Path

import pytest

from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.write import write_run
from latent_domains.training.threads import milliseconds, share_of_cores


def test_a_process_gets_its_share_of_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert [share_of_cores(processes) for processes in (1, 2, 3, 9)] == [8, 4, 2, 1]


@pytest.mark.program
def test_a_net_is_named_relative_to_the_caller(tiny_data, tmp_path, monkeypatch):
    write_run(make_experiment("digits", "dial", batch_size=2), tmp_path / "run", data=tiny_data)
    monkeypatch.chdir(tmp_path)
    assert milliseconds(Path("run/train.prototxt"), 1, 1) > 0
