"""Records, notes of trainings and failures as files: kept ones, older ones, damaged ones."""

import json
import re

import numpy as np
import pytest

from latent_domains.common.files import json_text
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.record import (
    Failure,
    OnTarget,
    Record,
    Training,
    domain_usage,
    note_on_domain_labels,
    read,
    read_records,
    write_records,
)
from tests.run_folders import small

OLD = {"experiment": make_experiment("digits", "dial").to_json(), "accuracy": 0.5, "targets": {}}

USAGE = {"sources": ["a"], "images": 1, "counts": [[1]], "share": [1.0], "purity": 1.0, "nmi": 0.0}


def test_read_what_was_left_out_stays_out_and_unknown_keys_stay(tmp_path):
    file = tmp_path / "r.json"
    file.write_text(json_text({**OLD, "training": {"seconds": 2.5, "nodes": 3}, "mood": "good"}))
    record = read(Record, file)
    assert record.domain_usage_history is None and record.training.sessions == []
    assert json_text(record.to_json()) == file.read_text()


def test_record_the_class_mean_counts_every_class_alike():
    """Over all targets' images together; a class without any does not count."""
    counts = [np.array([[6, 0, 2], [0, 0, 0], [1, 0, 0]]), np.array([[2, 0, 0], [0, 0, 0], [2, 0, 1]])]
    targets = {name: OnTarget.of(one) for name, one in zip("ab", counts, strict=True)}
    record = Record(experiment={}, accuracy=9 / 14, targets=targets)
    assert (targets["a"].accuracy, targets["a"].test_images) == (6 / 9, 9)
    assert record.class_mean == pytest.approx((8 / 10 + 1 / 4) / 2)
    without = {**targets, "b": OnTarget(accuracy=0.5)}
    assert Record(experiment={}, accuracy=0.5, targets=without).class_mean is None


OTHER_SIZES = {f"of {k}": {"accuracy": 1, "confusion": np.eye(k, dtype=int).tolist()} for k in (2, 3)}
OTHER_K = [{**USAGE, "iteration": 1}, {**USAGE, "iteration": 2, "counts": [[1, 0]], "share": [1.0, 0.0]}]


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
        (Record, {**OLD, "targets": OTHER_SIZES}, "targets: found confusion of 2 and 3 classes, expected the same"),
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
        (Record, {**OLD, "domain_usage_history": OTHER_K}, "domain_usage_history: found several numbers of latent"),
        (Training, {"seconds": 1, "sessions": [{}]}, "sessions[0]: found no started"),
        *(
            (Training, {"seconds": 1, "weights": {"file": file}}, f"weights: file: found '{file}'")
            for file in ("/etc/x", "..", "")
        ),
        (Failure, {"reason": "full"}, "found no step, iteration, time"),
    ],
)
def test_read_what_is_wrong_is_said_in_a_line(kind, text, message, tmp_path):
    file = tmp_path / "r.json"
    file.write_text(text if isinstance(text, str) else json.dumps(text))
    with pytest.raises(ProgramError, match=re.escape(f"{file}: {message}")):
        read(kind, file)


def one_hot(columns, k):
    return np.eye(k, dtype=np.float32)[columns]


def test_domain_usage_how_domains_and_classes_share_the_images():
    """Domains of another order are the same domains; classes cross them, or are them."""
    images = {"a": one_hot([1] * 6, 2), "b": one_hot([0] * 6, 2)}
    crossed = domain_usage(images, {"a": np.arange(6) % 2, "b": np.arange(6) % 2}, held_out=True)
    assert (crossed.nmi, crossed.nmi_classes, crossed.held_out) == (1, pytest.approx(0), True)
    same = domain_usage(images, {"b": np.full(6, 3), "a": np.full(6, 7)})
    assert (same.nmi_classes, same.held_out) == (pytest.approx(1), False)
    assert domain_usage(images).nmi_classes is None


def test_domain_usage_shares_of_the_domains():
    usage = domain_usage({"a": one_hot([0, 0, 0, 1], 2), "b": one_hot([1, 1, 1, 1], 2)})
    assert (usage.purity, usage.images, usage.share) == (7 / 8, 8, [3 / 8, 5 / 8])
    assert usage.counts == [[3, 1], [0, 4]] and usage.mean_probability == [[0.75, 0.25], [0, 1]]


def test_note_on_domain_labels_labels_that_the_branch_learnt_from_are_told():
    """Purity of images whose domains were told is no discovery."""
    trained, held_out = (domain_usage({"a": one_hot([0], 2), "b": one_hot([1], 2)}, held_out=h) for h in (False, True))
    said = "in training the branch saw the {} of about 35 % of these images"
    known, style = (small(method="mda", **{share: 0.35}).method for share in ("known_share", "style_share"))
    assert note_on_domain_labels(known, trained) == said.format("domain")
    assert note_on_domain_labels(style, trained) == said.format("cluster of style")
    nothing = [small(method=name).method for name in ("mda", "dial")]
    assert not any(note_on_domain_labels(method, trained) for method in nothing)
    assert not note_on_domain_labels(known, held_out)


@pytest.mark.parametrize("file", sorted((ROOT / "results").rglob("records.jsonl")), ids=lambda file: file.parent.name)
def test_write_records_kept_records_are_read_and_written_to_the_letter(file, tmp_path):
    write_records(tmp_path / "again.jsonl", read_records(file))
    assert (tmp_path / "again.jsonl").read_bytes() == file.read_bytes()


GOOD = '{"run": "svm", "record": {"baseline": {}, "accuracy": 0.5, "targets": {}}}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: found '{', expected {"),
        ('{"run": 3, "record": {}}', "line 2: run: found 3, expected a name that no other line has"),
        (GOOD, "line 2: run: found 'svm', expected a name that no other line has"),
        (GOOD.replace("0.5", "5").replace("svm", "x"), "line 2: x: accuracy: found 5, expected less than"),
    ],
)
def test_read_records_a_damaged_file_is_refused_by_line(line, message, tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(ProgramError, match=re.escape(message)) as error:
        read_records(file)
    assert str(error.value).startswith(f"{file}: ")


def test_read_records_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(ProgramError, match=r"r\.jsonl: no such file, expected records"):
        read_records(tmp_path / "r.jsonl")
    (tmp_path / "r.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ProgramError, match=r"r\.jsonl: .*expected records, a line of JSON each"):
        read_records(tmp_path / "r.jsonl")
