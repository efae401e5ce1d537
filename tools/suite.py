"""Several experiments as one job: written, trained, evaluated, and never repeated once finished."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.caffe_process import Threads
from tools.experiment import Experiment
from tools.program import ProgramError
from tools.run_folder import RunFolder
from tools.train import train_all
from tools.write_run import write_run


def run_suite(
    experiments: Sequence[Experiment], base: Path, *, data: Path, jobs: int, threads: Threads | None
) -> list[tuple[RunFolder, dict[str, Any]]]:
    """Bring every experiment on the LMDBs under ``data`` to its record under ``base``.

    Interrupted runs go on where they stopped, finished ones are left alone. Returns the run folders with their
    records, in order. Raises ProgramError if a folder of the same name holds another experiment.
    """
    folders = []
    for experiment in experiments:
        path = base / experiment.name
        if path.exists():
            folder = RunFolder.load(path)
            if folder.experiment != experiment:
                raise ProgramError(f"{path} holds another experiment: {_difference(folder.experiment, experiment)}")
        else:
            folder = write_run(experiment, path, data=data)
        folders.append(folder)
    train_all(folders, jobs=jobs, threads=threads, resume=True)
    return [(folder, json.loads(folder.record.read_text())) for folder in folders]


def _difference(found: Experiment, expected: Experiment) -> str:
    there, here = found.to_json(), expected.to_json()
    differing = [f"{key} is {there[key]!r} there, {here[key]!r} here" for key in there if there[key] != here[key]]
    return "; ".join(differing) + " (move it away or choose another folder with --runs)"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns line up in a terminal too."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])
