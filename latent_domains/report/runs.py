"""The runs of a report: a run folder with all it holds, or a record alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from latent_domains.common.caffe_log import curves
from latent_domains.common.files import read_json
from latent_domains.common.program import ProgramError, from_root
from latent_domains.experiment.experiment import Experiment, from_json
from latent_domains.report.record_check import check_record
from latent_domains.runs.run_folder import RunFolder


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
    resolved = [path.resolve() for path in paths]
    for path in resolved:
        if resolved.count(path) > 1:
            raise ProgramError(f"{path}: given twice, expected each run once")
    runs, baselines = [], {}
    names = Counter(map(_name, paths))
    for path in paths:
        name = _name(path) if names[_name(path)] == 1 else from_root(path)
        if (path / "experiment.json").is_file():
            folder = RunFolder.load(path)
            record = folder.read_record() if folder.record.exists() else None
            runs.append(Run(name, path, folder.experiment, folder, _checked(folder.record, record, folder.experiment)))
            continue
        file = path / "record.json" if path.is_dir() else path
        if not file.is_file():
            found = "no experiment.json and no record.json in it" if path.is_dir() else "no such file"
            raise ProgramError(f"{path}: {found}, expected a run folder or a record (JSON)")
        record = read_json(file, ("accuracy", "targets"))
        if "baseline" in record:
            if type(record["accuracy"]) not in (int, float):
                raise ProgramError(f"{file}: accuracy is {record['accuracy']!r}, expected a number")
            if _name(path) in baselines:
                raise ProgramError(f"{path}: a second baseline of this name, expected each once")
            baselines[_name(path)] = float(record["accuracy"])
        else:
            experiment = _experiment(file, record)
            runs.append(Run(name, path, experiment, None, _checked(file, record, experiment)))
    return runs, baselines


def _experiment(file: Path, record: Mapping[str, Any]) -> Experiment:
    try:
        return from_json(record.get("experiment"))
    except ProgramError as error:
        raise ProgramError(f"{file}: {error}") from error


def _checked(file: Path, record: Mapping[str, Any] | None, experiment: Experiment) -> Mapping[str, Any] | None:
    if record is not None:
        try:
            check_record(record, experiment)
        except ProgramError as error:
            raise ProgramError(f"{file}: {error}") from error
    return record


def _name(path: Path) -> str:
    """The name of a run folder, or of a record that was kept as NAME.json."""
    return path.stem if path.suffix == ".json" and not path.is_dir() else path.name
