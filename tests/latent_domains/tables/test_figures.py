"""Figures of a place in a table, as pages show them."""

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.tables.figures import Kept, Place
from tests.latent_domains.tables.tables import kept_targets


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Kept:
    return kept_targets(tmp_path_factory.mktemp("kept"))


def text(kept: Kept, row: str, column: int | None, template: str) -> str | None:
    return Place(kept, kept.row(row), column, kept.row("DIAL")).text(template)


@pytest.mark.parametrize(
    ("column", "template", "expected"),
    [
        (0, "{accuracy} of {paper}, n {n}", "83.0 of 81.0, n 2"),
        (None, "{accuracy:2} of {paper}", "74.00 of 86.5"),
        (0, "{accuracy of seeds:0}; {accuracy ±}", "83 83; 83.00 ± 0"),
        (0, "{class mean}", "65.0"),
        (0, "{purity} ({purity range:1}) {purity of seeds}", "0.75 (0.7 to 0.8) 0.70 0.80"),
        (None, "{NMI of seeds}, {largest share}", "0.25 0.25, 70.0"),
        (0, "{recall of dog} and {recall of elephant:1}", "80 and 50.0"),
        (0, "{gain over the paper}, {gain over DIAL}", "+2.0, +2.0"),
        (1, "{points above DIAL:0}, {paper gain over DIAL}", "3, +2.0"),
        # Student's t of one degree of freedom is 12.706; 4 and 1 have s/√2 = 1.5, 2 and 3 have 0.5
        (None, "{less DIAL}", "+2.50 (−16.56 to +21.56)"),
        (None, "{less}, {interval from DIAL}", "+2.50 (−16.56 to +21.56), −16.56 to +21.56"),
        (None, "{less DIAL over targets}", "+2.50 (−3.85 to +8.85)"),
        (None, "{less over targets}", "+2.50 (−3.85 to +8.85)"),
        (None, "{class mean less DIAL over targets}", "0.00 (0.00 to 0.00)"),
        (None, "{paper less DIAL over targets}", "+1.50 (−4.85 to +7.85)"),
        (None, "{paper gain over DIAL:2}", "+1.50"),
        (None, "{resolvable from DIAL over targets}", "8.2"),
    ],
)
def test_a_figure_is_of_the_records(kept, column, template, expected):
    assert text(kept, "mDA", column, template) == expected


def test_counts_are_of_one_run(tmp_path):
    kept = kept_targets(tmp_path)
    with pytest.raises(ProgramError, match="mDA: images in 2: found several runs, expected one"):
        text(kept, "mDA", 0, "{images in 2}")
    (kept.folder / "records.jsonl").write_text(
        "".join(line for line in (kept.folder / "records.jsonl").open() if "seed0" in line)
    )
    assert text(Kept(kept.table, kept.folder), "mDA", 0, "{images in 1} and {images in 2}") == "50, 20 and 0, 30"


@pytest.mark.parametrize(
    ("row", "template"),
    [("DIAL", "{purity}"), ("DIAL", "{less DIAL}"), ("source only", "{accuracy}"), ("source only", "{paper}")],
)
def test_what_is_not_there_leaves_no_text(kept, row, template):
    assert text(kept, row, None, f"so {template}") is None


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{accurasy}", r"found \{accurasy\}, expected accuracy, class mean, "),
        ("{less dial}", "small: found row 'dial', expected one of DIAL; mDA"),
        ("{less pacs_160/DIAL}", "pacs_160/DIAL: found other columns than those of small, expected the same"),
        ("{recall of cat}", "recall of cat: found no such class, expected one of dog"),
        ("{points below DIAL}", r"points below DIAL: found \+2\.0 points, expected words that say so"),
    ],
)
def test_a_figure_that_is_none_is_an_error(kept, template, message):
    with pytest.raises(ProgramError, match=message):
        text(kept, "mDA", 0, template)
