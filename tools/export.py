"""Fold a trained model into stock layers of Caffe, for other programs: OUT.prototxt and OUT.caffemodel.

    python -m tools.export runs/digits/mda_k2_seed0 digits
    python -m tools.export --net deploy.prototxt --weights model.caffemodel OUT

The first form reads a run folder's deploy net and its last snapshot. It also writes OUT.json, the classes and the
preprocessing, for python -m tools.predict and other programs. mDA with the target's running statistics, BatchNorm and
Scale go into the (de)convolution or inner product before them; without such a layer they become one Scale. With several
latent targets their branch remains. Layers and parameters for training are removed. A head on EfficientNet-Lite0's
features gets its backbone: one net from picture to class, compared with the head on the stored features of the target's
pictures.

The program compares both nets blob by blob on the same inputs, random ones and --images. If a blob differs by more than
1e-4 of its largest value, it writes nothing and ends with an error. (Outputs of a softmax, Sigmoid or TanH may differ
more if its scores are above 10, because rounding grows there.) OpenCV also reads the written files. If OpenCV cannot
run the net at all, the program prints the reason. If OpenCV computes a layer differently (such as LRN within channels),
that is an error; --no-opencv skips this check.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.export")

import argparse
from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.convert.fold.export import Source, export, run_source
from latent_domains.convert.options import add_converter_options, add_pixel_options, converter_options, pixel_options
from latent_domains.runs.run_folder import RunFolder


def _source(options: argparse.Namespace, parser: argparse.ArgumentParser) -> Source:
    given = options.net, options.weights
    if options.run is not None:
        if any(given) or options.mean or options.scale is not None:
            parser.error("a run folder has its own net, weights, mean and scale: give --net and --weights, or RUN")
        return run_source(RunFolder.load(options.run))
    if not all(given):
        parser.error("expected a run folder and OUT, or --net, --weights and OUT")
    return Source(options.net.name, *given, pixel_options(options))


def main() -> None:
    parser = program_parser("tools.export", __doc__)
    parser.add_argument("run", type=Path, nargs="?", metavar="RUN", help="run folder, trained to its last iteration")
    parser.add_argument("out", type=Path, metavar="OUT", help="prefix of the output files' names")
    parser.add_argument("--net", type=Path, metavar="FILE", help="deploy prototxt to export instead of RUN")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="caffemodel of --net")
    add_pixel_options(parser, 0, "with --net, ")
    parser.add_argument(
        "--opencv",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also verify with OpenCV, and write nothing if its results differ from Caffe's (default: yes)",
    )
    add_converter_options(parser)
    options = parser.parse_intermixed_args()
    export(_source(options, parser), options.out, converter_options(options), opencv=options.opencv)
