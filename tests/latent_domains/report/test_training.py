"""Curves along training."""

import numpy as np

from latent_domains.report.training import BINS, binned


def test_curves_are_averaged_in_bins_over_iterations_that_all_have():
    long = {i: float(i) for i in range(0, 1000, 10)}
    iterations, values = binned([long, {**long, 5: 100.0}])
    assert len(iterations) == BINS and values.shape == (2, BINS)
    np.testing.assert_allclose(values[0], iterations)
    np.testing.assert_allclose(values[1], iterations)
    iterations, values = binned([{0: 0.0, 10: 10.0}, {5: 1.0}])
    assert iterations.tolist() == [0, 5, 10]
    assert values.tolist() == [[0, 5, 10], [1, 1, 1]]
