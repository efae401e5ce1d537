"""What is made, and in which order."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from latent_domains.common.artefact import Artefact, make_missing
from latent_domains.common.program import ProgramError
from tests.programs import names


@dataclass
class Text(Artefact):
    file: Path
    text: str
    needs: tuple["Text", ...] = ()

    @property
    def paths(self) -> tuple[Path]:
        return (self.file,)

    def is_there(self, *, force: bool = False) -> bool:
        if super().is_there() and not force and self.file.read_text() != self.text:
            raise ProgramError(f"{self.file}: another text")
        return super().is_there() and self.file.read_text() == self.text

    def make(self, *, force: bool = False) -> int:
        return self.file.write_text(self.text)


def test_make_missing_makes_nothing_if_something_else_is_in_the_place_of_one(tmp_path):
    first, second = Text(tmp_path / "a", "first"), Text(tmp_path / "b", "second")
    second.file.write_text("other")
    with pytest.raises(ProgramError, match="b: another text"):
        make_missing([first, second])
    assert names(tmp_path) == ["b"]
    assert make_missing([first, second], force=True) == [5, 6] and second.file.read_text() == "second"
    assert make_missing([first, second]) == [None, None]


def test_missing_is_what_must_be_made_in_its_order(tmp_path):
    a, b = Text(tmp_path / "a", "a"), Text(tmp_path / "b", "b")
    c = Text(tmp_path / "c", "c", (a, b))
    assert list(c.missing()) == [a, b, c]
    a.make()
    assert list(c.missing()) == [b, c]
    c.make()
    assert list(c.missing()) == [], "what it was made of is no longer needed"
