import errno
import os
import shutil
import time
from pathlib import Path

import pytest

from latent_domains.common.files import (
    Digest,
    build_folder_aside,
    check_apart,
    check_free,
    expect_file,
    read_bytes,
    read_json,
    read_text,
    stamp,
    write_aside,
    write_text,
)
from latent_domains.common.program import ProgramError
from tests.programs import names


@pytest.mark.parametrize("read", [read_bytes, read_text, read_json])
def test_files_a_file_that_is_too_large_for_the_memory_is_named(read, tmp_path):
    file = tmp_path / "net.prototxt"
    file.touch()
    os.truncate(file, 1 << 42)  # it takes no room
    with pytest.raises(ProgramError, match=f"^{file}: not enough memory for {1 << 42} bytes$"):
        read(file)


def test_write_aside_a_file_is_whole_or_absent(tmp_path):
    with pytest.raises(RuntimeError), write_aside(tmp_path / "a" / "file") as aside:
        aside.write_text("half")
        raise RuntimeError
    assert names(tmp_path / "a") == []
    write_text(tmp_path / "a" / "file", "whole")
    with pytest.raises(KeyboardInterrupt), write_aside(tmp_path / "a" / "file") as aside:
        aside.write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "a" / "file").read_text() == "whole"
    assert names(tmp_path / "a") == ["file"]


def test_build_folder_aside_a_folder_is_replaced_only_by_force_and_only_whole(tmp_path):
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


def test_build_folder_aside_a_folder_is_replaced_from_within(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    with build_folder_aside(Path("../folder/../folder"), force=True) as aside:
        (aside / "new").touch()
    assert names(tmp_path / "folder") == ["new"] and names(tmp_path) == ["folder"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "found no folder name at the end"),
        ("folder/..", "found no folder name at the end"),
        ("link", "link: a link that leads nowhere, expected to make a folder"),
    ],
)
def test_build_folder_aside_a_folder_that_cannot_be_made_is_refused_before_the_work(
    name, message, force, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(ProgramError, match=message), build_folder_aside(Path(name), force=force):
        raise AssertionError("entered")
    assert names(tmp_path) == ["link"]


@pytest.mark.parametrize("aside", [write_aside, build_folder_aside])
def test_files_a_full_disk_is_told_with_the_name_of_the_output(aside, tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '.*output'"), aside(tmp_path / "output"):
        raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError) as error, aside(tmp_path / "output"):
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    assert error.value.filename is None
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "file: not valid JSON: "),
        (b"\xff", "file: not valid JSON: 'utf-8' codec can't decode"),
        (b"[1]", "file: found list, expected a JSON object"),
    ],
)
def test_read_json_damaged_json_is_named(text, message, tmp_path):
    (tmp_path / "file").write_bytes(text)
    with pytest.raises(ProgramError) as error:
        read_json(tmp_path / "file")
    assert message in str(error.value)


def test_check_free_what_is_read_is_never_what_is_written(tmp_path, monkeypatch):
    (tmp_path / "net").touch()
    (tmp_path / "link").symlink_to("net")
    monkeypatch.chdir(tmp_path)
    for same in (Path("net"), tmp_path / "link"):
        with pytest.raises(ProgramError, match="it is an input file, choose another name"):
            check_free(Path("other"), same, force=True, inputs=[tmp_path / "net"])
    check_free(Path("other"), force=True, inputs=[tmp_path / "net"])


def test_check_apart_folders_in_one_another(tmp_path):
    night, link = tmp_path / "night", tmp_path / "link"
    link.symlink_to(night)
    for folders, message in (
        ([night, tmp_path / "day", night], "night is given twice: expected a folder for each"),
        ([night, night / "out"], f"out lies in {night}: "),
        ([night, link], "is given twice"),
    ):
        with pytest.raises(ProgramError, match=message):
            check_apart(folders, "a folder for each")
    check_apart([night, tmp_path / "night and day"], "a folder for each")


def test_read_json_a_missing_file_is_told_from_a_folder(tmp_path):
    with pytest.raises(ProgramError, match=r"none: no such file, expected a net$"):
        expect_file(tmp_path / "none", "a net")
    with pytest.raises(ProgramError, match="a folder, expected a file of JSON"):
        read_json(tmp_path)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(ProgramError, match="no regular file, expected a file of JSON"):
        read_json(tmp_path / "fifo")


def test_write_text_a_living_process_keeps_what_it_writes(tmp_path):
    with write_aside(tmp_path / "file") as first:
        write_text(tmp_path / "file", "second")
        first.write_text("first")
    assert (tmp_path / "file").read_text() == "first"


def test_build_folder_aside_ctrl_c_while_a_folder_is_replaced_leaves_the_old_one(tmp_path, monkeypatch):
    with build_folder_aside(tmp_path / "folder") as aside:
        (aside / "old").touch()
    rename = Path.rename

    def interrupted(path, to):
        rename(path, to)
        if to.name == "old":
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), build_folder_aside(tmp_path / "folder", force=True) as aside:
        (aside / "new").touch()
    assert names(tmp_path / "folder") == ["old"] and names(tmp_path) == ["folder"]


def test_build_folder_aside_an_empty_folder_is_no_folder(tmp_path):
    """Snakemake makes that of a job's output."""
    (tmp_path / "folder").mkdir()
    with build_folder_aside(tmp_path / "folder") as aside:
        (aside / "file").touch()
        (tmp_path / "folder").mkdir(exist_ok=True)
    assert names(tmp_path / "folder") == ["file"]


def test_write_text_a_folder_that_another_process_made_meanwhile_is_not_replaced(tmp_path):
    with pytest.raises(ProgramError, match="folder: another process made it"), build_folder_aside(tmp_path / "folder"):
        write_text(tmp_path / "folder" / "file", "theirs")
    assert (tmp_path / "folder" / "file").read_text() == "theirs"


def test_write_text_a_device_is_never_replaced(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "device").symlink_to("/dev/null")
    for name in ("fifo", "device"):
        with pytest.raises(ProgramError, match=f"{name}: it exists and is not a regular file, choose another"):
            write_text(tmp_path / name, "text")
    assert (tmp_path / "fifo").is_fifo() and (tmp_path / "device").is_char_device()


def test_digest_a_digest_depends_on_names_contents_and_order():
    pairs = [("a", b"1"), ("b", b"2")]
    lists = [pairs, pairs[::-1], [("a", b"1b2")], [("a1", b""), ("b", b"2")], [("", b"a1b2")], [], [("", "")]]
    assert len({str(Digest(each)) for each in lists}) == len(lists)
    assert str(Digest([("é\udcff", memoryview(b"1"))])) == str(Digest([(b"\xc3\xa9\xff", "1")]))


@pytest.mark.parametrize("how", ["in place", "renamed over it", "copied with its times"])
def test_stamp_a_file_of_the_same_size_and_time_has_another_stamp(tmp_path, how):
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_bytes(b"one")
    other.write_bytes(b"two")
    before, times = stamp([file]), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    assert stamp([str(file)]) == before
    time.sleep(0.02)  # a clock of files goes on in steps
    os.utime(other, ns=times)
    if how == "in place":
        file.write_bytes(b"two")
        os.utime(file, ns=times)
    elif how == "renamed over it":
        other.rename(file)
    else:
        shutil.copy2(other, file)
    assert file.read_bytes() == b"two" and file.stat().st_mtime_ns == times[1]
    assert stamp([file]) != before


def test_files_that_are_not_there_have_a_stamp(tmp_path):
    assert stamp([tmp_path / "a"]) not in (stamp([tmp_path / "b"]), stamp([]))
