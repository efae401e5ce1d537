"""What pages say of accuracies is what the kept tables say, and those are made of the kept records."""

import re
from collections.abc import Sequence
from statistics import fmean

import pytest

from latent_domains.common.program import ROOT
from latent_domains.runs.record import DomainUsage, Record
from latent_domains.runs.records_file import read_records
from latent_domains.tables.csv_file import csv_text
from latent_domains.tables.definition import EXPERIMENTS, load
from latent_domains.tables.markdown import signed, table_text
from latent_domains.tables.paired import difference
from latent_domains.tables.results import Result, RowResults
from tests.kept_results import RESULTS, cells, in_points, of_records


def test_the_page_has_the_kept_table():
    table = load(EXPERIMENTS / "digits.yaml")
    printed, _, _ = table_text(table, of_records(table, "digits")).partition("\n## ")
    kept = [row[:4] for row in cells(printed)[2:]]
    page = [row[:4] for row in cells((RESULTS / "README.md").read_text())]
    assert len(kept) == 13
    for row in kept:
        assert row in page


def purities_of(usages: Sequence[DomainUsage]) -> str:
    """As pages list them, a seed each."""
    return " ".join(f"{usage.purity:.3f}" for usage in usages)


def test_the_undivided_rows_of_table_1_are_those_of_the_records():
    *rows, dial = of_records(load(EXPERIMENTS / "digits_undivided.yaml"), "digits_undivided")
    shown = (RESULTS / "README.md").read_text().partition("| less DIAL undivided,")[2].partition("\n\n")[0]
    expected = [["DIAL", "", "", f"{dial.results[-1].mean:.1f} ± {dial.results[-1].std:.1f}", ""]]
    for row in reversed(rows):
        [result] = row.results
        less = in_points(difference(row.results[-1], dial.results[-1]))
        nmi = f"{result.domains['NMI']:.2f}"
        accuracy = f"{result.mean:.1f} ± {result.std:.1f}"
        expected.insert(0, [row.row.name, purities_of(result.usages), nmi, accuracy, less])
    assert cells(shown)[1:] == expected


def test_the_purities_with_a_bias_in_conv1_are_those_of_the_records():
    two, three = of_records(load(EXPERIMENTS / "digits_conv1_bias.yaml"), "digits_conv1_bias")
    of_two, of_three = (purities_of(row.results[-1].usages) for row in (two, three))
    page = " ".join((RESULTS / "branch.md").read_text().split())
    assert f"purity {of_two} for k = 2 and {of_three} for k = 3" in page


def test_the_readme_has_what_the_demo_prints():
    """The kept records of seed 0 are of the demo's runs."""
    readme = cells((ROOT / "README.md").read_text().replace("    |", "|"))
    for title, name in (
        ("source only", "source_only"),
        ("DIAL", "dial"),
        ("mDA, k=2, centred logits", "mda_k2_branch-logits"),
        ("mDA, k=2", "mda_k2"),
    ):
        record = read_records(RESULTS / "demo/records.jsonl")[f"{name}_seed0"]
        usage = record.domain_usage
        found = f"purity {usage.purity:.2f}, NMI {usage.nmi:.2f}" if usage else ""
        assert [title, f"{100 * record.accuracy:.1f} %", found] in readme


@pytest.mark.parametrize("folder", [file.parent.name for file in sorted(RESULTS.glob("*/table.csv"))])
def test_a_kept_table_is_that_of_the_kept_records(folder: str):
    """Its columns say over which seeds it goes."""
    kept = (RESULTS / folder / "table.csv").read_text()
    seeds = tuple(map(int, re.findall(r"seed (\d+)", kept.partition("\n")[0])))
    first = folder.startswith("digits_first")
    definition = RESULTS / "digits_first/digits.yaml" if first else EXPERIMENTS / f"{folder}.yaml"
    table = load(definition, seeds=seeds, iterations=200 if folder == "digits_first_200" else None)
    assert csv_text(table, of_records(table, folder)) == kept


SHORTER = {
    "the same, each side standardised by itself": "logistic regression, each side standardised by itself",
    "mDA, branch of ReLU and fc, λ_D 0.1": "mDA, λ_D 0.1",
    "mDA, branch of ReLU and fc, λ_D 1e-4": "mDA, λ_D 1e-4",
    "mDA, centred logits of early statistics, w held, λ_D 0.1": "the same, w held, λ_D 0.1",
    "control: random balanced w": "random balanced w",
    "multi-source: domains known": "multi-source",
    "the same, w not held, 5 % of domain labels, λ_D 0.1": "the same, 5 % of domain labels, λ_D 0.1",
    "the same, w not held, 5 % of domain labels, λ_D 1e-4": "the same, 5 % of domain labels, λ_D 1e-4",
}
"""Rows of pages that the table calls otherwise."""


def less(one: RowResults, other: RowResults) -> list[str]:
    """A row's differences from another one, and their intervals, by column and on the mean, of ten seeds."""
    pairs = zip(one.results, other.results, strict=True)
    found = [difference(*pair) for pair in pairs]
    assert {d.n for d in found} == {10}
    return [in_points(d) for d in found]


@pytest.fixture(scope="module")
def pacs() -> dict[str, RowResults]:
    """The rows of the kept records on PACS's features, by name."""
    table = load(EXPERIMENTS / "pacs_features.yaml")
    return {row.row.name: row for row in of_records(table, "pacs_features")}


LATENT = {
    "digits": [f"mDA, k = {k}" for k in (2, 3, 4, 5)],
    "office_caltech_surf": ["mDA", "mDA, one target domain", "centred logits", "centred logits, one target domain"],
    "pacs_lite0_finetuned": ["mDA", "mDA, centred logits", "mDA, centred logits, λ_D 0.1"],
}
LATENT["office_caltech_lite0"] = LATENT["office_caltech_surf"]
"""The rows of latent domains by the folders of their records."""


@pytest.mark.parametrize("folder", [*LATENT, "pacs_features"])
def test_the_readme_says_what_the_tables_say(folder: str):
    """Differences from DIAL in its table of the paper's tables."""
    table = load(EXPERIMENTS / f"{folder}.yaml")
    rows = {row.row.name: row for row in of_records(table, folder)}

    def gain(name: str) -> float:
        return rows[name].results[-1].mean - rows[table.reference].results[-1].mean

    names = LATENT.get(folder) or [
        name for name in rows if name.startswith(("mDA", "the same")) and "equal" not in name
    ]
    gains = sorted(map(gain, names))
    least, most = signed(gains[0], 1), signed(gains[-1], 1)
    words = f"mDA {least} to {most}" if folder in LATENT else f"mDA up to {most}"
    if folder != "digits":
        words += f", random parts {signed(gain('random balanced w'), 1)}"
    known = next(name for name in rows if name.lower().startswith("multi-source"))
    words += f", known domains {signed(gain(known), 1)} ("
    [line] = [line for line in (ROOT / "README.md").read_text().splitlines() if f"| `{folder}` |" in line]
    assert f"| {words}" in line


STYLES = {"pacs_styles": range(10), "pacs_styles_resnet18": range(5)}
"""The tables of clusters of style, and their seeds."""


def test_the_clusters_of_style_are_those_of_the_records():
    section = (RESULTS / "README.md").read_text().partition("### Clusters of style")[2].partition("\n##")[0]
    said, shown = " ".join(section.split()), [row for row in cells(section) if len(row) == 7 and row[1][0].isdigit()]
    expected = []
    for name, seeds in STYLES.items():
        rows = of_records(load(EXPERIMENTS / f"{name}.yaml", seeds=tuple(seeds)), name)
        means = {row.row.name.replace(", undivided", ""): row.results[-1] for row in rows}

        def less(one: str, other: str, means: dict[str, Result] = means) -> str:
            return in_points(difference(means[one], means[other]))

        for title, row in zip(means, rows, strict=True):
            gain = "" if title == "DIAL" else less(title, "DIAL")
            expected.append([title, *(f"{result.mean:.1f}" for result in row.results), gain])
        clusters, parts, known = "clusters of style as w", "random balanced w", "multi-source"
        assert less("clusters of style as labels", clusters) in said and less(clusters, parts) in said
        if name == "pacs_styles":
            assert f"are the {means[known].mean - means['DIAL'].mean:+.2f} of the table, less random parts" in said
            assert less(known, parts) in said
        else:
            equal = f"less random parts {less(clusters, parts)}; with equal classes "
            equal += f"{less(f'{clusters}, equal classes', f'{known}, equal classes')} and "
            assert f"less known domains {less(clusters, known)}, {equal}" in said
        kept = [title for title in means if "equal" in title]
        gains = [difference(means[title], means[title.removesuffix(", equal classes")]) for title in kept]
        assert all(gain.low > 0 for gain in gains)
        least, most = min(gain.mean for gain in gains), max(gain.mean for gain in gains)
        assert f"{least:.1f} to {most:.1f} points on Lite0" in said or f"{least:.1f} to {most:.1f} on ResNet18" in said
    assert shown == expected


def test_equal_classes_on_office_caltech():
    rows = {
        row.row.name: row for row in of_records(load(EXPERIMENTS / "equal_classes_surf.yaml"), "equal_classes_surf")
    }
    section = (RESULTS / "README.md").read_text().partition("### Equal classes")[2].partition("\n## ")[0]
    expected, from_small = [], []
    for name in ("DIAL", "random balanced w", "multi-source"):
        stored, equal = rows[name], rows[f"{name}, equal classes"]
        gain = in_points(difference(equal.mean, stored.mean))
        expected.append([name, f"{stored.mean.mean:.1f}", f"{equal.mean.mean:.1f}", gain])
        from_small.append(f"{equal.cells[1].mean - stored.cells[1].mean:.1f}")
    assert cells(section)[2:] == expected
    assert "({}, {} and {} points)".format(*from_small) in " ".join(section.split())


def test_the_rows_of_pacs_are_those_of_the_records(pacs: dict[str, RowResults]):
    """Accuracy and class mean, NMI, and the difference from DIAL."""
    found = (RESULTS / "README.md").read_text().partition("| mean | domains | less DIAL")[2].partition("\n\n")[0]
    lines = [line for line in cells(found) if line[0].strip("- ")]
    assert len(lines) == 19
    for name, *shown in lines:
        row = pacs[SHORTER.get(name, name)]
        expected = [f"{result.mean:.1f} ({result.class_mean:.1f})" for result in row.results]
        nmi = [result.domains["NMI"] for result in row.cells if result.domains]
        assert shown == [
            *expected,
            f"{fmean(nmi):.2f}" if nmi else "",
            "" if name == "DIAL" else less(row, pacs["DIAL"])[-1],
        ]


def test_the_differences_between_rows_of_pacs_are_those_of_the_records(pacs: dict[str, RowResults]):
    """The tables of the page that have a row less another one: by target, and on the mean."""
    lines = [line for line in cells((RESULTS / "README.md").read_text()) if " less " in line[0] and "(" in line[1]]
    assert len(lines) == 17
    for name, *shown in lines:
        one, other = (pacs[SHORTER.get(row, row)] for row in name.split(" less "))
        assert shown == less(one, other), name


def test_what_adapt_finds_in_mixtures_is_of_the_records():
    """NMI, and accuracy less DIAL's, of each pair of domains and share."""
    found = of_records(load(EXPERIMENTS / "pacs_mixtures.yaml"), "pacs_mixtures")
    dial, mda = found
    shown = {row[0]: row[1:] for row in cells((ROOT / "docs/own_images.md").read_text())}
    columns = range(len(mda.cells))
    for shares, of_pairs in (("50:50", columns[0::3]), ("80:20", columns[1::3]), ("95:5", columns[2::3])):
        expected = []
        for column in of_pairs:
            expected.append(f"{mda.cells[column].domains['NMI']:.2f}")
            expected.append(in_points(difference(mda.results[column], dial.results[column])))
        assert shown[shares] == expected


def of_seeds(folder: str, name: str) -> list[Record]:
    """The kept records of a run's seeds."""
    records = read_records(RESULTS / folder / "records.jsonl")
    return [records[run] for run in sorted(records) if re.fullmatch(rf"{name}_seed\d", run)]


def test_the_page_says_how_far_the_seed_moves_the_first_runs():
    said = re.search(
        r"DIAL moves by (\S+) points, mDA with k = 2 by (\S+);", (RESULTS / "README.md").read_text()
    ).groups()
    for found, name in zip(said, ("dial", "mda_k2_branch-none"), strict=True):
        accuracies = [100 * record.accuracy for record in of_seeds("digits_first", name)]
        assert found == f"{max(accuracies) - min(accuracies):.1f}"


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("mDA, `layers`", "mda_k2_batch32"),
        ("mDA, `logits`", "mda_k2_branch-logits_batch32"),
        ("random balanced w", "random_w_k2_batch32"),
        ("k-means of mean and contrast as w", "kmeans_w_k2_batch32"),
    ],
)
def test_the_page_about_branches_has_the_domains_of_the_records(row: str, name: str):
    """What a record does not have is blank there."""
    section = (RESULTS / "branch.md").read_text().partition("NMI with classes")[2]
    usages = [record.domain_usage for record in of_seeds("digits_branch_2000", name)]
    assert len(usages) == 5
    of_classes = [usage.nmi_classes for usage in usages if usage.nmi_classes is not None]
    expected = [f"{fmean(usage.nmi for usage in usages):.3f}", f"{fmean(of_classes):.3f}" if of_classes else ""]
    assert next(found[2:4] for found in cells(section) if found[0] == row) == expected


def test_the_cited_numbers_of_table_5_are_beside_those_of_the_records():
    found = {
        row.row.name: row for row in of_records(load(EXPERIMENTS / "office_caltech_surf.yaml"), "office_caltech_surf")
    }
    page = (RESULTS / "office_caltech_surf/README.md").read_text().partition("## The fifteen")[2].partition("\n\n- ")[0]
    rows = [row for row in cells(page) if "**" in row[1]]
    assert len(rows) == 9
    for name, *shown in rows:
        printed = found[name.removesuffix(", k = 2")].row.cells
        for cell, result, text in zip(printed, found[name].results, shown, strict=False):
            spread = f" ± {result.std:.1f}" if result.std is not None else ""
            difference = signed(result.mean - cell.paper, 1)
            assert text == f"**{cell.paper}** → {result.mean:.1f}{spread} ({difference})", name


@pytest.mark.parametrize("name", ["office_caltech_surf", "office_caltech_lite0"])
def test_the_rows_of_nets_on_office_caltech_are_those_of_the_records(name: str):
    table = load(EXPERIMENTS / f"{name}.yaml")
    found = of_records(table, name)
    shown = {
        row[0].removesuffix(" (known domains)"): row[1:] for row in cells((RESULTS / name / "README.md").read_text())
    }
    [dial] = [row for row in found if row.row.name == "DIAL"]
    rows = [row for row in found if len(shown.get(row.row.name, ())) == 5]
    assert len(rows) == 11
    for row in rows:
        *tasks, mean, less = shown[row.row.name]
        expected = [f"{result.mean:.1f}" for result in row.results]
        assert [*tasks, mean] == [*expected[:-1], f"{expected[-1]} ({row.results[-1].class_mean:.1f})"], row.row.name
        d = difference(row.results[-1], dial.results[-1])
        interval = f" ({signed(d.low, 2)} to {signed(d.high, 2)})" if d.low != d.high else ""
        assert less == ("" if row is dial else signed(d.mean, 2) + interval), row.row.name


def test_the_table_of_the_page_about_gpus_is_that_of_the_records():
    gpu, cpu = (read_records(RESULTS / folder / "records.jsonl") for folder in ("digits_gpu", "digits"))
    rows = cells((ROOT / "docs/gpu.md").read_text().partition("| seed |")[2].partition("\n\n")[0])
    records = 0
    for seed, *found in (row for row in rows if row[0].isdecimal()):
        expected = []
        for name in ("dial", "mda_k2", "mda_k2_branch-logits"):
            run = f"{name}_seed{seed}"
            pair = [gpu[run], cpu[run]] if run in gpu else []
            records += run in gpu
            expected.append(", ".join(f"{100 * record.accuracy:.2f}" for record in pair))
            if name != "dial":
                expected.append(", ".join(f"{record.domain_usage.nmi:.3f}".lstrip("0") for record in pair))
        assert found == expected, seed
    assert records == len(gpu) == 11
