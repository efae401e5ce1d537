"""Features of real nets: which images they are of."""

import numpy as np

from latent_domains.data.lmdb_io import read_labels
from latent_domains.runs.features import aligned_features


def test_each_image_is_taken_once_however_many_are_asked_for(trained):
    folder = trained
    features = aligned_features(folder, folder.latest_snapshot(), images=10_000)
    assert features.names == folder.experiment.parts
    for domain, lmdb in enumerate(folder.train_lmdbs.values()):
        rows = features.domains == domain
        assert features.labels[rows].tolist() == list(read_labels(lmdb))
        assert len(np.unique(features.before[rows], axis=0)) == rows.sum()
    some = aligned_features(folder, folder.latest_snapshot(), images=50)
    assert np.bincount(some.domains).tolist() == [16, 16, 16]
