"""What became of the latent domains: in numbers for all runs, in pictures for those shown."""

from collections.abc import Callable, Sequence

from latent_domains.common.program import ProgramError
from latent_domains.report.comparison import Setting
from latent_domains.report.domains import COLLAPSED, history_chart, matrix_chart, shares_chart, subscript, told
from latent_domains.report.page import Block, Charts, Heading, Section, Strip, Strips, Text
from latent_domains.report.runs import Run
from latent_domains.report.samples import Samples, are_pictures, samples_of, strip
from latent_domains.report.sections.nets import missing, trained


def discovery_section(
    settings: Sequence[Setting], shown: Sequence[Run], quick: bool, step: Callable[[], None]
) -> Section:
    """What the branches made of the source images: all runs in one chart, then the shown ones in pictures."""
    blocks: list[Block] = []
    with_branch = [run for setting in settings for run in setting.runs if run.experiment.has_branch and run.record]
    if not with_branch:
        blocks.append(Text("None of the finished runs has a branch that predicts latent source domains."))
    else:
        several = [run for run in with_branch if run.experiment.k > 1]
        collapsed = [run for run in several if max(run.record["domain_usage"]["share"]) >= COLLAPSED]
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
                shares_chart(setting.lines, f"shares-{number}", setting.name if len(settings) > 1 else "")
                for number, setting in enumerate(settings, 1)
                if any(run.record and run.record["domain_usage"] for line in setting.lines for run in line.runs)
            ]
            blocks.append(
                Charts(
                    charts,
                    "A bar is a run; its parts are the shares of source images whose most probable latent domain is "
                    "s₁, s₂, … One undivided bar is a collapsed branch. NMI compares the latent domains with the true "
                    "ones: 1 if they are the same, 0 if they have nothing in common.",
                )
            )
    for run in shown:
        if run.experiment.has_branch and run.record:
            blocks += _discovery(run, quick)
            step()
    return Section("domains", "The latent domains", blocks)


def _discovery(run: Run, quick: bool) -> list[Block]:
    record = run.record
    usage, history = record["domain_usage"], record.get("domain_usage_history") or []
    blocks: list[Block] = [Heading(f"{run.experiment.title}: {run.name}"), Text(told(usage, history))]
    charts = []
    if len(history) > 1:
        charts.append(history_chart(history, f"history-{run.name}"))
    elif "domain_usage_history" in record:
        text = "How the domains were used along training is not known: no two snapshots were there to compare."
        blocks.append(Text(text, note=True))
    else:
        text = "The record does not say how the domains were used along training. Where the run's snapshots are, make "
        blocks.append(Text(text + "it again: python -m tools.evaluate RUN.", note=True))
    charts.append(matrix_chart(usage, f"matrix-{run.name}"))
    if target_usage := record.get("target_domain_usage"):
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
    blocks += _samples(run, quick)
    return blocks


def _samples(run: Run, quick: bool) -> list[Block]:
    if quick:
        return []
    if not are_pictures(run.experiment.data.stored_shape):
        text = f"The records of {run.experiment.dataset} are features, so there are no images to show."
        return [Text(text, note=True)]
    try:
        found = samples_of(*trained(run))
    except ProgramError as error:
        return [missing("No images of the latent domains", error)]
    strips = [made for samples in found for made in _strips(samples)]
    empty = [f"s{subscript(samples.domain + 1)}" for samples in found if not samples.images]
    nothing = f" {', '.join(empty)} got no image." if empty else ""
    caption = (
        "Source images that the branch is surest and least sure about, for each latent domain, the most extreme first. "
        f"What the surest have in common is what the domain is to the branch.{nothing}"
    )
    return [Strips(strips, caption)]


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
