"""What a result says of how it was computed."""

import os
import subprocess
import sys

import pytest

from latent_domains.common.program import ROOT
from tests.isa import IS_X86

PROGRAM = """
import ctypes
import cv2  # brings another OpenBLAS, which knows fewer processors
from latent_domains.common.versions import openblas_kernel
name = ctypes.CDLL("libopenblas.so.0").openblas_get_corename
name.restype = ctypes.c_char_p
print(openblas_kernel(), name().decode())
"""


@pytest.mark.program
def test_the_kernel_is_that_of_caffes_openblas():
    asked = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    every = "Nehalem" if IS_X86 else "armv8"  # which each processor of its kind runs
    for environment in (asked, {**asked, "OPENBLAS_CORETYPE": every}):
        told, expected = subprocess.check_output(
            [sys.executable, "-c", PROGRAM], env=environment, cwd=ROOT, text=True
        ).split()
        assert told == expected == environment.get("OPENBLAS_CORETYPE", expected)
