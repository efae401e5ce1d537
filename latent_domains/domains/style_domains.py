"""The latent domains of pictures, found by their style: how many, which pictures, how surely.

Pictures are divided in two, and the parts again, where random halves of them agree on the division (prediction
strength, Tibshirani and Walther 2005). One domain varies in many directions, too, and halves agree the more on its
longest one the more pictures there are. So they must agree more than halves of a cloud without gaps that varies as much
(a null reference, as in SigClust, Liu et al. 2008).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.domains.style_clusters import (
    PICTURES_A_DIRECTION,
    STARTS,
    Numbers,
    Rows,
    by_turns,
    directions,
    effects,
    kmeans,
    log_probabilities,
    squared_distances,
    standardised,
)

AGREEMENT = {2: 0.3, 3: 0.75}
"""Pictures are of several domains if halves agree so far on two or three clusters: 0 as in a cloud, 1 fully. Three are
tried, too, because halves may join different pairs of three domains."""

DRAWS, HALF = 20, 300
"""Pairs of halves, and the pictures of each at most: with more, the least structure is found again."""

CLOUDS, CLOUD_DRAWS = 5, 8
"""Clouds to compare with, and pairs of halves of each."""

ENOUGH = 40
"""Pictures that are divided unless a number of domains is asked for. With fewer, halves say too little."""

FEW = 2 * PICTURES_A_DIRECTION
"""If a number of domains is asked for, parts with so many pictures are ordered by their halves' agreement."""

MOST = 8
"""Domains, where no number is asked for; with more, plain clusters are not compared."""

AGAIN = 5
"""Halves in which the domains are looked for again."""

BY_CLASS = 0.5
"""A division that the classes explain so far (adjusted mutual information) is one of classes: it makes no domains,
where no number is asked for."""

HOLDS_MORE, HOLDS_OF = 0.1, 600
"""Plain clusters are taken for a given number of domains if they hold in halves by so much more, beyond those of
clouds; of so many pictures at most."""

MORE_STABLE = 0.02
"""The effects of known classes are left in if as many domains are more stable by so much then."""

STABLE = 0.7
"""A domain that is less stable is none, where no number is asked for: halves of the pictures do not find it again."""


@dataclass(frozen=True)
class Division:
    """A division of n pictures into k domains; the first domain is the largest."""

    k: int

    domains: Numbers
    """The domain of each picture (n), from 0."""
    probability: NDArray[np.float64]
    """That of the picture's domain (n)."""
    margin: NDArray[np.float64]
    """How sure its least sure division is (n): the logarithm of the odds."""


@dataclass(frozen=True, eq=False)
class Agreement:
    """How far halves of pictures agree on ``k`` clusters, as mean adjusted Rand indices.

    Most of the time goes here, so each number is computed when it is first asked for.
    """

    rows: Rows = field(repr=False)
    classes: Numbers = field(repr=False)
    k: int
    seed: int

    @cached_property
    def halves(self) -> float:
        """That of halves of the pictures."""
        return _halves_agree(self._rest, self.k, [self.seed], DRAWS)

    @cached_property
    def cloud(self) -> float:
        """That of halves of clouds: points from a normal distribution with the pictures' covariance."""
        clouds = enumerate(_clouds(self._rest, self.seed))
        return float(np.mean([_halves_agree(points, self.k, [self.seed, i], CLOUD_DRAWS) for i, points in clouds]))

    @property
    def beyond_cloud(self) -> float:
        """0 as in a cloud, 1 if halves agree fully."""
        return _beyond(self.halves, self.cloud)

    @cached_property
    def _rest(self) -> Rows:
        """The pictures in their directions, less the effects of their classes beside ``k`` domains."""
        flattened = directions(self.rows, self.classes).flattened
        a, _ = effects(flattened, self.classes, np.eye(self.k)[by_turns(flattened, self.classes, self.k, self.seed)])
        return flattened - a[self.classes]


@dataclass(frozen=True)
class StyleDomains(Division):
    """The latent domains of n pictures."""

    agreement: Agreement | None
    """On two or three clusters, whichever speaks more for several domains; None if the pictures are too few, or a
    number of domains was asked for."""
    stability: list[float]
    """Of each domain (k), 0 to 1: see :func:`_stability`."""
    unstable: bool
    """Whether the pictures are one domain because none of the divisions that halves agree on is stable."""
    by_class: bool
    """Whether the pictures are one domain because the division that halves agree on is one of classes."""
    left_in: bool
    """Whether the effects of the classes were left in, because the domains are more stable so."""
    by_kmeans: bool
    """Whether a given number of domains are plain clusters of k-means, because these hold better in halves."""


@dataclass(frozen=True, eq=False)
class _Part:
    rows: Rows
    classes: Numbers
    """Those whose effects are taken away."""
    known: Numbers
    """Those that explain a division, all 0 if they are not known."""
    pictures: Numbers
    """Their places."""
    seed: int

    @cached_property
    def different(self) -> int:
        """How many different pictures there are."""
        return len(np.unique(self.rows, axis=0))

    @cached_property
    def agreements(self) -> dict[int, Agreement]:
        """By the number of clusters."""
        return {k: Agreement(self.rows, self.classes, k, self.seed) for k in AGREEMENT}

    @cached_property
    def priority(self) -> tuple[float, int]:
        """What orders parts: the one whose halves agree most is divided first; among small ones, the largest.

        By halves alone: a division into a given number needs no clouds.
        """
        return self.agreements[2].halves if self.different >= FEW else -1.0, self.different

    def alone(self, which: Numbers) -> "_Part":
        """Some of the pictures, as if there were no others."""
        classes, places = _numbered(self.classes[which]), np.arange(len(which))
        return _Part(self.rows[which], classes, self.known[which], places, self.seed)

    def part(self, which: NDArray[np.bool_]) -> "_Part":
        classes, known = _numbered(self.classes[which]), self.known[which]
        return _Part(self.rows[which], classes, known, self.pictures[which], self.seed)

    @cached_property
    def halves_agree(self) -> bool:
        enough = self.different >= ENOUGH
        return enough and any(found.beyond_cloud >= AGREEMENT[k] for k, found in self.agreements.items())

    @cached_property
    def by_class(self) -> bool:
        """Whether halves agree on a division, but it is one of classes."""
        return self.halves_agree and explained(self.known, self.second) > BY_CLASS

    @property
    def is_several(self) -> bool:
        return self.halves_agree and not self.by_class

    @cached_property
    def logs(self) -> Rows:
        """The logarithm of the probability of each of two domains for each picture (n×2)."""
        return log_probabilities(self.rows, self.classes, 2, self.seed)

    @cached_property
    def second(self) -> NDArray[np.bool_]:
        """Whether each picture is in the second of the two domains (n); neither is empty."""
        odds = self.logs[:, 1] - self.logs[:, 0]
        is_second = odds > 0
        if is_second.all() or not is_second.any():  # EM may leave a cluster without pictures
            is_second = np.arange(len(odds)) == np.argmax(odds)
        return is_second

    @property
    def agreement(self) -> Agreement | None:
        """The one that speaks most for several domains; None if there are too few pictures."""
        if self.different < ENOUGH:
            return None
        return max(self.agreements.values(), key=lambda found: found.beyond_cloud / AGREEMENT[found.k])


def find_style_domains(rows: Rows, classes: Numbers, k: int | None, seed: int) -> StyleDomains:
    """Find ``k`` latent domains of pictures, or as many as there are (None; MOST at most).

    ``rows`` (n×f) are statistics of the pictures, ``classes`` (n) numbers from 0, all 0 if they are not known. Raises
    ProgramError if there are fewer than ``k`` different pictures.

    A number is looked for twice: with the effects of the classes taken away, and left in. The latter counts if the
    former is a division of classes, or less stable where both are of as many domains.
    """
    whole = _whole(rows, classes, seed)
    found = _find(whole, k)
    if k is None and len(np.unique(classes)) > 1 and (found.k > 1 or found.by_class):
        other = _whole(rows, classes, seed, left_in=True)
        left_in = _find(other, None)
        k = min(found.k, left_in.k)
        if left_in.k > 1 and (k == 1 or _overall(other, left_in, k) > _overall(whole, found, k) + MORE_STABLE):
            return left_in
    return found


def _overall(whole: _Part, counted: StyleDomains, k: int) -> float:
    """Return the stability of ``k`` domains, as a mean of the pictures."""
    if counted.k == k:
        return float(np.array(counted.stability)[counted.domains].mean())
    found = _divide(whole, k)
    return float(np.array(_stability(whole, found, _divide))[found.domains].mean())


def _find(whole: _Part, k: int | None) -> StyleDomains:
    way = _divide if k is None else _way_to(whole, k)
    found = way(whole, k)
    stability = _stability(whole, found, way)
    if k is None and min(stability) < STABLE:
        for number in range(found.k - 1, 0, -1):  # one domain is stable
            found = _divide(whole, number)
            if min(stability := _stability(whole, found, _divide)) >= STABLE:
                break
    return StyleDomains(
        **vars(found),
        agreement=whole.agreement if k is None else None,
        stability=stability,
        unstable=k is None and found.k == 1 and whole.is_several,
        by_class=k is None and whole.by_class,
        left_in=not np.array_equal(whole.classes, whole.known),
        by_kmeans=way is _clusters,
    )


def divide(rows: Rows, classes: Numbers, k: int, seed: int) -> Division:
    """Find the same ``k`` domains without a look at how stable they are."""
    whole = _whole(rows, classes, seed)
    return _way_to(whole, k)(whole, k)


def _way_to(whole: _Part, k: int) -> "_Way":
    """Choose how to divide pictures into ``k`` domains: in two, again and again, or by k-means if that holds more."""
    compared = 1 < k <= MOST  # with more it would take minutes
    return _clusters if compared and _holds(whole, k, _clusters) > _holds(whole, k, _divide) + HOLDS_MORE else _divide


def _whole(rows: Rows, classes: Numbers, seed: int, *, left_in: bool = False) -> _Part:
    known = _numbered(classes)
    return _Part(rows, np.zeros_like(known) if left_in else known, known, np.arange(len(rows)), seed)


def _divide(whole: _Part, k: int | None) -> Division:
    logs, margin = np.zeros(len(whole.rows)), np.full(len(whole.rows), np.inf)
    if whole.different < (k or 1):
        raise ProgramError(f"{whole.different} different images, expected at least {k}, one for each latent domain")
    parts = [whole]
    while len(parts) < (k or MOST):
        candidates = [part for part in parts if (part.different > 1 if k else part.is_several)]
        if not candidates:
            break
        only, *others = candidates
        chosen = max(candidates, key=lambda part: part.priority) if others else only
        found, is_second = chosen.logs, chosen.second
        logs[chosen.pictures] += found.max(axis=1)
        margin[chosen.pictures] = np.minimum(margin[chosen.pictures], np.abs(found[:, 1] - found[:, 0]))
        parts = [part for part in parts if part is not chosen]
        parts += [chosen.part(~is_second), chosen.part(is_second)]
    domains = np.zeros(len(whole.rows), np.int64)
    for number, part in enumerate(sorted(parts, key=lambda part: -len(part.pictures))):
        domains[part.pictures] = number
    return Division(len(parts), domains, np.exp(logs), margin)


def explained(classes: Numbers, division: NDArray[np.generic]) -> float:
    """Return how far classes explain a division: 0 as by chance, 1 fully
    (adjusted mutual information, Vinh et al. 2010).
    """
    from sklearn.metrics import adjusted_mutual_info_score  # a second to import

    if len(np.unique(classes)) == 1:
        return 0.0
    return float(adjusted_mutual_info_score(classes, division, average_method="min"))


def _clusters(whole: _Part, k: int) -> Division:
    """K-means of the standardised statistics less the means of the classes; all clusters are spheres of one size."""
    rows = standardised(whole.rows)
    rows = rows - _class_means(rows, whole.classes)
    found = np.eye(k)[kmeans(rows, k, [whole.seed], STARTS)]
    found = found[:, np.argsort(-found.sum(axis=0), kind="stable")]
    distances = squared_distances(rows, found.T @ rows / np.maximum(found.sum(axis=0), 1)[:, np.newaxis])
    logs = -distances * rows.shape[1] / max(2 * distances.min(axis=1).mean(), 1e-12)
    logs -= logs.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    last = np.sort(logs, axis=1)
    return Division(k, found.argmax(axis=1), np.exp(last[:, -1]), last[:, -1] - last[:, -2])


_Way = Callable[[_Part, int], Division]


def _holds(whole: _Part, k: int, way: _Way) -> float:
    """Return how far domains are found again in halves of the pictures: 0 as those of clouds, 1 fully."""
    few = whole.alone(np.random.default_rng([whole.seed, k]).permutation(len(whole.rows))[:HOLDS_OF])
    if few.different < max(ENOUGH, 2 * k):
        return 0.0
    rows = standardised(few.rows)
    means = _class_means(rows, few.classes)
    clouds = _clouds(rows - means, whole.seed)
    cloud = float(np.mean([_found_again(replace(few, rows=points + means), k, way, 2) for points in clouds]))
    return _beyond(_found_again(few, k, way, AGAIN), cloud)


def _found_again(whole: _Part, k: int, way: _Way, draws: int) -> float:
    """Return the mean adjusted Rand index with what is found in halves of the pictures."""
    from sklearn.metrics import adjusted_rand_score  # a second to import

    found = way(whole, k).domains
    halves = _in_halves(whole, k, way, range(draws))
    scores = [adjusted_rand_score(found[half], again) for half, again in halves]
    return float(np.mean(scores)) if scores else 0.0


def _in_halves(whole: _Part, k: int, way: _Way, draws: Iterable[int]) -> Iterator[tuple[Numbers, Numbers]]:
    """Random halves of the pictures, by their places, and the domain of each picture as found in the half alone.

    A half with fewer than ``k`` different pictures is left out.
    """
    number = len(whole.rows)
    for draw in draws:
        half = np.random.default_rng([whole.seed, draw]).permutation(number)[: max(k, number // 2)]
        if (part := whole.alone(half)).different >= k:
            yield half, way(part, k).domains


def _class_means(rows: Rows, classes: Numbers) -> Rows:
    """For each row the mean of its class."""
    return effects(rows, classes, np.ones((len(rows), 1)))[0][classes]


def _clouds(rows: Rows, seed: int) -> Iterator[Rows]:
    """Yield CLOUDS clouds of as many points, from a normal distribution with the rows' covariance."""
    variances, vectors = np.linalg.eigh(np.cov(rows.T).reshape(rows.shape[1], -1))
    shape = vectors * np.sqrt(np.maximum(variances, 0))
    for number in range(CLOUDS):
        yield np.random.default_rng([seed, number]).standard_normal(rows.shape) @ shape.T


def _beyond(found: float, cloud: float) -> float:
    """Return how far an agreement is beyond that of clouds: 0 as theirs, 1 if full."""
    return (found - cloud) / (1 - cloud) if cloud < 1 else 0.0


def _halves_agree(rows: Rows, k: int, seed: list[int], draws: int) -> float:
    """Return the mean adjusted Rand index of the clusters that two halves of the rows give to all of them."""
    from sklearn.metrics import adjusted_rand_score  # a second to import

    scores = []
    for draw in range(draws):
        order = np.random.default_rng([*seed, draw]).permutation(len(rows))
        number = min(HALF, len(rows) // 2)
        halves = rows[order[:number]], rows[order[number : 2 * number]]
        scores.append(adjusted_rand_score(*(_nearest(rows, half, k, [*seed, draw]) for half in halves)))
    return float(np.mean(scores))


def _stability(whole: _Part, division: Division, way: _Way) -> list[float]:
    """For each domain the mean Jaccard index with the most similar one that is found in half of the pictures alone."""
    if (k := division.k) == 1:
        return [1.0]
    found = []
    draws = tqdm(range(AGAIN), "stability", unit="half", delay=2, leave=False)
    for half, again in _in_halves(whole, k, way, draws):
        counts = np.eye(k)[division.domains[half]].T @ np.eye(k)[again]
        union = counts.sum(axis=1, keepdims=True) + counts.sum(axis=0) - counts
        found.append((counts / np.maximum(union, 1)).max(axis=1))
    return np.mean(found, axis=0).tolist() if found else [0.0] * k


def _nearest(rows: Rows, part: Rows, k: int, seed: list[int]) -> Numbers:
    """For all rows, the nearest of the centres that k-means finds in a part."""
    found = kmeans(part, k, seed, starts=4)
    centres = np.stack([part[found == d].mean(axis=0) if (found == d).any() else part[0] for d in range(k)])
    return squared_distances(rows, centres).argmin(axis=1)


def _numbered(classes: Numbers) -> Numbers:
    """Return the same classes, by numbers without gaps."""
    return np.unique(classes, return_inverse=True)[1].astype(np.int64)
