"""What a command takes: seconds, processor seconds, and memory of its own and of Caffe's."""

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from latent_domains.common.program import ROOT

EVERY = 0.02
"""Seconds between two looks at the memory."""


@dataclass(frozen=True)
class Taken:
    """``mib`` is the peak of what all processes but ``caffe`` have allocated, ``caffe_mib`` that of ``caffe``.

    Pages of files, such as an LMDB's, do not count: the system takes them back whenever it wants.
    """

    seconds: float
    cpu: float
    mib: float
    caffe_mib: float

    def __add__(self, other: "Taken") -> "Taken":
        """One after the other."""
        return Taken(
            self.seconds + other.seconds,
            self.cpu + other.cpu,
            max(self.mib, other.mib),
            max(self.caffe_mib, other.caffe_mib),
        )


def measure(command: Sequence[object], log: Path) -> Taken:
    """Run a command to its end, its output in ``log``. Raises RuntimeError if it fails."""
    before, begun, peaks = _cpu(), time.monotonic(), [0.0, 0.0]
    with log.open("ab") as file:
        process = psutil.Popen(list(map(str, command)), cwd=ROOT, stdout=file, stderr=file)
        while True:
            peaks = [max(pair) for pair in zip(peaks, _allocated(process), strict=True)]
            try:
                process.wait(EVERY)
                break
            except psutil.TimeoutExpired:
                continue
    if process.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {process.returncode}: {log}")
    return Taken(time.monotonic() - begun, _cpu() - before, *peaks)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _allocated(process: psutil.Process) -> tuple[float, float]:
    """MiB of anonymous memory of a process and its children now: without ``caffe``, and of ``caffe``."""
    found = [0.0, 0.0]
    try:
        for one in (process, *process.children(recursive=True)):
            status = Path(f"/proc/{one.pid}/status").read_text()
            fields = dict(line.split(":", 1) for line in status.splitlines())
            if "RssAnon" in fields:  # which a process that has ended lacks
                found[fields["Name"].strip() == "caffe"] += int(fields["RssAnon"].split()[0]) / 1024
    except (OSError, psutil.Error):  # ended meanwhile
        pass
    return found[0], found[1]
