"""ResNets of ONNX files: every form that they come in, and one message for what is none."""

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import caffe
import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from latent_domains.common.program import ProgramError
from latent_domains.convert.torch import onnx_resnet
from latent_domains.convert.torch.read import find_network, read_checkpoint, take
from latent_domains.convert.torch.tensors import CheckpointError
from latent_domains.models import compare
from latent_domains.models.model import forward
from latent_domains.models.onnx_file import Runtime, with_outputs
from latent_domains.networks.resnet import basic_blocks, bottlenecks, resnet_of
from tests.latent_domains.convert.torch.onnx_nets import Builder, resnet
from tests.programs import names, program


def read(model: ModelProto) -> dict[str, np.ndarray]:
    return onnx_resnet.read(model, "net.onnx")[0]


@pytest.mark.parametrize(
    ("options", "depth"),
    [
        ({}, basic_blocks(1, 1, 1, 1)),
        ({"classes": None}, basic_blocks(1, 1, 1, 1)),
        ({"blocks": (1, 2, 1, 3), "pool": "AveragePool"}, basic_blocks(1, 2, 1, 3)),
        ({"bottlenecks": True, "pool": "ReduceMean"}, bottlenecks(1, 1, 1, 1)),
        ({"size": "side", "batch": "count", "view": True}, basic_blocks(1, 1, 1, 1)),
    ],
)
def test_read_the_net_is_read_from_the_graph(options, depth):
    tensors = read(resnet(**options))
    net = take(tensors, find_network(tensors), head="fc.weight" in tensors)
    assert net.network.torch.units == resnet_of(depth).torch.units and net.classes == options.get("classes", 5)


@pytest.mark.parametrize("opset", [7, 9, 12, 13, 15])
def test_read_operator_sets(opset):
    assert "layer4.0.bn2.running_var" in read(Builder(opset=opset).net())


@pytest.mark.parametrize("more", [{}, {"perm": [1, 0]}])
def test_read_a_classifier_without_a_bias_as_pytorch_writes_it(more):
    """A product with the transpose of its weights."""
    model = Builder(seed=1).net()
    (gemm,) = nodes(model, "Gemm")
    place = list(model.graph.node).index(gemm)
    features, weights, _ = gemm.input
    turn = helper.make_node("Transpose", [weights], ["turned"], **more)
    product = helper.make_node("MatMul", [features, "turned"], [gemm.output[0]])
    model.graph.node.remove(gemm)
    model.graph.node.insert(place, product)
    model.graph.node.insert(place, turn)
    tensors, own = onnx_resnet.read(model, "net.onnx")
    expected = {tensor.name: tensor for tensor in model.graph.initializer}[weights]
    assert np.array_equal(tensors["fc.weight"], numpy_helper.to_array(expected))
    assert not tensors["fc.bias"].any() and tensors["fc.bias"].shape == (5,) and own.values["fc5"] == gemm.output[0]


def test_read_opsets_that_are_not_read():
    with pytest.raises(CheckpointError, match=r"^operator set 6, expected 7 to \d+$"):
        read(Builder(opset=6).net())


@cache
def _net() -> ModelProto:
    return resnet()


def changed(change: Callable[[ModelProto], object]) -> ModelProto:
    model = ModelProto()
    model.CopyFrom(_net())
    change(model)
    return model


def nodes(model: ModelProto, op: str) -> list[NodeProto]:
    return [node for node in model.graph.node if node.op_type == op]


def with_attribute(op: str, place: int, name: str, value: object) -> Callable[[ModelProto], None]:
    def change(model: ModelProto) -> None:
        node = nodes(model, op)[place]
        kept = [one for one in node.attribute if one.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])

    return change


def without(op: str, place: int = 0) -> Callable[[ModelProto], None]:
    """Take a node out: what read it reads what it read."""

    def change(model: ModelProto) -> None:
        gone = nodes(model, op)[place]
        for node in model.graph.node:
            node.input[:] = [gone.input[0] if name == gone.output[0] else name for name in node.input]
        model.graph.node.remove(gone)

    return change


def folded(model: ModelProto) -> None:
    for conv in nodes(model, "Conv"):
        conv.input.append(nodes(model, "BatchNormalization")[0].input[2])
    for _ in nodes(model, "BatchNormalization"):
        without("BatchNormalization")(model)


def backwards(model: ModelProto) -> None:
    nodes(model, "Conv")[0].input[0] = nodes(model, "Relu")[-1].output[0]


def reversed_nodes(model: ModelProto) -> None:
    kept = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(kept)


def another_input(model: ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))


def half_floats(model: ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16


def huge_dims(model: ModelProto) -> None:
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend([2**40, 2**40, 2**40])


def cut_short(model: ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.raw_data = tensor.raw_data[:-4]


def computed_weights(model: ModelProto) -> None:
    conv = nodes(model, "Conv")[0]
    model.graph.node.insert(0, helper.make_node("Neg", [conv.input[1]], ["minus"]))
    conv.input[1] = "minus"


def more_nodes(model: ModelProto) -> None:
    model.graph.node.append(helper.make_node("Neg", [nodes(model, "Conv")[0].input[1]], ["n"], name="odd"))


def of_another_domain(model: ModelProto) -> None:
    nodes(model, "Relu")[0].domain = "com.example"


def short_row(model: ModelProto) -> None:
    nodes(model, "BatchNormalization")[0].input[1] = nodes(model, "BatchNormalization")[-1].input[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (folded, r"^v0 \(Conv\) has a bias and no BN after it, which is folded into it: export it with its Batch"),
        (without("BatchNormalization", 3), r"^v\d+ \(Conv\) is read by v\d+ \(Relu\), expected by one"),
        (without("Relu"), r"^bn1 is read by v\d+ \(MaxPool\), expected by one Relu$"),
        (without("MaxPool"), r"^v\d+ \(Relu\) is read by v\d+ \(Conv\), v\d+ \(Add\), expected by one MaxPool$"),
        (without("Softmax"), None),
        (without("Add"), r"^the BN after v\d+ \(Conv\) is read by nothing, expected by one Relu or Add$"),
        (with_attribute("Conv", 0, "strides", [1, 1]), r"^v0 \(Conv\), conv1: stride 1×1, expected 2$"),
        (with_attribute("Conv", 0, "strides", [2]), r"^v0 \(Conv\): strides is \[2\], expected 2 numbers"),
        (with_attribute("Conv", 0, "strides", "two"), r"^v0 \(Conv\): strides is b'two', expected 2 numbers"),
        (with_attribute("Conv", 0, "strides", [0, 0]), r"^v0 \(Conv\)(: at 224×224|, conv1: stride 0×0)"),
        (with_attribute("Conv", 0, "pads", [2, 2, 3, 3]), r"^v0 \(Conv\): at 224×224 its pads \[2, 2, 3, 3\]"),
        (with_attribute("Conv", 0, "pads", [-3, 3, 3, 3]), r"^v0 \(Conv\): pads is \[-3, 3, 3, 3\], expected"),
        (with_attribute("Conv", 1, "dilations", [2, 2]), r"^v\d+ \(Conv\): groups or dilation, expected none in a Res"),
        (with_attribute("Conv", 1, "group", 2), r"^v\d+ \(Conv\): groups or dilation, expected none in a ResNet$"),
        (with_attribute("MaxPool", 0, "kernel_shape", [2, 2]), r"^v\d+ \(MaxPool\): 2×2, stride 2×2, expected 3×3 and"),
        (with_attribute("MaxPool", 0, "ceil_mode", 1), r"^v\d+ \(MaxPool\): at 112×112 its pads \[1, 1, 1"),
        (with_attribute("BatchNormalization", 2, "spatial", 0), r"^v\d+ \(BatchNormalization\): spatial is 0"),
        (with_attribute("Gemm", 0, "alpha", 0.5), r"^v\d+ \(Gemm\): alpha, beta or transA, expected a product with we"),
        (with_attribute("Flatten", 0, "axis", 1), None),
        (backwards, r"^node v0 \(Conv\) reads v\d+, which no node before it makes$"),
        (reversed_nodes, r"^node v\d+ \(Softmax\) reads v\d+, which no node before it makes$"),
        (another_input, r"^its inputs are pixels, more, expected one$"),
        (half_floats, r"^its input is 1×3×224×224 \(0: any\), expected N×3×H×W in 32-bit floats$"),
        (huge_dims, r"^tensor t0 of 1099511627776×1099511627776×1099511627776 is damaged$"),
        (cut_short, r"^tensor t0 of 64×3×7×7 is damaged$"),
        (computed_weights, r"^v0 \(Conv\) reads minus, expected a constant$"),
        (more_nodes, r"^with odd \(Neg\), which no ResNet has$"),
        (of_another_domain, r"^node v\d+ \(Relu\) is of the operators of com\.example$"),
        (short_row, r"^v1 \(BatchNormalization\): expected four rows of 64 numbers after its maps$"),
    ],
)
def test_read_what_is_no_resnet_is_named(change, message):
    if message is None:
        read(changed(change))
        return
    with pytest.raises(CheckpointError, match=message) as error:
        read(changed(change))
    assert "\n" not in str(error.value)


def test_read_strides_of_he_et_als_original_are_named():
    def change(model: ModelProto) -> None:
        for conv in nodes(model, "Conv"):
            strides = next(one for one in conv.attribute if one.name == "strides")
            kernel = next(one for one in conv.attribute if one.name == "kernel_shape")
            if list(kernel.ints) == [1, 1] and conv is convs[-4]:
                strides.ints[:] = [2, 2]
            elif conv is convs[-3]:
                strides.ints[:] = [1, 1]

    model = resnet(bottlenecks=True)
    convs = nodes(model, "Conv")
    change(model)
    with pytest.raises(
        CheckpointError, match=r"layer4\.0\.conv1: stride 2×2 \(He et al\.'s original nets .*expected 1$"
    ):
        read(model)


def test_read_checkpoint_other_nets(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Sub", ["x", "m"], ["y"], name="minus")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.zeros((1, 3, 1, 1), np.float32), "m")],
    )
    file = tmp_path / "other.onnx"
    onnx.save(helper.make_model(graph), file)
    with pytest.raises(
        ProgramError, match=r"other\.onnx: its input is read by minus \(Sub\), expected by one Conv of 7×7"
    ):
        read_checkpoint(file, head=True)
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(ProgramError, match=r"other\.onnx: \d+ bytes that are not an ONNX model, or a truncated one"):
        read_checkpoint(file, head=True)


def test_read_checkpoint_values_that_are_not_finite(tmp_path):
    model = changed(lambda model: None)
    row = model.graph.initializer[1]
    row.raw_data = np.full(64, np.nan, np.float32).tobytes()
    onnx.save(model, tmp_path / "nan.onnx")
    with pytest.raises(ProgramError, match=r"nan\.onnx: tensor bn1\.weight holds 64 numbers that are not finite"):
        read_checkpoint(tmp_path / "nan.onnx", head=True)


def test_read_a_bias_and_another_epsilon_are_in_the_statistics():
    model = Builder(seed=1).net(bias=True)
    with_attribute("BatchNormalization", 0, "epsilon", 1e-3)(model)
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    conv, bn = nodes(model, "Conv")[0], nodes(model, "BatchNormalization")[0]
    found = read(model)
    np.testing.assert_allclose(found["bn1.running_mean"], stored[bn.input[3]] - stored[conv.input[2]], rtol=1e-6)
    np.testing.assert_allclose(found["bn1.running_var"], stored[bn.input[4]] + 0.00099, rtol=1e-5)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "NOISE", 2)


def judged(model: ModelProto, pixels: np.ndarray) -> dict[str, np.ndarray]:
    """What ONNX Runtime makes of them: the last block, the features and the scores."""
    values = {
        "res5a": nodes(model, "Relu")[-1].output[0],
        "pool5": nodes(model, "GlobalAveragePool")[0].output[0],
        "fc5": nodes(model, "Gemm")[0].output[0],
    }
    runtime = Runtime(with_outputs(model, values.values()).SerializeToString())
    rows = [runtime.forward({"pixels": row[np.newaxis]}) for row in pixels]
    return {blob: np.concatenate([row[value] for row in rows]) for blob, value in values.items()}


@pytest.mark.program
@pytest.mark.parametrize("channels", ["RGB", "BGR"])
def test_array_caffe_computes_what_the_file_does(channels, quick, tmp_path):
    """With CNTK's pads, biases, external data and a standardisation of its own."""
    model = Builder(seed=2, cntk=True, opset=8).net(bias=True)
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    mean, std = (0.4, 0.5, 0.6), (0.01, 0.02, 0.03)
    options = ["--channels", channels, "--mean", *mean, "--std", *std, "--num-domains", 2]
    done = program("convert_torch", tmp_path / "net.onnx", tmp_path / "out", *options)
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path}/net.onnx: ResNet of 1 1 1 1 blocks, 5 classes\n" in done.stdout
    assert re.search(
        r"of 7 blobs from scale_conv1 to fc5 \w+ differs most.*; the best class is the same for 2 of 2", done.stdout
    )
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, 224, 224)).astype(np.float32)  # B, G, R
    standardised = (pixels[:, ::-1] / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    expected = judged(
        onnx.load(tmp_path / "net.onnx"), standardised.astype(np.float32)[:, :: 1 if channels == "RGB" else -1]
    )
    net = caffe.Net(f"{tmp_path}/out.prototxt", caffe.TEST, weights=f"{tmp_path}/out.caffemodel")
    found = forward(net, pixels - 255 * np.array(mean[::-1], np.float32).reshape(3, 1, 1))
    for blob, values in expected.items():
        assert np.abs(found[blob] - values).max() <= 1e-4 * np.abs(values).max(), blob


@pytest.mark.program
def test_onnx_resnet_a_net_that_takes_another_size_and_three_pictures(quick, tmp_path):
    onnx.save(Builder(seed=3).net(size=96, classes=None, batch=3), tmp_path / "net.onnx")
    done = program("convert_torch", tmp_path / "net.onnx", tmp_path / "out", "--no-mda")
    assert done.returncode == 0, done.stderr
    assert "no head" in done.stdout and "dim: 96" in (tmp_path / "out.prototxt").read_text()


@pytest.mark.program
def test_onnx_resnet_what_differs_from_the_file_is_not_written(quick, tmp_path, monkeypatch):
    """As if a node were taken for what it is not."""
    monkeypatch.setattr(onnx_resnet, "EPS", 1e-2)
    onnx.save(Builder(seed=3).net(), tmp_path / "net.onnx")
    done = program("convert_torch", tmp_path / "net.onnx", tmp_path / "out", "--no-mda")
    assert done.returncode == 1 and "/out.caffemodel: the two sides differ by" in done.stderr
    assert names(tmp_path) == ["net.onnx"]


CNTK = Path(os.environ.get("DATA_MIRROR", "missing")) / "weights/resnet18_cntk/ResNet18.onnx"


@pytest.mark.program
@pytest.mark.skipif(not CNTK.is_file(), reason="CNTK's ResNet18 is not in DATA_MIRROR")
def test_onnx_resnet_cntks_resnet18(quick, tmp_path):
    done = program("convert_torch", CNTK, tmp_path / "out", "--num-domains", 4)
    assert done.returncode == 0, done.stderr
    assert f"{CNTK}: ResNet of 2 2 2 3 blocks, no head\nnote: trained on pixels less a mean image" in done.stdout
    assert "less the mean 103.063, 115.903, 123.152." in (tmp_path / "out.prototxt").read_text()
