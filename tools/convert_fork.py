"""Convert a net and weights of the authors' fork of Caffe (latent_domains_DA) into ours.

    python -m tools.convert_fork resnet18_k3.prototxt pacs.caffemodel converted/pacs --set CLASSES=7

Read the fork's net for training and tests, with one MultiModalBatchNorm layer for each latent domain, and its
caffemodel. Write OUT.prototxt (from an image to its class probabilities, with the target's statistics), OUT.caffemodel
and, if possible, OUT_train.prototxt (the training net). One mDA layer replaces all layers that normalise the domains of
the same features. Layers have the names of our nets, so the weights also load into those (python -m tools.train
--weights).

--set fills template fields (%NAME%). Without the training net's batch sizes, slice point, image lists and weights of
losses there is no OUT_train.prototxt. Fields whose names begin with TEST_ are never needed.

Before writing, run both nets on the same inputs: the fork's net, with reference layers written from their formulas, and
ours. Compare all common blobs in the deploy net and in the training net, with batch statistics and with the running
statistics of every domain.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.convert_fork")

import argparse
import re
from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.convert.fork.converter import convert
from latent_domains.convert.options import add_converter_options, converter_options


def _options() -> argparse.Namespace:
    parser = program_parser("tools.convert_fork", __doc__)
    parser.add_argument("net", type=Path, metavar="NET", help="the fork's prototxt for both phases, with include rules")
    parser.add_argument("weights", type=Path, metavar="WEIGHTS", help="caffemodel written by the fork")
    parser.add_argument("out", type=Path, metavar="OUT", help="prefix of the output files' names")
    parser.add_argument(
        "--set",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a template field; may be repeated",
    )
    add_converter_options(parser)
    options = parser.parse_args()
    names = [name for name, _ in options.set]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        parser.error(f"--set: {', '.join(twice)} more than once")
    return options


def _setting(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not (re.fullmatch(r"\w+", name) and re.fullmatch(r"[^\"'\\{}<>#%]+", value) and text.isprintable()):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected NAME=VALUE, as CLASSES=7, without quotes or braces")
    return name, value


def main() -> None:
    options = _options()
    values = dict(options.set)
    convert(options.net, options.weights, options.out, values=values, options=converter_options(options))
