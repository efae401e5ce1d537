"""One case: a program and a fault, what was done and what came of it."""

import shutil
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.conditions import CONDITIONS
from tests.faults.files import PLAIN, SUBTLE
from tests.faults.programs import PROGRAMS, Program
from tests.faults.stage import Ended, Stage
from tests.faults.whole import HALF, leftovers, outputs

CLEAR, UNCLEAR, TRACEBACK, HANG, LOST = "clear", "unclear", "traceback", "hang", "lost"
OUTCOMES = (CLEAR, UNCLEAR, TRACEBACK, HANG, LOST)

MEGABYTES = 3000
"""What the programs need of memory at most on these inputs, and on damaged ones."""

LONGEST = 5000
"""Characters of an error's line, as programs cut it."""


@dataclass(frozen=True)
class Case:
    """``number`` of the campaign of ``seed``."""

    number: int
    program: Program
    kind: str
    seed: int


@dataclass(frozen=True)
class Reference:
    """What a program makes of valid inputs, and what it needs for it."""

    outputs: dict[str, str]
    seconds: float
    growth: int


@dataclass
class Verdict:
    """What came of a case; ``did`` says what happened, ``why`` what was wrong, ``said`` the end of stderr."""

    outcome: str
    did: str
    why: str = ""
    said: str = ""


def plan(seed: int, number: int) -> list[Case]:
    """The cases of a campaign. Of each program as many as its share, of all kinds in turn."""
    rng = Random(seed)
    total = sum(program.share for program in PROGRAMS)
    chosen = []
    for program in PROGRAMS:
        files = [*PLAIN, *SUBTLE]
        kinds = [*files, *CONDITIONS] if program.seconds <= 60 else [*CONDITIONS, *CONDITIONS, *rng.sample(files, 12)]
        of_program = []
        while len(of_program) < max(1, round(number * program.share / total)) + 1:
            of_program += rng.sample(kinds, len(kinds))
        chosen += [(program, kind) for kind in of_program[: max(1, round(number * program.share / total)) + 1]]
    rng.shuffle(chosen)
    return [Case(i, program, kind, seed) for i, (program, kind) in enumerate(chosen[:number])]


def refer(base: Path, work: Path, program: Program) -> Reference:
    """Run a program where nothing happens, in a folder below ``work``. Raises RuntimeError if it fails."""
    stage = Stage(_new_folder(work / f"reference{PROGRAMS.index(program)}"), program, Random(0))
    stage.place(base)
    before, begun = _size(stage.out), time.monotonic()
    ended = stage.end(stage.start())
    if ended.code or ended.left:
        raise RuntimeError(f"{program.command()} in {stage.folder}: {ended}")
    found = Reference(outputs(stage.out), time.monotonic() - begun, _size(stage.out) - before)
    remove_folder(stage.folder.parent)
    return found


class Wrong(Exception):
    """Something did not end well: the outcome, what was wrong, and the process whose stderr tells of it."""

    def __init__(self, outcome: str, why: str, ended: Ended) -> None:
        super().__init__(why)
        self.outcome, self.why, self.ended = outcome, why, ended


def judge_case(case: Case, base: Path, work: Path, reference: Reference) -> Verdict:
    """Let a case happen in a new folder below ``work``, and judge it."""
    folder, rng = _new_folder(work / f"case{case.number}"), Random(f"{case.seed}/{case.number}")
    stage = Stage(folder, case.program, rng, reference.seconds, reference.growth)
    stage.place(base, small_disk=case.kind == "full disk")
    verdict = Verdict(CLEAR, "")
    try:
        if case.kind in CONDITIONS:
            before = outputs(stage.out)
            verdict.did = CONDITIONS[case.kind](stage)
            _check_condition(case, stage, before, reference)
        else:
            file = _damaged_file(stage)
            verdict.did = f"{file.relative_to(stage.folder)}: {case.kind}"
            _check_damage(case, stage, base, file, reference)
        verdict.said = _tail(stage.ended[0], 1)
    except Wrong as wrong:
        verdict.outcome, verdict.why, verdict.said = wrong.outcome, wrong.why, _tail(wrong.ended)
    return verdict


def _damaged_file(stage: Stage) -> Path:
    patterns = stage.program.damaged
    return stage.rng.choice([f for pattern in patterns for f in sorted(stage.folder.glob(pattern)) if f.is_file()])


def _check_damage(case: Case, stage: Stage, base: Path, file: Path, reference: Reference) -> None:
    """Damage a file and run the program. Raises Wrong unless it says so, or does not need the file."""
    name = file.relative_to(stage.folder)
    before = outputs(stage.out)
    (PLAIN | SUBTLE)[case.kind](file, stage.rng, base)
    ended = stage.end(stage.start())
    after = outputs(stage.out)
    _check_end(ended, stage, case)
    damaged_output = str(file.relative_to(stage.out)) if file.is_relative_to(stage.out) else ""
    before.pop(damaged_output, None)
    _check_outputs({key: value for key, value in after.items() if key != damaged_output}, before, stage, case)
    words = [word for word in (*name.parts, name.stem) if word != "out"]
    if case.kind in SUBTLE:  # what a list names may be missing, and is named then
        words += [entry.partition(">")[0] for entry in case.program.inputs]
    named = any(word in ended.stdout + ended.stderr for word in words)
    if ended.code and not named:
        raise Wrong(UNCLEAR, f"nothing names {name}", ended)
    if not ended.code and case.kind in PLAIN and not named and after != reference.outputs:
        raise Wrong(UNCLEAR, "no word about it, and another result", ended)


def _check_condition(case: Case, stage: Stage, before: dict[str, str], reference: Reference) -> None:
    """Look at what a condition left. Raises Wrong unless all is there, or the same command makes it."""
    first, after = stage.ended[0], outputs(stage.out)
    for ended in stage.ended:
        _check_end(ended, stage, case)
    _check_outputs(after, before, stage, case)
    if any(ended.code == 0 for ended in stage.ended):
        if after != reference.outputs:
            raise Wrong(LOST, f"it ended well without {_difference(after, reference.outputs)}", first)
        return
    if len(stage.ended) > 1:
        raise Wrong(UNCLEAR, f"none of {len(stage.ended)} made it", first)
    killed = _killed(stage, case)
    stage.sent.clear()
    replacing = case.program.force and not case.program.goes_on and after
    again = stage.end(stage.start(*(["--force"] if replacing else [])))
    try:
        _check_end(again, stage, case)
    except Wrong as wrong:
        raise Wrong(wrong.outcome, f"called again: {wrong.why}", again) from None
    after = outputs(stage.out)
    if not killed and (left := leftovers(stage.out)):
        raise Wrong(UNCLEAR, f"called again, it left behind: {', '.join(left)}", first)
    if again.code or after != reference.outputs:
        difference = _difference(after, reference.outputs)
        raise Wrong(LOST, f"called again, it ended with exit code {again.code}, {difference}", again)


def _check_end(ended: Ended, stage: Stage, case: Case) -> None:
    """Raise Wrong unless a process ended well, in one clear line, or by a signal that it was sent."""
    text = ended.stderr + ended.stdout
    if ended.hung:
        raise Wrong(HANG, f"not ended after {case.program.seconds:g} s", ended)
    shown = "Traceback (most recent call last)" in text
    if shown or "Exception ignored" in text or "Check failure" in text:
        raise Wrong(TRACEBACK, f"exit code {ended.code}", ended)
    if ended.code < 0 and -ended.code not in stage.sent:
        raise Wrong(TRACEBACK, f"it ended by {signal.Signals(-ended.code).name}", ended)
    if ended.left:
        raise Wrong(UNCLEAR, f"left running: {'; '.join(ended.left)}", ended)
    if ended.megabytes > MEGABYTES:
        raise Wrong(UNCLEAR, f"it took {ended.megabytes} MB", ended)
    if ended.code in (0, *(-number for number in stage.sent)):
        return
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    if ended.code == 130 and stage.sent and last == "interrupted":
        return
    errors = [line for line in lines if line.startswith("error: ") or ": error: " in line]
    if ended.code not in (1, 2) or errors != [last] or len(last) > LONGEST:
        found = f"{len(errors)} lines of errors, the last line has {len(last)} characters"
        raise Wrong(UNCLEAR, f"exit code {ended.code}, {found}", ended)


def _check_outputs(after: dict[str, str], before: dict[str, str], stage: Stage, case: Case) -> None:
    """Raise Wrong if something is gone, half there, or was not cleared away."""
    for name, value in after.items():
        if value.startswith(HALF) and not before.get(name, "").startswith(HALF):
            raise Wrong(LOST, f"{name}: {value}", stage.ended[0])
    if gone := [name for name in before if name not in after]:
        raise Wrong(LOST, f"gone: {', '.join(gone)}", stage.ended[0])
    if not _killed(stage, case) and (left := leftovers(stage.out)):
        raise Wrong(UNCLEAR, f"left behind: {', '.join(left)}", stage.ended[0])


def _killed(stage: Stage, case: Case) -> bool:
    """Whether a process was killed: its temporary files stay."""
    return signal.SIGKILL in stage.sent or case.kind.endswith("twice")


def _difference(after: dict[str, str], expected: dict[str, str]) -> str:
    names = sorted(name for name in {*after, *expected} if after.get(name) != expected.get(name))
    return "; ".join(
        f"{name}: {after.get(name, 'none')!s:.80}, expected {expected.get(name, 'none')!s:.80}" for name in names[:3]
    )


def _tail(ended: Ended, lines: int = 12) -> str:
    said = [line for line in ended.stderr.splitlines() if line.strip()]
    return "\n".join(line[:300] for line in said[-lines:])


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _new_folder(place: Path) -> Path:
    """An empty folder below a place that is made anew."""
    remove_folder(place)
    (place / "here").mkdir(parents=True)
    return place / "here"


def remove_folder(folder: Path) -> None:
    """Remove a case's folder, whatever its files may be."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)
