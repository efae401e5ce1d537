"""Pooling of every geometry that Caffe allows, against Caffe itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latent_domains.convert.onnx.layer import Refused
from tests.latent_domains.convert.onnx.nets import assert_agrees, compared, with_input


def pool(kind: str, param: str) -> str:
    return f'layer {{ name: "a" type: "Pooling" bottom: "data" top: "a" pooling_param {{ pool: {kind} {param} }} }}'


@st.composite
def axes(draw: st.DrawFn, *, padded: bool = True) -> tuple[int, int, int, int]:
    """Size, kernel, stride and pad of one axis, such that no window is empty."""
    kernel = draw(st.integers(1, 6))
    pad = draw(st.integers(0, kernel - 1)) if padded else 0
    return draw(st.integers(max(5, kernel), 20)), kernel, draw(st.integers(1, kernel)), pad


def geometry(height: tuple[int, ...], width: tuple[int, ...], rounding: str) -> str:
    names = ("kernel", "stride", "pad")
    pairs = (f"{n}_h: {h} {n}_w: {w}" for n, h, w in zip(names, height[1:], width[1:], strict=True))
    return " ".join([*pairs, f"round_mode: {rounding}"])


ROUNDING = st.sampled_from(["CEIL", "FLOOR"])


@settings(max_examples=30, deadline=None)
@given(axes(), axes(), ROUNDING)
def test_max(height: tuple[int, ...], width: tuple[int, ...], rounding: str) -> None:
    assert_agrees(with_input(pool("MAX", geometry(height, width, rounding)), 2, height[0], width[0]), "a")


@settings(max_examples=15, deadline=None)
@given(axes(padded=False), axes(padded=False), ROUNDING)
def test_average_without_padding(height: tuple[int, ...], width: tuple[int, ...], rounding: str) -> None:
    assert_agrees(with_input(pool("AVE", geometry(height, width, rounding)), 2, height[0], width[0]), "a")


def test_padded_average_whose_last_window_reaches_beyond_the_padding() -> None:
    with pytest.raises(Refused, match=r"^layer a \(Pooling\): an average over windows that reach beyond the padding"):
        compared(with_input(pool("AVE", "kernel_size: 3 stride: 2 pad: 1"), 2, 18, 18))


@pytest.mark.parametrize("kind", ["MAX", "AVE"])
@pytest.mark.parametrize("param", ["global_pooling: true", "kernel_size: 3 stride: 2", "kernel_size: 2 pad: 1"])
def test_scalar_parameters(kind: str, param: str) -> None:
    assert_agrees(with_input(pool(kind, param), 3, 9, 7), "a")


def test_windows_outside_of_the_image_are_refused() -> None:
    with pytest.raises(Refused, match=r"^layer a \(Pooling\): a window of stride 3 lies outside of the 6×7 image"):
        compared(with_input(pool("MAX", "kernel_size: 1 stride: 3"), 2, 6, 7))


def test_stochastic_pooling_and_masks_are_refused() -> None:
    with pytest.raises(Refused, match=r"pool: STOCHASTIC, expected MAX or AVE"):
        compared(with_input(pool("STOCHASTIC", "kernel_size: 2"), 2, 6, 6))
    with pytest.raises(Refused, match=r"layer a \(Pooling\): 2 tops, expected 1"):
        compared(with_input(pool("MAX", "kernel_size: 2").replace('top: "a"', 'top: "a" top: "mask"'), 2, 6, 6))
