import json

import pytest

from tests.fixtures import TEST
from tests.programs import program


@pytest.mark.program
def test_tables_are_printed_and_every_run_is_written(trained, tmp_path):
    done = program("domain_directions", trained.path, "--images", TEST, "--out", tmp_path / "found.json")
    assert done.returncode == 0, done.stderr
    assert [line.startswith("| run ") for line in done.stdout.split("\n\n")] == [True, True]
    assert [one["iteration"] for one in json.loads((tmp_path / "found.json").read_text())] == [0, 4]


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    done = program("domain_directions", tmp_path)
    assert done.returncode == 1 and "no experiment.json in it" in done.stderr
