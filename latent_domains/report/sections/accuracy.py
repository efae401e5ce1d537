"""How accurate the runs are on the target, beside the paper, and how they came there."""

from collections.abc import Sequence

from latent_domains.report.accuracy import accuracy_chart
from latent_domains.report.comparison import Line, Setting
from latent_domains.report.page import Block, Charts, Heading, Section, Table, Text
from latent_domains.report.training import target_curves
from latent_domains.tables.markdown import signed

_NOTHING = "–"


def accuracy_section(settings: Sequence[Setting]) -> Section:
    """Bars and learning curves of each setting, then their numbers."""
    blocks: list[Block] = []
    said = set()
    for number, setting in enumerate(settings, 1):
        if len(settings) > 1:
            blocks.append(Heading(setting.name))
        bars = []
        if any(line.scores or line.paper is not None for line in setting.lines):
            bars.append(accuracy_chart(setting, f"accuracy-{number}"))
        else:
            finished = any(run.record for run in setting.runs)
            why = "The target's labels are not known" if finished else "No run is finished yet"
            blocks.append(Text(f"{why}, so there is no accuracy to show.", note=True))
        curves = target_curves(setting, f"curve-{number}")
        texts = [text for charts, text in ((bars, _BARS), (curves, _CURVES)) if charts and text not in said]
        said |= set(texts)
        keys = [line.key for line in setting.lines if any(run.curves for run in line.runs)] if curves else []
        if bars or curves:
            blocks.append(Charts([*bars, *curves], " ".join(texts), keys))
    names = [[line.name for line in setting.lines] for setting in settings]
    if len(settings) > 1 and all(of_setting == names[0] for of_setting in names):
        blocks.append(_table_of_several(settings))
    else:
        blocks += [_table_of_one(setting) for setting in settings]
    return Section("accuracy", "Accuracy on the target", blocks)


_BARS = (
    "Each bar is the mean over the seeds, at the last iteration; the dots are the seeds, the thin line spans one "
    "standard deviation on both sides. The dark diamond is the number printed in the paper."
)
_CURVES = (
    "The curves show how the accuracy grew: their lines are means over the seeds, their bands go from the lowest seed "
    "to the highest. Target labels are looked at here alone: training never sees them, and no iteration is chosen by "
    "them."
)


def _table_of_one(setting: Setting) -> Table:
    rows = [
        [
            line.name,
            _paper(line),
            _NOTHING if line.mean is None else f"{line.mean:.1f}",
            _NOTHING if line.std is None else f"{line.std:.1f}",
            str(len(line.scores) or _NOTHING),
            _NOTHING if line.mean is None or line.paper is None else signed(line.mean - line.paper),
        ]
        for line in setting.lines
    ]
    header = ["method", "#paper (%)", "#here (%)", "#std", "#n", "#difference"]
    return Table(f"Accuracy, {setting.name}", header, rows)


def _table_of_several(settings: Sequence[Setting]) -> Table:
    """Lines of the same names: a row for each, two columns for each setting."""
    rows = []
    for lines in zip(*(setting.lines for setting in settings), strict=True):
        rows.append([lines[0].name, *(cell for line in lines for cell in (_paper(line), _here(line)))])
    header = [name for setting in settings for name in (f"#{setting.name}, paper", "#here (n)")]
    return Table("Accuracy (%): the paper's, then ours with the number of seeds", ["method", *header], rows)


def _paper(line: Line) -> str:
    return _NOTHING if line.paper is None else f"{line.paper:.1f}"


def _here(line: Line) -> str:
    if line.mean is None:
        return _NOTHING
    spread = "" if line.std is None else f" ± {line.std:.1f}"
    return f"{line.mean:.1f}{spread} ({len(line.scores)})"
