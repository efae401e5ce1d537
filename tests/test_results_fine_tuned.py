"""What pages say of fine-tuned EfficientNet-Lite0 is what its kept records say."""

import re
from dataclasses import replace
from math import log
from statistics import fmean

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from sklearn.metrics import normalized_mutual_info_score

from latent_domains.runs.record import DomainUsage, Record
from latent_domains.runs.records_file import read_records
from latent_domains.tables.definition import EXPERIMENTS, load
from latent_domains.tables.markdown import signed
from latent_domains.tables.paired import difference
from latent_domains.tables.results import DOMAINS, RowResults
from tests.kept_results import RESULTS, by_target, cells, in_points, less, of_records

PAGE = (RESULTS / "README.md").read_text()
SECTION = PAGE.partition("## PACS, fine-tuned")[2].partition("\n## ")[0]
SAID = re.sub(r"\s+", " ", SECTION)
PHOTO, ART = 1, 2


@pytest.fixture(scope="module")
def rows() -> dict[str, RowResults]:
    """The rows of seed 0, by name."""
    table = load(EXPERIMENTS / "pacs_lite0_finetuned.yaml", seeds=(0,))
    return {row.row.name: row for row in of_records(table, "pacs_lite0_finetuned")}


@pytest.fixture(scope="module")
def records(rows: dict[str, RowResults]) -> dict[str, list[Record]]:
    """Their records, by row and in the order of the columns."""
    kept = read_records(RESULTS / "pacs_lite0_finetuned/records.jsonl")
    return {name: [kept[cell.candidates[0].runs[0].name] for cell in row.row.cells] for name, row in rows.items()}


@pytest.fixture(scope="module")
def large(records: dict[str, list[Record]]) -> list[Record]:
    """DIAL's records at 224×224, in the order of the columns; nothing but the size is other than at 128×128."""
    kept = read_records(RESULTS / "pacs_lite0_finetuned_224/records.jsonl").values()
    assert len(kept) == 4
    found = []
    for small in records["DIAL"]:
        [record] = (one for one in kept if one.experiment == {**small.experiment, "image_size": 224})
        assert record.training.weights == small.training.weights
        found.append(record)
    return found


def of_branch(records: dict[str, list[Record]]) -> list[Record]:
    """The records of rows with a branch."""
    return [record for name, of_row in records.items() if name.startswith("mDA") for record in of_row]


def test_the_tables_are_those_of_the_records(rows: dict[str, RowResults]):
    """Accuracies and class means, their differences from DIAL's over the four targets, and the latent domains."""
    accuracies, _, below = SECTION.partition("| seed 0 | ")[2].partition("\n\n")
    domains = below.partition("| | Sketch | ")[2].partition("\n\n")[0]
    of_accuracies, of_domains = [], []
    for name, row in rows.items():
        line = [f"{result.mean:.1f} ({result.class_mean:.1f})" for result in row.results]
        of_accuracies.append([name, *line, "" if name == "DIAL" else in_points(less(row, rows["DIAL"]))])
        if row.cells[0].domains:
            found = [[format(cell.domains[key], form) for key, form in DOMAINS.items()] for cell in row.cells]
            of_domains.append([name, *map(", ".join, found)])
    assert cells(accuracies)[1:-1] == of_accuracies
    assert cells(domains)[1:] == of_domains
    assert sum(cell.n for row in rows.values() for cell in row.cells) == 28


def test_w_is_as_uniform_as_the_page_says(records: dict[str, list[Record]]):
    """By its entropy in the last batch, and by what true sources weigh in latent domains."""
    [*others, found] = sorted(of_branch(records), key=lambda record: -record.last_values["entropy_domain"])
    assert found is records["mDA, centred logits, λ_D 0.1"][ART]
    entropies = [record.last_values["entropy_domain"] / log(3) for record in (others[-1], others[0], found)]
    assert "{:.2f} to {:.2f} of ln 3 in eleven runs, and {:.2f} with λ_D 0.1".format(*entropies) in SAID
    weights = np.concatenate([_weights(record.domain_usage) for record in others])
    assert f"{100 * weights.min():.0f} to {100 * weights.max():.0f} % of the weight" in SAID
    assert _weights(found.domain_usage).max() > 0.5


def _weights(usage: DomainUsage) -> np.ndarray:
    """Share of each true source (rows) in the weight of each latent domain; 1,000 pictures of each source."""
    w = np.array(usage.mean_probability)
    return w / w.sum(axis=0)


def test_what_the_page_says_of_random_parts(rows: dict[str, RowResults]):
    random, dial = rows["random balanced w"], rows["DIAL"]
    branch = [less(row, random) for name, row in rows.items() if name.startswith("mDA")]
    below = sorted(-d.mean for d in branch)
    assert f"{below[0]:.2f} to {below[-1]:.2f} below, and each interval includes 0" in SAID
    assert all(d.low < 0 < d.high for d in branch)
    found = sorted(d.resolvable for d in branch)
    assert f"one from random parts {found[0]:.1f} to {found[-1]:.1f}." in SAID

    from_dial = {name: less(row, dial) for name, row in rows.items() if name != "DIAL"}
    assert [name for name, d in from_dial.items() if d.low > 0] == ["random balanced w"]
    p = ttest_1samp([one.mean - other.mean for one, other in zip(random.cells, dial.cells, strict=True)], 0).pvalue
    assert f"one of six (p = {p:.2f}, corrected {6 * p:.2f})" in SAID
    assert len(from_dial) == 6
    of_classes = less(random, dial, class_means=True)
    assert f"includes 0 ({signed(of_classes.low, 2)} to {signed(of_classes.high, 2)})" in SAID
    found = sorted(d.resolvable for name, d in from_dial.items() if name.startswith(("mDA", "random")))
    assert f"true difference from DIAL must be {found[0]:.1f} to {found[-1]:.1f} points to be" in SAID


def test_the_paper_s_gain_is_compared_as_the_page_says(rows: dict[str, RowResults]):
    paper = {row.name: row.paper.values for row in load(EXPERIMENTS / "pacs.yaml").rows}
    gains = [mda - dial for mda, dial in zip(paper["mDA"], paper["DIAL"], strict=True)]
    assert "2.8, 0.0, 0.4 and 1.4 points" in SAID
    assert gains == pytest.approx([2.8, 0.0, 0.4, 1.4])
    mda, dial = by_target(rows["mDA"]), by_target(rows["DIAL"])
    none = replace(mda, accuracies=dict.fromkeys(range(4), 0.0))
    papers = replace(mda, accuracies=dict(enumerate(gains)))
    ours = replace(mda, accuracies={target: mda.accuracies[target] - dial.accuracies[target] for target in range(4)})
    assert f"are {in_points(difference(papers, none))} by the same measure" in SAID
    assert f"less the paper's are {in_points(difference(ours, papers))}." in SAID


def test_dial_is_compared_with_features_as_the_page_says(
    rows: dict[str, RowResults], records: dict[str, list[Record]], large: list[Record]
):
    features = {row.row.name: row for row in of_records(load(EXPERIMENTS / "pacs_features.yaml"), "pacs_features")}
    text = "over DIAL on these are {}, {}, {} and {}; at 128×128 they were {}, {}, {} and {}."
    pairs = [*zip(percent(large), features["DIAL"].cells, strict=True)]
    pairs += zip(percent(records["DIAL"]), features["DIAL"].cells, strict=True)
    assert text.format(*(signed(tuned - feature.mean, 1) for tuned, feature in pairs)) in SAID
    source_only, dial = (rows[name].cells[PHOTO].mean for name in ("source only", "DIAL"))
    assert f"source only is {source_only - dial:.1f} above DIAL at 128×128. All of this is in the class person" in SAID
    persons = {name: of_row[PHOTO].targets["photo"].confusion[-1] for name, of_row in records.items()}
    alone = persons.pop("source only")
    adapted = sorted(right for *_, right in persons.values())
    assert f"{alone[-1]} of {sum(alone)} right, adapted nets have {adapted[0]} to {adapted[-1]}, DIAL at" in SAID
    assert f"DIAL at 224×224 has {large[PHOTO].targets['photo'].confusion[-1][-1]}." in SAID
    assert (alone[-1] - persons["DIAL"][-1]) / 1670 == pytest.approx((source_only - dial) / 100)


def percent(of_row: list[Record]) -> list[float]:
    """The accuracies of records in per cent."""
    return [100 * record.accuracy for record in of_row]


def test_what_domains_the_paper_s_branch_prefers(records: dict[str, list[Record]]):
    """The last source but with sketches as target is sketches; all of them are in one domain."""
    sketch, _, art, cartoon = (np.array(record.domain_usage.counts) for record in records["mDA"])
    others = []
    for counts in (cartoon, art):
        domain = counts[-1].argmax()
        assert counts[-1, domain] == 1000
        others.append(f"{100 * counts[:-1, domain].sum() / 2000:.0f} %")
    assert (
        f"all sketches and {others[0]} of the other pictures, with art paintings for all sketches and {others[1]};"
        in SAID
    )
    assert f"prefers one domain for {100 * sketch.sum(axis=0).max() / 3000:.0f} %." in SAID
    chance = sorted(record.domain_usage.purity for record in records["random balanced w"])
    assert f"Purity by chance is {chance[0]:.2f} to {chance[-1]:.2f} with all pictures, 0.33 with" in SAID


def test_which_runs_tell_cartoons_from_photographs(records: dict[str, list[Record]]):
    found = {name: _nmi_of_two(of_row[ART].domain_usage) for name, of_row in records.items() if name.startswith("mDA")}
    text = "NMI of these two {:.2f}, of the paper's branch {:.2f}."
    assert text.format(found["mDA, centred logits, λ_D 0.1"], found["mDA"]) in SAID
    assert found["mDA, centred logits"] < 0.1


def _nmi_of_two(usage: DomainUsage) -> float:
    """NMI of latent and true domains on cartoons and photographs."""
    assert usage.sources[:2] == ["cartoon", "photo"]
    counts = np.array(usage.counts[:2])
    source, domain = np.indices(counts.shape)
    return normalized_mutual_info_score(np.repeat(source, counts.ravel()), np.repeat(domain, counts.ravel()))


def test_the_times_are_those_of_the_records(records: dict[str, list[Record]]):
    minutes = sorted(record.training.seconds / 60 for of_row in records.values() for record in of_row)
    assert f"A run takes {minutes[0]:.0f} to {minutes[-1]:.0f} minutes of one core." in SAID


def test_the_row_at_224_is_that_of_the_records(rows: dict[str, RowResults], large: list[Record]):
    dial = by_target(rows["DIAL"])
    result = replace(dial, accuracies=dict(enumerate(percent(large))))
    line = [f"{100 * record.accuracy:.1f} ({100 * record.class_mean:.1f})" for record in large]
    means = fmean(percent(large)), 100 * fmean(record.class_mean for record in large)
    line = ["DIAL, 224×224", *line, "{:.1f} ({:.1f})".format(*means), in_points(difference(result, dial))]
    assert line in cells(SECTION)
    gains = (result.accuracies[target] - dial.accuracies[target] for target in range(4))
    assert "by {:.1f} on Sketch, {:.1f} on Photo, {:.1f} on Art, {:.1f} on Cartoon.".format(*gains) in SAID
    [paper] = (row.paper.values for row in load(EXPERIMENTS / "pacs.yaml").rows if row.name == "DIAL")
    assert "The paper has {}, {}, {} and {} with ResNet18.".format(*paper) in SAID
    minutes = [f"{record.training.seconds / 60:.0f}" for record in large]
    assert [record.training.threads for record in large] == [1, 2, 1, 1]
    of_one = sorted(minutes[:1] + minutes[2:])
    assert f"A run takes {minutes[PHOTO]} minutes of two threads, or {of_one[0]} to {of_one[-1]} of one with" in SAID
