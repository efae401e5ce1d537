"""Whatever a file holds, messages stay short and printable."""

import itertools

import pytest

from latent_domains.convert.torch.words import plain, shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("layer1.0.conv1.weight", "layer1.0.conv1.weight"),
        ("é 层", "é 层"),
        ("a\x1b[31m\r\n\u202e\ud800", r"a\x1b[31m\r\n\u202e\ud800"),
        ("", "''"),
        ("a" * 200, "a" * 200),
        ("a" * 201, "a" * 200 + "… (201 characters)"),
        ("\n" * 150, r"\n" * 100 + "… (150 characters)"),
    ],
)
def test_names(text, found):
    assert plain(text) == found


class Own(dict):
    """Would be shown whole by reprlib."""


def nested(make: type) -> object:
    value: object = make([1] * 9)
    for _ in range(60):
        value = make([value] * 9)
    return value


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ((64, 3, 7, 7), "(64, 3, 7, 7)"),
        ([None, True, 0.5, b"a"], "[None, True, 0.5, b'a']"),
        ((1 << 63) - 1, "9223372036854775807"),
        (10**5000, "<a number of 16610 bits>"),
        (Own({1: nested(tuple)}), "<Own>"),
        ("a\n", r"'a\n'"),
    ],
    ids=map(str, itertools.count()),  # a number of 5000 digits has no words
)
def test_values(value, found):
    assert shown(value) == found


@pytest.mark.parametrize("make", [tuple, list])
def test_deep_values_stay_short(make):
    assert len(shown(nested(make))) < 250
