"""From folders of pictures to their latent domains: a table of all pictures, and a page that shows them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.files import write_csv
from latent_domains.common.wording import count_of
from latent_domains.data.domain_images import TaskImages
from latent_domains.data.preprocessing import Reading
from latent_domains.domains.statistics import Statistics
from latent_domains.domains.style import find
from latent_domains.domains.style_domains import ENOUGH, STABLE, Agreement, StyleDomains, explained, find_style_domains
from latent_domains.report.chart import latent_name
from latent_domains.runs.record import DomainUsage, domain_usage

SAMPLE = 100
"""Pictures of each domain whose files are inspected."""

APART = 0.9
"""Domains differ in a number if a random picture of the one has a larger number than one of the other this often."""

GRAY = 2
"""Channels that differ by at most this much, on average, are those of a gray picture."""

SHARE_APART = 0.5
"""Domains differ in their formats, or in gray, if the shares differ by at least this much."""


@dataclass(frozen=True)
class FileFacts:
    """Facts of some pictures of one domain; an array has one number for each picture."""

    side: NDArray[np.float64]
    """The square root of the number of pixels."""
    kilobytes: NDArray[np.float64]
    gray: NDArray[np.float64]
    """1 for a gray picture, 0 for one in colours."""
    sharpness: NDArray[np.float64]
    """The deviation of the Laplacian: how much neighbouring pixels differ."""
    formats: Counter[str]

    @property
    def cells(self) -> list[str]:
        """A cell for each of HEADER."""
        if not len(self.side):
            return ["–"] * len(HEADER)
        median = [f"{np.median(values):.0f}" for values in (self.side, self.kilobytes, self.sharpness)]
        formats = ", ".join(f"{name} {100 * n / len(self.side):.0f} %" for name, n in self.formats.most_common(3))
        return [f"{median[0]}²", median[1], formats, f"{100 * self.gray.mean():.0f}", median[2]]


HEADER = ["#pixels", "#kB", "format", "#gray (%)", "#sharpness"]
"""Headings of medians, and shares."""


def file_facts(files: Sequence[Path]) -> FileFacts:
    """Return facts of up to SAMPLE of the files, drawn evenly; a missing or unreadable file is skipped."""
    numbers, formats = [], Counter[str]()
    for place in np.unique(np.linspace(0, len(files) - 1, SAMPLE).astype(int)) if files else ():
        data = files[place].read_bytes() if files[place].is_file() else b""
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
        if image is None:
            continue
        spread = float((image.max(axis=2) - image.min(axis=2)).mean())
        sharpness = float(cv2.Laplacian(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), cv2.CV_64F).std())
        numbers.append([np.sqrt(image.shape[0] * image.shape[1]), len(data) / 1000, spread <= GRAY, sharpness])
        formats[files[place].suffix.lower().lstrip(".").replace("jpeg", "jpg") or "none"] += 1
    side, kilobytes, gray, sharpness = np.array(numbers, np.float64).reshape(-1, 4).T
    return FileFacts(side, kilobytes, gray, sharpness, formats)


def what_differs(facts: Sequence[FileFacts], names: Sequence[str]) -> list[str]:
    """Describe the differences between domains in facts of their files. A domain without pictures is skipped."""
    there = [(one, name) for one, name in zip(facts, names, strict=True) if len(one.side)]
    if len(there) < 2:
        return []
    facts, names = zip(*there, strict=True)
    said = []
    for title, unit, values in (
        ("size", "² pixels", [one.side for one in facts]),
        ("bytes", " kB", [one.kilobytes for one in facts]),
        ("sharpness", "", [one.sharpness for one in facts]),
    ):
        medians = [float(np.median(of)) for of in values]
        low, high = int(np.argmin(medians)), int(np.argmax(medians))
        if _above(values[high], values[low]) >= APART:
            said.append(
                f"{title} (median {medians[low]:.0f}{unit} in {names[low]}, {medians[high]:.0f} in {names[high]})"
            )
    for kind in sorted({name for one in facts for name in one.formats}):
        _add_share(said, kind, [one.formats[kind] / len(one.side) for one in facts], names)
    _add_share(said, "gray", [float(one.gray.mean()) for one in facts], names)
    return said


def _above(high: NDArray[np.float64], low: NDArray[np.float64]) -> float:
    """Return the probability that a number of ``high`` is larger than one of ``low`` (area under the ROC curve)."""
    difference = high[:, np.newaxis] - low
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def _add_share(said: list[str], title: str, shares: list[float], names: Sequence[str]) -> None:
    low, high = int(np.argmin(shares)), int(np.argmax(shares))
    if shares[high] - shares[low] >= SHARE_APART:
        said.append(f"{title} ({100 * shares[low]:.0f} % of {names[low]}, {100 * shares[high]:.0f} % of {names[high]})")


UNCERTAIN = 0.6
"""A domain that is less stable than this is called uncertain."""

OF_DOMAIN, OF_FOLDER = 0.9, 0.8
"""A domain equals a folder if the folder has this share of the domain, and the domain this share of the folder."""


@dataclass(frozen=True)
class Discovery:
    """The latent domains of the pictures of one folder or several; ``asked`` is their number if it was given."""

    images: TaskImages
    reading: Reading
    statistics: Statistics
    found: StyleDomains
    asked: int | None
    seed: int

    @cached_property
    def against_folders(self) -> DomainUsage:
        """The latent domains of each folder's pictures, with purity and NMI if there are several folders.

        A folder without a readable picture is not included.
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
        """What is too few for a search for domains."""
        number, different = len(self.statistics.rows), len(np.unique(self.statistics.rows, axis=0))
        return "too few pictures" if different == number else f"too few that differ, {different} of {number},"

    @cached_property
    def notes(self) -> list[str]:
        """Reasons to doubt the domains, one per line."""
        of_class = np.unique(self.statistics.classes, return_counts=True)[1]
        number, lone = len(self.statistics.files), int((of_class == 1).sum())
        if not self.images.classes:
            return self._notes_without_classes
        if len(of_class) == 1:
            return []
        if 2 * lone >= number:
            return [
                f"{lone} of {number} pictures are the only one of their class: the class's effect is then the picture "
                "itself, and taking it away leaves nothing to divide by; --unlabelled, which does not take it away, "
                f"finds {domains_in_words(self.unlabelled)}"
            ]
        doubtful = self.found.k == 1 if self.asked is None else min(self.found.stability) < STABLE
        if doubtful and self.unlabelled.k > 1:
            share = explained(self.statistics.classes, self.unlabelled.domains)
            return [
                "classes and domains may be mixed up: with the classes' effects taken away no clear division is left; "
                f"--unlabelled, which leaves them in, finds {domains_in_words(self.unlabelled)}, and the classes "
                f"explain {100 * max(share, 0):.0f} % of this division. Where each class is of one kind, class and "
                "kind cannot be told apart"
            ]
        if self.found.left_in:
            return ["the classes' effects are not taken away: the domains are more stable with them"]
        return []

    @property
    def _notes_without_classes(self) -> list[str]:
        if self.found.k == 1:
            return []
        folders = np.array([file.parent.name for file in self.statistics.files])
        alike = []
        for domain in range(self.found.k):
            inside = self.found.domains == domain
            name, count = Counter(folders[inside].tolist()).most_common(1)[0]
            if len(np.unique(folders)) > 1 and count >= max(
                OF_DOMAIN * inside.sum(), OF_FOLDER * (folders == name).sum()
            ):
                alike.append(f"{latent_name(domain)} is nearly the folder {name}")
        found = f": {', '.join(alike)}" if alike else ""
        return [f"without classes, a domain may be a class, or what pictures show{found}"]

    @cached_property
    def unlabelled(self) -> StyleDomains:
        """The domains that are found without the classes."""
        return find_style_domains(self.statistics.rows, np.zeros(len(self.statistics.files), np.int64), None, self.seed)

    @cached_property
    def facts(self) -> list[FileFacts]:
        """Facts about the files of each domain."""
        files = self.statistics.files
        return [file_facts([files[i] for i in np.flatnonzero(self.found.domains == d)]) for d in range(self.found.k)]

    @property
    def uncertain(self) -> list[str]:
        """The names of domains that clustering half of the pictures does not find again."""
        return [latent_name(domain) for domain, value in enumerate(self.found.stability) if value < UNCERTAIN]

    @property
    def meaning(self) -> str:
        """What the numbers mean, and what to do."""
        found, ask = self.found, "If you know of several kinds, ask for their number (--k 2) and look at the stability."
        if found.k == 1 and self.asked:
            return "You asked for one domain."
        if found.k == 1:
            if not found.agreement:
                return f"One domain: to count domains, {ENOUGH} different pictures are needed. --k divides fewer."
            if found.by_class:
                return "One domain: the pictures divide clearly, but by their classes alone."
            if found.unstable:
                return f"One domain: half of the pictures do not find a division again. More pictures may. {ask}"
            return f"One domain: no clear gap divides the pictures. {ask}"
        if self.uncertain:
            return (
                f"{', '.join(self.uncertain)} uncertain: half of the pictures do not find such a domain again. Do not "
                "rely on it; ask for fewer domains, or add pictures."
            )
        return (
            f"{found.k} domains: half of the pictures find them again. Look at their pictures in the report: if they "
            "are not the kinds that you mean, ask for another number (--k)."
        )

    def summary(self) -> list[str]:
        """Describe what was found, one line each."""
        found, number = self.found, len(self.statistics.files)
        domains = "one domain" if found.k == 1 else f"{found.k} latent domains"
        how = "as asked" if self.asked else f"{self.too_few} to look for more"
        if found.agreement:
            how = halves_agree(found.agreement)
        lines = [f"{count_of(number, 'picture')}: {domains} ({how})"]
        divided = zip(self.counts, found.stability, strict=True) if found.k > 1 else ()
        for domain, (count, stability) in enumerate(divided):
            doubt = ", uncertain" if latent_name(domain) in self.uncertain else ""
            name = latent_name(domain)
            lines.append(f"  {name}: {count_of(int(count), 'picture')}, stability {stability:.2f}{doubt}")
        lines.append(self.meaning)
        if differs := self.differs:
            lines.append(f"simple differences: {', '.join(differs)}")
        usage = self.against_folders
        if usage.has_true_domains:
            lines.append(f"against the {len(usage.sources)} folders: purity {usage.purity:.2f}, NMI {usage.nmi:.2f}")
        return lines

    @cached_property
    def differs(self) -> list[str]:
        """The differences between the domains in facts of their files."""
        return what_differs(self.facts, [latent_name(d) for d in range(self.found.k)]) if self.found.k > 1 else []


def domains_in_words(found: StyleDomains) -> str:
    """Return the number of domains, and their sizes, in words: 2 domains (30 and 12 pictures)."""
    if found.k == 1:
        return "one domain"
    *most, last = np.bincount(found.domains, minlength=found.k)
    return f"{found.k} domains ({', '.join(map(str, most))} and {last} pictures)"


def halves_agree(found: Agreement) -> str:
    """Describe how far the domains of halves of all pictures agree."""
    return f"halves agree on {found.k} clusters to {found.halves:.2f}, halves of one cloud to {found.cloud:.2f}"


def discover(images: TaskImages, reading: Reading, statistics: Statistics, k: int | None, seed: int) -> Discovery:
    """Find ``k`` latent domains, or as many as there are (None). Refuses too few pictures.

    ``reading`` is how the pictures were read, ``statistics`` are their statistics of style.
    """
    classes = statistics.classes if images.classes else np.zeros(len(statistics.files), np.int64)
    return Discovery(images, reading, statistics, find(statistics.rows, classes, k, seed), k, seed)


def write_table(discovery: Discovery, out: Path) -> None:
    """Write each picture, the number of its latent domain (from 1), and the probability of that domain."""
    found = discovery.found
    pictures = zip(discovery.statistics.files, found.domains, found.probability, strict=True)
    rows = ([picture, domain + 1, f"{sure:.6f}"] for picture, domain, sure in pictures)
    write_csv(out, ["picture", "domain", "probability"], rows)


def chosen(discovery: Discovery, domain: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the most and the least certain pictures of a domain, at most ``count`` each; no picture is among both.

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
