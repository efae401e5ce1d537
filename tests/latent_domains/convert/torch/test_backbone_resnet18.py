"""ResNet18 as a net that makes features, of weights that have a ninth block."""

import hashlib
from dataclasses import replace

import numpy as np
import onnx
import pytest

from latent_domains.convert.torch.backbone import feature_backbone
from latent_domains.data.published_file import PublishedFile
from latent_domains.models.onnx_file import Runtime, with_outputs
from latent_domains.networks.resnet import RESNET18, RESNET18_CNTK
from tests.latent_domains.convert.torch.onnx_nets import Builder

MEAN = np.array([103.53, 116.28, 123.675], np.float32).reshape(3, 1, 1)
"""Of an unknown file: ImageNet's, B, G, R."""


@pytest.mark.slow
def test_feature_backbone_features_and_statistics_are_those_of_eight_blocks(tmp_path):
    file = tmp_path / "net.onnx"
    model = Builder(seed=0, cntk=True).net((2, 2, 2, 3), classes=None)
    onnx.save(model, file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    weights = replace(RESNET18_CNTK, file=PublishedFile("net.onnx", "mine", {"sha256": digest}, (), home="here"))
    backbone = feature_backbone(RESNET18, weights, file)
    assert (backbone.row_size, backbone.early_size) == (1024, 512)
    assert backbone.description["weights"] == digest
    picture = np.random.default_rng(1).integers(0, 256, (3, 256, 256)).astype(np.uint8)
    sums = [node.output[0] for node in model.graph.node if node.op_type == "Add"]
    blocks = [node.output[0] for node in model.graph.node if node.op_type == "Relu" and node.input[0] in sums]
    runtime = Runtime(with_outputs(model, [blocks[5], blocks[7]]).SerializeToString())
    rgb = (picture[::-1, 16:240, 16:240] - MEAN[::-1]) / (255 * np.array([0.229, 0.224, 0.225]).reshape(3, 1, 1))
    middle, last = runtime.forward({"pixels": rgb[np.newaxis].astype(np.float32)}).values()
    maps = middle.reshape(256, -1)
    expected = np.concatenate([last.mean(axis=(2, 3))[0], maps.mean(axis=1), maps.std(axis=1)])
    np.testing.assert_allclose(backbone.features(picture), expected, rtol=0, atol=1e-4 * np.abs(expected).max())
