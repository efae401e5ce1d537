"""Run a campaign of faults, print what came of each program and each kind of fault, and fail on anything unclear.

    python -m tests.faults --seed 0 --cases 1000

Every case that fails is printed with the command that repeats it alone. The same seed and number of cases make the same
campaign; moments of signals are drawn by the seed, what a program is at then depends on the machine.
"""

if __name__ == "__main__":
    from latent_domains.common.start import prepare_libraries

    prepare_libraries()

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import as_completed
from contextlib import suppress
from functools import partial
from pathlib import Path

from latent_domains.common.arguments import natural, positive
from latent_domains.common.wording import table
from tests.faults.case import CLEAR, OUTCOMES, Case, Verdict, judge_case, plan, refer, remove_folder
from tests.faults.programs import PROGRAMS
from tests.faults.stage import workers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=natural, default=0, help="of everything that is drawn (default: 0)")
    parser.add_argument("--cases", type=positive, default=1000, metavar="N", help="default: %(default)s")
    parser.add_argument("--only", type=natural, action="append", metavar="CASE", help="this case alone, in --work")
    parser.add_argument("--jobs", type=positive, default=len(os.sched_getaffinity(0)), help="default: one a core")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep inputs and failed cases here")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background a shell has it ignored
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        return campaign(options, (options.work or Path(temporary)).resolve())


def campaign(options: argparse.Namespace, work: Path) -> int:
    """Run the cases and print the table; 1 if one of them did not end well."""
    begun = time.monotonic()
    base = work / "valid"
    if not base.exists():
        subprocess.run([sys.executable, "-m", "tests.faults.inputs", str(base)], stdout=subprocess.DEVNULL, check=True)
    cases = plan(options.seed, options.cases)
    if options.only:
        cases = [cases[number] for number in options.only]
    programs = [program for program in PROGRAMS if program in {case.program for case in cases}]
    verdicts: dict[Case, Verdict] = {}
    with workers(options.jobs) as pool, suppress(KeyboardInterrupt):
        try:
            references = dict(zip(programs, pool.map(partial(refer, base, work), programs), strict=True))
            print(f"{len(references)} commands with nothing wrong: {time.monotonic() - begun:.0f} s", flush=True)
            running = {pool.submit(judge_case, case, base, work, references[case.program]): case for case in cases}
            for done in as_completed(running):
                case, verdict = running[done], done.result()
                verdicts[case] = verdict
                say(case, verdict, options)
                if verdict.outcome == CLEAR:
                    remove_folder(work / f"case{case.number}")
        finally:
            pool.shutdown(cancel_futures=True)
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


def print_tables(verdicts: dict[Case, Verdict]) -> None:
    """By program, by kind of fault, and in all."""
    for what, name in (("program", lambda case: case.program.name), ("fault", lambda case: case.kind)):
        counts: dict[str, Counter[str]] = {}
        for case, verdict in sorted(verdicts.items(), key=lambda pair: name(pair[0])):
            for key in (name(case), "in all"):
                counts.setdefault(key, Counter())[verdict.outcome] += 1
        counts["in all"] = counts.pop("in all", Counter())
        rows = [
            [key, str(found.total()), *(str(found[outcome]) for outcome in OUTCOMES)] for key, found in counts.items()
        ]
        print(f"\n{table([what, 'tried', *OUTCOMES], rows)}\n")


if __name__ == "__main__":
    sys.exit(main())
