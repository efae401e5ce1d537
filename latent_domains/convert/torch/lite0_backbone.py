"""The net that makes features: EfficientNet-Lite0 with the weights of the installed package."""

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto

from latent_domains.backbones.extraction import Extractor, onnx_extractor, style_dataset
from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.convert.fold.fold import fold
from latent_domains.convert.onnx.export import PRODUCER
from latent_domains.convert.onnx.net import onnx_model
from latent_domains.convert.torch.caffe_weights import Pixels, caffe_model
from latent_domains.convert.torch.contents import Checkpoint
from latent_domains.convert.torch.read import read_checkpoint
from latent_domains.convert.torch.verify import numbers
from latent_domains.data.published_file import in_package
from latent_domains.experiment.datasets import PICTURE_SHAPE, Dataset
from latent_domains.models.model import Model, load
from latent_domains.networks.inverted_residuals import POOLED
from latent_domains.networks.lite0 import EARLY, LITE0, PREPROCESSING


def backbone() -> Model:
    """The net up to the features. Raises ProgramError if the package's weights are not there."""
    return folded_model(read_checkpoint(in_package(LITE0.backbone), head=False))


def folded_model(net: Checkpoint) -> Model:
    """The net itself with its BN, and the division by 128, in the convolutions: B, G, R less 127 enter."""
    form = LITE0.pixels
    folded = fold(caffe_model(net, LITE0.torch.standardisation, Pixels(form.mean, form.scale)), stock=False).model
    folded.blobs["conv1"][0] = folded.blobs["conv1"][0] * np.float32(form.scale)
    return folded


def backbone_onnx() -> ModelProto:
    """:func:`backbone` as ONNX, by Caffe's names; the output is POOLED."""
    model = backbone()
    mean = numbers(PREPROCESSING.mean)
    about = f"Input: B, G, R from 0 to 255 less {mean}.\n{LITE0.title} of {LITE0.backbone.name}."
    return onnx_model(model, load(model), producer=PRODUCER, about=about, metadata={})


MIDDLE = ("block4c", "block5c", "block6d")
"""Blocks whose channels' means tell domains of pictures apart best, once the class is taken away
(results/discovery/README.md)."""


def feature_backbone(early: Sequence[str] = EARLY, size: int | None = None) -> OnnxBackbone:
    """The backbone lite0 of datasets: its features are the last average, and statistics of ``early`` blocks.

    Pictures are resized to ``size`` first (None: they are stored as it takes them).
    """
    return OnnxBackbone(
        backbone_onnx(),
        "lite0",
        LITE0.backbone.hashes["sha256"],  # that of the model depends on the version of onnx
        layer=POOLED,
        early=early,
        size=size,
        crop=PREPROCESSING.crop,
        mean=PREPROCESSING.mean,
    )


def style_features(images: Dataset, jobs: int, made_by: str) -> tuple[Dataset, Extractor]:
    """The dataset of statistics of these pictures' style, and the extractor for pictures of any stored size."""
    size = None if images.stored_shape == PICTURE_SHAPE else PICTURE_SHAPE[-1]
    backbone = feature_backbone(MIDDLE, size)
    dataset = style_dataset(images, len(backbone.early_means), made_by)
    return dataset, onnx_extractor(backbone, "lite0", jobs, style=True)
