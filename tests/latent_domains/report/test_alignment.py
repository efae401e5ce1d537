"""Features in two dimensions."""

import numpy as np

from latent_domains.report.alignment import by_chance, embed, neighbours_alike


def test_features_in_two_dimensions():
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 30)
    features = rng.normal(size=(60, 80)).astype(np.float32)
    assert abs(neighbours_alike(features, groups) - by_chance(groups)) < 0.2
    features[groups == 1] += 10
    assert neighbours_alike(features, groups) == 1
    points = embed(features)
    assert points.shape == (60, 2) and np.array_equal(points, embed(features))
    assert neighbours_alike(points, groups) == 1
