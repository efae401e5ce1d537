"""Which records of LMDBs a training reads so that all classes have equal shares in each domain."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def equal_classes(labels: Sequence[Numbers], domains: Sequence[Numbers]) -> list[Numbers]:
    """Numbers of the records that are read of each LMDB, some of them several times, none of them never.

    ``labels`` and ``domains`` are the class and the domain of each record of each LMDB (n each). A batch has as many
    rows of each LMDB. A domain's classes have equal shares, whichever LMDBs it lies in, and its own share stays. The
    largest class of an LMDB is read once.
    """
    classes, in_domains = 1 + max(map(np.max, labels)), 1 + max(map(np.max, domains))
    pairs = [d * classes + c for c, d in zip(labels, domains, strict=True)]
    shares = sum(np.bincount(one, minlength=classes * in_domains) / len(one) for one in pairs)
    shares = np.reshape(shares, (in_domains, classes))
    wanted = shares.sum(axis=1, keepdims=True) / np.maximum((shares > 0).sum(axis=1, keepdims=True), 1)
    factors = (wanted / np.where(shares > 0, shares, np.inf)).ravel()
    return [_repeated(one, factors) for one in pairs]


def _repeated(pairs: Numbers, factors: NDArray[np.float64]) -> Numbers:
    """Records as often as the factors of their pairs of domain and class say, the most frequent once."""
    there, counts = np.unique(pairs, return_counts=True)
    times = factors[there] / factors[there].min()
    chosen = [
        np.resize(np.flatnonzero(pairs == pair), round(n * t)) for pair, n, t in zip(there, counts, times, strict=True)
    ]
    return np.concatenate(chosen).astype(np.int64)


def write_numbers(file: Path, numbers: Numbers, seed: int) -> None:
    """Write numbers of records, in an order that ``seed`` draws, as a Data layer reads them."""
    file.parent.mkdir(exist_ok=True)
    order = np.random.default_rng(seed).permutation(len(numbers))
    file.write_text("".join(f"{number}\n" for number in numbers[order]))
