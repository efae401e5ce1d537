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

_SILENT_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
"""Those a new process may end by while it imports: nothing has begun. SIGKILL ends it at any time."""


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
    real: bool = False
    disk: bool = True


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


def refer(program: Program, base: Path, folder: Path) -> Reference:
    """Run a program where nothing happens. Raises RuntimeError if it fails."""
    stage = Stage(folder, program, Random(0), real=program.real == 1)
    stage.place(base)
    before, begun = _size(stage.out), time.monotonic()
    ended = stage.end(stage.start())
    if ended.code or ended.left:
        raise RuntimeError(f"{program.command()} in {folder}: {ended}")
    return Reference(outputs(stage.out), time.monotonic() - begun, _size(stage.out) - before)


def judge_case(case: Case, base: Path, folder: Path, reference: Reference) -> Verdict:
    """Let a case happen in a new folder, and judge it."""
    rng = Random(f"{case.seed}/{case.number}")
    real = rng.random() < case.program.real
    stage = Stage(folder, case.program, rng, real, reference.seconds, reference.growth)
    stage.place(base, small_disk=case.kind == "full disk")
    if case.kind in CONDITIONS:
        before = outputs(stage.out)
        did = CONDITIONS[case.kind](stage)
        verdict = _after_condition(case, stage, before, reference, did)
    else:
        verdict = _after_damage(case, stage, base, reference)
    verdict.real, verdict.disk = real, case.kind != "full disk" or stage.room is not None
    return verdict


def _after_damage(case: Case, stage: Stage, base: Path, reference: Reference) -> Verdict:
    files = [file for pattern in case.program.damaged for file in sorted(stage.folder.glob(pattern)) if file.is_file()]
    file = stage.rng.choice(files)
    name = file.relative_to(stage.folder)
    before = outputs(stage.out)
    (PLAIN | SUBTLE)[case.kind](file, stage.rng, base)
    did = f"{name}: {case.kind}"
    ended = stage.end(stage.start())
    after = outputs(stage.out)
    if found := _ended_badly(ended, stage, case):
        return Verdict(*found[:1], did, found[1], _tail(ended))
    damaged_output = str(file.relative_to(stage.out)) if file.is_relative_to(stage.out) else ""
    before.pop(damaged_output, None)
    if found := _lost({key: value for key, value in after.items() if key != damaged_output}, before, stage, case):
        return Verdict(*found[:1], did, found[1], _tail(ended))
    text = ended.stdout + ended.stderr
    words = [word for word in (*name.parts, name.stem) if word != "out"]
    if case.kind in SUBTLE:  # what a list names may be missing, and is named then
        words += [entry.partition(">")[0] for entry in case.program.inputs]
    named = any(word in text for word in words)
    if ended.code and not named and case.program.ours:
        return Verdict(UNCLEAR, did, f"nothing names {name}", _tail(ended))
    if not ended.code and case.kind in PLAIN and not named and after != reference.outputs:
        return Verdict(UNCLEAR, did, "no word about it, and another result", _tail(ended))
    return Verdict(CLEAR, did, said=_tail(ended, 1))


def _after_condition(case: Case, stage: Stage, before: dict[str, str], reference: Reference, did: str) -> Verdict:
    ended, after = list(stage.ended), outputs(stage.out)
    for one in ended:
        if found := _ended_badly(one, stage, case):
            return Verdict(*found[:1], did, found[1], _tail(one))
    said = _tail(ended[0])
    if found := _lost(after, before, stage, case):
        return Verdict(*found[:1], did, found[1], said)
    codes = [one.code for one in ended]
    if len(ended) > 1 and 0 not in codes:
        return Verdict(UNCLEAR, did, f"none of {len(ended)} made it", "\n".join(map(_tail, ended)))
    if 0 in codes and after != reference.outputs:
        return Verdict(LOST, did, f"it ended well without {_difference(after, reference.outputs)}", said)
    if 0 in codes:
        return Verdict(CLEAR, did, said=said)
    stage.sent.clear()
    replacing = case.program.force and not case.program.goes_on and after
    again = stage.end(stage.start(*(["--force"] if replacing else [])))
    if found := _ended_badly(again, stage, case):
        return Verdict(*found[:1], f"{did}, then again", found[1], _tail(again))
    after = outputs(stage.out)
    if left := leftovers(stage.out):
        return Verdict(UNCLEAR, f"{did}, then again", f"left behind: {', '.join(left)}", said)
    if again.code or after != reference.outputs:
        what = f"exit code {again.code}, {_difference(after, reference.outputs)}"
        return Verdict(LOST, f"{did}, then again", what, f"{said}\nagain: {_tail(again)}")
    return Verdict(CLEAR, did, said=said)


def _ended_badly(ended: Ended, stage: Stage, case: Case) -> tuple[str, str] | None:
    """What is wrong with how a process ended, if anything."""
    text = ended.stderr + ended.stdout
    if ended.hung:
        return HANG, f"not ended after {case.program.seconds:g} s"
    if "Traceback (most recent call last)" in text or "Exception ignored" in text or "Check failure" in text:
        return TRACEBACK, f"exit code {ended.code}"
    if ended.code < 0 and -ended.code not in stage.sent:
        return TRACEBACK, f"it ended by {signal.Signals(-ended.code).name}"
    if ended.left:
        return UNCLEAR, f"left running: {'; '.join(ended.left)}"
    if ended.megabytes > MEGABYTES:
        return UNCLEAR, f"it took {ended.megabytes} MB"
    if ended.code in (0, *(-number for number in stage.sent)) or not case.program.ours:
        return None
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    if ended.code == 130 and stage.sent and last == "interrupted":
        return None
    errors = [line for line in lines if line.startswith("error: ") or ": error: " in line]
    if ended.code not in (1, 2) or len(errors) != 1 or errors[0] != last or len(last) > LONGEST:
        return (
            UNCLEAR,
            f"exit code {ended.code}, {len(errors)} lines of errors, the last line has {len(last)} characters",
        )
    return None


def _lost(after: dict[str, str], before: dict[str, str], stage: Stage, case: Case) -> tuple[str, str] | None:
    """What was there and is no more, what is half there, and what was not cleared away."""
    for name, value in after.items():
        if value.startswith(HALF) and not before.get(name, "").startswith(HALF):
            return LOST, f"{name}: {value}"
    if gone := [name for name in before if name not in after]:
        return LOST, f"gone: {', '.join(gone)}"
    killed = signal.SIGKILL in stage.sent or case.kind.endswith("twice")  # the next call removes what these leave
    if not killed and (left := leftovers(stage.out)):
        return UNCLEAR, f"left behind: {', '.join(left)}"
    return None


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


def remove_folder(folder: Path) -> None:
    """Remove a case's folder, whatever its files may be."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)
