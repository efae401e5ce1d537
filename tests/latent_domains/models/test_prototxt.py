"""What is written is read as what it was."""

from pathlib import Path

import caffe
import pytest
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.common.program import ProgramError
from latent_domains.models.model import Model, load, read_model
from latent_domains.models.prototxt import for_phase, net_text
from tests.latent_domains.nets.graphs import parse

TEXTS = ["", "plain", 'a "quoted" one', "both \" and '", "back\\slash", '"\\"', '"two"\nlines', "tab\t\x01", "é ☃"]


@pytest.mark.parametrize("text", TEXTS)
def test_net_text_names_and_other_texts_may_hold_any_character(text: str) -> None:
    net = NetParameter(name=text)
    net.layer.add(name=text, type="Python", top=[text], python_param={"param_str": text})
    assert parse(net_text(text, net)) == net


def test_net_text_json_is_written_without_backslashes() -> None:
    net = NetParameter()
    net.layer.add(type="Python", python_param={"param_str": '{"first": 0}'})
    assert """param_str: '{"first": 0}'""" in net_text("", net)


SHAPE = "input_param { shape { dim: 1 dim: 2 dim: 4 dim: 4 } }"
RULES = f"""
name: "rules"
state {{ stage: "mine" level: 7 }}
layer {{ name: "data" type: "Input" top: "data" {SHAPE} exclude {{ phase: TRAIN }} }}
layer {{ name: "data" type: "Input" top: "data" {SHAPE} include {{ phase: TRAIN }} }}
layer {{ name: "a" type: "ReLU" bottom: "data" top: "a" include {{ stage: "mine" }} }}
layer {{ name: "b" type: "ReLU" bottom: "data" top: "b" include {{ stage: "other" }} include {{ phase: TEST }} }}
layer {{ name: "c" type: "ReLU" bottom: "data" top: "c" include {{ stage: "other" }} }}
layer {{ name: "d" type: "ReLU" bottom: "data" top: "d" exclude {{ phase: TEST }} }}
layer {{ name: "e" type: "ReLU" bottom: "data" top: "e" include {{ not_stage: "mine" }} }}
layer {{ name: "f" type: "ReLU" bottom: "data" top: "f" include {{ min_level: 1 }} }}
layer {{ name: "g" type: "ReLU" bottom: "data" top: "g" include {{ min_level: 0 max_level: 6 }} }}
layer {{ name: "h" type: "ReLU" bottom: "data" top: "h" exclude {{ stage: "mine" phase: TRAIN }} }}
"""


def test_for_phase_layers_are_those_that_caffe_makes(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(RULES)
    built = caffe.Net(str(tmp_path / "net.prototxt"), caffe.TEST)
    found = for_phase(parse(RULES), caffe.TEST, tmp_path / "net.prototxt")
    assert [layer.name for layer in found.layer] == [n for n in built._layer_names if not n.endswith("_split")]
    assert [layer.name for layer in found.layer] == ["data", "a", "b", "g", "h"]
    again = load(Model(found, {}))
    assert list(again._layer_names) == list(built._layer_names)


def test_for_phase_layers_of_the_other_phase_are_those_that_caffe_makes(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(RULES)
    built = caffe.Net(str(tmp_path / "net.prototxt"), caffe.TRAIN)
    found = [layer.name for layer in for_phase(parse(RULES), caffe.TRAIN, tmp_path / "net.prototxt").layer]
    assert found == [name for name in built._layer_names if not name.endswith("_split")]
    assert found == ["data", "a", "d", "g"]


@pytest.mark.program
@pytest.mark.parametrize(
    "shape", ["input_dim: 5 input_dim: 2 input_dim: 3 input_dim: 4", "input_shape { dim: 5 dim: 2 dim: 3 dim: 4 }"]
)
def test_net_text_inputs_of_older_files_become_layers(shape: str, tmp_path: Path) -> None:
    ip = "inner_product_param { num_output: 2 }"
    net, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    net.write_text(f'input: "x" {shape} layer {{ name: "ip" type: "InnerProduct" bottom: "x" top: "ip" {ip} }}')
    caffe.Net(str(net), caffe.TEST).save(str(weights))
    model = read_model(net, weights)
    assert [layer.type for layer in model.net.layer] == ["Input", "InnerProduct"]
    loaded = load(model)
    assert loaded.inputs == ["x"] and loaded.blobs["x"].data.shape == (5, 2, 3, 4)
    assert net_text("", model.net).count("input_param") == 1


def test_for_phase_old_layers_are_refused(tmp_path: Path) -> None:
    net = parse('layers { name: "r" type: RELU bottom: "x" top: "r" }')
    expected = r"old\.prototxt: its layers are of Caffe's old format.*upgrade_net_proto_text"
    with pytest.raises(ProgramError, match=expected):
        for_phase(net, caffe.TEST, tmp_path / "old.prototxt")
