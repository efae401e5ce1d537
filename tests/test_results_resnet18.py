"""What pages say of ResNet18 on PACS is what its kept records say."""

import re
from math import log
from statistics import fmean

import numpy as np

from latent_domains.common.program import ROOT
from latent_domains.runs.records_file import read_records
from latent_domains.tables.definition import EXPERIMENTS, load
from latent_domains.tables.markdown import signed
from latent_domains.tables.paired import PairedDifference
from latent_domains.tables.results import Result, RowResults
from tests.kept_results import RESULTS, cells, in_points, less, of_records

SECTION = (RESULTS / "README.md").read_text().partition("## PACS, ResNet18")[2].partition("\n## ")[0]
LARGE, _, SMALL = SECTION.partition("### At 160×160")
SAID = re.sub(r"\s+", " ", LARGE)
README = " ".join((ROOT / "README.md").read_text().split())


def rows_of(table: str) -> dict[str, RowResults]:
    """A table's rows of seed 0, by their names."""
    return {row.row.name: row for row in of_records(load(EXPERIMENTS / f"{table}.yaml", seeds=(0,)), table)}


ROWS = rows_of("pacs")
CONTROLS = rows_of("pacs_controls")
ROWS_160 = rows_of("pacs_160")
RECORDS = read_records(RESULTS / "pacs/records.jsonl") | read_records(RESULTS / "pacs_controls/records.jsonl")
SKETCH, PHOTO, ART, CARTOON = range(4)
DIAL, KNOWN = "DIAL", "Multi-source DA"


def less_dial(name: str, *, class_means: bool = False) -> PairedDifference:
    """A row's difference from DIAL over the four targets."""
    return less(ROWS[name], ROWS[DIAL], class_means=class_means)


def shown(cell: Result) -> str:
    """An accuracy as the page has it, with the mean over classes."""
    return f"{cell.mean:.1f} ({cell.class_mean:.1f})" if cell.n else "not run"


def gain(rows: dict[str, RowResults], name: str, column: int) -> str:
    """How far a row is above DIAL on a target, without a sign."""
    return f"{rows[name].cells[column].mean - rows[DIAL].cells[column].mean:.1f}"


def test_the_table_is_that_of_the_records():
    expected = []
    for name, row in ROWS.items():
        paper, of_dial = row.row.paper, ROWS[DIAL].row.paper
        whole = all(cell.n for cell in row.cells)
        means = [fmean(cell.mean for cell in row.cells), fmean(cell.class_mean for cell in row.cells)] if whole else []
        expected.append(
            [
                *(name, *map(shown, row.cells)),
                f"{means[0]:.1f} ({means[1]:.1f})" if whole else "–",
                "" if name == DIAL else in_points(less_dial(name)) if whole else "–",
            ]
        )
        less = "" if name == DIAL else signed(fmean(paper.values) - fmean(of_dial.values), 2)
        expected.append(["– the paper", *map(str, paper.values), str(paper.mean), less])
    assert cells(LARGE)[2 : 2 + len(expected)] == expected


def test_known_domains_gain_what_they_gain_in_the_paper_by_accuracy_alone():
    found, of_classes = less_dial(KNOWN), less_dial(KNOWN, class_means=True)
    assert f"{found.mean:.1f} points over DIAL (the paper 1.5), but the interval includes 0" in SAID
    assert found.low < 0 < found.high
    assert f"over classes it is {in_points(of_classes)}" in SAID
    assert less_dial("mDA").high < 1.15, "the paper's gain lies just outside"
    resolvable = (f"{less_dial(name).resolvable:.1f}" for name in ("mDA", KNOWN))
    assert "must be {} points (mDA) or {} (known domains)".format(*resolvable) in SAID


def test_the_controls_on_sketches():
    random, ghost = (CONTROLS[name].cells[0] for name in ("random balanced w", "ghost parts"))
    assert f"random parts have {shown(random)}, ghost parts, drawn anew in each batch, {shown(ghost)}" in SAID
    above = [gain(CONTROLS, name, 0) for name in ("random balanced w", "ghost parts", "known domains")]
    assert "They are {} and {} above DIAL, known domains {}.".format(*above) in SAID
    assert f"known domains gain {gain(ROWS, KNOWN, ART)} and {gain(ROWS, KNOWN, CARTOON)}" in SAID


def test_the_gains_on_sketches_are_guitars():
    recognised = {}
    for name in ("dial", "multi_source", "random_w_k3", "ghost_w_k3"):
        record = RECORDS[f"{name}_seed0"]
        counts = np.array(record.targets["sketch"].confusion)
        recognised[name] = dict(zip(record.classes, 100 * np.diag(counts) / counts.sum(axis=1), strict=True))
    guitars, houses = ([round(of[name]) for of in recognised.values()] for name in ("guitar", "house"))
    assert guitars[2] == guitars[3]
    assert (
        "recognises {} % of the sketches of guitars, known domains {}, random and ghost parts {}".format(*guitars)
        in SAID
    )
    assert "lose houses: {} % with DIAL, then {}, {} and {}.".format(*houses) in SAID
    sizes = dict(zip(record.classes, counts.sum(axis=1), strict=True))
    assert f"There are {sizes['guitar']} guitars and {sizes['house']} houses" in SAID


def test_what_the_page_says_of_w():
    names = [cell.candidates[0].runs[0].name for cell in ROWS["mDA"].row.cells]
    records = [RECORDS[name] for name in names]
    usages = [record.domain_usage for record in records]
    entropy = [record.last_values["entropy_domain"] / log(3) for record in records]
    assert f"is {min(entropy):.2f} to {max(entropy):.2f} in the last batch" in SAID
    assert all(min(usage.share) < 0.001 for usage in usages), "one is always empty"
    for what, form, values in (
        ("the largest has", "{:.0f}", [100 * max(usage.share) for usage in usages]),
        ("purity", "{:.2f}", [usage.purity for usage in usages]),
        ("NMI", "{:.2f}", [usage.nmi for usage in usages]),
    ):
        words = [form.format(value) for value in values]
        assert f"{what} {', '.join(words[:3])} and {words[3]}" in SAID, what
    names = ("art paintings", "cartoons", "photographs", "sketches")
    plain = dict(zip(("art_painting", "cartoon", "photo", "sketch"), names, strict=True))
    table = cells(LARGE.replace("  |", "|"))
    for target, usage in zip(("Sketch", "Photo", "Art", "Cartoon"), usages, strict=True):
        held = [", ".join(str(counts[domain]) for counts in usage.counts) for domain in range(3)]
        assert [target, ", ".join(plain[source] for source in usage.sources), *held] in table
    for record in records:
        first, last = record.domain_usage_history[0], record.domain_usage
        assert first.purity > last.purity and first.nmi > last.nmi, "both fall"


def test_the_smaller_table_is_that_of_the_records():
    expected = []
    for name, row in ROWS_160.items():
        line = [name]
        for column in (0, 1):
            paper = row.row.paper.values
            line += [shown(row.cells[column]), str(paper[column]) if paper else "–"]
        expected.append(line)
    assert cells(SMALL)[2:8] == [line for line in expected if line[1::2] != ["not run", "not run"]]
    runs = sum(result.n for row in ROWS_160.values() for result in row.cells)
    assert f"Seed 0, {runs} of its 28 runs" in " ".join(SMALL.split())


def test_the_smaller_page_has_what_latent_domains_hold():
    records = read_records(RESULTS / "pacs_160/records.jsonl")
    usages = [records[f"{method}_k3_size160_seed0"].domain_usage for method in ("mda", "style_w")]
    held_by = cells(SMALL.replace("  |", "|"))
    for domain, name in enumerate(("s₁", "s₂", "s₃")):
        held = [", ".join(f"{counts[domain]:,}" for counts in usage.counts) for usage in usages]
        assert [name, *held] in held_by


def test_the_readme_says_how_far_rows_are_from_dial():
    mda, known = (in_points(less_dial(name)) for name in ("mDA", KNOWN))
    [line] = [line for line in (ROOT / "README.md").read_text().splitlines() if "`pacs_controls`" in line]
    assert f"| mDA {mda}, known domains {known} (" in line


def test_the_readme_says_what_to_expect_on_sketches():
    ghost = CONTROLS["ghost parts"].cells[0]
    known, dial = ROWS[KNOWN].cells[SKETCH], ROWS[DIAL].cells[SKETCH]
    assert f"known kinds have {known.mean:.1f} % on sketches, DIAL {dial.mean:.1f} % (one seed)" in README
    assert f"random parts, drawn anew in each batch, {ghost.mean:.1f} %" in README


def test_the_readme_says_what_to_expect_of_clusters_of_style():
    table = load(EXPERIMENTS / "pacs_styles_resnet18.yaml", seeds=(0, 1, 2, 3, 4))
    means = {row.row.name: row.results[-1] for row in of_records(table, "pacs_styles_resnet18")}
    dial = means["DIAL, undivided"].mean
    gains = (means[f"{name}, undivided"].mean - dial for name in ("clusters of style as w", "multi-source"))
    assert "{:.2f} and {:.2f} points over DIAL".format(*gains) in README
