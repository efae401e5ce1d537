"""The options that choose a backbone: of every program that computes features of pictures."""

import argparse
from pathlib import Path

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.arguments import number, positive
from latent_domains.experiment.networks import BACKBONES, NETWORKS
from latent_domains.models.onnx_file import contents_sha256, read_onnx

_OF_ONNX = ("layer", "early", "size", "crop", "mean", "scale", "order", "name")
"""Options that describe an ONNX model."""


def add_backbone_options(parser: argparse.ArgumentParser, *, features: bool = True) -> argparse._MutuallyExclusiveGroup:
    """Add the options; return the group of those that exclude each other.

    ``features``: whether the program keeps the model's features, or only the means of early blocks.
    """
    backbone = parser.add_mutually_exclusive_group()
    backbone.add_argument(
        "--backbone",
        choices=[name for name, network in NETWORKS.items() if network.backbone],
        help=f"one of ours: {', '.join(BACKBONES)} comes from a Python package, others from DATA/weights "
        "(tools.get_weights)",
    )
    backbone.add_argument(
        "--onnx", type=Path, metavar="FILE", help="an ONNX model of another backbone, with the options for it below"
    )
    onnx = parser.add_argument_group("an ONNX model", "What it is, and how pictures become its input.")
    onnx.add_argument("--layer", metavar="NAME", help="value or node with the features (default: the only output)")
    kept = "means and deviations are kept as well" if features else "means are the statistics (required)"
    onnx.add_argument("--early", nargs="+", metavar="NAME", help=f"blocks whose channels' {kept}")
    onnx.add_argument("--size", type=positive, metavar="N", help="resize pictures to N×N (default: as stored, 256)")
    onnx.add_argument("--crop", type=positive, metavar="N", help="side of the central square (default: the model's)")
    onnx.add_argument(
        "--mean", type=_numbers, metavar="A[,B,C]", help="subtracted from the pixels, 0 to 255 (default: 0)"
    )
    onnx.add_argument("--scale", type=_numbers, metavar="A[,B,C]", help="what they are then multiplied by (default: 1)")
    onnx.add_argument(
        "--order", choices=("bgr", "rgb"), help="order of the channels, also in --mean and --scale (default: rgb)"
    )
    if features:
        onnx.add_argument("--name", help="the features are called DATASET_NAME (default: the file's)")
    return backbone


def check_backbone_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program if an option describes an ONNX model and there is none."""
    for name in _OF_ONNX:
        if getattr(options, name, None) is not None and not options.onnx:
            parser.error(f"argument --{name}: it describes the model of --onnx")


def onnx_backbone(options: argparse.Namespace) -> OnnxBackbone:
    """The backbone in the file of ``--onnx``. Raises ProgramError if it is not as the options say."""
    names = [name for name in _OF_ONNX if name != "name"]
    described = {name: value for name in names if (value := getattr(options, name)) is not None}
    model, weights = read_onnx(options.onnx), contents_sha256(options.onnx)
    return OnnxBackbone(model, str(options.onnx), weights, **{"order": "rgb", **described})


def _numbers(text: str) -> tuple[float, ...]:
    """One number, or one for each of three channels."""
    try:
        numbers = tuple(map(number, text.split(",")))
    except argparse.ArgumentTypeError:
        numbers = ()
    if len(numbers) not in (1, 3):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number, or three of them: 123.7,116.3,103.5")
    return numbers
