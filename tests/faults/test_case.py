"""The campaign finds what programs do wrong: here are some that do, one for each fault."""

import os

import pytest

from tests.faults.case import CLEAR, HANG, LOST, TRACEBACK, UNCLEAR, Case, Reference, judge_case, plan
from tests.faults.conditions import CONDITIONS
from tests.faults.files import PLAIN, SUBTLE
from tests.faults.programs import Program
from tests.faults.stage import workers

TOY = """
import json, os, signal, sys, time
from pathlib import Path
from latent_domains.common.files import write_text
from latent_domains.common.program import ProgramError, run

def main():
    how, out = sys.argv[1], Path("out/o.json")
    if how == "well":
        write_text(out, json.dumps(json.loads(Path("input.json").read_text())))
    if how == "careless":
        out.write_text("{")
        time.sleep(1.5)
        out.write_text("{}")
    if how == "wrong":
        json.loads(Path("input.json").read_text())
    if how == "dies":
        os.kill(os.getpid(), signal.SIGUSR1)
    if how == "hangs":
        time.sleep(60)
    if how == "mute":
        raise ProgramError("something is wrong")
    if how == "silent":
        out.write_text("[1]")
    if how == "loses":
        Path("out/kept.json").unlink()
        raise ProgramError("input.json: wrong")
    if how == "leaves":
        if os.fork() == 0:
            time.sleep(60)
        raise ProgramError("input.json: wrong")

run(main)
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """A process for cases, whose programs find the toy."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy.py").write_text(TOY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{folder}:{os.environ['PYTHONPATH']}")
        with workers(1) as made:
            yield made


@pytest.mark.program
@pytest.mark.parametrize(
    ("how", "kind", "outcome"),
    [
        ("well", "missing", CLEAR),
        ("well", "full disk", CLEAR),
        ("well", "SIGTERM", CLEAR),
        ("well", "killed", CLEAR),
        ("careless", "killed", LOST),
        ("wrong", "empty", TRACEBACK),
        ("dies", "missing", TRACEBACK),
        ("hangs", "missing", HANG),
        ("mute", "a folder", UNCLEAR),
        ("silent", "empty", UNCLEAR),
        ("loses", "truncated", LOST),
        ("leaves", "missing", UNCLEAR),
    ],
)
def test_each_kind_of_fault_is_found(how, kind, outcome, pool, tmp_path):
    base = tmp_path / "valid"
    base.mkdir()
    (base / "input.json").write_text('{"a": 1}')
    (base / "kept.json").write_text("{}")
    program = Program(
        "toy",
        how,
        ("input.json", "kept.json>out/kept.json"),
        ("input.json",),
        1,
        goes_on=True,
        seconds=10,
    )
    reference = Reference({"kept.json": "[]", "o.json": "['a']"}, 1.0, 8)
    verdict = pool.submit(judge_case, Case(0, program, kind, seed=3), base, tmp_path, reference).result()
    assert verdict.outcome == outcome, verdict


def test_a_campaign_is_drawn_by_its_seed_and_has_everything():
    cases = plan(0, 1000)
    assert cases == plan(0, 1000) != plan(1, 1000)
    assert {case.kind for case in cases} == {*PLAIN, *SUBTLE, *CONDITIONS}
    assert len({case.program for case in cases}) > 20
