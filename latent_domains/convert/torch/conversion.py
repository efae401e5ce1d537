"""A checkpoint's net converted, compared and written: the net itself, and weights that mDA nets begin with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from latent_domains.common.files import check_free, sha256
from latent_domains.common.program import ProgramError
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch.caffe_weights import Pixels, Standardisation, caffe_model
from latent_domains.convert.torch.contents import Checkpoint
from latent_domains.convert.torch.read import read_checkpoint
from latent_domains.convert.torch.reference import OwnNet, TorchNet, torch_lite0, torch_resnet
from latent_domains.convert.torch.verify import Converted, numbers, verify
from latent_domains.data.image_list import printable
from latent_domains.experiment.datasets import of_network
from latent_domains.experiment.networks import NETWORKS, Network
from latent_domains.experiment.pretrained import RESNET18_CNTK, converted_name
from latent_domains.models.inputs import tried
from latent_domains.models.model import model_files, weights_bytes, write_model
from latent_domains.nets.resnet import SHAPE

IMAGENET = Standardisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""The standardisation of torchvision and fb.resnet.torch."""

CNTK = Standardisation(tuple(value / 255 for value in (123.15163, 115.902885, 103.06262)), (1 / 255,) * 3, "BGR")
"""Of CNTK's ResNet18: pixels of 0 to 255 less a mean image, of which this is the mean of each channel."""

OWN_STANDARDISATIONS = {RESNET18_CNTK.file.hashes["sha256"]: CNTK}
"""Of files that are known, by their hash: nothing in them says it."""

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


def _resnet_form(standardisation: Standardisation, net: Checkpoint) -> _Form:
    mean = standardisation.caffe_mean
    shape = (SHAPE[0], *net.own.size) if net.own else SHAPE
    needs = f"less the mean {numbers(mean)}. Zeros around it are that mean, as in Torch."
    return _Form(torch_resnet, standardisation, shape, Pixels(mean), Pixels(of_network("resnet18").mean), needs)


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
    mean: tuple[float, float, float] | None = None,
    std: tuple[float, float, float] | None = None,
    channels: Literal["RGB", "BGR"] | None = None,
    prefix: str | None = None,
    network: Network | None = None,
) -> None:
    """Read, convert, compare, and write OUT.prototxt and OUT.caffemodel; print how far they agree.

    OUT_mdaD.caffemodel comes with them for each D of ``num_domains``, source and target together. ``mean``, ``std`` and
    ``channels`` are a ResNet's standardisation (None: that of a file that is known, else IMAGENET's). ``prefix`` is
    where the net lies in a training checkpoint (None: the only place). Raises ProgramError if the checkpoint is of an
    unknown net or not of ``network`` (None: any), if a file to write exists and may not be replaced, or would differ.
    """
    net_file, weights_file = model_files(out)
    mda_files = {number: converted_file(out, number) for number in num_domains}
    files = (net_file, weights_file, *mda_files.values())
    check_free(*files, force=options.force, inputs=[checkpoint])
    net = read_checkpoint(checkpoint, head=head, prefix=prefix)
    title, is_lite0 = net.architecture.title, net.architecture.name == "lite0"
    known = network is None or sha256(checkpoint) in {weights.file.hashes["sha256"] for weights in network.weights}
    if not known and network.name != net.architecture.name:
        raise ProgramError(f"{checkpoint}: the weights of {title}, expected those of {network.title}")
    if is_lite0 and (mean or std or channels):
        raise ProgramError(f"{checkpoint}: {title}, which has pixels of its own: omit --mean, --std and --channels")
    own = standardisation_of(checkpoint)
    of_resnet = Standardisation(mean or own.mean, std or own.std, channels or own.channels)
    form = _lite0_form() if is_lite0 else _resnet_form(of_resnet, net)
    print(f"{checkpoint}: {title}, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in net.notes:
        print(f"note: {note}")
    if own is CNTK:
        print("note: trained on pixels less a mean image; less its mean in each channel, features are 3 to 5 % off")
    nets = {weights_file: Converted(caffe_model(net, form.standardisation, form.pixels), form.pixels)}
    for number, file in mda_files.items():
        nets[file] = Converted(caffe_model(net, form.standardisation, form.mda_pixels, number), form.mda_pixels)
    if options.verify:
        pixels, inputs = tried(form.shape, options.images)
        rebuilt = form.reference(net, form.standardisation)
        verify(OwnNet(net.own, rebuilt) if net.own else rebuilt, nets, pixels, inputs)
    else:
        print("not verified")
    name = printable(Path(checkpoint.name))
    about = f"Input: B, G, R from 0 to 255 {form.needs}\n{title} of {name}, by python -m tools.convert_torch."
    beside = {file: weights_bytes(nets[file].model) for file in mda_files.values()}
    write_model(nets[weights_file].model, out, about=about, force=options.force, beside=beside)
    print(f"wrote {', '.join(map(str, files))}")


def convert_checkpoint(network: Network, checkpoint: Path, out: Path, num_domains: Sequence[int]) -> None:
    """Write a network's caffemodels, over older ones: without mDA, and for mDA with each of ``num_domains``.

    They have no classifier. They are compared with the checkpoint's net before they are written.
    """
    options = ConverterOptions(force=True)
    convert(checkpoint, out, options, head=False, num_domains=num_domains, network=network)


def standardisation_of(checkpoint: Path) -> Standardisation:
    """The pixels that a ResNet's checkpoint takes: those of a file that is known, else IMAGENET's."""
    return OWN_STANDARDISATIONS.get(sha256(checkpoint), IMAGENET)


def converted_file(out: Path, num_domains: int) -> Path:
    """The caffemodel that nets of so many domains begin from (0: without mDA)."""
    return out.with_name(converted_name(out.name, num_domains))
