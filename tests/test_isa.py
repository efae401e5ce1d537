"""tests/isa.py: every library uses the instruction set that was asked for, or the command does not begin."""

import json
import os
import subprocess
import sys

import pytest

from latent_domains.common.program import ROOT
from tests import isa

# Prints what each library says that it uses.
PROBE = """
import ctypes, json, sys
import caffe, cv2, numba, numpy, scipy.linalg, threadpoolctl, torch
from numba.core.registry import cpu_target
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from pathlib import Path

def library(name):
    return ctypes.CDLL(next(line.split()[-1] for line in Path("/proc/self/maps").open() if name in line))

@numba.njit(fastmath=True)
def total(x):
    result = 0.0
    for value in x:
        result += value * value
    return result

total(numpy.ones(64))
asm = total.inspect_asm(total.signatures[0])
clone = library("/libcaffe.so").caffe_cpu_clone
clone.restype = ctypes.c_char_p
caffes_opencv = library("/libopencv_core.so")._ZN2cv20checkHardwareSupportEi
caffes_opencv.restype = ctypes.c_bool
_, numba_cpu, numba_features = cpu_target.target_context.codegen().magic_tuple()
answers = {
    "caffe": clone().decode(),
    "openblas": sorted({each["architecture"] for each in threadpoolctl.threadpool_info() if "architecture" in each}),
    "numpy": [name for name in ("X86_V3", "X86_V4") if __cpu_features__[name]],
    "opencv": [name for name in cv2.getCPUFeaturesLine().split() if name in ("*AVX2", "*AVX512-SKX")],
    "caffe's opencv": [name for name, number in (("AVX2", 11), ("AVX512-SKX", 256)) if caffes_opencv(number)],
    "numba": [numba_cpu, numba_features, "ymm" in asm],
    "torch": torch.backends.cpu.get_cpu_capability(),
}
sys.stdout.write(json.dumps(answers) + chr(10))
sys.stdout.flush()
torch.nn.Conv2d(8, 8, 3)(torch.zeros(2, 8, 20, 20))  # oneDNN says what it uses
"""

ANSWERS = {
    "sse4.2": {
        "caffe": "sse2",
        "openblas": ["Nehalem"],
        "numpy": [],
        "opencv": [],
        "caffe's opencv": [],
        "numba": ["x86-64-v2", "", False],
        "torch": "DEFAULT",
        "onednn": "Intel SSE4.1",
    },
    "avx2": {
        "caffe": "avx2",
        "openblas": ["Haswell"],
        "numpy": ["X86_V3"],
        "opencv": ["*AVX2"],
        "caffe's opencv": ["AVX2"],
        "numba": ["x86-64-v3", "", True],
        "torch": "AVX2",
        "onednn": "Intel AVX2",
    },
    "avx512": {
        "caffe": "avx512f",
        "openblas": ["SkylakeX"],
        "numpy": ["X86_V3", "X86_V4"],
        "opencv": ["*AVX2", "*AVX512-SKX"],
        "caffe's opencv": ["AVX2", "AVX512-SKX"],
        "numba": ["x86-64-v4", "", True],
        "torch": "AVX512",
        "onednn": "Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions",
    },
}


def has(name):
    return isa.flags().issuperset(isa.ISAS[name].flags.split())


@pytest.mark.torch
@pytest.mark.parametrize("name", [name for name in isa.ISAS if has(name)])
def test_isa_every_library_obeys(name):
    """In a process of its own; if the tests themselves were started for this set, with their very environment."""
    environment = os.environ if os.environ.get("ISA") == name else isa.environment(name)
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        env=environment | {"ONEDNN_VERBOSE": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    answers, *log = done.stdout.splitlines()
    onednn = next(line.split("isa:")[1] for line in log if ",cpu,isa:" in line)
    assert json.loads(answers) | {"onednn": onednn} == ANSWERS[name]


OF_AVX2 = {*isa.ISAS["sse4.2"].flags.split(), *isa.ISAS["avx2"].flags.split()}


def test_isa_a_set_that_the_processor_lacks_is_refused(monkeypatch):
    monkeypatch.setattr(isa, "flags", lambda: OF_AVX2 | {"avx512f"})
    message = "ISA=avx512: this processor lacks avx512bw, avx512cd, avx512dq, avx512vl; it has sse4.2, avx2"
    with pytest.raises(ValueError, match=f"^{message}$"):
        isa.variables("avx512")


@pytest.mark.program
def test_isa_the_command_does_not_begin_without_it():
    done = subprocess.run(
        [sys.executable, "-m", "tests.isa", "avx3", "echo", "begun"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ISA=avx3: expected one of sse4.2, avx2, avx512\n"
