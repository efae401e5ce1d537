"""The runs of a report: a run folder with all it holds, or a record alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.caffe_log import curves
from tools.experiment import Experiment, from_json
from tools.files import read_json
from tools.program import ProgramError, from_root
from tools.run_folder import RunFolder


@dataclass(frozen=True)
class Run:
    """A run to report on; no other of the report has its ``name``.

    ``folder`` is None if there is its record alone, ``record`` None if it is not finished.
    """

    name: str
    path: Path
    experiment: Experiment
    folder: RunFolder | None
    record: Mapping[str, Any] | None

    @cached_property
    def curves(self) -> dict[tuple[str, str], dict[int, float]]:
        """Values by iteration of every (phase, name) in the log; empty if there is none."""
        if self.folder is None or not self.folder.log.exists():
            return {}
        return curves(self.folder.log.read_text(errors="replace").splitlines())

    @property
    def accuracies(self) -> dict[str, float]:
        """Accuracy (0 to 1) on each target that was tested, at the last iteration; empty if it is not known."""
        targets = self.record["targets"] if self.record else {}
        return {target: values["accuracy"] for target, values in targets.items()}


def load_runs(paths: Sequence[Path]) -> tuple[list[Run], dict[str, float]]:
    """Open run folders, folders that hold a ``record.json`` alone, and records by any name ending in ``.json``.

    Returns the runs, and of the shallow baselines among them the accuracies (0 to 1) by name.
    Raises ProgramError naming the file if one is none of these, was damaged, or is given twice.
    """
    runs, baselines = [], {}
    names = Counter(map(_name, paths))
    for path in paths:
        name = _name(path) if names[_name(path)] == 1 else from_root(path)
        if (path / "experiment.json").is_file():
            folder = RunFolder.load(path)
            record = folder.read_record() if folder.record.exists() else None
            runs.append(Run(name, path, folder.experiment, folder, record))
            continue
        record = _read(path)
        if "baseline" in record:
            baselines[_name(path)] = float(record["accuracy"])
        else:
            runs.append(Run(name, path, _experiment(path, record), None, record))
    resolved = [path.resolve() for path in paths]
    for path in resolved:
        if resolved.count(path) > 1:
            raise ProgramError(f"{path}: given twice, expected each run once")
    return runs, baselines


def _read(path: Path) -> dict[str, Any]:
    """A record's contents: those of another program's JSON are refused."""
    file = path / "record.json" if path.is_dir() else path
    if not file.is_file():
        found = "no experiment.json and no record.json in it" if path.is_dir() else "no such file"
        raise ProgramError(f"{path}: {found}, expected a run folder or a record (JSON)")
    record = read_json(file, ("accuracy", "targets"))
    accuracy = record["accuracy"]
    if not (accuracy is None or isinstance(accuracy, float)) or not isinstance(record["targets"], dict):
        raise ProgramError(f"{file}: accuracy is {accuracy!r} of {record['targets']!r}, expected a number and targets")
    if "baseline" not in record and "domain_usage" not in record:
        raise ProgramError(f"{file}: found no domain_usage, expected a record of python -m tools.evaluate")
    return record


def _experiment(path: Path, record: Mapping[str, Any]) -> Experiment:
    try:
        return from_json(record.get("experiment"))
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from error


def _name(path: Path) -> str:
    """The name of a run folder, or of a record that was kept as NAME.json."""
    return path.stem if path.suffix == ".json" and not path.is_dir() else path.name
