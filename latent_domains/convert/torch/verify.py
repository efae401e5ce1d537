"""A converted ResNet beside the checkpoint's own net, on the same inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from latent_domains.convert.torch.torch_reference import POOLED, TorchNet
from latent_domains.experiment.datasets import DATASETS
from latent_domains.models.compare import Difference, difference, differences, keep_worst, worst
from latent_domains.models.inputs import in_batches
from latent_domains.models.model import Array, Model, forward, load

MDA_MEAN = DATASETS["pacs"].mean


@dataclass(frozen=True)
class Comparison:
    """The largest differences between the checkpoint's net and Caffe's, over all inputs."""

    plain: list[Difference]
    mda: dict[int, list[Difference]]
    """By number of domains; on images that go on in MDA_MEAN beyond their border."""
    border: float
    """What that border alone changes in the features, as a part of their largest value."""
    same_class: int
    """Inputs with the same best class."""
    judged: int
    """Inputs whose best class was looked at: none without a head."""


def compare(
    reference: TorchNet, caffe_mean: Sequence[float], plain: Model, mda: Mapping[int, Model], pixels: Array
) -> Comparison:
    """Run the checkpoint's net, Caffe's (less ``caffe_mean``) and the mDA nets on pixels (N×3×224×224; B, G, R)."""
    plain_net, mda_nets = load(plain), {number: load(model) for number, model in mda.items()}
    plain_rows: dict[str, Difference] = {}
    mda_rows: dict[int, dict[str, Difference]] = {number: {} for number in mda}
    border, same, judged = 0.0, 0, 0
    with tqdm(desc="compared with the checkpoint's net", total=len(pixels), unit="input") as bar:
        for batch in in_batches(pixels):
            expected, found = reference.run(batch), forward(plain_net, batch - _channels(caffe_mean))
            keep_worst(plain_rows, differences(expected, found))
            if reference.head:
                same += int((expected[reference.head].argmax(axis=1) == found[reference.head].argmax(axis=1)).sum())
                judged += len(batch)
            if mda:
                framed = reference.run(batch, border=MDA_MEAN)
                framed.pop(reference.head, None)
                border = max(border, difference(POOLED, expected[POOLED], framed[POOLED]).relative)
                for number, net in mda_nets.items():
                    keep_worst(mda_rows[number], differences(framed, forward(net, batch - _channels(MDA_MEAN))))
            bar.update(len(batch))
    by_domains = {number: list(rows.values()) for number, rows in mda_rows.items()}
    return Comparison(list(plain_rows.values()), by_domains, border, same, judged)


def _channels(mean: Sequence[float]) -> Array:
    return np.array(mean, np.float32).reshape(1, 3, 1, 1)


def report(comparison: Comparison, mda_files: Mapping[int, Path], inputs: str) -> None:
    rows = comparison.plain
    best = ""
    if comparison.judged:
        best = f"; the best class is the same for {comparison.same_class} of {comparison.judged}"
    furthest = worst(rows)
    print(
        f"compared with the checkpoint's own net on {inputs}: of {len(rows)} blobs from {rows[0].name} to "
        f"{rows[-1].name} {furthest.name} differs most, by {furthest.relative:.1e} of its largest value{best}"
    )
    for number, rows in comparison.mda.items():
        furthest = worst(rows)
        print(
            f"{mda_files[number].name}, on images that go on in {numbers(MDA_MEAN)} beyond their border: "
            f"{furthest.name} differs most, by {furthest.relative:.1e}"
        )
    if comparison.mda:
        print(
            f"in the mDA nets this border is {numbers(MDA_MEAN)} and not the checkpoint's mean: "
            f"it alone changes {POOLED} by up to {comparison.border:.1e} of its largest value"
        )


def numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
