"""docker/patches/28-openblas-core.patch: OpenBLAS on a processor that is newer than itself."""

import os
import subprocess
import sys

import pytest

from tests.isa import IS_X86, ISAS, flags

# OpenBLAS is loaded as on a processor that it does not know; what asked for that is gone when Caffe comes.
PROGRAM = """
import ctypes, os, sys
import numpy as np

def core():
    blas.openblas_get_corename.restype = ctypes.c_char_p
    return blas.openblas_get_corename().decode()

os.environ["OPENBLAS_CORETYPE"] = "Prescott"
blas = ctypes.CDLL("libopenblas.so.0", ctypes.RTLD_GLOBAL)
before = core()
if sys.argv[1] == "unset":
    del os.environ["OPENBLAS_CORETYPE"]
import caffe
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p

a, b = np.random.default_rng(0).normal(size=(2, 300, 300)).astype(np.float32)
net = caffe.Net(sys.argv[2], caffe.TEST)
net.params["product"][0].data[...] = b
net.blobs["a"].data[...] = a
wrong = np.abs(net.forward()["product"] - a.astype(np.float64) @ b.T.astype(np.float64)).max()
print(before, core(), getenv(b"OPENBLAS_CORETYPE"), wrong < 1e-3)
"""
NET = """
layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 300 dim: 300 } } }
layer { name: "product" type: "InnerProduct" bottom: "a" top: "product"
  inner_product_param { num_output: 300 bias_term: false } }
"""


def run(variable, tmp_path):
    (tmp_path / "net.prototxt").write_text(NET)
    of_isa = {"OPENBLAS_CORETYPE", "GLIBC_TUNABLES"}
    environment = {key: value for key, value in os.environ.items() if key not in of_isa}
    command = [sys.executable, "-c", PROGRAM, variable, str(tmp_path / "net.prototxt")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.program
@pytest.mark.skipif(not IS_X86, reason="the patch is for x86-64")
def test_openblas_core_a_processor_that_openblas_does_not_know(tmp_path):
    """It gets the best kernels that it can run, unless the environment asks for others."""
    cores = [isa.asked["OPENBLAS_CORETYPE"] for isa in ISAS.values() if flags().issuperset(isa.flags.split())]
    best = cores[-1] if len(cores) > 1 else "Prescott"  # SSE4.2 alone is no more than OpenBLAS takes
    assert run("unset", tmp_path) == ["Prescott", best, "None", "True"]
    assert run("set", tmp_path) == ["Prescott", "Prescott", "b'Prescott'", "True"]
