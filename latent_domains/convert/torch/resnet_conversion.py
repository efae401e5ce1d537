"""A ResNet converted, compared and written: the net itself, and weights that mDA nets begin with."""

from collections.abc import Sequence
from pathlib import Path

from latent_domains.common.files import check_free
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch.read import read_resnet
from latent_domains.convert.torch.torch_reference import torch_resnet
from latent_domains.convert.torch.torch_resnet import Standardisation, mda_model, plain_model
from latent_domains.convert.torch.verify import MDA_MEAN, compare, numbers, report
from latent_domains.data.image_list import shown
from latent_domains.models.compare import require
from latent_domains.models.inputs import tried
from latent_domains.models.model import model_files, weights_bytes, write_model
from latent_domains.nets.resnet import SHAPE

IMAGENET = Standardisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""What torchvision and fb.resnet.torch train with."""


def convert(
    checkpoint: Path,
    out: Path,
    options: ConverterOptions,
    *,
    head: bool,
    num_domains: Sequence[int],
    standardisation: Standardisation = IMAGENET,
) -> None:
    """Read a checkpoint, convert it, compare, and write OUT.prototxt and OUT.caffemodel; print how far they agree.

    OUT_mdaD.caffemodel comes with them for each D of ``num_domains``, source and target together. Raises ProgramError
    if the checkpoint is no ResNet's, or a file to write exists and may not be replaced, or would differ.
    """
    net_file, weights_file = model_files(out)
    mda_files = {number: out.with_name(f"{out.name}_mda{number}.caffemodel") for number in num_domains}
    files = (net_file, weights_file, *mda_files.values())
    check_free(*files, force=options.force, inputs=[checkpoint])
    net = read_resnet(checkpoint, head=head)
    print(f"{checkpoint}: ResNet{net.layers}, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in net.notes:
        print(f"note: {note}")
    plain = plain_model(net, standardisation)
    mda = {number: mda_model(net, standardisation, number, MDA_MEAN) for number in mda_files}
    if options.verify:
        pixels, inputs = tried(SHAPE, options.seed, options.images)
        comparison = compare(torch_resnet(net, standardisation), standardisation.caffe_mean, plain, mda, pixels)
        require(weights_file, comparison.plain)
        for number, rows in comparison.mda.items():
            require(mda_files[number], rows)
        report(comparison, mda_files, inputs)
    else:
        print("not verified")
    about = (
        f"Input: B, G, R from 0 to 255 less the mean {numbers(standardisation.caffe_mean)}. "
        "Zeros around it are that mean, as in Torch.\n"
        f"ResNet{net.layers} of {shown(Path(checkpoint.name))}, by python -m tools.convert_resnet."
    )
    of_mda = {mda_files[number]: weights_bytes(model) for number, model in mda.items()}
    write_model(plain, out, about=about, force=options.force, beside=of_mda)
    print(f"wrote {', '.join(map(str, files))}")
