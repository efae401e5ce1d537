"""The tests mirror the tree: those of a module are found by its name. What docstrings and pages name is there."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from latent_domains.common.program import ROOT


def test_tree_every_file_of_tests_is_named_after_its_module():
    tests = ROOT / "tests"
    files = [
        file.relative_to(tests)
        for top in ("bench", "latent_domains", "tools")
        for file in tests.glob(f"{top}/**/test_*.py")
    ]
    assert len(files) > 100
    assert [str(file) for file in files if not any(module.is_file() for module in modules(file))] == []


def modules(file: Path) -> list[Path]:
    """Where the module may be that a file of tests is named after; a second file of its tests has one more word."""
    folder, name = ROOT / file.parent, file.stem.removeprefix("test_")
    if name == "main":
        return [folder / "__main__.py"]
    names = [name, name.rpartition("_")[0] or name]
    return [path for each in names for path in (folder / f"{each}.py", folder / each / "__init__.py")]


PACKAGES = ("bench", "caffe_layers", "latent_domains", "tools")

_ROLE = re.compile(r":(?:mod|func|class|meth|attr|data):`~?([\w.]+)`")
_DOTTED = re.compile(rf"(?:``|\b)((?:{'|'.join(PACKAGES)})(?!\.(?:jpg|json|md|png)\b)(?:\.\w+)+)(?!\w|/)")
_FILE = re.compile(
    r"(?<![\w./-])((?:bench|caffe_layers|docker|docs|experiments|latent_domains|tests|tools)/[\w./-]+\.\w+)(?![\w/*{])"
)


_PLACEHOLDER = re.compile(r"\b(NAME|SOURCE)\b")


def test_tree_what_docstrings_and_pages_name_is_there():
    read, missing = 0, []
    for file, text in docstrings_and_pages():
        found = {name: known(name, file) for name in _ROLE.findall(text)}
        found |= {name: resolves(name) for name in _DOTTED.findall(text)}
        found |= {name: (ROOT / name).exists() for name in _FILE.findall(text)}
        read += len(found)
        missing += [f"{file}: {name}" for name, there in found.items() if not there and not _PLACEHOLDER.search(name)]
    assert read > 100 and missing == []


def test_tree_modules_that_a_package_lists_are_there():
    """Its docstring says what each is for, at a line's beginning or after two spaces."""
    missing, read = [], 0
    for file in ROOT.glob("latent_domains/**/__init__.py"):
        text = ast.get_docstring(ast.parse(file.read_text())) or ""
        names = [name for each in re.findall(r"(?:^|  )((?:``\w+``(?:, )?)+)", text, re.M) for name in each.split("``")]
        listed = [name for name in names if name.strip(", ")]
        read += len(listed)
        missing += [f"{file.relative_to(ROOT)}: {name}" for name in listed if not is_module(file.parent / name)]
    assert read > 20 and missing == []


def test_tree_the_drawing_of_the_floors_is_what_the_imports_are_checked_against():
    (drawing,) = re.findall(r"^latent_domains/(.*?)^─", (ROOT / "docs/architecture.md").read_text(), re.M | re.S)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (floors,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["latent_domains"])
    drawn = [set(re.findall(r"(\w+) \(", line)) for line in drawing.splitlines()]
    assert drawn == [set(floor.split(" | ")) for floor in floors]


def docstrings_and_pages() -> Iterator[tuple[Path, str]]:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "results").glob("**/*.md")]:
        yield page.relative_to(ROOT), page.read_text()
    for package in PACKAGES:
        for file in (ROOT / package).glob("**/*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if (
                    isinstance(node, ast.Expr)
                    and isinstance(node.value, ast.Constant)
                    and isinstance(node.value.value, str)
                ):
                    yield file.relative_to(ROOT), node.value.value


def is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def resolves(name: str) -> bool:
    """Whether a dotted name is a module of ours, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        if is_module(path):
            file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
            return length == len(parts) or set(parts[length:]) <= names_in(file)
    return False


def known(name: str, file: Path) -> bool:
    """Whether ``file`` knows a name: its own, an imported one, or a dotted one of ours."""
    return resolves(name) or set(name.split(".")) <= names_in(ROOT / file)


@cache
def names_in(file: Path) -> set[str]:
    """All that is defined in a module or imported by it, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[-1])
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found
