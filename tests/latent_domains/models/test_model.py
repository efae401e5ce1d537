"""A model is read and written whole or not at all."""

from pathlib import Path

import caffe
import numpy as np
import pytest
from caffe.proto.caffe_pb2 import NetParameter
from google.protobuf import text_format

from latent_domains.common.program import ProgramError
from latent_domains.models.model import (
    Model,
    check_finite,
    check_loads,
    forward,
    load,
    model_files,
    read_model,
    weights_bytes,
    write_model,
)
from tests import nvidia_weights
from tests.latent_domains.nets.graphs import parse
from tests.tolerance import rounding

NET = """
name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 3 kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
"""


@pytest.fixture
def model() -> Model:
    rng = np.random.default_rng(0)
    blobs = [rng.normal(size=shape).astype(np.float32) for shape in ((3, 2, 3, 3), (3,))]
    return Model(parse(NET), {"conv": blobs})


@pytest.mark.program
def test_read_model_written_model_is_read_as_it_was(model: Model, tmp_path: Path) -> None:
    write_model(model, tmp_path / "a.b", about="One line.\nAnother.", force=False)
    net, weights = model_files(tmp_path / "a.b")
    assert (net.name, weights.name) == ("a.b.prototxt", "a.b.caffemodel")
    assert net.read_text().startswith("# One line.\n# Another.\nname:")
    again = read_model(net, weights)
    assert again.net == model.net
    written = NetParameter.FromString(weights.read_bytes())
    for blob in written.layer[0].blobs:
        nvidia_weights.pack(blob)
    weights.write_bytes(written.SerializeToString())
    for read in (again, read_model(net, weights)):
        for found, expected in zip(read.blobs["conv"], model.blobs["conv"], strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("prefix", ["/", ".", "a/..", "out.prototxt", "out.caffemodel"])
def test_model_files_a_prefix_ends_in_a_name_without_suffix(prefix: str) -> None:
    with pytest.raises(ProgramError, match="expected a prefix of the output files"):
        model_files(Path(prefix))


def test_weights_bytes_large_blobs_have_their_length_in_several_bytes() -> None:
    for size in (1, 31, 32, 5000, 70000):
        values = np.arange(size, dtype=np.float32)
        found = NetParameter.FromString(weights_bytes(Model(NetParameter(), {"a": [values]}))).layer[0].blobs[0]
        np.testing.assert_array_equal(np.array(found.data, np.float32), values)
        assert list(found.shape.dim) == [size]


def test_forward_gives_every_blob_after_the_layers_in_place(model: Model) -> None:
    x = np.random.default_rng(1).normal(size=(5, 2, 4, 4)).astype(np.float32)
    blobs = forward(load(model), x)
    w, b = model.blobs["conv"]
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    expected = np.einsum("nchwij,kcij->nkhw", windows, w) + b.reshape(-1, 1, 1)
    close = 2 * rounding(w[0].size + 1, expected)  # both are rounded
    np.testing.assert_allclose(blobs["conv"], np.maximum(expected, 0), rtol=0, atol=close)
    np.testing.assert_array_equal(blobs["data"], x)


@pytest.mark.program
def test_write_model_files_are_checked_before_they_get_their_names(model: Model, tmp_path: Path) -> None:
    def check(net: Path, weights: Path) -> None:
        assert read_model(net, weights).net == model.net
        assert not any(file.exists() for file in model_files(tmp_path / "m"))
        raise ProgramError("no good")

    with pytest.raises(ProgramError, match="no good"):
        write_model(model, tmp_path / "m", about="", force=False, check=check)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.program
def test_check_loads_a_net_that_loads_and_does_not_run_is_refused(tmp_path: Path) -> None:
    crop = 'layer { name: "s" type: "Slice" bottom: "conv" top: "a" top: "b" slice_param { axis: 2 slice_point: 2 } }'
    (tmp_path / "net.prototxt").write_text(NET + crop)
    with pytest.raises(ProgramError, match=r"net\.prototxt: Caffe refuses this net: exit code -6: Check failed"):
        check_loads(tmp_path / "net.prototxt")


@pytest.mark.program
def test_read_model_a_net_in_the_words_of_other_caffes(tmp_path: Path) -> None:
    ours = f"""{NET}
        layer {{ name: "each" type: "Convolution" bottom: "conv" top: "each"
                 convolution_param {{ num_output: 3 group: 3 kernel_size: 1 }} }}
        layer {{ name: "pool" type: "Pooling" bottom: "each" top: "pool"
                 pooling_param {{ kernel_size: 1 stride: 2 round_mode: FLOOR }} }}"""
    theirs = ours.replace('"each" type: "Convolution"', '"each" type: "DepthwiseConvolution"').replace("group: 3", "")
    rng = np.random.default_rng(0)
    shapes = {"conv": ((3, 2, 3, 3), (3,)), "each": ((3, 1, 1, 1), (3,))}
    blobs = {name: [rng.normal(size=shape).astype(np.float32) for shape in each] for name, each in shapes.items()}
    net, weights = write_model(Model(parse(ours), blobs), tmp_path / "m", about="", force=False)
    expected = read_model(net, weights)
    net.write_text(theirs.replace("round_mode: FLOOR", "ceil_mode: false"))
    found = read_model(net, weights)
    assert found.net == expected.net
    for name, values in expected.blobs.items():
        for one, other in zip(found.blobs[name], values, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.program
def test_read_model_a_net_as_text_of_a_caffemodel(model: Model, tmp_path: Path) -> None:
    """It has the parameters, weights of losses, and the phase in which it was saved."""
    weights = write_model(model, tmp_path / "out", about="", force=False)[1]
    load(model).save(str(weights))
    saved = NetParameter.FromString(weights.read_bytes())
    saved.layer[2].loss_weight.append(1)
    assert saved.layer[1].blobs
    (tmp_path / "net.prototxt").write_text(text_format.MessageToString(saved))
    found = read_model(tmp_path / "net.prototxt", weights)
    assert not any(layer.blobs or layer.loss_weight or layer.HasField("phase") for layer in found.net.layer)
    np.testing.assert_array_equal(found.blobs["conv"][0], model.blobs["conv"][0])
    for layer in saved.layer:
        layer.phase = caffe.TRAIN
    (tmp_path / "net.prototxt").write_text(text_format.MessageToString(saved))
    assert len(read_model(tmp_path / "net.prototxt", weights).net.layer) == len(saved.layer), "as in tests without it"
    saved.layer.add(name="drop", type="Dropout", bottom=saved.layer[2].top, top=["drop"], phase=caffe.TRAIN)
    (tmp_path / "net.prototxt").write_text(text_format.MessageToString(saved))
    with pytest.raises(ProgramError, match="phase: TRAIN as in training: found drop, expected no phase"):
        read_model(tmp_path / "net.prototxt", weights)


@pytest.mark.program
def test_read_model_layers_of_one_name_with_parameters_are_refused(tmp_path: Path) -> None:
    net, weights = tmp_path / "n.prototxt", tmp_path / "n.caffemodel"
    net.write_text(NET + 'layer { name: "relu" type: "ReLU" bottom: "conv" top: "r" }')
    caffe.Net(str(net), caffe.TEST).save(str(weights))
    assert list(read_model(net, weights).blobs) == ["conv"]
    product = 'type: "InnerProduct" bottom: "conv" inner_product_param { num_output: 3 } }'
    products = [f"layer {{ {names} {product}" for names in ('name: "conv" top: "a"', 'top: "b"', 'top: "c"')]
    net.write_text(NET + "\n".join(products))
    with pytest.raises(ProgramError, match=r"n\.prototxt: several layers with parameters have the name 'conv', '', "):
        read_model(net, weights)


@pytest.mark.program
def test_read_model_files_that_are_no_model(model: Model, tmp_path: Path) -> None:
    net, weights = write_model(model, tmp_path / "m", about="", force=False)
    with pytest.raises(ProgramError, match=r"none\.prototxt: no such file"):
        read_model(tmp_path / "none.prototxt", weights)
    with pytest.raises(ProgramError, match="a folder, expected a model's"):
        read_model(net, tmp_path)
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(ProgramError, match=r"m\.caffemodel: \d+ bytes that are not a caffemodel"):
        read_model(net, weights)
    net.write_text(net.read_text().replace('bottom: "data"', 'bottom: "date"'))
    with pytest.raises(ProgramError, match=r"m\.prototxt: Caffe refuses this net.*[Uu]nknown bottom blob 'date'"):
        read_model(net, weights)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_check_finite_numbers_that_are_not_finite_are_refused(value: float, model: Model) -> None:
    name = next(name for name, blobs in model.blobs.items() if len(blobs) == 2)
    spoilt = {**model.blobs, name: [model.blobs[name][0], np.full_like(model.blobs[name][1], value)]}
    with pytest.raises(
        ProgramError, match=rf"^m\.caffemodel: blob 1 of layer {name} holds values that are not finite$"
    ):
        check_finite(spoilt, Path("m.caffemodel"))
