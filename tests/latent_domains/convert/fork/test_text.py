"""Template fields are filled where they stand, unknown fields are passed over, and nothing else changes."""

from pathlib import Path

import pytest
from caffe.proto.caffe_pb2 import NetParameter, PoolingParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.text import read_template

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

ALL = {"WHO": "ours", "N": "7", "LOST": "x", "LIST": "a b.txt", "ROWS": "9", "L": "0.25"}


def read(folder: Path, values: dict[str, str], text: str = TEXT) -> tuple[NetParameter, list[str]]:
    (folder / "net").write_text(text)
    return read_template(folder / "net", values)


def test_values_take_the_places_of_template_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, missing = read(tmp_path, ALL)
    assert missing == [] and net.name == "net of ours"
    assert net.layer[0].inner_product_param.num_output == 7
    data = net.layer[1].image_data_param
    assert (data.source, data.batch_size, list(net.layer[1].loss_weight)) == ("lists/a b.txt", 9, [0.25, 2])
    assert net.layer[3].python_param.layer == "MultiModalBatchNorm"
    assert '"eps": 0.001' in net.layer[3].python_param.param_str
    assert 'net:5:3 : Message type "caffe.LayerParameter" has no field named "strange"' in capsys.readouterr().err


def test_a_ceil_mode_is_a_round_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, _ = read(tmp_path, {}, 'layer { name: "p" type: "Pooling" pooling_param { ceil_mode: false } }')
    assert net.layer[0].pooling_param.round_mode == PoolingParameter.FLOOR
    assert capsys.readouterr().err == ""


def test_a_deploy_net_needs_less_than_a_training_net(tmp_path: Path) -> None:
    deploy = {name: ALL[name] for name in ("WHO", "N", "LOST")}
    net, missing = read(tmp_path, deploy)
    assert missing == ["L", "LIST", "ROWS"] and net.layer[1].image_data_param.batch_size == 1
    assert read(tmp_path, {**deploy, "ROWS": "9"})[1] == ["L", "LIST"]
    for values, message in (
        ({"LOST": "x"}, "net: it needs a value for N, WHO: give"),
        ({**ALL, "IN_A_COMMENT": "x"}, "--set IN_A_COMMENT: .*net has no such template field; it has L, LIST, LOST"),
    ):
        with pytest.raises(ProgramError, match=message):
            read(tmp_path, values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer {\n name: }", "2:8 : ' name: }': Expected string but found: '}'"),
        ("layer {\n strange { deep: ", "not a prototxt"),
        ("strange { " + "deep { " * 5000, "not a prototxt"),
        ("layer { type: 'Nobody' }", "is not allowed"),
    ],
)
def test_other_text_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as error:
        read(tmp_path, {}, text)
    assert str(error.value).startswith(f"{tmp_path}/net: ") and message in str(error.value)
