"""The program on a short run of a few pictures, and what it refuses."""

import json

import numpy as np
import pytest

from latent_domains.ablations.bn import Pictures
from latent_domains.baselines.features import read_features
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all
from tests.pictures import QUICK
from tests.programs import program


@pytest.mark.program
def test_a_run_of_a_few_pictures(lite0_features, tmp_path):
    options = {"branch_input": "early", "branch_norm": "logits", **QUICK}
    run = write_run(make_experiment("pacs_lite0", "mda", **options), tmp_path / "run", data=lite0_features)
    train_all([run], threads=1)
    done = program("ablate_bn", run.path, "--of-source", 9, "--out", tmp_path / "out.json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads((tmp_path / "out.json").read_text())
    assert found["images"] == {"art_painting": 9, "cartoon": 9, "photo": 9, "sketch": 14}
    assert len(found["accuracy"]) == 9 and len(done.stdout.splitlines()) == 2 + 9
    assert all(round(14 * value, 6).is_integer() for value in found["accuracy"].values()), "of 14 sketches"
    twice = program("ablate_bn", run.path, run.path)
    assert twice.returncode == 1 and "expected each pair once" in twice.stderr


@pytest.mark.program
def test_pictures_belong_to_their_features(lite0_features):
    """Recomputed on all pictures of a domain, features are others than those with ImageNet's statistics."""
    data = DATASETS["pacs_lite0"]
    pictures = Pictures(data, lite0_features)
    rows = pictures.rows("photo")[3:5]
    expected, labels = read_features(lite0_features / "pacs_lite0" / "photo", data, quiet=True)
    np.testing.assert_array_equal(pictures.features(rows), expected[3:5])
    np.testing.assert_array_equal(pictures.labels(rows), labels[3:5])
    assert np.abs(pictures.recomputed(rows) - expected[3:5]).max() > 0.1


def test_runs_of_other_features_are_refused(tiny_data, tmp_path):
    folder = write_run(make_experiment("digits", "mda"), tmp_path / "run", data=tiny_data)
    done = program("ablate_bn", folder.path)
    assert done.returncode == 1
    assert done.stderr == "error: dataset digits: expected features of EfficientNet-Lite0, pacs_lite0 say\n"
