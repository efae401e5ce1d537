"""Convert a ResNet, EfficientNet-Lite0 or MobileNetV2 from PyTorch, a ResNet from Lua Torch or ONNX, to Caffe.

    python -m tools.convert_torch resnet50.pth resnet50
    python -m tools.convert_torch ResNet18.onnx resnet18_cntk
    python -m tools.convert_torch data/weights/efficientnet-lite0-57934424.pth lite0

Read a state dict of torch.save (zip or older format, bare or in a training checkpoint), safetensors (names of
torchvision, timm or efficientnet-lite-pytorch), a .t7 of fb.resnet.torch, or an ONNX file of a ResNet with separate BN
nodes. The program recognises the format from the contents, and runs no code in the file. It writes

    OUT.prototxt, OUT.caffemodel  the net itself with BatchNorm and Scale; its first line describes its input
    OUT_mda4.caffemodel           initial weights of mDA nets with four domains (without branch and classifier)

A training checkpoint may contain other things, too, and the net's names may have a prefix (module., backbone., …). The
program finds the net by its tensors. A net that has all names of a ResNet but computes differently cannot be recognised
from its file: resnetblur18 (its pooling blurs), other strides or dilation, He et al.'s ResNet50 (strides in 1×1
convolutions).

Inputs are Caffe's: B, G, R from 0 to 255, minus a mean. The rest of torchvision's preprocessing (R, G, B, /255, its
standard deviations) goes into conv1. The net itself subtracts the checkpoint's mean and is exact. The mDA nets subtract
104, 117, 123, which is exact except at the border of an image.

All EfficientNet-Lite0's nets subtract 127 and divide by 128. As in TensorFlow, its convolutions of stride 2 pad one
pixel more below and right than above and left. The option pad_end for this is ours (docker/patches); tools.export makes
a net for stock Caffe and OpenCV.

Before writing, run the checkpoint's own net (an ONNX file itself; else one that is built from the tensors) and Caffe's
on random inputs and, with --images, on images. Compare the stem, every block, the features and the scores.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.convert_torch")

import argparse
from pathlib import Path

from latent_domains.common.arguments import program_parser, real
from latent_domains.convert.options import add_converter_options, add_domain_options, converter_options, num_domains
from latent_domains.convert.torch.conversion import convert
from latent_domains.networks.network import IMAGENET


def _options() -> argparse.Namespace:
    parser = program_parser("tools.convert_torch", __doc__)
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="file to read")
    parser.add_argument("out", type=Path, metavar="OUT", help="prefix of the output files' names")
    parser.add_argument("--no-head", action="store_true", help="omit the classifier")
    parser.add_argument(
        "--prefix",
        metavar="P",
        help="read the net whose tensor names, with the keys of dicts around it, begin with P (default: the only net)",
    )
    add_domain_options(parser)
    for option, default_values, read, what in (
        ("--mean", IMAGENET.mean, _mean, "mean that the checkpoint's net subtracts from pixels of 0 to 1"),
        ("--std", IMAGENET.std, _std, "standard deviation by which it divides them"),
    ):
        parser.add_argument(
            option,
            type=read,
            nargs=3,
            metavar=("R", "G", "B"),
            help=f"{what} (default: {' '.join(map(str, default_values))})",
        )
    parser.add_argument(
        "--channels", choices=("RGB", "BGR"), help=f"order of the channels in its input (default: {IMAGENET.channels})"
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
        options.checkpoint,
        options.out,
        converter_options(options),
        head=not options.no_head,
        num_domains=num_domains(options),
        mean=options.mean and tuple(options.mean),
        std=options.std and tuple(options.std),
        channels=options.channels,
        prefix=options.prefix,
    )
