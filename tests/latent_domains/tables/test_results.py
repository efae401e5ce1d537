"""Numbers of tables from records alone: means, deviations, the best source, and why something is missing."""

import csv
import io
import json
import re
import statistics
from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.files import sha256
from latent_domains.common.program import ROOT, ProgramError, from_root
from latent_domains.data import lmdb_io
from latent_domains.runs.write import write_run
from latent_domains.tables import results as module
from latent_domains.tables.csv_file import csv_text
from latent_domains.tables.definition import EXPERIMENTS, BaselineRun, load
from latent_domains.tables.markdown import signed, table_text
from latent_domains.tables.pages import KeptTable
from latent_domains.tables.records import Records
from latent_domains.tables.results import difference, differences
from tests.latent_domains.tables.tables import TEXT, small_table, write_record
from tests.programs import program


@pytest.fixture
def table(tmp_path):
    return small_table(tmp_path)


def fill(table, runs: Path, row: int, column: int, accuracies: dict[int, float], candidate: int = 0) -> None:
    """Records of a cell by seed."""
    for run in table.rows[row].cells[column].candidates[candidate].runs:
        if run.seed in accuracies:
            write_record(runs, run, accuracies[run.seed])


def results(table, tmp_path: Path, **options) -> list[module.RowResults]:
    return module.results(table, Records(tmp_path / "runs", tmp_path / "data", **options))


def one_column(tmp_path: Path, reference: str | None = None):
    """The small table with its first column alone."""
    text = TEXT.replace("  - {name: Mm, sources: [mnist, usps], targets: [mnistm]}\n", "")
    for several, one in (
        ("[80.0, 90.0], mean: 84.0", "[80.0]"),
        ("[50, 60], mean: 55", "[50]"),
        ("[1.2, 2.2], mean: 1.9", "[1.2]"),
    ):
        text = text.replace(several, one)
    return small_table(tmp_path, text.replace("columns:", f"reference: {reference}\ncolumns:") if reference else text)


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]


# --- numbers


@pytest.mark.parametrize(
    ("accuracies", "text"),
    [
        ([0.81, 0.84, 0.9], "85.0 ± 4.6"),  # the sample's deviation; the population's is 3.7
        ([0.9198, 0.9203, 0.9208], "92.0 ± 0.1"),
        ([0.9200, 0.9203, 0.9206], "92.03 ± 0.03"),
        ([0.92, 0.9202, 0.92], "92.01 ± 0.01"),
        ([0.92, 0.92], "92.00 ± 0"),
        ([0.92], "92.0"),
    ],
)
def test_mean_and_deviation_are_over_seeds_with_the_decimals_that_they_need(accuracies, text, table, tmp_path):
    fill(table, tmp_path / "runs", 0, 0, dict(enumerate(accuracies)))
    cell = results(table, tmp_path)[0].cells[0]
    assert (cell.in_words(), cell.n, cell.remarks) == (text, len(accuracies), ())


def test_difference_a_method_without_random_numbers_is_one_run_for_all_seeds(tmp_path):
    text = TEXT.replace("columns:", "reference: ours\ncolumns:", 1).replace("gong2013", "logistic")
    table = small_table(tmp_path, text)
    shallow = [run.name for run in table.runs if isinstance(run, BaselineRun)]
    assert shallow == ["logistic_mnist+mnistm-usps_seed0", "logistic_mnist+usps-mnistm_seed0"]
    each = small_table(tmp_path / "each", text.replace("seeds:", "data_per_seed: true\nseeds:"))
    assert sum(isinstance(run, BaselineRun) for run in each.runs) == 6, "where each seed has data of its own"
    for column in (0, 1):
        fill(table, tmp_path / "runs", 0, column, {0: 0.7, 1: 0.71, 2: 0.72})
        fill(table, tmp_path / "runs", 2, column, {0: 0.625})
    ours, row = (results(table, tmp_path)[number] for number in (0, 2))
    assert [(one.mean, one.n, one.std) for one in row.results] == [(62.5, 1, None)] * 3
    found = cells(table_text(table, results(table, tmp_path)))
    assert ["", "here", *["62.5 (n=1)"] * 3] in found
    assert ["shallow", "mean", "−8.50", "−10.98 to −6.02", "3", "3.26"] in found
    for pair in zip(row.results, ours.results, strict=True):
        found = difference(*pair)
        assert (found.n, found.mean) == (3, pytest.approx(-8.5)) and found.half > 0


def test_differences_two_methods_without_random_numbers_have_no_interval(tmp_path):
    """Each is one run, so that their difference is one number, not the same for each seed."""
    text = TEXT.replace("columns:", "reference: shallow\ncolumns:", 1).replace("gong2013", "logistic")
    text += "  - {name: svm, paper: {missing: ours}, baseline: {method: svm}}\n"
    table = small_table(tmp_path, text)
    for column in (0, 1):
        fill(table, tmp_path / "runs", 2, column, {0: 0.625})
        fill(table, tmp_path / "runs", 4, column, {0: 0.65})
    rows = results(table, tmp_path)
    assert differences(table, rows)["svm"] == [None] * 3
    assert cells(table_text(table, rows).split("seed by seed")[1])[-1] == ["svm", "mean", "–", "–", "–", "–"]
    Records(tmp_path / "runs", tmp_path / "data").keep(table, tmp_path / "kept")
    kept = KeptTable(table, tmp_path / "kept")
    first = [kept.text("svm", kept.columns[0], f"{{{figure} shallow}}") for figure in ("less", "gain over")]
    assert first == [None, "+2.5"]
    assert kept.text("svm", "mean", "{less shallow over targets}") == "+2.50 (+2.50 to +2.50)"


def test_results_ensemble_and_matching_are_one_run(tmp_path):
    row = "  - name: shallow\n    paper: {values: [50, 60], mean: 55}\n    baseline: {method: gong2013}\n"
    text = TEXT.replace(row, row + row.replace("shallow", "nearest").replace("gong2013", "gong2013, variant: matching"))
    table = small_table(tmp_path, text)
    assert len([run for run in table.runs if isinstance(run, BaselineRun)]) == 6, "three seeds of two columns"
    matching = {"accuracy": 0.75, "targets": {}}
    for seed, more in enumerate(({"matching": matching}, {})):
        write_record(tmp_path / "runs", table.rows[2].cells[0].candidates[0].runs[seed], 0.625, **more)
    ensemble, nearest = (results(table, tmp_path)[number].cells[0] for number in (2, 3))
    assert ensemble.accuracies == {0: 62.5, 1: 62.5} and nearest.accuracies == {0: 75.0}
    assert "matching: found None, expected a number from 0 to 1" in nearest.reason


def test_results_the_mean_over_columns_is_taken_seed_by_seed(table, tmp_path):
    fill(table, tmp_path / "runs", 0, 0, {0: 0.8, 1: 0.9})
    fill(table, tmp_path / "runs", 0, 1, {0: 0.6, 1: 0.5})
    mean = results(table, tmp_path)[0].mean
    assert mean.accuracies == pytest.approx({0: 70.0, 1: 70.0}) and mean.std == pytest.approx(0.0)
    fill(table, tmp_path / "runs", 0, 1, {2: 0.5})
    mean = results(table, tmp_path)[0].mean
    assert mean.mean is None and mean.reason == "the columns have different seeds so far"
    text = table_text(table, results(table, tmp_path))
    assert "(n=0)" not in text and all(any(line[2:]) for line in cells(text)[2:])


PICTURES = """
title: "Pictures"
source: not in the paper
dataset: pacs_lite0
seeds: [0, 1]
columns:
  - {name: Photo, sources: [art_painting, sketch], targets: [photo]}
  - {name: Sketch, sources: [art_painting, photo], targets: [sketch]}
rows: [{name: DIAL, paper: {missing: ours}, runs: {method: dial}}]
"""


@pytest.mark.parametrize("columns", [1, 2])
def test_results_tables_of_pictures_have_the_mean_over_classes_beside_the_accuracy(columns, tmp_path):
    text = PICTURES if columns == 2 else re.sub(r".*Sketch.*\n", "", PICTURES)
    table = small_table(tmp_path, text)
    for run in table.runs:
        (target,) = run.targets
        of_classes = [[8, 2], [1, 1]] if run.seed else [[9, 1], [0, 2]]
        counts = {"accuracy": 0.75, "confusion": [[0] * 7, *(one + [0] * 5 for one in of_classes), *[[0] * 7] * 4]}
        write_record(tmp_path / "runs", run, 0.75, targets={target: counts})
    rows = results(table, tmp_path)
    # Of classes 1 and 2, whose images are called 0 and 1: 2 of 10 and 0 of 2, then 1 of 10 and 0 of 2.
    assert [result.class_mean for result in rows[0].results] == pytest.approx([7.5] * len(rows[0].results))
    text = table_text(table, rows)
    found = cells(text)
    assert ["", "class mean", *["7.5"] * 3] in found if columns == 2 else found[2][5] == "7.5"
    assert " Class mean: every class counts alike" in text
    assert {line["class mean"] for line in csv.DictReader(io.StringIO(csv_text(table, rows)))} == {"7.5"}


def test_results_the_best_single_source_is_the_one_of_the_best_mean(table, tmp_path):
    """Neither the first one nor that of the best run: source mnist has that one."""
    fill(table, tmp_path / "runs", 1, 0, {0: 0.9, 1: 0.5, 2: 0.6}, candidate=0)
    fill(table, tmp_path / "runs", 1, 0, {0: 0.7, 1: 0.72, 2: 0.71}, candidate=1)
    cell = results(table, tmp_path)[1].cells[0]
    assert cell.sources == ("mnistm",) and cell.mean == pytest.approx(71.0) and cell.reason == ""
    assert [one.mean for one in cell.candidates] == pytest.approx([200 / 3, 71.0])


def test_results_no_best_source_before_every_source_was_tried(table, tmp_path):
    fill(table, tmp_path / "runs", 1, 0, {0: 0.7, 1: 0.72, 2: 0.71}, candidate=0)
    cell = results(table, tmp_path)[1].cells[0]
    assert cell.mean is None and cell.reason.startswith("mnistm alone: digits is not on this machine")
    fill(table, tmp_path / "runs", 1, 0, {2: 0.1}, candidate=1)
    cell = results(table, tmp_path)[1].cells[0]
    assert cell.mean == pytest.approx(71.0) and cell.reason.startswith("mnistm alone: 1 of 3 seeds: seeds 0, 1 ")


@pytest.mark.parametrize(("value", "text"), [(1.25, "+1.2"), (-3.0, "−3.0"), (-0.04, "0.0"), (0.0, "0.0")])
def test_differences_have_a_sign(value, text):
    assert signed(value) == text


# --- latent domains


def usage(first: int, second: int, **changes) -> dict:
    """Of 100 images of two sources and two latent domains: all of the first source, and these of the second."""
    share, purity = [(50 + first) / 100, second / 100], (50 + second) / 100
    counts = {"sources": ["a", "b"], "images": 100, "counts": [[50, 0], [first, second]]}
    return {**counts, "share": share, "purity": purity, "nmi": 0.5, **changes}


def test_results_latent_domains_stand_beside_the_accuracy(tmp_path):
    table = one_column(tmp_path)
    first, second, _ = table.rows[0].cells[0].candidates[0].runs
    write_record(tmp_path / "runs", first, 0.8, domain_usage=usage(50, 0))
    write_record(tmp_path / "runs", second, 0.8, domain_usage=usage(10, 40, nmi=0.75))
    fill(table, tmp_path / "runs", 1, 0, {0: 0.7})
    text = table_text(table, results(table, tmp_path))
    header, _, ours, best, *rest = cells(text)
    assert header[-3:] == ["largest share", "purity", "NMI"]
    assert ours[-3:] == ["80.0", "0.700", "0.625"]
    assert best[-3:] == rest[-1][-3:] == ["", "", ""], "the others have no latent domains"
    assert "purity and NMI with the true domains, on training images of the sources." in text
    write_record(tmp_path / "runs", first, 0.8, domain_usage=usage(50, 0, held_out=True))
    assert "on held-out or training images of the sources." in table_text(table, results(table, tmp_path))
    line = next(csv.DictReader(io.StringIO(csv_text(table, results(table, tmp_path)))))
    assert [line[key] for key in ("largest share", "purity", "NMI")] == ["80", "0.7", "0.625"]
    of_one = {"sources": ["a+b"], "counts": [[80, 20]], "share": [0.8, 0.2], "purity": 1.0, "nmi": 0.0}
    write_record(tmp_path / "runs", first, 0.8, domain_usage=usage(50, 0, **of_one))
    ours = cells(table_text(table, results(table, tmp_path)))[2]
    assert ours[-3:] == ["70.0", "0.900", "0.750"], "those of the run whose true domains are known"
    Records(tmp_path / "runs", tmp_path / "data").keep(table, tmp_path / "kept")
    kept = KeptTable(table, tmp_path / "kept")
    assert kept.text("ours", kept.columns[0], "{purity} {NMI}") == "0.90 0.75"


def test_results_a_purity_of_images_whose_domains_were_told_says_so(tmp_path):
    table = small_table(tmp_path, TEXT.replace("{method: mda}", "{method: mda, known_share: 0.5}"))
    run = table.rows[0].cells[0].candidates[0].runs[0]
    said = "purity and NMI: in training the branch saw the domain of about 50 % of these images"
    for held_out in (True, False):
        write_record(tmp_path / "runs", run, 0.8, domain_usage=usage(0, 50, held_out=held_out))
        assert (said in table_text(table, results(table, tmp_path))) != held_out


# --- against a reference


def test_differences_are_taken_seed_by_seed(tmp_path):
    table = one_column(tmp_path, reference="best")
    fill(table, tmp_path / "runs", 0, 0, {0: 0.81, 1: 0.84, 2: 0.9})
    fill(table, tmp_path / "runs", 1, 0, {0: 0.8, 1: 0.82, 2: 0.87}, candidate=0)
    fill(table, tmp_path / "runs", 1, 0, {0: 0.1}, candidate=1)
    found = differences(table, results(table, tmp_path))
    assert list(found) == ["ours", "shallow"] and found["shallow"] == [None]
    (ours,) = found["ours"]
    # 1, 2, 3 points: mean 2, s = 1; t(2) is 4.3027 at 97.5 % in printed tables
    assert (ours.n, ours.mean) == (3, pytest.approx(2))
    assert ours.half == pytest.approx(4.3027 / 3**0.5, abs=1e-4)
    assert ours.resolvable == pytest.approx(5.66 / 3**0.5, rel=3e-3)
    text = table_text(table, results(table, tmp_path))
    assert cells(text.split("## Less best, seed by seed")[1])[2:] == [
        ["ours", "+2.00", "−0.48 to +4.48", "3", "3.26"],
        ["shallow", "–", "–", "–", "–"],
    ]
    line, *others = csv.DictReader(io.StringIO(csv_text(table, results(table, tmp_path))))
    assert (line["reference"], line["paired difference"], line["paired n"]) == ("best", "2", "3")
    assert float(line["interval low"]) == pytest.approx(2 - ours.half, abs=1e-4)
    assert not any(other["reference"] for other in others)


@pytest.mark.parametrize(("n", "factor"), [(2, 16.34), (3, 5.66), (5, 3.77), (100, 2.829)])
def test_difference_what_is_resolvable_is_found_with_80_percent_power(n, factor):
    """Of s/√n: what 10^6 simulated paired t tests with few pairs found 80 % of the time; with many 1.984 + 0.845."""
    values = dict(enumerate([-1.0] + [1.0] * (n - 1)))
    found = difference(module.Result(values, n), module.Result(dict.fromkeys(values, 0.0), n))
    assert found.resolvable == pytest.approx(factor * statistics.stdev(values.values()) / n**0.5, rel=3e-3)


# --- why something is missing


def why(table, tmp_path: Path, row: int = 0, **options) -> str:
    return results(table, tmp_path, **options)[row].cells[0].reason


def test_results_data_that_is_not_there_is_named_with_its_command(tmp_path):
    table = load(EXPERIMENTS / "office31.yaml")
    command = "python -m tools.get_data office31 --images DIR"
    assert why(table, tmp_path) == f"Office-31 is not on this machine: {command}"
    assert f"1. Office-31 is not on this machine: {command}\n" in table_text(table, results(table, tmp_path))


def test_results_what_became_of_each_seed(table, tmp_path, tiny_data):
    runs = [run for run in table.runs if run.name.startswith("mda") and run.targets == ("usps",)]
    (tmp_path / "data").symlink_to(tiny_data)
    folders = [write_run(run, tmp_path / "runs" / "digits" / run.name, data=tiny_data) for run in runs]
    failure = {"reason": "the disk\nis full", "step": "training", "iteration": 3, "time": "2026-01-01T00:00:00+00:00"}
    folders[1].failure.write_text(json.dumps(failure))
    write_record(tmp_path / "runs", runs[2], 0.5)
    told = "1 of 3 seeds: seed 0 written, but not trained yet, seed 1 failed: the disk is full"
    assert why(table, tmp_path) == told


def test_results_a_finished_run_on_another_data_folder_is_not_taken(table, tmp_path, tiny_data):
    """Its name is the same, and its numbers are of other images."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "seed0").symlink_to(tiny_data)
    run = table.rows[0].cells[0].candidates[0].runs[0]
    folder = write_run(run, tmp_path / "runs" / "digits" / run.name, data=tmp_path / "data" / "seed0").path
    write_record(tmp_path / "runs", run, 0.8)
    assert results(table, tmp_path, data_per_seed=True)[0].cells[0].accuracies == pytest.approx({0: 80.0})
    of_seeds = Records(tmp_path / "runs", tmp_path / "data", data_per_seed=True)
    assert of_seeds.folders(table) == ([folder], [])
    cell = results(table, tmp_path)[0].cells[0]
    assert not cell.accuracies
    there, here = from_root(tmp_path / "data" / "seed0"), from_root(tmp_path / "data")
    said = f"mda_k2_seed0 holds another experiment: data is {there!r} there, {here!r} here"
    assert said in cell.reason
    with pytest.raises(ProgramError, match=f"none of the 24 runs of small is there, .*; .*{re.escape(said)}"):
        Records(tmp_path / "runs", tmp_path / "data").folders(table)


@pytest.mark.parametrize(
    ("log", "text"),
    [
        ("", "begun, but not finished (log: "),
        ("reading\nerror: no features\n", "seed 0 failed: no features, seeds 1, 2 "),
    ],
)
def test_results_what_became_of_a_baseline(log, text, table, tmp_path):
    folder = tmp_path / "runs" / "digits" / table.rows[2].cells[0].candidates[0].runs[0].name
    folder.mkdir(parents=True)
    (folder / "log").write_text(log)
    assert text in why(table, tmp_path, row=2)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("}", "not valid JSON"),
        (', "accuracy": null}', "accuracy: found None"),
        (', "experiment": {"k": 3}}', "experiment: schema: found None, expected 2"),
    ],
)
def test_results_a_record_that_cannot_be_used_is_named_in_its_cell(damage, message, table, tmp_path):
    fill(table, tmp_path / "runs", 0, 0, {0: 0.8, 1: 0.7, 2: 0.6})
    file = tmp_path / "runs" / "digits" / "mda_k2_seed1" / "record.json"
    file.write_text(file.read_text().strip() + damage if damage == "}" else file.read_text().strip()[:-1] + damage)
    cell = results(table, tmp_path)[0].cells[0]
    assert set(cell.accuracies) == {0, 2}
    assert cell.reason.startswith(f"2 of 3 seeds: seed 1 its record cannot be used: {file}: ")
    assert message in cell.reason


def test_results_a_baselines_record_of_another_setting_is_not_taken(table, tmp_path):
    first, second, _ = table.rows[2].cells[0].candidates[0].runs
    file = write_record(tmp_path / "runs", first, 0.4)
    assert results(table, tmp_path)[2].cells[0].mean == pytest.approx(40.0)
    other = tmp_path / "runs" / "digits" / second.name / "record.json"
    other.parent.mkdir()
    other.write_text(file.read_text())
    assert "it belongs to another run: found seed 0, expected 1" in why(table, tmp_path, row=2)
    record = json.loads(file.read_text())
    del record["baseline"]["classifier"], record["baseline"]["dimension"]
    file.write_text(json.dumps(record))
    assert "it belongs to another run: found no classifier, expected '1nn'" in why(table, tmp_path, row=2)


def test_results_what_is_not_the_papers_experiment_is_remarked(tmp_path):
    table = load(EXPERIMENTS / "office31.yaml", seeds=(0,))
    run = table.runs[0]
    write_record(tmp_path / "runs", run, 0.9, training={"seconds": 1.0, "weights": None}, test_images=20)
    cell = results(table, tmp_path)[0].cells[0]
    assert cell.remarks == (
        "began from random weights, not ImageNet's",
        "tested on 20 images, the published set has 795",
    )
    text = table_text(table, results(table, tmp_path))
    assert "90.0 (n=1) [1] [2]" in text and "1. began from random weights" in text
    begun = {"seconds": 1.0, "weights": {"file": "bvlc_alexnet.caffemodel"}}
    few = "amazon has 48 images, published 2817"
    write_record(tmp_path / "runs", run, 0.9, training=begun, incomplete_data=few)
    assert results(table, tmp_path)[0].cells[0].remarks == (f"not the published data: {few}",)
    write_record(tmp_path / "runs", run, 0.9, training=begun, incomplete_data=None)
    assert results(table, tmp_path)[0].cells[0].remarks == ()


# --- text, CSV, program


def test_records_of_other_images_or_weights_than_there_are_now_are_remarked(tmp_path):
    """As far as notes say: a table reads no LMDB. What is not there is not compared, nor what no record has."""
    table = load(EXPERIMENTS / "office31.yaml", seeds=(0,))
    run, weights = table.runs[0], tmp_path / "data" / "weights" / "bvlc_alexnet.caffemodel"
    weights.parent.mkdir(parents=True)
    weights.write_bytes(b"first")
    lmdb = tmp_path / "data" / "office31" / "amazon"

    def build(value: int) -> str:
        with lmdb_io.create(lmdb, force=True) as (writer, _):
            writer.put("x", lmdb_io.image_datum(np.full((2, 2, 3), value, np.uint8), 0))
        return lmdb_io.contents(lmdb)

    def remarks() -> tuple[str, ...]:
        return results(table, tmp_path)[0].cells[0].remarks

    begun = {"file": weights.name, "sha256": sha256(weights)}
    lmdbs = {"office31/amazon": build(1), "office31/webcam": "0"}
    training = {"seconds": 1.0, "weights": begun, "lmdbs": lmdbs}
    write_record(tmp_path / "runs", run, 0.9, training=training, test_images=795)
    assert remarks() == ()
    build(2)
    weights.write_bytes(b"other")
    assert remarks() == (
        "of other images than are now in office31/amazon",
        "began from other weights than are now in weights/bvlc_alexnet.caffemodel",
    )
    (lmdb / "source.json").unlink()
    weights.unlink()
    assert remarks() == ()
    build(3)
    write_record(tmp_path / "runs", run, 0.9, training={**training, "lmdbs": None}, lmdbs=lmdbs, test_images=795)
    assert remarks() == ("of other images than are now in office31/amazon",), "as baselines' records have them"


def test_results_the_text_of_a_table_of_one_column(tmp_path):
    table = one_column(tmp_path)
    fill(table, tmp_path / "runs", 0, 0, {0: 0.81, 1: 0.84, 2: 0.9})
    fill(table, tmp_path / "runs", 1, 0, {0: 0.7}, candidate=0)
    fill(table, tmp_path / "runs", 1, 0, {0: 0.6, 1: 0.5, 2: 0.4}, candidate=1)
    lines = table_text(table, results(table, tmp_path)).splitlines()
    assert cells("\n".join(lines))[2:] == [
        ["ours [1]", "80.0", "85.0 ± 4.6", "3", "+5.0"],
        ["best", "– [2]", "70.0 [3] [4]", "1", ""],
        ["shallow", "50.0", "– [5]", "", ""],
        ["theirs", "1.2", "– [6]", "", ""],
    ]
    assert "4. by source: mnist 70.0 (n=1), mnistm 50.0 ± 10.0 (n=3)" in lines
    assert "6. as the paper cites it: Somebody 2001" in lines


def test_results_what_looks_like_html_is_text(tmp_path):
    table = small_table(tmp_path, TEXT.replace("note: a note", "note: k < 3 <b>").replace("name: ours", "name: k<3"))
    text = table_text(table, results(table, tmp_path))
    assert r"| k\<3 [1] | paper" in text.replace("  ", "") and "\n1. k \\< 3 \\<b>\n" in text


def test_results_the_text_of_a_table_of_several_columns(table, tmp_path):
    fill(table, tmp_path / "runs", 0, 0, {0: 0.8, 1: 0.9})
    fill(table, tmp_path / "runs", 0, 1, {0: 0.6, 1: 0.5})
    text = table_text(table, results(table, tmp_path))
    found = cells(text)
    assert found[2:5] == [
        ["ours [1]", "paper", "80.0", "90.0", "84.0 (85.00)"],
        ["", "here", "85.0 ± 7.1 (n=2) [2]", "55.0 ± 7.1 (n=2) [2]", "70.00 ± 0 (n=2)"],
        ["", "difference", "+5.0", "−35.0", "−14.0"],
    ]
    assert found[-1] == ["theirs [8]", "paper", "1.2", "2.2", "1.9 (1.70)"]
    assert len({len(line) for line in text.splitlines() if line.startswith("|")}) == 1, "the columns do not line up"


def test_results_the_csv_has_every_number(table, tmp_path):
    fill(table, tmp_path / "runs", 0, 0, {0: 0.8, 2: 0.9})
    lines = list(csv.DictReader(io.StringIO(csv_text(table, results(table, tmp_path)))))
    # two cells and a mean a row, and two candidates for each of best's cells
    assert len(lines) == 4 * 3 + 4
    assert list(lines[0].values())[:7] == ["small", "ours", "ours", "U", "cell", "mnist+mnistm", "usps"]
    assert [lines[0][f"seed {seed}"] for seed in range(3)] == ["80", "", "90"]
    assert [lines[0][key] for key in ("paper", "mean", "difference", "n")] == ["80", "85", "5", "2"]
    assert float(lines[0]["std"]) == pytest.approx(7.0711, abs=1e-4)
    assert lines[0]["reason"].startswith("2 of 3 seeds: seed 1 ")
    assert (lines[-1]["kind"], lines[-1]["paper_recomputed"], lines[-1]["mean"]) == ("cited", "1.7", "")


def test_results_the_program_writes_and_keeps_a_table(table, tmp_path):
    for row, column in ((0, 0), (2, 1)):
        fill(table, tmp_path / "runs", row, column, {0: 0.8, 1: 0.9, 2: 0.7})
    here = ["--data", tmp_path / "data", "--out", tmp_path / "out"]
    picture = tmp_path / "out" / "small" / "figures" / "overview.png"
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"picture")
    done = program("tables", tmp_path / "small.yaml", "--runs", tmp_path / "runs", "--save", tmp_path / "kept", *here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Small\n")
    assert f"{tmp_path / 'kept'}: records of 6 of 24 runs, pictures: 1" in done.stdout
    assert (tmp_path / "out" / "small.md").read_text() in done.stdout
    assert len((tmp_path / "kept" / "records.jsonl").read_text().splitlines()) == 6
    again = program("tables", tmp_path / "small.yaml", "--records", tmp_path / "kept", *here[:2])
    assert again.stdout.endswith(f"\n\nfrom the records in {tmp_path / 'kept'}\n")
    assert not (ROOT / "tables" / "small.md").exists(), "those are the tables of the user's own runs"
    assert again.stdout.count("80.0 ± 10.0 (n=3)") == 2 and "not among the records" in again.stdout
    table_kept = (tmp_path / "kept" / "table.csv").read_text()
    assert "not among the records" in table_kept and "not run yet" not in table_kept
    assert (tmp_path / "kept" / "figures" / "overview.png").read_bytes() == b"picture"
    kept = ["--records", tmp_path / "kept", "--save", tmp_path / "again", *here]
    done = program("tables", tmp_path / "small.yaml", *kept)
    assert f"{tmp_path / 'again'}: records of 6 of 24 runs, pictures: 0" in done.stdout, "they are of other runs"
    assert (tmp_path / "again" / "table.csv").read_text() == table_kept == (tmp_path / "out" / "small.csv").read_text()


def test_records_of_commits_that_nobody_has_are_marked_and_not_kept(table, tmp_path):
    run, other = table.rows[0].cells[0].candidates[0].runs[:2]
    session = {"commit": "b" * 40, "started": "2026-11-27"}
    write_record(tmp_path / "runs", run, 0.8, commit="a" * 40, training={"seconds": 1.0, "sessions": [session]})
    records = Records(tmp_path / "runs", tmp_path / "data", commits={"b" * 40})
    of_unknown = f"of commit {'a' * 8}, which is not in this history"
    assert module.results(table, records)[0].cells[0].remarks == (of_unknown,)
    with pytest.raises(ProgramError, match=f"kept: {run.name}: found a record {of_unknown}, expected one of a commit"):
        records.keep(table, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    assert Records(tmp_path / "runs", tmp_path / "data").keep(table, tmp_path / "kept") == 1, "without git"
    write_record(tmp_path / "runs", other, 0.8, commit="b" * 40)
    assert records.keep(table, tmp_path / "kept") == 2, "what is kept stays"


def test_results_the_program_says_what_is_wrong(table, tmp_path):
    wrong = program("tables", "digit")
    assert wrong.returncode == 1 and "digit.yaml: no such file, expected one of demo, " in wrong.stderr
    wrong = program("tables", "digits", "--records", tmp_path / "nowhere")
    assert (wrong.returncode, wrong.stderr) == (1, f"error: --records {tmp_path / 'nowhere'}: no such folder\n")
    fill(table, tmp_path / "runs", 0, 0, {0: 0.8, 1: 0.8})
    file = tmp_path / "runs" / "digits" / "mda_k2_seed1" / "record.json"
    file.write_text("{")
    folders = ["--runs", tmp_path / "runs", "--out", tmp_path / "out", "--save", tmp_path / "kept"]
    wrong = program("tables", tmp_path / "small.yaml", *folders)
    assert wrong.returncode == 1 and f"error: {file}: not valid JSON" in wrong.stderr
    assert not (tmp_path / "kept").exists(), "half of the records were kept"


def test_results_the_seeds_and_iterations_can_be_others(tmp_path):
    done = program("tables", "digits", "--seeds", "7,8", "--iterations", "20", "--out", tmp_path, "--runs", tmp_path)
    assert "over seeds 7, 8, always" in done.stdout
    assert "Trained for 20 iterations; the recipe has 2000." in done.stdout
    wrong = program("tables", "digits", "--seeds", "7,x", "--out", tmp_path)
    assert wrong.returncode == 2 and "got 'x', expected a whole number" in wrong.stderr
