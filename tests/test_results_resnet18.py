"""What pages say of ResNet18 on PACS is what its kept records say."""

from latent_domains.common.program import ROOT
from latent_domains.runs.records_file import read_records
from latent_domains.tables.definition import EXPERIMENTS, load
from latent_domains.tables.markdown import signed
from tests.kept_results import RESULTS, cells, of_records

SECTION = (RESULTS / "README.md").read_text().partition("## PACS, ResNet18")[2].partition("\n## ")[0]
ROWS = {row.row.name: row for row in of_records(load(EXPERIMENTS / "pacs_160.yaml", seeds=(0,)), "pacs_160")}
NAMES = {"mDA": "mDA", "random balanced w": "random parts", "Multi-source DA": "known domains"}
COLUMNS = {"Sketch": 0, "Cartoon": 1}


def test_the_table_is_that_of_the_records():
    expected = []
    for name, row in ROWS.items():
        line = [name]
        for column in COLUMNS.values():
            result, paper = row.cells[column], row.row.paper.values
            found = f"{result.mean:.1f} ({result.class_mean:.1f})" if result.n else "not run"
            line += [found, str(paper[column]) if paper else "–"]
        expected.append(line)
    assert cells(SECTION)[2:] == [line for line in expected if line[1::2] != ["not run", "not run"]]
    runs = sum(result.n for row in ROWS.values() for result in row.cells)
    assert f"Seed 0, {runs} of its 28 runs" in " ".join(SECTION.split())


def test_the_readme_says_how_far_rows_are_from_dial():
    said = []
    for name, column in COLUMNS.items():
        words = []
        for row, title in NAMES.items():
            if (result := ROWS[row].cells[column]).n:
                words.append(f"{title} {signed(result.mean - ROWS['DIAL'].cells[column].mean, 1)}")
        said.append(f"{name}: {', '.join(words)}")
    [line] = [line for line in (ROOT / "README.md").read_text().splitlines() if "`pacs_160`" in line]
    assert f"| {'; '.join(said)} (" in line


def test_the_readme_says_what_to_expect_on_sketches():
    names = ("clusters of style as w", "Multi-source DA", "random balanced w", "DIAL")
    clusters, known, random, dial = (f"{ROWS[name].cells[0].mean:.1f} %" for name in names)
    said = " ".join((ROOT / "README.md").read_text().split())
    assert f"(one seed: {clusters} and {known}). But random parts have {random}, where DIAL" in said
    assert f"as one domain, has {dial}." in said


def test_the_page_has_what_latent_domains_hold():
    records = read_records(RESULTS / "pacs_160/records.jsonl")
    usages = [records[f"{method}_k3_size160_seed0"].domain_usage for method in ("mda", "style_w")]
    shown = cells(SECTION.replace("  |", "|"))
    for domain, name in enumerate(("s₁", "s₂", "s₃")):
        held = [", ".join(f"{counts[domain]:,}" for counts in usage.counts) for usage in usages]
        assert [name, *held] in shown
