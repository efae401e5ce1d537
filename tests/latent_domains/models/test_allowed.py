"""A net from outside is judged before Caffe builds it: no file is overwritten and no module imported."""

import re
from pathlib import Path

import caffe
import pytest

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.models.allowed import DATA, PURE, check_allowed, read_net
from latent_domains.models.classifier import ModelDescription
from latent_domains.runs.write import write_run
from tests.latent_domains.convert.fork.fork_nets import digits, settings
from tests.latent_domains.nets.graphs import parse
from tests.programs import Done, names, program
from tests.run_folders import small
from tests.tools.test_predict import FORM, NET

HOSTILE = {
    "HDF5Output": 'bottom: "data" bottom: "data" hdf5_output_param {{ file_name: "{folder}/precious" }}',
    "ImageData": 'top: "secret" top: "l" image_data_param {{ source: "{folder}/precious" batch_size: 1 }}',
    "InfogainLoss": 'bottom: "data" bottom: "data" top: "i" infogain_loss_param {{ source: "{folder}/precious" }}',
    "Python": 'bottom: "data" top: "p" python_param {{ module: "hostile" layer: "Layer" }}',
}
"""Layers that overwrite or read a file, or run a module's code, as soon as Caffe makes them."""


def test_allowed_every_type_of_this_caffe_is_judged():
    assert set(caffe.layer_type_list()) == PURE | DATA | {"HDF5Output", "InfogainLoss", "Python"}


@pytest.mark.parametrize("named", ["", "os.system", "caffe_layers.mda", "caffe_layers.mda.MDALayer", "caffe_layers.x"])
def test_check_allowed_python_layers_are_our_three_alone(named: str):
    module, _, layer = named.rpartition(".")
    text = f'layer {{ name: "p" type: "Python" python_param {{ module: "{module}" layer: "{layer}" }} }}'
    with pytest.raises(ProgramError, match=rf"n\.prototxt: layer p \(Python\) runs '{layer}' of the module '{module}'"):
        check_allowed(parse(text), Path("n.prototxt"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('layer { name: "r" type: "ReLU" nonsense: 1 }', "not a net's prototxt: .*nonsense"),
        ('layer { name: "p" type: "Permute" permute_param { order: 0 } }', r"layer p \(Permute\) is not allowed"),
        ('name: "empty"', r"found no layer \{ … \}, expected a net's prototxt"),
        ('layer { name: "d" type: "Data" }', r"layer d \(Data\) is not allowed, expected"),
        (r'layer { name: "r" type: "ReLU" top: "\033[31m" }', r"layer r \(ReLU\): found names with control"),
    ],
)
def test_read_net_a_file_is_judged_as_it_is_read(text: str, message: str, tmp_path: Path):
    net = tmp_path / "net.prototxt"
    net.write_text(text)
    with pytest.raises(ProgramError, match=rf"^{re.escape(str(net))}: {message}"):
        read_net(net)


@pytest.mark.parametrize(("said", "meant"), [("false", "FLOOR"), ("true", "CEIL")])
def test_read_net_the_ceil_mode_of_other_caffes_is_a_round_mode(said: str, meant: str, tmp_path: Path):
    net = tmp_path / "net.prototxt"
    pool = 'layer {{ name: "p" type: "Pooling" pooling_param {{ kernel_size: 2 {} }} }} # ceil_mode'
    net.write_text(pool.format(f"ceil_mode:  {said}"))
    assert read_net(net) == parse(pool.format(f"round_mode: {meant}"))
    net.write_text(pool.format("ceil_mode: maybe"))
    with pytest.raises(ProgramError, match="ceil_mode"):
        read_net(net)


@pytest.mark.parametrize("kind", ["ConvolutionDepthwise", "DepthwiseConvolution"])
@pytest.mark.parametrize(("said", "groups"), [("", 6), ("group: 6", 6), ("group: 2", 2)])
def test_read_net_a_depthwise_layer_of_other_caffes_is_a_convolution(kind: str, said: str, groups: int, tmp_path: Path):
    net = tmp_path / "net.prototxt"
    text = 'layer {{ name: "c" type: "{}" convolution_param {{ num_output: 6 kernel_size: 3 {} }} }}'
    net.write_text(text.format(kind, said))
    assert read_net(net) == parse(text.format("Convolution", f"group: {groups}"))


def test_allowed_no_net_is_read_past_the_gate():
    files = [file for top in ("bench", "latent_domains", "tools") for file in (ROOT / top).rglob("*.py")]
    readers = [file for file in files if re.search(r"prototxt\.read\([^\n]*NetParameter\(", file.read_text())]
    assert readers == [ROOT / "latent_domains/models/allowed.py"]


def hostile(folder: Path, kind: str, text: str) -> Path:
    """A net with a layer of the kind, beside the file and the module that it names."""
    layer = f'layer {{ name: "h" type: "{kind}" {HOSTILE[kind].format(folder=folder)} }}\n'
    net = folder / "net.prototxt"
    net.write_text(text + layer)
    (folder / "precious").write_text("mine")
    (folder / "hostile.py").write_text("import pathlib\npathlib.Path(__file__).with_name('done').touch()\n")
    return net


def predict(folder: Path, kind: str) -> Done:
    net = hostile(folder, kind, NET)
    net.with_suffix(".caffemodel").touch()
    net.with_suffix(".json").write_text(ModelDescription("small", ("a", "b", "c"), FORM).text())
    (folder / "images").mkdir()
    (folder / "images" / "1.png").touch()
    return program("predict", folder / "net", folder / "images", "--out", folder / "out.csv")


def export(folder: Path, kind: str) -> Done:
    weights = folder / "w.caffemodel"
    (folder / "good.prototxt").write_text(NET)
    caffe.Net(str(folder / "good.prototxt"), caffe.TEST).save(str(weights))
    return program("export", "--net", hostile(folder, kind, NET), "--weights", weights, folder / "out")


def export_onnx(folder: Path, kind: str) -> Done:
    weights = folder / "w.caffemodel"
    weights.touch()
    return program("export_onnx", hostile(folder, kind, NET), weights, folder / "out.onnx")


def draw(folder: Path, kind: str) -> Done:
    return program("draw", hostile(folder, kind, NET), "--out", folder / "out")


def convert_fork(folder: Path, kind: str) -> Done:
    net = digits(3)
    file = hostile(folder, kind, net.text)
    return program("convert_fork", file, file, folder / "out", *settings(net.values))


PROGRAMS = (predict, export, export_onnx, draw, convert_fork)


@pytest.mark.parametrize(
    ("program", "kind"), [*((each, "HDF5Output") for each in PROGRAMS), (export, "Python"), (predict, "InfogainLoss")]
)
def test_allowed_nothing_is_touched(program, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(str(tmp_path))
    done = program(tmp_path, kind)
    assert (tmp_path / "precious").read_text() == "mine"
    assert not {"done", "out", "out.csv", "out.onnx", "out.prototxt"} & set(names(tmp_path))
    assert done.returncode == 1
    assert re.search(rf"net\.prototxt: layer h \({kind}\).*, expected ", done.stderr), done.stderr


def test_check_allowed_a_run_folder_with_a_strange_layer_is_not_trained(tmp_path: Path):
    folder = write_run(small(), tmp_path / "run", data=tmp_path / "data")
    for name in ("train", "deploy"):
        good = folder.read_net(name)
        text = folder.net(name).read_text()
        folder.net(name).write_text(text + 'layer { name: "h" type: "HDF5Output" bottom: "prob" }')
        with pytest.raises(ProgramError, match=rf"{name}\.prototxt: layer h \(HDF5Output\) is not allowed, expected"):
            folder.read_net(name)
        folder.net(name).write_text(text)
        assert folder.read_net(name) == good
    with pytest.raises(ProgramError, match=r"layer images \(Data\) is not allowed"):
        check_allowed(parse('layer { name: "images" type: "Data" top: "x" }'), folder.net("deploy"))
