"""A backbone's features and early statistics against the same by hand; what is no backbone."""

import cv2
import numpy as np
import pytest
from onnx import TensorProto, helper

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.program import ProgramError
from tests.onnx_models import FEATURES, FIRST, SECOND, TERMS, by_hand, model, statistics
from tests.tolerance import rounding

PICTURE = np.random.default_rng(1).integers(0, 256, (3, 12, 12)).astype(np.uint8)


def backbone(made=None, **options) -> OnnxBackbone:
    return OnnxBackbone(made or model(), "x.onnx", "0123", **options)


def test_features_then_means_and_deviations_of_each_block():
    found = backbone(early=("one", "second"), mean=(127.0,), scale=(0.01,))
    one, two, features = by_hand((PICTURE[:, 2:10, 2:10] - 127.0) * 0.01)
    row = found.features(PICTURE)
    assert row.dtype == np.float32 and len(row) == found.row_size == FEATURES + found.early_size
    assert found.early_size == 2 * (FIRST + SECOND)
    np.testing.assert_allclose(row, [*features, *statistics(one, two)], rtol=0, atol=rounding(TERMS, row))


def test_onnx_backbone_a_map_whose_channels_come_last_is_read_so():
    """As of Swin, of ConvNeXt and of nets of TensorFlow; the description differs, for the statistics did."""
    made = model()
    made.graph.node.append(helper.make_node("Transpose", ["two"], ["last"], perm=[0, 2, 3, 1]))
    made.graph.node.append(helper.make_node("Transpose", ["features"], ["row"], perm=[0, 2, 3, 1]))
    first, last = backbone(made, early=("two",)), backbone(made, layer="row", early=("last",))
    np.testing.assert_allclose(last.features(PICTURE), first.features(PICTURE), rtol=1e-6)
    assert last.description["channels_last"] == "last" and "channels_last" not in first.description


def test_onnx_backbone_how_pixels_enter_is_part_of_the_model():
    form = {"size": 10, "mean": (1.0, 2.0, 3.0), "scale": (0.1, 0.2, 0.3), "order": "rgb"}
    found = backbone(**form)
    resized = cv2.resize(PICTURE.transpose(1, 2, 0), (10, 10))[1:9, 1:9, ::-1].transpose(2, 0, 1)
    entering = (resized - np.reshape(form["mean"], (3, 1, 1))) * np.reshape(form["scale"], (3, 1, 1))
    row = found.features(PICTURE)
    np.testing.assert_allclose(row, by_hand(entering)[2], rtol=0, atol=rounding(TERMS, row))
    said = {"layer": "features", "early": "", "size": 10, "crop": 8, "mean": "1 2 3", "scale": "0.1 0.2 0.3"}
    assert found.description == {"weights": "0123", **said, "order": "rgb"}


@pytest.mark.parametrize("change", [{"layer": "classes"}, {"early": ("one",)}, {"mean": (1.0,)}, {"order": "rgb"}])
def test_onnx_backbone_another_description_has_another_digest(change):
    assert backbone().digest == backbone().digest != backbone(**change).digest


def test_onnx_backbone_a_layer_is_a_value_or_a_node():
    rows = [backbone(layer=name).features(PICTURE) for name in ("features", "pool", "flat")]
    assert np.array_equal(rows[0], rows[1]) and np.array_equal(rows[0], rows[2])
    assert len(backbone(layer="head").features(PICTURE)) == 5


def with_two_inputs():
    made = model()
    made.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))
    return made


def with_channels_last():
    made = model()
    for dim, size in zip(made.graph.input[0].type.tensor_type.shape.dim[1:], (8, 8, 3), strict=True):
        dim.dim_value = size
    return made


@pytest.mark.parametrize(
    ("made", "options", "message"),
    [
        (model(outputs=("features", "classes")), {}, "x.onnx: its outputs are features, classes: --layer chooses one"),
        (model(), {"layer": "fc7"}, "no layer 'fc7' among its 8 values, the last of which are two_relu, three, feat"),
        (model(), {"early": ("stem",)}, "no layer 'stem' among its 8 values"),
        (model("side"), {}, "the size of its input pixels is free: --crop says the side"),
        (model(), {"crop": 6}, "x.onnx: ONNX Runtime fails on pixels 1×3×6×6: .*Got: 6 Expected: 8"),
        (model(batch=4), {}, "ONNX Runtime fails on pixels 1×3×8×8: .*Got: 1 Expected: 4"),
        (with_channels_last(), {}, "its input pixels is N×8×8×3, expected pictures, N×3×H×W"),
        (with_two_inputs(), {}, "its inputs are pixels, more, expected a single one"),
        (model("side"), {"crop": 8, "layer": "three"}, "three is 1×6×8×8 for one picture, expected a row of numbers"),
        (model(), {"early": ("flat",)}, "flat is 1×6 for one picture, expected maps of several channels"),
        (model(), {"size": 7}, "--size: got 7, expected at least 8, the side of what x.onnx takes"),
    ],
)
def test_onnx_backbone_what_is_no_backbone_is_said(made, options, message):
    with pytest.raises(ProgramError, match=message):
        backbone(made, **options)


def test_onnx_backbone_pictures_that_are_too_small_are_said():
    with pytest.raises(ProgramError, match="takes squares of 8, found pictures of 3×4×4: pass --size 8"):
        backbone().features(PICTURE[:, :4, :4])
