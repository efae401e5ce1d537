"""Extract AlexNet's fc7 features: from each domain's LMDB of images, one of features.

    python -m tools.extract_features office31 --weights bvlc_alexnet.caffemodel

reads DATA/office31/DOMAIN and writes OUT/office31_fc7/DOMAIN: for each image, in the same order and by the same name, a
Datum of 4096×1×1 floats, fc7 of the central crop before its ReLU, with the image's label. Features that stand already
are not extracted again; those of other weights or images are an error, never reused.
"""

import argparse
from pathlib import Path

import caffe

from latent_domains.common.arguments import positive, program_parser
from latent_domains.common.program import ROOT, run
from latent_domains.data.parts import build_missing
from latent_domains.experiment.datasets import DATASETS
from latent_domains.runs.devices import MODES, VARIABLE, check_available, requested_mode
from latent_domains.runs.extraction import DATASET_NAMES, parts


def _arguments() -> argparse.Namespace:
    parser = program_parser("tools.extract_features", __doc__)
    parser.add_argument("dataset", choices=DATASET_NAMES)
    parser.add_argument(
        "--weights", type=Path, required=True, metavar="FILE", help="AlexNet trained on ImageNet, a caffemodel"
    )
    parser.add_argument("--domains", nargs="+", metavar="DOMAIN", help="default: all of the dataset")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="data folder (default: data)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="data folder of the features (default: that of --data)")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="images at once (default: 32)")
    parser.add_argument(
        "--solver-mode",
        choices=MODES,
        help=f"where Caffe computes (default: environment variable {VARIABLE}, else CPU)",
    )
    parser.add_argument("--force", action="store_true", help="replace features of other weights or images")
    arguments = parser.parse_args()
    known = DATASETS[arguments.dataset].domains
    for domain in arguments.domains or ():
        if domain not in known:
            parser.error(f"argument --domains: {domain!r}, expected some of {', '.join(known)}")
    return arguments


def main() -> None:
    """Extract the features that are missing."""
    arguments = _arguments()
    if requested_mode(arguments.solver_mode) == "GPU":
        check_available("GPU", "solver mode GPU")
        caffe.set_mode_gpu()
    wanted = arguments.domains or DATASETS[arguments.dataset].domains
    build_missing(
        parts(
            arguments.dataset,
            tuple(dict.fromkeys(wanted)),
            arguments.weights,
            arguments.data,
            arguments.out or arguments.data,
            arguments.batch_size,
        ),
        force=arguments.force,
    )


if __name__ == "__main__":
    run(main)
