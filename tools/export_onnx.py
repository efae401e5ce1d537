"""Write a net of stock Caffe layers as ONNX.

    python -m tools.export RUN pacs                                   # folds mDA into stock layers
    python -m tools.export_onnx pacs.prototxt pacs.caffemodel pacs.onnx

The net is a deploy net, as tools.export, tools.convert_resnet18 or BVLC's models have it, with BatchNorm and Scale or
without. Its inputs take any number of images; everything else keeps the sizes that the prototxt has. Inputs, outputs
and blobs have Caffe's names, and what was done to Caffe's input (channels B, G, R; the mean) is to be done to this
one's. The file is of ONNX's operator set 13.

The result is checked with onnx.checker; then ONNX Runtime and Caffe run on the same batches, of one and of several
inputs, and every blob is compared. A layer that ONNX has no exact counterpart of is refused by name.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import caffe
import numpy as np
import onnx
import onnxruntime
from caffe.proto.caffe_pb2 import NetParameter
from onnx import ModelProto
from tqdm import tqdm

from tools import prototxt
from tools.convert import inputs
from tools.convert.compare import Difference, differences, require, worst
from tools.convert.definition import for_tests
from tools.convert.model import Array, forward, load, read_model
from tools.convert.options import add_force, add_verification
from tools.files import check_free, write_together
from tools.lmdb_io import by
from tools.onnx_graph.layer import Refused
from tools.onnx_graph.net import BATCH, OPSET, blob_names, check_layers, onnx_model, with_all_values
from tools.program import ProgramError, run

PRODUCER = "caffe-latent-domains"

BATCHES = (1, 3)
"""Rows of the random batches."""

IMAGES_AT_ONCE = 4

MEAN = 128
"""Subtracted from pixels for the comparison alone: values of both signs, as nets get them, whatever their own mean."""

CALMING_STEPS = 4
"""Nets are not linear: one step towards smaller inputs may not be enough."""

SMALLEST_FACTOR = np.float32(1 / 256)
"""No net is trained on smaller pixels; with smaller ones it would be its biases alone that are compared."""

LOGIT = 20
"""The largest input of a Softmax that a comparison is good for. Far above it the probabilities are 0 and 1 whatever the
net does before, or a rounding error of large numbers decides between two classes."""


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
    if not net.is_file():
        raise ProgramError(f"{net}: {'a folder' if net.is_dir() else 'no such file'}, expected a deploy net")
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


def batches(net: caffe.Net, images: Path | None, seed: int) -> Iterator[dict[str, Array]]:
    """Inputs to compare on: random batches of BATCHES rows, then those images of a folder, if any.

    All are pixels less MEAN, times a factor that keeps every Softmax at work.
    """
    noise = {name: inputs.noise(net.blobs[name].shape[1:], seed + i, [MEAN]) for i, name in enumerate(net.inputs)}
    factor = _calming(net, noise)
    for rows in BATCHES:
        yield {name: factor * values[:rows] for name, values in noise.items()}
    if images is not None:
        if len(net.inputs) != 1:
            raise ProgramError(f"--images: the net has the inputs {', '.join(net.inputs)}, expected a single one")
        (name,) = net.inputs
        _, pictures = inputs.images(images, net.blobs[name].shape[1:], [MEAN])
        for row in range(0, len(pictures), IMAGES_AT_ONCE):
            yield {name: factor * pictures[row : row + IMAGES_AT_ONCE]}


def _calming(net: caffe.Net, batch: Mapping[str, Array]) -> np.float32:
    """The factor, at most 1, for inputs that leave no Softmax with more than about LOGIT."""
    logits = [
        blob
        for name, layer in zip(net._layer_names, net.layers, strict=True)
        if layer.type == "Softmax"
        for blob in net.bottom_names[name]
    ]
    factor = np.float32(1)
    for _ in range(CALMING_STEPS if logits else 0):
        blobs = forward(net, {name: factor * values for name, values in batch.items()})
        largest = max(np.abs(blobs[name]).max() for name in logits)
        if not largest > LOGIT:  # NaN too: the comparison says so
            break
        factor = max(factor * np.float32(LOGIT / largest), SMALLEST_FACTOR)
    return factor


def compare(net: caffe.Net, made: ModelProto, file: Path, images: Path | None, seed: int) -> list[Difference]:
    """Compare every blob of ``made``, and the outputs of the ``file`` that it was written to, with Caffe's.

    Returns the largest difference of each. Raises ProgramError if ONNX Runtime refuses the model.
    """
    names = blob_names(made, net.blobs)
    inside, written = _session(with_all_values(made, names).SerializeToString()), _session(str(file))
    largest: dict[str, Difference] = {}
    for batch in tqdm(list(batches(net, images, seed)), desc="comparing", unit="batch"):
        expected = forward(net, batch)
        found = dict(zip(names, _run(inside, names, batch), strict=True))
        outputs = {name: expected[name] for name in net.outputs}
        again = dict(zip(outputs, _run(written, list(outputs), batch), strict=True))
        rows = differences({name: expected[name] for name in names}, found)
        rows += [Difference(f"{row.name} (of the file)", row.relative) for row in differences(outputs, again)]
        for row in rows:
            largest[row.name] = worst([row, largest.get(row.name, row)])
    return list(largest.values())


def _session(model: bytes | str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its classes share no other base
        raise ProgramError(f"ONNX Runtime refuses the model: {error}") from error


def _run(session: onnxruntime.InferenceSession, names: list[str], batch: Mapping[str, Array]) -> list[Array]:
    try:
        return session.run(names, {name: np.ascontiguousarray(values) for name, values in batch.items()})
    except Exception as error:
        raise ProgramError(f"ONNX Runtime fails on a batch of {len(next(iter(batch.values())))}: {error}") from error


def main() -> None:
    """Write, compare, rename."""
    arguments = _arguments()
    check_free(arguments.out, force=arguments.force)
    made, net = export(arguments.net, arguments.weights)
    with write_together(arguments.out, force=arguments.force) as (aside,):
        aside.write_bytes(made.SerializeToString())
        if arguments.verify:
            rows = compare(net, made, aside, arguments.images, arguments.seed)
            require(rows)
    takes = ", ".join(f"{name} {_free(net.blobs[name].shape)}" for name in net.inputs)
    gives = ", ".join(f"{name} {_free(net.blobs[name].shape)}" for name in net.outputs)
    print(f"{arguments.out}: operator set {OPSET}, {len(made.graph.node)} nodes; {takes} → {gives}")
    if arguments.verify:
        furthest = worst(rows)
        print(
            f"ONNX Runtime {onnxruntime.__version__} agrees with Caffe: of {len(blob_names(made, net.blobs))} blobs "
            f"{furthest.name} differs most, by {furthest.relative:.1e} of its largest value"
        )


if __name__ == "__main__":
    run(main)
