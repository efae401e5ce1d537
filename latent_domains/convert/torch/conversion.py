"""A checkpoint's net converted, compared and written: the net itself, and weights that mDA nets begin with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from latent_domains.common.files import check_free
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch.caffe_weights import Pixels, Standardisation, caffe_model
from latent_domains.convert.torch.contents import Checkpoint
from latent_domains.convert.torch.read import read_lite0, read_resnet
from latent_domains.convert.torch.reference import TorchNet, torch_lite0, torch_resnet
from latent_domains.convert.torch.verify import compare, numbers, report
from latent_domains.data.image_list import printable
from latent_domains.experiment.datasets import of_network
from latent_domains.experiment.networks import NETWORKS, Network
from latent_domains.models.compare import require
from latent_domains.models.inputs import tried
from latent_domains.models.model import model_files, weights_bytes, write_model
from latent_domains.nets.resnet import SHAPE

IMAGENET = Standardisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""What torchvision and fb.resnet.torch train with."""

LITE0_STANDARDISATION = Standardisation((127 / 255,) * 3, (128 / 255,) * 3)
"""TensorFlow's training of EfficientNet-Lite0: (p - 127) / 128, R, G, B."""

MDA_MEAN = of_network("resnet18").mean


@dataclass(frozen=True)
class _Kind:
    """How nets of a kind are read, converted and compared. ``needs`` says in the prototxt which pixels a net takes."""

    program: str
    read: Callable[..., Checkpoint]
    reference: Callable[[Checkpoint, Standardisation], TorchNet]
    standardisation: Standardisation
    shape: tuple[int, int, int]
    of_plain: Pixels
    of_mda: Pixels
    needs: str


def convert_resnet(
    checkpoint: Path,
    out: Path,
    options: ConverterOptions,
    *,
    head: bool,
    num_domains: Sequence[int],
    standardisation: Standardisation = IMAGENET,
) -> None:
    """Convert a ResNet: see :func:`_convert`."""
    mean = standardisation.caffe_mean
    needs = f"less the mean {numbers(mean)}. Zeros around it are that mean, as in Torch."
    pixels = Pixels(mean), Pixels(MDA_MEAN)
    kind = _Kind("convert_resnet", read_resnet, torch_resnet, standardisation, SHAPE, *pixels, needs)
    _convert(kind, checkpoint, out, options, head=head, num_domains=num_domains)


def convert_lite0(
    checkpoint: Path, out: Path, options: ConverterOptions, *, head: bool, num_domains: Sequence[int]
) -> None:
    """Convert EfficientNet-Lite0: see :func:`_convert`."""
    form = NETWORKS["lite0"].pixels
    pixels = Pixels(form.mean, form.scale)
    needs = f"less {numbers(form.mean)}, times {form.scale:g}."
    standardisation = LITE0_STANDARDISATION
    kind = _Kind("convert_lite0", read_lite0, torch_lite0, standardisation, form.shape, pixels, pixels, needs)
    _convert(kind, checkpoint, out, options, head=head, num_domains=num_domains)


def _convert(
    kind: _Kind, checkpoint: Path, out: Path, options: ConverterOptions, *, head: bool, num_domains: Sequence[int]
) -> None:
    """Read, convert, compare, and write OUT.prototxt and OUT.caffemodel; print how far they agree.

    OUT_mdaD.caffemodel comes with them for each D of ``num_domains``, source and target together. Raises ProgramError
    if the checkpoint is another net's, if a file to write exists and may not be replaced, or would differ.
    """
    net_file, weights_file = model_files(out)
    mda_files = {number: out.with_name(f"{out.name}_mda{number}.caffemodel") for number in num_domains}
    files = (net_file, weights_file, *mda_files.values())
    check_free(*files, force=options.force, inputs=[checkpoint])
    net = kind.read(checkpoint, head=head)
    title = net.architecture.title
    print(f"{checkpoint}: {title}, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in net.notes:
        print(f"note: {note}")
    plain = caffe_model(net, kind.standardisation, kind.of_plain)
    mda = {number: caffe_model(net, kind.standardisation, kind.of_mda, number) for number in num_domains}
    if options.verify:
        pixels, inputs = tried(kind.shape, options.seed, options.images)
        reference = kind.reference(net, kind.standardisation)
        comparison = compare(reference, kind.of_plain, plain, kind.of_mda, mda, pixels)
        require(weights_file, comparison.plain)
        for number, rows in comparison.mda.items():
            require(mda_files[number], rows)
        report(comparison, mda_files, inputs)
    else:
        print("not verified")
    name = printable(Path(checkpoint.name))
    about = f"Input: B, G, R from 0 to 255 {kind.needs}\n{title} of {name}, by python -m tools.{kind.program}."
    beside = {mda_files[number]: weights_bytes(model) for number, model in mda.items()}
    write_model(plain, out, about=about, force=options.force, beside=beside)
    print(f"wrote {', '.join(map(str, files))}")


_CONVERT = {"convert_resnet": convert_resnet, "convert_lite0": convert_lite0}
"""By the program."""


def convert_checkpoint(network: Network, checkpoint: Path, folder: Path, num_domains: Sequence[int]) -> None:
    """Write the caffemodels of a network that has a converter, in place of older ones: without mDA, and of each number.

    They have no classifier, and are compared with the checkpoint's net before that.
    """
    convert = partial(_CONVERT[network.converter], checkpoint, folder / network.name, ConverterOptions(force=True))
    convert(head=False, num_domains=num_domains)


def is_converted(network: Network, checkpoint: Path, folder: Path, num_domains: Sequence[int]) -> bool:
    """Whether the caffemodels of these numbers (0: without mDA) stand and none is older than the checkpoint."""
    files = [folder / network.weights_name(number) for number in num_domains]
    return all(file.is_file() and file.stat().st_mtime >= checkpoint.stat().st_mtime for file in files)
