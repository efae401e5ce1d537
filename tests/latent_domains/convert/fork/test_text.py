"""Template fields and unknown fields are found where they stand, and nothing else changes."""

from pathlib import Path

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.messages import net_class
from latent_domains.convert.fork.text import Place, Unknown, filled, parse, places

TEXT = """# %IN_A_COMMENT%
name: "net of %WHO%"  # "not a string
layer {
  name: 'fc' type: "InnerProduct" bottom: "a" top: "b"
  strange { deep { name: "%LOST%" } list: [1, 2] }
  inner_product_param < num_output: %N%; weight_filler { type: "gaussian" std: %STD% oddity: -1.5e-3 } >
}
layer {
  name: "x" type: "ImageData" top: "a"
  image_data_param { source: "%WHO%/" "%WHO%" batch_size: %ROWS% }
  loss_weight: [%L%, 2]
}
"""


NET = Path("net")


def read(values: dict[str, str]) -> Message:
    net, unknown = parse(NET, filled(NET, TEXT, values))
    assert unknown == [Unknown("strange", "LayerParameter", 5), Unknown("oddity", "FillerParameter", 6)]
    return net


def test_fields_are_found_with_their_places() -> None:
    assert places(NET, TEXT) == {
        "WHO": [Place(None, ("name",)), Place(1, ("image_data_param", "source"))],
        "N": [Place(0, ("inner_product_param", "num_output"))],
        "STD": [Place(0, ("inner_product_param", "weight_filler", "std"))],
        "ROWS": [Place(1, ("image_data_param", "batch_size"))],
        "L": [Place(1, ("loss_weight",))],
    }


def test_filled_text_is_the_net_that_was_meant() -> None:
    values = {"WHO": 'say "hi" \\', "N": "7", "STD": "0.5", "ROWS": "9", "L": "0.25"}
    assert filled(NET, TEXT, values).count("\n") == TEXT.count("\n")
    net = read(values)
    assert net.name == 'net of say "hi" \\'
    assert net.layer[0].inner_product_param.num_output == 7
    assert net.layer[0].inner_product_param.weight_filler.std == 0.5
    assert net.layer[1].image_data_param.source == 'say "hi" \\/say "hi" \\'
    assert net.layer[1].image_data_param.batch_size == 9
    assert list(net.layer[1].loss_weight) == [0.25, 2]


def test_missing_values_leave_strings_and_stand_in_for_numbers() -> None:
    net = read({"N": "3"})
    assert net.name == "net of %WHO%"
    assert net.layer[0].inner_product_param.num_output == 3
    assert net.layer[1].image_data_param.batch_size == 1


def test_text_without_either_is_what_caffes_parser_reads() -> None:
    text = 'layer { name: "a" type: "MultiModalBatchNorm" multimodal_batch_norm_param { eps: 1e-3 } }'
    assert filled(NET, text, {}) == text and places(NET, text) == {}
    assert parse(NET, text) == (text_format.Parse(text, net_class()()), [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name: "a', "1:7 : 'name: \"a': String missing ending quote"),
        ("layer {\n name: 'a'", '2:8 : Expected "}"'),
        ("layer {\n name: }", "2:8 : ' name: }': Expected string but found: '}'"),
        ("layer {\n { } }", "2:2 : ' { } }': Expected identifier or number, got {"),
        ("layer { loss_weight: [1, }", "1:26 : 'layer { loss_weight: [1, }': Couldn't parse float: }"),
        ("layer { name:", "1:14 : '': Expected string but found: ''"),
        ("layer {\n strange { deep: ", "line 2, field strange: Invalid field value"),
        ("strange { " + "deep { " * 5000, "nested too deeply"),
    ],
)
def test_other_text_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as error:
        places(NET, text)
    assert str(error.value).startswith(f"net: not a prototxt of the authors' fork of Caffe: {message}")


@pytest.mark.parametrize("value", ["1 }", "1 2", "{", '"a"', "1#", ""])
def test_a_value_is_one_value(value: str) -> None:
    with pytest.raises(ProgramError, match="expected one value, as line 6 of net"):
        filled(NET, TEXT, {"N": value})
