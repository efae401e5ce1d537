"""The page of a discovery: the pictures of each latent domain, its shares of the classes, how stable it is."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latent_domains.common.files import write_text
from latent_domains.data.image_datum import Format, read_image
from latent_domains.discovery.discover import HEADER, Discovery, chosen, halves_agree
from latent_domains.domains.style_domains import AGAIN, AGREEMENT
from latent_domains.report.chart import Chart, latent_name
from latent_domains.report.classes import DRAWN
from latent_domains.report.domains import matrix_chart, shares_chart
from latent_domains.report.page import Block, Charts, Page, Section, TableBlock, Text, save_figures
from latent_domains.report.samples import largest, mosaic_chart

_FACTS = ["latent domain", *HEADER]

SHOWN = 16
"""Pictures of each sort."""

SIDE = 80
"""Side of a picture on the page, in pixels."""


def write_page(discovery: Discovery, out: Path, *, backbone: str, command: str, figures: Path | None = None) -> None:
    """Write the page to ``out``, and its charts to the folder ``figures``.

    ``backbone`` describes what made the statistics; ``command`` is the command that makes the page.
    """
    made = f"Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by {command}."
    sections = [_domains(discovery), _pictures(discovery)]
    if len(discovery.images.classes) > 1:
        sections.append(shares_section(discovery.classes_in_domains, discovery.images.classes))
    page = Page(_title(discovery), discovery.summary()[:1], [*sections, _method(discovery, backbone)], made)
    write_text(out, page.html())
    if figures:
        save_figures(page, figures)


def _title(discovery: Discovery) -> str:
    return f"Latent domains of {', '.join(discovery.images.counts)}"


def _domains(discovery: Discovery) -> Section:
    found, usage = discovery.found, discovery.against_folders
    rows = []
    for domain, count in enumerate(discovery.counts):
        sure = found.probability[found.domains == domain].mean() if count else 0.0
        stability = f"{found.stability[domain]:.2f}" if found.k > 1 else "–"
        stability += " (uncertain)" if latent_name(domain) in discovery.uncertain else ""
        share = f"{100 * count / len(found.domains):.1f}"
        rows.append([latent_name(domain), f"{count:,}", share, f"{sure:.3f}", stability])
    header = ["latent domain", "#pictures", "#share (%)", "#mean probability", "#stability"]
    blocks: list[Block] = [TableBlock("The latent domains; the first is the largest", header, rows)]
    blocks.append(Text(discovery.meaning))
    facts = [[latent_name(domain), *one.cells] for domain, one in enumerate(discovery.facts)]
    blocks.append(TableBlock("Simple differences: medians and shares of 100 pictures of each", _FACTS, facts))
    if discovery.differs:
        blocks.append(
            Text(f"The domains differ in {', '.join(discovery.differs)}: this may be all that separates them.")
        )
    blocks += [Text(f"{note[0].upper()}{note[1:]}.", note=True) for note in discovery.notes]
    if usage.has_true_domains:
        title = "Folders against latent domains"
        blocks.append(Charts("folders", [matrix_chart(usage, title)], "Each row adds up to 100 %."))
    return Section("found", "What was found", blocks)


def _pictures(discovery: Discovery) -> Section:
    charts, number, caption = [], len(discovery.found.domains), ""
    if discovery.found.k == 1:  # none is more certain than others
        charts.append(_mosaic(discovery, 0, "evenly drawn", np.unique(np.linspace(0, number - 1, SHOWN).astype(int))))
    else:
        shown, caption = largest(discovery.counts)
        for domain in shown:
            kinds = zip(("most certain", "least certain"), chosen(discovery, domain, SHOWN), strict=True)
            charts += [_mosaic(discovery, domain, kind, places) for kind, places in kinds]
    return Section("pictures", "Pictures of each domain", [Charts("latent-domains", charts, caption)])


def _mosaic(discovery: Discovery, domain: int, kind: str, places: np.ndarray) -> Chart:
    form = Format((SIDE, SIDE), reading=discovery.reading)
    made = [read_image(discovery.statistics.files[i], form) for i in places]
    images = [one.planes for one in made if one.failure is None]
    sure = discovery.found.probability[places]
    title = f"{latent_name(domain)}, {kind}"
    if len(places) and discovery.found.k > 1:
        title += f": probability {sure.min():.2f} to {sure.max():.2f}"
    folders = list(discovery.images.counts)
    of_folders = Counter(folders[i] for i in discovery.statistics.folders[places])
    alt = f"{len(images)} pictures of latent domain {domain + 1}, the {kind} ones"
    if len(of_folders) > 1:
        alt += "".join(f", {count} of {name}" for name, count in of_folders.items())
    shape = np.array(images, np.uint8).reshape(len(images), 3, SIDE, SIDE)
    return mosaic_chart(title, alt, shape, width=460, height=30 + 58 * -(-max(1, len(images)) // 8))


def shares_section(counts: NDArray[np.int64], names: Sequence[str]) -> Section:
    """Return how each class's pictures divide into latent domains (``counts``, classes×k): a chart or a table."""
    block: Block
    caption = "Each row adds up to 100 %. Rows that differ much show classes that the domains have in unequal shares."
    if len(names) > DRAWN:
        shares = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        header = ["class", "#pictures", *(f"#{latent_name(domain)} (%)" for domain in range(counts.shape[1]))]
        rows = [
            [name, f"{of_class.sum():,}", *(f"{share:.0f}" for share in row)]
            for name, of_class, row in zip(names, counts, shares, strict=True)
        ]
        block = TableBlock(caption, header, rows)
    else:
        title, text = "Classes against latent domains", "{0:.0f} % ({1:,})"
        chart = shares_chart(title, counts, names, text, height=60 + 24 * len(names), width=460)
        block = Charts("classes", [chart], caption)
    return Section("shares", "Shares of the classes", [block])


def _method(discovery: Discovery, backbone: str) -> Section:
    if not discovery.images.classes:
        classes = "The classes were not known, so what a picture shows may take the place of its style."
    elif discovery.found.left_in:
        classes = "The effects of the classes are left in: the domains are more stable so, and no division of classes."
    else:
        classes = "The class is a nuisance: its effect is taken away by least squares, by turns with the domains."
    texts = [
        f"Statistics: the mean of each channel of {backbone}. {classes}",
        f"Pictures are divided in two, and the parts again. {_when_divided(discovery)}",
        f"Stability: the mean Jaccard index with what is found in a random half of the pictures, {AGAIN} times.",
    ]
    return Section("method", "How it was found", [Text(text) for text in texts])


def _when_divided(discovery: Discovery) -> str:
    if discovery.asked:
        way = "Taken are clusters of k-means: they hold better in halves of the pictures, beyond those of clouds."
        return f"You asked for {discovery.asked}. {way if discovery.found.by_kmeans else ''}".rstrip()
    enough = " or ".join(f"{value} for {k} clusters" for k, value in AGREEMENT.items())
    text = (
        "A part is divided if two random halves of it agree (mean adjusted Rand index) more than halves of a cloud "
        "without gaps that varies as much: 0 is as in the cloud, 1 is full agreement, and enough "
        f"is {enough}."
    )
    if found := discovery.found.agreement:
        text += f" Of all pictures {halves_agree(found)}, which makes {found.beyond_cloud:.2f}."
    return text
