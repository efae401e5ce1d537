"""Patch 10, without a GPU: which of the algorithms that cuDNN offers Caffe takes. A stand-in makes the offers."""

import subprocess
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from tests.docker.patched import LIBRARIES, unpack

pytestmark = pytest.mark.program

HERE = Path(__file__).parent / "cudnn"
PREFIX = ROOT / ".caffe"
LIMIT = 1000
PASSES = {"forward": "forward", "filter": "backward filter", "data": "backward data"}
"""The stand-in's names of the passes, and those of Caffe's message."""

# Algorithm, status, memory and determinism as listed, status and workspace as asked for.
FAST_BUT_LARGE = "6,0,1001,1,0,1001"
FAST_BUT_FAILS = "5,9,0,1,9,0"
LARGER_THAN_LISTED = "4,0,10,1,0,1001"
REFUSED_AFTER_ALL = "3,0,10,1,9,0"
RANDOM = "2,0,1000,0,0,900"
SLOW = "1,0,0,1,0,7"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the patched piece of Caffe with the stand-in for cuDNN; return the program."""
    folder = tmp_path_factory.mktemp("cudnn8")
    unpack(folder, "10-cudnn8.patch", "include", "src/caffe/util")
    program = folder / "choose"
    subprocess.run(
        [
            *("g++", "-O0", "-DUSE_CUDNN", "-DCPU_ONLY", "-o", program),
            *(f"-I{include}" for include in (HERE, folder / "include", PREFIX / "include")),
            *(HERE / "stand_in.cpp", folder / "src/caffe/util/cudnn.cpp"),
            *(*LIBRARIES, "-lboost_thread"),
        ],
        check=True,
    )
    return program


def choose(program: Path, *arguments: str, deterministic: str = "") -> subprocess.CompletedProcess[str]:
    """Run the program in an environment that has the variable alone."""
    return subprocess.run(
        [program, *arguments],
        env={"CAFFE_CUDNN_DETERMINISTIC": deterministic},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize(
    ("offers", "deterministic", "chosen"),
    [
        ([RANDOM, SLOW], "", "2 900"),
        ([RANDOM, SLOW], "0", "2 900"),
        ([RANDOM, SLOW], "1", "1 7"),
        ([FAST_BUT_LARGE, FAST_BUT_FAILS, LARGER_THAN_LISTED, REFUSED_AFTER_ALL, RANDOM, SLOW], "", "2 900"),
        ([FAST_BUT_LARGE, FAST_BUT_FAILS, LARGER_THAN_LISTED, REFUSED_AFTER_ALL, RANDOM, SLOW], "1", "1 7"),
    ],
)
def test_cudnn8_the_first_that_will_do_is_taken(
    name: str, offers: list[str], deterministic: str, chosen: str, program: Path
) -> None:
    assert choose(program, name, str(LIMIT), *offers, deterministic=deterministic).stdout.strip() == chosen


@pytest.mark.parametrize("name", PASSES)
def test_cudnn8_none_that_will_do(name: str, program: Path) -> None:
    message = (
        f"Layer 'conv1': none of the 2 algorithms that cuDNN 8906 offers for its {PASSES[name]} pass works with 1000 "
        "bytes of workspace{}; 'engine: CAFFE' in its convolution_param does without cuDNN\n"
    )
    done = choose(program, name, str(LIMIT), FAST_BUT_LARGE, FAST_BUT_FAILS)
    assert done.returncode and message.format("") in done.stderr
    done = choose(program, name, str(LIMIT), FAST_BUT_LARGE, RANDOM, deterministic="1")
    assert message.format(" and is deterministic (CAFFE_CUDNN_DETERMINISTIC=1)") in done.stderr


def test_cudnn8_floats_are_multiplied_as_floats(program: Path) -> None:
    assert choose(program, "math", "0").stdout.split()[0] == "3"
