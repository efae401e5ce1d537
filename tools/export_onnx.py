"""Write a net of stock Caffe layers as ONNX.

    python -m tools.export RUN pacs                                   # folds mDA into stock layers
    python -m tools.export_onnx pacs.prototxt pacs.caffemodel pacs.onnx

The net is a deploy net, as tools.export, tools.convert_resnet18 or BVLC's models have it, with BatchNorm and Scale or
without. Its inputs take any number of images; everything else keeps the sizes that the prototxt has. Inputs, outputs
and blobs have Caffe's names, and what was done to Caffe's input (channels B, G, R; the mean) is to be done to this
one's. The file is of ONNX's operator set 13.

The result is checked with onnx.checker; then ONNX Runtime and Caffe run on the same batches, of one and of several
inputs, and every blob is compared. (Pixels are centred and toned down for it, so that no softmax is saturated.)
A layer that ONNX has no exact counterpart of is refused by name.
"""

import argparse
from pathlib import Path

import caffe
import onnx
import onnxruntime
from caffe.proto.caffe_pb2 import NetParameter
from onnx import ModelProto

from tools import prototxt
from tools.convert.compare import require, worst
from tools.convert.definition import for_tests
from tools.convert.model import load, read_model
from tools.convert.options import add_force, add_verification
from tools.files import check_free, expect_file, write_together
from tools.lmdb_io import by
from tools.onnx_graph.graph import OPSET
from tools.onnx_graph.layer import Refused
from tools.onnx_graph.net import BATCH, blob_names, check_layers, onnx_model
from tools.onnx_graph.verification import compare
from tools.program import ProgramError, run

PRODUCER = "caffe-latent-domains"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.export_onnx", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("net", type=Path, metavar="NET", help="deploy net, a prototxt")
    parser.add_argument("weights", type=Path, metavar="WEIGHTS", help="its caffemodel")
    parser.add_argument("out", type=Path, metavar="OUT", help="ONNX file to write")
    add_force(parser)
    add_verification(parser)
    return parser.parse_args()


def export(net: Path, weights: Path) -> tuple[ModelProto, caffe.Net]:
    """Return a model as ONNX, and the Caffe net with its weights.

    Raises ProgramError naming the file if one is missing, damaged or not the other's, or if the net has a layer with
    no exact counterpart in ONNX.
    """
    expect_file(net, "a deploy net")
    try:
        check_layers(for_tests(prototxt.read(net, NetParameter()), net))  # before Caffe opens what its layers name
        model = read_model(net, weights)
        loaded = load(model)
        made = onnx_model(
            model,
            loaded,
            producer=PRODUCER,
            about=_about(net),
            metadata={
                "net": net.name,
                "weights": weights.name,
                **{f"input {name}": _input_note(loaded.blobs[name].shape) for name in loaded.inputs},
            },
        )
    except Refused as refused:
        raise ProgramError(f"{net}: {refused}") from refused
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ProgramError(f"{net}: onnx.checker refuses what was made of it: {error}") from error
    return made, loaded


def _about(net: Path) -> str:
    """The comment that the prototxt begins with: the converters say in it what the input must be."""
    comment = []
    for line in net.read_text().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return "\n".join(comment)


def _input_note(shape: tuple[int, ...]) -> str:
    return f"{_free(shape)} 32-bit floats, prepared as for Caffe: its order of channels (B, G, R), its mean subtracted"


def _free(shape: tuple[int, ...]) -> str:
    return f"{BATCH}×{by(tuple(shape)[1:])}"


def _sizes(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """A value's declared shape; the batch counts as 0."""
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)


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
    takes = ", ".join(f"{name} {_free(net.blobs[name].shape)}" for name in net.inputs)
    gives = ", ".join(f"{output.name} {_free(_sizes(output))}" for output in made.graph.output)
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
