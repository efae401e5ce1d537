"""From folders of pictures to their latent domains: a table of all pictures, and a page that shows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.files import write_csv
from latent_domains.common.wording import count_of
from latent_domains.data.domain_images import TaskImages
from latent_domains.data.reading import Reading
from latent_domains.domains.statistics import Statistics
from latent_domains.domains.style import find
from latent_domains.domains.style_domains import Agreement, StyleDomains, divides_with_classes
from latent_domains.runs.domain_usage import domain_usage
from latent_domains.runs.record import DomainUsage


@dataclass(frozen=True)
class Discovery:
    """The latent domains of the pictures of one folder or several; ``asked`` is their number where it was given."""

    images: TaskImages
    reading: Reading
    statistics: Statistics
    found: StyleDomains
    asked: int | None
    seed: int

    @cached_property
    def against_folders(self) -> DomainUsage:
        """The latent domains of each folder's pictures, with purity and NMI if the folders are several.

        A folder of which no picture could be read is not among them.
        """
        one_hot, names = np.eye(self.found.k, dtype=np.float32)[self.found.domains], list(self.images.counts)
        there = np.unique(self.statistics.folders)
        return domain_usage({names[number]: one_hot[self.statistics.folders == number] for number in there})

    @property
    def counts(self) -> NDArray[np.int64]:
        """The pictures of each latent domain (k)."""
        return np.bincount(self.found.domains, minlength=self.found.k)

    @property
    def classes_in_domains(self) -> NDArray[np.int64]:
        """The pictures of each class in each latent domain (C×k)."""
        counts = np.zeros((len(self.images.classes), self.found.k), np.int64)
        np.add.at(counts, (self.statistics.classes, self.found.domains), 1)
        return counts

    @property
    def too_few(self) -> str:
        """What is too few, where no division is looked for."""
        number, different = len(self.statistics.rows), len(np.unique(self.statistics.rows, axis=0))
        return "too few pictures" if different == number else f"too few that differ, {different} of {number},"

    @cached_property
    def notes(self) -> list[str]:
        """Why classes may hide domains, a line each."""
        of_class = np.unique(self.statistics.classes, return_counts=True)[1]
        number, lone = len(self.statistics.files), int((of_class == 1).sum())
        if not self.images.classes or len(of_class) == 1:
            return []
        if 2 * lone >= number:
            return [
                f"{lone} of {number} pictures are the only one of their class: the class's effect is then the picture "
                "itself, and taking it away leaves nothing to divide by (--unlabelled does not take it away)"
            ]
        if self.asked is None and self.found.k == 1 and divides_with_classes(self.statistics.rows, self.seed):
            return [
                "the classes' effects are taken away, and one domain is left; with them, halves agree on a division. "
                "Where each class is of one kind, class and kind cannot be told apart (--unlabelled divides by both)"
            ]
        return []

    def summary(self) -> list[str]:
        """What was found, a line each."""
        found, number = self.found, len(self.statistics.files)
        domains = "one domain" if found.k == 1 else f"{found.k} latent domains"
        how = "as asked" if self.asked else f"{self.too_few} to look for more"
        if found.agreement:
            how = halves_agree(found.agreement)
        how += ", but no division is found again in half of the pictures" if found.unstable else ""
        lines = [f"{count_of(number, 'picture')}: {domains} ({how})"]
        divided = zip(self.counts, found.stability, strict=True) if found.k > 1 else ()
        for domain, (count, stability) in enumerate(divided, 1):
            lines.append(f"  domain {domain}: {count_of(int(count), 'picture')}, stability {stability:.2f}")
        usage = self.against_folders
        if usage.has_true_domains:
            lines.append(f"against the {len(usage.sources)} folders: purity {usage.purity:.2f}, NMI {usage.nmi:.2f}")
        return lines


def halves_agree(found: Agreement) -> str:
    """How far halves of all pictures agree, in words."""
    return f"halves agree on {found.k} clusters to {found.halves:.2f}, those of one cloud to {found.cloud:.2f}"


def discover(images: TaskImages, reading: Reading, statistics: Statistics, k: int | None, seed: int) -> Discovery:
    """Find ``k`` latent domains, or as many as there are (None). Raises ProgramError if the pictures are too few."""
    classes = statistics.classes if images.classes else np.zeros(len(statistics.files), np.int64)
    return Discovery(images, reading, statistics, find(statistics.rows, classes, k, seed), k, seed)


def write_table(discovery: Discovery, out: Path) -> None:
    """Write each picture, the number of its latent domain (from 1), and the probability of that domain."""
    found = discovery.found
    pictures = zip(discovery.statistics.files, found.domains, found.probability, strict=True)
    rows = ([picture, domain + 1, f"{sure:.6f}"] for picture, domain, sure in pictures)
    write_csv(out, ["picture", "domain", "probability"], rows)


def chosen(discovery: Discovery, domain: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The most and the least certain pictures of a domain, at most ``count`` each; no picture is among both.

    The most certain ones are of different classes, as far as there are so many.
    """
    margin, classes = discovery.found.margin, discovery.statistics.classes
    members = np.flatnonzero(discovery.found.domains == domain)
    members = members[np.argsort(-margin[members], kind="stable")]
    rank = _rank_in_class(classes[members])
    most = members[np.lexsort((np.arange(len(members)), rank))][: min(count, -(-len(members) // 2))]
    rest = members[~np.isin(members, most)]
    return most, rest[::-1][:count]


def _rank_in_class(classes: Sequence[int]) -> NDArray[np.int64]:
    seen: dict[int, int] = {}
    ranks = []
    for label in classes:
        ranks.append(seen.get(label, 0))
        seen[label] = ranks[-1] + 1
    return np.array(ranks, np.int64)
