"""Files of ONNX models: what identifies them, and external data that are missing or lie where they must not."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from latent_domains.common.files import sha256
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.models.onnx_file import Runtime, check_onnx, contents_sha256, read_onnx, with_outputs
from tests.onnx_models import CLASSES, TERMS, by_hand, model, save, weights, with_external_data
from tests.programs import names, program
from tests.tolerance import rounding


def other_weights() -> ModelProto:
    made = model()
    (first, *_) = made.graph.initializer
    first.CopyFrom(numpy_helper.from_array(weights()["a"] + 1, "a"))
    return made


def edited(file: Path, change: Callable[[TensorProto], object]) -> Path:
    """The model with its first tensor changed; the external data stay."""
    made = onnx.load(str(file), load_external_data=False)
    change(made.graph.initializer[0])
    file.write_bytes(made.SerializeToString())
    return file


def saying(**values: object) -> Callable[[TensorProto], None]:
    """Change what a tensor says of its external data; None leaves it out."""

    def change(tensor: TensorProto) -> None:
        said = {entry.key: entry.value for entry in tensor.external_data} | values
        del tensor.external_data[:]
        for key, value in said.items():
            if value is not None:
                tensor.external_data.add(key=key, value=str(value))

    return change


def test_contents_sha256_a_model_in_one_file_is_identified_by_it(tmp_path):
    file = save(tmp_path / "net.onnx")
    assert read_onnx(file) == model() and contents_sha256(file) == sha256(file)
    other = tmp_path / "net.safetensors"
    other.write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
    assert contents_sha256(other) == sha256(other)


@pytest.mark.parametrize("location", ["net.onnx.data", "weights/all.bin"])
def test_external_data_are_read_and_part_of_what_identifies_a_model(tmp_path, location):
    file = tmp_path / "net.onnx"
    (tmp_path / "weights").mkdir()
    with_external_data(model(), file, location)
    graph = file.read_bytes()
    read, made_of = read_onnx(file), contents_sha256(file)
    assert [t.name for t in read.graph.initializer if t.HasField("data_location") or t.external_data] == []
    for tensor in read.graph.initializer:
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), weights()[tensor.name])
    assert contents_sha256(file) == made_of != sha256(file)
    with_external_data(other_weights(), file, location)
    assert file.read_bytes() == graph, "only the external data differ"
    assert contents_sha256(file) != made_of
    assert numpy_helper.to_array(read_onnx(file).graph.initializer[0]).flat[0] == weights()["a"].flat[0] + 1


def test_tensors_of_attributes_subgraphs_functions_and_sparse_ones_count(tmp_path):
    """Each of them alone has external data in a file of its own."""

    def outside(name: str) -> TensorProto:
        tensor = numpy_helper.from_array(np.zeros(2, np.float32), name)
        onnx.external_data_helper.set_external_data(tensor, f"{name}.bin", length=8)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        return tensor

    made = model()
    constant = helper.make_node("Constant", [], ["k"], value=outside("attribute"))
    inner = helper.make_graph([helper.make_node("Identity", ["in"], ["o"])], "inner", [], [], [outside("subgraph")])
    loop = helper.make_node("If", ["classes"], ["l"], then_branch=inner, else_branch=inner)
    made.graph.node.extend([constant, loop])
    made.functions.append(
        helper.make_function(
            "own", "f", [], ["c"], [helper.make_node("Constant", [], ["c"], value=outside("function"))], []
        )
    )
    made.graph.sparse_initializer.append(
        helper.make_sparse_tensor(outside("sparse"), numpy_helper.from_array(np.arange(2), "i"), [4])
    )
    file = tmp_path / "net.onnx"
    file.write_bytes(made.SerializeToString())
    kinds = ("attribute", "subgraph", "function", "sparse")
    for kind in kinds:
        (tmp_path / f"{kind}.bin").write_bytes(bytes(8))
    before = contents_sha256(file)
    for kind in kinds:
        place = tmp_path / f"{kind}.bin"
        place.write_bytes(b"1" * 8)
        assert contents_sha256(file) != before, kind
        place.unlink()
        with pytest.raises(ProgramError, match=f"{kind}.bin: no such file, expected the external data of net.onnx, te"):
            read_onnx(file)
        place.write_bytes(bytes(8))
    assert contents_sha256(file) == before


def test_read_onnx_numbers_of_four_bits_are_packed(tmp_path):
    tensor = TensorProto(name="q", data_type=TensorProto.INT4, dims=[3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="q.bin")
    made = model()
    made.graph.initializer.append(tensor)
    file = tmp_path / "net.onnx"
    file.write_bytes(made.SerializeToString())
    (tmp_path / "q.bin").write_bytes(b"ab")
    assert read_onnx(file).graph.initializer[-1].raw_data == b"ab"
    (tmp_path / "q.bin").write_bytes(b"a")
    with pytest.raises(ProgramError, match=r"q\.bin: 1 bytes, expected at least 2: the external data of net"):
        read_onnx(file)


@pytest.mark.parametrize("read", [read_onnx, check_onnx, contents_sha256])
@pytest.mark.parametrize("how", ["up", "absolute", "a link to a file", "a link to a folder", "no name", "no path"])
def test_external_data_outside_the_models_folder_are_refused(tmp_path, how, read):
    """Whole or not, and also where the file itself would be the right one."""
    file = tmp_path / "model" / "net.onnx"
    file.parent.mkdir()
    data = with_external_data(model(), file)
    outside = tmp_path / "data.bin"
    outside.write_bytes(data.read_bytes())
    location = {"up": "../data.bin", "absolute": str(data), "no name": "", "no path": "a\0b"}.get(how, "data.bin")
    if how == "a link to a file":
        data.unlink()
        data.symlink_to(outside)
    if how == "a link to a folder":
        location = "below/data.bin"
        (file.parent / "below").symlink_to(tmp_path)
    edited(file, saying(location=location))
    with pytest.raises(ProgramError) as error:
        read(file)
    assert str(error.value) == (
        f"{file}: tensor 'a' has its data in {location!r}, expected a file in the folder {file.parent}"
    )


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_read_onnx_links_to_files_within_the_folder_are_read(tmp_path, link):
    file = tmp_path / "net.onnx"
    data = with_external_data(model(), file)
    before = read_onnx(file), contents_sha256(file)
    data.rename(tmp_path / "blob")
    link(tmp_path / "blob", data)
    assert (read_onnx(file), contents_sha256(file)) == before


@pytest.mark.parametrize("read", [read_onnx, check_onnx, contents_sha256])
@pytest.mark.parametrize(
    ("spoil", "change", "message"),
    [
        (Path.unlink, {}, r"data\.bin: no such file, expected the external data of net\.onnx, tensor 'a'"),
        (lambda file: os.truncate(file, 9), {}, r"data\.bin: 9 bytes, expected at least 36: the external data of net"),
        (lambda file: os.truncate(file, 9), {"length": None}, r"data\.bin: 9 bytes, expected at least 36: the ext"),
        (None, {"offset": 10**6}, r"data\.bin: \d+ bytes, expected at least 1000036: the external data of net"),
        (None, {"offset": -1}, r"net\.onnx: tensor 'a': external data that make no sense: offset -1, length 36"),
        (None, {"length": "x"}, r"net\.onnx: tensor 'a': external data that make no sense: invalid literal"),
    ],
)
def test_external_data_that_are_missing_or_cut_short_are_named(tmp_path, read, spoil, change, message):
    file = tmp_path / "net.onnx"
    data = with_external_data(model(), file)
    if spoil:
        spoil(data)
    edited(file, saying(**change))
    with pytest.raises(ProgramError, match=message) as error:
        read(file)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("how", ["missing", "truncated", "cut to nothing", "garbage", "a folder"])
def test_read_onnx_a_file_that_is_no_onnx_model_is_named(tmp_path: Path, how: str):
    file = save(tmp_path / "net.onnx")
    data = file.read_bytes()
    if how in ("missing", "a folder"):
        file.unlink()
    if how == "a folder":
        file.mkdir()
    if how in ("truncated", "cut to nothing", "garbage"):
        file.write_bytes({"truncated": data[:-40], "cut to nothing": b"", "garbage": b"<html>404</html>"}[how])
    message = {"missing": "no such file, expected an ONNX model", "a folder": "a folder, expected an ONNX model"}
    with pytest.raises(ProgramError, match=message.get(how, r"net\.onnx: .*(not an|no) ONNX model, or")):
        read_onnx(file)


@pytest.mark.program
@pytest.mark.parametrize("name", ["extract_features", "convert_torch"])
def test_onnx_file_every_program_that_reads_a_model_refuses_what_lies_outside(tmp_path, name):
    file = tmp_path / "model" / "net.onnx"
    file.parent.mkdir()
    with_external_data(model(), file).rename(tmp_path / "data.bin")
    edited(file, saying(location="../data.bin"))
    arguments = {"extract_features": ("pacs", "--onnx", file), "convert_torch": (file, tmp_path / "out")}[name]
    done = program(name, *arguments)
    said = f"{file}: tensor 'a' has its data in '../data.bin', expected a file in the folder {file.parent}"
    assert done.returncode == 1 and done.stderr == f"error: {said}\n" and names(tmp_path) == ["data.bin", "model"]


def test_runtime_values_of_a_model():
    made = model(outputs=("features", "classes"))
    runtime = Runtime(made.SerializeToString())
    assert runtime.inputs == {"pixels": ("N", 3, 8, 8)} and list(runtime.outputs) == ["features", "classes"]
    pixels = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    assert runtime.forward({"pixels": pixels})["classes"].shape == (2, CLASSES)
    inside = Runtime(with_outputs(made, ["two", "one"]).SerializeToString(), threads=1)
    found = inside.forward({"pixels": pixels[:1]})
    assert list(found) == ["two", "one"]
    for name, expected in zip(("one", "two"), by_hand(pixels[0]), strict=False):
        np.testing.assert_allclose(found[name][0], expected, rtol=0, atol=rounding(TERMS, expected))


def test_runtime_failures_are_one_message():
    with pytest.raises(ProgramError, match=r"^x\.onnx: ONNX Runtime refuses the model: .*$"):
        Runtime(b"no model", name="x.onnx")
    with pytest.raises(ProgramError, match=r"^ONNX Runtime fails on pixels 1×4: .*$"):
        Runtime(model().SerializeToString()).forward({"pixels": np.zeros((1, 4), np.float32)})


@pytest.mark.program
def test_onnx_file_nothing_is_told_to_the_makers_of_onnx_runtime(tmp_path):
    """It would lay an identifier of the machine and a database into the user's cache."""
    (tmp_path / "model.onnx").write_bytes(model().SerializeToString())
    (tmp_path / "home").mkdir()
    unset = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    code = (
        "import sys; from latent_domains.common.start import prepare_libraries; prepare_libraries(); "
        "from latent_domains.models.onnx_file import Runtime; Runtime(open(sys.argv[1], 'rb').read())"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model.onnx"],
        cwd=ROOT,
        env=environment | {"HOME": str(tmp_path / "home")},
        check=True,
    )
    assert names(tmp_path / "home") == []
