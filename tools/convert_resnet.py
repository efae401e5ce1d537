"""Convert a ResNet18, ResNet34 or ResNet50 from PyTorch or Lua Torch to Caffe.

    python -m tools.convert_resnet resnet50.pth resnet50

Read a state dict of torch.save (zip or older format, bare or in a training checkpoint), safetensors (names of
torchvision or timm) or a .t7 of fb.resnet.torch. Their content decides which it is; no code in them runs. Write

    OUT.prototxt, OUT.caffemodel  the net itself with BatchNorm and Scale; its first line names its mean
    OUT_mda4.caffemodel           initial weights of mDA nets with four domains (without branch and classifier)

Inputs are Caffe's: B, G, R from 0 to 255, minus a mean. The rest of the checkpoint's preprocessing (R, G, B, /255, its
standard deviations) goes into conv1. The net itself subtracts the checkpoint's mean and is exact. The mDA nets subtract
104, 117, 123, which is exact except at the border of an image.

Before writing, build the checkpoint's own net from its tensors and run it and Caffe's on random inputs and, with
--images, on images. Compare the stem, every block, the features and the logits.
"""

import argparse
from pathlib import Path

from latent_domains.common.arguments import program_parser, real
from latent_domains.common.program import run
from latent_domains.convert.options import add_converter_options, add_domain_options, converter_options, num_domains
from latent_domains.convert.torch.caffe_weights import Standardisation
from latent_domains.convert.torch.conversion import IMAGENET, convert


def _options() -> argparse.Namespace:
    parser = program_parser("tools.convert_resnet", __doc__)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="the file to read")
    parser.add_argument("out", type=Path, metavar="OUT", help="beginning of the names of the files to write")
    parser.add_argument("--no-head", action="store_true", help="leave the classifier out")
    add_domain_options(parser)
    for option, default_values, read, what in (
        ("--mean", IMAGENET.mean, _mean, "mean that the checkpoint's net subtracts from pixels of 0 to 1"),
        ("--std", IMAGENET.std, _std, "standard deviation that it divides them by"),
    ):
        parser.add_argument(
            option,
            type=read,
            nargs=3,
            default=default_values,
            metavar=("R", "G", "B"),
            help=f"{what} (default: {' '.join(map(str, default_values))})",
        )
    add_converter_options(parser)
    return parser.parse_args()


def _mean(text: str) -> float:
    return real(text, lambda value: 0 <= value <= 1, "a mean of pixels from 0 to 1")


def _std(text: str) -> float:
    return real(text, lambda value: 0.001 <= value <= 1, "a standard deviation of pixels from 0 to 1, at least 0.001")


def main() -> None:
    options = _options()
    convert(
        "convert_resnet",
        options.checkpoint,
        options.out,
        converter_options(options),
        head=not options.no_head,
        num_domains=num_domains(options),
        standardisation=Standardisation(tuple(options.mean), tuple(options.std)),
    )


if __name__ == "__main__":
    run(main)
