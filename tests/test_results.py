"""What pages say of accuracies is what the kept tables say, and those are made of the kept records."""

from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from latent_domains.runs.record import Record, read
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


def test_the_readme_has_what_the_demo_prints():
    """The kept records of seed 0 are of the demo's runs."""
    readme = cells((ROOT / "README.md").read_text().replace("    |", "|"))
    for title, name in (
        ("source only", "source_only"),
        ("DIAL", "dial"),
        ("mDA, k=2, centred logits", "mda_k2_branch-logits"),
        ("mDA, k=2", "mda_k2"),
    ):
        record = read(Record, RESULTS / f"demo/{name}_seed0.json")
        usage = record.domain_usage
        found = f"purity {usage.purity:.2f}, NMI {usage.nmi:.2f}" if usage else ""
        assert [title, f"{100 * record.accuracy:.1f} %", found] in readme


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


def test_the_table_of_the_page_about_gpus_is_that_of_the_records():
    def both(name: str) -> list[Record]:
        return [read(Record, RESULTS / folder / f"{name}.json") for folder in ("digits_gpu", "digits")]

    rows = cells((ROOT / "docs/gpu.md").read_text().partition("| seed |")[2].partition("\n\n")[0])
    records = 0
    for seed, *found in (row for row in rows if row[0].isdecimal()):
        expected = []
        for name in ("dial", "mda_k2", "mda_k2_branch-logits"):
            there = (RESULTS / f"digits_gpu/{name}_seed{seed}.json").exists()
            pair = both(f"{name}_seed{seed}") if there else []
            records += there
            expected.append(", ".join(f"{100 * record.accuracy:.2f}" for record in pair))
            if name != "dial":
                expected.append(", ".join(f"{record.domain_usage.nmi:.3f}".lstrip("0") for record in pair))
        assert found == expected, seed
    assert records == len(list((RESULTS / "digits_gpu").glob("*.json"))) == 11
