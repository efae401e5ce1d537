"""Trained weights, checked before Caffe loads them.

Caffe aborts if a blob's shape differs. It reports no layers that the file lacks: these keep their initial values.
"""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import BlobProto, NetParameter
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from numpy.typing import NDArray

from latent_domains.common.files import expect_file, read_bytes
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by, some

_HDF5 = b"\x89HDF\r\n\x1a\n"

_RAW_TYPE, _RAW_DATA = 10, 12
"""Fields of a blob in which NVIDIA's Caffe stores its numbers, where stock Caffe does not look."""

_RAW_TYPES = {0: "<f8", 1: "<f4", 2: "<f2"}


@dataclass(frozen=True)
class Fit:
    """How weights and nets fit, by names of layers."""

    loaded: tuple[str, ...]
    """Layers with parameters that the weights have."""
    missing: tuple[str, ...]
    """Layers with parameters that the weights lack, and that share no parameter with loaded ones."""
    unused: tuple[str, ...]
    """Layers with blobs that only the weights have."""


def check_weights(weights: Path, nets: Sequence[caffe.Net], layers: Sequence[str] | None = None) -> Fit:
    """Compare the layers of ``weights`` with those of all ``nets``.

    ``weights`` is a binary caffemodel. Old V1 layers are read as Caffe upgrades them. All of ``layers`` must exist.

    Refuses weights without any of the nets' layers with parameters, and running statistics that are averages instead of
    sums.
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
    shared = _sharing(nets, in_file)
    missing = [name for name in layers or () if name not in in_file | shared]
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
        tuple(name for name in expected if name not in in_file | shared),
        tuple(unused),
    )


def _sharing(nets: Sequence[caffe.Net], loaded: Collection[str]) -> set[str]:
    """Return the layers all of whose blobs are those of ``loaded`` layers, since their parameters have one name."""
    found: set[str] = set()
    for net in nets:
        places = {name: {blob.data.ctypes.data for blob in blobs} for name, blobs in net.params.items() if len(blobs)}
        known = set().union(*(places[name] for name in loaded if name in places))
        found.update(name for name, of_layer in places.items() if of_layer <= known)
    return found - set(loaded)


def read_layers(weights: Path) -> Iterator[tuple[str, Sequence[BlobProto]]]:
    """Yield the name and blobs of each layer in a caffemodel."""
    param, _ = _read(weights)
    for layer in param.layer or param.layers:
        yield layer.name, layer.blobs


@contextmanager
def for_caffe(weights: Path) -> Iterator[Path]:
    """Yield a caffemodel for Caffe: ``weights``, or a temporary copy if NVIDIA's Caffe saved it in its own way."""
    param, unpacked = _read(weights)
    if not unpacked:
        del param
        yield weights
        return
    with tempfile.NamedTemporaryFile(suffix=".caffemodel") as file:
        file.write(param.SerializeToString())
        file.flush()
        del param
        yield Path(file.name)


def put_values(values: NDArray[np.floating], blob: BlobProto) -> None:
    """Store values in ``blob`` as Caffe does.

    They go in as bytes of the wire format (field 5, packed floats). One by one they would take seconds.
    """
    data = np.ascontiguousarray(values, "<f4").data
    length, size = bytearray(), data.nbytes
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    blob.MergeFromString(b"".join((b"\x2a", length, data)))


def _read(weights: Path) -> tuple[NetParameter, bool]:
    """Return the contents of a caffemodel, with all numbers where stock Caffe looks; and whether some were moved."""
    expect_file(weights, "a caffemodel")
    data = read_bytes(weights)
    if data.startswith(_HDF5):
        raise ProgramError(f"{weights}: an HDF5 file, expected a binary caffemodel (snapshot_format: BINARYPROTO)")
    try:
        param = NetParameter.FromString(data)
    except DecodeError as error:
        raise ProgramError(f"{weights}: {len(data)} bytes that are not a caffemodel, or a truncated one") from error
    del data  # AlexNet's is a quarter of a gigabyte
    found = [
        _unpack(blob, f"{weights}: blob {i} of layer {layer.name}")
        for layer in param.layer or param.layers
        for i, blob in enumerate(layer.blobs)
    ]
    return param, any(found)


def _unpack(blob: BlobProto, where: str) -> bool:
    """Move what NVIDIA's Caffe saved in ``raw_data`` to where stock Caffe looks. Return whether there was any."""
    found = {field.field_number: field.data for field in UnknownFieldSet(blob)}
    raw, number = found.get(_RAW_DATA), found.get(_RAW_TYPE)
    if not isinstance(raw, bytes) or blob.data or blob.double_data:  # in the order in which NVIDIA's Caffe looks
        return False
    kind = _RAW_TYPES.get(number) if isinstance(number, int) else None
    if kind is None or len(raw) % np.dtype(kind).itemsize:
        raise ProgramError(
            f"{where}: saved by NVIDIA's Caffe as {len(raw)} bytes of type {number}, expected numbers of "
            "type 0, 1 or 2 (double, float, half): save it with store_blobs_in_old_format"
        )
    put_values(np.frombuffer(raw, kind), blob)
    return True


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
            remedy = "rename the net's layer if it is to be learned anew"
            if _is_normalisation(expected) and len(shape) == 2 and held[1:] == shape[1:]:
                remedy = (
                    f"it is of an mDA net with {held[0]} domains, source and target together, this one has {shape[0]}: "
                    f"get or convert the weights with --num-domains {shape[0]}; if they are a snapshot, {remedy}"
                )
            raise ProgramError(f"{weights}: blob {i} of layer {name} is {by(held)}, expected {by(wanted)}: {remedy}")
        if (count := len(blob.double_data or blob.data)) != prod(shape):
            raise ProgramError(f"{weights}: blob {i} of layer {name} holds {count} values, expected {prod(shape)}")
    if _is_normalisation(expected):
        _check_statistics(weights, name, found, prod(expected[2]))


def _is_normalisation(shapes: Sequence[tuple[int, ...]]) -> bool:
    """Say whether blobs of these shapes are running statistics: means, variances, and one divisor or one per row."""
    return len(shapes) == 3 and shapes[0] == shapes[1] and shapes[2] in ((1,), shapes[0][:-1])


def _check_statistics(weights: Path, name: str, found: Sequence[BlobProto], rows: int) -> None:
    """Raise ProgramError if running statistics have a divisor of 0; BatchNorm has one row, mDA one per domain."""
    means, variances, divisors = (np.array(blob.double_data or blob.data).reshape(rows, -1) for blob in found)
    if ((means.any(axis=1) | variances.any(axis=1)) & ~divisors.any(axis=1)).any():
        raise ProgramError(
            f"{weights}: layer {name} has statistics and a divisor of 0, expected sums and their number: these are "
            "averages, from NVIDIA's Caffe 0.16 (set the divisor, blob 2, to 1) or the authors' older fork "
            "mancinimassimiliano/caffe (its layers compute differently: only weights of latent_domains_DA can be "
            "converted)"
        )
