"""Nets as graphs: what flows where, and which parameters learn."""

from collections.abc import Iterable

from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.models.graph import kind

STATISTICS = {"MDALayer", "BatchNorm"}


def parse(text: str) -> caffe_pb2.NetParameter:
    return text_format.Parse(text, caffe_pb2.NetParameter())


def layers(text: str) -> dict[str, caffe_pb2.LayerParameter]:
    """The layers of a net's text by name."""
    return {layer.name: layer for layer in parse(text).layer}


def is_loss(layer: caffe_pb2.LayerParameter) -> bool:
    return kind(layer) in ("SoftmaxWithLoss", "EntropyLossLayer")


def reached(net: caffe_pb2.NetParameter, blobs: Iterable[str]) -> set[str]:
    """Names of the layers that the given blobs flow into, directly or through others (layers are in order)."""
    tainted, names = set(blobs), set()
    for layer in net.layer:
        if tainted & set(layer.bottom):
            names.add(layer.name)
            tainted |= set(layer.top)
    return names


def learners(net: caffe_pb2.NetParameter) -> dict[str, list[tuple[float, float]]]:
    """(lr_mult, decay_mult) of every parameter of every layer that has some."""
    return {
        layer.name: [(param.lr_mult, param.decay_mult) for param in layer.param] for layer in net.layer if layer.param
    }
