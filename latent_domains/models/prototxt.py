"""Prototxt: read, and written as people write it (short messages on one line, a comment where something surprises)."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from caffe.proto.caffe_pb2 import LayerParameter, NetParameter, PoolingParameter
from google.protobuf import text_format
from google.protobuf.message import Message

from latent_domains.common.files import expect_file
from latent_domains.common.program import ProgramError

_Message = TypeVar("_Message", bound=Message)

_WIDTH = 120

_ESCAPED = re.compile(r"['\\\x00-\x1f\x7f]")
"""Characters that must be escaped between single quotes."""

_COMMENTS: tuple[tuple[Callable[[LayerParameter], bool], str], ...] = (
    (
        lambda layer: layer.data_param.HasField("shuffle_seed"),
        "Each epoch has an order of its own. Stock Caffe knows no shuffle_seed; without it the LMDB's order is read.",
    ),
    (
        lambda layer: layer.data_param.HasField("records"),
        "All classes are read in equal shares. Stock Caffe knows no records; without it each record is read once.",
    ),
    (
        lambda layer: len(layer.convolution_param.pad_end) > 0,
        "As TensorFlow pads: more behind the last row and column than before the first. Stock Caffe knows no pad_end.",
    ),
    (
        lambda layer: layer.type == "Data" and len(layer.top) == 1 and layer.name.startswith("data_"),
        "Target images come without a label top: nothing in this net can see their labels.",
    ),
    (
        lambda layer: layer.type == "Data" and layer.name.startswith("domain_label_"),
        "Known domains of the source images, one record for each of theirs; -1 where unknown.",
    ),
    (
        lambda layer: layer.type == "Convolution" and len(layer.param) > 0 and layer.param[0].lr_mult == 0,
        "The convolutions are frozen, as in the paper: they come from ImageNet.",
    ),
    (
        lambda layer: layer.pooling_param.round_mode == PoolingParameter.FLOOR,
        "As Torch pools: padded, and rounded down where Caffe rounds up.",
    ),
    (
        lambda layer: layer.type == "Slice" and layer.top[0] in ("stem_source", "domain_features"),
        "Sources and targets part ways: a branch predicts the domains of its own images alone.",
    ),
    (
        lambda layer: layer.type == "DummyData",
        "A group of one known domain: the softmax over one constant logit is 1.",
    ),
    (
        lambda layer: layer.name == "w",
        "w: a row of domain probabilities for each image, the sources' rows first.",
    ),
    (
        lambda layer: layer.python_param.layer == "MDALayer",
        "mDA, then a Scale that all domains share. The three blobs of mDA (sums of means and of variances, and their\n"
        "# divisor) are its own: it updates them in forward, the solver must not.",
    ),
)
"""Which layers get a comment, each the first time it applies in a net."""


def read(file: Path, message: _Message, what: str = "a prototxt of Caffe's") -> _Message:
    """Fill ``message`` from a file and return it. Raises ProgramError naming the file if it is not ``what``."""
    expect_file(file, what)
    try:
        return text_format.Parse(file.read_text(), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ProgramError(f"{file}: not {what}: {error}") from error


def net_text(name: str, net: NetParameter) -> str:
    """The net as prototxt."""
    waiting = list(_COMMENTS)
    lines = list(_fields(NetParameter(name=name), ""))
    for layer in net.layer:
        for comment in [c for c in waiting if c[0](layer)]:
            waiting.remove(comment)
            lines.append(f"# {comment[1]}")
        lines += ["layer {", *_fields(layer, "  "), "}"]
    return "\n".join(lines) + "\n"


def _fields(message: Message, indent: str) -> Iterator[str]:
    """Lines of a message's fields; a message that fits on a line is put on one."""
    for name, value in _items(message):
        if not isinstance(value, Message):
            yield f"{indent}{name}: {value}"
        elif len(line := f"{indent}{name} {{ {_one_line(value)} }}") <= _WIDTH:
            yield line
        else:
            yield f"{indent}{name} {{"
            yield from _fields(value, indent + "  ")
            yield f"{indent}}}"


def _one_line(message: Message) -> str:
    return " ".join(
        f"{name} {{ {_one_line(value)} }}" if isinstance(value, Message) else f"{name}: {value}"
        for name, value in _items(message)
    )


def _items(message: Message) -> Iterator[tuple[str, Message | str]]:
    """Field names with their messages, or their scalars as text; a repeated field once for each value."""
    for field, values in message.ListFields():
        repeated = field.label == field.LABEL_REPEATED
        for value in values if repeated else [values]:
            if field.type == field.TYPE_MESSAGE:
                yield field.name, value
            elif field.type == field.TYPE_STRING and '"' in value and not _ESCAPED.search(value):
                yield field.name, f"'{value}'"  # JSON reads better without backslashes
            else:
                alone = type(message)(**{field.name: [value] if repeated else value})
                text = text_format.MessageToString(alone).strip().removeprefix(f"{field.name}: ")
                yield field.name, text.removesuffix(".0") if isinstance(value, float) else text
