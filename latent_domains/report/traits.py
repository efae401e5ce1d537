"""What the latent domains are: image statistics and classes that set each apart from the others."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latent_domains.data.image_statistics import image_statistics
from latent_domains.report.page import Block, TableBlock, Text
from latent_domains.report.samples import LookedAt
from latent_domains.report.text import shortened, subscript

SHOWN = 8
"""Traits that a table has."""


@dataclass(frozen=True)
class Trait:
    """Of each latent domain that has some images, but not all: the mean of a statistic, or a class's share in %.

    ``differences`` are those from the mean of all other images, in standard deviations of all images.
    """

    name: str
    means: dict[int, float]
    differences: dict[int, float]

    @property
    def largest(self) -> float:
        return max(map(abs, self.differences.values()), default=0.0)


def traits(looked_at: LookedAt, classes: Sequence[str]) -> list[Trait]:
    """The statistics and classes, that of the largest difference first."""
    values = {}
    if looked_at.images is not None:
        statistics = [image_statistics(image) for image in looked_at.images]
        values = {name: np.array([one[name] for one in statistics]) for name in statistics[0]}
    values |= {f"class {name}": 100.0 * (looked_at.labels == label) for label, name in enumerate(classes)}
    assigned = looked_at.probabilities.argmax(axis=1)
    found = [_trait(name, of_images, assigned) for name, of_images in values.items()]
    return sorted(found, key=lambda trait: -trait.largest)


def _trait(name: str, values: NDArray[np.float64], assigned: NDArray[np.int64]) -> Trait:
    means, differences, deviation = {}, {}, float(values.std())
    domains = np.unique(assigned).tolist()
    for domain in domains if len(domains) > 1 else []:
        inside = assigned == domain
        means[domain] = float(values[inside].mean())
        further = means[domain] - float(values[~inside].mean())
        differences[domain] = further / deviation if deviation > 1e-6 else 0.0
    return Trait(name, means, differences)


def traits_blocks(looked_at: LookedAt, classes: Sequence[str]) -> list[Block]:
    """A table of the traits that set the domains apart most, a column for each domain; nothing if there is but one."""
    shown = [trait for trait in traits(looked_at, classes) if trait.largest > 0][:SHOWN]
    if not shown:
        return []
    domains = range(looked_at.probabilities.shape[1])
    rows = [[shortened(trait.name, 30), *(_cell(trait, domain) for domain in domains)] for trait in shown]
    kind = "statistics of the images in % of a pixel's range, and " if looked_at.images is not None else ""
    text = (
        f"By {looked_at.told}: {kind}the classes' shares in %. In brackets, how far the domain's mean is from that of "
        "all other images, in standard deviations; the largest difference comes first."
    )
    header = ["trait", *(f"#s{subscript(domain + 1)}" for domain in domains)]
    return [TableBlock("What sets the latent domains apart", header, rows), Text(text)]


def _cell(trait: Trait, domain: int) -> str:
    if domain not in trait.means:
        return "–"
    return f"{trait.means[domain]:.1f} ({trait.differences[domain]:+.2f})".replace("-", "−")
