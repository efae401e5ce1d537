"""Which classes are taken for which, by the runs that are shown."""

from collections.abc import Sequence

from latent_domains.report import classes
from latent_domains.report.comparison import Setting
from latent_domains.report.page import Block, Charts, Section, Table, Text
from latent_domains.report.runs import Run


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
                    "" if blocks else _MATRICES,
                    classes.keys(found),
                )
            )
            if rows := classes.most_confused({name: counts for name, (_, counts) in found.items()}, labels, 10):
                header = ["true → predicted", *(f"#{name}" for name in found)]
                blocks.append(Table(f"The commonest errors on {target}, in images", header, rows))
    if not blocks:
        blocks.append(Text(_why_none(shown), note=True))
    return Section("classes", "Classes", blocks)


def _why_none(shown: Sequence[Run]) -> str:
    """Why there are no confusion counts."""
    finished = [run.experiment for run in shown if run.record]
    if finished and not any(experiment.tests for experiment in finished):
        return "The target's labels are not known, so nobody can say which classes are taken for which."
    return (
        "The records hold no confusion counts (those of older versions do not). With the run's snapshots: "
        "python -m tools.evaluate RUN."
    )


_MATRICES = (
    "Rows are true classes, columns, in the same order, what the net took them for; each row adds up to 100 %, and "
    "what lies off the diagonal are errors. The last chart is the diagonal alone: a mark for each run."
)
