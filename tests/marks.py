"""Which tests `make check` leaves out: those that start programs or train, found by what their code names."""

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

STARTERS = {
    "Popen",
    "SGDSolver",
    "check_call",
    "check_output",
    "subprocess",
    "start",
    "start_worker",
    "train_all",
}
"""What starts a program or trains: a test is marked ``program`` if its code, or that of tests' helpers, names one."""

NOT_IMPORTED = ("torch", "browser")
"""A whole file that bears such a mark is not imported where the mark is deselected: what it needs may be missing."""

ALLOWED = {"dot", "git"}
"""Programs that a test may start without the mark: they take no time."""

_WHOLE_FILE = re.compile(rf"^pytestmark = .*pytest\.mark\.({'|'.join(NOT_IMPORTED)})\b", re.MULTILINE)


def deselected(config: pytest.Config) -> set[str]:
    """The marks that ``-m "not … and not …"`` leaves out."""
    return set(re.findall(r"\bnot (\w+)", config.getoption("-m")))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if collection_path.name.startswith("test_") and collection_path.suffix == ".py":
        mark = _WHOLE_FILE.search(collection_path.read_text())
        if mark and mark[1] in deselected(config):
            return True
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test that starts programs, itself or by a fixture."""
    homes = [item.module, *item.config.pluginmanager.get_plugins()]  # a conftest is a plugin
    fixtures = [getattr(home, name) for name in item.fixturenames for home in homes if hasattr(home, name)]
    if any(_starts_programs(function) for function in [item.function, *fixtures]):
        item.add_marker("program")


_known: dict[Any, bool] = {}


def _starts_programs(function: Callable[..., Any]) -> bool:
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, FunctionType) or not function.__module__.startswith("tests."):
        return False
    if function not in _known:
        _known[function] = False  # while it is looked at: helpers may call each other
        named = _names(function.__code__)
        helpers = (function.__globals__.get(name) for name in named)
        _known[function] = bool(named & STARTERS) or any(_starts_programs(helper) for helper in helpers)
    return _known[function]


def _names(code: CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def pytest_configure(config: pytest.Config) -> None:
    """Where tests that start programs are left out, none of the others may start one."""
    if "program" in deselected(config):
        sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and "PYTEST_CURRENT_TEST" in os.environ:
        command = arguments[1] or [arguments[0]]
        assert Path(command[0]).name in ALLOWED, f"{command} is started: mark the test, @pytest.mark.program"
