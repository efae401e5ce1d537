"""Networks as backbones: the nets that make features of pictures, and statistics of blocks, of published weights."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from onnx import ModelProto

from latent_domains.backbones.extraction import Extractor, onnx_extractor, style_dataset
from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.arguments import number, positive
from latent_domains.common.program import ROOT
from latent_domains.convert.fold.fold import fold
from latent_domains.convert.onnx.export import PRODUCER, onnx_model
from latent_domains.convert.torch.conversion import caffe_model, standardisation_of, usual_pixels
from latent_domains.convert.torch.read import Checkpoint, read_checkpoint
from latent_domains.data.published_file import in_package
from latent_domains.experiment.datasets import PICTURE_SHAPE, Dataset, input_of
from latent_domains.experiment.networks import BACKBONES, NETWORKS, at_hand, get_pretrained, published
from latent_domains.models.model import Model, load
from latent_domains.models.onnx_file import contents_sha256, read_onnx
from latent_domains.networks.lite0 import LITE0
from latent_domains.networks.network import Network, Pretrained, Standardisation

FOLDER = ROOT / "data" / "weights"


def get_weights(network: Network, folder: Path = FOLDER) -> tuple[Pretrained, Path]:
    """Return a backbone's weights and their file: from its Python package, the ``folder``, the mirror or a download."""
    weights = network.weights[0]
    if weights.file.package:
        return weights, in_package(weights.file)
    weights, file = get_pretrained(at_hand(network.name, folder), folder)
    print(f"{file}: {weights.title}")
    return weights, file


def backbone(network: Network, file: Path) -> Model:
    """Return the net up to the features. Blocks of the file that the network lacks are omitted."""
    net = read_checkpoint(file, head=False)
    values = {name: net.values[name] for name in network.torch.shapes()}
    return folded_model(replace(net, network=network, values=values, own=None), _standardisation(network, file))


def folded_model(net: Checkpoint, standardisation: Standardisation) -> Model:
    """Return the net itself with its BN, and the scale of its pixels, in the convolutions.

    Its input is B, G, R minus a mean.
    """
    pixels = usual_pixels(net.network, standardisation)
    folded, conv1 = fold(caffe_model(net, standardisation, pixels), stock=False).model, net.network.torch.units[0].name
    folded.blobs[conv1][0] = folded.blobs[conv1][0] * np.float32(pixels.scale)
    return folded


def backbone_onnx(network: Network, file: Path) -> ModelProto:
    """Return :func:`backbone` as ONNX, with Caffe's names; the output is the features."""
    model = backbone(network, file)
    return onnx_model(model, load(model), producer=PRODUCER, about=f"{network.title} of {file.name}", metadata={})


def feature_backbone(
    network: Network, weights: Pretrained, file: Path, blocks: Sequence[str] | None = None, size: int | None = None
) -> OnnxBackbone:
    """Return the backbone with the ``weights`` in ``file``: features are the last average, and statistics of blocks.

    These are ``blocks`` (None: the network's early ones). Pictures are resized to ``size`` first (None: they are stored
    in the right size). They enter as B, G, R minus the mean of the weights' training.
    """
    return OnnxBackbone(
        backbone_onnx(network, file),
        weights.name,
        weights.file.hashes["sha256"],  # that of the model depends on the version of onnx
        layer=network.torch.pooled,
        early=network.backbone.early if blocks is None else blocks,
        size=size,
        crop=input_of(network).crop,
        mean=usual_pixels(network, _standardisation(network, file)).mean,
    )


def style_backbone(blocks: Sequence[str] | None = LITE0.backbone.middle, size: int | None = None) -> OnnxBackbone:
    """Return the backbone with whose statistics of ``blocks`` domains are found; as :func:`feature_backbone`."""
    return feature_backbone(LITE0, *get_weights(LITE0), blocks, size)


def style_features(images: Dataset, jobs: int, made_by: str) -> tuple[Dataset, Extractor]:
    """Return the dataset of statistics of these pictures' style, and the extractor for pictures of any stored size."""
    size = None if images.stored_shape == PICTURE_SHAPE else PICTURE_SHAPE[-1]
    of_style = style_backbone(size=size)
    dataset = style_dataset(images, len(of_style.early_means), made_by)
    return dataset, onnx_extractor(of_style, LITE0.name, jobs, style=True)


def _standardisation(network: Network, file: Path) -> Standardisation:
    return standardisation_of(network, published(file))


_OF_ONNX = ("layer", "early", "size", "crop", "mean", "scale", "order", "name")
"""Options that describe an ONNX model."""


def add_backbone_options(parser: argparse.ArgumentParser, *, features: bool = True) -> argparse._MutuallyExclusiveGroup:
    """Add the options; return the group of those that exclude each other.

    ``features``: whether the program uses the model's features, or only the means of early blocks.
    """
    backbone = parser.add_mutually_exclusive_group()
    backbone.add_argument(
        "--backbone",
        choices=[name for name, network in NETWORKS.items() if network.backbone],
        help=f"backbone: the weights of {', '.join(BACKBONES)} come from a Python package, others from DATA/weights "
        "(tools.get_weights)",
    )
    backbone.add_argument(
        "--onnx", type=Path, metavar="FILE", help="ONNX model of another backbone, with its options below"
    )
    onnx = parser.add_argument_group("an ONNX model", "The model, and how pictures become its input.")
    onnx.add_argument("--layer", metavar="NAME", help="value or node with the features (default: the only output)")
    kept = "means and deviations are stored, too" if features else "means are the statistics (required)"
    onnx.add_argument("--early", nargs="+", metavar="NAME", help=f"blocks whose channels' {kept}")
    onnx.add_argument("--size", type=positive, metavar="N", help="resize pictures to N×N (default: as stored, 256)")
    onnx.add_argument("--crop", type=positive, metavar="N", help="side of the central square (default: the model's)")
    onnx.add_argument(
        "--mean", type=_numbers, metavar="A[,B,C]", help="value to subtract from the pixels, 0 to 255 (default: 0)"
    )
    onnx.add_argument("--scale", type=_numbers, metavar="A[,B,C]", help="factor for the pixels after that (default: 1)")
    onnx.add_argument(
        "--order", choices=("bgr", "rgb"), help="order of the channels, also in --mean and --scale (default: rgb)"
    )
    if features:
        onnx.add_argument("--name", help="name of the features: DATASET_NAME (default: the file's name)")
    return backbone


def check_backbone_options(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End the program if an option describes an ONNX model and none is given."""
    for name in _OF_ONNX:
        if getattr(options, name, None) is not None and not options.onnx:
            parser.error(f"argument --{name}: it describes the model of --onnx")


def onnx_backbone(options: argparse.Namespace) -> OnnxBackbone:
    """Return the backbone in the file of ``--onnx``. Refuses a model that the other options do not fit."""
    names = [name for name in _OF_ONNX if name != "name"]
    described = {name: value for name in names if (value := getattr(options, name)) is not None}
    model, weights = read_onnx(options.onnx), contents_sha256(options.onnx)
    return OnnxBackbone(model, str(options.onnx), weights, **{"order": "rgb", **described})


def _numbers(text: str) -> tuple[float, ...]:
    """Read one number, or one for each of three channels."""
    try:
        numbers = tuple(map(number, text.split(",")))
    except argparse.ArgumentTypeError:
        numbers = ()
    if len(numbers) not in (1, 3):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number, or three of them: 123.7,116.3,103.5")
    return numbers
