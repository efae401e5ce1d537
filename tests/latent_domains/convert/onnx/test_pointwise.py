"""ReLU and its kin, Sigmoid, TanH, Clip, Power, Eltwise and Softmax."""

import pytest

from latent_domains.convert.onnx.layer import Refused
from tests.latent_domains.convert.onnx.nets import assert_agrees, compared, with_input

LAYERS = {
    "ReLU": 'type: "ReLU"',
    "ReLU with a slope": 'type: "ReLU" relu_param { negative_slope: 0.3 }',
    "PReLU": 'type: "PReLU"',
    "PReLU of one slope": 'type: "PReLU" prelu_param { channel_shared: true }',
    "Sigmoid": 'type: "Sigmoid"',
    "TanH": 'type: "TanH"',
    "Clip": 'type: "Clip" clip_param { min: -20 max: 6 }',
    "Power": 'type: "Power" power_param { power: 2 scale: 0.1 shift: -3 }',
    "Power of nothing": 'type: "Power"',
    "Softmax": 'type: "Softmax"',
    "Softmax of the last axis": 'type: "Softmax" softmax_param { axis: -1 }',
}

ELTWISE = {
    "sum": "",
    "weighted sum": "coeff: 0.5 coeff: 1 coeff: -1",
    "product": "operation: PROD",
    "maximum": "operation: MAX",
}


@pytest.mark.parametrize("rest", LAYERS.values(), ids=LAYERS)
def test_layer(rest: str) -> None:
    assert_agrees(with_input(f'layer {{ name: "a" bottom: "data" top: "a" {rest} }}', 6, 5, 4), "a")


def test_prelu_of_rows() -> None:
    assert_agrees(with_input('layer { name: "a" type: "PReLU" bottom: "data" top: "a" }', 5), "a")


@pytest.mark.parametrize("bottoms", [2, 3])
@pytest.mark.parametrize("param", ELTWISE.values(), ids=ELTWISE)
def test_eltwise(param: str, bottoms: int) -> None:
    names = ["data", "b", "c"][:bottoms]
    if bottoms == 2:
        param = param.removesuffix(" coeff: -1")
    text = "".join(
        f"""layer {{ name: "{name}" type: "Power" bottom: "data" top: "{name}"
                     power_param {{ scale: {scale} shift: 2 }} }}"""
        for name, scale in (("b", -0.5), ("c", 0.1))
    )
    text += f'layer {{ name: "a" type: "Eltwise" {" ".join(f"bottom: {n!r}" for n in names)} top: "a" '
    assert_agrees(with_input(text + f"eltwise_param {{ {param} }} }}", 3, 4, 5), "a")


def test_softmax_over_the_batch_is_refused() -> None:
    with pytest.raises(Refused, match=r"^layer a \(Softmax\): axis: the first axis is the batch"):
        compared(
            with_input('layer { name: "a" type: "Softmax" bottom: "data" top: "a" softmax_param { axis: -2 } }', 6)
        )
