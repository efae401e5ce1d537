"""Prototxt as the fork's files have it: with template fields (``%NAME%``), and perhaps with fields unknown to Caffe.

Values take the places of template fields first; what is left is read by protobuf's own parser.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from google.protobuf import text_format
from google.protobuf.message import Message

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.messages import net_class

_PIECE = re.compile(r"#[^\n]*|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|%\w+%")
"""Comments, strings, and template fields outside of both."""
_TEMPLATE = re.compile(r"%(\w+)%")
_WORD = re.compile(r"[^\s{}<>\[\]:;,\"'#]+")
_NO_FIELD = re.compile(r'Message type "caffe\.(\w+)" has no field named "(\w+)"')
_SKIPPED = "[unknown.field]"
"""An extension that nobody registered: the parser passes over it, whatever its value is."""


class Place(NamedTuple):
    """Where a template field stands."""

    layer: int | None
    """The number of the layer, from 0; None outside the layers."""
    path: tuple[str, ...]
    """The fields that lead there, as ("inner_product_param", "num_output")."""


class Unknown(NamedTuple):
    """A field that its message does not have."""

    name: str
    message: str
    line: int


def filled(file: Path, text: str, values: Mapping[str, str]) -> str:
    """``text`` with each template field's value in its place; lines keep their numbers.

    A field without a value stays as it is within quotes and becomes 1 elsewhere. Raises ProgramError if a value would
    be more than one value of the file.
    """

    def piece(found: re.Match[str]) -> str:
        quote = found[0][0]
        if quote == "#":
            return found[0]
        if quote != "%":
            escaped = {name: value.replace("\\", r"\\").replace(quote, "\\" + quote) for name, value in values.items()}
            return _TEMPLATE.sub(lambda field: escaped.get(field[1], field[0]), found[0])
        name = found[0].strip("%")
        if not _WORD.fullmatch(values.get(name, "1")):
            line = 1 + text.count("\n", 0, found.start())
            raise ProgramError(f"--set {name}={values[name]}: expected one value, as line {line} of {file} takes it")
        return values.get(name, "1")

    return _PIECE.sub(piece, text)


def parse(file: Path, text: str) -> tuple[Message, list[Unknown]]:
    """The net of a text without template fields, and the fields in it that its messages do not have.

    Raises ProgramError naming ``file`` if it is no prototxt.
    """
    unknown: list[Unknown] = []
    lines = text.split("\n")
    while True:
        try:
            return text_format.Parse("\n".join(lines), net_class()(), allow_unknown_extension=True), unknown
        except RecursionError as error:  # passing over a field
            raise ProgramError(f"{file}: not a prototxt of the authors' fork of Caffe: nested too deeply") from error
        except text_format.ParseError as error:
            if not (found := _NO_FIELD.search(str(error))):
                # The parser does not say where it is lost in a field that it passes over.
                lost = unknown and error.GetLine() is None
                where = f"line {unknown[-1].line}, field {unknown[-1].name}: " if lost else ""
                raise ProgramError(f"{file}: not a prototxt of the authors' fork of Caffe: {where}{error}") from error
            line, column = error.GetLine() - 1, error.GetColumn() - 1
            unknown.append(Unknown(found[2], found[1], line + 1))
            # It is passed over from now on, so that the parser comes to the next one.
            lines[line] = lines[line][:column] + _SKIPPED + lines[line][column + len(found[2]) :]


def places(file: Path, text: str) -> dict[str, list[Place]]:
    """Where each template field stands: what changes in the net with its value. Raises as :func:`parse` does."""
    plain, _ = parse(file, filled(file, text, {}))
    found = {}
    for name in dict.fromkeys(_TEMPLATE.findall(text)):
        other, _ = parse(file, filled(file, text, {name: "0"}))
        if differing := list(_differing(plain, other, None, ())):
            found[name] = differing
    return found


def _differing(one: Message, other: Message, layer: int | None, path: tuple[str, ...]) -> Iterator[Place]:
    """The places of the values that two messages of the same fields do not share."""
    for field, values in one.ListFields():
        repeated = field.label == field.LABEL_REPEATED
        pairs = (
            zip(values, getattr(other, field.name), strict=True) if repeated else [(values, getattr(other, field.name))]
        )
        for number, (a, b) in enumerate(pairs):
            in_layers = layer is None and (*path, field.name) == ("layer",)
            place = Place(number, ()) if in_layers else Place(layer, (*path, field.name))
            if field.type == field.TYPE_MESSAGE:
                yield from _differing(a, b, *place)
            elif a != b:
                yield place
