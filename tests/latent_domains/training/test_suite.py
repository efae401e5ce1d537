"""Several experiments as one job."""

import shutil

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.training.suite import run_suite
from tests.run_folders import small


def test_a_suite_never_repeats_a_finished_run(tiny_data, tmp_path):
    experiments = [small("dial"), small("mda")]
    first = run_suite(experiments, tmp_path, data=tiny_data, jobs=2, threads=None)
    times = [folder.record.stat().st_mtime_ns for folder, _ in first]
    second = run_suite(experiments, tmp_path, data=tiny_data, jobs=2, threads=None)
    assert [folder.record.stat().st_mtime_ns for folder, _ in second] == times
    assert [record for _, record in first] == [record for _, record in second]
    longer = small("dial", iterations=7)
    shutil.copytree(tmp_path / experiments[0].name, tmp_path / longer.name)
    with pytest.raises(ProgramError, match=r"dial_\S*seed0 holds another experiment: iterations is 6 there, 7 here"):
        run_suite([longer], tmp_path, data=tiny_data, jobs=1, threads=None)
    with pytest.raises(ProgramError, match=r"seed0 holds another experiment: data is '.*' there, '.*other' here"):
        run_suite([small("dial")], tmp_path, data=tmp_path / "other", jobs=1, threads=None)
