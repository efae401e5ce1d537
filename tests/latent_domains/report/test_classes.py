"""Which classes are taken for which."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

from latent_domains.report import classes


def test_commonest_errors():
    counts = {"x": np.array([[5, 2, 0], [1, 5, 0], [0, 0, 5]]), "y": np.array([[5, 2, 0], [9, 5, 0], [0, 0, 5]])}
    assert classes.most_confused(counts, "abc", 9) == [("b → a", "1", "9"), ("a → b", "2", "2")]
    assert counts["x"].trace() == 15


def test_a_class_without_test_images_has_no_accuracy():
    run = SimpleNamespace(experiment=SimpleNamespace(method="mda"))
    counts = {"x": (run, np.array([[3, 1, 0], [0, 4, 0], [0, 0, 0]]))}
    drawn = classes.class_chart(counts, "abc", "n", "t")
    assert drawn.alt == "x: worst a 75 %, best b 100 %; no test images of c"
    axes = Figure().subplots()
    drawn.draw(axes)
    (line,) = axes.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), [75, 100, np.nan])


@pytest.mark.parametrize("number", [2, 10, 31, 65])
def test_many_classes_are_drawn(number):
    counts = np.random.default_rng(0).integers(0, 30, (number, number))
    labels = [f"a_rather_long_name_{i}" for i in range(number)]
    drawn = classes.confusion_chart(counts, labels, "c", "t").inline()
    assert drawn.count("a_rather_long_n…") == (1 if number > 12 else 2) * number
