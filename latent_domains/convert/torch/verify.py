"""Compares a converted net with the checkpoint's own on the same inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from latent_domains.convert.torch.caffe_weights import Pixels
from latent_domains.convert.torch.reference import TorchNet
from latent_domains.models.compare import Difference, difference, differences, keep_worst, worst
from latent_domains.models.inputs import in_batches
from latent_domains.models.model import Array, Model, forward, load


@dataclass(frozen=True)
class Comparison:
    """The largest differences between the checkpoint's net and Caffe's, over all inputs."""

    plain: list[Difference]
    mda: dict[int, list[Difference]]
    """By number of domains; on images that go on in their mean beyond the border."""
    mda_mean: Sequence[float]
    border: float
    """What that border alone changes in the features, as a part of their largest value."""
    same_class: int
    """Inputs with the same best class."""
    judged: int
    """Inputs whose best class was looked at: none without a head."""


def compare(
    reference: TorchNet, of_plain: Pixels, plain: Model, of_mda: Pixels, mda: Mapping[int, Model], pixels: Array
) -> Comparison:
    """Run the checkpoint's net, Caffe's and the mDA nets on pixels (N×3×H×W; B, G, R, 0 to 255), as they take them."""
    plain_net, mda_nets = load(plain), {number: load(model) for number, model in mda.items()}
    plain_rows: dict[str, Difference] = {}
    mda_rows: dict[int, dict[str, Difference]] = {number: {} for number in mda}
    border, same, judged = 0.0, 0, 0
    with tqdm(desc="compared with the checkpoint's net", total=len(pixels), unit="input") as bar:
        for batch in in_batches(pixels):
            expected, found = reference.run(batch), forward(plain_net, of_plain.entering(batch))
            keep_worst(plain_rows, differences(expected, found))
            if reference.head:
                same += int((expected[reference.head].argmax(axis=1) == found[reference.head].argmax(axis=1)).sum())
                judged += len(batch)
            framed = expected
            if mda and of_mda.mean != of_plain.mean:
                framed = reference.run(batch, border=of_mda.mean)
                border = max(border, difference("", expected[reference.pooled], framed[reference.pooled]).relative)
            for number, net in mda_nets.items():
                of_body = {name: values for name, values in framed.items() if name != reference.head}
                found = forward(net, of_mda.entering(batch))
                keep_worst(mda_rows[number], differences(of_body, found))
            bar.update(len(batch))
    by_domains = {number: list(rows.values()) for number, rows in mda_rows.items()}
    return Comparison(list(plain_rows.values()), by_domains, of_mda.mean, border, same, judged)


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
    framed = ""
    if comparison.border:
        framed = f", on images that go on in {numbers(comparison.mda_mean)} beyond their border"
    for number, rows in comparison.mda.items():
        furthest = worst(rows)
        print(f"{mda_files[number].name}{framed}: {furthest.name} differs most, by {furthest.relative:.1e}")
    if comparison.border:
        print(
            f"in the mDA nets this border is {numbers(comparison.mda_mean)} and not the checkpoint's mean: "
            f"it alone changes the features by up to {comparison.border:.1e} of their largest value"
        )


def numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
