"""The kernels' machine code on disk: made once, by one of many processes, wherever it can be written."""

import os
import shutil
import subprocess
import sys

import pytest

from latent_domains.common.program import ROOT
from tests.isa import IS_X86

pytestmark = pytest.mark.program

# Runs a kernel and prints what it computed, and "cold" if it or the process that it started had to compile.
WORK = """
import pathlib, subprocess, numba, numpy as np
compiled = []
start = subprocess.run
def count(command, env, **options):
    folder = pathlib.Path(env["NUMBA_CACHE_DIR"])
    before = set(folder.rglob("*.nbc"))
    result = start(command, env=env, **options)
    compiled.extend(set(folder.rglob("*.nbc")) - before)
    return result
subprocess.run = count
compile_ir = numba.core.compiler.CompilerBase._compile_core
def compile_here(self):
    compiled.append(1)
    return compile_ir(self)
numba.core.compiler.CompilerBase._compile_core = compile_here
from caffe_layers import _kernel_cache
kernels = _kernel_cache.load("_row_kernels")
x = np.arange(12, dtype=np.float32).reshape(2, 6)
mean, variance = np.zeros(2), np.zeros(2)
kernels.row_moments(x, mean, variance)
assert numba.config.CACHE_DIR == (__import__("os").environ.get("NUMBA_CACHE_DIR") or "")
print(mean[1], round(variance[1], 6), "cold" if compiled else "warm")
"""


SAID = "caffe_layers: compiling the layers' kernels for this processor, once; up to a minute\n"

# Before WORK: the same folders, seen from a processor that can do less.
ELSEWHERE = """
import llvmlite.binding
from llvmlite.binding.targets import FeatureMap
llvmlite.binding.get_host_cpu_features = lambda: FeatureMap({"sse2": True})
"""


def start(root, work=WORK, **environment):
    keep = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    paths = [path for path in sys.path if path and "site-packages" in path]
    return subprocess.Popen(
        [sys.executable, "-c", work],
        cwd=root,
        env=keep | {"PYTHONPATH": os.pathsep.join([str(root), *paths])} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process, said=SAID):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    mean, variance, state = out.split()
    # One that waited for another's compilation said so as well.
    assert err == said if state == "cold" else err in ("", said)
    assert (float(mean), float(variance)) == (8.5, 2.916667)
    return state


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.nb?"))


# A kernel that compiles quickly, in the real one's place.
KERNELS = """
from numba import njit

@njit("void(float32[:,::1], float64[::1], float64[::1])", cache=True)
def row_moments(x, mean, variance):
    for r in range(x.shape[0]):
        mean[r] = variance[r] = 0
        for c in range(x.shape[1]):
            mean[r] += x[r, c] / x.shape[1]
        for c in range(x.shape[1]):
            variance[r] += (x[r, c] - mean[r]) ** 2 / x.shape[1]
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package with one small kernel and no cache of any kind."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "caffe_layers", copy / "caffe_layers", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "caffe_layers/_row_kernels.py").write_text(KERNELS)
    return copy


def test_kernel_cache_the_cache_lies_beside_the_source(package):
    assert finish(start(package)) == "cold"
    cache = package / "caffe_layers/__pycache__"
    assert len(files(cache)) == 2
    assert finish(start(package)) == "warm"


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_kernel_cache_code_that_is_damaged_is_made_again(package, kind):
    assert finish(start(package)) == "cold"
    (code,) = (package / "caffe_layers/__pycache__").rglob(f"*.{kind}")
    code.write_bytes(code.read_bytes()[:60])
    assert finish(start(package)) == "cold"
    assert finish(start(package)) == "warm"


def test_kernel_cache_a_changed_source_or_processor_is_compiled_anew(package):
    """A home on NFS, an image that was used elsewhere: the processor's name and what it can do are both looked at."""
    assert finish(start(package)) == "cold"
    assert finish(start(package, NUMBA_CPU_NAME="x86-64" if IS_X86 else "generic")) == "cold"
    assert finish(start(package, ELSEWHERE + WORK)) == "cold"
    assert finish(start(package)) == "warm"
    for name in ("_row_kernels", "_formulas"):
        source = package / f"caffe_layers/{name}.py"
        source.write_text(source.read_text() + "\n# changed\n")
        assert finish(start(package)) == "cold"
    # None of them shares a folder with another: an index can never name another's code.
    assert len({path.rsplit("/", 1)[0] for path in files(package)}) == 5


def test_kernel_cache_a_program_says_that_it_compiles_and_no_later_one(package):
    load = "from caffe_layers import _kernel_cache; _kernel_cache.load_all()"
    for name in ("_column_kernels", "_domain_kernels"):
        (package / f"caffe_layers/{name}.py").write_text(KERNELS)
    assert [start(package, load).communicate(timeout=300) for _ in range(2)] == [("", SAID), ("", "")]
    assert len(files(package)) == 6


def test_kernel_cache_a_package_that_cannot_be_written_uses_the_users_cache(package, tmp_path):
    # A file in the folder's place: no one, not even root, can write below it.
    (package / "caffe_layers/__pycache__").write_text("")
    user = tmp_path / "home"
    assert finish(start(package, XDG_CACHE_HOME=str(user))) == "cold"
    assert len(files(user / "caffe_layers")) == 2
    assert finish(start(package, XDG_CACHE_HOME=str(user))) == "warm"


# Prints the bits of all that the layer computes, over rows and over columns, and the state.
BITS = (
    WORK
    + """
import hashlib
from tests.caffe_layers.steps import cpu_steps, random_rows, run
rng = np.random.default_rng(0)
for size in (1, 64, 576):
    x, g = rng.normal(size=(2, 8, 130, size)).astype(np.float32) + np.float32(0.3)
    w = random_rows(rng, 8, 3)
    result = run(cpu_steps(x, w), x, w, g)
    for name in ("mean", "variance", "y", "dx", "dw"):
        print(size, name, hashlib.sha256(getattr(result, name).tobytes()).hexdigest())
"""
)


def test_kernel_cache_many_processes_start_at_once_with_a_cold_cache_and_compute_the_same_bits(tmp_path):
    """With the real kernels. One of the processes compiles; a later one computes the same bits as well."""
    cache = tmp_path / "cache"
    processes = [start(ROOT, BITS, NUMBA_CACHE_DIR=str(cache)) for _ in range(3)]
    outputs = [process.communicate(timeout=300)[0].splitlines() for process in processes]
    kept = files(cache)
    outputs.append(start(ROOT, BITS, NUMBA_CACHE_DIR=str(cache)).communicate(timeout=300)[0].splitlines())
    assert sorted(lines[0].split()[-1] for lines in outputs) == ["cold", "warm", "warm", "warm"]
    assert len(outputs[0]) == 16
    assert all(lines[1:] == outputs[0][1:] for lines in outputs)
    assert files(cache) == kept
