"""FCN-8s (Long, Shelhamer, Darrell, CVPR 2015): deconvolutions, crops and sums, up to the class of each pixel."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from caffe import NetSpec, layers, params
from caffe.coord_map import crop
from caffe.net_spec import Top
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.convert.fold.fold import fold
from latent_domains.convert.fold.verify import compare_nets, compare_opencv
from latent_domains.models.compare import worst
from latent_domains.models.model import Array, Model, forward, load, write_model
from tests.latent_domains.convert.onnx.nets import compare_runtime, exported, random_model

CLASSES = 21


def fcn8s(height: int, width: int, *, divided: int = 1) -> NetParameter:
    """The published net for VOC, for images of a size; with ``divided``, so many times fewer channels in the trunk.

    On VGG-16's trunk, whose first padding is 100, scores are upsampled by 2, 2 and 8 and meet those of pool4 and pool3.
    Caffe works out the offsets of the crops.
    """
    net = NetSpec()
    net.data = layers.Input(shape={"dim": [1, 3, height, width]})
    x = net.data
    for block, (number, channels) in enumerate([(2, 64), (2, 128), (3, 256), (3, 512), (3, 512)], 1):
        for i in range(1, number + 1):
            x = _conv_relu(net, x, f"{block}_{i}", channels // divided, 3, 100 if x is net.data else 1)
        net[f"pool{block}"] = x = layers.Pooling(x, pool=params.Pooling.MAX, kernel_size=2, stride=2)
    x = _conv_relu(net, x, "6", 4096 // divided, 7, 0, name="fc6")
    x = _conv_relu(net, x, "7", 4096 // divided, 1, 0, name="fc7")
    net.score_fr = layers.Convolution(x, num_output=CLASSES, kernel_size=1, pad=0)
    net.upscore2 = _upsampled(net.score_fr, 2)
    for pool, upscore, made, factor in ((4, "upscore2", "upscore_pool4", 2), (3, "upscore_pool4", "upscore8", 8)):
        score = f"score_pool{pool}"
        net[score] = layers.Convolution(net[f"pool{pool}"], num_output=CLASSES, kernel_size=1, pad=0)
        net[f"{score}c"] = crop(net[score], net[upscore])
        net[f"fuse_pool{pool}"] = layers.Eltwise(net[upscore], net[f"{score}c"], operation=params.Eltwise.SUM)
        net[made] = _upsampled(net[f"fuse_pool{pool}"], factor)
    net.score = crop(net.upscore8, net.data)
    return net.to_proto()


def _conv_relu(net: NetSpec, x: Top, which: str, channels: int, kernel: int, pad: int, name: str = "") -> Top:
    conv = layers.Convolution(x, num_output=channels, kernel_size=kernel, pad=pad, stride=1)
    net[name or f"conv{which}"] = conv
    net[f"relu{which}"] = relu = layers.ReLU(conv, in_place=True)
    return relu


def _upsampled(x: Top, factor: int) -> Top:
    param = {"num_output": CLASSES, "kernel_size": 2 * factor, "stride": factor, "bias_term": False}
    return layers.Deconvolution(x, convolution_param=param)


def bilinear(size: int) -> Array:
    """The kernel of ``size``×``size`` that upsamples by half its size."""
    line = 1 - np.abs(np.arange(size) - (size - 1) / 2) / (size / 2)
    return np.outer(line, line).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> Model:
    net = fcn8s(33, 40, divided=16)
    made = random_model(net)
    for name in ("upscore2", "upscore_pool4", "upscore8"):
        (weights,) = made.blobs[name]
        weights[...] = np.eye(CLASSES)[:, :, None, None] * bilinear(weights.shape[-1])
    return made


@pytest.fixture(scope="module")
def classes(model: Model) -> Model:
    """The net with the class of each pixel."""
    net = NetParameter(layer=model.net.layer)
    net.layer.add(name="class", type="ArgMax", bottom=["score"], top=["class"], argmax_param={"axis": 1})
    return Model(net, model.blobs)


X = np.random.default_rng(0).integers(-128, 128, (2, 3, 33, 40)).astype(np.float32)


def test_offsets_and_layers_are_the_published_ones() -> None:
    net = fcn8s(500, 500)
    crops = {layer.name: list(layer.crop_param.offset) for layer in net.layer if layer.type == "Crop"}
    assert crops == {"score_pool4c": [5], "score_pool3c": [9], "score": [31]}
    assert len(net.layer) == 47


def test_onnx_runtime_agrees_in_every_blob(classes: Model) -> None:
    rows = {row.name: row.relative for row in compare_runtime(classes)}
    assert {top for layer in classes.net.layer[1:] for top in layer.top} <= set(rows)
    assert max(rows.values()) <= 1e-5, rows


def test_opencv_agrees_on_the_onnx_file(model: Model, classes: Model) -> None:
    expected = forward(load(classes), X)

    def found(model: Model) -> Array:
        opencv = cv2.dnn.readNetFromONNX(np.frombuffer(exported(model).SerializeToString(), np.uint8))
        opencv.setInput(X)
        return opencv.forward()

    assert expected["score"].shape == (2, CLASSES, 33, 40) and len(np.unique(expected["class"])) > 1
    np.testing.assert_allclose(found(model), expected["score"], atol=1e-5 * np.abs(expected["score"]).max())
    assert (found(classes) == expected["class"]).mean() > 0.999


def test_opencv_agrees_on_caffes_own_files(model: Model, tmp_path: Path) -> None:
    folded = fold(model)
    files = write_model(folded.model, tmp_path / "fcn", about="", force=False)
    rows, expected = compare_nets(load(model), load(folded.model), folded, [X])
    agreement = compare_opencv(*files, folded, [X], expected)
    assert worst(rows).relative == 0 and agreement.furthest.relative < 1e-5
    assert (agreement.same, agreement.inputs) == (2, 2)
