"""Extract features of a trained backbone: from each domain's LMDB of images, one of features.

    python -m tools.extract_features office31 --weights bvlc_alexnet.caffemodel
    python -m tools.extract_features pacs --backbone lite0
    python -m tools.extract_features pacs --backbone resnet18
    python -m tools.extract_features pacs --onnx FILE --layer NAME --early NAME NAME --mean 127 --scale 0.0078125
    python -m tools.extract_features my_pictures --backbone lite0
    python -m tools.extract_features pacs --style

The first command reads DATA/office31/DOMAIN and writes OUT/office31_fc7/DOMAIN. For each image, in the same order and
with the same name and label, it writes a Datum of 4096×1×1 floats: AlexNet's fc7 of the central crop, before its ReLU.
The second command writes OUT/pacs_lite0: EfficientNet-Lite0's 1,280 features and 80 statistics of its early blocks, by
ONNX Runtime; the weights come from a Python package. The third command writes ResNet18's 512 features and 512
statistics of its third stage (res4b). Their name contains that of the weights: OUT/pacs_resnet18_cntk. The fourth
command uses any ONNX model. The fifth reads your own folder, my_pictures/DOMAIN/CLASS/…/IMAGE, and first builds
OUT/my_pictures/DOMAIN, an LMDB of each domain's pictures. Features of your own data get a description,
OUT/my_pictures_lite0/dataset.json, for --dataset of tools.write_run and tools.baselines. Its last domain is the target;
--targets chooses another one. The last command writes OUT/pacs_style: 384 statistics of each picture's style, by which
tools.write_run --method style_w finds latent domains before training.

Existing features are not extracted again; features of other weights or images are an error (--force replaces them).
Images and weights are compared by their contents, an ONNX model with its external data. These must lie in its folder.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.extract_features")

import argparse
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from time import monotonic

from latent_domains.backbones import extraction
from latent_domains.common.arguments import (
    BACKGROUND,
    FOLDERS_ARE_CLASSES,
    RANGE,
    add_data_option,
    add_reading_options,
    add_tree_option,
    path,
    positive,
    program_parser,
)
from latent_domains.common.artefact import make_missing
from latent_domains.common.files import check_apart, json_text, write_text
from latent_domains.common.wording import by
from latent_domains.convert.torch.backbone import (
    add_backbone_options,
    check_backbone_options,
    feature_backbone,
    get_weights,
    onnx_backbone,
    style_features,
)
from latent_domains.data.domain_images import read_domains
from latent_domains.data.inspection import chosen_reading, notes_on_copies
from latent_domains.data.lmdb_plans import PlannedLmdb
from latent_domains.data.names import folder_label
from latent_domains.experiment.datasets import DATASETS, PICTURE_SHAPE, Dataset, find_dataset, of_network
from latent_domains.experiment.networks import ANY_FEATURES, NETWORKS

IMAGES = tuple(name for name, data in DATASETS.items() if data.stored_shape == PICTURE_SHAPE)
"""Our datasets of pictures."""


def _options() -> argparse.Namespace:
    parser = program_parser("tools.extract_features", __doc__)
    parser.add_argument(
        "dataset",
        type=_dataset,
        metavar="DATASET|FILE|DIR",
        help=f"{', '.join(IMAGES)}; the description of other LMDBs of pictures (dataset.json, by tools.adapt); or a "
        "folder of pictures, DIR/DOMAIN/CLASS/…/IMAGE",
    )
    backbone = add_backbone_options(parser)
    backbone.add_argument("--style", action="store_true", help="extract statistics of style, for --method style_w")
    backbone.add_argument("--weights", type=Path, metavar="FILE", help="caffemodel of AlexNet trained on ImageNet")
    add_tree_option(parser)
    add_reading_options(parser)
    parser.add_argument("--domains", nargs="+", metavar="DOMAIN", help="domains to extract (default: all)")
    add_data_option(parser)
    parser.add_argument("--out", type=Path, metavar="DIR", help="data folder of the features (default: that of --data)")
    parser.add_argument(
        "--jobs",
        type=positive,
        default=len(os.sched_getaffinity(0)),
        help="pictures that ONNX Runtime processes at the same time (default: one per core)",
    )
    parser.add_argument("--force", action="store_true", help="replace features of other weights or images")
    options = parser.parse_args()
    if not (options.weights or options.backbone or options.onnx or options.style):
        parser.error("the following arguments are required: --weights of AlexNet, --backbone, --onnx or --style")
    check_backbone_options(parser, options)
    if isinstance(options.dataset, Path) and options.domains:
        parser.error(f"argument --domains: all folders of {options.dataset} are domains")
    if not isinstance(options.dataset, Path):
        about = {FOLDERS_ARE_CLASSES: options.folders_are_classes, BACKGROUND: options.background, RANGE: options.range}
        for option in (name for name, value in about.items() if value):
            parser.error(f"argument {option}: it is about a folder of pictures")
    for domain in options.domains or ():
        if domain not in options.dataset.domains:
            parser.error(f"argument --domains: {domain!r}, expected some of {', '.join(options.dataset.domains)}")
    return options


def _dataset(text: str) -> Dataset | Path:
    """Return a dataset of pictures, or a folder of them."""
    if text not in DATASETS and (folder := path(text)).is_dir():
        return folder
    if text not in IMAGES and not text.endswith(".json"):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected one of {', '.join(IMAGES)}, FILE.json, or a folder")
    images = find_dataset(text)
    if images.stored_shape != PICTURE_SHAPE:
        raise argparse.ArgumentTypeError(
            f"{text}: records of {by(images.stored_shape)}, expected pictures of {by(PICTURE_SHAPE)}"
        )
    return images


def _chosen(options: argparse.Namespace, images: Dataset, made_by: str) -> tuple[Dataset, extraction.Extractor]:
    """Return the requested dataset of features, and its extractor."""
    if options.weights:
        return extraction.fc7_dataset(images), extraction.alexnet_extractor(options.weights)
    if options.style:
        return style_features(images, options.jobs, made_by)
    if options.backbone:
        network = NETWORKS[options.backbone]
        weights, file = get_weights(network, options.data / "weights")
        backbone = feature_backbone(network, weights, file)
        features = extraction.backbone_dataset(images, weights, backbone, made_by)
        return features, extraction.onnx_extractor(backbone, weights.name, options.jobs)
    backbone = onnx_backbone(options)
    features = extraction.onnx_dataset(images, options.name or options.onnx.stem, backbone, made_by)
    return features, extraction.onnx_extractor(backbone, features.features.backbone, options.jobs)


def _of_folder(options: argparse.Namespace, out: Path, made_by: str) -> tuple[Dataset, list[PlannedLmdb]]:
    """Return the dataset of a folder's pictures, and the LMDBs of them that must be built."""
    folder, jobs = options.dataset, options.jobs
    images, name = read_domains(folder, folders_are_classes=options.folders_are_classes), folder_label(folder)
    check_apart([folder, out / name], "a folder of its own for the pictures and for their LMDBs")
    for domain in images.domains:
        print(f"{domain.name}: {domain.found.counted()} in {domain.folder}")
    for note in (*images.notes, *notes_on_copies(images, jobs)):
        print(f"note: {note}", flush=True)
    program, remedy = "tools.extract_features", "replace or remove it"
    usual = of_network(ANY_FEATURES)
    like = replace(DATASETS[usual.images], reading=chosen_reading(options, images.entries))
    parts = extraction.plan_pictures(out / name, images, like, program=program, jobs=jobs, remedy=remedy)
    return extraction.describe_pictures(name, images, like, images.counts, usual.recipe, made_by), list(parts.values())


def main() -> None:
    options = _options()
    made_by = shlex.join(["python", "-m", "tools.extract_features", *sys.argv[1:]])
    images, data, out = options.dataset, options.data, options.out or options.data
    to_build: list[PlannedLmdb] = []
    if isinstance(images, Path):
        data = out
        images, to_build = _of_folder(options, out, made_by)
    features, extractor = _chosen(options, images, made_by)
    make_missing(to_build, force=options.force)
    domains = tuple(dict.fromkeys(options.domains or images.domains))
    parts = extraction.plan_features(images, features, domains, extractor, data, out)
    began = monotonic()
    if built := sum(filter(None, make_missing(parts, force=options.force))):
        print(f"{built} images in {(took := monotonic() - began):.0f} s: {built / took:.0f} a second")
    if DATASETS.get(features.name) != features and not options.style:
        description = out / features.name / "dataset.json"
        write_text(description, json_text(features.to_json()))
        print(f"{description}: for --dataset of tools.write_run")
