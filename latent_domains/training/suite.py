"""Several experiments as one job: written, trained, evaluated, and never repeated once finished."""

from collections.abc import Sequence
from pathlib import Path

from latent_domains.common.caffe_process import Threads
from latent_domains.experiment.experiment import Experiment
from latent_domains.runs.record import Record
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_missing
from latent_domains.training.train import train_all


def run_suite(
    experiments: Sequence[Experiment],
    base: Path,
    *,
    data: Path,
    jobs: int,
    threads: Threads | None,
    solver_mode: str | None = None,
) -> list[tuple[RunFolder, Record]]:
    """Bring every experiment on the LMDBs under ``data`` to its record under ``base``.

    Interrupted runs go on where they stopped, finished ones are left alone. Returns the run folders with their
    records, in order. Raises ProgramError if a folder of the same name holds another experiment or another data
    folder's.
    """
    folders = [write_missing(experiment, base / experiment.name, data=data) for experiment in experiments]
    train_all(folders, jobs=jobs, threads=threads, resume=True, solver_mode=solver_mode)
    return [(folder, folder.read_record()) for folder in folders]
