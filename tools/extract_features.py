"""Extract features of a trained backbone: from each domain's LMDB of images, one of features.

    python -m tools.extract_features office31 --weights bvlc_alexnet.caffemodel
    python -m tools.extract_features pacs --backbone lite0
    python -m tools.extract_features pacs --onnx FILE --layer NAME --early NAME NAME --mean 127 --scale 0.0078125

The first reads DATA/office31/DOMAIN and writes OUT/office31_fc7/DOMAIN: for each image, in the same order and by the
same name, a Datum of 4096×1×1 floats, AlexNet's fc7 of the central crop before its ReLU, with the image's label. The
second writes OUT/pacs_lite0: EfficientNet-Lite0's 1,280 features and, after them, 80 statistics of its early blocks, by
ONNX Runtime; its weights come as a Python package. The third does so with any ONNX model and writes a description
of the dataset, OUT/pacs_FILE/dataset.json, for --dataset of tools.write_run.

Features that stand already are not extracted again; those of other weights or images are an error, never reused. Images
are known by their LMDB's source.json or, without it, by all their names and 256 of them.
"""

import argparse
import os
import shlex
import sys
from pathlib import Path
from time import monotonic

import caffe

from latent_domains.backbones import extraction
from latent_domains.backbones.onnx_backbone import OnnxBackbone, read_onnx
from latent_domains.common.arguments import add_data_option, number, positive, program_parser
from latent_domains.common.files import json_text, sha256, write_text
from latent_domains.common.program import run
from latent_domains.convert.torch.lite0_conversion import feature_backbone
from latent_domains.data.parts import build_missing
from latent_domains.experiment.datasets import DATASETS, Dataset
from latent_domains.experiment.networks import BACKBONES
from latent_domains.runs.devices import MODES, VARIABLE, check_available, requested_mode

IMAGES = tuple(name for name, data in DATASETS.items() if data.stored_shape == (3, 256, 256))
"""Datasets of pictures."""

OF_ONNX = ("layer", "early", "size", "crop", "mean", "scale", "order", "name")
"""Options that describe an ONNX model."""


def _options() -> argparse.Namespace:
    parser = program_parser("tools.extract_features", __doc__)
    parser.add_argument("dataset", choices=IMAGES)
    backbone = parser.add_mutually_exclusive_group()
    backbone.add_argument("--weights", type=Path, metavar="FILE", help="AlexNet trained on ImageNet, a caffemodel")
    backbone.add_argument("--backbone", choices=BACKBONES, help="EfficientNet-Lite0, from its Python package")
    backbone.add_argument("--onnx", type=Path, metavar="FILE", help="any other backbone, which --layer … describe:")
    onnx = parser.add_argument_group("an ONNX model", "What it is, and how pictures become its input.")
    onnx.add_argument("--layer", metavar="NAME", help="value or node with the features (default: the only output)")
    onnx.add_argument(
        "--early", nargs="+", metavar="NAME", help="blocks whose channels' means and deviations are kept as well"
    )
    onnx.add_argument("--size", type=positive, metavar="N", help="resize pictures to N×N (default: as stored, 256)")
    onnx.add_argument("--crop", type=positive, metavar="N", help="side of the central square (default: the model's)")
    onnx.add_argument("--mean", type=_numbers, metavar="A[,B,C]", help="taken from the pixels, 0 to 255 (default: 0)")
    onnx.add_argument("--scale", type=_numbers, metavar="A[,B,C]", help="factor after that (default: 1)")
    onnx.add_argument(
        "--order", choices=("bgr", "rgb"), help="of the channels, of --mean and --scale too (default: rgb)"
    )
    onnx.add_argument("--name", help="the features are called DATASET_NAME (default: the file's)")
    parser.add_argument("--domains", nargs="+", metavar="DOMAIN", help="default: all of the dataset")
    add_data_option(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="data folder of the features (default: that of --data)")
    parser.add_argument(
        "--batch-size", type=positive, default=32, metavar="N", help="images at once, of AlexNet (default: 32)"
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        default=len(os.sched_getaffinity(0)),
        help="pictures at once, of ONNX Runtime (default: one a core)",
    )
    parser.add_argument(
        "--solver-mode",
        choices=MODES,
        help=f"where Caffe computes AlexNet (default: environment variable {VARIABLE}, else CPU)",
    )
    parser.add_argument("--force", action="store_true", help="replace features of other weights or images")
    options = parser.parse_args()
    if not (options.weights or options.backbone or options.onnx):
        parser.error("the following arguments are required: --weights of AlexNet, --backbone or --onnx")
    for name in OF_ONNX:
        if getattr(options, name) is not None and not options.onnx:
            parser.error(f"argument --{name}: it describes the model of --onnx")
    known = DATASETS[options.dataset].domains
    for domain in options.domains or ():
        if domain not in known:
            parser.error(f"argument --domains: {domain!r}, expected some of {', '.join(known)}")
    return options


def _numbers(text: str) -> tuple[float, ...]:
    """One number, or one for each of three channels."""
    try:
        numbers = tuple(map(number, text.split(",")))
    except argparse.ArgumentTypeError:
        numbers = ()
    if len(numbers) not in (1, 3):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number, or three of them: 123.7,116.3,103.5")
    return numbers


def _chosen(options: argparse.Namespace) -> tuple[Dataset, extraction.Extractor]:
    """The dataset of features that is asked for and what makes it."""
    images = DATASETS[options.dataset]
    if options.weights:
        if requested_mode(options.solver_mode) == "GPU":
            check_available("GPU", "solver mode GPU")
            caffe.set_mode_gpu()
        return extraction.published(images, "fc7"), extraction.alexnet(options.weights, options.batch_size)
    if options.backbone:
        features = extraction.published(images, options.backbone)
        return features, extraction.onnx(feature_backbone(), options.backbone, options.jobs)
    model_options = {name: value for name in OF_ONNX if (value := getattr(options, name)) is not None}
    kind = model_options.pop("name", options.onnx.stem)
    model = read_onnx(options.onnx)
    backbone = OnnxBackbone(model, str(options.onnx), sha256(options.onnx), **{"order": "rgb", **model_options})
    made_by = shlex.join(["python", "-m", "tools.extract_features", *sys.argv[1:]])
    features = extraction.described(images, kind, backbone, made_by)
    return features, extraction.onnx(backbone, features.features.backbone, options.jobs)


def main() -> None:
    options = _options()
    images, (features, extractor) = DATASETS[options.dataset], _chosen(options)
    out, domains = options.out or options.data, tuple(dict.fromkeys(options.domains or images.domains))
    parts = extraction.parts(images, features, domains, extractor, options.data, out)
    began = monotonic()
    if built := build_missing(parts, force=options.force):
        print(f"{built} images in {(took := monotonic() - began):.0f} s: {built / took:.0f} a second")
    if features.name not in DATASETS:
        description = out / features.name / "dataset.json"
        write_text(description, json_text(features.to_json()))
        print(f"{description}: for --dataset of tools.write_run")


if __name__ == "__main__":
    run(main)
