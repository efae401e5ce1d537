"""Run commands to which something happens, print what came of each, and fail on anything unclear.

    python -m tests.faults --seed 0 --cases 200

Every case that fails is printed with the command that repeats it alone. The same seed and number of cases make the same
campaign; moments of signals are drawn by the seed, what a program is at then depends on the machine.
"""

if __name__ == "__main__":
    from latent_domains.common.start import prepare_libraries

    prepare_libraries()

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.arguments import natural, positive
from latent_domains.common.program import run
from latent_domains.common.wording import table
from tests.contracts import wrong
from tests.contracts.commands import COMMANDS, Command
from tests.contracts.inputs import Inputs
from tests.programs import files_up_to, group_members, hear_signals

OF_FILES = {"missing": wrong.missing, "truncated": wrong.cut, "of another kind": wrong.of_another_kind}
FAULTS = (*OF_FILES, "full disk", "interrupted")
CLEAR, UNCLEAR, TRACEBACK, HANG, LOST = OUTCOMES = ("clear", "unclear", "traceback", "hang", "lost")


@dataclass(frozen=True)
class Case:
    """``number`` of the campaign of ``seed``."""

    number: int
    command: Command
    fault: str
    seed: int


class Wrong(Exception):
    """Something did not end well: the outcome, and why."""


def plan(seed: int, number: int) -> list[Case]:
    """The cases of a campaign: all pairs of a command and a fault in turn, in a random order."""
    pairs = [(command, fault) for command in COMMANDS for fault in FAULTS if command.files or fault not in OF_FILES]
    chosen = (pairs * (number // len(pairs) + 1))[:number] if number > len(pairs) else pairs
    chosen = random.Random(seed).sample(chosen, number)
    return [Case(i, command, fault, seed) for i, (command, fault) in enumerate(chosen)]


@dataclass
class Stage:
    """A folder with copies of a command's inputs, and what it makes of them if nothing happens."""

    inputs: Inputs
    folder: Path
    command: Command
    expected: dict[str, int]
    seconds: float = 0

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "out").mkdir(parents=True)
        self.inputs.place(f"{self.command.line} {self.command.needs}", self.folder)

    def call(
        self, *more: str, before: Callable[[], object] | None = None, after: tuple[float, int] | None = None
    ) -> tuple[int, str]:
        """Run the command; send a signal ``after`` some seconds. Return exit code and stderr."""
        words = [sys.executable, "-m", f"tools.{self.command.program}", *self.command.arguments, *more]
        process = subprocess.Popen(
            words, cwd=self.folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, errors="replace",
            start_new_session=True, preexec_fn=before,
        )  # fmt: skip
        try:
            if after:
                try:
                    process.communicate(timeout=after[0])
                except subprocess.TimeoutExpired:
                    os.kill(process.pid, after[1])
            said = process.communicate(timeout=self.command.seconds)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Wrong(HANG, f"not ended after {self.command.seconds:g} s") from None
        time.sleep(0.1)  # the kernel ends processes in its own time
        if left := group_members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
            if not after or after[1] != signal.SIGKILL:
                raise Wrong(UNCLEAR, f"{len(left)} processes are left")
        if "Traceback" in said or (process.returncode < 0 and (not after or -process.returncode != after[1])):
            raise Wrong(TRACEBACK, said[-2000:])
        return process.returncode, said

    def made(self) -> dict[str, int]:
        """The files in ``out`` and their sizes."""
        files = [path for path in (self.folder / "out").rglob("*") if path.is_file() and path.suffix != ".log"]
        return {str(path.relative_to(self.folder)): path.stat().st_size for path in files if path.name != "lock"}


def check(stage: Stage, case: Case) -> str:
    """Let a case happen. Return what was done; raise Wrong unless it ended well."""
    rng = random.Random(f"{case.seed}/{case.number}")
    stage.clear()
    begun, words, did, sent = stage.made(), (), case.fault, None
    if case.fault in OF_FILES:
        file = rng.choice([path for pattern in case.command.files for path in sorted(stage.folder.glob(pattern))])
        name = str(file.relative_to(stage.folder))
        OF_FILES[case.fault](name)(stage.folder)
        words, did = (*Path(name).parts, file.stem), f"{name}: {case.fault}"
        code, said = stage.call()
    elif case.fault == "full disk":
        size = rng.choice((0, rng.randrange(1, max(2, max(stage.expected.values())))))
        code, said = stage.call(before=files_up_to(size))
        did = f"no file above {size} bytes"
    else:
        sent = rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        moment = rng.uniform(0.3, 0.3 + stage.seconds)  # until then Python itself starts
        code, said = stage.call(after=(moment, sent))
        did = f"{sent.name} after {moment:.2f} s"
    made = stage.made()
    last = (said.strip().splitlines() or [""])[-1]
    if code not in (0, 130, -signal.SIGKILL) and not ("error: " in last and said.count("error: ") == 1):
        raise Wrong(UNCLEAR, f"{did}: exit code {code}, {said[-2000:]}")
    if code in (1, 2) and words and not any(word in last for word in words):
        raise Wrong(UNCLEAR, f"{did}: nothing names it: {last}")
    if sent != signal.SIGKILL and (left := [name for name in made if re.search(r"/\.[^/]+\.[a-z0-9_]{8}", name)]):
        raise Wrong(UNCLEAR, f"{did}: left behind: {left}")
    if half := [name for name, size in made.items() if size < stage.expected.get(name, 0) / 2 and name not in begun]:
        raise Wrong(LOST, f"{did}: half-written: {half}")
    if words:
        return did
    again = [] if case.command.goes_on or made.keys() == begun.keys() else ["--force"]
    code, said = stage.call(*again)
    if code or stage.expected.keys() - stage.made().keys():
        raise Wrong(LOST, f"{did}; called again: exit code {code}, {said[-2000:]}")
    return did


def judge(stage: Stage, case: Case) -> tuple[str, str]:
    try:
        return CLEAR, check(stage, case)
    except Wrong as error:
        return error.args
    finally:
        shutil.rmtree(stage.folder, ignore_errors=True)


def refer(inputs: Inputs, folder: Path, command: Command) -> tuple[dict[str, int], float]:
    """What a command makes where nothing happens, and in how many seconds."""
    stage, begun = Stage(inputs, folder, command, {}), time.monotonic()
    stage.clear()
    code, said = stage.call()
    if code:
        raise RuntimeError(f"{command.line}: {said}")
    return stage.made(), time.monotonic() - begun


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=natural, default=0, help="of everything that is drawn (default: 0)")
    parser.add_argument("--cases", type=positive, default=200, metavar="N", help="default: %(default)s")
    parser.add_argument("--only", type=natural, action="append", metavar="CASE", help="this case alone")
    parser.add_argument("--jobs", type=positive, default=len(os.sched_getaffinity(0)), help="default: one a core")
    parser.add_argument("--work", type=Path, metavar="DIR", help="keep inputs here")
    options = parser.parse_args()
    hear_signals()
    cases = plan(options.seed, options.cases)
    cases = [cases[number] for number in options.only] if options.only else cases
    with nullcontext(options.work) if options.work else tempfile.TemporaryDirectory(prefix="faults-") as name:
        work = Path(name).resolve()
        inputs = Inputs(work / "valid")
        inputs.folder.mkdir(parents=True, exist_ok=True)
        commands = list(dict.fromkeys(case.command for case in cases))
        references = {command: refer(inputs, work / "reference", command) for command in commands}
        print(f"{len(references)} commands with nothing wrong", flush=True)
        stages = [Stage(inputs, work / f"case{case.number}", case.command, *references[case.command]) for case in cases]
        pool = ThreadPoolExecutor(options.jobs)
        try:
            verdicts = dict(zip(cases, pool.map(judge, stages, cases), strict=True))
        finally:
            pool.shutdown(cancel_futures=True)
    for case, (outcome, why) in verdicts.items():
        if outcome != CLEAR or options.only:
            repeat = f"python -m tests.faults --seed {case.seed} --cases {options.cases} --only {case.number}"
            print(f"\n{outcome}: {case.command.line}\n  {why}\n  again: {repeat}")
    for title, key in (("program", lambda case: case.command.program), ("fault", lambda case: case.fault)):
        counts = Counter((key(case), outcome) for case, (outcome, _) in verdicts.items())
        rows = [[one, *(str(counts[one, outcome]) for outcome in OUTCOMES)] for one in sorted({key(c) for c in cases})]
        print(f"\n{table([title, *OUTCOMES], rows)}")
    return int(any(outcome != CLEAR for outcome, _ in verdicts.values()))


if __name__ == "__main__":
    run(main)
