"""What the fork adds to caffe.proto, and its nets as Caffe's own messages.

The text of a net is parsed with an extended set of messages, made at run time. Layers that stock Caffe does not have
become Python layers of :mod:`latent_domains.convert.fork.reference`: from then on the net is one that Caffe runs.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
from caffe.proto import caffe_pb2
from caffe.proto.caffe_pb2 import LossParameter, NetParameter
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from latent_domains.common.program import ProgramError
from latent_domains.models.gate import DATA, admit

MODULE = "latent_domains.convert.fork.reference"
MULTIMODAL, ENTROPY = "MultiModalBatchNorm", "EntropyLoss"

_FIELD = "multimodal_batch_norm_param"
_NUMBER = 2000
"""Any free one: a text has names alone. (The fork's own, 147, is Swish's here.)"""


@cache
def net_class() -> type[Message]:
    """caffe.NetParameter with the fork's field of LayerParameter."""
    file = FileDescriptorProto()
    caffe_pb2.DESCRIPTOR.CopyToProto(file)
    added = file.message_type.add(name="MultiModalBatchNormParameter")
    for number, (name, kind, default) in enumerate(
        (
            ("use_global_stats", FieldDescriptorProto.TYPE_BOOL, None),
            ("moving_average_fraction", FieldDescriptorProto.TYPE_FLOAT, "0.999"),
            ("eps", FieldDescriptorProto.TYPE_FLOAT, "1e-5"),
        ),
        start=1,
    ):
        added.field.add(
            name=name, number=number, type=kind, default_value=default, label=FieldDescriptorProto.LABEL_OPTIONAL
        )
    layer = next(message for message in file.message_type if message.name == "LayerParameter")
    layer.field.add(
        name=_FIELD,
        number=_NUMBER,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=".caffe.MultiModalBatchNormParameter",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    for message in file.message_type:
        message.extension_range.add(start=_NUMBER + 1, end=_NUMBER + 2)  # fields that nobody knows take its form
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("caffe.NetParameter"))


def stock(file: Path, fork: Message) -> NetParameter:
    """The net, with the reference's Python layers for those that stock Caffe lacks.

    Raises ProgramError naming ``file`` if a layer is used in a way that is not the fork's, or :func:`admit` refuses it.
    """
    admit(fork, file, [*DATA, MULTIMODAL, ENTROPY])
    for layer in fork.layer:
        if layer.type == MULTIMODAL:
            _replace(layer, statistics_param(getattr(layer, _FIELD)))
        elif layer.type == ENTROPY:
            _replace(layer, _entropy(file, layer))
            if not layer.loss_weight:
                layer.loss_weight.append(1)  # the default of losses in C++, not of Python layers
        layer.ClearField(_FIELD)
    return NetParameter.FromString(fork.SerializeToString())


def statistics_param(param: Message) -> dict[str, object]:
    """Parameters of a normalisation as MDALayer names them."""
    values: dict[str, object] = {
        "eps": _short(param.eps),
        "moving_average_fraction": _short(param.moving_average_fraction),
    }
    return {**values, "use_global_stats": param.use_global_stats} if param.HasField("use_global_stats") else values


def _entropy(file: Path, layer: Message) -> dict[str, object]:
    loss = layer.loss_param
    mode = loss.normalization
    if not loss.HasField("normalization") and loss.HasField("normalize"):
        mode = LossParameter.VALID if loss.normalize else LossParameter.BATCH_SIZE
    if mode not in (LossParameter.VALID, LossParameter.FULL) or layer.softmax_param.axis != 1:
        raise ProgramError(
            f"{file}: layer {layer.name} (EntropyLoss) has normalization {LossParameter.NormalizationMode.Name(mode)} "
            f"and axis {layer.softmax_param.axis}, expected VALID or FULL, and axis 1"
        )
    layer.ClearField("loss_param")
    layer.ClearField("softmax_param")
    return {}


def _replace(layer: Message, param: dict[str, object]) -> None:
    """Make ``layer`` the Python layer of the same name."""
    layer.python_param.module, layer.python_param.layer = MODULE, layer.type
    if param:
        layer.python_param.param_str = json.dumps(param)
    layer.type = "Python"


def _short(value: float) -> float:
    """A float of a message as it was written: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))
