"""Run a campaign of faults, print what came of each program and each kind of fault, and fail on anything unclear.

    python -m tests.faults --seed 0 --cases 1000

Every case that fails is printed with the command that repeats it alone. The same seed and number of cases make the same
campaign; moments of signals are drawn by the seed, what a program is at then depends on the machine.
"""

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

os.environ.setdefault("GLOG_minloglevel", "2")

from latent_domains.common.arguments import natural, positive
from latent_domains.common.markdown import table
from tests.faults.case import CLEAR, OUTCOMES, Case, Reference, Verdict, judge_case, plan, refer, remove_folder
from tests.faults.programs import PROGRAMS, Program


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=natural, default=0, help="of everything that is drawn (default: 0)")
    parser.add_argument("--cases", type=positive, default=1000, metavar="N", help="default: %(default)s")
    parser.add_argument("--only", type=natural, action="append", metavar="CASE", help="this case alone, in --work")
    parser.add_argument("--jobs", type=positive, default=len(os.sched_getaffinity(0)), help="default: one a core")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep inputs and failed cases here")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # in the background a shell has SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        return campaign(options, (options.work or Path(temporary)).resolve())


def campaign(options: argparse.Namespace, work: Path) -> int:
    """Run the cases and print the table; 1 if one of them did not end well."""
    begun = time.monotonic()
    base = make_inputs(work)
    import_all()
    cases = plan(options.seed, options.cases)
    if options.only:
        cases = [cases[number] for number in options.only]
    references = refer_all({case.program for case in cases}, base, work, options.jobs)
    print(f"{len(references)} commands with nothing wrong: {time.monotonic() - begun:.0f} s", flush=True)
    verdicts: dict[Case, Verdict] = {}
    jobs = {case: partial(one_case, case, base, work, references[case.program]) for case in cases}
    with suppress(KeyboardInterrupt):
        for case, verdict in in_processes(jobs, options.jobs):
            verdicts[case] = verdict
            say(case, verdict, options)
            if verdict.outcome == CLEAR:
                remove_folder(work / f"case{case.number}")
    print_tables(verdicts)
    print(f"seed {options.seed}, {options.jobs} at a time, {(time.monotonic() - begun) / 60:.1f} minutes", end="")
    print("" if len(verdicts) == len(cases) else f", interrupted after {len(verdicts)} of {len(cases)}")
    return int(len(verdicts) < len(cases) or any(verdict.outcome != CLEAR for verdict in verdicts.values()))


def say(case: Case, verdict: Verdict, options: argparse.Namespace) -> None:
    """Print what came of a case that did not end well, or that was asked for."""
    if verdict.outcome != CLEAR or (options.only and len(options.only) < 10):
        repeat = f"python -m tests.faults --seed {case.seed} --cases {options.cases} --only {case.number}"
        print(f"\n{verdict.outcome}: {case.program.module} {case.program.arguments}\n  {verdict.did}\n  {verdict.why}")
        print(*(f"  | {line}" for line in verdict.said.splitlines()), f"  again: {repeat}", sep="\n", flush=True)


def make_inputs(work: Path) -> Path:
    """The folder of valid inputs; a process of its own makes them, since whoever has computed cannot be forked."""
    base = work / "valid"
    if not base.exists():
        subprocess.run([sys.executable, "-m", "tests.faults.inputs", str(base)], stdout=subprocess.DEVNULL, check=True)
    return base


def refer_all(programs: set[Program], base: Path, work: Path, most: int) -> dict[Program, Reference]:
    """What each program makes of the valid inputs."""

    def make(program: Program) -> Reference:
        folder = new_folder(work / f"reference{PROGRAMS.index(program)}")
        found = refer(program, base, folder)
        remove_folder(folder.parent)
        return found

    return dict(in_processes({program: partial(make, program) for program in PROGRAMS if program in programs}, most))


def import_all() -> None:
    """Import what programs need, once for all that are forked; nothing is computed here."""
    for program in PROGRAMS:
        if program.module.startswith("tools."):
            __import__(program.module)
    for name in ("numba", "pydantic", "matplotlib.figure"):  # which some import when they need it
        __import__(name)


def new_folder(place: Path) -> Path:
    """An empty folder below a place that is made anew."""
    remove_folder(place)
    folder = place / "here"
    folder.mkdir(parents=True)
    return folder


def one_case(case: Case, base: Path, work: Path, reference: Reference) -> Verdict:
    """The verdict on a case in a folder of its own."""
    return judge_case(case, base, new_folder(work / f"case{case.number}"), reference)


def in_processes(jobs: dict[Any, Callable[[], Any]], most: int) -> Iterator[tuple[Any, Any]]:
    """Call each of ``jobs`` in a process of its own, ``most`` at a time, and yield what they return."""
    fork = multiprocessing.get_context("fork")
    waiting, running = list(jobs.items())[::-1], {}

    def work(job: Callable[[], Any], sending: Connection) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        sending.send(job())

    while waiting or running:
        while waiting and len(running) < most:
            key, job = waiting.pop()
            receiving, sending = fork.Pipe(duplex=False)
            process = fork.Process(target=work, args=(job, sending))
            process.start()
            sending.close()
            running[receiving] = key, process
        for receiving in wait(list(running)):
            key, process = running.pop(receiving)
            yield key, receiving.recv()
            process.join()


def print_tables(verdicts: dict[Case, Verdict]) -> None:
    """By program, by kind of fault, and in all."""
    for what, name in (("program", lambda case: case.program.name), ("fault", lambda case: case.kind)):
        counts: dict[str, Counter[str]] = {}
        for case, verdict in sorted(verdicts.items(), key=lambda pair: name(pair[0])):
            for key in (name(case), "in all"):
                counts.setdefault(key, Counter())[verdict.outcome] += 1
        counts["in all"] = counts.pop("in all")
        rows = [
            [key, str(found.total()), *(str(found[outcome]) for outcome in OUTCOMES)] for key, found in counts.items()
        ]
        print(f"\n{table([what, 'tried', *OUTCOMES], rows)}\n")


if __name__ == "__main__":
    sys.exit(main())
