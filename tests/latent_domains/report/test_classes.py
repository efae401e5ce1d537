"""Which classes are taken for which."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.report import classes
from latent_domains.report.build import build
from latent_domains.report.comparison import group_runs
from latent_domains.report.page import Charts, TableBlock
from latent_domains.report.runs import LoadedRun, load_runs
from tests.latent_domains.report.records import write_record


def test_class_rows_rows_of_classes_begin_with_the_worst():
    counts = {
        "x": np.array([[3, 1, 0, 0], [2, 1, 7, 0], [0, 0, 8, 0], [0, 0, 0, 0]]),
        "y": np.array([[4, 0, 0, 0], [0, 2, 8, 0], [2, 0, 6, 0], [0, 0, 0, 0]]),
    }
    assert classes.class_rows(counts, "abcd") == [
        ("b", "10", "10.0", "20.0", "c (15)"),
        ("c", "8", "100.0", "75.0", "a (2)"),
        ("a", "4", "75.0", "100.0", "b (1)"),
        ("d", "0", "–", "–", "–"),
    ]


def test_class_rows_runs_tested_on_other_images_have_shares_of_their_own():
    """Never more than 100 %, and a class that only one of them was tested on has one number."""
    counts = {"x": np.array([[7, 0], [0, 0]]), "y": np.array([[5, 9], [0, 5]])}
    assert classes.class_rows(counts, "ab") == [
        ("a", "7 / 14", "100.0", "35.7", "b (9)"),
        ("b", "0 / 5", "–", "100.0", "–"),
    ]


def test_confusion_chart_cells_are_shares_of_a_true_class():
    axes = Figure().subplots()
    classes.confusion_chart(np.array([[3, 1], [0, 2]]), "ab", "title").draw(axes)
    found = {text.get_position(): text.get_text() for text in axes.texts}  # predicted, true
    assert found == {(0, 0): "75", (1, 0): "25", (0, 1): "", (1, 1): "100"}


@pytest.mark.parametrize("number", [65, 345])
def test_build_very_many_classes_are_lists_and_not_cells(number, tmp_path):
    names = [f"class_{label:03d}" for label in range(number)]
    experiment = make_experiment(replace(DATASETS["digits"], classes=number), "mda", k=2)
    counts = np.random.default_rng(0).poisson(0.5, (number, number)) + np.diag(np.arange(number))
    counts[7, 9] = 1000
    targets = {"usps": {"accuracy": 0.5, "test_images": int(counts.sum()), "confusion": counts.tolist()}}
    record = write_record(tmp_path / "kept.json", experiment, 0.5, targets=targets, classes=names)
    page = build([record], tmp_path / "report.html", figures=tmp_path / "figures")
    assert (tmp_path / "report.html").stat().st_size < 500_000
    (section,) = (section for section in page.sections if section.ident == "classes")
    charts, tables = ([b for b in section.blocks if isinstance(b, kind)] for kind in (Charts, TableBlock))
    assert [len(block.charts) for block in charts] == ([1] if number == 65 else [])
    assert [len(table.rows) for table in tables] == [number]
    assert {row[0] for row in tables[0].rows} == set(names)


def test_classes_are_called_as_the_finished_run_has_them(tmp_path):
    counts = {"usps": {"accuracy": 1.0, "test_images": 10, "confusion": np.eye(10, dtype=int).tolist()}}
    names = [f"class {label}" for label in range(10)]
    finished = make_experiment("digits", "dial")
    [run], _ = load_runs([write_record(tmp_path / "run.json", finished, 1.0, targets=counts, classes=names)])
    begun = LoadedRun("begun", tmp_path, make_experiment("digits", "source_only"), None, None)
    section = classes.classes_section(group_runs([begun, run]), [begun, run])
    assert {row[0] for row in section.blocks[-1].rows} == set(names)
