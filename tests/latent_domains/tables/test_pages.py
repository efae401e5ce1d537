"""Figures of records in the text of pages, between comments."""

import re
from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.tables.figures import Kept
from latent_domains.tables.pages import figure, filled
from tests.latent_domains.tables.tables import kept_targets
from tests.programs import program


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Kept:
    return kept_targets(tmp_path_factory.mktemp("kept"))


def page(tmp_path: Path, kept: Kept, text: str) -> str:
    """A page's text, filled."""
    (tmp_path / "page.md").write_text(text)
    return filled(tmp_path / "page.md", lambda name: {"small": kept}[name])


@pytest.mark.parametrize(
    ("marker", "expected"),
    [
        ("mDA; Sketch; {accuracy} %", "65.0 %"),
        ("mDA; {accuracy}", "74.0"),
        ("mDA; *; {accuracy}", "83.0 and 65.0"),
        ("mDA*; Sketch; {accuracy}", "65.0 to 67.0"),
        ("mDA less DIAL; Photo; {gain over} is {gain over DIAL}", "+2.0 is +2.0"),
    ],
)
def test_a_figure_stands_in_a_sentence(marker, expected, tmp_path, kept):
    assert figure(f"small: {marker}", lambda _: kept) == expected
    text = "It has <!-- from results/small: {} -->{}<!-- end -->, and <!-- no --> more.\n"
    assert page(tmp_path, kept, text.format(marker, "old")) == text.format(marker, expected)


def test_a_text_that_says_so_keeps_its_line_breaks(tmp_path, kept):
    text = "It is <!-- from results/small: mDA; {less\n  DIAL} -->+2.50\n(−16.56 to +21.56)<!-- end -->.\n"
    assert page(tmp_path, kept, text) == text


def test_a_table_is_filled_below_its_heading(tmp_path, kept):
    text = """- A list:

  <!-- from results/small: {accuracy} ({class mean}); {accuracy}; {less DIAL} -->
  | two seeds | Photo | Sketch | mean | less DIAL |
  | --- | --- | --- | --- | --- |
  | DIAL |
  | ours <!-- mDA --> | 1 | 2 | 3 | 4 |
  | source only |
  <!-- end -->
"""
    lines = page(tmp_path, kept, text).splitlines()
    assert lines[:5] == text.splitlines()[:5]
    assert lines[5:] == [
        "  | DIAL | 81.0 (65.0) | 62.0 (65.0) | 71.5 |  |",
        "  | ours <!-- mDA --> | 83.0 (65.0) | 65.0 (65.0) | 74.0 | +2.50 (−16.56 to +21.56) |",
        "  | source only | – | – | – | – |",
        "  <!-- end -->",
    ]


def test_the_lines_of_a_table_are_columns_of_a_row_or_rows_in_a_column(tmp_path, kept):
    text = "<!-- from results/small: {}; {{accuracy}}; {{paper}} -->\n| | here | paper |\n| - | - | - |\n| {} |\n"
    text += "<!-- end -->\n"
    assert "| Sketch | 65.0 | 92.0 |" in page(tmp_path, kept, text.format("mDA", "Sketch"))
    assert "| mean | 74.0 | 86.5 |" in page(tmp_path, kept, text.format("mDA", "mean"))
    assert "| mDA | 65.0 | 92.0 |" in page(tmp_path, kept, text.format("Sketch", "mDA"))
    assert "| mDA, centred logits | 67.0 | – |" in page(tmp_path, kept, text.format("Sketch", "mDA, centred logits"))


TABLE = "<!-- from results/small: {} -->\n| | Photo | mean |\n| - | - | - |\n| mDA |\n<!-- end -->\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "A <!-- from results/small: mDA; {accuracy} -->1",
            "found 1 markers 'from results/', 0 of them with ':' and 'end'",
        ),
        ("- <!-- from results/small: mDA; {accuracy} -->1<!-- end -->", "line 1: found it at the beginning of a line"),
        (
            "A\nb <!-- from results/small: mda; {accuracy} -->1<!-- end -->",
            "line 2: small: found row 'mda', expected one of",
        ),
        (
            "A <!-- from results/small: mDA; Art; {accuracy} -->1<!-- end -->",
            "small: found column 'Art', expected Photo, ",
        ),
        (
            "A <!-- from results/small: mDA; accuracy -->1<!-- end -->",
            "found 'mDA; accuracy', expected names, then templates",
        ),
        (
            "A <!-- from results/small: DIAL; {purity} -->1<!-- end -->",
            "DIAL; mean: found no records that say {purity}",
        ),
        ("A <!-- from results/small: mDA*; {less DIAL} -->1<!-- end -->", "of several rows, expected a number of each"),
        (TABLE.format("{accuracy}"), "found 1 templates, expected 2: Photo; mean"),
        (TABLE.format("mDA; {accuracy}; {n}"), "small: found column 'mDA', expected Photo, Sketch or mean"),
    ],
)
def test_a_marker_that_cannot_be_filled_is_named(text, message, tmp_path, kept):
    with pytest.raises(ProgramError, match=re.escape(message)):
        page(tmp_path, kept, text)


def test_the_program_writes_pages_or_checks_them(tmp_path):
    file = tmp_path / "page.md"
    file.write_text("DIAL has <!-- from results/pacs: DIAL; Sketch; {n} -->2<!-- end --> seed.\n")
    wrong = program("pages", file, "--check")
    assert (wrong.returncode, "-->2<" in file.read_text()) == (1, True)
    assert f"error: {file}: not of the records, expected no change by make pages" in wrong.stderr
    assert program("pages", file).stdout == f"pages: 1, changed: {file}\n"
    assert "-->1<" in file.read_text() and program("pages", file, "--check").returncode == 0
    file.write_text("See <!-- from results/nowhere: DIAL; {n} -->2<!-- end -->.\n")
    assert "results/nowhere: no such folder, expected one of kept records" in program("pages", file).stderr
