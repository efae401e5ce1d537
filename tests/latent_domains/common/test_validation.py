"""The first mistake in a value, in one line: where, what was found, what was expected."""

from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from annotated_types import Interval

from latent_domains.common.program import ProgramError
from latent_domains.common.validation import Positive, checked


@dataclass(frozen=True)
class Inner:
    name: str
    share: Annotated[float, Interval(ge=0, le=1)] = 1.0


@dataclass(frozen=True)
class Outer:
    size: tuple[int, int]
    kind: Literal["first", "second"]
    inner: tuple[Inner, ...]
    counts: dict[str, Positive]
    flag: bool | None = None


GOOD = {"size": [1, 2], "kind": "first", "inner": [{"name": "a", "share": 1}], "counts": {"x": 1}}


def test_checked_lists_become_tuples_objects_dataclasses_and_integers_numbers():
    assert checked(Outer, GOOD, "file") == Outer((1, 2), "first", (Inner("a", 1.0),), {"x": 1}, None)
    assert checked(Positive, 3, "k") == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": [1]}, "size: found no 1"),
        ({"size": [1, 2, 3]}, "size: Tuple should have at most 2 items after validation, not 3"),
        ({"size": [1, 2.0]}, "size[1]: found 2.0, expected a valid integer"),
        ({"kind": "third"}, "kind: found 'third', expected 'first' or 'second'"),
        ({"kind": "half a smile \ud83d"}, "Invalid JSON: "),
        ({"inner": [{"name": "a"}, {"name": "b", "share": 2}]}, "inner[1] (b): share: found 2, expected less than or "),
        ({"inner": [{"name": "b", "share": float("nan")}]}, "inner[0] (b): share: found nan, expected less than or "),
        ({"inner": [{"name": "b", "shore": 1}]}, "inner[0] (b): found the key 'shore', which is unknown there"),
        ({"inner": [{"share": 1}]}, "inner[0]: found no name"),
        ({"counts": {"x": 0}}, "counts: x: found 0, expected greater than or equal to 1"),
        ({"flag": 1}, "flag: found 1, expected a valid boolean"),
        ({"more": 1}, "found the key 'more', expected some of size, kind, inner, counts, flag"),
    ],
)
def test_checked_the_first_mistake_is_named(change, message):
    with pytest.raises(ProgramError) as error:
        checked(Outer, {**GOOD, **change}, "file")
    assert str(error.value).startswith(f"file: {message}") and "\n" not in str(error.value)


def test_checked_a_value_without_a_place_is_named_by_itself():
    with pytest.raises(ProgramError, match=r"^k: found 0, expected greater than or equal to 1$"):
        checked(Positive, 0, "k")
    with pytest.raises(ProgramError, match=r"^found no size, kind, inner, counts$"):
        checked(Outer, {}, "")
