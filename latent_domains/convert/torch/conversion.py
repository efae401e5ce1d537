"""A checkpoint's net converted, compared and written: the net itself, and weights that mDA nets begin with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from latent_domains.common.files import check_free
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch.torch_reference import TorchNet
from latent_domains.convert.torch.verify import Pixels, compare, report
from latent_domains.models.compare import require
from latent_domains.models.inputs import tried
from latent_domains.models.model import Model, model_files, weights_bytes, write_model


class Checkpoint(Protocol):
    """What is printed of a checkpoint that was read."""

    classes: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Converted:
    """A checkpoint's net for Caffe, and what it is compared with on inputs of ``shape``."""

    plain: Model
    mda: Mapping[int, Model]
    """By number of domains, source and target together."""
    reference: Callable[[], TorchNet]
    shape: tuple[int, int, int]
    of_plain: Pixels
    of_mda: Pixels
    about: str


Read = tuple[str, Checkpoint, Callable[[], Converted]]
"""A net's title, its checkpoint, and what converts it."""


def convert(
    checkpoint: Path,
    out: Path,
    options: ConverterOptions,
    num_domains: Sequence[int],
    read: Callable[[], Read],
) -> None:
    """Read, convert, compare, and write OUT.prototxt and OUT.caffemodel; print how far they agree.

    OUT_mdaD.caffemodel comes with them for each D of ``num_domains``, source and target together. Raises ProgramError
    if a file to write exists and may not be replaced, or would differ.
    """
    net_file, weights_file = model_files(out)
    mda_files = {number: out.with_name(f"{out.name}_mda{number}.caffemodel") for number in num_domains}
    files = (net_file, weights_file, *mda_files.values())
    check_free(*files, force=options.force, inputs=[checkpoint])
    title, net, make = read()
    print(f"{checkpoint}: {title}, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in net.notes:
        print(f"note: {note}")
    made = make()
    if options.verify:
        pixels, inputs = tried(made.shape, options.seed, options.images)
        comparison = compare(made.reference(), made.of_plain, made.plain, made.of_mda, made.mda, pixels)
        require(weights_file, comparison.plain)
        for number, rows in comparison.mda.items():
            require(mda_files[number], rows)
        report(comparison, mda_files, inputs)
    else:
        print("not verified")
    of_mda = {mda_files[number]: weights_bytes(model) for number, model in made.mda.items()}
    write_model(made.plain, out, about=made.about, force=options.force, beside=of_mda)
    print(f"wrote {', '.join(map(str, files))}")
