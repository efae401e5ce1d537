"""docker/build_caffe.sh --variant cuda: which toolkits it takes, what it makes of them. It compiles only on demand."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from tests.docker.test_build_caffe import build, data_layer, refused

CUDA = ["--variant", "cuda"]
PREFIX = os.environ.get("TEST_CUDA_PREFIX")
"""A folder for the CUDA build of the test that compiles; CUDA_HOME and the rest are the script's."""


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


def test_no_toolkit_is_named(tmp_path: Path) -> None:
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
        ("CUDA_HOME", "include/cublas_v2.h", "is not a whole CUDA toolkit: it lacks include/cublas_v2.h"),
        ("CUDNN_HOME", "lib/libcudnn.so.8", "is not a folder of cuDNN: it lacks lib/libcudnn.so"),
        ("CUDNN_HOME", "include/cudnn_version.h", "cudnn.h does not define CUDNN_MAJOR: its version is unknown"),
    ],
)
def test_folder_that_is_not_whole(variable, lost, message, homes: dict[str, Path], tmp_path: Path) -> None:
    (homes[variable] / lost).unlink()
    refused(tmp_path / "p", f"{homes[variable]}", CUDA, **homes)
    result = build(*CUDA, "--check", tmp_path / "p", **homes)
    assert result.stderr.count("\n") == 1 and message in result.stderr


@pytest.mark.parametrize("release", ["10.2", "14.0", ""])
def test_release_that_is_not_known(release: str, homes: dict[str, Path], tmp_path: Path) -> None:
    toolkit(homes["CUDA_HOME"], release=release)
    message = f"is CUDA {release or 'of an unknown version'}: expected 11, 12 or 13"
    refused(tmp_path / "p", message, CUDA, **homes)


def test_wrong_architectures(homes: dict[str, Path], tmp_path: Path) -> None:
    for value, message in (
        ("9.0", "CUDA_ARCH_BIN='9.0': expected numbers such as '80 90', without dots"),
        ("61 90", "nvcc does not know architecture 61 of CUDA_ARCH_BIN; it knows 75 80 86 89 90 100"),
    ):
        refused(tmp_path / "p", message, CUDA, **{**homes, "CUDA_ARCH_BIN": value})
    toolkit(homes["CUDA_HOME"], architectures="103 121")
    refused(tmp_path / "p", "nvcc knows none of the usual architectures: name some of 103 121", CUDA, **homes)


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
def test_the_key_names_every_part(homes: dict[str, Path], tmp_path: Path) -> None:
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


def test_what_only_cuda_uses_does_not_touch_the_cpu_variant(tmp_path: Path) -> None:
    wrong = dict.fromkeys(("CUDA_HOME", "CUDNN_HOME", "CUDA_ARCH_BIN"), tmp_path / "absent")
    plain, named = (build("--check", ROOT / ".caffe", **env) for env in ({}, wrong))
    assert (plain.returncode, plain.stderr) == (named.returncode, named.stderr)


# The real thing


def run(*command: object, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program with the CUDA build in front of this project's own Caffe."""
    assert PREFIX is not None
    first = {
        "PATH": f"{PREFIX}/bin{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join((str(ROOT), f"{PREFIX}/python", os.environ.get("PYTHONPATH", ""))),
        "GLOG_minloglevel": "0",
    }
    return subprocess.run(
        [*map(str, command)], cwd=ROOT, env={**os.environ, **first, **env}, capture_output=True, text=True, check=False
    )


def gpus() -> int:
    """How many GPUs the build sees."""
    code = "from latent_domains.common.gpus import gpu_names; print(len(gpu_names()))"
    return int(run(sys.executable, "-c", code).stdout or 0)


@pytest.fixture(scope="module")
def cuda_build() -> Path:
    """Build CUDA Caffe in the folder named by TEST_CUDA_PREFIX, unless it stands there; return the folder."""
    nvcc = Path(os.environ.get("CUDA_HOME", "")) / "bin/nvcc"
    if not nvcc.exists():
        pytest.skip(f"there is no CUDA toolkit here: no {nvcc} (CUDA_HOME)")
    if not PREFIX:
        pytest.skip("it compiles Caffe for GPUs, which takes long: name a folder for that by TEST_CUDA_PREFIX")
    done = subprocess.run(
        [ROOT / "docker/build_caffe.sh", *CUDA, PREFIX],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(PREFIX)


def test_cuda_build_runs(cuda_build: Path) -> None:
    """It starts without a GPU."""
    assert "caffe version 1.0.0" in run("caffe", "--version").stdout
    code = "import caffe; from latent_domains.common.gpus import has_cuda; print(caffe.__file__, has_cuda())"
    done = run(sys.executable, "-c", code)
    assert done.stdout.split() == [f"{cuda_build}/python/caffe/__init__.py", "True"], done.stderr


def test_cuda_build_trains_on_the_cpu(cuda_build: Path, tmp_path: Path) -> None:
    """Data that threads read, a layer of ours, by ``caffe train``: nothing of that asks for a GPU."""
    layers = """
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "mda" type: "Python" bottom: "conv" top: "mda"
  python_param { module: "caffe_layers" layer: "MDALayer" param_str: '{"num_domains": 1}' }
  param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 } }
layer { name: "pool" type: "Pooling" bottom: "mda" top: "pool" pooling_param { pool: MAX kernel_size: 2 } }
layer { name: "scores" type: "InnerProduct" bottom: "pool" top: "scores"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss" }
"""
    solver = f"""
train_net: "{tmp_path}/net" base_lr: 0.1 lr_policy: "fixed" max_iter: 20 display: 19
snapshot: 20 snapshot_prefix: "{tmp_path}/cpu" solver_mode: CPU
"""
    write(tmp_path, {"net": data_layer(tmp_path / "lmdb") + layers, "cpu": solver})
    done = run("caffe", "train", "-solver", tmp_path / "cpu")
    assert done.returncode == 0, done.stderr[-3000:]
    if not gpus():
        assert not re.findall("cublas|curand", done.stderr, re.IGNORECASE)
    losses = [float(loss) for loss in re.findall(r"Train net output #0: loss = (\S+)", done.stderr)]
    assert len(losses) >= 2 and losses[-1] < losses[0] / 2
    assert (tmp_path / "cpu_iter_20.caffemodel").exists()


def test_cuda_build_without_a_gpu_says_so(cuda_build: Path, tmp_path: Path) -> None:
    if gpus():
        pytest.skip("this machine has a GPU")
    write(tmp_path, {"solver": 'train_net: "absent" solver_mode: GPU\n'})
    for command in (["device_query", "-gpu", "all"], ["train", "-solver", tmp_path / "solver"]):
        done = run("caffe", *command)
        assert done.returncode == 1
        assert "was asked for, but there is none: " in done.stderr
        assert done.stderr.splitlines()[-1].endswith("'solver_mode: CPU'.") and "Check failed" not in done.stderr
    code = "from latent_domains.runs.devices import check_available; check_available('GPU', 'this run wants the GPU')"
    assert "ProgramError: this run wants the GPU, but " in run(sys.executable, "-c", code).stderr
