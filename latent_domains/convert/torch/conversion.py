"""A checkpoint's net converted, compared and written: the net itself, and weights that mDA nets begin with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.files import check_free
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch.caffe_weights import Pixels, Standardisation, caffe_model
from latent_domains.convert.torch.contents import Checkpoint
from latent_domains.convert.torch.read import read_lite0, read_resnet
from latent_domains.convert.torch.reference import TorchNet, torch_lite0, torch_resnet
from latent_domains.convert.torch.verify import Converted, numbers, verify
from latent_domains.data.image_list import printable
from latent_domains.experiment.datasets import of_network
from latent_domains.experiment.networks import NETWORKS, Network
from latent_domains.models.inputs import tried
from latent_domains.models.model import model_files, weights_bytes, write_model
from latent_domains.nets.resnet import SHAPE

IMAGENET = Standardisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""The standardisation of torchvision and fb.resnet.torch."""

LITE0_STANDARDISATION = Standardisation((127 / 255,) * 3, (128 / 255,) * 3)
"""TensorFlow's training of EfficientNet-Lite0: (p - 127) / 128, R, G, B."""


@dataclass(frozen=True)
class _Family:
    """How nets of a family are read, converted and compared. ``needs`` tells in the prototxt which pixels they take."""

    program: str
    read: Callable[..., Checkpoint]
    reference: Callable[[Checkpoint, Standardisation], TorchNet]
    standardisation: Standardisation
    shape: tuple[int, int, int]
    pixels: Pixels
    mda_pixels: Pixels
    needs: str


def _resnets(standardisation: Standardisation) -> _Family:
    mean = standardisation.caffe_mean
    needs = f"less the mean {numbers(mean)}. Zeros around it are that mean, as in Torch."
    pixels = Pixels(mean), Pixels(of_network("resnet18").mean)
    return _Family("convert_resnet", read_resnet, torch_resnet, standardisation, SHAPE, *pixels, needs)


def _lite0() -> _Family:
    form = NETWORKS["lite0"].pixels
    pixels = Pixels(form.mean, form.scale)
    needs = f"less {numbers(form.mean)}, times {form.scale:g}."
    return _Family("convert_lite0", read_lite0, torch_lite0, LITE0_STANDARDISATION, form.shape, pixels, pixels, needs)


def convert(
    program: str,
    checkpoint: Path,
    out: Path,
    options: ConverterOptions,
    *,
    head: bool,
    num_domains: Sequence[int],
    standardisation: Standardisation = IMAGENET,
) -> None:
    """Read, convert, compare, and write OUT.prototxt and OUT.caffemodel; print how far they agree.

    ``program`` is convert_resnet or convert_lite0, whose ``standardisation`` is always its own.
    OUT_mdaD.caffemodel comes with them for each D of ``num_domains``, source and target together. Raises ProgramError
    if the checkpoint is another net's, if a file to write exists and may not be replaced, or would differ.
    """
    family = _lite0() if program == "convert_lite0" else _resnets(standardisation)
    net_file, weights_file = model_files(out)
    mda_files = {number: out.with_name(f"{out.name}_mda{number}.caffemodel") for number in num_domains}
    files = (net_file, weights_file, *mda_files.values())
    check_free(*files, force=options.force, inputs=[checkpoint])
    net = family.read(checkpoint, head=head)
    title = net.architecture.title
    print(f"{checkpoint}: {title}, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in net.notes:
        print(f"note: {note}")
    nets = {weights_file: Converted(caffe_model(net, family.standardisation, family.pixels), family.pixels)}
    for number, file in mda_files.items():
        model = caffe_model(net, family.standardisation, family.mda_pixels, number)
        nets[file] = Converted(model, family.mda_pixels)
    if options.verify:
        pixels, inputs = tried(family.shape, options.seed, options.images)
        verify(family.reference(net, family.standardisation), nets, pixels, inputs)
    else:
        print("not verified")
    name = printable(Path(checkpoint.name))
    about = f"Input: B, G, R from 0 to 255 {family.needs}\n{title} of {name}, by python -m tools.{family.program}."
    beside = {file: weights_bytes(nets[file].model) for file in mda_files.values()}
    write_model(nets[weights_file].model, out, about=about, force=options.force, beside=beside)
    print(f"wrote {', '.join(map(str, files))}")


def convert_checkpoint(network: Network, checkpoint: Path, folder: Path, num_domains: Sequence[int]) -> None:
    """Write the caffemodels of a network that has a converter, in place of older ones: without mDA, and of each number.

    They have no classifier, and are compared with the checkpoint's net before that.
    """
    options = ConverterOptions(force=True)
    convert(network.converter, checkpoint, folder / network.name, options, head=False, num_domains=num_domains)


def is_converted(network: Network, checkpoint: Path, folder: Path, num_domains: Sequence[int]) -> bool:
    """Whether the caffemodels of these numbers (0: without mDA) exist and none is older than the checkpoint."""
    files = [folder / network.weights_name(number) for number in num_domains]
    return all(file.is_file() and file.stat().st_mtime >= checkpoint.stat().st_mtime for file in files)
