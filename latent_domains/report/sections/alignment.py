"""Features before and after their domains are aligned."""

from collections.abc import Callable, Sequence

from latent_domains.common.program import ProgramError
from latent_domains.report import classes
from latent_domains.report.embedding import FIGURES, class_keys, domain_keys, embedding_charts
from latent_domains.report.page import Block, Charts, Heading, Section, Text
from latent_domains.report.runs import Run
from latent_domains.report.sections.nets import missing, trained
from latent_domains.runs.features import features_of


def alignment_section(shown: Sequence[Run], quick: bool, images: int, step: Callable[[], None]) -> Section:
    """Features of the shown runs in two dimensions, before and after the alignment."""
    blocks: list[Block] = []
    if quick:
        return Section("alignment", "Features before and after alignment", [Text("Left out (--quick).", note=True)])
    for run in shown:
        blocks.append(Heading(f"{run.experiment.title}: {run.name}"))
        try:
            features, labels = features_of(*trained(run), images), classes.names(run)
        except ProgramError as error:
            blocks.append(missing("No features", error))
            continue
        sees_target = run.experiment.sees_target
        early, last = ("Before alignment", "After alignment") if sees_target else ("Early features", "Last features")
        charts = embedding_charts(features, labels, f"embedding-{run.name}", early, last)
        if sees_target:
            how = (
                "Before alignment is what the first mDA layer gets; after alignment is what the classifier gets, each "
                "batch aligned with its own statistics, as in training."
            )
        elif features.before is None:
            how = (
                "This net has never seen the target and normalises nothing. Last features are those of the classifier."
            )
        else:
            how = (
                "This net has never seen the target: its last features are normalised with the sources' statistics. "
                "Early features are what the first normalisation gets, last features what the classifier gets."
            )
        many = " More than ten classes: colours and marks repeat." if len(labels) > FIGURES else ""
        blocks.append(Charts(charts, how + many, [*domain_keys(features.names), *class_keys(labels)]))
        step()
    if any(isinstance(block, Charts) for block in blocks):
        blocks.insert(
            0,
            Text(
                "Training images, placed so that neighbours in the net's features lie close together (PCA, then "
                "t-SNE); axes and distances between groups mean nothing. Aligned domains lie upon one another, and "
                "useful features keep the classes apart. Target labels serve the pictures alone."
            ),
        )
    return Section("alignment", "Features before and after alignment", blocks)
