"""What the charts are drawn from, and what they say in words."""

import re
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from latent_domains.report.embedding import by_chance, embed, neighbours_alike
from matplotlib.figure import Figure

from latent_domains.report import classes, domains
from latent_domains.report.chart import Chart, save_together
from latent_domains.report.legend import _MARKS, Key
from latent_domains.report.page import Charts, Page, Section
from latent_domains.report.palette import COLOURS, DASHES, LIGHT, MARKS, VARIABLES
from latent_domains.report.samples import mosaic, strip
from latent_domains.report.training import BINS, binned


def chart(**options):
    return Chart(
        **{"name": "a b", "title": "<T> $x$", "alt": "A line & more", "draw": lambda axes: axes.plot([0, 1]), **options}
    )


def test_an_inline_chart_has_words_variables_and_no_ids_of_others():
    first, second = (
        chart(name=name, draw=lambda axes: axes.plot([0, 1], "o", color=LIGHT["mda"])).inline()
        for name in ("one", "two")
    )
    assert '<title id="one-title">&lt;T&gt; $x$</title>' in first and "A line &amp; more</desc>" in first
    assert "var(--mda)" in first and LIGHT["mda"] not in first
    assert "DejaVu" not in first and "<style" not in first and "metadata" not in first
    ids = [set(re.findall(r'\bid="([^"]+)"', text)) for text in (first, second)]
    assert ids[0] and not ids[0] & ids[1]
    for text, own in zip((first, second), ids, strict=True):
        assert set(re.findall(r"#([\w-]+)[\")]", text)) <= own


def test_names_that_no_page_can_hold_and_letters_that_the_font_lacks(tmp_path, recwarn):
    awkward = "犬\x01\udcff"
    drawn = classes.confusion_chart(np.eye(2, dtype=np.int64), [awkward, "b"], awkward, awkward)
    assert "犬\N{REPLACEMENT CHARACTER}" in drawn.inline() and "\x01" not in drawn.inline()
    for file in drawn.save(tmp_path):
        assert file.stat().st_size > 1000
    page = Page(awkward, [awkward], [Section("a", awkward, [Charts([drawn], awkward)])], "").html()
    page.encode()
    assert not recwarn.list


def test_a_chart_in_files(tmp_path):
    svg, png = chart().save(tmp_path)
    assert (svg.name, png.name) == ("a-b.svg", "a-b.png")
    assert "&lt;T&gt; $x$" in svg.read_text()
    picture = cv2.imread(str(png))
    assert picture is not None and picture.std() > 5
    save_together(tmp_path / "both.png", [chart(), chart()])
    both = cv2.imread(str(tmp_path / "both.png"))
    assert both.shape[1] > 1.8 * picture.shape[1]
    save_together(tmp_path / "four.png", [chart(), chart()], columns=4)  # a net without alignment has two of four
    assert cv2.imread(str(tmp_path / "four.png")).shape == both.shape


def test_colours_are_variables_and_stand_out_from_their_ground():
    assert len(VARIABLES) == len(COLOURS)

    def luminance(colour):
        values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    for name, pair in COLOURS.items():
        for colour, ground in zip(pair, COLOURS["ground"], strict=True):
            lighter, darker = sorted((luminance(colour), luminance(ground)), reverse=True)
            contrast = (lighter + 0.05) / (darker + 0.05)
            least = {"ground": 1, "grid": 1.2, "ink": 7, "muted": 4.5}.get(name, 2.9)
            assert contrast >= least, (name, colour, contrast)


def test_every_mark_and_dash_has_its_place_in_a_legend():
    assert set(MARKS) <= set(_MARKS)
    for mark in MARKS:
        for dashes in (*DASHES, None):
            assert "<svg" in Key("x", LIGHT["mda"], mark, dashes).swatch()
    assert "&lt;" in Key("x", LIGHT["mda"], "<b>").swatch()


def test_curves_are_averaged_in_bins_over_iterations_that_all_have():
    long = {i: float(i) for i in range(0, 1000, 10)}
    iterations, values = binned([long, {**long, 5: 100.0}])
    assert len(iterations) == BINS and values.shape == (2, BINS)
    np.testing.assert_allclose(values[0], iterations)
    np.testing.assert_allclose(values[1], iterations)
    iterations, values = binned([{0: 0.0, 10: 10.0}, {5: 1.0}])
    assert iterations.tolist() == [0, 5, 10]
    assert values.tolist() == [[0, 5, 10], [1, 1, 1]]


def usage(counts, iteration=0):
    counts = np.array(counts)
    share = (counts.sum(axis=0) / counts.sum()).tolist()
    return {
        "sources": ["a", "b"],
        "images": int(counts.sum()),
        "counts": counts.tolist(),
        "share": share,
        "purity": 0.5,
        "nmi": 0.0 if max(share) > 0.9 else 0.8,
        "iteration": iteration,
    }


def test_a_collapsed_branch_is_told():
    collapsed = usage([[10, 0], [10, 0]])
    history = [usage([[5, 5], [7, 3]]), collapsed]
    told = domains.told(collapsed, history)
    assert "100.0 % went to s₁, 0.0 % went to s₂" in told
    assert "The branch collapsed" in told and "the initialisation put 60 % of them into one domain" in told
    found = domains.told(usage([[10, 0], [0, 10]]), [])
    assert "collapsed" not in found and "largely are the true ones" in found and "initialisation" not in found


def test_matrices_hold_their_numbers():
    drawn = domains.matrix_chart(usage([[30, 10], [0, 0]]), "m")
    axes = Figure().subplots()
    drawn.draw(axes)
    assert [text.get_text() for text in axes.texts] == ["75.0 %", "25.0 %", "0.0 %", "0.0 %"]
    assert "a: 75.0 % in s₁, 25.0 % in s₂" in drawn.alt


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


def test_features_in_two_dimensions():
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 30)
    features = rng.normal(size=(60, 80)).astype(np.float32)
    assert abs(neighbours_alike(features, groups) - by_chance(groups)) < 0.2
    features[groups == 1] += 10
    assert neighbours_alike(features, groups) == 1
    points = embed(features)
    assert points.shape == (60, 2) and np.array_equal(points, embed(features))
    assert neighbours_alike(points, groups) == 1


def test_pictures_in_a_strip():
    images = np.zeros((3, 3, 4, 6), np.uint8)
    images[0, 2] = 200  # red, in BGR
    assert mosaic(images, 2)[0, 0].tolist() == [200, 0, 0]
    assert mosaic(images, 2)[-1, -1].tolist() == [255, 255, 255]
    decoded = cv2.imdecode(np.frombuffer(strip(images, 3, side=24), np.uint8), cv2.IMREAD_COLOR)
    assert decoded.shape == (16, 24 * 3 + 4, 3)
    assert decoded[8, 12, 2] > 180 and decoded[8, 12, 0] < 30
    assert strip(images[:, :1], 3)
