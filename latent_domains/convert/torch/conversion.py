"""A checkpoint's net converted, compared and written: the net itself, and weights that mDA nets begin with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from latent_domains.common.files import check_free
from latent_domains.common.program import ProgramError
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch.caffe_weights import Pixels, Standardisation, caffe_model
from latent_domains.convert.torch.contents import Checkpoint
from latent_domains.convert.torch.read import read_checkpoint
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
class _Form:
    """How a net is compared, and which pixels it takes. ``needs`` says so in the prototxt."""

    reference: Callable[[Checkpoint, Standardisation], TorchNet]
    standardisation: Standardisation
    shape: tuple[int, int, int]
    pixels: Pixels
    mda_pixels: Pixels
    needs: str


def _resnet_form(standardisation: Standardisation) -> _Form:
    mean = standardisation.caffe_mean
    needs = f"less the mean {numbers(mean)}. Zeros around it are that mean, as in Torch."
    return _Form(torch_resnet, standardisation, SHAPE, Pixels(mean), Pixels(of_network("resnet18").mean), needs)


def _lite0_form() -> _Form:
    form = NETWORKS["lite0"].pixels
    pixels = Pixels(form.mean, form.scale)
    needs = f"less {numbers(form.mean)}, times {form.scale:g}."
    return _Form(torch_lite0, LITE0_STANDARDISATION, form.shape, pixels, pixels, needs)


def convert(
    checkpoint: Path,
    out: Path,
    options: ConverterOptions,
    *,
    head: bool,
    num_domains: Sequence[int],
    standardisation: Standardisation | None = None,
    network: Network | None = None,
) -> None:
    """Read, convert, compare, and write OUT.prototxt and OUT.caffemodel; print how far they agree.

    OUT_mdaD.caffemodel comes with them for each D of ``num_domains``, source and target together. ``standardisation``
    is a ResNet's (None: IMAGENET). Raises ProgramError if the checkpoint is of an unknown net or not of ``network``
    (None: any), if a file to write exists and may not be replaced, or would differ.
    """
    net_file, weights_file = model_files(out)
    mda_files = {number: out.with_name(f"{out.name}_mda{number}.caffemodel") for number in num_domains}
    files = (net_file, weights_file, *mda_files.values())
    check_free(*files, force=options.force, inputs=[checkpoint])
    net = read_checkpoint(checkpoint, head=head)
    title, is_lite0 = net.architecture.title, net.architecture.name == "lite0"
    if network is not None and network.name != net.architecture.name:
        raise ProgramError(f"{checkpoint}: the weights of {title}, expected those of {network.title}")
    if is_lite0 and standardisation is not None:
        raise ProgramError(f"{checkpoint}: {title}, which has a mean and deviation of its own: omit --mean and --std")
    form = _lite0_form() if is_lite0 else _resnet_form(standardisation or IMAGENET)
    print(f"{checkpoint}: {title}, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in net.notes:
        print(f"note: {note}")
    nets = {weights_file: Converted(caffe_model(net, form.standardisation, form.pixels), form.pixels)}
    for number, file in mda_files.items():
        nets[file] = Converted(caffe_model(net, form.standardisation, form.mda_pixels, number), form.mda_pixels)
    if options.verify:
        pixels, inputs = tried(form.shape, options.images)
        verify(form.reference(net, form.standardisation), nets, pixels, inputs)
    else:
        print("not verified")
    name = printable(Path(checkpoint.name))
    about = f"Input: B, G, R from 0 to 255 {form.needs}\n{title} of {name}, by python -m tools.convert_torch."
    beside = {file: weights_bytes(nets[file].model) for file in mda_files.values()}
    write_model(nets[weights_file].model, out, about=about, force=options.force, beside=beside)
    print(f"wrote {', '.join(map(str, files))}")


def convert_checkpoint(network: Network, checkpoint: Path, folder: Path, num_domains: Sequence[int]) -> None:
    """Write a network's caffemodels, in place of older ones: without mDA, and of each number.

    They have no classifier, and are compared with the checkpoint's net before that.
    """
    options = ConverterOptions(force=True)
    convert(checkpoint, folder / network.name, options, head=False, num_domains=num_domains, network=network)


def is_converted(network: Network, checkpoint: Path, folder: Path, num_domains: Sequence[int]) -> bool:
    """Whether the caffemodels of these numbers (0: without mDA) exist and none is older than the checkpoint."""
    files = [folder / network.weights_name(number) for number in num_domains]
    return all(file.is_file() and file.stat().st_mtime >= checkpoint.stat().st_mtime for file in files)
