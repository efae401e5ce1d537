"""Write a net of stock Caffe layers as ONNX.

    python -m tools.export RUN pacs                                   # folds mDA into stock layers
    python -m tools.export_onnx pacs.prototxt pacs.caffemodel pacs.onnx

The net is a deploy net, as tools.export, tools.convert_resnet or BVLC's models have it, with BatchNorm and Scale or
without. Its inputs take any number of images; everything else keeps the sizes that the prototxt has. Inputs, outputs
and blobs have Caffe's names, and what was done to Caffe's input (channels B, G, R; the mean) is to be done to this
one's. The file is of ONNX's operator set 13.

The result is checked with onnx.checker; then ONNX Runtime and Caffe run on the same batches, of one and of several
inputs, and every blob is compared. (Pixels are centred and toned down for it, so that no softmax is saturated.)
A layer that ONNX has no exact counterpart of is refused by name.
"""

import argparse
from pathlib import Path

import onnxruntime

from latent_domains.common.arguments import program_parser
from latent_domains.common.files import check_free, write_together
from latent_domains.common.program import run
from latent_domains.convert.onnx.export import export, free, sizes
from latent_domains.convert.onnx.graph import OPSET
from latent_domains.convert.onnx.net import blob_names
from latent_domains.convert.onnx.verification import compare
from latent_domains.convert.options import add_force, add_verification
from latent_domains.models.compare import require, worst


def _arguments() -> argparse.Namespace:
    parser = program_parser("tools.export_onnx", __doc__)
    parser.add_argument("net", type=Path, metavar="NET", help="deploy net, a prototxt")
    parser.add_argument("weights", type=Path, metavar="WEIGHTS", help="its caffemodel")
    parser.add_argument("out", type=Path, metavar="OUT", help="ONNX file to write")
    add_force(parser)
    add_verification(parser)
    return parser.parse_args()


def main() -> None:
    """Write, compare, rename."""
    arguments = _arguments()
    check_free(arguments.out, force=arguments.force, inputs=(arguments.net, arguments.weights))
    made, net = export(arguments.net, arguments.weights)
    with write_together(arguments.out, force=arguments.force) as (aside,):
        aside.write_bytes(made.SerializeToString())
        if arguments.verify:
            rows = compare(net, made, aside, arguments.images, arguments.seed)
            require(rows)
    takes = ", ".join(f"{name} {free(net.blobs[name].shape)}" for name in net.inputs)
    gives = ", ".join(f"{output.name} {free(sizes(output))}" for output in made.graph.output)
    print(f"{arguments.out}: operator set {OPSET}, {len(made.graph.node)} nodes; {takes} → {gives}")
    if arguments.verify:
        furthest = worst(rows)
        print(
            f"ONNX Runtime {onnxruntime.__version__} agrees with Caffe: of {len(blob_names(made, net.blobs))} blobs "
            f"{furthest.name} differs most, by {furthest.relative:.1e} of its largest value"
        )
    else:
        print("not verified")


if __name__ == "__main__":
    run(main)
