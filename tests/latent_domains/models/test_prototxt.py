"""What is written is read as what it was."""

import pytest
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.models.prototxt import net_text
from tests.latent_domains.nets.graphs import parse

TEXTS = ["", "plain", 'a "quoted" one', "both \" and '", "back\\slash", '"\\"', '"two"\nlines', "tab\t\x01", "é ☃"]


@pytest.mark.parametrize("text", TEXTS)
def test_names_and_other_texts_may_hold_any_character(text: str) -> None:
    net = NetParameter(name=text)
    net.layer.add(name=text, type="Python", top=[text], python_param={"param_str": text})
    assert parse(net_text(text, net)) == net


def test_json_is_written_without_backslashes() -> None:
    net = NetParameter()
    net.layer.add(type="Python", python_param={"param_str": '{"first": 0}'})
    assert """param_str: '{"first": 0}'""" in net_text("", net)
