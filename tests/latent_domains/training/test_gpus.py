"""Training on GPUs for real; each test is skipped where there are not as many."""

from dataclasses import dataclass

import caffe
import numpy as np
import pytest

from latent_domains.runs.devices import Devices, gpu_names
from tests.gpu import WHY_NO_GPU
from tests.latent_domains.training.processes import train, written

COUNT = 0 if WHY_NO_GPU else len(gpu_names())

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(WHY_NO_GPU is not None, reason=WHY_NO_GPU or "")]

needs_nccl = pytest.mark.skipif(not caffe.has_nccl(), reason="this Caffe was built without NCCL")
needs_two = pytest.mark.skipif(COUNT < 2, reason=f"it takes two GPUs, and there are {COUNT}")


@dataclass(frozen=True)
class ThroughNccl(Devices):
    """One GPU's gradients go through NCCL too."""

    @property
    def uses_nccl(self) -> bool:
        return True


def assert_close(found, expected) -> None:
    assert found.keys() == expected.keys()
    for name in found:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("devices", [Devices(1, (0,)), pytest.param(ThroughNccl(1, (0,)), marks=needs_nccl)])
@pytest.mark.parametrize("method", ["plain", "source_only", "mda"])
def test_one_gpu_learns_what_the_cpu_learns(method, devices, tiny_data, tmp_path):
    runs = [written(tmp_path / name, tiny_data, method, iterations=4) for name in ("gpu", "cpu")]
    assert_close(train(runs[0], devices), train(runs[1], Devices(1)))


@needs_nccl
@needs_two
@pytest.mark.parametrize("layer_wise", [True, False])
def test_two_gpus_learn_what_one_learns(layer_wise, tiny_data, tmp_path):
    runs = [written(tmp_path / name, tiny_data, "plain", iterations=8) for name in ("two", "one")]
    for run in runs:
        run.solver.write_text(run.solver.read_text() + f"layer_wise_reduce: {str(layer_wise).lower()}\n")
    assert_close(train(runs[0], Devices(2, (0, 1))), train(runs[1], Devices(1, (0,))))


@needs_nccl
@needs_two
def test_two_gpus_have_the_statistics_of_two_processes_on_the_cpu(tiny_data, tmp_path):
    """NCCL and the sockets do the same: statistics, and what was learned with them, are those of the CPU."""
    runs = [written(tmp_path / name, tiny_data, "mda", iterations=4) for name in ("gpus", "cpu")]
    assert_close(train(runs[0], Devices(2, (0, 1))), train(runs[1], Devices(2)))
