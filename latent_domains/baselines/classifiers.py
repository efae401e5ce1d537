"""Classifiers of an unlabelled target: without adaptation, by the geodesic flow kernel, and by latent domains.

They are nearest neighbours, linear support vector machines (one against one) or logistic regressions. Features are
standardised first. A classifier that adapts does this for each domain by its own mean and variance, as the kernel's
authors do. With ``normalise`` "none" it uses features as they are.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import linear_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tqdm import tqdm

from latent_domains.baselines.features import Floats, Integers, check_features, check_training, median_gamma, mmd
from latent_domains.baselines.gfk import GeodesicFlowKernel
from latent_domains.common.program import ProgramError
from latent_domains.experiment.baselines import VARIANTS

C = 10.0
"""C of the SVMs and of logistic regression, for rows with a mean squared length of 1."""

MARGINS = 1 << 26
"""The most margins at once, about 1.3 GB: a one-against-one SVM has a margin for each sample and pair of classes."""


@dataclass(eq=False, repr=False)
class SourceClassifier(ClassifierMixin, BaseEstimator):
    """A ``classifier`` of the source, "svm", "1nn" or "logistic", applied to the target.

    With ``own_z`` the target is standardised by its own mean and variance: that is the only adaptation. Without it the
    source's are used.
    """

    classifier: str = "svm"
    _: KW_ONLY
    own_z: bool = False
    normalise: str = "z"

    dimensions_ = None
    """None: there is no kernel, and so no subspace."""

    def fit(self, X: ArrayLike, y: ArrayLike, X_target: ArrayLike | None = None) -> Self:
        """Train on features (n×d) with labels (n); only ``own_z`` uses the target (m×d)."""
        X, y = check_training(X, y)
        own = check_features(X_target, "target", X) if self.own_z else X
        scale, self._scale = scales(X, own, self.normalise)
        self._classifier = untrained(self.classifier).fit(scale(X), y)
        self.classes_ = self._classifier.classes_
        return self

    def predict(self, X: ArrayLike) -> Integers:
        """Return classes of target features (m×d)."""
        X = self._scale(check_features(X, "target", self._scale.mean[None]))
        return _in_parts(self._classifier.predict, X, len(self.classes_))


@dataclass(eq=False, repr=False)
class GFKClassifier(ClassifierMixin, BaseEstimator):
    """The geodesic flow kernel from the whole source to the target, and a ``classifier`` on it, "1nn" or "svm".

    ``n_components`` is the dimension of the subspaces (None: chosen by the subspace disagreement measure).
    """

    classifier: str = "1nn"
    _: KW_ONLY
    n_components: int | None = None
    normalise: str = "z"

    @property
    def dimensions_(self) -> list[int]:
        """The dimension of the subspaces, after :meth:`fit`."""
        return [self.kernel_.n_components_]

    def fit(self, X: ArrayLike, y: ArrayLike, X_target: ArrayLike) -> Self:
        """Adapt from features (n×d) with labels (n) to the unlabelled target (m×d)."""
        X, y = check_training(X, y)
        X_target = check_features(X_target, "target", X)
        scale, self._scale = scales(X, X_target, self.normalise)
        source = scale(X)
        self.kernel_ = GeodesicFlowKernel(self.n_components).fit(source, self._scale(X_target))
        self._classifier = untrained(self.classifier).fit(self.kernel_.transform(source), y)
        self.classes_ = self._classifier.classes_
        return self

    def predict(self, X: ArrayLike) -> Integers:
        """Return classes of target features (m×d)."""
        return _in_parts(self._classifier.predict, self._embedded(X), len(self.classes_))

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return p(c|x) of target features (m×d), m×classes.

        For an SVM it is the softmax of the votes of one against one, with ties decided by margins. For a nearest
        neighbour it is 1 for its class.
        """
        if isinstance(self._classifier, KNeighborsClassifier):
            return self._classifier.predict_proba(self._embedded(X))
        margins = _in_parts(self._classifier.decision_function, self._embedded(X), len(self.classes_))
        return softmax(margins if margins.ndim == 2 else np.stack([-margins, margins], axis=1), axis=1)

    def _embedded(self, X: ArrayLike) -> Floats:
        return self.kernel_.transform(self._scale(check_features(X, "target", self._scale.mean[None])))


@dataclass(eq=False, repr=False)
class LatentDomainClassifier(ClassifierMixin, BaseEstimator):
    """A :class:`GFKClassifier` from each discovered domain to the target, and two ways to use them.

    "ensemble": p(c|x) = Σ_d p(d|x) p_d(c|x), where a logistic regression of the domains on the source gives p(d|x)
    (Hoffman et al. 2012). "matching": the classifier of the domain ``nearest_``, which has the smallest maximum mean
    discrepancy to the target. After :meth:`fit`: ``domains_`` (those used) and their ``discrepancies_``. Domains with
    fewer than two samples or classes are not used.
    """

    classifier: str = "1nn"
    _: KW_ONLY
    n_components: int | None = None
    normalise: str = "z"
    random_state: int = 0

    @property
    def dimensions_(self) -> list[int]:
        """The dimension of the subspaces of each domain's kernel, after :meth:`fit`."""
        return [dimension for one in self.classifiers_.values() for dimension in one.dimensions_]

    def fit(self, X: ArrayLike, y: ArrayLike, X_target: ArrayLike, domains: ArrayLike) -> Self:
        """Adapt from features (n×d) with labels (n) and discovered domains (n) to the unlabelled target (m×d)."""
        X, y = check_training(X, y)
        X_target = check_features(X_target, "target", X)
        domains = np.asarray(domains)
        if domains.shape != y.shape:
            raise ProgramError(f"domains: got shape {domains.shape}, expected one for each of {len(y)} samples")
        self.classes_ = np.unique(y)
        self._scale, _ = scales(X, X, self.normalise)
        self.domains_ = [int(d) for d in np.unique(domains) if len(np.unique(y[domains == d])) > 1]
        if not self.domains_:
            raise ProgramError("domains: none has samples of two classes, expected at least one")
        gamma = median_gamma(X, np.random.default_rng(self.random_state))
        self.discrepancies_ = {d: mmd(X[domains == d], X_target, gamma) for d in self.domains_}
        self.nearest_ = min(self.domains_, key=self.discrepancies_.__getitem__)
        self.classifiers_ = {
            d: GFKClassifier(self.classifier, n_components=self.n_components, normalise=self.normalise).fit(
                X[domains == d], y[domains == d], X_target
            )
            for d in tqdm(self.domains_, desc="adapting from domains", leave=False)
        }
        self._gate = None
        if len(self.domains_) > 1:
            rows = np.isin(domains, self.domains_)
            self._gate = untrained("logistic").fit(self._scale(X[rows]), domains[rows])
        return self

    def predict_proba(self, X: ArrayLike, variant: str = VARIANTS[0]) -> Floats:
        """Return p(c|x) of target features (m×d), m×classes."""
        X = check_features(X, "target", self._scale.mean[None])
        if variant == "matching" or self._gate is None:
            weights = np.tile(np.array(self.domains_) == self.nearest_, (len(X), 1))
        else:
            weights = self._gate.predict_proba(self._scale(X))
        found = np.zeros((len(X), len(self.classes_)))
        for d, weight in zip(self.domains_, weights.T, strict=True):
            if weight.any():
                classifier = self.classifiers_[d]
                columns = np.searchsorted(self.classes_, classifier.classes_)
                found[:, columns] += weight[:, None] * classifier.predict_proba(X)
        return found

    def predict(self, X: ArrayLike, variant: str = VARIANTS[0]) -> Integers:
        """Return classes of target features (m×d)."""
        return self.classes_[self.predict_proba(X, variant).argmax(axis=1)]


def _in_parts(classify: Callable[[Floats], np.ndarray], X: Floats, classes: int) -> np.ndarray:
    """Return what ``classify`` returns for features (m×d), in parts whose rows have at most MARGINS."""
    rows = max(1, 2 * MARGINS // max(1, classes * (classes - 1)))
    return np.concatenate([classify(X[first : first + rows]) for first in range(0, len(X), rows)])


@dataclass(frozen=True)
class Scale:
    """Subtracts a mean (d) from features (n×d), divides by a deviation (d), then by a length.

    The length makes the mean squared length of the rows about 1.
    """

    mean: Floats
    deviation: Floats
    length: float

    def __call__(self, X: Floats) -> Floats:
        return (X - self.mean) / self.deviation / self.length


def scales(X: Floats, X_target: Floats, normalise: str) -> tuple[Scale, Scale]:
    """Return the scales of a source (n×d) and a target (m×d), each by its own mean and variance ("z").

    With "none" both keep their means and variances, and are divided by the source's length.
    """
    features = X.shape[1]
    if normalise == "none":
        length = float(np.sqrt(np.square(X).sum(axis=1).mean()))
        as_stored = Scale(np.zeros(features), np.ones(features), length or 1.0)
        return as_stored, as_stored
    source, target = (StandardScaler().fit(rows) for rows in (X, X_target))
    return tuple(Scale(side.mean_, side.scale_, np.sqrt(features)) for side in (source, target))


_CLASSIFIERS = {
    "1nn": KNeighborsClassifier(1, algorithm="brute"),
    "svm": SVC(C=C, kernel=linear_kernel, break_ties=True),  # as a matrix product much faster than libsvm's own
    "logistic": LogisticRegression(C=C, max_iter=1000),  # by L-BFGS from 0: the same data give the same weights
}


def untrained(name: str) -> ClassifierMixin:
    """Return a new classifier: "1nn", a linear "svm" or a multinomial "logistic" regression."""
    return clone(_CLASSIFIERS[name])
