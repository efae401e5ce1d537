"""The README's prototxt works as printed."""

import re

import caffe
import numpy as np

from latent_domains.common.program import ROOT

INPUTS = """
layer { name: "inputs" type: "Input" top: "conv1" top: "domain_logits" top: "constant_logits" top: "scores_target"
        input_param { shape { dim: 6 dim: 4 dim: 5 dim: 5 } shape { dim: 4 dim: 2 } shape { dim: 2 dim: 1 }
                      shape { dim: 2 dim: 10 } } }
"""


def test_layers_of_the_readme_run_in_caffe(tmp_path):
    blocks = re.findall(r"^```\w*\n(.*?)^```", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    prototxt = next(block for block in blocks if "MDALayer" in block)
    file = tmp_path / "net.prototxt"
    file.write_text("force_backward: true" + INPUTS + prototxt)
    net = caffe.Net(str(file), caffe.TRAIN)
    rng = np.random.default_rng(0)
    for name in ("conv1", "domain_logits", "scores_target"):
        net.blobs[name].data[...] = rng.normal(3, 2, net.blobs[name].shape)
    entropy = float(net.forward()["entropy_class"])
    assert 0 < entropy < np.log(10)
    target = net.blobs["conv1_scale"].data[4:]  # the target's rows are normalised by themselves
    np.testing.assert_allclose(target.mean(axis=(0, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(target.var(axis=(0, 2, 3)), 1, atol=1e-4)
    net.blobs["conv1_scale"].diff[...] = rng.normal(size=net.blobs["conv1_scale"].shape)
    net.backward()
    assert np.abs(net.blobs["domain_logits"].diff).max() > 0
