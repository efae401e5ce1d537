"""Checks of trained weights beside what Caffe itself does with the same file."""

import subprocess
from pathlib import Path

import caffe
import numpy as np
import pytest
from caffe.proto.caffe_pb2 import BlobProto, BlobShape, NetParameter, V1LayerParameter

from latent_domains.common.program import ProgramError
from latent_domains.models.model import as_file, forward, load, read_model
from latent_domains.models.weights import Fit, check_weights, for_caffe, read_layers
from tests import nvidia_weights
from tests.latent_domains.convert.fold.models import DATA, layer, mda
from tests.latent_domains.nets.graphs import parse

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 6 dim: 6 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "gaussian" } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "gaussian" } } }
"""
SHAPES = {"conv": [(4, 3, 3, 3), (4,)], "ip": [(5, 64), (5,)]}


@pytest.fixture
def net(tmp_path: Path) -> caffe.Net:
    file = tmp_path / "net.prototxt"
    file.write_text(NET)
    return caffe.Net(str(file), caffe.TEST)


def values() -> dict[str, list[np.ndarray]]:
    rng = np.random.default_rng(1)
    return {name: [rng.normal(size=shape).astype(np.float32) for shape in shapes] for name, shapes in SHAPES.items()}


def blob(array: np.ndarray, *, legacy: bool = False, double: bool = False) -> BlobProto:
    proto = BlobProto(**{"double_data" if double else "data": array.ravel()})
    if legacy:
        proto.num, proto.channels, proto.height, proto.width = (1,) * (4 - array.ndim) + array.shape
    else:
        proto.shape.CopyFrom(BlobShape(dim=array.shape))
    return proto


def model(form: str = "V2", *, double: bool = False) -> NetParameter:
    """Weights of the net in one of Caffe's two formats."""
    param = NetParameter(name="tiny")
    for name, arrays in values().items():
        blobs = [blob(array, legacy=form != "V2", double=double) for array in arrays]
        if form == "V2":
            param.layer.add(name=name, type={"conv": "Convolution", "ip": "InnerProduct"}[name], blobs=blobs)
        else:
            kind = {"conv": V1LayerParameter.CONVOLUTION, "ip": V1LayerParameter.INNER_PRODUCT}[name]
            param.layers.add(name=name, type=kind, blobs=blobs)
    return param


def write(tmp_path: Path, param: NetParameter) -> Path:
    path = tmp_path / "weights.caffemodel"
    path.write_bytes(param.SerializeToString())
    return path


def caffe_takes(tmp_path: Path, weights: Path) -> bool:
    """Whether Caffe loads the weights into the net: it ends its process otherwise."""
    net = str(tmp_path / "net.prototxt")
    command = ["caffe", "test", "-model", net, "-weights", str(weights), "-iterations", "1"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("form", "double"), [("V2", False), ("V2", True), ("V1", False), ("V1", True)])
def test_check_weights_every_format_is_accepted_and_loaded_to_the_same_numbers(net, tmp_path, form, double):
    weights = write(tmp_path, model(form, double=double))
    assert check_weights(weights, [net]) == Fit(("conv", "ip"), (), ())
    assert check_weights(weights, [net], ["ip"]) == Fit(("conv", "ip"), (), ())
    net.copy_from(str(weights))
    for name, arrays in values().items():
        for found, expected in zip(net.params[name], arrays, strict=True):
            assert np.array_equal(found.data, expected)


@pytest.mark.program
def test_check_weights_layers_that_are_missing_are_told(net, tmp_path):
    param = model()
    del param.layer[0]
    param.layer.add(name="fc8", blobs=[blob(np.zeros((1000, 4096)))])
    weights = write(tmp_path, param)
    assert check_weights(weights, [net]) == Fit(("ip",), ("conv",), ("fc8",))
    assert check_weights(weights, [net], []) == Fit(("ip",), ("conv",), ("fc8",))
    with pytest.raises(ProgramError, match=r"weights\.caffemodel: it has no conv, expected ip, conv: Caffe would"):
        check_weights(weights, [net], ["ip", "conv"])
    assert caffe_takes(tmp_path, weights)


SHARED = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 6 dim: 9 dim: 9 } } }
layer { name: "pair" type: "Slice" bottom: "data" top: "a" top: "b" slice_param { axis: 1 slice_point: 3 } }
layer { name: "conv_a" type: "Convolution" bottom: "a" top: "conv_a" param { name: "w" } param { name: "b" }
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "conv_b" type: "Convolution" bottom: "b" top: "conv_b" param { name: "w" } param { name: "BIAS" }
  convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "e" type: "Eltwise" bottom: "conv_a" bottom: "conv_b" top: "e" eltwise_param { coeff: 1 coeff: -1 } }
"""


@pytest.mark.program
@pytest.mark.parametrize(("bias", "owner"), [("b", "conv_a"), ("b", "conv_b"), ("other", "conv_a")])
def test_check_weights_a_layer_that_shares_all_its_parameters_with_a_loaded_one_is_loaded(bias, owner, tmp_path):
    """As of siamese branches, of which one was trained; Caffe gives the other one the same."""
    file = tmp_path / "net.prototxt"
    file.write_text(SHARED.replace("BIAS", bias))
    net, rng = caffe.Net(str(file), caffe.TEST), np.random.default_rng(0)
    param = NetParameter()
    blobs = [blob(rng.normal(size=shape)) for shape in ((4, 3, 3, 3), (4,))]
    param.layer.add(name=owner, type="Convolution", blobs=blobs)
    weights = write(tmp_path, param)
    if bias != "b":
        with pytest.raises(ProgramError, match="it has no conv_b, expected conv_a, conv_b: Caffe would leave these"):
            check_weights(weights, [net], list(net.params))
        return
    assert check_weights(weights, [net], list(net.params)) == Fit((owner,), (), ())
    made = read_model(file, weights)
    pair = rng.normal(size=(1, 3, 9, 9))
    alike = forward(load(made), np.concatenate([pair, pair], axis=1).astype(np.float32))
    assert np.abs(alike["conv_a"]).max() > 1 and not alike["e"].any()


def test_weights_of_another_net_are_refused(net, tmp_path):
    param = NetParameter()
    for i in range(12):
        param.layer.add(name=f"layer{i:02d}", blobs=[blob(np.zeros(1))])
    with pytest.raises(ProgramError, match=r"none of the layers conv, ip, found layer00, .*layer09 and 2 more"):
        check_weights(write(tmp_path, param), [net])


@pytest.mark.program
@pytest.mark.parametrize("form", ["V2", "V1"])
def test_check_weights_a_blob_of_another_shape_is_named(net, tmp_path, form):
    param = model(form)
    layer = (param.layer if form == "V2" else param.layers)[1]
    layer.blobs[0].CopyFrom(blob(np.zeros((7, 64)), legacy=form == "V1"))
    weights = write(tmp_path, param)
    shapes = "7×64, expected 5×64" if form == "V2" else "1×1×7×64, expected 1×1×5×64"
    with pytest.raises(ProgramError, match=rf"weights\.caffemodel: blob 0 of layer ip is {shapes}"):
        check_weights(weights, [net])
    assert not caffe_takes(tmp_path, weights)


def change(param: NetParameter, how: str) -> str:
    """Make the weights such that Caffe refuses them; return what the message says."""
    _, ip = param.layer
    if how == "fewer blobs":
        del ip.blobs[1]
        return "layer ip has 1 blobs, expected 2"
    if how == "no data":
        ip.blobs[1].ClearField("data")
        return "blob 1 of layer ip holds 0 values, expected 5"
    assert how == "same layer twice"
    param.layer.add(name="ip", blobs=[blob(np.zeros((5, 9)))])
    return "layer ip has 1 blobs, expected 2"


@pytest.mark.program
@pytest.mark.parametrize("how", ["fewer blobs", "no data", "same layer twice"])
def test_check_weights_what_caffe_refuses_is_refused_with_a_message(net, tmp_path, how):
    param = model()
    message = change(param, how)
    weights = write(tmp_path, param)
    with pytest.raises(ProgramError, match=rf"weights\.caffemodel: .*{message}"):
        check_weights(weights, [net])
    assert not caffe_takes(tmp_path, weights)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "none of the layers conv, ip, found no layer at all"),
        (b"version https://git-lfs.github.com/spec/v1\n", "43 bytes that are not a caffemodel"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "an HDF5 file, expected a binary caffemodel"),
    ],
)
def test_check_weights_a_file_of_another_kind_is_explained(net, tmp_path, data, message):
    weights = tmp_path / "weights"
    weights.write_bytes(data)
    with pytest.raises(ProgramError, match=f"weights: .*{message}"):
        check_weights(weights, [net])


@pytest.mark.program
@pytest.mark.parametrize("kind", [nvidia_weights.DOUBLE, nvidia_weights.FLOAT, nvidia_weights.HALF])
def test_check_weights_numbers_where_nvidias_caffe_saves_them_are_read_exactly(net, tmp_path, kind):
    param = model()
    del param.layer[1].blobs[1]
    param.layer[1].blobs.append(blob(np.arange(5)))  # a part of them in Caffe's own place
    for packed in (*param.layer[0].blobs, param.layer[1].blobs[0]):
        nvidia_weights.pack(packed, kind)
    weights = write(tmp_path, param)
    expected = [*values()["conv"], values()["ip"][0]]
    if kind == nvidia_weights.HALF:
        expected = [array.astype(np.float16).astype(np.float32) for array in expected]
    expected.append(np.arange(5))
    assert check_weights(weights, [net]) == Fit(("conv", "ip"), (), ())
    with for_caffe(weights) as file:
        net.copy_from(str(file))
        assert caffe_takes(tmp_path, file) and not caffe_takes(tmp_path, weights)
    assert not file.exists() and weights.exists()
    for found, wanted in zip([*net.params["conv"], *net.params["ip"]], expected, strict=True):
        assert np.array_equal(found.data, wanted)
    in_file = [np.array(found.data) for _, blobs in read_layers(weights) for found in blobs]
    assert all(np.array_equal(found, wanted.ravel()) for found, wanted in zip(in_file, expected, strict=True))


def test_for_caffe_a_file_of_stock_caffe_is_left_where_it_is(tmp_path):
    with for_caffe(write(tmp_path, model(double=True))) as file:
        assert file == tmp_path / "weights.caffemodel"


def test_read_layers_numbers_of_nvidias_that_are_none_are_named(net, tmp_path):
    param = model()
    nvidia_weights.pack(param.layer[1].blobs[1], nvidia_weights.INT)
    weights = write(tmp_path, param)
    said = r"blob 1 of layer ip: saved by NVIDIA's Caffe as 20 bytes of type 3, expected .*store_blobs_in_old_format"
    with pytest.raises(ProgramError, match=said):
        check_weights(weights, [net])
    param.layer[1].blobs[1].MergeFromString(bytes([10 << 3, nvidia_weights.DOUBLE]))
    with pytest.raises(ProgramError, match="blob 1 of layer ip: saved by NVIDIA's Caffe as 20 bytes of type 0"):
        list(read_layers(write(tmp_path, param)))
    other = model().layer[:1]
    other[0].blobs[0].MergeFromString(bytes([12 << 3, 7]))  # a number by that field: of another Caffe
    assert len(list(read_layers(write(tmp_path, NetParameter(layer=other))))) == 1


STATISTICS = {
    "BatchNorm": (layer("bn", "BatchNorm", "data", "bn"), (4,), (1,)),
    "mDA": (mda("bn", "data", "bn", 3), (3, 4), (3,)),
}


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("which", [0, 1])
def test_check_weights_averages_are_not_taken_for_sums(tmp_path, kind, which):
    """Caffe takes statistics whose divisor is 0 for none: it would divide by √ε."""
    text, shape, rows = STATISTICS[kind]
    with as_file(parse(DATA + text)) as file:
        made = caffe.Net(str(file), caffe.TEST)
    arrays = [np.zeros(shape), np.zeros(shape), np.zeros(rows)]
    param = NetParameter()
    bn = param.layer.add(name="bn", blobs=map(blob, arrays))
    assert check_weights(write(tmp_path, param), [made]).loaded == ("bn",), "nothing was summed"
    arrays[which].flat[-1] = -2
    bn.blobs[which].CopyFrom(blob(arrays[which]))
    with pytest.raises(ProgramError, match=r"weights\.caffemodel: layer bn has statistics and a divisor of 0"):
        check_weights(write(tmp_path, param), [made])
    arrays[2][-1] = 0.5  # the divisor of the row
    bn.blobs[2].CopyFrom(blob(arrays[2]))
    assert check_weights(write(tmp_path, param), [made]).loaded == ("bn",)


def test_weights_for_another_number_of_domains_are_explained(tmp_path):
    text, (domains, channels), _ = STATISTICS["mDA"]
    with as_file(parse(DATA + text)) as file:
        made = caffe.Net(str(file), caffe.TEST)
    shapes = [(domains + 1, channels), (domains + 1, channels), domains + 1]
    param = NetParameter()
    param.layer.add(name="bn", blobs=map(blob, map(np.zeros, shapes)))
    said = "layer bn is 4×4, expected 3×4: it is of an mDA net with 4 domains, .* this one has 3: .* --num-domains 3; "
    with pytest.raises(ProgramError, match=said):
        check_weights(write(tmp_path, param), [made])
