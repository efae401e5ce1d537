"""Every program's output is complete or absent: on a full disk, interrupted at the last moment, and called again."""

import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from tests.contracts.commands import COMMANDS, Command
from tests.programs import Done, program

PROGRAMS = sorted(file.stem for file in (ROOT / "tools").glob("*.py") if file.stem != "__init__")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_explain_themselves_and_refuse_other_options(name: str) -> None:
    shown = program(name, "--help")
    assert shown.returncode == 0 and shown.stdout.startswith("usage: ") and f"tools.{name}" in shown.stdout
    if name != "on_free_gpu":  # whose options are those of another command
        wrong = program(name, "--no-such-option")
        assert wrong.returncode == 2 and "error: " in wrong.stderr.splitlines()[-1] and wrong.stdout == ""


@contextmanager
def full_disk(size: int = 64) -> Iterator[None]:
    """No file may have more bytes, and Python caches no modules, which would be cut off."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "dont_write_bytecode", True)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def interrupted() -> Iterator[None]:
    """Ctrl-C is pressed when a file or a folder that is complete is about to get its name."""

    def press(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        for owner in (os, Path):
            patch.setattr(owner, "replace", press)
            patch.setattr(owner, "rename", press)
        yield


def made(folder: Path) -> dict[str, int]:
    """Size of each file that there is in ``out``, but of those that tell of a call."""
    found = {path.relative_to(folder): path for path in sorted((folder / "out").rglob("*")) if path.is_file()}
    return {
        str(name): path.stat().st_size for name, path in found.items() if name.suffix != ".log" and name.name != "lock"
    }


def call(command: Command, *more: str) -> Done:
    return program(command.program, *command.arguments, *more)


SLOW = ("adapt", "evaluate", "train")
"""They have tests of their own for this: tests/tools/test_adapt.py, tests/latent_domains/training and runs."""

CHOSEN = [command for command in COMMANDS if command.program not in SLOW]


@pytest.mark.program
@pytest.mark.parametrize("command", CHOSEN, ids=[command.line[:30] for command in CHOSEN])
def test_programs_make_all_or_nothing(command: Command, place: Callable[[str], Path]) -> None:
    folder = place(f"{command.line} {command.needs}")
    before = made(folder)
    for trouble, code, words in ((full_disk, 1, "error: "), (interrupted, 130, "interrupted")):
        with trouble():
            done = call(command)
        assert done.returncode == code and done.stderr.splitlines()[-1].startswith(words), done.stderr
        assert done.stderr.count("error: ") == (code == 1) and "Traceback" not in done.stderr
        assert made(folder) == before, trouble
    done = call(command)
    assert done.returncode == 0, done.stderr
    complete = made(folder)
    assert complete.keys() > before.keys()
    again = call(command)
    assert made(folder).keys() == complete.keys()
    if command.goes_on:
        assert again.returncode == 0, again.stderr
    else:
        assert again.returncode == 1 and "out/" in again.stderr and "--force" in again.stderr.splitlines()[-1]
        assert made(folder) == complete
        forced = call(command, "--force")
        assert forced.returncode == 0 and made(folder).keys() == complete.keys(), forced.stderr
