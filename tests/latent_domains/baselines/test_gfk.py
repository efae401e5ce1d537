"""The geodesic flow kernel against its definition, integrated numerically."""

import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.linalg import expm, orth, subspace_angles

from latent_domains.baselines import GeodesicFlowKernel
from latent_domains.baselines.gfk import flow_map, principal_subspace, subspace_dimension
from latent_domains.common.program import ProgramError


def bases(features: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return tuple(orth(rng.normal(size=(features, d))) for _ in range(2))


def along(source: np.ndarray, target: np.ndarray, t: float) -> np.ndarray:
    """Φ(t), from the exponential map of the Grassmann manifold: nothing of the closed form is in it."""
    q = np.hstack([source, orth(np.eye(len(source)) - source @ source.T, rcond=1e-8)])
    d = source.shape[1]
    local = q.T @ target
    u, cosines, vt = np.linalg.svd(local[:d])
    direction = local[d:] @ vt.T / np.maximum(np.sqrt(1 - np.clip(cosines, 0, 1) ** 2), 1e-12)
    angles = np.arccos(np.clip(cosines, 0, 1))
    tangent = (direction * angles) @ u.T  # (D-d)×d
    generator = np.block([[np.zeros((d, d)), -tangent.T], [tangent, np.zeros((len(source) - d,) * 2)]])
    return q @ expm(t * generator)[:, :d]


@pytest.mark.parametrize(("features", "d"), [(6, 1), (8, 3), (7, 3), (20, 10)])
def test_flow_map_the_closed_form_is_the_integral_of_the_flow(features, d):
    source, target = bases(features, d)
    expected, _ = quad_vec(lambda t: (flow := along(source, target, t)) @ flow.T, 0, 1)
    mapped, angles = flow_map(source, target)
    np.testing.assert_allclose(mapped @ mapped.T, expected, atol=1e-7)
    np.testing.assert_allclose(np.sort(angles)[::-1], subspace_angles(source, target), atol=1e-7)


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-7, 1e-3, np.pi / 2])
def test_flow_map_small_and_right_angles(angle):
    source = np.eye(5)[:, :2]
    target = source.copy()
    target[:, 1] = np.cos(angle) * source[:, 1] + np.sin(angle) * np.eye(5)[:, 3]
    mapped, angles = flow_map(source, target)
    assert np.isfinite(mapped).all()
    np.testing.assert_allclose(sorted(angles), [0, angle], atol=1e-9)

    def outer(t: float) -> np.ndarray:
        flow = source.copy()
        flow[:, 1] = np.cos(t * angle) * source[:, 1] + np.sin(t * angle) * np.eye(5)[:, 3]
        return flow @ flow.T

    np.testing.assert_allclose(mapped @ mapped.T, quad_vec(outer, 0, 1)[0], atol=1e-7)


def data(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [5, 3, 2] @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(size=(n, 12))
    return X - X.mean(axis=0)


def test_subspace_dimension_the_dimension_is_the_first_at_which_the_subspaces_disagree():
    # Both share two strong directions; of the weak ones each has its own.
    axes = np.eye(12)
    source = axes[:, [0, 1, 2, 3, 4]]
    target = axes[:, [0, 1, 5, 6, 7]]
    both = axes[:, [0, 1, 8, 9, 10]]
    assert subspace_dimension(source, target, both) == 3
    assert subspace_dimension(source, source, source) == 1, "they never disagree: all measures are 0"
    X, X_target = data(40, 0), data(30, 1)
    kernel = GeodesicFlowKernel().fit(X, X_target)
    limit = 6
    pieces = [principal_subspace(rows, limit) for rows in (X, X_target, np.vstack([X, X_target]))]
    found = []
    for d in range(1, limit + 1):
        largest = [subspace_angles(own[:, :d], pieces[2][:, :d]).max() for own in pieces[:2]]
        found.append(np.sin(largest).mean())
    expected = next((d for d, value in enumerate(found, 1) if value >= 0.99), int(np.argmax(found)) + 1)
    assert kernel.n_components_ == expected == kernel.map_.shape[1] // 2


def test_principal_subspace_principal_components_are_exact_where_variances_fall_slowly():
    X = np.random.default_rng(0).normal(size=(300, 600))
    expected = np.linalg.svd(X - X.mean(axis=0))[2][:20].T
    assert subspace_angles(principal_subspace(X, 20), expected).max() < 1e-6


@pytest.mark.parametrize(
    ("source", "target", "n_components", "message"),
    [
        ((10, 12), (10, 12), 7, "dimension of the subspaces: got 7, expected 1 to 6"),
        ((10, 12), (4, 12), 4, "got 4, expected 1 to 3"),
        ((10, 12), (10, 12), 0, "got 0, expected 1 to 6"),
        ((10, 12), (1, 12), None, "10 source samples and 1 of the target of 12 features, expected at least 2 samples"),
        ((10, 1), (10, 1), None, "and 2 features for a subspace"),
    ],
)
def test_gfk_subspaces_that_cannot_be_are_refused(source, target, n_components, message):
    rng = np.random.default_rng(0)
    with pytest.raises(ProgramError, match=message):
        GeodesicFlowKernel(n_components).fit(rng.normal(size=source), rng.normal(size=target))


def test_gfk_directions_without_variance_are_in_no_subspace():
    """Ten samples three times each vary in nine directions. What a solver adds to these is rounding."""
    rng = np.random.default_rng(0)
    some, other = np.repeat(rng.normal(size=(10, 40)), 3, axis=0), rng.normal(size=(60, 40))
    few = other * (np.arange(40) < 5)  # features that are the same everywhere
    for source, target, most in ((some, other, 9), (other, some, 9), (some, few, 5)):
        kernel = GeodesicFlowKernel(most).fit(source, target)
        assert kernel.n_components_ == most >= GeodesicFlowKernel().fit(source, target).n_components_
        message = f"got {most + 1}, expected 1 to {most}, the directions in which both source and target vary"
        with pytest.raises(ProgramError, match=message):
            GeodesicFlowKernel(most + 1).fit(source, target)


@pytest.mark.parametrize("name", ["source", "target"])
def test_gfk_samples_that_are_all_the_same_have_no_subspace(name):
    rows = np.random.default_rng(0).normal(size=(2, 9, 12))
    rows[("source", "target").index(name)] = 1
    with pytest.raises(ProgramError, match=f"{name}: all 9 samples are the same, expected some that differ"):
        GeodesicFlowKernel().fit(*rows)
