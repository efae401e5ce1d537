from pathlib import Path

import caffe
import pytest

from latent_domains.common.program import ROOT
from tests.programs import child

PREFIX = Path(caffe.__file__).parents[2]


@pytest.mark.program
def test_a_build_beside_itself():
    done = child("compare_caffe", PREFIX, ROOT / "prototxt/mnist/demo_train.prototxt", "--images", 4)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    assert {row[0]: row[2] for row in rows[2:]}["Convolution"] == "0.0e+00"


@pytest.mark.program
def test_a_net_of_no_dataset(tmp_path):
    done = child("compare_caffe", PREFIX, tmp_path / "unknown.prototxt")
    assert done.returncode == 1 and "expected a name that begins with a dataset's: " in done.stderr
