"""param_str: everything but a known key of the right type and range is a ValueError that says what is wrong."""

import pytest

from caffe_layers import _param_str

KEYS = {
    "num_domains": _param_str.integer(1),
    "eps": _param_str.positive(1e-5),
    "fraction": _param_str.fraction(0.999),
    "flag": _param_str.optional_boolean(),
    "first": _param_str.integer(0, 0),
}


def test_param_str_values_and_defaults():
    got = _param_str.parse("L", ' {"num_domains": 3, "eps": 1, "flag": true} ', KEYS)
    assert got == {"num_domains": 3, "eps": 1, "fraction": 0.999, "flag": True, "first": 0}


@pytest.mark.parametrize("text", ["", "  \n", "{}"])
def test_param_str_nothing_given(text):
    assert _param_str.parse("L", text, {}) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["lacks num_domains", "an integer >= 1"]),
        ("num_domains: 3", ["not valid JSON", "num_domains: 3", '{"num_domains": 2}']),
        ("[3]", ["[3]", "a JSON object"]),
        ('{"num_domains": 3, "epsilon": 1}', ["unknown key 'epsilon'", "num_domains, eps, fraction, flag, first"]),
        ('{"num_domains": 3, "num_domains": 3}', ["repeats the key 'num_domains'"]),
        ('{"num_domains": 0}', ["num_domains is 0", "an integer >= 1"]),
        ('{"num_domains": 3.0}', ["num_domains is 3.0", "an integer >= 1"]),
        ('{"num_domains": true}', ["num_domains is true", "an integer >= 1"]),
        ('{"num_domains": 3, "eps": 0}', ["eps is 0", "a finite number > 0"]),
        ('{"num_domains": 3, "eps": NaN}', ["holds NaN", "finite"]),
        ('{"num_domains": 3, "eps": 1' + "0" * 400 + "}", ["eps is 1000", "a finite number > 0"]),
        ('{"num_domains": 3, "fraction": 1.5}', ["fraction is 1.5", "a number from 0 to 1"]),
        ('{"num_domains": 3, "flag": 1}', ["flag is 1", "true, false or null"]),
        ('{"num_domains": 3}\udcff', ["not UTF-8", '{"num_domains": 2}']),
    ],
)
def test_param_str_errors(text, words):
    with pytest.raises(ValueError) as error:
        _param_str.parse("SomeLayer", text, KEYS)
    message = str(error.value)
    assert message.startswith("SomeLayer: param_str ")
    for word in words:
        assert word in message
    assert len(message) < 700
    message.encode()


@pytest.mark.parametrize(
    ("begin", "repeated", "times", "end", "words"),
    [
        ('{"num_domains": ', "1", 5000, "}", ["num_domains is Infinity", "an integer >= 1"]),
        ('{"num_domains": 3, "eps": -', "1", 5000, "}", ["eps is -Infinity", "a finite number > 0"]),
        ("", "[", 100_000, "", ["nested too deeply", "100002 characters"]),
        ("", '{"num_domains": ', 100_000, "", ["nested too deeply"]),
        ('{"', "x", 5000, '": 1}', ["unknown key 'xxx", "num_domains, eps"]),
    ],
)
def test_param_str_long_ones(begin, repeated, times, end, words):
    test_param_str_errors(begin + repeated * times + end, words)
