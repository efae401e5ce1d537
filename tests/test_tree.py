"""The tests mirror the tree: those of a module are found by its name."""

from pathlib import Path

from latent_domains.common.program import ROOT


def test_every_file_of_tests_is_named_after_its_module():
    tests = ROOT / "tests"
    files = [
        file.relative_to(tests) for top in ("latent_domains", "tools") for file in tests.glob(f"{top}/**/test_*.py")
    ]
    assert len(files) > 100
    assert [str(file) for file in files if not any(module.is_file() for module in modules(file))] == []


def modules(file: Path) -> list[Path]:
    """Where the module may be that a file of tests is named after."""
    folder, name = ROOT / file.parent, file.stem.removeprefix("test_")
    return [folder / "__main__.py"] if name == "main" else [folder / f"{name}.py", folder / name / "__init__.py"]
