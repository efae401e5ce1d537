"""What a call does with the folder of a task: decided once, before anything is written."""

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from latent_domains.adapt.settings import OTHERWISE
from latent_domains.adapt.task import Paths
from latent_domains.common.files import remove
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some
from latent_domains.runs.lock import check_unlocked
from latent_domains.runs.run_folder import RunFolder, is_run_folder


class Decision(StrEnum):
    """What is done with a training."""

    NEW = "new"
    CONTINUE = "continue"
    FINISHED = "finished"
    REPLACE = "replace"

    @property
    def begins(self) -> bool:
        """Whether a training begins, so that images and options may be others than those of an earlier call."""
        return self in (Decision.NEW, Decision.REPLACE)


def decide(paths: Paths, *, replaces: bool) -> Decision:
    """Decide about the training in ``paths``.

    Raises ProgramError if it goes on and its run folder is damaged, or was begun at another place: its nets read there.
    It also raises one if there are results, and their run is gone.
    """
    if replaces:
        return Decision.REPLACE
    if not paths.run.exists():
        if left := _results_there(paths):
            raise ProgramError(f"{paths.root}: found {some(left)} of a training whose folder run is gone: {OTHERWISE}")
        return Decision.NEW
    folder = RunFolder.load(paths.run)
    if folder.data_folder.resolve() != paths.data.resolve():
        raise ProgramError(
            f"{paths.root} was moved or copied: its run reads {folder.data_folder}, expected {paths.data} (its model "
            f"can be used anywhere; to go on, move it back, or {OTHERWISE})"
        )
    return Decision.FINISHED if folder.record.exists() else Decision.CONTINUE


def has_begun(paths: Paths) -> bool:
    """Whether an earlier call has begun a training: that of the task, or of its features alone."""
    return paths.run.exists() or paths.features.run.exists() or bool(_results_there(paths))


def _results_there(paths: Paths) -> list[str]:
    return [path.name for path in paths.results if path.exists()]


def remove_results(paths: Paths, needed: Iterable[Path]) -> None:
    """Delete the results of earlier calls, but not the settings, which mark the folder as ours, nor converted weights.

    Raises ProgramError if the folder is being trained, or holds a file that is ``needed``.
    """
    for run in (paths.run, paths.features.run):
        if is_run_folder(run):
            check_unlocked(run)
    old = (*paths.results, paths.run, paths.data, paths.features.root)
    for file in needed:
        if any(file.resolve().is_relative_to(path) for path in old):
            raise ProgramError(f"--weights {file}: --force deletes it: copy it to another folder")
    for path in old:
        remove(path)
