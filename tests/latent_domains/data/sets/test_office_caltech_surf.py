"""Office-Caltech's SURF histograms, from a mirror folder to LMDBs."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from scipy.io import savemat

from latent_domains.data import lmdb_io
from latent_domains.data.input_batches import batches
from latent_domains.data.lmdb_plans import classes_of, features_of
from latent_domains.data.sets import office_caltech_surf, urls
from latent_domains.data.sets.published import OFFICE_CALTECH
from latent_domains.experiment.datasets import DATASETS
from tests.programs import program

DATA = DATASETS["office_caltech_surf"]


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Histograms of 800 bins in place of the published ones, two of each class."""
    (tmp_path / "office_caltech_surf").mkdir()
    found = {}
    for seed, (domain, file) in enumerate(urls.OFFICE_CALTECH_SURF.items()):
        place = tmp_path / file.name
        histograms = np.random.default_rng(seed).integers(0, 9, (20, 800)).astype(np.uint8)
        savemat(place, {"fts": histograms, "labels": np.repeat(np.arange(1, 11), 2)[:, np.newaxis]})
        found[domain] = replace(file, hashes={"sha256": hashlib.sha256(place.read_bytes()).hexdigest()})
    monkeypatch.setattr(office_caltech_surf, "OFFICE_CALTECH_SURF", found)
    return tmp_path


def test_office_caltech_surf_a_domain_is_rows_over_their_sums_then_standardised_over_all_domains(mirror):
    done = program("get_data", "office_caltech_surf", "--mirror", mirror, "--out", mirror / "data")
    assert done.returncode == 0, done.stderr
    rows = []
    for domain in DATA.domains:
        lmdb = mirror / "data" / DATA.train_lmdb(domain)
        assert classes_of(lmdb) == OFFICE_CALTECH.classes and features_of(lmdb)["backbone"] == DATA.features.backbone
        assert lmdb_io.describe(lmdb).class_counts == dict.fromkeys(range(10), 2)
        rows += [inputs.reshape(-1, 800) for inputs, _ in batches(lmdb, DATA.preprocessing, 100)]
    together = np.concatenate(rows)
    np.testing.assert_allclose(together.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(together.std(axis=0), 1, rtol=1e-5)
    assert program("get_data", "office_caltech_surf", "--out", mirror / "data").stdout.count(": built before\n") == 4
    done = program("get_data", "office_caltech_surf", "--out", mirror / "data", "--seed", "1")
    assert done.returncode == 1 and "amazon: made with seed 0 instead of 1; pass --force" in done.stderr
