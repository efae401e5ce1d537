"""Trained weights, checked before Caffe loads them.

Caffe aborts where a blob's shape differs, and says nothing about layers that the file lacks: they stay as they were
initialised.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import caffe
from caffe.proto.caffe_pb2 import BlobProto, NetParameter
from google.protobuf.message import DecodeError

from latent_domains.common.files import expect_file
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by, some

_HDF5 = b"\x89HDF\r\n\x1a\n"


@dataclass(frozen=True)
class Fit:
    """How weights and nets go together, by names of layers."""

    loaded: tuple[str, ...]
    """Layers with parameters that the weights have."""
    missing: tuple[str, ...]
    """Layers with parameters that the weights have not."""
    unused: tuple[str, ...]
    """Layers with blobs that the weights alone have."""


def check_weights(weights: Path, nets: Sequence[caffe.Net], layers: Sequence[str] | None = None) -> Fit:
    """Say how ``weights`` go together with all the layers of ``nets``.

    ``weights`` is a binary caffemodel: one of V1 layers is read as Caffe upgrades it. ``layers`` must all be there.

    Raises ProgramError if the file cannot be read as a caffemodel, if Caffe would refuse one of its layers, if one of
    ``layers`` is missing, or if it has none of the net's layers with parameters.
    """
    blobs: dict[str, list[tuple[int, ...]]] = {}
    for net in nets:
        for name, layer in zip(net._layer_names, net.layers, strict=True):
            blobs.setdefault(name, [tuple(blob.shape) for blob in layer.blobs])  # the first of a name, as Caffe does
    in_file, unused = set(), []
    for name, found in read_layers(weights):
        in_file.add(name)
        if name not in blobs and found:
            unused.append(name)
        if name in blobs:
            _check_layer(weights, name, found, blobs[name])
    missing = [name for name in layers or () if name not in in_file]
    if missing:
        raise ProgramError(
            f"{weights}: it has no {', '.join(missing)}, expected {', '.join(layers or ())}: "
            "Caffe would leave these layers random"
        )
    expected = [name for name, shapes in blobs.items() if shapes]
    if expected and not in_file & set(expected):
        there = some(sorted(in_file), 10) or "no layer at all"
        raise ProgramError(f"{weights}: it has none of the layers {', '.join(expected)}, found {there}")
    return Fit(
        tuple(name for name in expected if name in in_file),
        tuple(name for name in expected if name not in in_file),
        tuple(unused),
    )


def read_layers(weights: Path) -> Iterator[tuple[str, Sequence[BlobProto]]]:
    """Yield the name and blobs of each layer in a caffemodel. Raises ProgramError if it is none."""
    expect_file(weights, "a caffemodel")
    data = weights.read_bytes()
    if data.startswith(_HDF5):
        raise ProgramError(f"{weights}: an HDF5 file, expected a binary caffemodel (snapshot_format: BINARYPROTO)")
    try:
        param = NetParameter.FromString(data)
    except DecodeError as error:
        raise ProgramError(f"{weights}: {len(data)} bytes that are no caffemodel, or a truncated one") from error
    del data  # AlexNet's is a quarter of a gigabyte
    for layer in param.layer or param.layers:
        yield layer.name, layer.blobs


def _check_layer(weights: Path, name: str, found: Sequence[BlobProto], expected: Sequence[tuple[int, ...]]) -> None:
    """Raise ProgramError if Caffe would refuse to copy these blobs into those of the net, of ``expected`` shapes."""
    if len(found) != len(expected):
        raise ProgramError(f"{weights}: layer {name} has {len(found)} blobs, expected {len(expected)}")
    for i, (blob, shape) in enumerate(zip(found, expected, strict=True)):
        legacy = any(blob.HasField(field) for field in ("num", "channels", "height", "width"))
        # A legacy blob always has four dimensions: a bias is 1×1×1×N, an inner product's weights 1×1×M×N.
        wanted = (1,) * (4 - len(shape)) + shape if legacy else shape
        held = (blob.num, blob.channels, blob.height, blob.width) if legacy else tuple(blob.shape.dim)
        if held != wanted:
            raise ProgramError(
                f"{weights}: blob {i} of layer {name} is {by(held)}, expected {by(wanted)}: "
                "rename the net's layer if it is to be learned anew"
            )
        if (count := len(blob.double_data or blob.data)) != prod(shape):
            raise ProgramError(f"{weights}: blob {i} of layer {name} holds {count} values, expected {prod(shape)}")
