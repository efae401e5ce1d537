"""The geodesic flow kernel.

B. Gong, Y. Shi, F. Sha, K. Grauman, *Geodesic Flow Kernel for Unsupervised Domain Adaptation*, CVPR 2012.

The principal subspaces P_S and P_T (D×d) of source and target are two points of a Grassmann manifold; Φ(t) is the
geodesic between them. With P_Sᵀ P_T = U₁ cos(Θ) Vᵀ and R the part of P_T V outside P_S, of lengths sin(θ_i):

    Φ(t) = A cos(tΘ) + B sin(tΘ)        A = P_S U₁,  B = R / sin(Θ)        (-R_S U₂ in the paper)
    G = ∫₀¹ Φ(t) Φ(t)ᵀ dt

The integral has a closed form: on each pair of directions a_i, b_i it is the 2×2 matrix

    ½ [ 1 + sin(2θ)/2θ     (1 - cos(2θ))/2θ ]
      [ (1 - cos(2θ))/2θ   1 - sin(2θ)/2θ   ]

whose square root turns x into 2d features. Their inner product is xᵀ G x', so G itself, D×D, is never needed.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA

from latent_domains.baselines.features import Floats
from latent_domains.common.program import ProgramError

MAX_DIMENSIONS = 100
"""The largest dimension that is tried. If domains differ at all, the measure reaches 1 much earlier."""

DISAGREEMENT = 0.99
"""From here on the measure counts as 1: it is a mean of sines of angles, which are never exactly right angles."""


@dataclass(eq=False, repr=False)
class GeodesicFlowKernel(TransformerMixin, BaseEstimator):
    """Features whose inner product is the geodesic flow kernel of a source and a target.

    ``n_components`` is the dimension d of the subspaces (None: by :func:`subspace_dimension`). After :meth:`fit`:
    ``n_components_``, ``angles_`` (d) and ``map_`` (D×2d). Nothing in it is random.
    """

    n_components: int | None = None

    def fit(self, X: Floats, X_target: Floats) -> Self:
        """Learn the kernel from features of the source (n×D) and the target (m×D), each of mean 0.

        Refuses source and target without subspaces of dimension ``n_components``.
        """
        largest = largest_dimension(X, X_target)
        for name, rows in (("source", X), ("target", X_target)):
            if not np.ptp(rows, axis=0).any():
                raise ProgramError(f"{name}: all {len(rows)} samples are the same, expected some that differ")
        if self.n_components is not None and not 1 <= self.n_components <= largest:
            raise ProgramError(f"dimension of the subspaces: got {self.n_components}, expected 1 to {largest}")
        limit = min(largest, MAX_DIMENSIONS) if self.n_components is None else self.n_components
        source, target = (principal_subspace(rows, limit) for rows in (X, X_target))
        limit = d = min(source.shape[1], target.shape[1])
        if self.n_components is None:
            both = principal_subspace(np.concatenate([X, X_target]), limit)
            d = subspace_dimension(source[:, :limit], target[:, :limit], both)
        elif self.n_components > limit:
            raise ProgramError(
                f"dimension of the subspaces: got {self.n_components}, expected 1 to {limit}, the "
                "directions in which both source and target vary"
            )
        source, target = source[:, :d], target[:, :d]
        self.n_components_ = source.shape[1]
        self.map_, self.angles_ = flow_map(source, target)
        return self

    def transform(self, X: Floats) -> Floats:
        """Map features (n×D) to n×2d."""
        return X @ self.map_


def largest_dimension(X: Floats, X_target: Floats) -> int:
    """Return the largest dimension of subspaces that a geodesic can join.

    It is at most d/2, and below both numbers of samples. Refuses samples for which it is 0.
    """
    largest = min(X.shape[1] // 2, len(X) - 1, len(X_target) - 1)
    if largest < 1:
        raise ProgramError(
            f"{len(X)} source samples and {len(X_target)} of the target of {X.shape[1]} features, "
            "expected at least 2 samples of each and 2 features for a subspace"
        )
    return largest


def principal_subspace(X: Floats, dimension: int) -> Floats:
    """Return an orthonormal basis (D×d) of the first principal components of X (n×D), d below n and D.

    Directions without variance are omitted: a solver returns arbitrary ones. The components are exact. A randomised
    solver finds others if variances fall slowly, as those of histograms do.
    """
    found = PCA(dimension, svd_solver="arpack", random_state=0).fit(X)
    return found.components_[found.singular_values_ > 1e-9 * found.singular_values_[0]].T


def subspace_dimension(source: Floats, target: Floats, both: Floats) -> int:
    """Return the dimension by the paper's subspace disagreement measure.

    D(d) = ½ [sin α_d + sin β_d]: α_d is the largest principal angle between the first d components of the source and
    those of both domains together, β_d that between the target's and both's. The result is the smallest d with D = 1;
    if there is none, the d of the largest D. ``source``, ``target`` and ``both`` are bases (D×max d).
    """
    found = []
    products = [own.T @ both for own in (source, target)]
    for d in range(1, source.shape[1] + 1):
        # The cosine of the largest angle is the smallest singular value.
        cosines = [np.linalg.svd(product[:d, :d], compute_uv=False)[-1] for product in products]
        found.append(float(np.sqrt(1 - np.square(np.clip(cosines, 0, 1))).mean()))
        if found[-1] >= DISAGREEMENT:
            break
    return int(np.argmax(found)) + 1


def flow_map(source: Floats, target: Floats) -> tuple[Floats, Floats]:
    """Return W (D×2d) with W Wᵀ = G for two orthonormal bases (D×d), and the principal angles (d)."""
    a, b, angles = geodesic(source, target)
    # sin(2θ)/2θ and (1 - cos(2θ))/2θ = sin(θ)²/θ, without 0/0 at θ = 0.
    diagonal = np.sinc(2 * angles / np.pi)
    beside = np.sin(angles) * np.sinc(angles / np.pi)
    blocks = 0.5 * np.moveaxis(np.array([[1 + diagonal, beside], [beside, 1 - diagonal]]), 2, 0)
    values, vectors = np.linalg.eigh(blocks)
    roots = vectors * np.sqrt(np.clip(values, 0, None))[:, None, :]  # d×2×2, root rootᵀ = block
    return np.concatenate([a * roots[:, 0, i] + b * roots[:, 1, i] for i in range(2)], axis=1), angles


def geodesic(source: Floats, target: Floats) -> tuple[Floats, Floats, Floats]:
    """Return A and B (D×d) and the angles θ (d) of the geodesic Φ(t) = A cos(tΘ) + B sin(tΘ).

    If the subspaces share a direction, its column of B is 0.
    """
    u, cosines, vt = np.linalg.svd(source.T @ target)
    a = source @ u
    away = target @ vt.T - a * cosines
    sines = np.linalg.norm(away, axis=0)
    b = np.divide(away, sines, out=np.zeros_like(away), where=sines > 1e-8)
    return a, b, np.arctan2(sines, cosines)
