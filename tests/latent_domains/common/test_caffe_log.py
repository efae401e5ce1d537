import numpy as np
import pytest

from latent_domains.common.caffe_log import History, Measurement, curves, ending, failure_reason

LOG = """\
I1121 03:30:08.1 9633 solver.cpp:239] Iteration 0 (0 iter/s, 0.3s/10 iters), loss = 2.81
I1121 03:30:08.1 9633 solver.cpp:258]     Train net output #0: entropy_class = 1.5 (* 0.1 = 0.15 loss)
I1121 03:30:08.1 9633 solver.cpp:258]     Train net output #1: source_accuracy = 0.25
I1121 03:30:08.1 9633 sgd_solver.cpp:112] Iteration 0, lr = 0.01
I1121 03:30:28.1 9633 solver.cpp:347] Iteration 10, Testing net (#0)
I1121 03:30:28.2 9633 solver.cpp:414]     Test net output #0: accuracy = 0.61
I1121 03:30:28.3 9633 solver.cpp:239] Iteration 10 (4.3 iter/s, 2.3s/10 iters), loss = 1.2e-05
I1121 03:30:28.4 9633 solver.cpp:464] Snapshotting to binary proto file model_iter_10.caffemodel
"""


def test_every_measurement_has_its_iteration():
    reader = History()
    found = [measurement for line in LOG.splitlines() if (measurement := reader.feed(line))]
    assert found == [
        Measurement("train", 0, "loss", 2.81),
        Measurement("train", 0, "entropy_class", 1.5),
        Measurement("train", 0, "source_accuracy", 0.25),
        Measurement("train", 0, "lr", 0.01),
        Measurement("test", 10, "accuracy", 0.61),
        Measurement("train", 10, "loss", 1.2e-05),
    ]


def test_a_resumed_run_overwrites_what_it_repeats():
    again = LOG + LOG.replace("accuracy = 0.61", "accuracy = 0.62")
    assert curves(again.splitlines())["test", "accuracy"] == {10: 0.62}


@pytest.mark.parametrize("value", ["0.5I1121", "", "0.5.", "1e", "(*"])
def test_a_garbled_number_is_not_read_but_nan_is(value):
    reader = History()
    line = "I1121 03:30:28.3 1 solver.cpp:239] Iteration 20 (4 it/s, 2s/10 iters), loss = "
    assert np.isnan(reader.feed(f"{line}nan").value)
    assert reader.feed(f"{line}{value}") is None
    assert reader.feed(f"I1121 03:30:28.3 1 solver.cpp:258]     Train net output #0: loss = {value}") is None


@pytest.mark.parametrize(
    ("exit_code", "how"),
    [
        (-9, "killed by SIGKILL, perhaps for its memory"),
        (-11, "killed by SIGSEGV"),
        (-35, "killed by signal 35"),
        (-6, "exit code -6: Check failed: 1 == 2"),
        (1, "exit code 1: Check failed: 1 == 2"),
    ],
)
def test_ending_in_words(exit_code, how):
    assert ending(exit_code, "I1121 03:30:28.3 1 a.cpp:1] Check failed: 1 == 2\n") == how


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            'Traceback (most recent call last):\n  File "mda.py", line 3, in setup\n'
            "ValueError: conv1_mda: num_domains is 3, w has 4 columns\nterminate called\n",
            "ValueError: conv1_mda: num_domains is 3, w has 4 columns",
        ),
        (
            "F1121 03:30:28.3 99 db_lmdb.hpp:15] Check failed: mdb_status == 0 (2 vs. 0) No such file\n"
            "*** Check failure stack trace: ***\n    @ 0x7f  google::LogMessage::Fail()\n",
            "Check failed: mdb_status == 0 (2 vs. 0) No such file",
        ),
        (
            "F20261121 03:30:28.3 99 insert_splits.cpp:29] Unknown bottom blob 'date' (layer 'conv1')\n"
            "*** Check failure stack trace: ***\n    @ 0x7f  google::LogMessage::Fail()\n",
            "Unknown bottom blob 'date' (layer 'conv1')",
        ),
        ("I1121 03:30:28.3 99 caffe.cpp:1] something\nKilled\n", "Killed"),
        ("", "it printed nothing"),
    ],
)
def test_failure_reason_is_the_line_that_says_it(log, reason):
    assert failure_reason(log) == reason
