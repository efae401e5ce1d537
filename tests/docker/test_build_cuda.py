"""docker/build_caffe.sh --variant cuda: which toolkits it takes, what it makes of them. It compiles nothing here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from latent_domains.common.gpus import gpu_names, has_cuda
from latent_domains.common.program import ROOT
from tests.docker.test_build_caffe import build, refused

pytestmark = pytest.mark.program

CUDA = ["--variant", "cuda"]


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files below ``folder`` and return it."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def toolkit(folder: Path, release: str = "13.0", architectures: str = "100 75 80 86 89 90") -> Path:
    """Make what is looked for in a CUDA toolkit, in a wheel's layout; its nvcc answers two questions, no more."""
    files = [f"include/{name}.h" for name in ("cuda_runtime", "cublas_v2", "curand")]
    files += [f"lib/lib{name}" for name in ("cudart.so.13", "cublas.so.13", "curand.so.10")]
    write(folder, dict.fromkeys(files, ""))
    listed = " ".join(f"compute_{architecture}" for architecture in architectures.split())
    nvcc = f"""#!/bin/sh
case $1 in
  --version) echo 'Cuda compilation tools, release {release}, V{release}.1' ;;
  --list-gpu-arch) printf '%s\\n' {listed} ;;
  *) exit 1 ;;
esac
"""
    write(folder, {"bin/nvcc": nvcc})
    (folder / "bin/nvcc").chmod(0o755)
    return folder


def cudnn(folder: Path, patch: int = 6) -> Path:
    """Make what is looked for in cuDNN."""
    version = f"#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL {patch}\n"
    return write(folder, {"include/cudnn.h": "", "include/cudnn_version.h": version, "lib/libcudnn.so.8": ""})


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, Path | str]:
    """Return an environment that names a toolkit and cuDNN, and no architectures."""
    return {
        "CUDA_HOME": toolkit(tmp_path / "cuda"),
        "CUDNN_HOME": cudnn(tmp_path / "cudnn"),
        "CUDA_ARCH_BIN": "",
    }


# How it refuses


def test_build_cuda_no_toolkit_is_named(tmp_path: Path) -> None:
    refused(
        tmp_path / "p",
        "CUDA_HOME names no CUDA toolkit; CAFFE_VARIANT=cuda make setup installs one",
        CUDA,
        CUDA_HOME="",
    )


@pytest.mark.parametrize(
    ("variable", "lost", "message"),
    [
        ("CUDA_HOME", "bin/nvcc", "is not a CUDA toolkit: it lacks bin/nvcc"),
        ("CUDNN_HOME", "lib/libcudnn.so.8", "is not a folder of cuDNN: it lacks lib/libcudnn.so"),
    ],
)
def test_build_cuda_folder_that_is_not_whole(variable, lost, message, homes: dict[str, Path], tmp_path: Path) -> None:
    (homes[variable] / lost).unlink()
    refused(tmp_path / "p", f"{homes[variable]}", CUDA, **homes)
    result = build(*CUDA, "--check", tmp_path / "p", **homes)
    assert result.stderr.count("\n") == 1 and message in result.stderr


def test_build_cuda_wrong_architectures(homes: dict[str, Path], tmp_path: Path) -> None:
    message = "nvcc does not know architecture 61 of CUDA_ARCH_BIN; it knows 75 80 86 89 90 100"
    refused(tmp_path / "p", message, CUDA, **{**homes, "CUDA_ARCH_BIN": "61 90"})


# What a build is known by


def key(tmp_path: Path, **env: object) -> dict[str, str]:
    """The key of a build that is begun and ends at once, since it finds nowhere to fetch Caffe's source from."""
    docker = shutil.copytree(ROOT / "docker", tmp_path / "docker", dirs_exist_ok=True)
    (docker / "caffe_source.py").write_text("raise SystemExit(1)\n")
    result = build(*CUDA, tmp_path / "p", docker=docker, CAFFE_BUILD_DIR=tmp_path / "build", **env)
    assert "step 'unpack' failed" in result.stderr
    lines = (tmp_path / "build/caffe-cuda/key").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines)


@pytest.fixture
def host_compiler() -> None:
    if shutil.which("g++", path="/usr/bin") is None:
        pytest.skip("a build here would first install its compiler")


@pytest.mark.usefixtures("host_compiler")
def test_build_cuda_the_key_names_every_part(homes: dict[str, Path], tmp_path: Path) -> None:
    found = key(tmp_path, **homes)
    # The usual architectures without those that this toolkit no longer knows.
    assert found["source"] == "BVLC/caffe 99bd997"
    assert found["variant"] == "cuda"
    assert found["cuda"] == f"13.0 of {tmp_path}/cuda for 75 80 86 89 90 100"
    assert found["cudnn"] == f"8.9.6 of {tmp_path}/cudnn"
    cudnn(homes["CUDNN_HOME"], patch=7)
    changed = key(tmp_path, **{**homes, "CUDA_ARCH_BIN": "90 100"})
    assert changed["cuda"] == f"13.0 of {tmp_path}/cuda for 90 100"
    assert changed["cudnn"] == f"8.9.7 of {tmp_path}/cudnn"


# What is built


@pytest.mark.skipif(not has_cuda() or bool(gpu_names()), reason="needs a Caffe with CUDA, and no GPU")
def test_build_cuda_caffe_with_cuda_says_that_there_is_no_gpu(tmp_path: Path) -> None:
    write(tmp_path, {"solver": 'train_net: "absent" solver_mode: GPU\n'})
    for command in (["device_query", "-gpu", "all"], ["train", "-solver", tmp_path / "solver"]):
        done = subprocess.run(["caffe", *command], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "was asked for, but there is none: " in done.stderr
        assert done.stderr.splitlines()[-1].endswith("'solver_mode: CPU'.") and "Check failed" not in done.stderr
