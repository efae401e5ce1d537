"""Hashes by which other contents under the same name are noticed."""

import os
import shutil
import time

import pytest

from latent_domains.common.contents import Digest, stamp


def test_a_digest_depends_on_names_contents_and_order():
    pairs = [("a", b"1"), ("b", b"2")]
    lists = [pairs, pairs[::-1], [("a", b"1b2")], [("a1", b""), ("b", b"2")], [("", b"a1b2")], [], [("", "")]]
    assert len({str(Digest(each)) for each in lists}) == len(lists)
    assert str(Digest([("é\udcff", memoryview(b"1"))])) == str(Digest([(b"\xc3\xa9\xff", "1")]))


@pytest.mark.parametrize("how", ["in place", "renamed over it", "copied with its times"])
def test_a_file_of_the_same_size_and_time_has_another_stamp(tmp_path, how):
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
