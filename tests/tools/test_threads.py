from pathlib import Path

from tools.caffe_process import Threads
from tools.threads import candidates, choose


def test_a_process_gets_its_share_of_the_cores():
    assert candidates(8, 2) == [Threads(1, 4), Threads(4, 4)]
    assert candidates(2, 2) == [Threads(1, 1)]
    assert candidates(2, 5) == [Threads(1, 1)]


def test_nothing_is_measured_where_there_is_nothing_to_choose():
    def measure(*_):
        raise AssertionError("measured")

    assert choose(Path("net"), 2, cores=2, measure=measure) == (Threads(1, 1), {})


def test_the_fastest_is_chosen_by_the_better_of_two_measurements():
    times = {Threads(1, 4): [500.0, 100.0], Threads(4, 4): [150.0, 140.0]}
    best, measured = choose(Path("net"), 1, cores=4, measure=lambda _, threads, n: times[threads].pop(0))
    assert best == Threads(1, 4)
    assert measured == {"1 BLAS + 4 kernel threads": 100.0, "4 BLAS + 4 kernel threads": 140.0}
