"""Layers that move values: Concat, Slice, Flatten, Reshape, Split, Dropout, Silence."""

import pytest

from latent_domains.convert.onnx.layer import Refused
from tests.latent_domains.convert.onnx.nets import assert_agrees, compared, with_input

NETS = {
    "Concat": 'layer { name: "a" type: "Concat" bottom: "data" bottom: "data" top: "a" }',
    "Concat of three, of another axis": """layer { name: "a" type: "Concat" bottom: "data" bottom: "data" bottom: "data"
                                           top: "a" concat_param { axis: -1 } }""",
    "Concat, old name": """layer { name: "a" type: "Concat" bottom: "data" bottom: "data" top: "a"
                           concat_param { concat_dim: 2 } }""",
    "Slice at points": """layer { name: "a" type: "Slice" bottom: "data" top: "a" top: "b" top: "c"
                          slice_param { axis: 2 slice_point: 1 slice_point: 4 } }""",
    "Slice equally": 'layer { name: "a" type: "Slice" bottom: "data" top: "a" top: "b" slice_param { slice_dim: 1 } }',
    "Slice into one": 'layer { name: "a" type: "Slice" bottom: "data" top: "a" }',
    "Slice and Silence": """layer { name: "s" type: "Slice" bottom: "data" top: "a" top: "b"
                            slice_param { axis: 3 slice_point: 6 } }
                            layer { name: "q" type: "Silence" bottom: "b" }""",
    "Flatten": 'layer { name: "a" type: "Flatten" bottom: "data" top: "a" }',
    "Flatten the end": 'layer { name: "a" type: "Flatten" bottom: "data" top: "a" flatten_param { axis: 2 } }',
    "Flatten the middle": """layer { name: "a" type: "Flatten" bottom: "data" top: "a"
                             flatten_param { axis: 1 end_axis: -2 } }""",
    "Reshape": """layer { name: "a" type: "Reshape" bottom: "data" top: "a"
                  reshape_param { shape { dim: 0 dim: -1 dim: 3 } } }""",
    "Reshape to rows": """layer { name: "a" type: "Reshape" bottom: "data" top: "a"
                          reshape_param { shape { dim: 0 dim: -1 } } }""",
    "Reshape with the batch inferred": """layer { name: "a" type: "Reshape" bottom: "data" top: "a"
                                          reshape_param { shape { dim: -1 dim: 6 dim: 36 } } }""",
    "Reshape two axes": """layer { name: "a" type: "Reshape" bottom: "data" top: "a"
                           reshape_param { axis: 1 num_axes: 2 shape { dim: 12 dim: 2 } } }""",
    "Reshape, new axes": """layer { name: "a" type: "Reshape" bottom: "data" top: "a"
                            reshape_param { axis: -1 num_axes: 0 shape { dim: 1 dim: 1 } } }""",
    "Dropout": 'layer { name: "a" type: "Dropout" bottom: "data" top: "a" dropout_param { dropout_ratio: 0.7 } }',
    "Split": 'layer { name: "a" type: "Split" bottom: "data" top: "a" top: "b" }',
}

REFUSED = {
    """layer { name: "a" type: "Concat" bottom: "data" bottom: "data" top: "a" concat_param { axis: 0 } }""": (
        r"\(Concat\): axis: the first axis is the batch"
    ),
    """layer { name: "a" type: "Slice" bottom: "data" top: "a" top: "b" slice_param { axis: -4 } }""": (
        r"\(Slice\): axis: the first axis is the batch"
    ),
    """layer { name: "a" type: "Flatten" bottom: "data" top: "a" flatten_param { axis: 0 } }""": (
        r"\(Flatten\): axis: the first axis is the batch"
    ),
    """layer { name: "a" type: "Reshape" bottom: "data" top: "a" reshape_param { shape { dim: 2 dim: -1 } } }""": (
        r"\(Reshape\): shape: the first axis is the batch"
    ),
    """layer { name: "a" type: "Reshape" bottom: "data" top: "a" reshape_param { shape { dim: -1 dim: 3 } } }""": (
        r"\(Reshape\): shape: the first axis is the batch"
    ),
    """layer { name: "a" type: "Reshape" bottom: "data" top: "a"
       reshape_param { axis: 0 num_axes: 0 shape { dim: 1 } } }""": r"\(Reshape\): shape: the first axis is the batch",
}


@pytest.mark.parametrize("layers", NETS.values(), ids=NETS)
def test_layer(layers: str) -> None:
    assert_agrees(with_input(layers, 4, 6, 9), "a")


@pytest.mark.parametrize("layers", REFUSED)
def test_refused(layers: str) -> None:
    with pytest.raises(Refused, match=f"^layer a {REFUSED[layers]}"):
        compared(with_input(layers, 4, 6, 9))


def test_dropout_in_place_leaves_no_trace() -> None:
    text = """layer { name: "r" type: "ReLU" bottom: "data" top: "r" }
              layer { name: "d" type: "Dropout" bottom: "r" top: "r" }
              layer { name: "p" type: "Power" bottom: "r" top: "p" power_param { scale: 2 } }"""
    assert_agrees(with_input(text, 4), "r", "p")
