from pathlib import Path

import pytest

from tools.files import build_folder_aside, write_aside, write_text
from tools.program import ProgramError


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_whole_or_absent(tmp_path):
    with pytest.raises(RuntimeError), write_aside(tmp_path / "a" / "file") as aside:
        aside.write_text("half")
        raise RuntimeError
    assert names(tmp_path / "a") == []
    write_text(tmp_path / "a" / "file", "whole")
    assert (tmp_path / "a" / "file").read_text() == "whole"
    assert names(tmp_path / "a") == ["file"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    write_text(tmp_path / "file", "old")
    with pytest.raises(KeyboardInterrupt), write_aside(tmp_path / "file") as aside:
        aside.write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "file").read_text() == "old"


def test_a_folder_is_replaced_only_by_force_and_only_whole(tmp_path):
    with build_folder_aside(tmp_path / "folder") as aside:
        (aside / "old").touch()
    with pytest.raises(ProgramError, match="folder exists already"), build_folder_aside(tmp_path / "folder"):
        raise AssertionError("entered")
    with pytest.raises(RuntimeError), build_folder_aside(tmp_path / "folder", force=True) as aside:
        (aside / "new").touch()
        raise RuntimeError
    assert names(tmp_path / "folder") == ["old"]
    with build_folder_aside(tmp_path / "folder", force=True) as aside:
        (aside / "new").touch()
    assert names(tmp_path / "folder") == ["new"]
    assert names(tmp_path) == ["folder"]
