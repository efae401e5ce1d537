"""A whole net of stock Caffe layers as an ONNX model."""

from collections.abc import Mapping, Sequence

import caffe
import onnx
from caffe.proto.caffe_pb2 import LayerParameter, NetParameter
from onnx import ModelProto, TensorProto, helper

from latent_domains.common.wording import by
from latent_domains.convert.onnx.graph import OnnxGraph
from latent_domains.convert.onnx.layer import Layer, Refused, refusal
from latent_domains.convert.onnx.layers import LAYERS, SEVERAL
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
    """Write a model as ONNX. ``net`` is what Caffe made of it: it knows the blobs' shapes, the input and the outputs.

    Input, outputs and every blob keep their names; a blob that layers change in place has its name in its last state.
    A layer's last node has the layer's name. The first axis is free. Raises Refused for what has no exact counterpart.
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
    """Whether the layer leaves its blob as it is, in place: it gets no node."""
    return layer.type == "Dropout" and list(layer.bottom) == list(layer.top)


def _declared(value: Value) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value.name, TensorProto.FLOAT, [BATCH, *value.shape[1:]])


def _input(net: caffe.Net) -> str:
    """The name of the net's input. Raises Refused unless it is one, with the batch as its first axis."""
    shapes = {name: tuple(net.blobs[name].shape) for name in net.inputs}
    if [len(shape) > 1 for shape in shapes.values()] != [True]:
        found = ", ".join(f"{name} {by(shape)}" for name, shape in shapes.items()) or "none"
        raise Refused(f"its inputs are {found}, expected a single one, with the batch as the first of its axes")
    return net.inputs[0]


def blob_names(model: ModelProto, blobs: Mapping[str, Array] | Sequence[str]) -> list[str]:
    """Those of Caffe's ``blobs`` that nodes of the model write."""
    written = {name for node in model.graph.node for name in node.output}
    return [name for name in blobs if name in written]
