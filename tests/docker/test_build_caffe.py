"""docker/build_caffe.sh: what it installed, and how it refuses; Caffe is never compiled here."""

import errno
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from tests.isa import IS_X86

PREFIX = ROOT / ".caffe"
KEY = PREFIX / "share/Caffe/build-key"
PATCHES = sorted((ROOT / "docker/patches").glob("*.patch"))
CHECKOUT_FILES = ("CMakeLists.txt", "src/caffe/proto/caffe.proto", "python/caffe/_caffe.cpp")


def build(*arguments: object, docker: Path = ROOT / "docker", **env: object) -> subprocess.CompletedProcess[str]:
    """Run the script of the folder ``docker`` for the interpreter of these tests."""
    return subprocess.run(
        [docker / "build_caffe.sh", *map(str, arguments)],
        env={**os.environ, "PYTHON": sys.executable, **{name: str(value) for name, value in env.items()}},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a tree with the files by which a Caffe checkout is known, and nothing in them."""
    tree = tmp_path / "checkout"
    for name in CHECKOUT_FILES:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("nothing\n")
    return tree


def interpreter(folder: Path, script: str) -> Path:
    """Write a program ``python`` that is a shell script."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return python


# What is installed

# Their inputs and weights are random, and one compares sums that may cancel: the same numbers each time.
SEEDED_TESTS = """
import sys, unittest
import caffe, numpy
numpy.random.seed(0)
caffe.set_random_seed(0)
unittest.main(module=None, argv=["unittest", "discover", "-s", sys.argv[1]])
"""


@pytest.mark.program
def test_build_caffe_tests_of_pycaffe_pass_on_the_installed_prefix(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SEEDED_TESTS, PREFIX / "python/caffe/test"],
        cwd=tmp_path,  # a solver's snapshot is written where they run
        env={**os.environ, "PYTHONPATH": str(PREFIX / "python")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    count = re.search(r"^Ran (\d+) tests", result.stderr, re.MULTILINE)
    assert count and int(count[1]) >= 50


@pytest.mark.program
def test_build_caffe_programs_and_pycaffe_share_the_library_of_their_prefix() -> None:
    for file in ("bin/caffe", "bin/convert_imageset", "bin/compute_image_mean", "python/caffe/_caffe.so"):
        libraries = subprocess.run(["ldd", PREFIX / file], capture_output=True, text=True, check=True).stdout
        found = re.search(r"libcaffe\.so\S* => (\S+)", libraries)
        assert found and Path(found[1]).resolve().is_relative_to(PREFIX.resolve()), file


@pytest.mark.program
@pytest.mark.skipif(not IS_X86, reason="elsewhere there are no clones")
def test_build_caffe_the_library_is_for_any_x86_64() -> None:
    """AVX registers only in clones, which are chosen where the processor has them: the prefix may travel to another."""
    command = ["objdump", "-d", "--no-show-raw-insn", PREFIX / "lib/libcaffe.so"]
    registers: dict[str, set[str]] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as objdump:
        assert objdump.stdout is not None
        for line in objdump.stdout:
            if named := re.match(r"[0-9a-f]+ <(.*)>:$", line):
                clone = re.search(r"\.(avx2|avx512f)\b", named[1])
                here = registers.setdefault(clone[1] if clone else "any", set())
            elif found := re.findall(r"%([xyz]mm)", line):
                here.update(found)
    assert objdump.returncode == 0
    assert registers["any"] == {"xmm"}
    assert "ymm" in registers["avx2"] and "zmm" in registers["avx512f"]


def data_layer(folder: Path) -> str:
    """Write an LMDB of one black 8×8 image into ``folder``; return the layer that reads it, 4 at a time."""
    import lmdb
    from caffe.proto import caffe_pb2

    with lmdb.open(str(folder), map_size=1 << 20) as env, env.begin(write=True) as transaction:
        datum = caffe_pb2.Datum(channels=1, height=8, width=8, data=bytes(64), label=1)
        transaction.put(b"0", datum.SerializeToString())
    return (
        'layer { name: "data" type: "Data" top: "data" top: "label"\n'
        f'  data_param {{ source: "{folder}" backend: LMDB batch_size: 4 }} }}\n'
    )


NO_LOCKS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
static int answer(const char *name, int fd, int command, void *argument) {
  if (command == F_SETLK || command == F_SETLKW || command == F_GETLK) {
    errno = atoi(getenv("LOCK_ERROR"));
    return -1;
  }
  return ((int (*)(int, int, void *))dlsym(RTLD_NEXT, name))(fd, command, argument);
}
#define STAND_IN(name) \
  int name(int fd, int command, ...) { \
    va_list more; va_start(more, command); void *argument = va_arg(more, void *); va_end(more); \
    return answer(#name, fd, command, argument); \
  }
STAND_IN(fcntl)
STAND_IN(fcntl64)
"""
"""In place of a file system without locks: what it answers to who asks for one."""


@pytest.fixture(scope="module")
def no_locks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library to be loaded before others."""
    folder = tmp_path_factory.mktemp("no_locks")
    (folder / "locks.c").write_text(NO_LOCKS)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "locks.so", "locks.c", "-ldl"], cwd=folder, check=True)
    return folder / "locks.so"


@pytest.mark.program
@pytest.mark.parametrize("error", [errno.EACCES, errno.ENOSYS, errno.EINVAL])
def test_build_caffe_data_on_a_file_system_without_locks(error: int, no_locks: Path, tmp_path: Path) -> None:
    """Lustre without flock, NFS without lockd; EACCES: an LMDB of somebody else, or mounted to be read."""
    net = tmp_path / "net.prototxt"
    second = data_layer(tmp_path / "two").replace('"data"', '"more"').replace('"label"', '"labels"')
    net.write_text(data_layer(tmp_path / "one") + second)
    command = [PREFIX / "bin/caffe", "time", "-model", net, "-iterations", "1"]
    env = {**os.environ, "GLOG_minloglevel": "0", "LD_PRELOAD": str(no_locks), "LOCK_ERROR": str(error)}
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    said = f"{tmp_path}/one: {os.strerror(error)}. Trying with MDB_NOLOCK ..."
    assert result.stderr.count("MDB_NOLOCK") == 1 and said in result.stderr
    gone = {**env, "LOCK_ERROR": str(errno.EIO)}  # another error is still one
    result = subprocess.run(command, cwd=tmp_path, env=gone, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode != 0 and "Input/output error" in result.stderr


# When nothing is to be done

of_the_cpu = pytest.mark.skipif(
    KEY.exists() and "\nvariant: cuda\n" in KEY.read_text(),
    reason="this Caffe was built for GPUs, with a toolkit that the caller named",
)


@pytest.mark.program
@of_the_cpu
def test_build_caffe_second_run_does_nothing() -> None:
    assert build("--check", PREFIX).returncode == 0, "run make setup: the prefix is not of this script"
    before = (PREFIX / "bin/caffe").stat()
    again = build(PREFIX)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    after = (PREFIX / "bin/caffe").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.program
@of_the_cpu
@pytest.mark.parametrize("change", ["patch", "source", "numpy"])
def test_build_caffe_a_change_asks_for_a_build(change: str, tmp_path: Path, checkout: Path) -> None:
    docker = shutil.copytree(ROOT / "docker", tmp_path / "docker")
    env: dict[str, object] = {}
    assert build("--check", PREFIX, docker=docker).returncode == 0
    if change == "patch":
        patch = docker / "patches" / PATCHES[0].name
        patch.write_text("One more line of explanation.\n" + patch.read_text())
    elif change == "source":
        env["CAFFE_SRC"] = checkout
    else:
        # The same interpreter with another NumPy in front of its own.
        (tmp_path / "numpy.py").write_text("__version__ = '1.0'\n")
        env["PYTHON"] = interpreter(tmp_path, f'PYTHONPATH={tmp_path} exec {sys.executable} "$@"')
    assert build("--check", PREFIX, docker=docker, **env).returncode == 1


@pytest.mark.program
@of_the_cpu
def test_build_caffe_a_prefix_of_a_checkout_stays_when_the_variable_is_not_set(tmp_path: Path) -> None:
    """CAFFE_SRC is what a machine without a network is told to set; the next `make` would fetch, or fail."""
    key = tmp_path / "p/share/Caffe/build-key"
    key.parent.mkdir(parents=True)
    _, rest = KEY.read_text().split("\n", 1)
    for recipe, expected in (("recipe", 0), ("older", 1)):
        key.write_text("source: a checkout, sha256 0\n" + rest.replace("recipe", recipe))
        assert build("--check", tmp_path / "p").returncode == expected


# How it refuses


@pytest.mark.program
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "PREFIX is missing"),
        (["--variant", "rocm", "p"], "unknown variant 'rocm': expected cpu or cuda"),
        (["--variant"], "--variant needs a value: cpu or cuda"),
        (["p", "q"], "one PREFIX expected, got 'p' and 'q'"),
    ],
)
def test_build_caffe_wrong_command_line(arguments: list[str], message: str) -> None:
    result = build(*arguments)
    assert result.returncode == 2
    assert result.stderr.startswith(f"build_caffe: {message}\nusage:")


def refused(prefix: Path, message: str, arguments: list[str] | None = None, **env: object) -> None:
    """Check that a build of ``prefix`` ends with exit code 1 and this message, and leaves nothing there."""
    result = build(*(arguments or []), prefix, **env)
    assert result.returncode == 1
    assert message in result.stderr
    assert not prefix.exists()
    assert not list(prefix.parent.glob(f"{prefix.name}.partial-*"))


@pytest.mark.program
def test_build_caffe_patch_that_does_not_apply(tmp_path: Path, checkout: Path) -> None:
    """The message names the patch, the step and the log; the checkout stays, what a killed build left goes."""
    env = {"CAFFE_SRC": checkout, "CAFFE_BUILD_DIR": tmp_path / "build"}
    (tmp_path / "p.partial-a1B2c3").mkdir()
    refused(tmp_path / "p", f"docker/patches/{PATCHES[0].name} does not apply to this tree", **env)
    refused(tmp_path / "p", f"step 'unpack' failed; above are the last lines of {tmp_path}/build", **env)
    files = {str(path.relative_to(checkout)): path.read_text() for path in checkout.rglob("*") if path.is_file()}
    assert files == dict.fromkeys(CHECKOUT_FILES, "nothing\n")


@pytest.mark.program
def test_build_caffe_a_wrong_interpreter_checkout_or_folder(tmp_path: Path) -> None:
    python = interpreter(tmp_path, f'exec {Path(sys.executable).resolve()} -S "$@"')
    refused(tmp_path / "p", "it lacks numpy, scipy, scikit-image, protobuf, six", PYTHON=python)
    refused(tmp_path / "p", "does not exist", PYTHON=tmp_path / "absent")
    refused(tmp_path / "p", "is not a Caffe checkout: it has no CMakeLists.txt", CAFFE_SRC=tmp_path / "absent")
    (tmp_path / "file").write_text("precious")
    assert "was not made by this script: name a new or empty folder" in build(tmp_path).stderr
    assert (tmp_path / "file").read_text() == "precious"


# The patches


def test_build_caffe_pictures_are_made_smaller_as_caffe_did() -> None:
    """07-numpy2-scikit-image.patch: without the smoothing that scikit-image begins with since 0.19."""
    import caffe
    import numpy as np

    image = np.tile(np.float32([0, 0, 1, 1]), (64, 16))[..., np.newaxis]
    smaller = caffe.io.resize_image(image, (32, 32))
    assert np.allclose(smaller, np.tile(np.float32([0, 1]), (32, 16))[..., np.newaxis], atol=1e-6)


@pytest.mark.program
def test_build_caffe_a_solver_may_go_in_another_mode_than_it_came(tmp_path: Path) -> None:
    """17-timer-mode.patch: in one that was made in CPU mode is a timer without CUDA's events."""
    (tmp_path / "net.prototxt").write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 } } }'
    )
    (tmp_path / "solver.prototxt").write_text(
        'net: "net.prototxt" base_lr: 1 lr_policy: "fixed" snapshot_after_train: false'
    )
    steps = "import caffe; s = caffe.SGDSolver('solver.prototxt'); caffe.set_mode_gpu(); del s; print('gone')"
    done = subprocess.run([sys.executable, "-c", steps], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "gone\n"), done.stderr[-2000:]
