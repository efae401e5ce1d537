"""`make check` leaves tests out that start programs: by their marks, which are enforced in every call.

A fixture that starts one is set up for the first test that asks for it. So it is remembered, for the tests after it.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ALLOWED = {"cat", "dot", "fc-list", "git", "lscpu"}
"""Programs that a test may start without a mark: they take no time. Two are how joblib counts cores, fc-list is how
matplotlib finds fonts, once on a machine."""

MARKS = ("program", "slow", "torch", "browser", "gpu")
"""Of the tests that `make check` leaves out."""

_unmarked: list[str] = []
"""The test that runs now, if it has none of MARKS."""

_set_up: list[pytest.FixtureDef[Any]] = []
"""The fixtures that are being set up now, each by the one before it."""

_starting: set[pytest.FixtureDef[Any]] = set()
"""Fixtures that started a program."""


def pytest_configure(config: pytest.Config) -> None:
    sys.addaudithook(_look)


def _look(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and "PYTEST_CURRENT_TEST" in os.environ:
        command = arguments[1] or [arguments[0]]
        if Path(os.fsdecode(command[0])).name not in ALLOWED:
            _starting.update(_set_up)
            assert not _unmarked, f"{command} is started: mark the test, @pytest.mark.program"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _unmarked[:] = [] if any(map(item.get_closest_marker, MARKS)) else [item.nodeid]
    try:
        return (yield)
    finally:
        _unmarked.clear()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    _set_up.append(fixturedef)
    try:
        return (yield)
    finally:
        _set_up.pop()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    asked = {one for found in item._fixtureinfo.name2fixturedefs.values() for one in found[-1:]}
    if _unmarked and (started := asked & _starting):
        names = ", ".join(sorted(one.argname for one in started))
        raise AssertionError(f"the fixture {names} starts a program: mark the test, @pytest.mark.program")
