"""Kernels, strides, pads and dilations, from the fields of Caffe's layers."""

from google.protobuf.message import Message


def pair(param: Message, stem: str, field: str, default: int) -> tuple[int, int]:
    """Height and width of a kernel, stride, pad or dilation: STEM_h and STEM_w, or ``field`` for both.

    In convolutions ``field`` is repeated: it has no value (``default``), one for both, or two.
    """
    fields = param.DESCRIPTOR.fields_by_name
    if f"{stem}_h" in fields and (param.HasField(f"{stem}_h") or param.HasField(f"{stem}_w")):
        return getattr(param, f"{stem}_h"), getattr(param, f"{stem}_w")
    value = getattr(param, field)
    if isinstance(value, int):
        return value, value
    height, width = (list(value) or [default]) * (1 if len(value) == 2 else 2)
    return height, width


def end_pads(param: Message) -> tuple[int, int]:
    """A convolution's padding below and on the right: ``pad_end``, which stock Caffe lacks; else as above and left."""
    if getattr(param, "pad_end", ()):
        return pair(param, "pad_end", "pad_end", 0)
    return pair(param, "pad", "pad", 0)
