"""Train run folders with the real ``caffe train``, then evaluate them at the last iteration.

Ctrl-C stops cleanly with a snapshot; --resume goes on from there. The whole log is kept in RUN/train.log and the
result in RUN/record.json.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import caffe
from tqdm import tqdm

from tools.arguments import positive
from tools.caffe_log import LogReader, ending
from tools.caffe_process import Threads, environment, start
from tools.evaluate import summary
from tools.files import write_text
from tools.preflight import preflight
from tools.program import ROOT, ProgramError, run
from tools.run_folder import RunFolder, Snapshot
from tools.solver_mode import add_mode_option, mode_of, requested_mode, set_mode
from tools.threads import choose
from tools.weights import check_weights

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


def train_all(
    runs: Sequence[RunFolder],
    *,
    jobs: int = 1,
    threads: Threads | None = None,
    resume: bool = False,
    solver_mode: str | None = None,
    weights: Path | None = None,
) -> None:
    """Train and evaluate runs, ``jobs`` at a time. To be called from the main thread.

    ``threads`` None measures what is fastest. With ``resume``, a run goes on from its last whole snapshot and a
    finished one is left alone. ``solver_mode`` (GPU or CPU) is written into the runs' solvers; None takes that of the
    environment, if any. Runs begin from the caffemodel ``weights``, as far as layers have the same names. Raises
    ProgramError for the first run that fails (the others are finished first, and their errors printed) and
    KeyboardInterrupt after a clean stop.
    """
    with ExitStack() as locks:
        waiting: list[_Job] = []
        for folder in runs:
            lock = locks.enter_context(folder.locked())
            snapshot = _starting_point(folder, resume)
            if snapshot == "finished":
                continue
            mode = requested_mode(solver_mode)
            preflight(folder, mode)
            if mode:
                set_mode(folder, mode)
            start_from = None
            if weights and not snapshot:
                start_from = weights.resolve()
                tqdm.write(f"{folder.path.name}: {loaded_from(folder, start_from)}")
            elif not snapshot:
                _check_began_without_weights(folder)
            waiting.append(_Job(folder, snapshot, start_from, lock, len(waiting)))
        if waiting:
            _train_jobs(waiting, min(jobs, len(waiting)), threads)


def _train_jobs(waiting: Sequence[_Job], jobs: int, threads: Threads | None) -> None:
    if threads is None and mode_of(waiting[0].folder) == "GPU":
        threads = Threads(1, max(1, len(os.sched_getaffinity(0)) // jobs))
    if threads is None:
        threads, measured = choose(waiting[0].folder.net("train"), jobs)
        if measured:
            times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in measured.items())
            tqdm.write(f"an iteration with {times}: using {threads.blas} BLAS + {threads.kernels} kernel threads")
    children = Children()

    def work(job: _Job) -> None:
        if not children.stopping:
            _train(job, threads, children)
        if not children.stopping:
            evaluate_apart(job.folder, threads, children)

    with children.take_signals(), ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, job) for job in waiting]
        errors = [error for future in futures if (error := future.exception())]
    for error in errors[1:]:
        tqdm.write(f"error: {error}", file=sys.stderr)
    if errors:
        raise errors[0]
    if children.stopping:
        raise KeyboardInterrupt


def evaluate_apart(folder: RunFolder, threads: Threads, children: Children) -> None:
    """Evaluate in a process of its own: pycaffe logs to stderr and several runs may end at once."""
    command = [sys.executable, "-m", "tools.evaluate", "--quiet", str(folder.path.resolve())]
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
    """Run caffe train to the end, or to a clean stop, with a progress bar."""
    folder, iterations = job.folder, job.folder.experiment.iterations
    first = job.snapshot.iteration if job.snapshot else 0
    if first >= iterations:
        return
    arguments = ["train", "-solver", os.path.relpath(folder.solver, ROOT)]
    if job.snapshot:
        arguments += ["-snapshot", os.path.relpath(job.snapshot.state, ROOT)]
    elif job.weights:
        arguments += ["-weights", str(job.weights)]
    began = time.monotonic()
    reader, shown, recent = LogReader(), {}, deque(maxlen=200)
    with (
        _appending(folder.log) as write,
        _Bar(total=iterations, initial=first, position=job.position, desc=folder.path.name, unit="it") as bar,
        start(arguments, threads, (job.lock,)) as child,
        children.watch(child),
    ):
        for line in child.stdout:
            recent.append(line)
            write(line)
            if measurement := reader.feed(line):
                if measurement.name == "loss" or measurement.name.startswith("accuracy"):
                    shown[measurement.name] = f"{measurement.value:.3f}"
                    bar.set_postfix(shown, refresh=False)
                bar.update(max(0, measurement.iteration - bar.n))
        if child.wait() == 0 and not children.stopping:
            bar.update(iterations - bar.n)
    _note_training(job, time.monotonic() - began, threads)
    if child.returncode and not children.stopping:
        how = ending(child.returncode, "".join(recent))
        raise ProgramError(f"{folder.path}: caffe train failed: {how} (whole log: {folder.log})")


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


def _note_training(job: _Job, seconds: float, threads: Threads) -> None:
    """Keep the training time over all the sittings of a run, and what it began from."""
    before = job.folder.read_training() or {}
    weights = before.get("weights") if job.snapshot else None
    if job.weights:
        with job.weights.open("rb") as file:
            weights = {"file": job.weights.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    values = {
        "seconds": before.get("seconds", 0.0) + seconds,
        "blas_threads": threads.blas,
        "kernel_threads": threads.kernels,
        "solver_mode": mode_of(job.folder),
        "weights": weights,
    }
    write_text(job.folder.training, json.dumps(values) + "\n")


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
    add_training_options(parser, jobs=1)
    options = parser.parse_args()
    runs = [RunFolder.load(path) for path in options.runs]
    train_all(
        runs,
        jobs=options.jobs,
        threads=options.threads,
        resume=options.resume,
        solver_mode=options.solver_mode,
        weights=options.weights,
    )
    for folder in runs:
        print(f"{folder.path}: {summary(folder, folder.read_record())} at the last iteration")
    return 0


if __name__ == "__main__":
    run(main)
