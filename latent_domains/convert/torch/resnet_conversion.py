"""A ResNet converted: the net itself, and weights that mDA nets begin with."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch import conversion
from latent_domains.convert.torch.conversion import Converted, Read
from latent_domains.convert.torch.read import read_resnet
from latent_domains.convert.torch.resnet import ResNet
from latent_domains.convert.torch.torch_reference import torch_resnet
from latent_domains.convert.torch.torch_resnet import Standardisation, mda_model, plain_model
from latent_domains.convert.torch.verify import Pixels, numbers
from latent_domains.data.image_list import printable
from latent_domains.experiment.datasets import of_network
from latent_domains.nets.resnet import SHAPE

IMAGENET = Standardisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""What torchvision and fb.resnet.torch train with."""

MDA_MEAN = of_network("resnet18").mean


def convert(
    checkpoint: Path,
    out: Path,
    options: ConverterOptions,
    *,
    head: bool,
    num_domains: Sequence[int],
    standardisation: Standardisation = IMAGENET,
) -> None:
    """Convert a checkpoint: see :func:`latent_domains.convert.torch.conversion.convert`.

    Raises ProgramError if it is no ResNet's.
    """

    def converted(net: ResNet) -> Converted:
        return Converted(
            plain_model(net, standardisation),
            {number: mda_model(net, standardisation, number, MDA_MEAN) for number in num_domains},
            partial(torch_resnet, net, standardisation),
            SHAPE,
            Pixels(standardisation.caffe_mean),
            Pixels(MDA_MEAN),
            f"Input: B, G, R from 0 to 255 less the mean {numbers(standardisation.caffe_mean)}. "
            "Zeros around it are that mean, as in Torch.\n"
            f"ResNet{net.layers} of {printable(Path(checkpoint.name))}, by python -m tools.convert_resnet.",
        )

    def read() -> Read:
        net = read_resnet(checkpoint, head=head)
        return f"ResNet{net.layers}", net, partial(converted, net)

    conversion.convert(checkpoint, out, options, num_domains, read)
