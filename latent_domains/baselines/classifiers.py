"""Classifiers of an unlabelled target: without adaptation, by the geodesic flow kernel, and by latent domains.

All of them are linear support vector machines, one against one, or logistic regressions, on features that are
standardised first: where they adapt, those of a domain by its own mean and variance, as the authors of the kernel
prepare theirs.
"""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import linear_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tqdm import tqdm

from latent_domains.baselines.checks import check_features, check_training
from latent_domains.baselines.gfk import GeodesicFlowKernel
from latent_domains.baselines.kernels import median_gamma, mmd
from latent_domains.common.program import ProgramError
from latent_domains.experiment.baselines import VARIANTS

C = 10.0
"""Of the SVMs and the logistic regression, for rows of a mean squared length of 1."""


class SourceClassifier(ClassifierMixin, BaseEstimator):
    """The source's classifier as it is: a support vector machine or, if ``logistic``, a logistic regression.

    With ``own_z`` the target is standardised by its own mean and variance, which is all the adaptation that there is;
    without it by the source's.
    """

    def __init__(self, *, logistic: bool = False, own_z: bool = False) -> None:
        self.logistic = logistic
        self.own_z = own_z

    def fit(self, X: ArrayLike, y: ArrayLike, X_target: ArrayLike | None = None) -> Self:
        """Train on features (n×d) with labels (n); the target (m×d) is looked at for ``own_z`` alone."""
        X, y = check_training(X, y)
        scaler = StandardScaler().fit(X)
        self._scaler = StandardScaler().fit(check_features(X_target, "target", X)) if self.own_z else scaler
        self._classifier = (logistic() if self.logistic else svm()).fit(unit(scaler, X), y)
        self.classes_ = self._classifier.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Classes of target features (m×d)."""
        return self._classifier.predict(unit(self._scaler, check_features(X, "target", self._scaler.mean_[None])))


class GFKClassifier(ClassifierMixin, BaseEstimator):
    """The geodesic flow kernel from the whole source to the target, and an SVM in it.

    ``n_components`` is the dimension of the subspaces (None: chosen by the subspace disagreement measure).
    """

    def __init__(self, *, n_components: int | None = None, random_state: int = 0) -> None:
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, X_target: ArrayLike) -> Self:
        """Adapt from features (n×d) with labels (n) to the unlabelled target (m×d)."""
        X, y = check_training(X, y)
        X_target = check_features(X_target, "target", X)
        self._scaler = StandardScaler().fit(X_target)
        source = unit(StandardScaler().fit(X), X)
        self.kernel_ = GeodesicFlowKernel(self.n_components, random_state=self.random_state)
        self.kernel_.fit(source, unit(self._scaler, X_target))
        self._svm = svm().fit(self.kernel_.transform(source), y)
        self.classes_ = self._svm.classes_
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Classes of target features (m×d)."""
        return self._svm.predict(self._embedded(X))

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """p(c|x) of target features (m×d), m×classes: the softmax of the votes of one against one, ties by margins."""
        margins = self._svm.decision_function(self._embedded(X))
        return softmax(margins if margins.ndim == 2 else np.stack([-margins, margins], axis=1), axis=1)

    def _embedded(self, X: ArrayLike) -> NDArray[np.float64]:
        return self.kernel_.transform(unit(self._scaler, check_features(X, "target", self._scaler.mean_[None])))


class LatentDomainClassifier(ClassifierMixin, BaseEstimator):
    """A :class:`GFKClassifier` from each discovered domain to the target, and their combination.

    ``variant`` "ensemble": p(c|x) = Σ_d p(d|x) p_d(c|x), where p(d|x) is a logistic regression of the domains, trained
    on the source (Hoffman et al. 2012). "matching": the classifier of the domain that has the smallest
    maximum mean discrepancy to the target. After :meth:`fit`: ``domains_`` (those used) and, of matching,
    ``discrepancies_``. A domain with fewer than two samples or classes teaches nothing and is left out.
    """

    def __init__(
        self,
        *,
        variant: str = "ensemble",
        n_components: int | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.variant = variant
        self.n_components = n_components
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike, X_target: ArrayLike, domains: ArrayLike) -> Self:
        """Adapt from features (n×d) with labels (n) and discovered domains (n) to the unlabelled target (m×d)."""
        if self.variant not in VARIANTS:
            raise ProgramError(f"variant: got {self.variant!r}, expected one of {', '.join(VARIANTS)}")
        X, y = check_training(X, y)
        X_target = check_features(X_target, "target", X)
        domains = np.asarray(domains)
        if domains.shape != y.shape:
            raise ProgramError(f"domains: got shape {domains.shape}, expected one for each of {len(y)} samples")
        self.classes_ = np.unique(y)
        self._scaler = StandardScaler().fit(X)
        useful = [int(d) for d in np.unique(domains) if len(np.unique(y[domains == d])) > 1]
        if not useful:
            raise ProgramError("domains: none has samples of two classes, expected at least one")
        if self.variant == "matching":
            gamma = median_gamma(X, np.random.default_rng(self.random_state))
            self.discrepancies_ = {d: mmd(X[domains == d], X_target, gamma) for d in useful}
            useful = [min(useful, key=self.discrepancies_.__getitem__)]
        self.domains_ = useful
        self._classifiers = {
            d: GFKClassifier(n_components=self.n_components, random_state=self.random_state).fit(
                X[domains == d], y[domains == d], X_target
            )
            for d in tqdm(useful, desc="adapting from domains", disable=not self.verbose, leave=False)
        }
        self._gate = None
        if len(useful) > 1:
            rows = np.isin(domains, useful)
            self._gate = logistic().fit(unit(self._scaler, X[rows]), domains[rows])
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """p(c|x) of target features (m×d), m×classes."""
        X = check_features(X, "target", self._scaler.mean_[None])
        weights = np.ones((len(X), 1)) if self._gate is None else self._gate.predict_proba(unit(self._scaler, X))
        found = np.zeros((len(X), len(self.classes_)))
        for d, weight in zip(self.domains_, weights.T, strict=True):
            classifier = self._classifiers[d]
            columns = np.searchsorted(self.classes_, classifier.classes_)
            found[:, columns] += weight[:, None] * classifier.predict_proba(X)
        return found

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Classes of target features (m×d)."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def unit(scaler: StandardScaler, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standardised features (n×d), scaled so that the mean square of a row of the scaler's own samples is 1."""
    return scaler.transform(X) / np.sqrt(X.shape[1])


def svm() -> SVC:
    """An untrained linear SVM. The kernel as a matrix product is much faster than libsvm's own."""
    return SVC(C=C, kernel=linear_kernel, break_ties=True)


def logistic() -> LogisticRegression:
    """An untrained multinomial logistic regression, by L-BFGS from 0: the same data give the same weights."""
    return LogisticRegression(C=C, max_iter=1000)
