"""What a report takes from a record is there, and of the kind that it should be."""

from collections.abc import Mapping
from typing import Any

from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import Experiment

_USAGE = ("sources", "images", "counts", "share", "purity", "nmi")


def check_record(record: Mapping[str, Any], experiment: Experiment) -> None:
    """Raise ProgramError naming the first key whose value cannot be shown. What older versions left out may lack."""
    classes = experiment.data.classes
    if "domain_usage" not in record:
        raise ProgramError("found no domain_usage, expected a record of python -m tools.evaluate")
    accuracy = record["accuracy"]
    _expect(accuracy is None or _is_number(accuracy), f"accuracy is {accuracy!r}, expected a number")
    _expect(isinstance(record["targets"], dict), f"targets: found {record['targets']!r}, expected an object")
    for target, values in record["targets"].items():
        accuracy = values.get("accuracy") if isinstance(values, dict) else None
        _expect(_is_number(accuracy), f"targets: {target} is {values!r}, expected an accuracy")
        counts = values.get("confusion")
        if counts is not None and not _is_matrix(counts, classes, classes):
            raise ProgramError(f"targets: {target}: confusion: expected {classes}×{classes} numbers")
    names = record.get("classes")
    if names is not None and not (_is_list(names, classes) and all(isinstance(name, str) for name in names)):
        raise ProgramError(f"classes: found {names!r}, expected {classes} names")
    history = record.get("domain_usage_history") or []
    _expect(isinstance(history, list), f"domain_usage_history: found {history!r}, expected a list")
    if experiment.has_branch or record["domain_usage"] is not None:
        _check_usage("domain_usage", record["domain_usage"])
    if record.get("target_domain_usage") is not None:
        _check_usage("target_domain_usage", record["target_domain_usage"])
    for usage in history:
        _check_usage("domain_usage_history", usage)
        found = usage.get("iteration")
        _expect(_is_number(found), f"domain_usage_history: iteration is {found!r}, expected a number")
    for key in ("training", "versions", "hardware"):
        found = record.get(key)
        _expect(found is None or isinstance(found, dict), f"{key}: found {found!r}, expected an object")


def _check_usage(key: str, usage: Any) -> None:
    expected = f"{key}: found {usage!r}, expected {', '.join(_USAGE)}"
    _expect(isinstance(usage, dict) and all(name in usage for name in _USAGE), expected)
    for name in ("images", "purity", "nmi"):
        _expect(_is_number(usage[name]), f"{key}: {name} is {usage[name]!r}, expected a number")
    sources, counts, share = usage["sources"], usage["counts"], usage["share"]
    fits = (
        isinstance(sources, list)
        and isinstance(share, list)
        and len(share) > 0
        and _is_matrix(counts, len(sources), len(share))
        and all(map(_is_number, share))
    )
    _expect(fits, f"{key}: counts {counts!r} and share {share!r} do not fit")


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise ProgramError(message)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _is_matrix(value: Any, rows: int, columns: int) -> bool:
    return _is_list(value, rows) and all(_is_list(row, columns) and all(map(_is_number, row)) for row in value)
