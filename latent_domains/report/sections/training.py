"""The terms of the loss along training."""

from collections.abc import Sequence

from latent_domains.report.comparison import Setting
from latent_domains.report.page import Block, Charts, Heading, Section, Text
from latent_domains.report.training import loss_curves


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
                "" if any(isinstance(block, Charts) for block in blocks) else _TERMS,
                [line.key for line in lines],
            )
        )
    return Section("training", "Along training", blocks)


_TERMS = (
    "The terms of the loss on the training batches, before their weights. Low h_C: the net is sure of the target's "
    "classes. Low h_D: the branch is sure of the domain it gives each source image, which does not mean that it is "
    "right, or that it uses more than one. Lines are means over the seeds, bands go from the lowest to the highest."
)


def _no_log(setting: Setting) -> Text:
    names = [run.name for run in setting.runs]
    return Text(
        f"No training log of {', '.join(names[:3]) or setting.name}{' …' if len(names) > 3 else ''} is here, so there "
        "are no curves: a kept record holds the end alone. Training the run again writes RUN/train.log.",
        note=True,
    )
