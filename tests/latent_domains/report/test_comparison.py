"""Which runs stand together in a line, and which number of the paper beside it."""

from dataclasses import replace

import pytest

from latent_domains.common.files import json_text
from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import make_experiment
from latent_domains.report.comparison import group_runs, group_runs_of_table
from latent_domains.report.runs import load_runs
from latent_domains.runs.record import OnTarget, Record
from latent_domains.tables.definition import EXPERIMENTS, load
from tests.latent_domains.report.records import write_record


def test_runs_that_differ_in_their_seed_alone_are_a_line(tmp_path):
    chosen = [("mda", 0, 0.9), ("source_only", 0, 0.5), ("mda", 1, 0.8), ("mda", 2, 0.85), ("dial", 3, 0.7)]
    paths = [
        write_record(tmp_path / f"{i}.json", make_experiment("digits", method, seed=seed), accuracy)
        for i, (method, seed, accuracy) in enumerate(chosen)
    ]
    [task] = group_runs(load_runs(paths)[0])
    assert task.name == "mnist+mnistm → usps"
    assert [(line.name, len(line.runs)) for line in task.lines] == [("source only", 1), ("DIAL", 1), ("mDA, k=2", 3)]
    line = task.lines[-1]
    assert line.scores == pytest.approx((90, 80, 85))
    assert (line.mean, line.std) == (pytest.approx(85), pytest.approx(5))
    assert task.lines[0].std is None


def test_group_runs_lines_of_one_title_are_told_apart(tmp_path):
    experiments = [make_experiment("digits", "mda", iterations=n) for n in (10, 20)]
    experiments.append(make_experiment("digits", "mda", sources=("mnist",), k=2))
    paths = [write_record(tmp_path / f"{i}.json", one, 0.5) for i, one in enumerate(experiments)]
    [task] = group_runs(load_runs(paths)[0])
    assert len({line.name for line in task.lines}) == 3
    assert len({(line.dashes, line.mark) for line in task.lines}) == 3


def test_group_runs_one_experiment_trained_twice_is_no_second_seed(tmp_path):
    paths = [write_record(tmp_path / f"{name}.json", make_experiment("digits", "mda"), 0.5) for name in "ac"]
    with pytest.raises(ProgramError, match=r"c\.json: the same experiment as .*a\.json, expected one of them"):
        group_runs(load_runs(paths)[0])


def test_runs_that_read_other_records_under_the_same_name_are_told(tmp_path):
    """Of one seed: each seed may have LMDBs of its own, and each run has its own domain labels."""
    read = {"dial": ("mnist of today", 0), "source_only": ("mnist of yesterday", 0), "mda": ("mnist of seed 1", 1)}
    for method, (contents, seed) in read.items():
        lmdbs = {"digits/mnist_train": contents, "digits/usps_test": "the same", "domain_labels/mnist": method}
        training = {"seconds": 1.0, "lmdbs": lmdbs}
        write_record(tmp_path / f"{method}.json", make_experiment("digits", method, seed=seed), 0.5, training=training)

    def changed(*methods):
        (task,) = group_runs(load_runs([tmp_path / f"{method}.json" for method in methods])[0])
        return task.changed_lmdbs

    assert changed("dial", "source_only", "mda") == ["digits/mnist_train"]
    assert changed("dial", "mda") == []


def test_group_runs_nets_on_images_and_on_features_of_them_stand_beside_each_other(tmp_path):
    experiments = [make_experiment("pacs", "dial", network="lite0"), make_experiment("pacs_lite0", "dial")]
    paths = [write_record(tmp_path / f"{i}.json", one, 0.5 + i / 10) for i, one in enumerate(experiments)]
    baseline = {"method": "logistic", "dataset": "pacs_lite0", "targets": ["sketch"]}
    shallow = Record(baseline=baseline, accuracy=0.55, targets={"sketch": OnTarget(accuracy=0.55)})
    (tmp_path / "shallow.json").write_text(json_text(shallow.to_json()))
    [task] = group_runs(*load_runs([*paths, tmp_path / "shallow.json"]))
    lines = [(line.name, line.scores) for line in task.lines]
    assert lines[:2] == [("DIAL on lite0", (50.0,)), ("DIAL on features of lite0", (60.0,))] and len(lines) == 3
    [task] = group_runs(load_runs(paths[1:])[0])
    assert [line.name for line in task.lines] == ["DIAL"]


def test_group_runs_of_table_a_table_has_the_papers_number_beside_the_best_candidate(tmp_path):
    table = load(EXPERIMENTS / "digits.yaml", seeds=(0, 1))
    accuracies = {"mnist": (0.4, 0.5), "mnistm": (0.6, 0.5)}
    paths = [
        write_record(
            tmp_path / f"{source}{seed}.json",
            make_experiment("digits", "source_only", sources=(source,), seed=seed),
            accuracy,
        )
        for source, values in accuracies.items()
        for seed, accuracy in enumerate(values)
    ]
    [task] = group_runs_of_table(table, load_runs(paths)[0], {})
    lines = {line.name: line for line in task.lines}
    best, other = lines["Best single source: mnistm"], lines["Best single source: mnist"]
    assert (best.paper, best.mean) == (59.8, pytest.approx(55))
    assert (other.paper, other.mean) == (None, pytest.approx(45))
    assert lines["mDA, k = 3"].paper == 82.2 and not lines["mDA, k = 3"].scores
    assert "DIAL, best single source" in lines  # none of its candidates has a run


def test_group_runs_of_table_the_best_candidate_is_not_known_before_all_are_tried(tmp_path):
    table = load(EXPERIMENTS / "digits.yaml", seeds=(0,))
    experiment = make_experiment("digits", "source_only", sources=("mnist",))
    runs, _ = load_runs([write_record(tmp_path / "mnist.json", experiment, 0.4)])
    [task] = group_runs_of_table(table, runs, {})
    lines = [(line.name, line.paper, line.mean) for line in task.lines if line.name.startswith("Best single source")]
    assert lines == [
        ("Best single source", 59.8, None),
        ("Best single source: mnist", None, 40),
        ("Best single source: mnistm", None, None),
    ]


def test_group_runs_of_table_a_run_that_is_none_of_the_tables_is_named(tmp_path):
    table = load(EXPERIMENTS / "digits.yaml")
    path = write_record(tmp_path / "r.json", make_experiment("digits", "mda", k=7), 0.5)
    with pytest.raises(ProgramError, match=r"r\.json: its experiment \(mda_k7_seed0\) does not belong to the table"):
        group_runs_of_table(table, load_runs([path])[0], {})
    with pytest.raises(ProgramError, match="gong2013_x: the table digits has no such baseline"):
        group_runs_of_table(table, [], {"gong2013_x": 0.5})


def test_group_runs_of_table_an_accuracy_in_a_table_is_of_the_targets_that_have_labels():
    table = load(EXPERIMENTS / "office_caltech_lite0.yaml")
    webcam_dslr = next(number for number, column in enumerate(table.columns) if len(column.targets) == 2)
    first, second = table.columns[webcam_dslr].targets
    table.data = replace(table.data, unlabelled=(second,))
    assert group_runs_of_table(table, [], {})[webcam_dslr].targets == (first,)
