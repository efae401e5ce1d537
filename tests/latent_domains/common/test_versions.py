"""What a result says of the machine."""

import os
import subprocess
import sys

PROGRAM = "from latent_domains.common.versions import hardware; print(hardware('CPU')['openblas'])"


def test_hardware_names_the_kernel_that_openblas_took():
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Nehalem"}  # every x86-64 of today runs it
    command = [sys.executable, "-c", PROGRAM]
    assert subprocess.check_output(command, env=environment, text=True).strip() == "Nehalem"
