"""Features of real nets: which images they are of."""

from dataclasses import replace

import numpy as np
import pytest

from latent_domains.data.lmdb_io import read_labels
from latent_domains.runs.features import aligned_features
from latent_domains.runs.write import write_run

pytestmark = pytest.mark.program


def test_each_image_is_taken_once_however_many_are_asked_for(trained):
    folder = trained
    features = aligned_features(folder, folder.latest_snapshot(), images=10_000)
    assert features.names == folder.experiment.batch_inputs
    for domain, lmdb in enumerate(folder.train_lmdbs.values()):
        rows = features.domains == domain
        assert features.labels[rows].tolist() == list(read_labels(lmdb))
        assert len(np.unique(features.before[rows], axis=0)) == rows.sum()
    some = aligned_features(folder, folder.latest_snapshot(), images=50)
    assert np.bincount(some.domains).tolist() == [16, 16, 16]


def test_labels_are_those_of_the_images_where_each_epoch_has_an_order_of_its_own(trained, tiny_data, tmp_path):
    recipe = replace(trained.experiment.recipe, data_order="shuffled")
    folder = write_run(replace(trained.experiment, recipe=recipe), tmp_path / "run", data=tiny_data)
    assert "shuffle_seed" in folder.net("train").read_text()
    stored, shuffled = (aligned_features(run, trained.latest_snapshot(), images=50) for run in (trained, folder))
    np.testing.assert_array_equal(shuffled.before, stored.before)
    assert shuffled.labels.tolist() == stored.labels.tolist()
