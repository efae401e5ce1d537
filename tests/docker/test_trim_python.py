"""docker/trim_python.py: what goes out of the image's virtual environment."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program

SCRIPT = ROOT / "docker/trim_python.py"


@pytest.fixture(scope="module")
def trim_python() -> ModuleType:
    spec = importlib.util.spec_from_file_location("trim_python", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_trim_python_what_is_not_needed_goes(tmp_path: Path, trim_python: ModuleType) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    gone = [
        "numpy/tests/test_x.py",
        "onnx/backend/test/data/node/x.pb",
        "nvidia/cudnn/lib/libcudnn_adv_infer.so.8",
        "nvidia/cu13/bin/nvcc",
        "nvidia/cu13/lib/libnvrtc-builtins.alt.so.13.0",
        "pip/__init__.py",
    ]
    stays = [
        "nvidia/cu13/lib/libnvrtc-builtins.so.13.0",
        "nvidia/cu13/include/cuda_runtime.h",
        "numpy/testing/__init__.py",
        "onnx/backend/test/loader.py",
        "nvidia/cudnn/lib/libcudnn_cnn_infer.so.8",
        "../../../bin/python",
    ]
    for name in (*gone, *stays):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("something")
    blas = packages / "opencv_python.libs/libopenblasp-r0.so"
    blas.parent.mkdir()
    blas.write_text("something")
    subprocess.run([sys.executable, SCRIPT, tmp_path], check=True)
    assert [name for name in gone if (packages / name).exists()] == []
    assert [name for name in stays if (packages / name).read_text() != "something"] == []
    assert str(blas.readlink()) == trim_python.OPENBLAS
    assert not list(tmp_path.rglob("*.bare"))
