"""The sections of a report: what is shown in each, what is said beside it, and what where something is missing."""

from collections.abc import Callable, Sequence

from tools.evaluate import last_snapshot
from tools.program import ROOT, ProgramError
from tools.report import classes
from tools.report.accuracy import accuracy_chart
from tools.report.comparison import Setting
from tools.report.domains import COLLAPSED, history_chart, matrix_chart, shares_chart, subscript, told
from tools.report.embedding import FIGURES, class_keys, domain_keys, embedding_charts
from tools.report.features import features_of
from tools.report.page import Block, Charts, Heading, Section, Strip, Strips, Table, Text
from tools.report.runs import Run
from tools.report.samples import Samples, are_pictures, samples_of, strip
from tools.report.training import loss_curves, target_curves
from tools.run_folder import RunFolder, Snapshot
from tools.tables.markdown import signed

_NOTHING = "–"


def accuracy_section(settings: Sequence[Setting]) -> Section:
    """Bars and their numbers, for each setting."""
    blocks: list[Block] = []
    for number, setting in enumerate(settings, 1):
        if len(settings) > 1:
            blocks.append(Heading(setting.name))
        bars, caption = [], ""
        if any(line.scores or line.paper is not None for line in setting.lines):
            bars.append(accuracy_chart(setting, f"accuracy-{number}"))
            caption = (
                "Each bar is the mean over the seeds, at the last iteration; the dots are the seeds, the thin line "
                "spans one standard deviation on both sides. The dark diamond is the number printed in the paper."
            )
        else:
            blocks.append(Text("No run is finished yet, so there is no accuracy to show.", note=True))
        curves = target_curves(setting, f"curve-{number}")
        if curves:
            caption += (
                " The curves show how the accuracy grew: their lines are means over the seeds, their bands go from the "
                "lowest seed to the highest. Target labels are looked at here alone: training never sees them, and no "
                "iteration is chosen by them."
            )
        if bars or curves:
            keys = [line.key for line in setting.lines if any(run.curves for run in line.runs)] if curves else []
            blocks.append(Charts([*bars, *curves], caption.strip(), keys))
        rows = [
            [
                line.name,
                _NOTHING if line.paper is None else f"{line.paper:.1f}",
                _NOTHING if line.mean is None else f"{line.mean:.1f}",
                _NOTHING if line.std is None else f"{line.std:.1f}",
                str(len(line.scores) or _NOTHING),
                _NOTHING if line.mean is None or line.paper is None else signed(line.mean - line.paper),
            ]
            for line in setting.lines
        ]
        header = ["method", "#paper (%)", "#here (%)", "#std", "#n", "#difference"]
        blocks.append(Table(f"Accuracy, {setting.name}", header, rows))
    return Section("accuracy", "Accuracy on the target", blocks)


def training_section(settings: Sequence[Setting]) -> Section:
    """The terms of the loss, for each setting."""
    blocks: list[Block] = []
    for number, setting in enumerate(settings, 1):
        lines = [line for line in setting.lines if any(run.curves for run in line.runs)]
        if len(settings) > 1:
            blocks.append(Heading(setting.name))
        if not lines:
            blocks.append(_no_log(setting))
            continue
        blocks.append(
            Charts(
                loss_curves(setting, f"loss-{number}"),
                "The terms of the loss on the training batches, before their weights. Low h_C: the net is sure of the "
                "target's classes. Low h_D: the branch is sure of the domain it gives each source image, which does "
                "not mean that it is right, or that it uses more than one. Lines are means over the seeds, bands go "
                "from the lowest to the highest.",
                [line.key for line in lines],
            )
        )
    return Section("training", "Along training", blocks)


def _no_log(setting: Setting) -> Text:
    names = [run.name for run in setting.runs]
    return Text(
        f"No training log of {', '.join(names[:3]) or setting.name}{' …' if len(names) > 3 else ''} is here, so there "
        "are no curves: a kept record holds the end alone. Training the run again writes RUN/train.log.",
        note=True,
    )


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
                shares_chart(setting.lines, f"shares-{number}")
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
    else:
        blocks.append(
            Text(
                "The record does not say how the domains were used along training. Where the run's snapshots are, make "
                "it again: python -m tools.evaluate RUN.",
                note=True,
            )
        )
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
        found = samples_of(*_trained(run))
    except ProgramError as error:
        return [_missing("No images of the latent domains", error)]
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
                    strip(images, 8),
                    f"probability {sure.min():.2f} to {sure.max():.2f}; {counts}",
                )
            )
    return strips


def alignment_section(shown: Sequence[Run], quick: bool, images: int, step: Callable[[], None]) -> Section:
    """Features of the shown runs in two dimensions, before and after the alignment."""
    blocks: list[Block] = []
    if quick:
        return Section("alignment", "Features before and after alignment", [Text("Left out (--quick).", note=True)])
    for run in shown:
        blocks.append(Heading(f"{run.experiment.title}: {run.name}"))
        try:
            features, labels = features_of(*_trained(run), images), classes.names(run)
        except ProgramError as error:
            blocks.append(_missing("No features", error))
            continue
        many = " More than ten classes: colours and marks repeat." if len(labels) > FIGURES else ""
        sees_target = run.experiment.sees_target
        early, last = ("Before alignment", "After alignment") if sees_target else ("Early features", "Last features")
        charts = embedding_charts(features, labels, f"embedding-{run.name}", early, last)
        how = (
            "Before alignment is what the first mDA layer gets; after alignment is what the classifier gets, each "
            "batch aligned with its own statistics, as in training."
            if sees_target
            else "This net has never seen the target: its last features are normalised with the sources' statistics. "
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


def _trained(run: Run) -> tuple[RunFolder, Snapshot]:
    """The run's folder and last snapshot. Raises ProgramError if they are not there."""
    if run.folder is None:
        raise ProgramError(
            f"of {run.name} there is the record alone; train the run to have its snapshots (python -m tools.write_run, "
            "python -m tools.train)"
        )
    snapshot = run.folder.latest_snapshot()
    if run.record and (snapshot is None or snapshot.iteration < run.experiment.iterations):
        raise ProgramError(
            f"{run.folder.snapshots} holds no snapshot of iteration {run.experiment.iterations} any more"
        )
    return run.folder, last_snapshot(run.folder)


def _missing(what: str, error: ProgramError) -> Text:
    """Why something cannot be shown; files of the repository are named as from its root."""
    return Text(f"{what}: {str(error).replace(f'{ROOT}/', '')}.", note=True)


def classes_section(settings: Sequence[Setting], shown: Sequence[Run]) -> Section:
    """Confusion matrices and accuracy on each class, of the shown runs on each target."""
    blocks: list[Block] = []
    for number, setting in enumerate(settings, 1):
        for target in setting.targets:
            found = {}
            for run in shown:
                if run in setting.runs and (counts := classes.confusion(run, target)) is not None:
                    found[run.name] = (run, counts)
            if not found:
                continue
            labels = classes.names(next(iter(found.values()))[0])
            charts = [
                classes.confusion_chart(
                    counts, labels, f"confusion-{name}-{target}", f"{run.experiment.title} on {target} (%)"
                )
                for name, (run, counts) in found.items()
            ]
            charts.append(classes.class_chart(found, labels, f"classes-{number}-{target}", target))
            blocks.append(
                Charts(
                    charts,
                    "Rows are true classes, columns what the net took them for; each row adds up to 100 %, and what "
                    "lies off the diagonal are errors. The last chart is the diagonal alone: a mark for each run.",
                    classes.keys(found),
                )
            )
            if rows := classes.most_confused({name: counts for name, (_, counts) in found.items()}, labels, 10):
                header = ["true → predicted", *(f"#{name}" for name in found)]
                blocks.append(Table(f"The commonest errors on {target}, in images", header, rows))
    if not blocks:
        reason = "The records hold no confusion counts (those of older versions do not, nor do targets without labels)."
        blocks.append(Text(f"{reason} With the run's snapshots: python -m tools.evaluate RUN.", note=True))
    return Section("classes", "Classes", blocks)
