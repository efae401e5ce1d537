"""Compares converted nets with the checkpoint's own on the same inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from latent_domains.convert.torch.caffe_weights import Pixels
from latent_domains.convert.torch.reference import OwnNet, TorchNet
from latent_domains.models.compare import Difference, differences, keep_worst, require, worst
from latent_domains.models.inputs import in_batches
from latent_domains.models.model import Array, Model, forward, load


@dataclass(frozen=True)
class Converted:
    """A net in Caffe, and what it takes."""

    model: Model
    pixels: Pixels


def verify(reference: TorchNet | OwnNet, nets: Mapping[Path, Converted], pixels: Array, inputs: str) -> None:
    """Run the checkpoint's net and Caffe's on pixels (N×3×H×W; B, G, R, 0 to 255) and print how they agree.

    ``nets`` are the net itself and those with mDA, by the files that are to hold their weights; ``inputs`` names the
    pixels. The checkpoint's net gets images padded with Caffe's mean. Raises ProgramError naming the file if a net
    differs.
    """
    file, *mda_files = nets
    loaded = {name: load(net.model) for name, net in nets.items()}
    rows: dict[Path, dict[str, Difference]] = {name: {} for name in nets}
    same, head = 0, reference.head
    for batch in tqdm(in_batches(pixels), desc="compared with the checkpoint's net", unit="batch"):
        expected: dict[Sequence[float], dict[str, Array]] = {}
        for name, net in nets.items():
            mean = net.pixels.mean
            if mean not in expected:
                expected[mean] = reference.run(batch, border=mean)
            found = forward(loaded[name], net.pixels.entering(batch))
            compared = {blob: found[blob] for blob in expected[mean] if name == file or blob != head}
            keep_worst(rows[name], differences(expected[mean], compared))
            if name == file and head:
                same += int((expected[mean][head].argmax(axis=1) == found[head].argmax(axis=1)).sum())
    for name, of_net in rows.items():
        require(name, list(of_net.values()))
    blobs, furthest = list(rows[file]), worst(list(rows[file].values()))
    best = f"; the best class is the same for {same} of {len(pixels)}" if head else ""
    print(
        f"compared with the checkpoint's own net on {inputs}: of {len(blobs)} blobs from {blobs[0]} to {blobs[-1]} "
        f"{furthest.name} differs most, by {furthest.relative:.1e} of its largest value{best}"
    )
    for name in mda_files:
        mean, furthest = numbers(nets[name].pixels.mean), worst(list(rows[name].values()))
        print(f"{name.name}, on images padded with {mean}: {furthest.name} differs most, by {furthest.relative:.1e}")


def numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
