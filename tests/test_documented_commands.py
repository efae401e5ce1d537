"""Every command that a page prints exists, with the options it is given."""

import re
import shlex
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT
from tests.pages import PAGES
from tests.programs import program

_BLOCK = re.compile(r"^```(?:sh|console)?\n(.*?)^```$|((?:^ {4}.*\n(?:^ *\n)*)+)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_OPTION = re.compile(r"--[a-z][a-z0-9-]*")


def commands(page: Path) -> list[str]:
    """The commands of a page's code: blocks line by line, a backslash joining two, and spans within the text."""
    text = page.read_text()
    lines = [line for block in _BLOCK.finditer(text) for line in block[0].replace("\\\n", " ").splitlines()]
    return [code.strip() for code in (*lines, *_SPAN.findall(text))]


def programs() -> dict[tuple[str, str], str]:
    """Each ``python -m MODULE …`` of the pages: the page's name and the command, by what a failure should show."""
    found = {}
    for page in PAGES:
        for command in commands(page):
            if match := re.search(r"python -m (tools\.[a-z_.0-9]+)(.*)", command):
                found[str(page.relative_to(ROOT)), f"{match[1]}{match[2].split('#')[0].rstrip()}"] = match[1]
    return found


PROGRAMS = programs()


def test_documented_commands_commands_are_found():
    assert len(PROGRAMS) > 20
    assert ("README.md", "tools.discover photos --out runs/kinds") in PROGRAMS


def test_documented_commands_every_program_stands_on_the_page_of_programs():
    tools = ROOT / "tools"
    files = [file.relative_to(tools).with_suffix("") for file in tools.rglob("*.py") if file.stem != "__init__"]
    programs = {".".join(file.parts).removesuffix(".__main__") for file in files}
    table = re.findall(r"^\| (`[^|]+`) \|", (ROOT / "docs/programs.md").read_text(), re.MULTILINE)
    assert {name for cell in table for name in re.findall(r"`([a-z0-9_.]+)`", cell)} == programs


@pytest.mark.parametrize("module", sorted(set(PROGRAMS.values())))
def test_documented_commands_programs_know_their_documented_options(module):
    shown = program(module.removeprefix("tools."), "--help")
    assert shown.returncode == 0
    known = set(_OPTION.findall(shown.stdout))
    for page, command in (key for key, value in PROGRAMS.items() if value == module):
        options = set(_OPTION.findall(command.split("|")[0]))
        assert options <= known, f"{page}: {command}"


def test_documented_commands_targets_of_make_and_snakemake_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    tables = {file.stem for file in (ROOT / "experiments").glob("*.yaml")}
    for page in PAGES:
        for command in commands(page):
            words = shlex.split(command.split("#")[0]) if command.startswith(("make ", "snakemake ")) else []
            if words[:1] == ["make"] and len(words) > 1 and not words[1].isupper():
                assert words[1] in targets, f"{page}: {command}"
            for table in re.findall(r"(?<!\S)tables/([a-z0-9_]+)(?!\S)", " ".join(words)):
                assert table in tables, f"{page}: {command}"
