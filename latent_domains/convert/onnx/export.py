"""A net of stock Caffe layers and its weights as one ONNX model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import caffe
import onnx
import onnxruntime
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from onnx import ModelProto, TensorProto, helper
from tqdm import tqdm

from latent_domains.common.files import check_free, expect_file, sha256, write_together
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by
from latent_domains.convert.onnx.layer import OPSET, Layer, OnnxGraph, Refused, refusal
from latent_domains.convert.onnx.layers import LAYERS, SEVERAL
from latent_domains.convert.options import ConverterOptions, pixels_hint
from latent_domains.data.preprocessing import Transform
from latent_domains.models.allowed import DATA, read_net
from latent_domains.models.compare import (
    AS_STORED,
    Difference,
    differences,
    in_batches,
    keep_worst,
    makers,
    require,
    tried,
    worst,
)
from latent_domains.models.graph import Value
from latent_domains.models.model import Array, Model, check_finite, forward, load, read_model
from latent_domains.models.onnx_file import MADE_OF, Runtime, with_outputs
from latent_domains.models.prototxt import for_phase

MEAN = 128
"""Subtracted from pixels only for the comparison, if the net's own mean is unknown: it gives values of both signs."""


def compare(
    definition: NetParameter,
    net: caffe.Net,
    made: ModelProto,
    file: Path,
    images: Path | None,
    transform: Transform,
) -> list[Difference]:
    """Compare every blob of ``made``, and the outputs of the ``file`` that it was written to, with Caffe's.

    ``definition`` is that of ``net``. Inputs are random pixels, one and several at once, and images of a folder, if
    any, transformed. Returns the largest difference of each.
    """
    (name,) = net.inputs
    rows, _ = tried(net.blobs[name].shape[1:], images, transform)
    inside = Runtime(with_outputs(made, blob_names(made, net.blobs)).SerializeToString())
    written = Runtime(str(file))
    kinds = makers(definition)
    largest: dict[str, Difference] = {}
    for batch in tqdm([rows[:1], *in_batches(rows)], desc="comparing", unit="batch"):
        expected = forward(net, batch)
        keep_worst(largest, differences(expected, inside.forward({name: batch}), kinds))
        for row in differences(expected, written.forward({name: batch}), kinds):
            keep_worst(largest, [replace(row, name=f"{row.name} (of the file)")])
    return list(largest.values())


BATCH = "N"
"""The name of the free size."""

_MAKE_DEPLOY = "expected a deploy net, with an Input layer and without losses"
_FOLD = "expected stock layers: fold it first: python -m tools.export"


def check_layers(net: NetParameter) -> None:
    """Raise Refused for a layer that cannot be written with any parameters."""
    for layer in net.layer:
        if layer.type == "Python":
            raise refusal(layer, f"runs {layer.python_param.module}.{layer.python_param.layer}; {_FOLD}")
        if "Data" in layer.type or "Loss" in layer.type or layer.type == "Accuracy":
            raise refusal(layer, _MAKE_DEPLOY)
        if layer.type not in LAYERS and layer.type != "Input":
            raise refusal(layer, f"it has no counterpart here, expected one of {', '.join(LAYERS)}")


def onnx_model(model: Model, net: caffe.Net, *, producer: str, about: str, metadata: Mapping[str, str]) -> ModelProto:
    """Write a model as ONNX. ``net`` is the same in Caffe: it knows the blobs' shapes, the input and the outputs.

    Input, outputs and every blob keep their names; a blob that layers change in place has its name in its last state. A
    layer's last node has the layer's name. The first axis is free. Raises Refused for a layer without an exact
    counterpart.
    """
    check_layers(model.net)
    entry = _input(net)
    outputs = [name for name in net.outputs if name != entry]
    if not outputs:
        raise Refused(f"no output, {_MAKE_DEPLOY}")
    layers = [layer for layer in model.net.layer if layer.type != "Input"]
    shapes_of = {name: tuple(blob.shape) for name, blob in net.blobs.items()}
    values = {entry: Value(entry, shapes_of[entry])}
    graph = OnnxGraph(shapes_of)
    last_writers = {top: number for number, layer in enumerate(layers) for top in layer.top if not _is_idle(layer)}
    for number, param in enumerate(layers):
        if _is_idle(param):
            continue
        if entry in param.top:
            raise refusal(param, f"changes the input {entry} in place, expected a top of another name")
        bottoms = tuple(values[name] for name in param.bottom)
        for top in param.top:
            state = top if last_writers[top] == number else graph.new_value(f"{top}/{param.name}")
            values[top] = Value(state, shapes_of[top])
        tops = tuple(values[name] for name in param.top)
        if param.type not in SEVERAL and (len(bottoms), len(tops)) != (1, 1):
            raise refusal(param, f"{len(bottoms)} bottoms and {len(tops)} tops, expected one of each")
        LAYERS[param.type](Layer(param, bottoms, tops, model.blobs.get(param.name, ()), graph))
    made = graph.model(
        model.net.name or "net",
        [_declared(values[entry])],
        [_declared(values[name]) for name in outputs],
        producer_name=producer,
        doc_string=about,
    )
    helper.set_model_props(made, dict(metadata))
    return made


def _is_idle(layer: LayerParameter) -> bool:
    """Say whether the layer does not change its blob, in place: it gets no node."""
    return layer.type == "Dropout" and list(layer.bottom) == list(layer.top)


def _declared(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, TensorProto.FLOAT, [BATCH, *value.shape[1:]])


def _input(net: caffe.Net) -> str:
    """Return the name of the net's input. Raises Refused unless it is one, with the batch as its first axis."""
    shapes = {name: tuple(net.blobs[name].shape) for name in net.inputs}
    if [len(shape) > 1 for shape in shapes.values()] != [True]:
        found = ", ".join(f"{name} {by(shape)}" for name, shape in shapes.items()) or "none"
        raise Refused(f"its inputs are {found}, expected a single one, with the batch as the first of its axes")
    return net.inputs[0]


def blob_names(model: ModelProto, blobs: Mapping[str, Array] | Sequence[str]) -> list[str]:
    """Return those of Caffe's ``blobs`` that nodes of the model write."""
    written = {name for node in model.graph.node for name in node.output}
    return [name for name in blobs if name in written]


PRODUCER = "caffe-latent-domains"


def export_onnx(
    net: Path,
    weights: Path,
    out: Path,
    options: ConverterOptions,
    *,
    transform: Transform = AS_STORED,
    check: Callable[[Path], None] | None = None,
) -> None:
    """Write a model of Caffe as the ONNX file ``out``, and print notes about it.

    It is compared on pixels with this ``transform``; the default subtracts MEAN. ``check`` is called with the file
    before it gets its name: if it raises, nothing is written. Refuses a model without an exact counterpart, or whose
    results in ONNX Runtime differ from Caffe's, if that is verified.
    """
    check_free(out, force=options.force, inputs=(net, weights))
    made, definition, loaded = converted(net, weights)
    (entry,) = loaded.inputs
    with write_together(out, force=options.force) as (aside,):
        aside.write_bytes(made.SerializeToString())
        if options.verify:
            used = replace(transform, mean=transform.mean or (MEAN,))
            rows = compare(definition, loaded, made, aside, options.images, used)
            require(weights, rows, hint=pixels_hint(transform, MEAN))
        if check is not None:
            check(aside)
    takes = f"{entry} {_free(loaded.blobs[entry].shape)}"
    gives = ", ".join(f"{output.name} {_free(_sizes(output))}" for output in made.graph.output)
    print(f"{out}: operator set {OPSET}, {len(made.graph.node)} nodes; {takes} → {gives}")
    if options.verify:
        furthest = worst(rows)
        print(
            f"ONNX Runtime {onnxruntime.__version__} agrees with Caffe: of {len(blob_names(made, loaded.blobs))} blobs "
            f"{furthest.name} differs most, by {furthest.relative:.1e} of its largest value"
        )
    else:
        print("not verified")


def converted(net: Path, weights: Path) -> tuple[ModelProto, NetParameter, caffe.Net]:
    """Return a model as ONNX, its definition, and the Caffe net with its weights.

    Refuses a layer without an exact counterpart in ONNX.
    """
    expect_file(net, "a deploy net")
    try:
        definition = for_phase(read_net(net, DATA), caffe.TEST, net)
        check_layers(definition)  # before Caffe opens what its layers name
        model = read_model(net, weights)
        check_finite(model.blobs, weights)
        loaded = load(model)
        made = onnx_model(
            model,
            loaded,
            producer=PRODUCER,
            about=_about(net),
            metadata={
                "net": net.name,
                "weights": weights.name,
                MADE_OF: sha256(weights),
            },
        )
    except Refused as refused:
        raise ProgramError(f"{net}: {refused}") from refused
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ProgramError(f"{net}: onnx.checker refuses what was made of it: {error}") from error
    return made, definition, loaded


def _about(net: Path) -> str:
    """Return the comment at the beginning of the prototxt, in which the converters describe the input."""
    comment = []
    for line in net.read_text().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return "\n".join(comment)


def _free(shape: tuple[int, ...]) -> str:
    return f"{BATCH}×{by(tuple(shape)[1:])}"


def _sizes(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """Return a value's declared shape; the batch counts as 0."""
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
