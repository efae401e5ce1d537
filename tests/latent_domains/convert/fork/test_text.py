"""Template fields are filled where they stand, unknown fields are passed over, and nothing else changes."""

from pathlib import Path

import pytest
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.text import check_given, read_net, read_template

TEXT = """# source: "%IN_A_COMMENT%"
name: "net of %WHO%"
layer {
  name: 'fc' type: "InnerProduct" bottom: "a" top: "b"
  strange { deep { name: "%LOST%" } list: [1, 2] }
  inner_product_param < num_output: %N%; weight_filler { type: "gaussian" oddity: -1.5e-3 } >
}
layer {
  name: "x" type: "ImageData" top: "a"
  image_data_param { source: "lists/%LIST%" batch_size: %ROWS% }
  loss_weight: [%L%, 2]
}
layer { name: "y" type: "ImageData" top: "a" image_data_param { source: "%TEST_LIST%" } }
layer { name: "z" type: "MultiModalBatchNorm" multimodal_batch_norm_param { eps: 1e-3 } }
"""

NET = Path("net")


def read(values: dict[str, str], text: str = TEXT) -> NetParameter:
    return read_net(NET, text, values)


def test_values_take_the_places_of_template_fields(capsys: pytest.CaptureFixture[str]) -> None:
    net = read({"WHO": "ours", "N": "7", "LIST": "a b.txt", "ROWS": "9", "L": "0.25"})
    assert net.name == "net of ours"
    assert net.layer[0].inner_product_param.num_output == 7
    assert net.layer[1].image_data_param.source == "lists/a b.txt"
    assert net.layer[1].image_data_param.batch_size == 9
    assert list(net.layer[1].loss_weight) == [0.25, 2]
    assert (
        net.layer[3].python_param.layer == "MultiModalBatchNorm"
        and '"eps": 0.001' in net.layer[3].python_param.param_str
    )
    assert 'warning: net:5:3 : Message type "caffe.LayerParameter" has no field named "strange"' in (
        capsys.readouterr().err
    )
    assert read({"N": "3"}).layer[1].image_data_param.batch_size == 1


def test_a_deploy_net_needs_less_than_a_training_net(tmp_path: Path) -> None:
    (tmp_path / "net").write_text(TEXT)
    text = read_template(tmp_path / "net")
    assert check_given(NET, text, ["WHO", "N", "LOST"]) == ["L", "LIST", "ROWS"]
    assert check_given(NET, text, ["WHO", "N", "LOST", "L", "LIST", "ROWS"]) == []
    with pytest.raises(ProgramError, match=r"net: it needs a value for N, WHO: .* training net also L, LIST, ROWS"):
        check_given(NET, text, ["LOST"])
    with pytest.raises(ProgramError, match="net: it needs a value for L, LIST: "):
        check_given(NET, text, ["WHO", "N", "LOST", "ROWS"])
    with pytest.raises(ProgramError, match="--set IN_A_COMMENT: net has no such template field"):
        check_given(NET, text, ["WHO", "N", "LOST", "IN_A_COMMENT"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer {\n name: }", "2:8 : ' name: }': Expected string but found: '}'"),
        ("layer {\n strange { deep: ", "not a prototxt"),
        ("strange { " + "deep { " * 5000, "not a prototxt"),
        ("layer { type: 'Nobody' }", "is not allowed"),
    ],
)
def test_other_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProgramError) as error:
        read({}, text)
    assert str(error.value).startswith("net: ") and message in str(error.value)
