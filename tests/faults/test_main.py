"""The campaign finds what programs do wrong: here is one that does, in place of a program."""

import pytest

from tests.contracts.commands import COMMANDS, Command
from tests.contracts.inputs import Inputs
from tests.faults.__main__ import CLEAR, FAULTS, LOST, TRACEBACK, UNCLEAR, Case, Stage, judge, plan

TOY = """
import sys
from pathlib import Path
how, text = sys.argv[1], Path("classes.txt").read_text() if Path("classes.txt").exists() else ""
if how == "careless":
    Path("out/a.csv").write_text("half")
if how == "wrong":
    assert text
sys.exit({"well": "error: classes.txt: no such file", "mute": "error: no such file"}.get(how, "error: classes.txt"))
"""


@pytest.mark.program
@pytest.mark.parametrize(
    ("how", "outcome"), [("well", CLEAR), ("wrong", TRACEBACK), ("mute", UNCLEAR), ("careless", LOST)]
)
def test_judge_finds_what_ends_badly(how, outcome, tmp_path):
    (tmp_path / "toy.py").write_text(TOY)
    (tmp_path / "valid").mkdir()
    command = Command(f"on_free_gpu python {tmp_path}/toy.py {how}", ("classes.txt",), "classes.txt")
    stage = Stage(Inputs(tmp_path / "valid"), tmp_path / "case", command, {"out/a.csv": 100})
    found, why = judge(stage, Case(0, command, "missing", seed=3))
    assert found == outcome, why


def test_plan_is_drawn_by_its_seed_and_has_everything():
    cases = plan(0, 200)
    assert cases == plan(0, 200) != plan(1, 200) and len(cases) == 200
    assert {case.fault for case in cases} == {*FAULTS} and {case.command for case in cases} == {*COMMANDS}
