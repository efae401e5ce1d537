"""Several experiments as one job: written, trained, evaluated, and never repeated once finished."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.caffe_process import Threads
from tools.experiment import Experiment
from tools.program import ProgramError, from_root
from tools.run_folder import RunFolder
from tools.train import train_all
from tools.write_run import write_run


def run_suite(
    experiments: Sequence[Experiment],
    base: Path,
    *,
    data: Path,
    jobs: int,
    threads: Threads | None,
    solver_mode: str | None = None,
) -> list[tuple[RunFolder, dict[str, Any]]]:
    """Bring every experiment on the LMDBs under ``data`` to its record under ``base``.

    Interrupted runs go on where they stopped, finished ones are left alone. Returns the run folders with their
    records, in order. Raises ProgramError if a folder of the same name holds another experiment or another data
    folder's.
    """
    folders = []
    for experiment in experiments:
        path = base / experiment.name
        if path.exists():
            folder = RunFolder.load(path)
            if difference := _difference(_described(folder), _described(RunFolder(path, experiment, data))):
                raise ProgramError(
                    f"{path} holds another experiment: {difference} (move it away or choose another folder with --runs)"
                )
        else:
            folder = write_run(experiment, path, data=data)
        folders.append(folder)
    train_all(folders, jobs=jobs, threads=threads, resume=True, solver_mode=solver_mode)
    return [(folder, folder.read_record()) for folder in folders]


def _described(folder: RunFolder) -> dict[str, Any]:
    return {**folder.experiment.to_json(), "data": from_root(folder.data)}


def _difference(there: dict[str, Any], here: dict[str, Any]) -> str:
    """What differs, in words; empty if nothing does."""
    return "; ".join(
        f"{key} is {there[key]!r} there, {here[key]!r} here" for key in there if there[key] != here[key]
    )
