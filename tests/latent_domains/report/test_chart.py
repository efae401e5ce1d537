"""A chart as inline SVG and in files."""

import os
import re
import subprocess
import sys

import cv2
import matplotlib

from latent_domains.common.program import ROOT
from latent_domains.report.chart import Chart, save_together
from latent_domains.report.palette import LIGHT
from tests.programs import child


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


def test_title_and_legend_end_within_the_picture(tmp_path):
    def draw(axes):
        axes.set_yticks([0, 1], ["a name of a domain", "b"])
        for line in "abc":
            axes.plot([0, 1], label=f"{line}, a label of {9 * 'several '}words")

    chart(draw=draw, title=12 * "words ").save(tmp_path)
    pixels = cv2.imread(str(tmp_path / "a-b.png")).min(axis=2)
    assert pixels[:, :8].min() > 200 and pixels[:, -8:].min() > 200


def test_charts_do_not_depend_on_what_their_user_chose_for_matplotlib(tmp_path):
    expected = chart().inline()
    with matplotlib.rc_context({"text.usetex": True}):
        assert chart().inline() == expected


def test_settings_in_the_users_home_are_none_of_ours(tmp_path):
    (tmp_path / "matplotlib").mkdir()
    (tmp_path / "matplotlib" / "matplotlibrc").write_text("figure.dpi: -5")
    code = "import tools, matplotlib; print(matplotlib.rcParams['figure.dpi'])"
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.stdout == "100.0\n", done.stderr


def test_a_notebooks_backend_is_none_of_ours():
    done = child("report", "--help", env={"MPLBACKEND": "module://matplotlib_inline.backend_inline"})
    assert done.returncode == 0, done.stderr
