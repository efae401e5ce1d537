"""The devices that the tests of the layers run on."""

import caffe
import pytest

from tests.caffe_layers.emulation.device import GpuMode
from tests.gpu import WHY_NO_GPU


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that uses ``where`` runs once on each device."""
    if "where" not in metafunc.fixturenames:
        return
    devices = ["cpu"]
    if metafunc.definition.get_closest_marker("cpu_only") is None:
        gpu = [pytest.mark.gpu, pytest.mark.skipif(WHY_NO_GPU is not None, reason=WHY_NO_GPU or "")]
        compiled = pytest.param("emulated", marks=pytest.mark.program)  # by g++
        devices += [compiled, pytest.param("cuda", marks=gpu)]
    metafunc.parametrize("where", devices, indirect=True)


@pytest.fixture
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch):
    """``cpu``; ``emulated``: the GPU's kernels run on the CPU; ``cuda``: Caffe in GPU mode. The device's name."""
    if request.param == "emulated":
        GpuMode(monkeypatch)
    elif request.param == "cuda":
        caffe.set_mode_gpu()
    yield request.param
    caffe.set_mode_cpu()
