"""What sets latent domains apart."""

import numpy as np
import pytest

from latent_domains.report.samples import LookedAt
from latent_domains.report.traits import SHOWN, traits, traits_blocks


def looked_at(assigned, labels, images=True, k=2):
    """Flat grey images, the brighter the higher the domain: 0, 51, … of 255."""
    assigned = np.array(assigned)
    pixels = (51 * assigned).astype(np.uint8)[:, None, None, None] * np.ones((1, 3, 4, 4), np.uint8)
    rows = np.eye(k, dtype=np.float32)[assigned]
    return LookedAt(pixels if images else None, np.array(labels), ["a"] * len(rows), rows, held_out=True)


def test_the_largest_difference_comes_first():
    brightness, share, *others = traits(looked_at([0, 0, 0, 1, 1, 1], [0, 0, 1, 0, 1, 1]), ["x", "y"])
    assert (brightness.name, share.name) == ("brightness", "class x")
    # 20 % against 0 %, which are one standard deviation (10 %) from their mean
    assert brightness.means == pytest.approx({0: 0, 1: 20}, abs=1e-4)
    assert brightness.differences == pytest.approx({0: -2, 1: 2}, abs=1e-4)
    assert share.means == pytest.approx({0: 200 / 3, 1: 100 / 3})
    assert share.differences == pytest.approx({0: (1 / 3) / 0.5, 1: (-1 / 3) / 0.5})
    assert [trait.name for trait in others if trait.largest] == ["class y"], "there is no colour, contrast or edge"


def test_each_domain_is_compared_with_all_others():
    """Three domains of four have images: 0 %, 20 %, twice 40 %."""
    brightness = traits(looked_at([0, 1, 2, 2], [0] * 4, k=4), ["x"])[0]
    assert brightness.means == pytest.approx({0: 0, 1: 20, 2: 40}, abs=1e-4)
    deviation = np.std([0, 20, 40, 40])
    expected = {0: -100 / 3 / deviation, 1: (20 - 80 / 3) / deviation, 2: 30 / deviation}
    assert brightness.differences == pytest.approx(expected, abs=1e-4)
    (table, _) = traits_blocks(looked_at([0, 1, 2, 2], [0] * 4, k=4), ["x"])
    assert table.header == ["trait", "#s₁", "#s₂", "#s₃", "#s₄"]
    assert table.rows == [["brightness", "0.0 (−2.01)", "20.0 (−0.40)", "40.0 (+1.81)", "–"]]


def test_features_have_classes_alone():
    found = looked_at([0, 1], [0, 1], images=False)
    assert [trait.name for trait in traits(found, ["x", "y"])] == ["class x", "class y"]
    assert traits_blocks(found, ["x", "y"])[1].text.startswith("By 2 held-out source images: the classes' shares in %.")


def test_one_domain_is_set_apart_from_nothing():
    assert traits_blocks(looked_at([1, 1], [0, 1]), ["x", "y"]) == []


def test_the_table_has_the_largest_traits():
    (table, _) = traits_blocks(looked_at([0, 0, 1, 1] * 5, range(20)), [str(label) for label in range(20)])
    assert len(table.rows) == SHOWN and table.rows[0][0] == "brightness"
