"""Files of kept records: read and written to the letter, damaged ones refused by line."""

import re

import pytest

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.runs.records_file import read_records, write_records


@pytest.mark.parametrize("file", sorted((ROOT / "results").rglob("records.jsonl")), ids=lambda file: file.parent.name)
def test_kept_records_are_read_and_written_to_the_letter(file, tmp_path):
    write_records(tmp_path / "again.jsonl", read_records(file))
    assert (tmp_path / "again.jsonl").read_bytes() == file.read_bytes()


GOOD = '{"run": "svm", "record": {"baseline": {}, "accuracy": 0.5, "targets": {}}}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: found '{', expected {"),
        ('{"run": 3, "record": {}}', "line 2: run: found 3, expected a name that no other line has"),
        (GOOD, "line 2: run: found 'svm', expected a name that no other line has"),
        (GOOD.replace("0.5", "5").replace("svm", "x"), "line 2: x: accuracy: found 5, expected less than"),
    ],
)
def test_a_damaged_file_is_refused_by_line(line, message, tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(ProgramError, match=re.escape(message)) as error:
        read_records(file)
    assert str(error.value).startswith(f"{file}: ")


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(ProgramError, match=r"r\.jsonl: no such file, expected records"):
        read_records(tmp_path / "r.jsonl")
    (tmp_path / "r.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(ProgramError, match=r"r\.jsonl: .*expected records, a line of JSON each"):
        read_records(tmp_path / "r.jsonl")
