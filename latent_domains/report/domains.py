"""The latent domains during training and beside the true ones: numbers of all runs, pictures of some."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from latent_domains.common.program import ProgramError
from latent_domains.experiment.methods import METHODS
from latent_domains.report.chart import COLOURS, GROUP_COLOURS, Chart, latent_name, save, shortened
from latent_domains.report.comparison import ComparedTask
from latent_domains.report.page import Block, Charts, Heading, Section, TableBlock, Text, missing
from latent_domains.report.runs import LoadedRun
from latent_domains.report.samples import (
    SourceImages,
    largest,
    mosaic_chart,
    read_source_images,
    surest_and_least_sure,
)
from latent_domains.runs.record import COLLAPSED, DomainUsage, Record, note_on_domain_labels
from latent_domains.runs.run_folder import RunFolder
from latent_domains.tables.results import NOTHING

_LETTER, _NAME = 6, 20
"""In a matrix, the width of a letter in a cell, and that of a latent domain's name with its space, in points."""


def describe_usage(usage: DomainUsage, history: Sequence[DomainUsage]) -> str:
    """Describe the latent domains in a few sentences."""
    share = usage.share
    text = f"Of {usage.images:,} {'held-out source images' if usage.held_out else 'source images'}, "
    shown, which = largest(np.array(share))
    text += ", ".join(f"{100 * share[d]:.1f} % went to {latent_name(d)}" for d in shown) + f". {which} ".rstrip() + " "
    if len(share) == 1:
        return text + "There is only one latent domain to go to."
    if not usage.has_true_domains:
        text += "How its images divide into true domains is not known, or they are all of one. "
    elif usage.collapsed:
        text += "The domains collapsed: practically every image is in one. "
    elif usage.nmi < 0.05:
        text += "The images are in several domains, which are not the true ones (NMI below 0.05). "
    elif usage.nmi >= 0.8:
        text += "The latent domains largely are the true ones. "
    else:
        text += "The latent domains have something of the true ones. "
    if history and history[0].iteration == 0:
        first = max(history[0].share)
        text += f"Before any training, the initialisation put {100 * first:.0f} % of them into one domain."
    return text


def history_chart(history: Sequence[DomainUsage]) -> Chart:
    """Draw stacked shares of the latent domains over ``history``, which has at least two entries."""
    iterations = [usage.iteration for usage in history]
    shares = 100 * np.array([usage.share for usage in history])
    names = [latent_name(d) for d in range(shares.shape[1])]
    colours = [GROUP_COLOURS[d % len(GROUP_COLOURS)] for d in range(len(names))]

    def draw(axes: Axes) -> None:
        axes.stackplot(iterations, shares.T, labels=names, colors=colours, alpha=0.55, edgecolor=COLOURS["ground"])
        axes.set_xlim(iterations[0], iterations[-1])
        axes.set_xticks(iterations if len(iterations) < 7 else iterations[:: len(iterations) // 4])
        axes.set_ylim(0, 100)
        axes.set_xlabel("iteration")
        axes.set_ylabel("source images (%)")

    ends = [f"{name} from {shares[0, d]:.0f} to {shares[-1, d]:.0f} %" for d, name in enumerate(names)]
    alt = f"Stacked shares of the latent domains from iteration {iterations[0]} to {iterations[-1]}: {', '.join(ends)}."
    return Chart("Where the source images go", alt, draw)


def matrix_chart(usage: DomainUsage, title: str = "True against latent domains") -> Chart:
    """Draw the shares of each true domain's images (rows) in each latent domain (columns)."""
    if usage.has_true_domains:
        title += f" (purity {usage.purity:.2f}, NMI {usage.nmi:.2f})"
    return shares_chart(title, np.array(usage.counts), usage.sources, "{0:.1f} %", height=60 + 42 * len(usage.sources))


def shares_chart(
    title: str, counts: NDArray[np.int64], rows: Sequence[str], text: str, height: float, width: float = Chart.width
) -> Chart:
    """Draw how each row's images divide into latent domains (``counts``, rows×k).

    A cell's ``text`` gets share and count.

    Long names of ``rows`` are cut beside the cells, not in the description. Cells without room for their text show the
    share in %, or nothing. If the columns' names do not fit, only every n-th is named.
    """
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    columns = [latent_name(domain) for domain in range(counts.shape[1])]
    words = [
        f"{name}: " + ", ".join(f"{100 * share:.1f} % in {column}" for share, column in zip(row, columns, strict=True))
        for name, row in zip(rows, shares, strict=True)
    ]
    names = [shortened(row, int(width / 21)) for row in rows]
    room = (width - 15 - 6 * max(map(len, names))) / len(columns)  # of a cell
    full = [text.format(100 * share, count) for share, count in zip(shares.flat, counts.flat, strict=True)]
    brief = [f"{100 * share:.0f}" for share in shares.flat]
    texts = next((texts for texts in (full, brief) if _LETTER * max(map(len, texts)) < room), [])
    apart = math.ceil(_NAME / room)
    named = [column if number % apart == 0 else "" for number, column in enumerate(columns)]
    return Chart(title, "; ".join(words), lambda axes: draw_matrix(axes, shares, names, named, texts), width, height)


def draw_matrix(
    axes: Axes, shares: np.ndarray, rows: Sequence[str], columns: Sequence[str], texts: Sequence[str]
) -> None:
    """Draw cells (rows×columns), darker for larger shares, each with its text (if there are ``texts``)."""
    ground = np.zeros((*shares.shape, 4))
    ground[..., :3] = [int(METHODS["dial"].colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    ground[..., 3] = shares  # empty cells are transparent, for any background
    axes.imshow(ground, aspect="auto", interpolation="nearest")
    for (row, column), text in zip(np.ndindex(shares.shape), texts, strict=False):
        colour = COLOURS["ink"] if shares[row, column] < 0.9 else "#ffffff"
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=9)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(True)


def _shares_table(runs: Sequence[LoadedRun]) -> TableBlock:
    """Return a table of the latent domains of finished runs that find them."""
    rows = []
    for run in runs:
        usage = run.record.domain_usage
        cells = [f"{usage.purity:.2f}", f"{usage.nmi:.2f}"] if usage.has_true_domains else [NOTHING] * 2
        rows.append([run.name, *cells, ", ".join(f"{100 * share:.1f}" for share in usage.share)])
    header = ["run", "#purity", "#NMI", "source images of each latent domain (%)"]
    return TableBlock("The latent domains at the end, run by run", header, rows)


def discovery_section(tasks: Sequence[ComparedTask], pictured: Sequence[LoadedRun]) -> Section:
    """Show how branches, or clusters of style, divide the source images: a table of all runs, pictures of some."""
    blocks: list[Block] = []
    finding = [run for task in tasks for run in task.runs if run.experiment.method.finds_domains and run.record]
    if not finding:
        blocks.append(Text("None of the finished runs finds latent source domains."))
    else:
        several = [run for run in finding if run.experiment.k > 1 and run.experiment.method.has_branch]
        collapsed = [run for run in several if run.record.domain_usage.collapsed]
        if collapsed:
            text = f"In {len(collapsed)} of {len(several)} runs with k > 1 the branch collapsed: it puts "
            text += f"{100 * COLLAPSED:.0f} % or more of the source images into one latent domain, so that mDA is DIAL "
            blocks.append(Text(text + "with domains to spare."))
        if len(finding) > 1:
            blocks.append(_shares_table(finding))
        told: dict[str, list[str]] = {}
        for run in finding:
            if text := note_on_domain_labels(run.experiment.method, run.record.domain_usage):
                told.setdefault(text, []).append(run.name)
        blocks += [Text(f"{', '.join(names)}: {text}.") for text, names in told.items()]
    for run in pictured:
        if run.experiment.method.finds_domains and run.record:
            blocks += _discovery(run)
    return Section("domains", "The latent domains", blocks)


def _discovery(run: LoadedRun) -> list[Block]:
    usage, history = run.record.domain_usage, run.record.domain_usage_history or []
    blocks: list[Block] = [Heading(f"{run.experiment.title}: {run.name}"), Text(describe_usage(usage, history))]
    charts = []
    if not run.experiment.method.has_branch:
        how = "are those of a file" if run.experiment.method.domains else "were found by style, before training"
        blocks.append(Text(f"The latent domains of {run.name} {how}.", note=True))
        return [*blocks, Charts(f"domains-{run.name}", [matrix_chart(usage)])]
    if len(history) > 1:
        charts.append(history_chart(history))
    else:
        text = "How the domains were used along training is not known: the record has no two snapshots to compare."
        blocks.append(Text(text, note=True))
    charts.append(matrix_chart(usage))
    if target_usage := run.record.target_domain_usage:
        charts.append(matrix_chart(target_usage, "True against latent target domains"))
    blocks.append(Charts(f"domains-{run.name}", charts))
    try:
        looked_at = read_source_images(*run.trained())
    except ProgramError as error:
        return [*blocks, missing("No images of the latent domains", error)]
    return [*blocks, _samples(run, looked_at)]


def _samples(run: LoadedRun, looked_at: SourceImages) -> Block:
    if looked_at.images is None:
        return Text(f"The records of {run.experiment.dataset} are features, so there are no images to show.", note=True)
    probabilities = looked_at.probabilities
    charts, empty = [], []
    shown, which = largest(np.bincount(probabilities.argmax(axis=1), minlength=probabilities.shape[1]))
    for number in shown:
        domain = latent_name(number)
        surest, least_sure = surest_and_least_sure(probabilities, number)
        if not len(surest):
            empty.append(domain)
        for kind, chosen in (("surest", surest), ("least sure", least_sure)):
            if len(chosen):
                sure = probabilities[chosen].max(axis=1)
                sources = Counter(looked_at.sources[i] for i in chosen)
                counts = ", ".join(f"{count} of {source}" for source, count in sources.items())
                title = f"{domain}, {kind}: probability {sure.min():.2f} to {sure.max():.2f}; {counts}"
                alt = f"{len(chosen)} source images of latent domain {domain}, of which the branch is {kind}"
                charts.append(mosaic_chart(title, alt, looked_at.images[chosen], width=460, height=95))
    nothing = f" {', '.join(empty)} got no image." if empty else ""
    caption = (
        f"{which} "
        "Source images that the branch is surest and least sure about, the most extreme first. What the surest have in "
        f"common is what the domain means to the branch.{nothing}"
    )
    return Charts(f"pictures-{run.name}", charts, caption.strip())


DRAWN = 48
"""Images of each latent domain."""


def draw_samples(path: Path, domains: Mapping[str, NDArray[np.uint8]]) -> None:
    """Draw one panel per domain (title → images n×C×H×W), 8 images per row."""
    save(path, [_many(title, images) for title, images in domains.items()])


def draw_latent_domains(path: Path, runs: Sequence[tuple[RunFolder, Record]], seed: int) -> None:
    """Draw a row for each run with a branch: true against latent domains, then images of each, chosen by ``seed``."""
    charts = []
    for folder, record in runs:
        charts.append(matrix_chart(record.domain_usage, folder.experiment.title))
        found = read_source_images(folder, folder.final_snapshot())
        assigned = found.probabilities.argmax(axis=1)
        order = np.random.default_rng(seed).permutation(len(assigned))
        for domain, share in enumerate(record.domain_usage.share):
            images = found.images[order[assigned[order] == domain][:DRAWN]]
            charts.append(_many(f"{latent_name(domain)}: {100 * share:.1f} % of the images", images))
    save(path, charts, columns=len(charts) // len(runs))


def _many(title: str, images: NDArray[np.uint8]) -> Chart:
    return mosaic_chart(title, f"{len(images)} images", images, width=280, height=230)
