"""Train run folders with the real ``caffe train``, then evaluate them at the last iteration."""

import math
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import caffe
from tqdm import tqdm

from latent_domains.common.caffe_process import UNMOVED_BY_SIGTERM, History, start, start_logged
from latent_domains.common.files import expect_no_link, naming, sha256
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.common.versions import openblas_kernel
from latent_domains.common.wording import harmless, some
from latent_domains.experiment.networks import NETWORKS, expect_caffemodel
from latent_domains.models.weights import check_weights, for_caffe
from latent_domains.runs.devices import mode_of, requested_mode, set_mode
from latent_domains.runs.evaluate import DIVERGED
from latent_domains.runs.preflight import check_nets, preflight
from latent_domains.runs.provenance import (
    AGAIN,
    check_same_images,
    check_same_weights,
    file_contents,
    lmdb_contents,
)
from latent_domains.runs.record import BegunFrom
from latent_domains.runs.run_folder import RunFolder, Snapshot
from latent_domains.runs.run_state import Interrupted, recording_failure, recording_session
from latent_domains.runs.write import check_name
from latent_domains.training.child import Child, Children

Evaluation = Callable[[RunFolder, int, Children], None]
"""Evaluates a run with a number of threads. A process that it starts for this is one of the children."""


class _Bar(tqdm):
    """A progress bar that stops silently when its pipe is closed, instead of ending the run."""

    def display(self, *args: object, **options: object) -> None:
        try:
            super().display(*args, **options)
        except OSError:
            self.disable = True

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@dataclass(frozen=True)
class _Job:
    """A run to train: from ``snapshot``, else from the caffemodel ``weights``, else from random values.

    ``loaded`` is the file that Caffe reads for these weights. ``position`` is that of the run's progress bar.
    """

    folder: RunFolder
    snapshot: Snapshot | None
    weights: Path | None
    loaded: Path | None
    position: int

    @property
    def first(self) -> int:
        """The iteration at which training begins."""
        return self.snapshot.iteration if self.snapshot else 0

    def start(self, threads: int) -> Child:
        """Start the training: ``caffe train``, or our own process if there is a snapshot."""
        if self.snapshot:
            return start_worker(self.folder.solver, self.snapshot.state, threads)
        arguments = ["train", "-solver", os.path.relpath(self.folder.solver, ROOT)]
        if self.loaded:
            arguments += ["-weights", ",".join([*self.folder.read_solver().weights, str(self.loaded)])]
        return Child("caffe train", start(arguments, threads))


def start_worker(solver: Path, snapshot: Path, threads: int) -> Child:
    """Start the process that continues from the solverstate ``snapshot`` with this many ``threads``."""
    command = [sys.executable, "-m", "latent_domains.training.worker"]
    command += ["--solver", str(solver.resolve()), "--snapshot", str(snapshot.resolve())]
    return Child("training", start_logged(command, threads))


def train_all(
    runs: Sequence[RunFolder],
    *,
    jobs: int = 1,
    threads: int | None = None,
    resume: bool = False,
    solver_mode: str | None = None,
    weights: Path | None = None,
    wait: bool = False,
    evaluate: Evaluation | None = None,
) -> None:
    """Train and evaluate runs, ``jobs`` at a time. Call it from the main thread.

    ``threads`` None divides the cores among the jobs. With ``resume``, a run continues from its last complete snapshot,
    and a finished run is skipped. ``solver_mode`` (GPU or CPU) is written into the runs' solvers; None means that of
    the environment, if any.

    Runs begin from the caffemodel ``weights`` in all layers whose names it has; a run that has begun must have begun
    from it, and on the images that its LMDBs contain now. With ``wait``, it waits for a run that another process
    trains; else this is an error. ``evaluate`` writes the record of a trained run; None does it in a separate process
    (:func:`evaluate_apart`).

    If one run cannot begin, none does. If one fails later, the others continue; at the end their errors are printed,
    and the first is raised. Raises KeyboardInterrupt after a stop.
    """
    if weights:
        check_name(weights)
    with ExitStack() as held:
        for folder in sorted(runs, key=lambda folder: folder.path.resolve()):  # all processes lock in this order
            held.enter_context(folder.locked(wait=wait))
            if RunFolder.load(folder.path).experiment != folder.experiment:  # after a wait it may be
                raise ProgramError(f"{folder.path}: another process replaced it meanwhile: call it again")
        waiting: list[_Job] = []
        for folder in runs:
            finished = resume and folder.record_file.exists()
            if finished:
                folder.read_record()  # raises if it is damaged: then the run is not finished
                check_nets(folder)  # nets and a solver that were changed would have another record
            snapshot = None if finished else _starting_point(folder, resume)
            if finished or snapshot:
                if weights and weights.is_file():  # a file that is gone is not needed
                    check_same_weights(folder, weights, f"leave --weights out, or {AGAIN}")
                check_same_images(folder)
            if finished:
                continue
            mode = requested_mode(solver_mode)
            with recording_failure(folder, "preparation"):
                preflight(folder, mode)
                start_from = loaded = None
                if weights and snapshot:
                    tqdm.write(f"{folder.path.name}: goes on from its snapshot, {weights.name} is not read")
                elif weights:
                    start_from = weights.resolve()
                    tqdm.write(f"{folder.path.name}: {loaded_from(folder, start_from)}")
                    loaded = held.enter_context(for_caffe(start_from))
                elif not snapshot and (begun := folder.read_training()) and begun.weights:
                    raise ProgramError(
                        f"{folder.path}: it began from {begun.weights.file} and has no snapshot: pass --weights again "
                        "(or write the run again with --force)"
                    )
                if mode:
                    set_mode(folder, mode)
            folder.failure.unlink(missing_ok=True)
            waiting.append(_Job(folder, snapshot, start_from, loaded, len(waiting)))
        if waiting:
            _train_jobs(waiting, min(jobs, len(waiting)), threads, evaluate or evaluate_apart)


def share_of_cores(processes: int) -> int:
    """Return the threads for each of several processes that share this machine's cores."""
    return max(1, len(os.sched_getaffinity(0)) // processes)


def _train_jobs(waiting: Sequence[_Job], jobs: int, threads: int | None, evaluate: Evaluation) -> None:
    threads = threads or share_of_cores(jobs)
    children = Children()

    def work(job: _Job) -> None:
        if not children.stopping and job.first < job.folder.experiment.recipe.iterations:
            with (
                recording_failure(job.folder, "training"),
                recording_session(job.folder, job.first, _how(job, threads), lambda: children.stopping),
            ):
                _train(job, threads, children)
        if not children.stopping:
            with recording_failure(job.folder, "evaluation"):
                evaluate(job.folder, threads, children)

    with children.take_signals(), ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, job) for job in waiting]
        errors = [error for future in futures if (error := future.exception())]
    if children.stopping:
        errors = [error for error in errors if not isinstance(error, Interrupted)]
    for error in errors[1:]:
        tqdm.write(f"error: {error}", file=sys.stderr)
    if errors:
        raise errors[0]
    if children.stopping:
        raise KeyboardInterrupt


def evaluate_apart(folder: RunFolder, threads: int, children: Children) -> None:
    """Evaluate in a separate process: pycaffe logs to stderr, and several runs may end at the same time."""
    command = [*UNMOVED_BY_SIGTERM, sys.executable, "-m", "tools.evaluate", str(folder.path.resolve())]
    command += ["--solver-mode", mode_of(folder)]  # not what the environment asks for
    tqdm.write(f"{folder.path.name}: evaluating …")
    with Child("evaluation", start_logged(command, threads)) as child, children.watch(child.process):
        for _ in child.lines():
            pass
    if child.failure and not children.stopping:
        raise ProgramError(f"{folder.path}: {child.failure}")


def _starting_point(folder: RunFolder, resume: bool) -> Snapshot | None:
    """Return the snapshot to continue from, or None to begin. Refuses a run that has begun, unless ``resume``."""
    snapshot = folder.latest_snapshot()
    if not resume and (snapshot or folder.record_file.exists()):
        done = "is finished" if folder.record_file.exists() else f"was trained to iteration {snapshot.iteration}"
        raise ProgramError(f"{folder.path} {done}: pass --resume to go on, or write it again with --force")
    return snapshot


def _train(job: _Job, threads: int, children: Children) -> None:
    """Train to the end, or to a clean stop, with a progress bar."""
    folder, iterations = job.folder, job.folder.experiment.recipe.iterations
    reader, shown, stopped = History(), {}, False
    for file in (folder.log, *folder.snapshots_after(job.first)):
        expect_no_link(file)
    with (
        naming(folder.log),
        folder.log.open("a", buffering=1) as log,
        _Bar(total=iterations, initial=job.first, position=job.position, desc=folder.path.name, unit="it") as bar,
        job.start(threads) as child,
        children.watch(child.process),
    ):
        for line in child.lines():
            log.write(line)
            stopped |= "Optimization stopped early." in line
            if measurement := reader.feed(line):
                if measurement.name == "loss" or measurement.name.startswith("accuracy"):
                    shown[measurement.name] = f"{measurement.value:.3f}"
                    bar.set_postfix(shown, refresh=False)
                bar.update(max(0, measurement.iteration - bar.n))
                if (measurement.phase, measurement.name) == ("train", "loss") and not math.isfinite(measurement.value):
                    found = f"the loss at iteration {measurement.iteration} is {measurement.value}"
                    raise ProgramError(f"{folder.log}: {found}: {DIVERGED}")
        if not child.failure and not stopped and not children.stopping:
            bar.update(iterations - bar.n)
    if children.stopping:
        return
    killed = child.process.returncode == -signal.SIGINT  # before caffe could handle a signal
    if stopped or killed:  # by a signal that was sent to caffe itself
        raise Interrupted(f"{folder.path}: training was stopped from outside; go on with --resume")
    if child.failure:
        of_our_layer = re.search(r'Layer "[^"]*": .*\b(nan|inf)\b', child.failure)
        advice = f": {DIVERGED}" if of_our_layer else ""
        raise ProgramError(f"{folder.path}: {child.failure}{advice} (whole log: {folder.log})")


def _how(job: _Job, threads: int) -> dict[str, Any]:
    """Return, for the record, how a run is trained, on which data and from which weights."""
    before = job.folder.read_training()
    weights = before.weights if before and job.snapshot else None
    if job.weights:
        weights = BegunFrom(file=job.weights.name, sha256=sha256(job.weights))
    return {
        "threads": threads,
        "openblas": openblas_kernel(),
        "solver_mode": mode_of(job.folder),
        "weights": weights,
        "lmdbs": lmdb_contents(job.folder),
        "files": file_contents(job.folder),
    }


def loaded_from(folder: RunFolder, weights: Path) -> str:
    """Describe what a run loads from a caffemodel. Refuses one that fits no layer."""
    expect_caffemodel(weights)
    names = [name for name in ("deploy", "domains") if folder.net(name).exists()]
    fit = check_weights(weights, [folder.load_net(name, caffe.TEST) for name in names])
    layer = NETWORKS[folder.experiment.net.network].caffe_only
    if layer and fit.loaded:
        of_caffe = layer in (*fit.loaded, *fit.unused)
        if of_caffe != (folder.experiment.net.geometry == "caffe"):
            raise ProgramError(
                f"{weights}: it has {'a' if of_caffe else 'no'} {layer}, so its geometry is "
                f"{'caffe' if of_caffe else 'torch'}; that of the run is {folder.experiment.net.geometry}: "
                "write the run again with the other --geometry"
            )
    lists = {"loaded": some(fit.loaded), "start anew": ", ".join(fit.missing), "not used": ", ".join(fit.unused)}
    return harmless(f"{weights.name}: " + "; ".join(f"{what}: {names or 'none'}" for what, names in lists.items()))
