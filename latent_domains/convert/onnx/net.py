"""A whole net of stock Caffe layers as an ONNX model."""

from collections.abc import Mapping, Sequence

import caffe
import onnx
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from onnx import ModelProto, TensorProto, helper

from latent_domains.common.wording import by
from latent_domains.convert.onnx.graph import OnnxGraph
from latent_domains.convert.onnx.layer import Layer, Refused, refusal
from latent_domains.convert.onnx.layers import LAYERS
from latent_domains.models.graph import Value
from latent_domains.models.model import Array, Model

BATCH = "N"
"""The name of the free size."""

_MAKE_DEPLOY = "expected a deploy net, with an Input layer and without losses"
_FOLD = "expected stock layers: fold it first: python -m tools.export"


def check_layers(net: NetParameter) -> None:
    """Raise Refused for a layer that cannot be written whatever its parameters are."""
    for layer in net.layer:
        if layer.type == "Python":
            raise refusal(layer, f"runs {layer.python_param.module}.{layer.python_param.layer}; {_FOLD}")
        if "Data" in layer.type or "Loss" in layer.type or layer.type == "Accuracy":
            raise refusal(layer, _MAKE_DEPLOY)
        if layer.type not in LAYERS and layer.type != "Input":
            raise refusal(layer, f"it has no counterpart here, expected one of {', '.join(LAYERS)}")


def onnx_model(model: Model, net: caffe.Net, *, producer: str, about: str, metadata: Mapping[str, str]) -> ModelProto:
    """Write a model as ONNX. ``net`` is what Caffe made of it: it knows the blobs' shapes, the inputs and the outputs.

    Inputs, outputs and every blob keep their names; a blob that layers change in place has its name in its last state.
    A layer's last node has the layer's name. The first axis of every input is free. Inputs that no layer reads, which
    Caffe calls outputs too, are inputs alone. Raises Refused for what has no exact counterpart.
    """
    check_layers(model.net)
    _check_inputs(net)
    outputs = [name for name in net.outputs if name not in net.inputs]
    if not outputs:
        raise Refused(f"no output, {_MAKE_DEPLOY}")
    layers = [layer for layer in model.net.layer if layer.type != "Input"]
    shapes_of = {name: tuple(blob.shape) for name, blob in net.blobs.items()}
    values = {name: Value(name, shapes_of[name]) for name in net.inputs}
    graph = OnnxGraph(shapes_of)
    last_writers = {top: number for number, layer in enumerate(layers) for top in layer.top if not _is_idle(layer)}
    for number, param in enumerate(layers):
        if _is_idle(param):
            continue
        if changed := [top for top in param.top if top in net.inputs]:
            raise refusal(param, f"changes the input {changed[0]} in place, expected a top of another name")
        bottoms = tuple(values[name] for name in param.bottom)
        for top in param.top:
            state = top if last_writers[top] == number else graph.new_value(f"{top}/{param.name}")
            values[top] = Value(state, shapes_of[top])
        tops = tuple(values[name] for name in param.top)
        operator, layer = LAYERS[param.type], Layer(param, bottoms, tops, model.blobs.get(param.name, ()), graph)
        layer.check_counts(operator.bottoms, operator.tops)
        operator.write(layer)
    made = graph.model(
        model.net.name or "net",
        [_declared(values[name]) for name in net.inputs],
        [_declared(values[name]) for name in outputs],
        producer_name=producer,
        doc_string=about,
    )
    helper.set_model_props(made, dict(metadata))
    return made


def _is_idle(layer: LayerParameter) -> bool:
    """Whether the layer leaves its blob as it is, in place: it gets no node."""
    return layer.type == "Dropout" and list(layer.bottom) == list(layer.top)


def _declared(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, TensorProto.FLOAT, [BATCH, *value.shape[1:]])


def _check_inputs(net: caffe.Net) -> None:
    """Raise Refused unless all inputs have the batch as their first axis."""
    inputs = {name: tuple(net.blobs[name].shape) for name in net.inputs}
    if not inputs:
        raise Refused(f"no input, {_MAKE_DEPLOY}")
    if any(len(shape) < 2 for shape in inputs.values()) or len({shape[0] for shape in inputs.values()}) > 1:
        found = ", ".join(f"{name} {by(shape)}" for name, shape in inputs.items())
        raise Refused(f"inputs {found}; expected the batch as the first of at least two axes of each")


def blob_names(model: ModelProto, blobs: Mapping[str, Array] | Sequence[str]) -> list[str]:
    """Those of Caffe's ``blobs`` that nodes of the model write."""
    written = {name for node in model.graph.node for name in node.output}
    return [name for name in blobs if name in written]
