import itertools

import pytest

from latent_domains.common import timing


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when a side says so."""
    now = [0.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: now[0])
    return now


def side(clock, calls, name, durations):
    durations = itertools.cycle(durations)

    def work():
        calls.append(name)
        clock[0] += next(durations)

    return work


def test_medians_and_the_ratio_within_rounds(clock):
    calls = []
    # The first call of each does not count. A slow phase hits both sides: the ratio does not see it.
    first = side(clock, calls, "a", [99, 2, 2, 2, 20, 20, 20, 20])
    second = side(clock, calls, "b", [99, 1, 1, 1, 10, 10, 10, 10])
    result = timing.compare(first, second, 5)
    assert result == timing.Comparison(first=20, second=10, ratio=2, rounds=7)


def test_the_sides_take_turns_at_going_first(clock):
    calls = []
    timing.compare(side(clock, calls, "a", [1]), side(clock, calls, "b", [1]), 0)
    assert "".join(calls) == "ab" + "abba" * 3 + "ab"
