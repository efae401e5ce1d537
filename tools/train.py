"""Train run folders with the real ``caffe train``, then evaluate them at the last iteration.

Ctrl-C stops cleanly with a snapshot; --resume goes on from there. The whole log is kept in RUN/train.log, when and how
long it was trained in RUN/training.json and the result in RUN/record.json; if the run fails, RUN/failure.json says why.

With --gpus, one process on each GPU takes its share of every domain's images in a batch (docs/several_gpus.md).
--processes does the same on the CPU.
"""

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import caffe
from tqdm import tqdm

from tools.arguments import positive
from tools.caffe_log import LogReader, ending
from tools.caffe_process import UNMOVED_BY_SIGTERM, Threads, environment, start
from tools.evaluate import summary
from tools.parallel.devices import ALL, Devices, gpu_list, on_gpus
from tools.parallel.group import Group, start_workers
from tools.parallel.share import Share, make_share, write_share
from tools.preflight import preflight
from tools.program import ROOT, ProgramError, run
from tools.run_folder import RunFolder, Snapshot
from tools.run_state import Interrupted, failures_noted, forget_failure, last_iteration
from tools.sittings import FAILED, FINISHED, STOPPED, begin_sitting, end_killed_sitting, end_sitting
from tools.solver_mode import add_mode_option, mode_of, requested_mode, set_mode
from tools.threads import choose
from tools.weights import check_weights

if TYPE_CHECKING:
    from tools.tensorboard import Events

SAME_SIGNAL = 1.0
"""Seconds in which a second Ctrl-C counts as the first one: ``timeout -s INT`` sends two."""


class Children:
    """The processes at work. Ctrl-C is passed on to each of them once; a second one kills them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # the handler of one signal may interrupt that of another
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped: float | None = None

    @property
    def stopping(self) -> bool:
        return self._stopped is not None

    @contextmanager
    def watch(self, child: subprocess.Popen[str]) -> Iterator[None]:
        """Pass signals on to ``child`` while the block runs; an error in the block kills it."""
        with self._lock:
            self._running.add(child)
            if self.stopping:
                child.send_signal(signal.SIGINT)
        try:
            yield
        except BaseException:  # the log could not be written, say: caffe must not go on alone
            child.kill()
            raise
        finally:
            with self._lock:
                self._running.discard(child)

    @contextmanager
    def take_signals(self) -> Iterator[None]:
        """While the block runs, Ctrl-C, ``kill`` and a closed terminal stop the children and raise nothing here.

        Signals that the caller ignores (``nohup``) stay ignored.
        """
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.getsignal(number) for number in numbers}
        try:
            for number, handler in before.items():
                if handler != signal.SIG_IGN:
                    signal.signal(number, self._stop)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, _: object) -> None:
        """SIGINT makes caffe write a snapshot and end."""
        with self._lock:
            again = self._stopped is not None
            if again and (number != signal.SIGINT or time.monotonic() - self._stopped < SAME_SIGNAL):
                return
            self._stopped = self._stopped or time.monotonic()
            for child in self._running:
                child.send_signal(signal.SIGKILL if again else signal.SIGINT)
        text = "killed" if again else "stopping: each run writes a snapshot first (Ctrl-C again to kill)"
        with suppress(OSError):  # the terminal may be gone
            tqdm.write(text, file=sys.stderr)


class _Bar(tqdm):
    """A progress bar that goes dark when nobody reads it any more (a closed pipe) instead of ending the run."""

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
    """A run to train from a snapshot (None: from ``weights`` or the fillers); ``lock`` holds its folder."""

    folder: RunFolder
    snapshot: Snapshot | None
    weights: Path | None
    lock: int
    position: int
    share: Share | None = None
    devices: Devices | None = None
    tensorboard: bool = False

    def start(self, threads: Threads) -> Group:
        """Start the training: of each process's share of a batch on ``devices``, or by one ``caffe train``."""
        if self.share and self.devices:
            return start_workers(
                self.share,
                self.devices,
                threads,
                snapshot=self.snapshot.state if self.snapshot else None,
                weights=self.weights,
                descriptors=(self.lock,),
            )
        arguments = ["train", "-solver", os.path.relpath(self.folder.solver, ROOT)]
        if self.snapshot:
            arguments += ["-snapshot", os.path.relpath(self.snapshot.state, ROOT)]
        elif self.weights:
            arguments += ["-weights", str(self.weights)]
        return Group({"caffe train": start(arguments, threads, (self.lock,))})


def train_all(
    runs: Sequence[RunFolder],
    *,
    jobs: int = 1,
    threads: Threads | None = None,
    resume: bool = False,
    solver_mode: str | None = None,
    weights: Path | None = None,
    devices: Devices | None = None,
    tensorboard: bool = False,
) -> None:
    """Train and evaluate runs, ``jobs`` at a time. To be called from the main thread.

    ``threads`` None measures what is fastest. With ``resume``, a run goes on from its last whole snapshot and a
    finished one is left alone. ``solver_mode`` (GPU or CPU) is written into the runs' solvers; None takes that of the
    environment, if any. Runs begin from the caffemodel ``weights``, as far as layers have the same names. With
    ``devices``, one run after the other is shared out to several processes. With ``tensorboard``, event files are
    written too. Raises ProgramError for the first run that
    fails (the others are finished first, and their errors printed) and KeyboardInterrupt after a clean stop.
    """
    if devices and jobs > 1:
        raise ProgramError(f"{devices.option}: got --jobs {jobs}; runs on several processes are trained one by one")
    with ExitStack() as locks:
        waiting: list[_Job] = []
        for folder in runs:
            lock = locks.enter_context(folder.locked())
            snapshot = _starting_point(folder, resume)
            if snapshot == "finished":
                continue
            mode = requested_mode(solver_mode)
            if devices and (found := mode or mode_of(folder)) != devices.mode:
                raise ProgramError(
                    f"{folder.path}: its solver mode is {found}, but {devices.option} is for the {devices.mode}: pass "
                    f"--solver-mode {devices.mode}"
                )
            end_killed_sitting(folder, last_iteration(folder))
            with failures_noted(folder, "preparation"):
                preflight(folder, mode)
                if devices:
                    make_share(folder, devices.size)  # what cannot be shared out is refused before anything is written
                start_from = None
                if weights and not snapshot:
                    start_from = weights.resolve()
                    tqdm.write(f"{folder.path.name}: {loaded_from(folder, start_from)}")
                elif not snapshot:
                    _check_began_without_weights(folder)
                if mode:
                    set_mode(folder, mode)
                share = write_share(folder, devices.size) if devices else None
            forget_failure(folder)
            waiting.append(_Job(folder, snapshot, start_from, lock, len(waiting), share, devices, tensorboard))
        if waiting:
            _train_jobs(waiting, min(jobs, len(waiting)), threads)


def _train_jobs(waiting: Sequence[_Job], jobs: int, threads: Threads | None) -> None:
    first = waiting[0]
    processes = jobs * (first.devices.size if first.devices else 1)
    if threads is None and mode_of(first.folder) == "GPU":
        threads = Threads(1, max(1, len(os.sched_getaffinity(0)) // processes))
    if threads is None:
        with failures_noted(first.folder, "preparation"):
            threads, measured = choose(first.share.train if first.share else first.folder.net("train"), processes)
        if measured:
            times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in measured.items())
            tqdm.write(f"an iteration with {times}: using {threads.blas} BLAS + {threads.kernels} kernel threads")
    children = Children()

    def work(job: _Job) -> None:
        if not children.stopping:
            with failures_noted(job.folder, "training"):
                _train(job, threads, children)
        if not children.stopping:
            gpus = job.devices.gpus if job.devices else None
            with failures_noted(job.folder, "evaluation"):
                evaluate_apart(job.folder, threads, children, gpus[0] if gpus else None)

    with children.take_signals(), ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, job) for job in waiting]
        errors = [error for future in futures if (error := future.exception())]
    for error in errors[1:]:
        tqdm.write(f"error: {error}", file=sys.stderr)
    if errors:
        raise errors[0]
    if children.stopping:
        raise KeyboardInterrupt


def evaluate_apart(folder: RunFolder, threads: Threads, children: Children, gpu: int | None = None) -> None:
    """Evaluate in a process of its own: pycaffe logs to stderr and several runs may end at once.

    ``gpu`` is the one to use if the run's mode is GPU (None: Caffe's default).
    """
    command = [*UNMOVED_BY_SIGTERM, sys.executable, "-m", "tools.evaluate", "--quiet", str(folder.path.resolve())]
    if gpu is not None:
        command += ["--gpu", str(gpu)]
    with (
        subprocess.Popen(
            command, cwd=ROOT, env=environment(threads), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
        ) as child,
        children.watch(child),
    ):
        log = child.stderr.read()
    if child.returncode and not children.stopping:
        raise ProgramError(f"{folder.path}: evaluation failed: {ending(child.returncode, log)}")


def _starting_point(folder: RunFolder, resume: bool) -> Snapshot | str | None:
    """The snapshot to go on from, None to begin, or "finished"."""
    snapshot = folder.latest_snapshot()
    if not resume:
        if snapshot or folder.record.exists():
            done = "is finished" if folder.record.exists() else f"was trained to iteration {snapshot.iteration}"
            raise ProgramError(f"{folder.path} {done}: pass --resume to go on, or write it again with --force")
        return None
    if folder.record.exists():
        folder.read_record()  # a damaged one is no reason to call the run finished
        return "finished"
    return snapshot


def _train(job: _Job, threads: Threads, children: Children) -> None:
    """Train to the end, or to a clean stop, with a progress bar."""
    folder, iterations = job.folder, job.folder.experiment.iterations
    first = job.snapshot.iteration if job.snapshot else 0
    if first >= iterations:
        return
    reader, shown = LogReader(), {}
    with _sitting(job, threads, children):
        with (
            _appending(folder.log) as write,
            _Bar(total=iterations, initial=first, position=job.position, desc=folder.path.name, unit="it") as bar,
            _live_events(folder, first) if job.tensorboard else nullcontext() as events,
            job.start(threads) as group,
            ExitStack() as watched,
        ):
            for process in group.members.values():
                watched.enter_context(children.watch(process))
            stopped = False
            for line in group.lines():
                write(line)
                stopped |= "Optimization stopped early." in line
                if measurement := reader.feed(line):
                    if measurement.name == "loss" or measurement.name.startswith("accuracy"):
                        shown[measurement.name] = f"{measurement.value:.3f}"
                        bar.set_postfix(shown, refresh=False)
                    bar.update(max(0, measurement.iteration - bar.n))
                    if events:
                        events.add(measurement)
            if not group.failure and not stopped and not children.stopping:
                bar.update(iterations - bar.n)
        if group.failure and not children.stopping:
            raise ProgramError(f"{folder.path}: {group.failure} (whole log: {folder.log})")
        if stopped and not children.stopping:  # a signal to caffe itself
            raise Interrupted(f"{folder.path}: training was stopped from outside; go on with --resume")


def _live_events(folder: RunFolder, start: int) -> AbstractContextManager["Events"]:
    """TensorBoard takes seconds to import: only who wants it waits for it."""
    from tools.tensorboard import live_events

    return live_events(folder, start)


@contextmanager
def _sitting(job: _Job, threads: Threads, children: Children) -> Iterator[None]:
    """Note in the folder that training is under way, and at the block's end how it ended."""
    folder = job.folder
    begin_sitting(folder, job.snapshot.iteration if job.snapshot else 0, _how(job, threads))
    began, ended = time.monotonic(), FAILED
    try:
        yield
        ended = STOPPED if children.stopping else FINISHED
    except Interrupted:
        ended = STOPPED
        raise
    finally:
        reached = folder.experiment.iterations if ended == FINISHED else last_iteration(folder)
        end_sitting(folder, ended, reached, time.monotonic() - began)


@contextmanager
def _appending(file: Path) -> Iterator[Callable[[str], None]]:
    """Yield a function that appends a line to ``file``. It raises ProgramError when the disk is full, say."""
    log = file.open("a", buffering=1)

    def write(line: str) -> None:
        try:
            log.write(line)
        except OSError as error:
            raise ProgramError(f"{file}: {error.strerror}; the run was stopped") from error

    try:
        yield write
    finally:
        with suppress(OSError):  # every line was flushed when it was written
            log.close()


def _how(job: _Job, threads: Threads) -> dict[str, Any]:
    """What is kept of how a run is trained, and what it began from."""
    before = job.folder.read_training() or {}
    weights = before.get("weights") if job.snapshot else None
    if job.weights:
        with job.weights.open("rb") as file:
            weights = {"file": job.weights.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    return {
        "blas_threads": threads.blas,
        "kernel_threads": threads.kernels,
        "solver_mode": mode_of(job.folder),
        "processes": job.devices.size if job.devices else 1,
        "weights": weights,
    }


def loaded_from(folder: RunFolder, weights: Path) -> str:
    """What a run takes from a caffemodel, in words. Raises ProgramError if the file is none, or fits no layer."""
    nets = [net for net in (folder.net("deploy"), folder.net("domains")) if net.exists()]
    fit = check_weights(weights, [caffe.Net(str(net.resolve()), caffe.TEST) for net in nets])
    if folder.experiment.data.network == "resnet18" and fit.loaded:
        of_caffe = "res2a_branch1" in (*fit.loaded, *fit.unused)
        if of_caffe != (folder.experiment.geometry == "caffe"):
            raise ProgramError(
                f"{weights}: it has {'a' if of_caffe else 'no'} res2a_branch1, so its geometry is "
                f"{'caffe' if of_caffe else 'torch'}; that of the run is {folder.experiment.geometry}: "
                "write the run again with the other --geometry"
            )
    lists = {"loaded": fit.loaded, "begin anew": fit.missing, "not used": fit.unused}
    return f"{weights.name}: " + "; ".join(f"{what}: {', '.join(names) or 'none'}" for what, names in lists.items())


def _check_began_without_weights(folder: RunFolder) -> None:
    """A run that began from weights does not begin again without them."""
    training = folder.read_training()
    if training and training.get("weights"):
        raise ProgramError(
            f"{folder.path}: it began from {training['weights']['file']} and has no snapshot: pass --weights again "
            "(or write the run again with --force)"
        )


def _threads(text: str) -> Threads:
    try:
        blas, kernels = map(int, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected BLAS,KERNELS such as 1,2") from None
    if min(blas, kernels) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected at least one thread of each")
    return Threads(blas, kernels)


def add_training_options(parser: argparse.ArgumentParser, jobs: int | None) -> None:
    """The options of every program that trains; ``jobs`` is the default of runs side by side, None for one run."""
    if jobs is not None:
        parser.add_argument("--jobs", type=positive, default=jobs, help="runs side by side (default: %(default)s)")
    parser.add_argument("--threads", type=_threads, metavar="BLAS,KERNELS", help="threads a run (default: measured)")
    add_mode_option(parser)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders (python -m tools.write_run)")
    parser.add_argument("--resume", action="store_true", help="go on from the last snapshot; skip finished runs")
    parser.add_argument(
        "--weights", type=Path, metavar="FILE", help="caffemodel to begin from: layers of the same names are loaded"
    )
    parser.add_argument(
        "--tensorboard", action="store_true", help="write TensorBoard's event files too, into RUN/tensorboard"
    )
    several = parser.add_mutually_exclusive_group()
    several.add_argument(
        "--gpus", type=gpu_list, metavar=f"N,N,…|{ALL}", help="share each batch out to these GPUs (default: use one)"
    )
    several.add_argument(
        "--processes", type=positive, metavar="N", help="share each batch out to N processes on the CPU"
    )
    add_training_options(parser, jobs=1)
    options = parser.parse_args()
    devices = on_gpus(options.gpus) if options.gpus is not None else None
    if options.processes is not None:
        devices = Devices(options.processes)
    runs = [RunFolder.load(path) for path in options.runs]
    train_all(
        runs,
        jobs=options.jobs,
        threads=options.threads,
        resume=options.resume,
        solver_mode=options.solver_mode,
        weights=options.weights,
        devices=devices,
        tensorboard=options.tensorboard,
    )
    for folder in runs:
        print(f"{folder.path}: {summary(folder, folder.read_record())} at the last iteration")
    return 0


if __name__ == "__main__":
    run(main)
