"""Prototxt as the fork's files have it: with template fields (``%NAME%``), and perhaps with fields unknown to Caffe.

Caffe's own parser refuses both. Here every field of a file is found first: those that its message lacks are passed
over, and a template field is known by the places where it stands.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.descriptor import Descriptor

from latent_domains.common.program import ProgramError

_TOKEN = re.compile(
    r"(?P<space>\s+|#[^\n]*)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<mark>[{}<>\[\]:;,])"
    r"|(?P<word>[^\s{}<>\[\]:;,\"'#]+)"
)
_TEMPLATE = re.compile(r"%(\w+)%")
_WORD = re.compile(r"[^\s{}<>\[\]:;,\"'#]+")
_CLOSING = {"{": "}", "<": ">", "[": "]"}


@dataclass(frozen=True)
class Place:
    """Where a template field stands."""

    layer: int | None
    """The number of the layer, from 0; None outside the layers."""
    path: tuple[str, ...]
    """The fields that lead there, as ("inner_product_param", "num_output")."""


@dataclass(frozen=True)
class Unknown:
    """A field that its message does not have."""

    name: str
    message: str
    line: int


@dataclass
class _Token:
    kind: str
    text: str
    line: int


class Template:
    """A prototxt file, read as far as its structure goes.

    ``places`` are those of each template field; ``unknown`` the fields that the messages do not have, which
    :meth:`filled` leaves out.
    """

    def __init__(self, file: Path, text: str, message: Descriptor) -> None:
        """``message`` describes the whole file. Raises ProgramError naming file and line if it is no prototxt."""
        self.places: dict[str, list[Place]] = {}
        self.unknown: list[Unknown] = []
        self._file = file
        self._tokens = self._split(text)
        self._next = 0
        self._layers = 0
        self._message(message, None, (), None)

    def filled(self, values: Mapping[str, str]) -> str:
        """The text without comments and unknown fields, with each template field's value in its place.

        Lines keep their numbers. A field without a value stays as it is within quotes and becomes 1 elsewhere.
        Raises ProgramError if a value would be more than one value of the file.
        """
        return "".join(self._written(token, values) for token in self._tokens)

    def _written(self, token: _Token, values: Mapping[str, str]) -> str:
        if token.kind == "space":
            return "\n" * token.text.count("\n") or " "
        if token.kind == "string":
            quote = token.text[0]
            escaped = {name: value.replace("\\", r"\\").replace(quote, "\\" + quote) for name, value in values.items()}
            return _TEMPLATE.sub(lambda found: escaped.get(found[1], found[0]), token.text)
        if token.kind == "word":
            for name in _TEMPLATE.findall(token.text):
                if name in values and not _WORD.fullmatch(values[name]):
                    raise ProgramError(
                        f"--set {name}={values[name]}: expected one value, as line {token.line} of "
                        f"{self._file} takes it"
                    )
            return _TEMPLATE.sub(lambda found: values.get(found[1], "1"), token.text)
        return token.text

    def _split(self, text: str) -> list[_Token]:
        tokens, at, line = [], 0, 1
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ProgramError(f"{self._file}:{line}: a quote that does not end, expected a prototxt of Caffe's")
            tokens.append(_Token(str(found.lastgroup), found[0], line))
            line += found[0].count("\n")
            at = found.end()
        return tokens

    def _take(self, expected: str) -> _Token:
        token = self._peek()
        if token is None:
            line = self._tokens[-1].line if self._tokens else 1
            raise ProgramError(f"{self._file}:{line}: the file ends, expected {expected}: is it whole?")
        self._next += 1
        return token

    def _peek(self) -> _Token | None:
        while self._next < len(self._tokens) and self._tokens[self._next].kind == "space":
            self._next += 1
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _message(self, message: Descriptor | None, layer: int | None, path: tuple[str, ...], end: str | None) -> None:
        """Read the fields of a message up to ``end`` (None: the end of the file); without ``message`` all are known."""
        while True:
            if end is None and self._peek() is None:
                return
            token = self._take(f"'{end}'")
            if token.text == end:
                return
            if token.text in (";", ","):
                continue
            if token.kind != "word":
                raise ProgramError(f"{self._file}:{token.line}: found {token.text}, expected the name of a field")
            start = self._next - 1
            field = message.fields_by_name.get(token.text) if message else None
            if layer is None and not path and token.text == "layer":
                below = (self._layers, ())
                self._layers += 1
            else:
                below = (layer, (*path, token.text))
            dropped = message is not None and field is None
            before = {name: len(places) for name, places in self.places.items()}
            self._value(field.message_type if field else None, *below, token.text)
            if dropped:
                self.unknown.append(Unknown(token.text, message.name, token.line))
                for number in range(start, self._next):
                    self._tokens[number].kind = "space"
                self.places = {name: places[: before[name]] for name, places in self.places.items() if name in before}

    def _value(self, message: Descriptor | None, layer: int | None, path: tuple[str, ...], name: str) -> None:
        token = self._take(f"the value of {name}")
        if token.text == ":" and token.kind == "mark":
            token = self._take(f"the value of {name}")
        if token.kind == "mark" and token.text in "{<":
            self._message(message, layer, path, _CLOSING[token.text])
        elif token.kind == "mark" and token.text == "[":
            self._list(message, layer, path, name)
        elif token.kind == "mark":
            raise ProgramError(f"{self._file}:{token.line}: found {token.text}, expected the value of {name}")
        else:
            self._note(token, layer, path)
            while token.kind == "string" and (more := self._peek()) is not None and more.kind == "string":
                token = self._take("a string")
                self._note(token, layer, path)

    def _list(self, message: Descriptor | None, layer: int | None, path: tuple[str, ...], name: str) -> None:
        while (token := self._take("']'")).text != "]":
            if token.kind == "mark" and token.text in "{<":
                self._message(message, layer, path, _CLOSING[token.text])
            elif token.kind in ("word", "string"):
                self._note(token, layer, path)
            elif token.text != ",":
                raise ProgramError(f"{self._file}:{token.line}: found {token.text}, expected the values of {name}")

    def _note(self, token: _Token, layer: int | None, path: tuple[str, ...]) -> None:
        for name in _TEMPLATE.findall(token.text):
            self.places.setdefault(name, []).append(Place(layer, path))
