"""The latent domains of pictures, found by their style: how many, which pictures, how surely.

Pictures are divided in two, and the parts again, where random halves of them agree on the division. One domain varies
in many directions, too, but it has no gap, so that its halves disagree (prediction strength, Tibshirani and Walther
2005).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.data.style_clusters import (
    Numbers,
    Rows,
    by_turns,
    directions,
    effects,
    kmeans,
    log_probabilities,
    squared_distances,
)

AGREEMENT = {2: 0.58, 3: 0.8}
"""The mean adjusted Rand index, of two or of three clusters, from which on pictures are not of one domain. Three are
asked for because halves may disagree on which two of three domains belong together."""

DRAWS, HALF = 20, 300
"""Pairs of halves, and the pictures of each at most: with more, the least structure is found again."""

ENOUGH = 40
"""Pictures that are divided unless a number of domains is asked for. With fewer, halves say nothing."""

MOST = 8
"""Domains, where no number is asked for."""

AGAIN = 5
"""Halves in which the domains are looked for again."""

STABLE = 0.7
"""A domain that is less stable is none, where no number is asked for: halves of the pictures do not find it again."""


@dataclass(frozen=True)
class StyleDomains:
    """What was found for n pictures in k domains; the first domain is the largest."""

    domains: Numbers
    """The domain of each picture (n), from 0."""
    probability: NDArray[np.float64]
    """That of the picture's domain (n)."""
    margin: NDArray[np.float64]
    """How sure its least sure division is (n): the logarithm of the odds."""
    agreement: float
    """How far halves agree on the first division, or on one in three; -1 if there are too few pictures."""
    stability: list[float]
    """Of each domain (k), 0 to 1: see :func:`_stability`."""

    @property
    def k(self) -> int:
        return len(self.stability)


@dataclass(frozen=True)
class _Part:
    pictures: Numbers
    """Their places."""
    different: int
    """How many different ones there are."""
    agreements: dict[int, float]
    """By the number of clusters."""

    @property
    def is_several(self) -> bool:
        return any(self.agreements[k] >= least for k, least in AGREEMENT.items())


def find_style_domains(rows: Rows, classes: Numbers, k: int | None, seed: int) -> StyleDomains:
    """Find ``k`` latent domains of pictures, or as many as there are (None; MOST at most).

    ``rows`` (n×f) are statistics of the pictures, ``classes`` (n) numbers from 0, all 0 if they are not known. Raises
    ProgramError if there are fewer than ``k`` different pictures.
    """
    domains, logs, margin, agreement = _divide(rows, classes, k, seed)
    order = np.argsort(-np.bincount(domains), kind="stable")
    domains = np.argsort(order)[domains]
    stability = _stability(rows, classes, domains, len(order), seed)
    if k is None and min(stability) < STABLE:
        fewer = (find_style_domains(rows, classes, number, seed) for number in range(len(order) - 1, 0, -1))
        found = next(one for one in fewer if min(one.stability) >= STABLE)  # one domain is stable
        return replace(found, agreement=agreement)
    return StyleDomains(domains, np.exp(logs), margin, agreement, stability)


def _divide(
    rows: Rows, classes: Numbers, k: int | None, seed: int
) -> tuple[Numbers, NDArray[np.float64], NDArray[np.float64], float]:
    """The domain of each picture, the logarithm of its probability, its margin, and the first agreement."""
    logs, margin = np.zeros(len(rows)), np.full(len(rows), np.inf)
    parts = [_part(rows, classes, np.arange(len(rows)), seed)]
    if (different := parts[0].different) < (k or 1):
        raise ProgramError(f"{different} different images, expected at least {k}, one for each latent domain")
    first = max(parts[0].agreements.values())
    while len(parts) < (k or MOST):
        chosen = max(parts, key=lambda part: (part.different > 1, part.agreements[2]))
        if k is None:
            several = [part for part in parts if part.is_several]
            if not several:
                break
            chosen = max(several, key=lambda part: part.agreements[2])
        found = log_probabilities(rows[chosen.pictures], _numbered(classes[chosen.pictures]), 2, seed)
        is_second = found[:, 1] > found[:, 0]
        if is_second.all() or not is_second.any():  # EM may leave a cluster without pictures
            is_second = np.arange(len(is_second)) == np.argmax(found[:, 1] - found[:, 0])
        logs[chosen.pictures] += found.max(axis=1)
        margin[chosen.pictures] = np.minimum(margin[chosen.pictures], np.abs(found[:, 1] - found[:, 0]))
        parts = [part for part in parts if part is not chosen]
        parts += [_part(rows, classes, chosen.pictures[which], seed) for which in (~is_second, is_second)]
    domains = np.zeros(len(rows), np.int64)
    for number, part in enumerate(parts):
        domains[part.pictures] = number
    return domains, logs, margin, first


def _part(rows: Rows, classes: Numbers, pictures: Numbers, seed: int) -> _Part:
    of_part, its_classes = rows[pictures], _numbered(classes[pictures])
    different = len(np.unique(of_part, axis=0))
    enough = different >= ENOUGH
    agreements = {k: agreement(of_part, its_classes, k, seed) if enough else -1.0 for k in AGREEMENT}
    return _Part(pictures, different, agreements)


def agreement(rows: Rows, classes: Numbers, k: int, seed: int) -> float:
    """The mean adjusted Rand index of the clusters that two halves of the pictures give to all of them."""
    from sklearn.metrics import adjusted_rand_score  # a second to import

    flattened = directions(rows, classes).flattened
    a, _ = effects(flattened, classes, np.eye(k)[by_turns(flattened, classes, k, seed)])
    rest = flattened - a[classes]
    scores = []
    for draw in range(DRAWS):
        order = np.random.default_rng([seed, draw]).permutation(len(rest))
        number = min(HALF, len(rest) // 2)
        halves = rest[order[:number]], rest[order[number : 2 * number]]
        scores.append(adjusted_rand_score(*(_nearest(rest, half, k, [seed, draw]) for half in halves)))
    return float(np.mean(scores))


def _stability(rows: Rows, classes: Numbers, domains: Numbers, k: int, seed: int) -> list[float]:
    """For each domain the mean Jaccard index with the most similar one that is found in half of the pictures alone."""
    if k == 1:
        return [1.0]
    found = []
    for draw in tqdm(range(AGAIN), "stability", unit="half", delay=2, leave=False):
        half = np.random.default_rng([seed, draw]).permutation(len(rows))[: max(k, len(rows) // 2)]
        if len(np.unique(rows[half], axis=0)) >= k:
            again, *_ = _divide(rows[half], _numbered(classes[half]), k, seed)
            counts = np.eye(k)[domains[half]].T @ np.eye(k)[again]
            union = counts.sum(axis=1, keepdims=True) + counts.sum(axis=0) - counts
            found.append((counts / np.maximum(union, 1)).max(axis=1))
    return np.mean(found, axis=0).tolist() if found else [0.0] * k


def _nearest(rows: Rows, part: Rows, k: int, seed: list[int]) -> Numbers:
    """For all rows, the nearest of the centres that k-means finds in a part."""
    found = kmeans(part, k, seed, starts=4)
    centres = np.stack([part[found == d].mean(axis=0) if (found == d).any() else part[0] for d in range(k)])
    return squared_distances(rows, centres).argmin(axis=1)


def _numbered(classes: Numbers) -> Numbers:
    """The same classes, by numbers without gaps."""
    return np.unique(classes, return_inverse=True)[1].astype(np.int64)
