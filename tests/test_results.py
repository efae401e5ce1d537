"""What the README says of the paper's table is what the kept table says, and that is made of the kept records."""

from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from tests.programs import program

RESULTS = ROOT / "results"


def cells(text: str) -> list[list[str]]:
    """The rows of the tables of a Markdown text, without the marks of footnotes."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.split(" [")[0].strip() for cell in row] for row in rows]


def test_the_readme_has_the_kept_table():
    table, _, _ = (RESULTS / "digits/table.md").read_text().partition("\n## ")
    kept = [row[:4] for row in cells(table)[2:]]
    readme = [row[:4] for row in cells((ROOT / "README.md").read_text())]
    assert len(kept) == 13
    for row in kept:
        assert row in readme


@pytest.mark.parametrize(
    ("kept", "definition", "iterations"),
    [
        ("digits_first", RESULTS / "digits_first/digits.yaml", ()),
        ("digits_first_200", RESULTS / "digits_first/digits.yaml", ("--iterations", 200)),
        ("digits", "digits", ()),
        ("digits_branch", "digits_branch", ()),
        ("digits_branch_2000", "digits_branch_2000", ()),
        ("digits_branch_k", "digits_branch_k", ()),
        ("digits_mixtures", "digits_mixtures", ()),
        ("digits_resizing", "digits_resizing", ()),
        ("demo", "demo", ()),
        ("pacs_features", "pacs_features", ()),
    ],
)
def test_a_kept_table_is_that_of_the_kept_records(
    kept: str, definition: str | Path, iterations: tuple[object, ...], tmp_path: Path
):
    """Its first line says over which seeds it goes."""
    folder = RESULTS / kept
    table = (folder / "table.md").read_text()
    seeds = table.split("over seed")[1].split(", always")[0].removeprefix("s").replace(" ", "")
    choices = ("--records", folder, "--seeds", seeds, *iterations)
    done = program("tables.__main__", definition, *choices, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert next(tmp_path.glob("*.md")).read_text() == table
