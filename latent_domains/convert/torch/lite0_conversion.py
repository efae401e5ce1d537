"""EfficientNet-Lite0 converted, compared and written; the net of the package's weights."""

from pathlib import Path

from onnx import ModelProto

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.files import check_free
from latent_domains.convert.onnx.export import PRODUCER
from latent_domains.convert.onnx.net import onnx_model
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch.lite0 import folded_model
from latent_domains.convert.torch.lite0_reference import torch_lite0
from latent_domains.convert.torch.read import read_lite0
from latent_domains.convert.torch.verify import compare, numbers, report
from latent_domains.data.image_list import shown
from latent_domains.data.weights_files import in_package
from latent_domains.experiment.networks import LITE0
from latent_domains.models.compare import require
from latent_domains.models.inputs import tried
from latent_domains.models.model import Model, load, model_files, write_model
from latent_domains.nets.lite0 import EARLY, POOLED, PREPROCESSING


def convert(checkpoint: Path, out: Path, options: ConverterOptions, *, head: bool) -> None:
    """Read a checkpoint, convert it, compare, and write OUT.prototxt and OUT.caffemodel; print how far they agree."""
    files = model_files(out)
    check_free(*files, force=options.force, inputs=[checkpoint])
    net = read_lite0(checkpoint, head=head)
    print(f"{checkpoint}: EfficientNet-Lite0, {f'{net.classes} classes' if net.classes else 'no head'}")
    for note in net.notes:
        print(f"note: {note}")
    model = folded_model(net)
    if options.verify:
        pixels, inputs = tried(PREPROCESSING.shape, options.seed, options.images)
        comparison = compare(torch_lite0(net), PREPROCESSING.mean, model, {}, pixels)
        require(files[1], comparison.plain)
        report(comparison, {}, inputs)
    else:
        print("not verified")
    write_model(model, out, about=_about(shown(Path(checkpoint.name))), force=options.force)
    print(f"wrote {', '.join(map(str, files))}")


def backbone() -> Model:
    """The net of the installed package's weights, up to the features. Raises ProgramError if they are not there."""
    return folded_model(read_lite0(in_package(LITE0), head=False))


def backbone_onnx() -> ModelProto:
    """The same as ONNX, by Caffe's names; the output is POOLED."""
    model = backbone()
    return onnx_model(model, load(model), producer=PRODUCER, about=_about(LITE0.name), metadata={})


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


def _about(checkpoint: str) -> str:
    return (
        f"Input: B, G, R from 0 to 255 less {numbers(PREPROCESSING.mean)}.\n"
        f"EfficientNet-Lite0 of {checkpoint}, by python -m tools.convert_lite0."
    )
