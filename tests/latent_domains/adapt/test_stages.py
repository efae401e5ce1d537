import pytest

from latent_domains.adapt.stages import open_run
from latent_domains.adapt.task import Paths
from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import make_experiment


def test_a_folder_where_the_datasets_description_goes(tmp_path):
    paths = Paths(tmp_path / "task")
    paths.dataset.mkdir(parents=True)
    with pytest.raises(ProgramError, match=r"dataset\.json: a folder is there, expected to write a file"):
        open_run(paths, make_experiment("digits", "dial"), "CPU")
    assert not paths.run.exists()
