"""The latent domains along training and against the true ones: numbers of all runs, pictures of those shown."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes

from latent_domains.common.program import ProgramError
from latent_domains.report.chart import Chart
from latent_domains.report.comparison import Line, Task
from latent_domains.report.page import Block, Charts, Heading, Section, Strip, Strips, Text, missing
from latent_domains.report.palette import LIGHT, PARTS
from latent_domains.report.runs import LoadedRun
from latent_domains.report.samples import LookedAt, Samples, look_at, samples_of, strip
from latent_domains.report.stability import stability_blocks
from latent_domains.report.text import shortened, subscript
from latent_domains.report.traits import traits_blocks
from latent_domains.runs.record import COLLAPSED, DomainUsage


def told(usage: DomainUsage, history: Sequence[DomainUsage]) -> str:
    """What became of the latent domains, in a few sentences."""
    share, k = usage.share, len(usage.share)
    largest = int(np.argmax(share))
    text = f"Of {usage.images:,} {'held-out source images' if usage.held_out else 'source images'}, "
    text += ", ".join(f"{100 * value:.1f} % went to s{subscript(d + 1)}" for d, value in enumerate(share)) + ". "
    if k == 1:
        return text + "There is only one latent domain to go to."
    if not usage.has_true_domains:
        text += "How its images divide into true domains is not known, or they are all of one. "
    elif usage.collapsed:
        text += f"The branch collapsed: it puts practically every image into s{subscript(largest + 1)}. "
    elif usage.nmi < 0.05:
        text += "The branch uses several domains, but they are not the true ones (NMI below 0.05). "
    elif usage.nmi > 0.5:
        text += "The latent domains largely are the true ones. "
    else:
        text += "The latent domains have something of the true ones. "
    if history and history[0].iteration == 0:
        first = max(history[0].share)
        text += f"Before any training, the initialisation put {100 * first:.0f} % of them into one domain."
    return text


def _history_chart(history: Sequence[DomainUsage], name: str) -> Chart:
    """Shares of the latent domains, stacked, from the first to the last of what ``history`` has (two at least)."""
    iterations = [usage.iteration for usage in history]
    shares = 100 * np.array([usage.share for usage in history])
    k = shares.shape[1]

    def draw(axes: Axes) -> None:
        axes.stackplot(
            iterations,
            shares.T,
            colors=[PARTS[d % len(PARTS)] for d in range(k)],
            alpha=0.55,
            edgecolor=LIGHT["ground"],
            linewidth=1,
        )
        middle = shares.cumsum(axis=1) - shares / 2
        for d in range(k):
            place = int(shares[:, d].argmax())
            if shares[place, d] > 8:
                inside = {0: "left", len(iterations) - 1: "right"}.get(place, "center")
                axes.annotate(
                    f"s{subscript(d + 1)}",
                    (iterations[place], middle[place, d]),
                    ha=inside,
                    va="center",
                    xytext=({"left": 6, "right": -6}.get(inside, 0), 0),
                    textcoords="offset points",
                    fontweight="bold",
                )
        axes.set_xlim(iterations[0], iterations[-1])
        axes.set_xticks(iterations if len(iterations) < 7 else iterations[:: len(iterations) // 4])
        axes.set_ylim(0, 100)
        axes.set_xlabel("iteration")
        axes.set_ylabel("source images (%)")

    ends = [f"s{d + 1} from {shares[0, d]:.0f} to {shares[-1, d]:.0f} %" for d in range(k)]
    alt = f"Stacked shares of the latent domains from iteration {iterations[0]} to {iterations[-1]}: {', '.join(ends)}."
    return Chart(name, "Where the source images go", alt, draw)


def matrix_chart(usage: DomainUsage, name: str, title: str = "True against latent domains") -> Chart:
    """Shares of each true domain's images, a row for each true domain and a column for each latent one."""
    counts = np.array(usage.counts, float)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    rows = [shortened(source, 14) for source in usage.sources]
    columns = [f"s{subscript(d + 1)}" for d in range(shares.shape[1])]
    words = []
    for source, row in zip(usage.sources, shares, strict=True):
        cells = [f"{100 * share:.1f} % in {column}" for share, column in zip(row, columns, strict=True)]
        words.append(f"{source}: {', '.join(cells)}")
    return Chart(
        name,
        f"{title} (purity {usage.purity:.2f}, NMI {usage.nmi:.2f})" if usage.has_true_domains else title,
        "; ".join(words),
        lambda axes: draw_matrix(axes, shares, rows, columns, [f"{100 * share:.1f} %" for share in shares.flat]),
        height=60 + 42 * len(rows),
    )


def draw_matrix(
    axes: Axes, shares: np.ndarray, rows: Sequence[str], columns: Sequence[str], texts: Sequence[str]
) -> None:
    """Cells (rows×columns) the darker the larger the share, with a text each (none: no texts)."""
    ground = np.zeros((*shares.shape, 4))
    ground[..., :3] = [int(LIGHT["dial"][i : i + 2], 16) / 255 for i in (1, 3, 5)]
    ground[..., 3] = shares  # on any ground: what is empty is transparent
    axes.imshow(ground, aspect="auto", interpolation="nearest")
    for (row, column), text in zip(np.ndindex(shares.shape), texts, strict=False):
        colour = LIGHT["ink"] if shares[row, column] < 0.9 else "#ffffff"
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=9)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    for spine in axes.spines.values():
        spine.set_visible(True)


def _shares_chart(lines: Sequence[Line], name: str, task: str = "") -> Chart:
    """For every run with a branch, the shares of its latent domains at the end, as one stacked bar.

    ``task`` is named in the title where there are several.
    """
    bars = [
        (line.name if number == 0 else "", f"seed {run.experiment.seed}", run.record.domain_usage)
        for line in lines
        for number, run in enumerate(run for run in line.runs if run.record and run.record.domain_usage)
    ]
    headings = sum(bool(title) for title, _, _ in bars)

    def draw(axes: Axes) -> None:
        y = 0.0
        for title, seed, usage in bars:
            if title:
                axes.text(0, y + 0.1, shortened(title, 40), va="center", fontsize=10)
                y += 1
            left = 0.0
            for d, share in enumerate(100 * np.array(usage.share)):
                colour = PARTS[d % len(PARTS)]
                axes.barh(
                    y, share, left=left, height=0.8, color=colour, alpha=0.55, edgecolor=LIGHT["ground"], linewidth=1
                )
                if share > 12:
                    axes.text(left + share / 2, y, f"s{subscript(d + 1)}", ha="center", va="center", fontsize=8)
                left += share
            beside = f"{seed}: NMI {usage.nmi:.2f}" if usage.has_true_domains else seed
            axes.text(101, y, beside, va="center", fontsize=8, color=LIGHT["muted"])
            y += 1
        axes.set_ylim(y - 0.4, -0.6)
        axes.set_xlim(0, 135)
        axes.set_xticks(range(0, 101, 25))
        axes.set_yticks([])
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("source images (%)")

    largest = [f"{title} {seed}: {100 * max(usage.share):.0f} %".strip() for title, seed, usage in bars]
    alt = f"The largest share of a latent domain. {'; '.join(largest)}."
    title = f"{task}: latent domains at the end" if task else "Latent domains at the end, run by run"
    return Chart(name, title, alt, draw, 340, 40 + 15.0 * (len(bars) + headings))


def discovery_section(
    tasks: Sequence[Task], shown: Sequence[LoadedRun], quick: bool, step: Callable[[], None]
) -> Section:
    """What the branches made of the source images: all runs in one chart, then the shown ones in pictures."""
    blocks: list[Block] = []
    with_branch = [run for task in tasks for run in task.runs if run.experiment.has_branch and run.record]
    if not with_branch:
        blocks.append(Text("None of the finished runs has a branch that predicts latent source domains."))
    else:
        several = [run for run in with_branch if run.experiment.k > 1]
        collapsed = [run for run in several if run.record.domain_usage.collapsed]
        if collapsed:
            blocks.append(
                Text(
                    f"In {len(collapsed)} of {len(several)} runs with k > 1 the branch collapsed: it puts "
                    f"{100 * COLLAPSED:.0f} % or more of the source images into one latent domain, so that mDA is DIAL "
                    "with domains to spare."
                )
            )
        if len(with_branch) > 1:
            charts = [
                _shares_chart(task.lines, f"shares-{number}", task.name if len(tasks) > 1 else "")
                for number, task in enumerate(tasks, 1)
                if any(run.record and run.record.domain_usage for line in task.lines for run in line.runs)
            ]
            caption = (
                "A bar is a run; its parts are the shares of source images whose most probable latent domain is s₁, "
                "s₂, … One undivided bar is a collapsed branch."
            )
            if any(run.record.domain_usage.has_true_domains for run in with_branch):
                caption += (
                    " NMI compares the latent domains with the true ones: 1 if they are the same, 0 if they have "
                    "nothing in common."
                )
            blocks.append(Charts(charts, caption))
        if not quick:
            blocks += stability_blocks(tasks)
    for run in shown:
        if run.experiment.has_branch and run.record:
            blocks += _discovery(run, quick)
            step()
    return Section("domains", "The latent domains", blocks)


def _discovery(run: LoadedRun, quick: bool) -> list[Block]:
    usage, history = run.record.domain_usage, run.record.domain_usage_history or []
    blocks: list[Block] = [Heading(f"{run.experiment.title}: {run.name}"), Text(told(usage, history))]
    charts = []
    if len(history) > 1:
        charts.append(_history_chart(history, f"history-{run.name}"))
    elif run.record.domain_usage_history is not None:
        text = "How the domains were used along training is not known: no two snapshots were there to compare."
        blocks.append(Text(text, note=True))
    else:
        text = "The record does not say how the domains were used along training. Where the run's snapshots are, make "
        blocks.append(Text(text + "it again: python -m tools.evaluate RUN.", note=True))
    charts.append(matrix_chart(usage, f"matrix-{run.name}"))
    if target_usage := run.record.target_domain_usage:
        charts.append(matrix_chart(target_usage, f"target-matrix-{run.name}", "True against latent target domains"))
    blocks.append(
        Charts(
            charts,
            "Rows of the matrix are true domains, columns latent ones, and each row adds up to 100 %: domains were "
            "found if every row has a strong cell in a column of its own. Purity is the share of images whose true "
            "domain is the commonest one of their latent domain. The picture knows the true domains, training did "
            "not, or no more of them than the run's name says.",
        )
    )
    if quick:
        return blocks
    try:
        looked_at = look_at(*run.trained())
    except ProgramError as error:
        return [*blocks, missing("No images of the latent domains", error)]
    return [*blocks, *traits_blocks(looked_at, run.classes), *_samples(run, looked_at)]


def _samples(run: LoadedRun, looked_at: LookedAt) -> list[Block]:
    if looked_at.images is None:
        text = f"The records of {run.experiment.dataset} are features, so there are no images to show."
        return [Text(text, note=True)]
    found = samples_of(looked_at)
    strips = [made for samples in found for made in _strips(samples)]
    empty = [f"s{subscript(samples.domain + 1)}" for samples in found if not samples.images]
    nothing = f" {', '.join(empty)} got no image." if empty else ""
    caption = (
        "Source images that the branch is surest and least sure about, for each latent domain, the most extreme first. "
        f"What the surest have in common is what the domain is to the branch.{nothing}"
    )
    return [Strips(f"pictures-{run.name}", strips, caption)]


def _strips(samples: Samples) -> list[Strip]:
    domain = f"s{subscript(samples.domain + 1)}"
    strips = []
    for kind, (images, sure, sources) in (("surest", samples.surest), ("least sure", samples.least_sure)):
        if len(images):
            counts = ", ".join(f"{sources.count(source)} of {source}" for source in dict.fromkeys(sources))
            strips.append(
                Strip(
                    f"{domain}, {kind}",
                    f"{len(images)} source images of latent domain {domain}, of which the branch is {kind}: {counts}.",
                    strip(images, min(8, len(images))),
                    f"probability {sure.min():.2f} to {sure.max():.2f}; {counts}",
                )
            )
    return strips
