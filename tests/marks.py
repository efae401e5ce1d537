"""Where tests that start programs are left out (`make check`), none of the others may start one."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ALLOWED = {"dot", "git"}
"""Programs that a test may start without the mark: they take no time."""


def pytest_configure(config: pytest.Config) -> None:
    if re.search(r"\bnot program\b", config.getoption("-m")):
        sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and "PYTEST_CURRENT_TEST" in os.environ:
        command = arguments[1] or [arguments[0]]
        assert Path(command[0]).name in ALLOWED, f"{command} is started: mark the test, @pytest.mark.program"
