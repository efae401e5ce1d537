"""Train run folders with the real ``caffe train``, then evaluate them at the last iteration.

Ctrl-C stops cleanly with a snapshot; --resume goes on from there. The whole log is kept in RUN/train.log and the
result in RUN/record.json.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tqdm import tqdm

from tools.caffe_log import LogReader, failure_reason
from tools.caffe_process import Threads, environment, start
from tools.files import write_text
from tools.preflight import preflight
from tools.program import ROOT, ProgramError, run
from tools.run_folder import RunFolder, Snapshot
from tools.threads import choose


class Children:
    """The caffe processes at work, so that Ctrl-C can be passed on to each of them once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self.stopping = False

    def add(self, child: subprocess.Popen[str]) -> None:
        with self._lock:
            self._running.add(child)
            if self.stopping:
                child.send_signal(signal.SIGINT)

    def remove(self, child: subprocess.Popen[str]) -> None:
        with self._lock:
            self._running.discard(child)

    def stop(self, signal_number: signal.Signals) -> None:
        """Ask every child to stop: SIGINT makes caffe write a snapshot first."""
        with self._lock:
            self.stopping = True
            for child in self._running:
                child.send_signal(signal_number)


def train_all(
    runs: Sequence[RunFolder], *, jobs: int = 1, threads: Threads | None = None, resume: bool = False
) -> None:
    """Train and evaluate runs, ``jobs`` at a time.

    ``threads`` None measures what is fastest. With ``resume``, a run goes on from its last whole snapshot and a
    finished one is left alone. Raises ProgramError for the first run that fails (the others are finished first) and
    KeyboardInterrupt after a clean stop.
    """
    starts = {}
    for folder in runs:
        starts[folder.path] = _starting_point(folder, resume)
        if starts[folder.path] != "finished":
            preflight(folder)
    waiting = [folder for folder in runs if starts[folder.path] != "finished"]
    if not waiting:
        return
    jobs = min(jobs, len(waiting))
    if threads is None:
        threads, measured = choose(waiting[0].net("train"), jobs)
        if measured:
            times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in measured.items())
            tqdm.write(f"an iteration with {times}: using {threads.blas} BLAS + {threads.kernels} kernel threads")
    children = Children()
    positions = {folder.path: place for place, folder in enumerate(waiting)}

    def work(folder: RunFolder) -> None:
        if not children.stopping:
            _train(folder, starts[folder.path], threads, positions[folder.path], children)
        if not children.stopping:
            evaluate_apart(folder, threads)

    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)  # docker stop, kill: as Ctrl-C
    try:
        with ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(work, folder) for folder in waiting]
            try:
                errors = [error for future in futures if (error := future.exception())]
            except KeyboardInterrupt:
                children.stop(signal.SIGINT)
                tqdm.write("stopping: each run writes a snapshot first (Ctrl-C again to kill)", file=sys.stderr)
                try:
                    for future in futures:
                        future.exception()
                except KeyboardInterrupt:
                    children.stop(signal.SIGKILL)
                raise
    finally:
        signal.signal(signal.SIGTERM, previous)
    if errors:
        raise errors[0]


def evaluate_apart(folder: RunFolder, threads: Threads) -> None:
    """Evaluate in a process of its own: pycaffe logs to stderr and several runs may end at once."""
    child = subprocess.run(
        [sys.executable, "-m", "tools.evaluate", "--quiet", str(folder.path.resolve())],
        cwd=ROOT, env=environment(threads), capture_output=True, text=True, start_new_session=True,
    )
    if child.returncode:
        raise ProgramError(f"{folder.path}: evaluation failed: {failure_reason(child.stderr)}")


def _starting_point(folder: RunFolder, resume: bool) -> Snapshot | str | None:
    """The snapshot to go on from, None to begin, or "finished"."""
    snapshot = folder.latest_snapshot()
    if not resume:
        if snapshot or folder.record.exists():
            done = "is finished" if folder.record.exists() else f"was trained to iteration {snapshot.iteration}"
            raise ProgramError(f"{folder.path} {done}: pass --resume to go on, or write it again with --force")
        return None
    return "finished" if folder.record.exists() else snapshot


def _train(folder: RunFolder, snapshot: Snapshot | None, threads: Threads, position: int, children: Children) -> None:
    """Run caffe train to the end, or to a clean stop, with a progress bar."""
    iterations = folder.experiment.iterations
    first = snapshot.iteration if snapshot else 0
    if first >= iterations:
        return
    arguments = ["train", "-solver", os.path.relpath(folder.solver, ROOT)]
    if snapshot:
        arguments += ["-snapshot", os.path.relpath(snapshot.state, ROOT)]
    began = time.monotonic()
    reader, shown = LogReader(), {}
    with (
        folder.log.open("a", buffering=1) as log,
        tqdm(total=iterations, initial=first, position=position, desc=folder.path.name, unit="it") as bar,
        start(arguments, threads) as child,
    ):
        children.add(child)
        try:
            for line in child.stdout:
                try:
                    log.write(line)
                except OSError as error:
                    raise ProgramError(f"{folder.log}: {error.strerror}; the run was stopped") from error
                if measurement := reader.feed(line):
                    if measurement.name in ("loss", "accuracy"):
                        shown[measurement.name] = f"{measurement.value:.3f}"
                        bar.set_postfix(shown, refresh=False)
                    bar.update(max(0, measurement.iteration - bar.n))
            if child.wait() == 0 and not children.stopping:
                bar.update(iterations - bar.n)
        except BaseException:  # the log could not be written, say: caffe must not go on alone
            child.kill()
            raise
        finally:
            children.remove(child)
    _add_time(folder, time.monotonic() - began, threads)
    if child.returncode and not children.stopping:
        reason = failure_reason(folder.log.read_text(errors="replace"))
        raise ProgramError(
            f"{folder.path}: caffe train ended with exit code {child.returncode}: {reason} (whole log: {folder.log})"
        )


def _add_time(folder: RunFolder, seconds: float, threads: Threads) -> None:
    """Keep the training time over all the sittings of a run."""
    before = json.loads(folder.training.read_text())["seconds"] if folder.training.exists() else 0.0
    values = {"seconds": before + seconds, "blas_threads": threads.blas, "kernel_threads": threads.kernels}
    write_text(folder.training, json.dumps(values) + "\n")


def _threads(text: str) -> Threads:
    try:
        blas, kernels = map(int, text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected BLAS,KERNELS such as 1,2") from None
    if min(blas, kernels) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected at least one thread of each")
    return Threads(blas, kernels)


def add_training_options(parser: argparse.ArgumentParser, jobs: int) -> None:
    """The options of every program that trains."""
    parser.add_argument("--jobs", type=int, default=jobs, help="runs side by side (default: %(default)s)")
    parser.add_argument("--threads", type=_threads, metavar="BLAS,KERNELS", help="threads a run (default: measured)")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.train", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders (python -m tools.write_run)")
    parser.add_argument("--resume", action="store_true", help="go on from the last snapshot; skip finished runs")
    add_training_options(parser, jobs=1)
    options = parser.parse_args()
    runs = [RunFolder.load(path) for path in options.runs]
    train_all(runs, jobs=options.jobs, threads=options.threads, resume=options.resume)
    for folder in runs:
        accuracy = json.loads(folder.record.read_text())["accuracy"]
        print(f"{folder.path}: {100 * accuracy:.2f} % on {folder.experiment.target} at the last iteration")
    return 0


if __name__ == "__main__":
    run(main)
