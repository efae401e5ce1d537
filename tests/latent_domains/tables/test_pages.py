"""Tables of pages, filled with figures of records."""

import re
from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.tables.pages import KeptTable, filled
from tests.latent_domains.tables.tables import kept_targets
from tests.programs import program


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> KeptTable:
    return kept_targets(tmp_path_factory.mktemp("kept"))


def page(tmp_path: Path, kept: KeptTable, text: str) -> str:
    """A page's text, filled."""
    (tmp_path / "page.md").write_text(text)
    return filled(tmp_path / "page.md", lambda name: {"small": kept}[name])


@pytest.mark.parametrize(
    ("column", "template", "expected"),
    [
        ("Photo", "{accuracy} of {paper}, n {n}", "83.0 of 81.0, n 2"),
        ("mean", "{accuracy:2} of {paper}", "74.00 of 86.5"),
        ("Photo", "{accuracy of seeds:0}; {accuracy ±}", "83 83; 83.00 ± 0"),
        ("Photo", "{class mean}", "65.0"),
        ("Photo", "{purity} ({purity range:1}) {purity of seeds}", "0.75 (0.7 to 0.8) 0.70 0.80"),
        ("mean", "{NMI of seeds}, {largest share}", "0.25 0.25, 70.0"),
        ("Photo", "{recall of dog} and {recall of elephant:1}", "80 and 50.0"),
        ("Photo", "{gain over the paper}, {gain over DIAL}", "+2.0, +2.0"),
        # Student's t of one degree of freedom is 12.706; 4 and 1 have s/√2 = 1.5
        ("mean", "{less DIAL}", "+2.50 (−16.56 to +21.56)"),
        # that of three is 3.182; 3, 1, 5 and 1 have s/√4 = 0.957
        ("mean", "{less DIAL over targets}, {gain over DIAL over targets}", "+2.50 (−0.55 to +5.55), +2.5"),
    ],
)
def test_text_has_figures_of_the_records(kept, column, template, expected):
    assert kept.text("mDA", column, template) == expected


@pytest.mark.parametrize(
    ("row", "template", "expected"),
    [("DIAL", "so {purity}", None), ("DIAL", "{less DIAL}", ""), ("source only", "{accuracy}", "–")],
)
def test_text_of_what_is_not_there(kept, row, template, expected):
    assert kept.text(row, "mean", template) == expected


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{accurasy}", r"found \{accurasy\}, expected accuracy or another figure"),
        ("{less dial}", "small: found row 'dial', expected one of DIAL; mDA"),
        ("{recall of cat}", "recall of cat: found no such class, expected one of dog"),
    ],
)
def test_text_refuses_what_is_no_figure(kept, template, message):
    with pytest.raises(ProgramError, match=message):
        kept.text("mDA", "Photo", template)


def test_filled_fills_a_table_below_its_heading(tmp_path, kept):
    text = """- A list:

  <!-- from results/small: {accuracy} ({class mean}); {accuracy}; {less
       DIAL} -->
  | two seeds | Photo | Sketch | mean | less DIAL |
  | --- | --- | --- | --- | --- |
  | DIAL |
  | ours <!-- mDA --> | 1 | 2 | 3 | 4 |
  | source only |
  <!-- end -->
"""
    lines = page(tmp_path, kept, text).splitlines()
    assert lines[:6] == text.splitlines()[:6]
    assert lines[6:] == [
        "  | DIAL | 81.0 (65.0) | 62.0 (65.0) | 71.5 |  |",
        "  | ours <!-- mDA --> | 83.0 (65.0) | 65.0 (65.0) | 74.0 | +2.50 (−16.56 to +21.56) |",
        "  | source only | – | – | – | – |",
        "  <!-- end -->",
    ]


def test_filled_fills_rows_of_one_column(tmp_path, kept):
    text = "<!-- from results/small: {}; {{accuracy}}; {{paper}} -->\n| | here | paper |\n| - | - | - |\n| {} |\n"
    text += "<!-- end -->\n"
    assert "| mDA | 65.0 | 92.0 |" in page(tmp_path, kept, text.format("Sketch", "mDA"))
    assert "| mDA | 74.0 | 86.5 |" in page(tmp_path, kept, text.format("mean", "mDA"))
    assert "| mDA, centred logits | 67.0 | – |" in page(tmp_path, kept, text.format("Sketch", "mDA, centred logits"))


TABLE = "<!-- from results/small: {} -->\n| | Photo | mean |\n| - | - | - |\n| {} |\n<!-- end -->\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A <!-- from results/small: mDA; {n} -->1<!-- end -->", "found 1 markers 'from results/', 0 of them"),
        (TABLE.format("{n}; {n}", "mda"), "line 1: small: found row 'mda', expected one of"),
        (TABLE.format("Art; {n}; {n}", "mDA"), "small: found column 'Art', expected Photo, "),
        (TABLE.format("mDA; accuracy", "mDA"), "found 'mDA; accuracy', expected templates"),
        (TABLE.format("{accuracy}", "mDA"), "found 1 templates, expected 2: Photo; mean"),
    ],
)
def test_filled_names_a_marker_that_cannot_be_filled(text, message, tmp_path, kept):
    with pytest.raises(ProgramError, match=re.escape(message)):
        page(tmp_path, kept, text)


def test_pages_the_program_writes_pages_or_checks_them(tmp_path):
    file, table = (
        tmp_path / "page.md",
        "<!-- from results/{}: {{n}} -->\n| | n |\n| - | - |\n| DIAL | 2 |\n<!-- end -->\n",
    )
    file.write_text(table.format("pacs, seeds 0 to 0"))
    wrong = program("pages", file, "--check")
    assert (wrong.returncode, "| 2 |" in file.read_text()) == (1, True)
    assert f"error: {file}: not of the records, expected no change by make pages" in wrong.stderr
    assert program("pages", file).stdout == f"pages: 1, changed: {file}\n"
    assert "| 1 |" in file.read_text() and program("pages", file, "--check").returncode == 0
    file.write_text(table.format("nowhere"))
    assert "results/nowhere: no such folder, expected one of kept records" in program("pages", file).stderr
