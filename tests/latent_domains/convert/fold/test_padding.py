"""Convolutions with other pads behind than before: folded for stock Caffe, and as ONNX."""

import numpy as np
import pytest
from caffe.proto.caffe_pb2 import NetParameter
from google.protobuf import text_format

from latent_domains.common.program import ProgramError
from latent_domains.convert.fold.fold import fold
from latent_domains.convert.onnx.net import onnx_model
from latent_domains.models.model import Model, forward, load
from latent_domains.models.onnx_runtime import Runtime


def model(fields: str, sides: tuple[int, int]) -> Model:
    rng = np.random.default_rng(0)
    net = f"""name: "net"
        layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: [2, 4, 9, 10] }} }} }}
        layer {{ name: "conv" type: "Convolution" bottom: "data" top: "conv"
                 convolution_param {{ num_output: 6 group: 2 bias_term: false {fields} }} }}"""
    return Model(text_format.Parse(net, NetParameter()), {"conv": [rng.normal(size=(6, 2, *sides)).astype(np.float32)]})


CASES = {
    "kernel_size: 3 stride: 2 pad_end: 1": ((3, 3), [4, 4], [1, 1]),
    "kernel_size: 5 stride: 2 pad: 1 pad_end: 2": ((5, 5), [6, 6], [2, 2]),
    "kernel_size: 3 pad: 2 pad_end: 0": ((3, 3), [5, 5], [2, 2]),
    "kernel_size: [3, 2] stride: [2, 1] pad: [1, 0] pad_end: [0, 3]": ((3, 2), [4, 5], [1, 3]),
    "kernel_size: 2 dilation: 2 pad_end: 4": ((2, 2), [4, 4], [4, 4]),
    "kernel_size: 3 pad: 1 pad_end: 1": ((3, 3), [3, 3], [1, 1]),
}


@pytest.mark.parametrize("fields", CASES)
def test_it_is_the_same_convolution(fields: str) -> None:
    sides, kernel, pads = CASES[fields]
    original, data = model(fields, sides), np.random.default_rng(1).normal(size=(2, 4, 9, 10)).astype(np.float32)
    expected, folded = forward(load(original), data)["conv"], fold(original).model
    assert list(folded.blobs["conv"][0].shape[2:]) == kernel
    np.testing.assert_allclose(forward(load(folded), data)["conv"], expected, atol=1e-5)
    made = onnx_model(original, load(original), producer="tests", about="", metadata={})
    np.testing.assert_allclose(Runtime(made.SerializeToString()).forward({"data": data})["conv"], expected, atol=1e-5)
    if "pad: 1 pad_end: 1" not in fields:
        found = folded.net.layer[-1].convolution_param
        assert not found.pad_end and (list(found.pad) or [found.pad_h, found.pad_w]) in (pads, pads[:1])
        assert list(fold(original, stock=False).model.blobs["conv"][0].shape[2:]) == list(sides)


def test_a_dilated_kernel_that_cannot_grow_so_is_refused() -> None:
    with pytest.raises(
        ProgramError, match=r"layer conv \(Convolution\): pad_end \(1, 1\), expected pad \(0, 0\) and a mul"
    ):
        fold(model("kernel_size: 3 dilation: 2 pad_end: 1", (3, 3)))
