from contextlib import nullcontext
from pathlib import Path

import caffe
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
def test_a_build_that_differs(tmp_path, monkeypatch):
    net = tmp_path / "demo_net.prototxt"
    net.write_text(
        'layer { name: "data" type: "Data" top: "data" data_param { batch_size: 2 } }'
        'layer { name: "relu" type: "ReLU" bottom: "data" top: "relu" }'
    )

    def compute(net):
        return {name: value * (1 + 1e-4) for name, value in builds.compute(net).items()}

    monkeypatch.setattr("tools.compare_caffe.other_build", lambda prefix: nullcontext(compute))
    assert program("compare_caffe", PREFIX, net).returncode == 1
    assert program("compare_caffe", PREFIX, net, "--tolerance", 1e-3).returncode == 0
