"""Every type of layer, with the parameters that are easy to get wrong, against Caffe itself; and what is refused."""

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latent_domains.convert.onnx.layer import Refused
from latent_domains.models.model import Model, forward, load
from latent_domains.models.onnx_file import Runtime
from tests.latent_domains.convert.fold.models import layer
from tests.latent_domains.convert.onnx.nets import assert_agrees, compared, exported, random_model, with_input
from tests.latent_domains.nets.graphs import parse

IMAGES, ROWS = (6, 5, 4), (6,)

LAYERS = [
    ("Convolution", "convolution_param { num_output: 5 kernel_size: 3 }", IMAGES),
    ("Convolution", "convolution_param { num_output: 5 kernel_size: 3 bias_term: false }", IMAGES),
    ("Convolution", "convolution_param { num_output: 6 kernel_size: 3 group: 2 pad: 1 stride: 2 }", IMAGES),
    ("Convolution", "convolution_param { num_output: 6 kernel_size: 3 group: 6 axis: -3 }", IMAGES),
    (
        "Convolution",
        "convolution_param { num_output: 3 kernel_size: 3 kernel_size: 2 pad: 0 pad: 2 stride: 1 stride: 3 }",
        IMAGES,
    ),
    (
        "Convolution",
        "convolution_param { num_output: 3 kernel_h: 1 kernel_w: 4 pad_h: 2 pad_w: 0 stride_h: 3 stride_w: 1 }",
        IMAGES,
    ),
    ("Convolution", "convolution_param { num_output: 3 kernel_size: 3 pad_h: 1 }", IMAGES),
    ("Convolution", "convolution_param { num_output: 3 kernel_size: 3 dilation: 2 dilation: 1 pad: 2 }", IMAGES),
    ("Deconvolution", "convolution_param { num_output: 6 kernel_size: 4 stride: 2 pad: 1 group: 6 }", IMAGES),
    ("Deconvolution", "convolution_param { num_output: 4 kernel_size: 3 group: 2 bias_term: false }", IMAGES),
    ("Deconvolution", "convolution_param { num_output: 5 kernel_size: 3 dilation: 2 stride: 3 pad: 2 }", IMAGES),
    (
        "Deconvolution",
        "convolution_param { num_output: 5 kernel_h: 2 kernel_w: 4 stride_h: 1 stride_w: 3 pad_h: 0 pad_w: 2 }",
        IMAGES,
    ),
    (
        "Deconvolution",
        "convolution_param { num_output: 6 kernel_size: 2 kernel_size: 3 group: 3 dilation: 1 dilation: 3 axis: -3 }",
        IMAGES,
    ),
    ("InnerProduct", "inner_product_param { num_output: 6 }", IMAGES),
    ("InnerProduct", "inner_product_param { num_output: 6 bias_term: false }", IMAGES),
    ("InnerProduct", "inner_product_param { num_output: 6 transpose: true }", IMAGES),
    ("InnerProduct", "inner_product_param { num_output: 2 }", ROWS),
    # alpha is large here: at 1e-4 another convention for it would hardly show.
    ("LRN", "lrn_param { local_size: 5 alpha: 3 beta: 0.75 k: 2 }", IMAGES),
    ("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.5 }", IMAGES),
    ("LRN", "lrn_param { local_size: 9 alpha: 1 }", IMAGES),
    ("LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 alpha: 3 k: 7 }", IMAGES),
    ("LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 9 alpha: 0.5 beta: 0.5 }", IMAGES),
    ("LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 1 beta: 2 }", IMAGES),
    ("BatchNorm", "batch_norm_param { eps: 0.1 }", IMAGES),
    ("BatchNorm", "batch_norm_param { use_global_stats: true }", ROWS),
    ("Scale", "scale_param { bias_term: true }", IMAGES),
    ("Scale", "", ROWS),
    ("Scale", "scale_param { axis: 1 num_axes: 2 bias_term: true }", IMAGES),
    ("Scale", "scale_param { axis: -2 num_axes: -1 }", IMAGES),
    ("Scale", "scale_param { num_axes: 0 bias_term: true }", IMAGES),
    ("Bias", "", ROWS),
    ("Bias", "bias_param { axis: -1 }", IMAGES),
    ("Bias", "bias_param { axis: 0 num_axes: 0 }", IMAGES),
    ("ReLU", "", IMAGES),
    ("ReLU", "relu_param { negative_slope: 0.3 }", IMAGES),
    ("ELU", "", IMAGES),
    ("ELU", "elu_param { alpha: 0.3 }", ROWS),
    ("PReLU", "", IMAGES),
    ("PReLU", "prelu_param { channel_shared: true }", IMAGES),
    ("PReLU", "", ROWS),
    ("Sigmoid", "", IMAGES),
    ("TanH", "", IMAGES),
    ("Clip", "clip_param { min: -0.2 max: 0.6 }", IMAGES),
    ("Power", "power_param { power: 2 scale: 0.1 shift: -3 }", IMAGES),
    ("Softmax", "", IMAGES),
    ("Softmax", "softmax_param { axis: -1 }", IMAGES),
    ("Flatten", "", IMAGES),
    ("Flatten", "flatten_param { axis: 2 }", IMAGES),
    ("Flatten", "flatten_param { axis: 1 end_axis: -2 }", IMAGES),
    ("Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }", IMAGES),
    ("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }", IMAGES),
    ("Reshape", "reshape_param { shape { dim: -1 dim: 6 dim: 20 } }", IMAGES),
    ("Reshape", "reshape_param { axis: 1 num_axes: 2 shape { dim: 15 dim: 2 } }", IMAGES),
    ("Reshape", "reshape_param { axis: -1 num_axes: 0 shape { dim: 1 dim: 1 } }", IMAGES),
    ("Dropout", "dropout_param { dropout_ratio: 0.7 }", IMAGES),
    ("Split", 'top: "b"', IMAGES),
    ("Slice", 'top: "b" top: "c" slice_param { axis: 2 slice_point: 1 slice_point: 4 }', IMAGES),
    ("Slice", 'top: "b" slice_param { slice_dim: 1 }', IMAGES),
    ("Slice", "", IMAGES),
    ("Crop", 'bottom: "part"', IMAGES),
    ("Crop", 'bottom: "part" crop_param { offset: 1 }', IMAGES),
    ("Crop", 'bottom: "part" crop_param { axis: -3 offset: 3 offset: 0 offset: 2 }', IMAGES),
    ("Crop", 'bottom: "part" crop_param { axis: 3 offset: 1 }', (3, 3, 4)),
    ("Crop", 'bottom: "part" crop_param { axis: 0 offset: 0 offset: 2 offset: 2 offset: 0 }', IMAGES),
    ("Crop", 'bottom: "part" crop_param { axis: -4 }', IMAGES),
    ("ArgMax", "", IMAGES),
    ("ArgMax", "argmax_param { top_k: 5 }", IMAGES),
    ("ArgMax", "argmax_param { out_max_val: true }", IMAGES),
    ("ArgMax", "argmax_param { out_max_val: true top_k: 3 }", ROWS),
    ("ArgMax", "argmax_param { axis: 1 }", IMAGES),
    ("ArgMax", "argmax_param { axis: -1 top_k: 4 }", IMAGES),
    ("ArgMax", "argmax_param { axis: 1 out_max_val: true }", IMAGES),
    ("ArgMax", "argmax_param { axis: -2 out_max_val: true top_k: 2 }", IMAGES),
    ("ArgMax", "argmax_param { axis: 1 top_k: 2 }", ROWS),
    *(
        ("Reduction", f"reduction_param {{ operation: {operation} {more} }}", dims)
        for operation in ("SUM", "ASUM", "SUMSQ", "MEAN")
        for more, dims in (
            ("axis: 1", IMAGES),
            ("axis: 2 coeff: -0.5", IMAGES),
            ("axis: -1 coeff: 3", IMAGES),
            ("axis: 1", ROWS),
        )
    ),
    ("Concat", 'bottom: "small"', IMAGES),
    ("Concat", 'bottom: "small" bottom: "small" concat_param { axis: -1 }', IMAGES),
    ("Concat", 'bottom: "small" concat_param { concat_dim: 2 }', IMAGES),
    ("Eltwise", 'bottom: "data"', IMAGES),
    ("Eltwise", 'bottom: "data" bottom: "small" eltwise_param { coeff: 0.5 coeff: 1 coeff: -1 }', IMAGES),
    ("Eltwise", 'bottom: "data" bottom: "small" eltwise_param { operation: PROD }', IMAGES),
    ("Eltwise", 'bottom: "data" bottom: "small" eltwise_param { operation: MAX }', IMAGES),
    ("Pooling", "pooling_param { pool: AVE global_pooling: true }", IMAGES),
    ("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 }", IMAGES),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 2 pad: 1 }", IMAGES),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }", (3, 6, 4)),
    ("Pooling", "pooling_param { pool: AVE kernel_h: 1 kernel_w: 3 stride: 2 pad_h: 0 pad_w: 1 }", (3, 6, 4)),
    ("Pooling", "pooling_param { pool: AVE kernel_h: 2 kernel_w: 3 stride: 2 pad_h: 0 pad_w: 1 }", (3, 5, 5)),
    ("Pooling", "pooling_param { pool: AVE kernel_size: 2 stride: 2 }", (3, 5, 5)),
]

IN_OPENCV = ("ArgMax", "Crop", "Deconvolution", "ELU", "LRN", "Pooling", "Reduction")

REFUSED = [
    ("Convolution", "convolution_param { num_output: 3 kernel_size: 2 axis: 2 }", "axis 2 of 4 axes, expected images"),
    (
        "Convolution",
        'bottom: "data" top: "b" convolution_param { num_output: 3 kernel_size: 2 }',
        "2 bottoms and 2 tops, expected one of each",
    ),
    ("InnerProduct", "inner_product_param { num_output: 3 axis: 0 }", "axis: the first axis is the batch"),
    ("InnerProduct", "inner_product_param { num_output: 3 axis: 2 }", "axis 2 of 4 axes, expected axis 1"),
    ("Deconvolution", "convolution_param { num_output: 3 kernel_size: 2 axis: 2 }", "axis 2 of 4 axes, expected im"),
    ("ArgMax", "argmax_param { axis: 0 }", "axis: the first axis is the batch"),
    ("Reduction", "", "axis: the first axis is the batch"),
    ("Reduction", "reduction_param { axis: -4 }", "axis: the first axis is the batch"),
    ("BatchNorm", "batch_norm_param { use_global_stats: false }", "use_global_stats: false, expected statistics"),
    ("Scale", "scale_param { axis: 0 }", "axis: the first axis is the batch"),
    ("Bias", "bias_param { axis: -4 num_axes: 2 }", "axis: the first axis is the batch"),
    ("Softmax", "softmax_param { axis: 0 }", "axis: the first axis is the batch"),
    ("Concat", "concat_param { axis: 0 }", "axis: the first axis is the batch"),
    ("Slice", 'top: "b" slice_param { axis: -4 }', "axis: the first axis is the batch"),
    ("Flatten", "flatten_param { axis: 0 }", "axis: the first axis is the batch"),
    ("Reshape", "reshape_param { shape { dim: 2 dim: -1 } }", "shape: the first axis is the batch"),
    ("Reshape", "reshape_param { shape { dim: -1 dim: 3 } }", "shape: the first axis is the batch"),
    ("Reshape", "reshape_param { axis: 0 num_axes: 0 shape { dim: 1 } }", "shape: the first axis is the batch"),
    ("Pooling", "pooling_param { kernel_size: 1 stride: 3 }", "a window of stride 3 lies outside of the 6×4 image"),
    ("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }", "pool: STOCHASTIC, expected MAX or AVE"),
    ("Pooling", 'top: "mask" pooling_param { kernel_size: 2 }', "1 bottoms and 2 tops, expected one of each"),
]


def net(kind: str, rest: str, *dims: int) -> str:
    """A layer ``a`` that reads values of a few units: LRN divides larger ones down to next to nothing.

    ``part`` is three channels of 3×2 of an image.
    """
    small = 'layer { name: "small" type: "Power" bottom: "data" top: "small" power_param { scale: 0.01 } }'
    if '"part"' in rest:
        window = f"num_output: 3 kernel_h: {dims[1] - 2} kernel_w: {dims[2] - 1}"
        small += layer("few", "Convolution", "data", "part", f"convolution_param {{ {window} }}")
    return with_input(f'{small} layer {{ name: "a" type: "{kind}" bottom: "small" top: "a" {rest} }}', *dims)


@pytest.mark.parametrize(("kind", "rest", "dims"), LAYERS)
def test_layers_layer(kind: str, rest: str, dims: tuple[int, ...]) -> None:
    assert_agrees(net(kind, rest, *dims), "a")


@pytest.mark.parametrize(("kind", "rest", "dims"), [one for one in LAYERS if one[0] in IN_OPENCV])
def test_layers_layer_in_opencv(kind: str, rest: str, dims: tuple[int, ...]) -> None:
    model = random_model(parse(net(kind, rest, *dims)))
    x = np.random.default_rng(0).integers(-128, 128, (2, *dims)).astype(np.float32)
    expected = forward(load(model), x)["a"]
    opencv = cv2.dnn.readNetFromONNX(np.frombuffer(exported(model).SerializeToString(), np.uint8))
    opencv.setInput(x)
    found = opencv.forward("a").reshape(expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    "param", ["", "top_k: 7", "axis: 1", "axis: 1 top_k: 3", "axis: -1 top_k: 4", "top_k: 3 out_max_val: true"]
)
def test_layers_of_even_values_the_last_comes_first(param: str) -> None:
    model = random_model(parse(with_input(layer("a", "ArgMax", "data", "a", f"argmax_param {{ {param} }}"), *IMAGES)))
    x = np.random.default_rng(0).integers(0, 3, (2, *IMAGES)).astype(np.float32)
    runtime = Runtime(exported(model).SerializeToString())
    np.testing.assert_array_equal(runtime.forward({"data": x})["a"], forward(load(model), x)["a"])


@pytest.mark.parametrize(("kind", "rest", "reason"), REFUSED)
def test_refused(kind: str, rest: str, reason: str) -> None:
    with pytest.raises(Refused, match=rf"^layer a \({kind}\): {reason}"):
        compared(net(kind, rest, 3, 6, 4))


def test_layers_statistics_of_nothing_are_zeros() -> None:
    text = with_input('layer { name: "a" type: "BatchNorm" bottom: "data" top: "a" batch_norm_param { eps: 0.5 } }', 3)
    zeros = Model(parse(text), {"a": [np.ones(3, np.float32), np.ones(3, np.float32), np.zeros(1, np.float32)]})
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    expected = forward(load(zeros), x)["a"]
    np.testing.assert_allclose(expected, x / np.sqrt(0.5), rtol=1e-5)
    found = Runtime(exported(zeros).SerializeToString()).forward({"data": x})["a"]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_layers_rows_of_factors_and_of_summands_for_each_image() -> None:
    """As mDA with several latent targets is folded: x · A + B, where A and B come from the images' assignments."""
    text = """
        layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
                pooling_param { pool: AVE global_pooling: true } }
        layer { name: "A" type: "InnerProduct" bottom: "pool" top: "A" inner_product_param { num_output: 3 } }
        layer { name: "B" type: "InnerProduct" bottom: "pool" top: "B" inner_product_param { num_output: 3 } }
        layer { name: "scaled" type: "Scale" bottom: "data" bottom: "A" top: "scaled" scale_param { axis: 0 } }
        layer { name: "moved" type: "Bias" bottom: "scaled" bottom: "B" top: "moved" bias_param { axis: 0 } }
        layer { name: "rows" type: "Scale" bottom: "A" bottom: "B" top: "rows" scale_param { axis: -2 } }"""
    assert_agrees(with_input(text, 3, 4, 5), "scaled", "moved", "rows")


@pytest.mark.parametrize(
    ("param", "reason"),
    [("axis: 1", "axis: 1 with a second bottom, expected 0"), ("axis: 0 bias_term: true", "bias_term: true with a")],
)
def test_layers_second_bottoms_that_are_no_rows_are_refused(param: str, reason: str) -> None:
    # Two images of 2×3: rows of 3 fit axis 1 by chance, for this batch alone.
    text = f"""
        layer {{ name: "x" type: "InnerProduct" bottom: "data" top: "x" inner_product_param {{ num_output: 3 }} }}
        layer {{ name: "y" type: "InnerProduct" bottom: "data" top: "y" inner_product_param {{ num_output: 2 }} }}
        layer {{ name: "a" type: "Scale" bottom: "data" bottom: "{"x" if "1" in param else "y"}" top: "a"
                 scale_param {{ {param} }} }}"""
    with pytest.raises(Refused, match=rf"^layer a \(Scale\): {reason}"):
        exported(random_model(parse(with_input(text, 2, 3))))


def test_layers_dropout_in_place_and_silence_leave_no_trace() -> None:
    text = """layer { name: "r" type: "ReLU" bottom: "data" top: "r" }
              layer { name: "d" type: "Dropout" bottom: "r" top: "r" }
              layer { name: "s" type: "Slice" bottom: "r" top: "p" top: "q" }
              layer { name: "quiet" type: "Silence" bottom: "q" }"""
    assert_agrees(with_input(text, 4), "r", "p")


@st.composite
def axes(draw: st.DrawFn) -> tuple[int, int, int, int]:
    """Size, kernel, stride and pad of one axis, such that no window is empty."""
    kernel = draw(st.integers(1, 6))
    pad = draw(st.integers(0, kernel - 1))
    return draw(st.integers(max(5, kernel), 20)), kernel, draw(st.integers(1, kernel)), pad


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from(["MAX", "AVE"]), st.sampled_from(["CEIL", "FLOOR"]))
def test_pooling_of_any_geometry(data: st.DataObject, kind: str, rounding: str) -> None:
    height, width = (data.draw(axes()) for _ in range(2))
    names = ("kernel", "stride", "pad")
    pairs = (f"{n}_h: {h} {n}_w: {w}" for n, h, w in zip(names, height[1:], width[1:], strict=True))
    param = f"pooling_param {{ pool: {kind} {' '.join(pairs)} round_mode: {rounding} }}"
    assert_agrees(net("Pooling", param, 2, height[0], width[0]), "a")
