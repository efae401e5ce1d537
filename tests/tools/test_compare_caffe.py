from contextlib import nullcontext
from pathlib import Path

import caffe
import numpy as np
import pytest

from latent_domains.bench import builds
from latent_domains.common.program import ROOT
from tests.programs import child, program

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


@pytest.fixture
def trusting(monkeypatch):
    """Nets that Caffe is known to load are not tried in a process of their own first."""
    monkeypatch.setattr(builds, "check_definition", lambda *_: None)


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("spoilt", ["top", ""])  # one array of each InnerProduct, all of them
def test_a_build_that_returns_nan(spoilt, monkeypatch):
    def compute(net):
        results = builds.compute(net)
        if net.layer[-1].type != "InnerProduct":
            return results
        return {name: value * np.nan if spoilt in name else value for name, value in results.items()}

    monkeypatch.setattr(builds, "other_build", lambda prefix: nullcontext(compute))
    done = program("compare_caffe", PREFIX, ROOT / "prototxt/mnist/demo_train.prototxt", "--images", 2)
    assert done.returncode == 1, done.stderr
    assert [row for row in done.stdout.splitlines() if "InnerProduct" in row and " inf " in row]


@pytest.mark.usefixtures("trusting")
def test_a_net_in_which_nothing_is_computed(tmp_path, monkeypatch):
    net = tmp_path / "demo_nothing.prototxt"
    net.write_text('layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 } } }')
    monkeypatch.setattr(builds, "other_build", lambda prefix: nullcontext(builds.compute))
    done = program("compare_caffe", PREFIX, net)
    assert done.returncode == 1
    assert f"{net}: no layer to compare, expected one that Caffe itself computes" in done.stderr
