"""Asking a run's nets, and saying why they cannot be asked."""

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.report.page import Text
from latent_domains.report.runs import Run
from latent_domains.runs.evaluate import last_snapshot
from latent_domains.runs.run_folder import RunFolder, Snapshot


def trained(run: Run) -> tuple[RunFolder, Snapshot]:
    """The run's folder and last snapshot. Raises ProgramError if they are not there."""
    if run.folder is None:
        raise ProgramError(
            f"of {run.name} there is the record alone; train the run to have its snapshots (python -m tools.write_run, "
            "python -m tools.train)"
        )
    snapshot = run.folder.latest_snapshot()
    if run.record and (snapshot is None or snapshot.iteration < run.experiment.iterations):
        raise ProgramError(
            f"{run.folder.snapshots} holds no snapshot of iteration {run.experiment.iterations} any more"
        )
    return run.folder, last_snapshot(run.folder)


def missing(what: str, error: ProgramError) -> Text:
    """Why something cannot be shown; files of the repository are named as from its root."""
    return Text(f"{what}: {str(error).replace(f'{ROOT}/', '')}.", note=True)
