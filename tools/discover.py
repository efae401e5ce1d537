"""Find the latent domains of pictures, without training and without domain labels.

    python -m tools.discover photos_and_drawings --out runs/kinds
    python -m tools.discover PACS/photo PACS/sketch --out runs/kinds --k 2
    python -m tools.discover scans --unlabelled --out runs/kinds

Each SOURCE contains one folder for each class: SOURCE/CLASS/…/PICTURE. The program removes the effect of the class
first, because a class is not a domain. With --unlabelled the folders are not classes; the domains may then follow
content instead of style. The program divides the pictures of all SOURCEs together, then compares the domains with the
SOURCEs.

A pretrained net (EfficientNet-Lite0, from a Python package) computes statistics of each picture. Two cores take about
three minutes for 10,000 pictures. Without --k the program counts the domains; it may find only one.

OUT gets domains.csv (picture, number of its latent domain, probability), report.html (the most and least certain
pictures of each domain, its classes, how stable it is), and statistics (LMDBs). Another call on the same pictures
reuses the statistics: with another --k it takes seconds, and tools.adapt uses them, too. tools.adapt --domains trains
on domains.csv.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.discover")

import argparse
import shlex
import sys
from pathlib import Path

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.arguments import (
    FOLDERS_ARE_CLASSES,
    add_data_option,
    add_image_options,
    add_reading_options,
    add_tree_option,
    natural,
    positive,
    program_parser,
)
from latent_domains.common.artefact import make_missing
from latent_domains.common.files import check_apart, check_free
from latent_domains.convert.torch.backbone import (
    add_backbone_options,
    check_backbone_options,
    feature_backbone,
    get_weights,
    onnx_backbone,
)
from latent_domains.data.domain_images import read_piles
from latent_domains.data.inspection import chosen_reading, notes_on_copies
from latent_domains.discovery.discover import discover, write_table
from latent_domains.discovery.page import write_page
from latent_domains.domains.statistics import plan_statistics, read_statistics
from latent_domains.experiment.networks import NETWORKS
from latent_domains.networks.lite0 import LITE0
from latent_domains.report.page import check_figures


def _options() -> argparse.Namespace:
    parser = program_parser("tools.discover", __doc__)
    parser.add_argument("sources", nargs="+", type=Path, metavar="SOURCE", help="folder of pictures")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for all results")
    parser.add_argument("--k", type=positive, help="number of latent domains (default: counted, 1 to 8)")
    parser.add_argument("--unlabelled", action="store_true", help="do not read the folders in a SOURCE as classes")
    add_tree_option(parser)
    add_backbone_options(parser, features=False)
    add_data_option(parser, "folder of the data; ResNet18's weights are in DIR/weights")
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="also save every chart in this folder, as SVG and PNG"
    )
    parser.add_argument("--seed", type=natural, default=0, help="seed of random numbers (default: 0)")
    add_image_options(parser)
    add_reading_options(parser)
    parser.add_argument("--skip-unreadable", action="store_true", help="skip unreadable pictures and print their names")
    parser.add_argument("--force", action="store_true", help="replace earlier results in OUT")
    options = parser.parse_args()
    check_backbone_options(parser, options)
    if options.onnx and not options.early:
        parser.error("the following arguments are required with --onnx: --early, blocks in the middle of the net")
    if options.unlabelled and options.folders_are_classes:
        parser.error(f"argument {FOLDERS_ARE_CLASSES}: not allowed with argument --unlabelled")
    return options


def _backbone(options: argparse.Namespace) -> tuple[str, OnnxBackbone]:
    """Return a description of the backbone and its statistics, and the backbone."""
    if options.onnx:
        return f"{options.onnx.name}, {', '.join(options.early)}", onnx_backbone(options)
    network = NETWORKS[options.backbone or LITE0.name]
    weights, file = get_weights(network, options.data / "weights")
    blocks, whose = network.backbone.middle, "" if weights.file.package else f" ({weights.title})"
    return f"{network.title}{whose}, {', '.join(blocks)}", feature_backbone(network, weights, file, blocks)


def main() -> None:
    options = _options()
    table, page = options.out / "domains.csv", options.out / "report.html"
    check_free(table, page, force=options.force)
    check_figures(options.figures)
    images = read_piles(options.sources, unlabelled=options.unlabelled, folders_are_classes=options.folders_are_classes)
    check_apart([*options.sources, options.out], "a folder of its own for the results")
    for folder in images.domains:
        print(f"{folder.name}: {folder.found.counted()} in {folder.folder}")
        for line in folder.found.left_out():
            print(f"note: {folder.folder}: {line}", file=sys.stderr)
    for note in (*images.notes, *notes_on_copies(images, options.jobs)):
        print(f"note: {note}", file=sys.stderr)
    what, backbone = _backbone(options)
    reading = chosen_reading(options, images.entries)
    parts = plan_statistics(
        images,
        backbone,
        options.out / "statistics",
        reading=reading,
        jobs=options.jobs,
        skip_unreadable=options.skip_unreadable,
    )
    make_missing(parts, force=options.force)
    found = discover(images, reading, read_statistics(images, [part.path for part in parts]), options.k, options.seed)
    print(*found.summary(), sep="\n")
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    write_table(found, table)
    command = shlex.join(["python", "-m", "tools.discover", *sys.argv[1:]])
    write_page(found, page, backbone=what, command=command, figures=options.figures)
    print(f"wrote {table} and {page}")
