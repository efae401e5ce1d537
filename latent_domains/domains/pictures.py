"""The source pictures of an experiment, as all ways to give them domains see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.data.join import read_domains, read_known_domains
from latent_domains.data.lmdb_folder import DOMAINS
from latent_domains.data.lmdb_io import count_filled, read_labels, record_names
from latent_domains.experiment.batches import made_by
from latent_domains.experiment.experiment import Experiment

Record = tuple[str, str]
"""A record's original LMDB, and its name there."""

W = NDArray[np.float32]
"""Probabilities of domains (n×k), a row for each picture; zeros where nothing is known."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """The source pictures of an experiment, in the order of the LMDBs in ``data`` that its training reads."""

    experiment: Experiment
    data: Path

    @cached_property
    def lmdbs(self) -> list[Path]:
        """An LMDB for each part of the sources."""
        return [self.data / self.experiment.data.train_lmdb(part) for part in self.experiment.task.source_inputs]

    @cached_property
    def counts(self) -> list[int]:
        """The number of pictures of each LMDB."""
        parts = zip(self.experiment.task.source_inputs, self.lmdbs, strict=True)
        return [count_filled(lmdb, made_by(self.experiment, self.data, part)) for part, lmdb in parts]

    @cached_property
    def classes(self) -> NDArray[np.int64]:
        """The class of each picture (n)."""
        return np.concatenate([*map(read_labels, self.lmdbs)])

    def records(self, reason: str) -> list[Record]:
        """Return the original record of each picture (n).

        Refuses, with the ``reason``, a mixture that does not name the LMDBs of its records.
        """
        found: list[Record] = []
        for lmdb, count in zip(self.lmdbs, self.counts, strict=True):
            domains = read_known_domains(lmdb, reason) if self.experiment.task.undivided else [lmdb.name] * count
            found += zip(domains, record_names(lmdb), strict=True)
        return found

    @cached_property
    def sources(self) -> NDArray[np.int64] | None:
        """The number of each picture's source (n); None if a mixture does not say it."""
        if not self.experiment.task.undivided:
            return np.repeat(np.arange(len(self.counts)), self.counts)
        names = read_domains(self.lmdbs[0])
        numbers = {name: number for number, name in enumerate(map(self.lmdb_name, self.experiment.sources))}
        if names is None or set(names) != set(numbers):
            return None
        return np.array([numbers[name] for name in names], np.int64)

    @property
    def known_sources(self) -> NDArray[np.int64]:
        """The same. Refuses a mixture that does not say it."""
        if (found := self.sources) is None:
            (lmdb,), sources = self.lmdbs, ", ".join(self.experiment.sources)
            there = ", ".join(sorted(set(read_known_domains(lmdb, "multi_source needs it"))))
            raise ProgramError(f"{lmdb / DOMAINS}: domains {there}, expected those of the sources {sources}")
        return found

    def lmdb_name(self, domain: str) -> str:
        """Return the name of a domain's LMDB."""
        return Path(self.experiment.data.train_lmdb(domain)).name

    def by_part(self, rows: NDArray) -> dict[str, NDArray]:
        """Split rows of all pictures (n×…) by part of the sources."""
        parts = np.split(rows, np.cumsum(self.counts)[:-1])
        return dict(zip(self.experiment.task.source_inputs, parts, strict=True))


def one_hot(domains: NDArray[np.int64], k: int) -> W:
    """Return w of the number of each picture's domain (n), -1 if it is not known."""
    return np.eye(k + 1, k, dtype=np.float32)[domains]


def numbers(w: W) -> NDArray[np.int64]:
    """Return the most probable domain of each picture (n), -1 where nothing is known."""
    return np.where(w.any(axis=1), w.argmax(axis=1), -1)


def known_of(n: int, share: float) -> int:
    """Return how many of ``n`` samples are known: ``share`` of them, a half rounded up."""
    return int(np.floor(share * n + 0.5))


def choose_known(counts: Sequence[int], share: float, seed: int) -> list[NDArray[np.bool_]]:
    """Choose which samples keep their domain label: exactly ``share`` of each domain, drawn by ``seed``.

    ``counts`` holds the number of records of each domain; the result one mask per domain (true: known). In a domain of
    n records floor(share·n + 1/2) are known. A larger share with the same seed keeps everyone a smaller one kept,
    and a domain's choice does not depend on the other domains' sizes.
    """
    masks = []
    for domain, n in enumerate(counts):
        mask = np.zeros(n, bool)
        mask[np.random.default_rng([seed, domain]).permutation(n)[: known_of(n, share)]] = True
        masks.append(mask)
    return masks


def random_domains(counts: Sequence[int], k: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw one of k domains for each of the n records of each LMDB, equal numbers (±1) of each in every LMDB."""
    return [np.random.default_rng([seed, i]).permutation(n) % k for i, n in enumerate(counts)]
