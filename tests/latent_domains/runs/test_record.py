"""Records, notes of trainings and failures as files: kept ones, older ones, damaged ones."""

import json
import re

import numpy as np
import pytest

from latent_domains.common.files import json_text
from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.record import Failure, OnTarget, Record, Training, read

OLD = {"experiment": make_experiment("digits", "dial").to_json(), "accuracy": 0.5, "targets": {}}

USAGE = {"sources": ["a"], "images": 1, "counts": [[1]], "share": [1.0], "purity": 1.0, "nmi": 0.0}


def test_what_was_left_out_stays_out_and_unknown_keys_stay(tmp_path):
    file = tmp_path / "r.json"
    file.write_text(json_text({**OLD, "training": {"seconds": 2.5, "nodes": 3}, "mood": "good"}))
    record = read(Record, file)
    assert record.domain_usage_history is None and record.training.sessions == []
    assert json_text(record.to_json()) == file.read_text()


def test_the_class_mean_counts_every_class_alike():
    """Over all targets' images together; a class without any does not count."""
    counts = [np.array([[6, 0, 2], [0, 0, 0], [1, 0, 0]]), np.array([[2, 0, 0], [0, 0, 0], [2, 0, 1]])]
    targets = {name: OnTarget.of(one) for name, one in zip("ab", counts, strict=True)}
    record = Record(experiment={}, accuracy=9 / 14, targets=targets)
    assert (targets["a"].accuracy, targets["a"].test_images) == (6 / 9, 9)
    assert record.class_mean == pytest.approx((8 / 10 + 1 / 4) / 2)
    without = {**targets, "b": OnTarget(accuracy=0.5)}
    assert Record(experiment={}, accuracy=0.5, targets=without).class_mean is None


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Record, "{", "not valid JSON"),
        (Record, "[]", "found list, expected a JSON object"),
        (Record, {"accuracy": 0.5, "targets": {}}, "experiment, baseline: found neither, expected one: what was run"),
        (Record, {**OLD, "baseline": {}}, "experiment, baseline: found both, expected one: what was run"),
        (Record, {**OLD, "accuracy": True}, "accuracy: found True"),
        (Record, {**OLD, "training": {}}, "training: found no seconds"),
        *(
            (Record, {**OLD, "targets": {"a": {"accuracy": 0.5, "confusion": confusion}}}, f"targets: a: {message}")
            for confusion, message in (
                ([[1, 2], [3]], "confusion: expected as many rows as columns"),
                ([[1, 2, 3]], "confusion: expected as many rows as columns"),
                ([[1, -2], [0, 3]], "confusion[0][1]: found -2, expected"),
                ([[1, 2**60], [0, 3]], "confusion[0][1]: found "),
                ([], "confusion: expected as many rows as columns"),
                ([[0, 0], [0, 0]], "confusion: found no image"),
            )
        ),
        (
            Record,
            {
                **OLD,
                "targets": {
                    n: {"accuracy": 1, "confusion": np.eye(k, dtype=int).tolist()} for n, k in (("a", 2), ("b", 3))
                },
            },
            "targets: found confusion of 2 and 3 classes, expected the same",
        ),
        *(
            (Record, {**OLD, "domain_usage": {**USAGE, key: value}}, f"domain_usage: {key}")
            for key, value in (
                ("purity", 2.0),
                ("purity", float("nan")),
                ("nmi", float("inf")),
                ("nmi", 5.0),
                ("share", [1.5]),
                ("counts", [[0, 0]]),
                ("counts", [[-1, 1]]),
                ("mean_probability", [[0.5, 0.5]]),
            )
        ),
        (
            Record,
            {
                **OLD,
                "domain_usage_history": [
                    {**USAGE, "iteration": 1},
                    {**USAGE, "iteration": 2, "counts": [[1, 0]], "share": [1.0, 0.0]},
                ],
            },
            "domain_usage_history: found several numbers of latent domains",
        ),
        (Training, {"seconds": 1, "sessions": [{}]}, "sessions[0]: found no started"),
        *(
            (
                Training,
                {"seconds": 1, "weights": {"file": file}},
                f"weights: file: found '{file}', expected a file's name",
            )
            for file in ("/etc/x", "..", "")
        ),
        (Failure, {"reason": "full"}, "found no step, iteration, time"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(kind, text, message, tmp_path):
    file = tmp_path / "r.json"
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(ProgramError, match=re.escape(f"{file}: {message}")):
        read(kind, file)
