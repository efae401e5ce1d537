"""Pages say what the kept records say, and kept tables are made of them."""

import re
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from latent_domains.tables.csv_file import csv_text
from latent_domains.tables.definition import EXPERIMENTS, load
from latent_domains.tables.pages import MEAN, RESULTS, KeptTable, filled, pages
from latent_domains.tables.results import results

MARKED = [page for page in pages() if "<!-- from results/" in page.read_text()]


@pytest.mark.parametrize("page", MARKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_results_a_page_has_the_figures_of_the_records(page: Path):
    assert filled(page) == page.read_text(), "call make pages"


@pytest.mark.parametrize("file", sorted(RESULTS.rglob("table.csv")), ids=lambda file: file.parent.name)
def test_results_a_kept_table_is_that_of_the_kept_records(file: Path):
    """Its columns say over which seeds it goes."""
    kept = file.read_text()
    seeds = tuple(map(int, re.findall(r"seed (\d+)", kept.partition("\n")[0])))
    table = load(EXPERIMENTS / f"{file.parent.name}.yaml", seeds=seeds)
    assert csv_text(table, results(table, KeptTable(table, file.parent).records)) == kept


README = [
    "digits: mDA, k = 2; {gain over DIAL, single source (unified)}, no gain ([five seeds](results/README.md#table-1)",
    "pacs, seeds 0 to 2: mDA; {gain over DIAL over targets}, undecided "
    "([one to three seeds](results/README.md#pacs-resnet18)",
    "pacs_lite0_finetuned: mDA; {gain over DIAL}, undecided ([one seed](results/README.md#pacs-fine-tuned)",
    "pacs_domains: mDA, branch of adapt; {gain over DIAL}, no gain ([ten seeds](results/pacs_domains/README.md))",
    "office_caltech_surf: mDA; {gain over DIAL}, no gain ([five seeds](results/office_caltech_surf",
    "office_caltech_domains: mDA, branch of adapt; {gain over DIAL}, no gain ([ten seeds](results/pacs_domains/README",
    "pacs_domains_resnet18: multi-source; by style gain {gain over DIAL:1} to 0.4 points",
    "pacs_domains: multi-source, undivided; gain 0.2 to {gain over DIAL, undivided:1} points",
    "demo, seeds 0 to 0: source only; {accuracy} %",
    "demo, seeds 0 to 0: DIAL; {accuracy} %",
    "demo, seeds 0 to 0: mDA, k = 2, centred logits; {accuracy} % | purity {purity}, NMI {NMI}",
    "demo, seeds 0 to 0: mDA, k = 2; {accuracy} % | purity {purity}, NMI {NMI}",
]
"""Figures of README.md: a table, a row, a column if it is not the mean, and words that hold figures of these."""


def test_results_the_readme_has_the_figures_of_the_records():
    text = " ".join((ROOT / "README.md").read_text().split())
    missing = []
    for words in README:
        name, _, rest = words.partition(": ")
        row, *column, template = rest.split("; ")
        found = KeptTable.load(name).text(row, *(column or [MEAN]), template)
        if found not in text and found.replace("+", "") not in text:  # where words say that it is a gain
            missing.append(found)
    assert missing == []
