"""A checkpoint's net converted, compared and written: the net itself, and weights that mDA nets begin with."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from latent_domains.common.files import check_free
from latent_domains.common.program import ProgramError
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch.caffe_weights import Pixels, caffe_model, usual_pixels
from latent_domains.convert.torch.read import read_checkpoint
from latent_domains.convert.torch.reference import OwnNet, torch_net
from latent_domains.convert.torch.verify import Converted, numbers, verify
from latent_domains.data.image_list import printable
from latent_domains.experiment.datasets import input_of
from latent_domains.experiment.pretrained import published
from latent_domains.models.inputs import tried
from latent_domains.models.model import model_files, weights_bytes, write_model
from latent_domains.networks.network import Network, Pretrained, Standardisation, converted_name


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
    ``channels`` are the standardisation (None: that of published weights, else the network's usual one). ``prefix`` is
    where the net lies in a training checkpoint (None: the only place). Raises ProgramError if the checkpoint is of an
    unknown net or not of ``network`` (None: any), if a file to write exists and may not be replaced, or would differ.
    """
    net_file, weights_file = model_files(out)
    mda_files = {number: converted_file(out, number) for number in num_domains}
    files = (net_file, weights_file, *mda_files.values())
    check_free(*files, force=options.force, inputs=[checkpoint])
    net = read_checkpoint(checkpoint, head=head, prefix=prefix)
    found, weights = net.network, published(checkpoint)
    if network is not None and network.name not in (found.name, weights and weights.network):
        raise ProgramError(f"{checkpoint}: the weights of {found.title}, expected those of {network.title}")
    chosen = {"mean": mean, "std": std, "channels": channels}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    if found.pixels and chosen:
        raise ProgramError(
            f"{checkpoint}: {found.title}, which has pixels of its own: omit --mean, --std and --channels"
        )
    standardisation = replace(standardisation_of(net.network, weights), **chosen)
    form, shape = input_of(found), net.own.size if net.own else input_of(found).shape[1:]
    mda_pixels = Pixels(form.mean, form.scale)
    pixels = usual_pixels(found, standardisation)
    times = f", times {pixels.scale:g}." if found.pixels else ". Zeros around it are that mean, as in Torch."
    needs = f"less {'' if found.pixels else 'the mean '}{numbers(pixels.mean)}{times}"
    print(f"{checkpoint}: {found.title}, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in (*net.notes, *([weights.note] if weights and weights.note else [])):
        print(f"note: {note}")
    nets = {weights_file: Converted(caffe_model(net, standardisation, pixels), pixels)}
    for number, file in mda_files.items():
        nets[file] = Converted(caffe_model(net, standardisation, mda_pixels, number), mda_pixels)
    if options.verify:
        images, inputs = tried((3, *shape), options.images)
        rebuilt = torch_net(net, standardisation)
        verify(OwnNet(net.own, rebuilt) if net.own else rebuilt, nets, images, inputs)
    else:
        print("not verified")
    name = printable(Path(checkpoint.name))
    about = f"Input: B, G, R from 0 to 255 {needs}\n{found.title} of {name}, by python -m tools.convert_torch."
    beside = {file: weights_bytes(nets[file].model) for file in mda_files.values()}
    write_model(nets[weights_file].model, out, about=about, force=options.force, beside=beside)
    print(f"wrote {', '.join(map(str, files))}")


def convert_checkpoint(network: Network, checkpoint: Path, out: Path, num_domains: Sequence[int]) -> None:
    """Write a network's caffemodels, over older ones: without mDA, and for mDA with each of ``num_domains``.

    They have no classifier. They are compared with the checkpoint's net before they are written.
    """
    options = ConverterOptions(force=True)
    convert(checkpoint, out, options, head=False, num_domains=num_domains, network=network)


def standardisation_of(network: Network, weights: Pretrained | None) -> Standardisation:
    """The pixels that a checkpoint takes: those of published ``weights``, else the network's usual ones."""
    return (weights and weights.standardisation) or network.torch.standardisation


def converted_file(out: Path, num_domains: int) -> Path:
    """The caffemodel that nets of so many domains begin from (0: without mDA)."""
    return out.with_name(converted_name(out.name, num_domains))
