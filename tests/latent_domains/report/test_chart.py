"""Charts in files."""

import re

import cv2
import numpy as np

from latent_domains.experiment.methods import METHODS
from latent_domains.report.chart import COLOURS, GROUP_COLOURS, Chart, image, in_legend, save


def chart(**options):
    return Chart(**{"title": "<T> $x$", "alt": "A line & more", "draw": lambda axes: axes.plot([0, 1]), **options})


def test_image_charts_stand_side_by_side(tmp_path):
    assert "&lt;T&gt; $x$" in image([chart()]).decode()
    for name, charts, columns in (("one", 1, None), ("two", 2, None), ("four", 4, 2), ("short", 3, 2)):
        save(tmp_path / f"{name}.png", [chart()] * charts, columns)
    one, two, four, short = (cv2.imread(str(tmp_path / f"{name}.png")) for name in ("one", "two", "four", "short"))
    assert one.std() > 5 and two.shape[1] > 1.8 * one.shape[1]
    assert four.shape == short.shape and four.shape[0] > 1.8 * two.shape[0]


def test_title_and_legend_end_within_the_picture(tmp_path):
    def draw(axes):
        axes.set_yticks([0, 1], ["a name of a domain", "b"])
        for line in "abc":
            axes.plot([0, 1], label=f"{line}, a label of {9 * 'several '}words")

    save(tmp_path / "a.png", [chart(draw=draw, title=12 * "words ")])
    pixels = cv2.imread(str(tmp_path / "a.png")).min(axis=2)
    assert pixels[:, :8].min() > 200 and pixels[:, -8:].min() > 200


def test_image_long_names_stand_whole_in_the_legend():
    names = [f"mDA, k=2, centred logits, branch on early statistics, equal classes, number {number}" for number in "12"]

    def draw(axes):
        for name in names:
            axes.plot([0, 1], label=name)

    texts = re.findall(r"<text[^>]*>\s*([^<]*)</text>", image([chart(draw=draw)]).decode())
    shown = " ".join(text.strip() for text in texts)
    assert all(name in shown for name in names), shown


def test_image_a_long_title_leaves_room_for_the_chart(recwarn):
    targets = [f"camera_{number}_parking_north" for number in range(15)]
    title = f"Accuracy on {'+'.join(targets)}"
    texts = re.findall(r"<text[^>]*>\s*([^<]*)</text>", image([chart(title=title, width=420, height=114)]).decode())
    first, second = (text for text in texts if "camera" in text)
    assert title.startswith(first + second.removesuffix("…")) and second.endswith("…")
    assert not recwarn.list, "Matplotlib warns of axes without room"


def test_image_a_legend_names_what_begins_with_an_underscore():
    names = ["_background_", "dog", "\x07"]

    def draw(axes):
        for name in names:
            axes.plot([0, 1], label=in_legend(name))

    texts = re.findall(r"<text[^>]*>\s*([^<]*)</text>", image([chart(draw=draw)]).decode())
    assert [text for text in texts if text in ("_background_", "dog", "\ufffd")] == ["_background_", "dog", "\ufffd"]


def test_colours_stand_out_from_their_ground():
    def luminance(colour):
        values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    least = {"ground": 1, "grid": 1.2, "ink": 7, "muted": 4.5}
    methods = {name: method.colour for name, method in METHODS.items()}
    for name, colour in {**COLOURS, **methods, **dict(enumerate(GROUP_COLOURS))}.items():
        contrast = (luminance(COLOURS["ground"]) + 0.05) / (luminance(colour) + 0.05)
        assert contrast >= least.get(name, 2.9), name
