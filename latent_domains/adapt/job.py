"""A task with all that is decided about it, carried out from LMDBs to results."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from latent_domains.adapt.comparisons import result_lines
from latent_domains.adapt.decision import Decision
from latent_domains.adapt.find import with_counted_domains
from latent_domains.adapt.stages import batch_notes, experiment_of, finish, open_run, train
from latent_domains.adapt.task import Task, build_lmdbs, check_different, extract_features, read_stored
from latent_domains.adapt.weights import check_begun, starting_weights
from latent_domains.data.domain_images import TaskImages, notes_on_classes
from latent_domains.experiment.experiment import Experiment
from latent_domains.runs.run_folder import RunFolder


class Notes:
    """Notes for the user, each printed once, whichever training it is about."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, notes: Iterable[str]) -> None:
        """Print those that were not printed before."""
        for note in notes:
            if note not in self._said:
                print(f"note: {note}", flush=True)
                self._said.add(note)


def notes_on(images: TaskImages, experiment: Experiment) -> Iterator[str]:
    """What is worth knowing about images and the experiment on them, a line each."""
    yield from images.notes
    yield from notes_on_classes(images, equal=experiment.recipe.equal_classes)
    yield from batch_notes(images, experiment)


@dataclass(frozen=True)
class Job:
    """A task, the experiment on all its images, what is done with its training, and the weights that it begins from."""

    task: Task
    experiment: Experiment
    decision: Decision
    weights: Path | None


def prepare(task: Task, experiment: Experiment, decision: Decision, option: str | None, converted: Path) -> Job:
    """Make a job: find the weights that its training begins from (:func:`starting_weights`).

    Raises ProgramError, too, if a training that goes on began from others.
    """
    if not decision.begins:
        folder = RunFolder.load(task.paths.run)
        if decision is Decision.FINISHED or folder.latest_snapshot():
            check_begun(option, folder, converted)
            return Job(task, experiment, decision, None)
    return Job(task, experiment, decision, starting_weights(option, experiment, converted))


def carry_out(
    job: Job,
    notes: Notes,
    *,
    jobs: int,
    threads: int | None,
    solver_mode: str | None,
    skip_unreadable: bool,
    allow_missing_classes: bool,
) -> list[str]:
    """Do all that is missing of a job; return its result and those to compare with, in words.

    Prints what it does. Raises ProgramError naming what is wrong with images, LMDBs or the run folder.
    """
    task, experiment, replaces = job.task, job.experiment, job.decision.begins
    found = task.images.counts
    counts = build_lmdbs(task, jobs=jobs, skip_unreadable=skip_unreadable, replace_others=replaces)
    check_different(task, experiment.batch_inputs)
    task = with_counted_domains(task, job.decision, jobs=jobs, skip_unreadable=skip_unreadable)
    experiment = experiment_of(task, counts)
    if counts != found:
        notes.say(
            f"{name}: {number} of {found[name]} images are used: the others could not be read"
            for name, number in counts.items()
            if number != found[name]
        )
        notes.say(notes_on(read_stored(task, allow_missing_classes=allow_missing_classes), experiment))
    print(f"{experiment.title} on {experiment.data.learner}, {experiment.recipe.iterations} iterations", flush=True)
    extract_features(task, experiment, jobs=jobs, skip_unreadable=skip_unreadable, replace_others=replaces)
    folder = open_run(task, experiment, job.decision, solver_mode)
    train(folder, job.decision, job.weights, threads, solver_mode)
    finish(task, folder, jobs=jobs, threads=threads, solver_mode=solver_mode)
    return result_lines(task.paths, folder)
