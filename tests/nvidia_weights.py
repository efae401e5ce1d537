"""Weights as NVIDIA's Caffe saves them: numbers in a blob's ``raw_data``, fields 10 and 12, which stock Caffe lacks."""

import numpy as np
from caffe.proto.caffe_pb2 import BlobProto

DOUBLE, FLOAT, HALF, INT = range(4)
"""Values of ``raw_data_type``."""

_TYPES = {DOUBLE: "<f8", FLOAT: "<f4", HALF: "<f2", INT: "<i4"}


def pack(blob: BlobProto, kind: int = FLOAT) -> None:
    """Move the numbers of ``blob`` to ``raw_data``."""
    data = np.array(blob.data, _TYPES[kind]).tobytes()
    blob.ClearField("data")
    length, size = b"", len(data)
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    blob.MergeFromString(bytes([10 << 3, kind, 12 << 3 | 2]) + length + bytes([size]) + data)
