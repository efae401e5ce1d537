"""The proof finds what is wrong."""

from pathlib import Path

import numpy as np
import pytest

from latent_domains.convert.fold.fold import Folded, fold
from latent_domains.convert.fold.verify import batches_for, compare_nets, compare_opencv, same_best
from latent_domains.models.compare import differences, makers, worst
from latent_domains.models.model import Model, forward, load, write_model
from tests.latent_domains.convert.fold.models import DATA, layer, trained
from tests.latent_domains.nets.graphs import parse

TEXT = (
    DATA
    + layer("fc", "InnerProduct", "data", "fc", "inner_product_param { num_output: 5 }")
    + layer("bn", "BatchNorm", "fc", "bn")
    + layer("relu", "ReLU", "bn", "bn")
    + layer("prob", "Softmax", "bn", "prob")
)


@pytest.fixture
def model() -> Model:
    return trained(TEXT)


@pytest.fixture
def folded(model: Model) -> Folded:
    return fold(model)


X = np.random.default_rng(0).normal(size=(7, 4, 7, 6)).astype(np.float32)


def test_compare_nets_all_inputs_are_compared_and_blobs_kept(model: Model, folded: Folded) -> None:
    rows, kept = compare_nets(load(model), load(folded.model), folded, [X[:4], X[4:]])
    assert [row.name for row in rows] == ["data", "bn", "prob"]
    assert [set(blobs) for blobs in kept] == [{"bn", "prob"}] * 2
    found = np.concatenate([blobs["prob"] for blobs in kept])
    np.testing.assert_allclose(found, forward(load(model), X)["prob"], rtol=1e-5)


@pytest.mark.parametrize("row", range(len(X)))
def test_compare_nets_one_wrong_input_is_found(model: Model, folded: Folded, row: int) -> None:
    """The weights of one value of the input are off, and only one row has it."""
    inputs = X.copy()
    inputs[:, 0, 0, 0] = 0
    inputs[row, 0, 0, 0] = 1
    folded.model.blobs["fc"][0][:, 0] += 1
    rows, _ = compare_nets(load(model), load(folded.model), folded, [inputs[:4], inputs[4:]])
    assert worst(rows).relative > 1e-2


def test_compare_opencv_opencv_agrees_or_not(model: Model, folded: Folded, tmp_path: Path) -> None:
    files = write_model(folded.model, tmp_path / "m", about="", force=False)
    expected = forward(load(model), X)
    agreement = compare_opencv(*files, folded, [X], [expected])
    assert (agreement.same, agreement.inputs) == (7, 7)
    assert agreement.furthest.relative < 1e-5
    assert dict(folded.heads) == {"bn": "relu", "prob": "prob"}
    expected["prob"][5] = expected["prob"][5, ::-1]
    expected["bn"][6] += 1
    agreement = compare_opencv(*files, folded, [X], [expected])
    assert agreement.same == 6
    assert agreement.furthest.relative > 0.01


CONV = "convolution_param { num_output: 4 kernel_size: 3 }"
CUT = "slice_param { slice_point: 1 }"
NAMES = {
    "a convolution's blob": (
        layer("c", "Convolution", "data", "x", CONV) + layer("p", "Softmax", "x", "p"),
        {"x", "p"},
    ),
    "convolutions' swapped": (
        layer("a", "Convolution", "data", "b", CONV) + layer("b", "Convolution", "data", "a", CONV),
        {"a", "b"},
    ),
    "two of one": (
        layer("c", "Convolution", "data", "c", CONV)
        + layer("c", "ReLU", "c", "c")
        + layer("c2", "Convolution", "c", "c2", "convolution_param { num_output: 4 kernel_size: 1 }")
        + layer("c", "ReLU", "c2", "end"),
        {"end"},
    ),
    "none": (
        layer("c", "Convolution", "data", "c", CONV) + layer("", "ReLU", "c", "c") + layer("", "TanH", "c", "end"),
        {"end"},
    ),
    "a second top": (layer("cut", "Slice", "data", "a b", CUT) + layer("p", "Softmax", "b", "p"), {"a", "p"}),
}


@pytest.mark.parametrize("names", NAMES)
def test_compare_opencv_opencv_is_asked_for_what_it_has_by_its_own_names(names: str, tmp_path: Path) -> None:
    text, heads = NAMES[names]
    model = trained(DATA + text)
    folded = fold(model)
    assert set(folded.heads) == heads
    files = write_model(folded.model, tmp_path / "m", about="", force=False)
    _, expected = compare_nets(load(model), load(folded.model), folded, [X])
    agreement = compare_opencv(*files, folded, [X], expected)
    assert (agreement.same, agreement.inputs) == (7, 7)
    assert agreement.furthest.relative < 1e-5


def test_fold_outputs_that_opencv_cannot_be_asked_for_are_named() -> None:
    folded = fold(trained(DATA + layer("cut", "Slice", "data", "a b")))
    assert set(folded.heads) == {"a"}
    assert folded.notes == ("not compared with OpenCV, which gives a layer's first top alone: b",)


def test_same_best_even_classes_are_the_same_best() -> None:
    expected = np.array([[0.5, 0.5, 0.0], [0.6, 0.4, 0.0]], np.float32)
    found = np.array([[0.49, 0.51, 0.0], [0.4, 0.6, 0.0]], np.float32)
    assert same_best(expected, found).tolist() == [True, False]
    maps = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    assert same_best(maps, maps).tolist() == [True, True]
    other = maps.copy()
    other[1, :, 2, 2] = -other[1, :, 2, 2]
    assert same_best(maps, other).tolist() == [True, False]
    even = maps.copy()
    maps[0, :, 1, 1], even[0, :, 1, 1] = (1e-7, 2e-7, 3e-7), (3e-7, 2e-7, 1e-7)  # next to the row's others
    assert same_best(maps, even).tolist() == [True, True]


@pytest.mark.parametrize("axis", [1, 2, 3, -1])
def test_same_best_classes_lie_along_an_axis(axis: int) -> None:
    expected = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    other = expected.copy()
    other[1] = np.flip(other, axis)[1]
    assert same_best(expected, other, axis).tolist() == [True, False]
    first = np.moveaxis(expected.copy(), axis, 1)  # a view: of the values along the other axes one is larger
    first[1, :, 2, 2] += 100
    assert same_best(expected, np.moveaxis(first, 1, axis), axis).tolist() == [True, True]


def head(rest: str, more: str = "") -> str:
    return layer("p", "Softmax", rest, "p", more)


PADDED = "convolution_param { num_output: 8 kernel_size: 3 pad: 1 }"
CONVOLVED = layer("c", "Convolution", "data", "c", PADDED)
PARTS = CONVOLVED + layer("r", "Reshape", "c", "r", "reshape_param { shape { dim: 0 dim: 4 dim: -1 } }")
HEADS = {
    "sigmoids": (
        layer("fc", "InnerProduct", "data", "fc", "inner_product_param { num_output: 5 }")
        + layer("p", "Sigmoid", "fc", "p"),
        {"p": 1},
    ),
    "rows": (layer("fc", "InnerProduct", "data", "fc", "inner_product_param { num_output: 5 }") + head("fc"), {"p": 1}),
    "one class": (layer("fc", "InnerProduct", "data", "c", "inner_product_param { num_output: 1 }"), {"c": None}),
    "every pixel": (CONVOLVED + head("c"), {"p": 1, "c": 1}),
    "parts": (PARTS + head("r", "softmax_param { axis: 2 }"), {"p": 2, "r": 2}),
    "parts, from behind": (PARTS + head("r", "softmax_param { axis: -1 }"), {"p": 2}),
    "columns": (CONVOLVED + head("c", "softmax_param { axis: -1 }"), {"p": 3, "c": 3}),
    "scores alone": (CONVOLVED, {"c": 1}),
    "two": (PARTS + head("r", "softmax_param { axis: 2 }") + layer("q", "Softmax", "c", "q"), {"p": 2, "q": 1}),
    "rows of none": (layer("r", "Reshape", "data", "r", "reshape_param { shape { dim: -1 dim: 2 } }") + head("r"), {}),
}


@pytest.mark.parametrize("which", HEADS)
def test_compare_opencv_best_classes_are_compared_along_the_softmaxs_axis(which: str, tmp_path: Path) -> None:
    text, axes = HEADS[which]
    model = trained(DATA + text)
    folded = fold(model)
    files = write_model(folded.model, tmp_path / "m", about="", force=False)
    _, (expected,) = compare_nets(load(model), load(folded.model), folded, [X])
    agreement = compare_opencv(*files, folded, [X], [expected])
    assert agreement.same == agreement.inputs == (7 if axes else 0) and agreement.furthest.relative < 1e-5
    for name, axis in axes.items():
        if axis is None:
            continue
        other = {blob: values.copy() for blob, values in expected.items()}
        other[name][5] = np.flip(other[name], axis)[5]
        assert compare_opencv(*files, folded, [X], [other]).same == 6, name
        if expected[name].ndim > 2:
            other = {blob: values.copy() for blob, values in expected.items()}
            across = 2 if axis == 1 else 1
            np.moveaxis(other[name], across, 1)[:, 0] += 100 * np.abs(other[name]).max()
            assert compare_opencv(*files, folded, [X], [other]).same == 7, name


def test_batches_for_batches_are_those_that_the_net_takes() -> None:
    found = batches_for(trained(TEXT.replace("dim: 1 dim: 4", "dim: 3 dim: 4")).net, X)
    assert [len(batch) for batch in found] == [3, 3, 3]
    np.testing.assert_array_equal(np.concatenate(found), np.concatenate([X, X[:2]]))


SQUASHED = {
    "Softmax": lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum(),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "TanH": np.tanh,
}


@pytest.mark.parametrize("kind", SQUASHED)
def test_verify_large_numbers_have_the_room_that_their_rounding_takes(kind: str) -> None:
    squashed, made_by = SQUASHED[kind], makers(parse(layer("p", kind, "scores", "p")))
    for size, room in ((1, 1), (10, 1), (1000, 100)):
        scores = np.array([[size, size - 0.5, 0.1]], np.float64)
        off = scores + np.array([[0, 1e-6 * size, 1e-6 * size]])
        expected = {"scores": scores, "p": squashed(scores)}
        found = {"scores": off, "p": squashed(off)}
        plain, adjusted = differences(expected, found, {}), differences(expected, found, made_by)
        assert adjusted[0] == plain[0]
        assert adjusted[1].relative == pytest.approx(plain[1].relative / room)
    assert differences(expected, {**found, "p": 1 - found["p"]}, made_by)[1].relative > 1e-3


@pytest.mark.parametrize("kind", SQUASHED)
def test_verify_a_large_number_hides_no_wrong_one(kind: str) -> None:
    large = -1e6 if kind == "Softmax" else 1e6  # a softmax's largest score leaves nothing to the others
    scores = np.array([[large, 1, -1, 2]])
    expected = {"scores": scores, "p": SQUASHED[kind](scores)}
    found = {"p": SQUASHED[kind](scores * [1, -1, -1, -1])}
    made_by = makers(parse(layer("p", kind, "scores", "p")))
    assert differences(expected, found, made_by)[0].relative > 1e-3
    nothing = {name: np.full_like(values, np.nan) for name, values in expected.items()}
    assert differences(nothing, found, made_by)[0].relative == np.inf
