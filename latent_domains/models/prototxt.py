"""Read prototxt, and write it as people do: short messages on one line, with comments on what may surprise."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from caffe.proto.caffe_pb2 import BlobShape, LayerParameter, NetParameter, NetState, NetStateRule
from google.protobuf import text_format
from google.protobuf.message import Message

from latent_domains.common.files import expect_file, read_text
from latent_domains.common.program import ProgramError

_Message = TypeVar("_Message", bound=Message)

_WIDTH = 120

_ESCAPED = re.compile(r"['\\\x00-\x1f\x7f]")
"""Characters that must be escaped between single quotes."""

_CEIL_MODE = re.compile(r"\bceil_mode[ \t]*:[ \t]*(true|false)\b")
"""Names of Caffe's round_mode of a pooling in its forks, in OpenCV, and in converters from PyTorch."""

_ROUND_MODES = {"true": "CEIL", "false": "FLOOR"}

Comment = tuple[Callable[[LayerParameter], bool], str]
"""Which layers a comment is about, and its text."""


def read(
    file: Path, message: _Message, what: str = "a prototxt of Caffe's", *, unknown_fields: bool = False
) -> _Message:
    """Fill ``message`` from a file and return it; ``what`` describes the file in messages.

    ``unknown_fields``: skip fields that Caffe does not know.
    """
    expect_file(file, what)
    try:
        return text_format.Parse(with_round_modes(read_text(file)), message, allow_unknown_field=unknown_fields)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ProgramError(f"{file}: not {what}: {error}") from error


def with_round_modes(text: str) -> str:
    """Return a prototxt with our ``round_mode`` in place of the ``ceil_mode`` of other Caffes."""
    return _CEIL_MODE.sub(lambda found: f"round_mode: {_ROUND_MODES[found[1]]}", text)


def net_text(name: str, net: NetParameter, comments: Sequence[Comment] = ()) -> str:
    """Return the net as prototxt, with each of the comments at the first layer that it is about."""
    waiting = list(comments)
    lines = list(_fields(NetParameter(name=name), ""))
    for layer in net.layer:
        for comment in [c for c in waiting if c[0](layer)]:
            waiting.remove(comment)
            lines.append(f"# {comment[1]}")
        lines += ["layer {", *_fields(layer, "  "), "}"]
    return "\n".join(lines) + "\n"


def _fields(message: Message, indent: str) -> Iterator[str]:
    """Yield lines of a message's fields; a message that fits on a line is put on one."""
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
    """Yield field names with their messages, or their scalars as text; a repeated field once for each value."""
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


_LEVEL = 0
"""pycaffe's default: it replaces the level in a net's file."""


def check_format(net: NetParameter, file: Path) -> None:
    """Raise ProgramError naming ``file`` if the layers of ``net`` are of Caffe's old format."""
    if net.layers:
        raise ProgramError(
            f"{file}: its layers are of Caffe's old format (layers {{ … }}), expected layer {{ … }}: "
            "convert it with upgrade_net_proto_text"
        )


def for_phase(net: NetParameter, phase: int, file: Path) -> NetParameter:
    """Return the layers of ``net`` that Caffe makes in the TRAIN or TEST phase, without include and exclude rules.

    Caffe must be able to load it. Inputs that are fields of the net, as in older files, become Input layers. Refuses
    layers of Caffe's old format; ``file`` is for messages.
    """
    check_format(net, file)
    kept = [*_input_layers(net), *(layer for layer in net.layer if _made(layer, phase, net.state))]
    found = NetParameter(name=net.name, layer=kept)
    for layer in found.layer:
        layer.ClearField("include")
        layer.ClearField("exclude")
    return found


def _input_layers(net: NetParameter) -> list[LayerParameter]:
    shapes = list(net.input_shape)
    if net.input_dim:
        shapes = [BlobShape(dim=net.input_dim[i : i + 4]) for i in range(0, len(net.input_dim), 4)]
    return [
        LayerParameter(name=name, type="Input", top=[name], input_param={"shape": [shape]})
        for name, shape in zip(net.input, shapes, strict=False)
    ]  # Caffe drops inputs without a shape


def _made(layer: LayerParameter, phase: int, state: NetState) -> bool:
    if layer.include:
        return any(_met(rule, phase, state) for rule in layer.include)
    return not any(_met(rule, phase, state) for rule in layer.exclude)


def _met(rule: NetStateRule, phase: int, state: NetState) -> bool:
    """Say whether a rule is met in a phase, at pycaffe's level and in the stages of ``state``."""
    return (
        (not rule.HasField("phase") or rule.phase == phase)
        and (not rule.HasField("min_level") or rule.min_level <= _LEVEL)
        and (not rule.HasField("max_level") or rule.max_level >= _LEVEL)
        and set(rule.stage) <= set(state.stage)
        and not set(rule.not_stage) & set(state.stage)
    )
