"""EfficientNet-Lite0 converted; the net that features are made with, of the package's weights."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from onnx import ModelProto

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.convert.onnx.export import PRODUCER
from latent_domains.convert.onnx.net import onnx_model
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch import conversion
from latent_domains.convert.torch.conversion import Converted, Read
from latent_domains.convert.torch.lite0 import Lite0, folded_model, mda_model, plain_model
from latent_domains.convert.torch.lite0_reference import torch_lite0
from latent_domains.convert.torch.read import read_lite0
from latent_domains.convert.torch.verify import Pixels, numbers
from latent_domains.data.image_list import printable
from latent_domains.data.weights_files import in_package
from latent_domains.experiment.networks import LITE0, NETWORKS
from latent_domains.models.model import Model, load
from latent_domains.nets.lite0 import EARLY, POOLED, PREPROCESSING


def convert(checkpoint: Path, out: Path, options: ConverterOptions, *, head: bool, num_domains: Sequence[int]) -> None:
    """Convert a checkpoint: see :func:`latent_domains.convert.torch.conversion.convert`.

    Raises ProgramError if it is not EfficientNet-Lite0's.
    """
    form = NETWORKS["lite0"].pixels
    pixels = Pixels(form.mean, form.scale)

    def converted(net: Lite0) -> Converted:
        return Converted(
            plain_model(net),
            {number: mda_model(net, number) for number in num_domains},
            partial(torch_lite0, net),
            form.shape,
            pixels,
            pixels,
            f"Input: B, G, R from 0 to 255 less {numbers(form.mean)}, times {form.scale:g}.\n{_of(checkpoint.name)}",
        )

    def read() -> Read:
        net = read_lite0(checkpoint, head=head)
        return "EfficientNet-Lite0", net, partial(converted, net)

    conversion.convert(checkpoint, out, options, num_domains, read)


def backbone() -> Model:
    """The net of the installed package's weights, up to the features. Raises ProgramError if they are not there."""
    return folded_model(read_lite0(in_package(LITE0), head=False))


def backbone_onnx() -> ModelProto:
    """The same as ONNX, by Caffe's names; the output is POOLED."""
    model = backbone()
    about = f"Input: B, G, R from 0 to 255 less {numbers(PREPROCESSING.mean)}.\n{_of(LITE0.name)}"
    return onnx_model(model, load(model), producer=PRODUCER, about=about, metadata={})


def feature_backbone() -> OnnxBackbone:
    """What makes the features of datasets with the backbone lite0: the last average, and statistics of early blocks."""
    return OnnxBackbone(
        backbone_onnx(),
        "lite0",
        LITE0.hashes["sha256"],  # that of the model depends on the version of onnx
        layer=POOLED,
        early=EARLY,
        crop=PREPROCESSING.crop,
        mean=PREPROCESSING.mean,
    )


def _of(checkpoint: str) -> str:
    return f"EfficientNet-Lite0 of {printable(Path(checkpoint))}, by python -m tools.convert_lite0."
