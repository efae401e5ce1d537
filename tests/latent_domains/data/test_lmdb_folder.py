"""LMDBs that are made of others, which may have changed since; the hash of what an LMDB holds."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import join, lmdb_io
from latent_domains.data.lmdb_folder import NOTE, Note, check_up_to_date, noted_contents, read_note


def fill(path: Path, *values: int, names: str = "abcdef") -> Path:
    with lmdb_io.create(path, force=True) as (writer, _):
        for name, value in zip(names, values, strict=False):
            writer.put(name, lmdb_io.image_datum(np.full((2, 2, 3), value, np.uint8), value % 2))
    return path


def test_noted_contents_contents_are_keys_and_values(tmp_path):
    first = lmdb_io.contents(fill(tmp_path / "a", 1, 2))
    assert lmdb_io.contents(fill(tmp_path / "b", 1, 2)) == first
    others = [fill(tmp_path / "c", 1, 3), fill(tmp_path / "c", 1), fill(tmp_path / "c", 1, 2, names="ac")]
    for other in others:
        assert lmdb_io.contents(other) != first
    (tmp_path / "b" / NOTE).unlink()
    assert noted_contents(tmp_path / "b") is None and lmdb_io.contents(tmp_path / "b") == first, (
        "as when it was written"
    )


def test_noted_contents_are_about_one_file(tmp_path):
    a, b = fill(tmp_path / "a", 1, 2), fill(tmp_path / "b", 1, 3)
    of_b = lmdb_io.contents(b)
    status = (a / "data.mdb").stat()
    shutil.copyfile(b / "data.mdb", a / "data.mdb")
    os.utime(a / "data.mdb", ns=(status.st_atime_ns, status.st_mtime_ns))  # as archives set it
    assert (a / "data.mdb").stat().st_size == status.st_size
    assert noted_contents(a) is None and lmdb_io.contents(a) == of_b


def test_check_up_to_date_compares_lmdbs_that_others_were_made_of(tmp_path):
    a, b, mixture = fill(tmp_path / "a", 1, 2), fill(tmp_path / "b", 3, 4), tmp_path / "mixture"
    join.join([a, b], mixture)
    check_up_to_date(mixture, "do it again")
    fill(b, 3, 4)
    check_up_to_date(mixture, "do it again")  # the same records, built again
    fill(b, 3, 5)
    with pytest.raises(ProgramError) as error:
        check_up_to_date(mixture, "do it again")
    assert str(error.value) == f"{mixture}: it was made of other records than are now in {b}; do it again"
    (b / NOTE).unlink()
    check_up_to_date(mixture, "")  # what no note says is not read
    with pytest.raises(ProgramError, match="it was made of other records"):
        check_up_to_date(mixture, "", lmdb_io.contents)
    shutil.rmtree(b)
    check_up_to_date(mixture, "", lmdb_io.contents)
    (mixture / NOTE).write_text(read_note(mixture).text().replace('"made_of"', '"unknown"'))
    check_up_to_date(mixture, "", lmdb_io.contents)


def test_read_note_says_nothing_if_it_is_no_file(tmp_path):
    lmdb = fill(tmp_path / "a", 1, 2)
    (lmdb / NOTE).unlink()
    os.mkfifo(lmdb / NOTE)
    assert read_note(lmdb) == Note()
