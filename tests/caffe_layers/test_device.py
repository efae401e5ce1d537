"""What can go wrong between the layers, Caffe and CuPy in GPU mode.

All tests of the layers take this way with a stand-in for CuPy, and on a GPU (``make test-gpu``) with the real one.
"""

import locale
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from caffe import _caffe

from caffe_layers import _backend
from tests.caffe_layers.emulation import cupy
from tests.caffe_layers.emulation.device import GpuMode
from tests.caffe_layers.nets import inputs, make_net, mda

pytestmark = pytest.mark.program


@pytest.fixture(autouse=True)
def gpu_mode(monkeypatch):
    return GpuMode(monkeypatch)


def test_device_compiling_kernels_leaves_the_locale_alone():
    before = locale.getencoding()
    net = make_net(inputs(x=(4, 2)) + mda("x", "y", 3))
    net.forward()
    assert locale.getencoding() == before


def test_device_gpu_mode_without_cupy_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"need CuPy .*pip install cupy-cuda11x .*CPU mode"):
        make_net(inputs(x=(6, 4)) + mda("x", "y", 3))


def test_device_a_blob_on_another_gpu_is_refused(monkeypatch):
    net = make_net(inputs(x=(4, 2)) + mda("x", "y", 3))
    monkeypatch.setattr(cupy.cuda.runtime, "getDevice", lambda: cupy.DEVICE + 1)
    with pytest.raises(RuntimeError, match="Caffe has a blob on GPU 3, but works on GPU 4"):
        net.forward()


def test_device_an_old_cupy_is_refused(monkeypatch):
    monkeypatch.setattr(cupy, "__version__", "12.3.0")
    with pytest.raises(RuntimeError, match=r"CuPy is 12\.3\.0; expected 13 or later"):
        make_net(inputs(x=(6, 4)) + mda("x", "y", 3))


def test_device_gpu_mode_without_cuda_says_what_to_do(monkeypatch):
    monkeypatch.delattr(_caffe.Blob, "_gpu_data_ptr")
    with pytest.raises(RuntimeError, match="built without CUDA; train in CPU mode"):
        _backend.current()


@pytest.mark.parametrize(("there", "variable"), [(True, None), (True, "/other"), (False, None)])
def test_device_cupy_finds_the_cuda_of_wheels_when_it_is_imported(there, variable, tmp_path):
    """NVRTC is loaded then by its name alone, as CuPy loads it; a toolkit that CUDA_PATH names stays."""
    home = tmp_path / "nvidia/cu13"
    (home / "include").mkdir(parents=True)
    (tmp_path / "nvidia/__init__.py").touch()
    [real] = [folder for folder in find_spec("nvidia").submodule_search_locations if Path(folder, "cu13").is_dir()]
    (home / "lib").symlink_to(Path(real, "cu13/lib"))
    if there:
        (home / "include/cuda_runtime.h").touch()
    (tmp_path / "cupy_cuda13x-13.6.0.dist-info").mkdir()
    (tmp_path / "cupy_cuda13x-13.6.0.dist-info/METADATA").write_text("Name: cupy-cuda13x\nVersion: 13.6.0\n")
    (tmp_path / "cupy.py").write_text('import os\nfound = os.environ.get("CUDA_PATH")\n')
    code = f"""
import ctypes
from caffe_layers._device import import_cupy
print(import_cupy().found)
if {there and not variable}:
    ctypes.CDLL("libnvrtc.so.13"), ctypes.CDLL("libnvrtc-builtins.so.13.0")
"""
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"}
    environment.pop("CUDA_PATH", None)
    if variable:
        environment["CUDA_PATH"] = variable
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{home if there and not variable else variable}\n"
