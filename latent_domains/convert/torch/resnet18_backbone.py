"""ResNet18 as a net that makes features: the last average, and statistics of a middle stage."""

from dataclasses import replace
from pathlib import Path

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.convert.fold.fold import fold
from latent_domains.convert.onnx.export import PRODUCER
from latent_domains.convert.onnx.net import onnx_model
from latent_domains.convert.torch.caffe_weights import Pixels, caffe_model
from latent_domains.convert.torch.contents import Checkpoint
from latent_domains.convert.torch.conversion import standardisation_of
from latent_domains.convert.torch.read import read_checkpoint
from latent_domains.experiment.datasets import input_of
from latent_domains.experiment.pretrained import at_hand, get_pretrained, published
from latent_domains.models.model import load
from latent_domains.networks.network import Pretrained
from latent_domains.networks.resnet import POOLED, RESNET18

MIDDLE = "res4b"
"""The stage whose channels' means and deviations tell domains of pictures apart best (256 channels)."""


def resnet18_of(net: Checkpoint) -> Checkpoint:
    """ResNet18 in a checkpoint: blocks that it has beyond those are left out."""
    values = {name: net.values[name] for name in RESNET18.torch.shapes()}
    return replace(net, network=RESNET18, values=values, own=None)


def feature_backbone(weights: Pretrained, file: Path) -> OnnxBackbone:
    """ResNet18 with the ``weights`` in ``file``. Pixels are B, G, R less the mean that these were trained with."""
    standardisation = standardisation_of(RESNET18, published(file))
    mean = standardisation.caffe_mean
    net = resnet18_of(read_checkpoint(file, head=False))
    model = fold(caffe_model(net, standardisation, Pixels(mean)), stock=False).model
    about = f"ResNet18, weights of {weights.title}"
    onnx = onnx_model(model, load(model), producer=PRODUCER, about=about, metadata={})
    digest = weights.file.hashes["sha256"]
    crop = input_of(RESNET18).crop
    return OnnxBackbone(onnx, weights.name, digest, layer=POOLED, early=(MIDDLE,), crop=crop, mean=mean)


def of_folder(folder: Path) -> tuple[Pretrained, OnnxBackbone]:
    """The backbone from the weights that are at hand in the ``folder``, or can be had; a line says whose they are."""
    weights, file = get_pretrained(at_hand("resnet18", folder), folder)
    print(f"{file}: {weights.title}")
    return weights, feature_backbone(weights, file)
