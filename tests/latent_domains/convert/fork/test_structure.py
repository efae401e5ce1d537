"""What is no net of the fork's is refused by the names of its layers; what is one is recognised by its structure."""

from collections.abc import Callable
from pathlib import Path

import pytest
from caffe.proto.caffe_pb2 import NetParameter, PoolingParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.converter import Conversion
from latent_domains.convert.fork.structure import read_template
from tests.latent_domains.convert.fork.fork_nets import digits


def conversion(folder: Path, text: str, values: dict[str, str]) -> Conversion:
    (folder / "net.prototxt").write_text(text)
    found = Conversion(folder / "net.prototxt", values)
    assert found.our_deploy().nodes and found.our_train(found.train).nodes
    return found


def in_layer(name: str, old: str, new: str, phase: str = "TRAIN") -> Callable[[str], str]:
    """An edit of one layer."""

    def edit(text: str) -> str:
        layers = text.split("layer {\n")
        (index,) = (
            i
            for i, layer in enumerate(layers)
            if layer.startswith(f'  name: "{name}"\n') and (f"phase: {phase}" in layer or "include" not in layer)
        )
        assert old in layers[index]
        layers[index] = layers[index].replace(old, new)
        return "layer {\n".join(layers)

    return edit


def extra(layer: str) -> Callable[[str], str]:
    return lambda text: text + layer


ODD = r"in the TRAIN phase: MultiModalBatchNorm layers fc[35] s norm 0, fc[35] s norm 1.* used in another way than"
SPY = 'layer { name: "spy" type: "Power" bottom: "fc3 s of 1" top: "spy" include { phase: TRAIN } }'
REFUSED = {
    "a parameter of one domain": (
        in_layer("fc3 s norm 1", "0.95", "0.9"),
        r"layer fc3 s norm 1 \(MultiModalBatchNorm\) has .*0\.9}, but fc3 s norm 0 has .*0\.95}: expected the same",
    ),
    "a weighted sum": (in_layer("fc3 s sum TRAIN", "coeff: 1 coeff: 1", "coeff: 1 coeff: 0.5"), ODD),
    "one domain twice": (in_layer("fc3 s norm 1", '"s1"', '"s0"'), ODD),
    "rows that are not normalised": (in_layer("join fc3", '"fc3 tn"', '"fc3 t"'), ODD),
    "other rows": (in_layer("fc3 bn", '"fc3 t"', '"fc3 s"'), ODD),
    "weights that are no softmax": (in_layer("soft s", '"Softmax"', '"Sigmoid"'), "conv1 s norm 0, .*fc5 s norm 1 are"),
    "a share that is read elsewhere": (
        extra(SPY),
        r"other layers read the output of fc3 s norm 1 \(MultiModalBatchNorm\), too",
    ),
    "no target in the tests": (
        in_layer("fc3 bn", 'name: "fc3 bn"', 'name: "another"', "TEST"),
        r"TEST phase: found no layers fc3 bn that normalise the targets as join fc3 \(Concat\) does in the TRAIN phase",
    ),
    "a blob of nobody": (
        in_layer("fc3", 'bottom: "pool2"', 'bottom: "pol2"'),
        r"in the TRAIN phase, layer fc3 \(InnerProduct\) reads pol2, which no layer before it makes",
    ),
    "no accuracy": (
        lambda text: text[: text.rindex("layer {")],
        "TEST phase, found none as class scores",
    ),
    "an entropy that is a sum": (
        in_layer("doubt", 'type: "EntropyLoss"', 'type: "EntropyLoss" loss_param { normalization: NONE }'),
        r"layer doubt \(EntropyLoss\) has normalization NONE and axis 1, expected VALID or FULL, and axis 1",
    ),
    "no rows": (in_layer("d0", "%ROWS0%", "0"), r"data layer d0 \(ImageData\) gives no rows, expected at least 1"),
    "a name for two": (
        in_layer("relu3", '"relu3"', '"fc3_mda"'),
        r"layers fc3_mda \(MDALayer\) and fc3_mda \(ReLU\) would both be called fc3_mda",
    ),
    "old layers": (lambda _: 'layers { name: "a" type: RELU bottom: "a" top: "a" }', "are of Caffe's old format"),
    "a plain net": (
        lambda _: 'layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 1 } } }',
        "no layer is a MultiModalBatchNorm: expected a net of the authors' fork",
    ),
    "images of no size": (
        lambda text: text.replace("crop_size: 28", "").replace("new_height: 32 new_width: 32", ""),
        r"dt \(ImageData\) do not tell one size of images, expected crop_size",
    ),
}


@pytest.mark.parametrize(("edit", "message"), REFUSED.values(), ids=REFUSED)
def test_conversion_other_structures_are_refused_by_name(
    edit: Callable[[str], str], message: str, tmp_path: Path
) -> None:
    net = digits(2)
    text = edit(net.text)
    assert text != net.text
    with pytest.raises(ProgramError, match=message) as error:
        conversion(tmp_path, text, {name: value for name, value in net.values.items() if f"%{name}%" in text})
    assert "net.prototxt" in str(error.value)


RENAMED = in_layer("fc3 t norm 1", 'name: "fc3 t norm 1"', 'name: "fresh"', "TEST")
OF_ANOTHER = in_layer("fc3 t norm 1", 'name: "fc3 t norm 1"', 'name: "fc4 t norm 1"', "TEST")
SWAPPED = in_layer("cut t", 'top: "t0"\n  top: "t1"', 'top: "t1"\n  top: "t0"', "TEST")


@pytest.mark.parametrize("edit", [RENAMED, OF_ANOTHER, SWAPPED], ids=["new", "another's", "swapped"])
def test_conversion_latent_targets_are_the_same_in_tests(edit: Callable[[str], str], tmp_path: Path) -> None:
    net = digits(2, 2)
    with pytest.raises(ProgramError, match=r"TEST phase: found no layers \w+ t norm 0, \w+ t norm 1 that normalise"):
        conversion(tmp_path, edit(net.text), net.values)


def test_conversion_one_assignment_for_all_layers(tmp_path: Path) -> None:
    """A second softmax of the same logits is another assignment, in either phase."""
    net = digits(2, 2)
    for phase, where in (
        ("TRAIN", "TRAIN phase: the domains of fc3 t sum TRAIN"),
        ("TEST", "TEST phase: found no layers fc3 t norm 0"),
    ):
        text = net.text
        for i in range(2):
            text = in_layer(f"fc3 t norm {i}", f'bottom: "t{i}"', f'bottom: "u{i}"', phase)(text)
        second = (
            f'layer {{ name: "soft u" type: "Softmax" bottom: "t logits" top: "p u" include {{ phase: {phase} }} }}\n'
            f'layer {{ name: "cut u" type: "Slice" bottom: "p u" top: "u0" top: "u1" include {{ phase: {phase} }} }}\n'
        )
        at = text.index('layer {\n  name: "part conv1"')
        with pytest.raises(ProgramError, match=where):
            conversion(tmp_path, text[:at] + second + text[at:], net.values)


@pytest.mark.parametrize(("k", "k_targets"), [(1, 1), (2, 1), (5, 1), (1, 2), (2, 3)])
def test_conversion_any_number_of_domains_is_recognised(k: int, k_targets: int, tmp_path: Path) -> None:
    net = digits(k, k_targets)
    found = conversion(tmp_path, net.text, net.values)
    assert found.missing == []
    places = [tuple(norm.name for norm in group.norms) for group in found.groups]
    assert places == list(net.mda.values())
    assert {found.names.mda[norms[0]] for norms in places} == {f"{place}_mda" for place in net.mda}
    branch = {old: new for old, new in found.names.layers.items() if "domain" in new and "entropy" not in new}
    expected = {"s c": "domain_conv2", "s f": "domain_fc3", "s h": "domain_fc4"}
    if k_targets > 1:
        expected |= {"t c": "target_domain_conv2", "t f": "target_domain_fc3", "t h": "target_domain_fc4"}
    assert branch == expected


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


def test_read_template_values_take_the_places_of_template_fields(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net, missing = read(tmp_path, ALL)
    assert missing == [] and net.name == "net of ours"
    assert net.layer[0].inner_product_param.num_output == 7
    data = net.layer[1].image_data_param
    assert (data.source, data.batch_size, list(net.layer[1].loss_weight)) == ("lists/a b.txt", 9, [0.25, 2])
    assert net.layer[3].python_param.layer == "MultiModalBatchNorm"
    assert '"eps": 0.001' in net.layer[3].python_param.param_str
    assert 'net:5:3 : Message type "caffe.LayerParameter" has no field named "strange"' in capsys.readouterr().err


def test_read_template_a_ceil_mode_is_a_round_mode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, _ = read(tmp_path, {}, 'layer { name: "p" type: "Pooling" pooling_param { ceil_mode: false } }')
    assert net.layer[0].pooling_param.round_mode == PoolingParameter.FLOOR
    assert capsys.readouterr().err == ""


def test_read_template_a_deploy_net_needs_less_than_a_training_net(tmp_path: Path) -> None:
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
def test_read_template_other_text_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ProgramError) as error:
        read(tmp_path, {}, text)
    assert str(error.value).startswith(f"{tmp_path}/net: ") and message in str(error.value)
