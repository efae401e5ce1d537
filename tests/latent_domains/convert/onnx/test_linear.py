"""Convolution and InnerProduct with the parameters that are easy to get wrong."""

import pytest

from latent_domains.convert.onnx.layer import Refused
from tests.latent_domains.convert.onnx.nets import assert_agrees, compared, with_input

CONVOLUTIONS = {
    "plain": "num_output: 5 kernel_size: 3",
    "no bias": "num_output: 5 kernel_size: 3 bias_term: false",
    "groups": "num_output: 6 kernel_size: 3 group: 2 pad: 1 stride: 2",
    "as many groups as channels": "num_output: 4 kernel_size: 3 group: 4",
    "a value for each axis": "num_output: 3 kernel_size: 3 kernel_size: 2 pad: 0 pad: 2 stride: 1 stride: 3",
    "_h and _w": "num_output: 3 kernel_h: 1 kernel_w: 4 pad_h: 2 pad_w: 0 stride_h: 3 stride_w: 1",
    "pad_h alone": "num_output: 3 kernel_size: 3 pad_h: 1",
    "dilation": "num_output: 3 kernel_size: 3 dilation: 2 dilation: 1 pad: 2",
    "negative axis": "num_output: 3 kernel_size: 2 axis: -3",
}

INNER_PRODUCTS = {
    "of images": "num_output: 6",
    "no bias": "num_output: 6 bias_term: false",
    "transposed": "num_output: 6 transpose: true",
}


@pytest.mark.parametrize("param", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolution(param: str) -> None:
    layer = f'layer {{ name: "a" type: "Convolution" bottom: "data" top: "a" convolution_param {{ {param} }} }}'
    assert_agrees(with_input(layer, 4, 9, 7), "a")


@pytest.mark.parametrize("param", INNER_PRODUCTS.values(), ids=INNER_PRODUCTS)
def test_inner_product(param: str) -> None:
    layer = f'layer {{ name: "a" type: "InnerProduct" bottom: "data" top: "a" inner_product_param {{ {param} }} }}'
    assert_agrees(with_input(layer, 3, 4, 5), "a")


def test_inner_product_of_rows() -> None:
    layer = 'layer { name: "a" type: "InnerProduct" bottom: "data" top: "a" inner_product_param { num_output: 2 } }'
    assert_agrees(with_input(layer, 6), "a")


def test_other_axes_are_refused() -> None:
    layer = """layer { name: "a" type: "Convolution" bottom: "data" top: "a"
                       convolution_param { num_output: 3 kernel_size: 2 axis: 2 } }"""
    with pytest.raises(Refused, match=r"^layer a \(Convolution\): axis 2 of 4 axes, expected images: axis 1 of 4"):
        compared(with_input(layer, 4, 9, 7))
    layer = """layer { name: "a" type: "InnerProduct" bottom: "data" top: "a"
                       inner_product_param { num_output: 3 axis: 0 } }"""
    with pytest.raises(Refused, match=r"^layer a \(InnerProduct\): axis: the first axis is the batch"):
        compared(with_input(layer, 4))
    with pytest.raises(Refused, match=r"^layer a \(InnerProduct\): axis 2 of 4 axes, expected axis 1"):
        compared(with_input(layer.replace("axis: 0", "axis: 2"), 4, 9, 7))


def test_several_bottoms_are_refused() -> None:
    layer = """layer { name: "relu" type: "ReLU" bottom: "data" top: "b" }
               layer { name: "a" type: "Convolution" bottom: "data" bottom: "b" top: "c" top: "d"
                       convolution_param { num_output: 3 kernel_size: 2 } }"""
    with pytest.raises(Refused, match=r"^layer a \(Convolution\): 2 bottoms, expected 1"):
        compared(with_input(layer, 4, 9, 7))
