"""The runs of a report: whole run folders, or only records."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from latent_domains.common.caffe_process import curves
from latent_domains.common.program import ProgramError, from_root
from latent_domains.experiment.experiment import Experiment, from_json
from latent_domains.runs.record import Record, read, read_records
from latent_domains.runs.run_folder import RunFolder, Snapshot, find_runs


@dataclass(frozen=True)
class LoadedRun:
    """A run to report on. Its ``name`` is unique in the report.

    ``folder`` is None if there is only a record, ``record`` is None if the run is not finished.
    """

    name: str
    path: Path
    experiment: Experiment
    folder: RunFolder | None
    record: Record | None

    @cached_property
    def curves(self) -> dict[tuple[str, str], dict[int, float]]:
        """Values by iteration of every (phase, name) in the log; empty if there is none."""
        return curves(self.folder.log_text().splitlines()) if self.folder else {}

    @property
    def classes(self) -> list[str]:
        """The classes' names, or their labels."""
        known = self.record.classes if self.record else None
        return known or [str(label) for label in range(self.experiment.data.classes)]

    def trained(self) -> tuple[RunFolder, Snapshot]:
        """Return the run's folder and last snapshot. Refuses a run that is only a record."""
        if self.folder is None:
            raise ProgramError(
                f"of {self.name} there is only a record; train the run to get its snapshots "
                "(python -m tools.write_run, python -m tools.train)"
            )
        snapshot = self.folder.latest_snapshot()
        if self.record and (snapshot is None or snapshot.iteration < self.experiment.recipe.iterations):
            raise ProgramError(
                f"{self.folder.snapshots} holds no snapshot of iteration {self.experiment.recipe.iterations} any more"
            )
        return self.folder, self.folder.final_snapshot()


_OF_A_RUN = ("experiment.json", "solver.prototxt")
"""Files that only a run folder has. A broken link counts as well: the first that is missing is named."""


def load_runs(paths: Sequence[Path]) -> tuple[list[LoadedRun], dict[str, Record]]:
    """Open run folders, folders of them or with only a ``record.json``, records (NAME.json), kept ones (NAME.jsonl).

    In a folder of run folders, single records are ignored. Returns the runs, and by name the records of shallow
    baselines among them, which all have accuracies.
    """
    runs, baselines = [], {}
    paths = [run for path in paths for run in _runs_in(path)]
    names = Counter(map(_run_name, paths))
    for path in paths:
        name = _run_name(path) if names[_run_name(path)] == 1 else from_root(path)
        if _holds(path, *_OF_A_RUN):  # more than just a record
            folder = RunFolder.load(path)
            record = folder.read_record() if folder.record_file.exists() else None
            runs.append(LoadedRun(name, path, folder.experiment, folder, record))
            continue
        for each, file, record in _records(path, name):
            if record.experiment is not None:
                runs.append(LoadedRun(each, path, _experiment(file, record), None, record))
            elif record.accuracy is None:
                raise ProgramError(f"{file}: accuracy: found None, expected a number")
            elif each in baselines:
                raise ProgramError(f"{path}: a second baseline of this name, expected each once")
            else:
                baselines[each] = record
    return runs, baselines


def _holds(path: Path, *names: str) -> bool:
    return any(os.path.lexists(path / name) for name in names)


def is_folder_of_runs(path: Path) -> bool:
    """Say whether a folder is neither a run folder nor that of a record, so that the run folders in it are read."""
    return path.is_dir() and not _holds(path, *_OF_A_RUN, "record.json")


def _runs_in(path: Path) -> list[Path]:
    return find_runs(path) if is_folder_of_runs(path) else [path]


def _records(path: Path, name: str) -> list[tuple[str, str, Record]]:
    """Read records without run folders; return name, path and record of each."""
    if path.suffix == ".jsonl":
        return [(run, f"{path}: {run}", record) for run, record in read_records(path).items()]
    file = path / "record.json" if path.is_dir() else path
    if not file.is_file():
        raise ProgramError(f"{file}: no such file, expected a run folder or a record (JSON)")
    record = read(Record, file)
    return [(name if record.experiment is not None else _run_name(path), str(file), record)]


def _experiment(file: str, record: Record) -> Experiment:
    """Return a record's experiment, after checking that both fit."""
    try:
        experiment = from_json(record.experiment)
    except ProgramError as error:
        raise ProgramError(f"{file}: {error}") from error
    record.check(experiment, file)
    return experiment


def _run_name(path: Path) -> str:
    """Return the name of a run folder, or of a record NAME.json."""
    return path.stem if path.suffix == ".json" and not path.is_dir() else path.name
