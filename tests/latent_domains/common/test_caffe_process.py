"""Children that run Caffe: their threads, and their end with whoever started them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from latent_domains.common.caffe_process import (
    UNMOVED_BY_SIGTERM,
    History,
    Measurement,
    curves,
    ending,
    ending_with_parent,
    failure_reason,
    read_log,
    start,
    start_logged,
)
from latent_domains.common.program import ROOT
from tests.programs import wait_until

pytestmark = pytest.mark.program

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 6 dim: 4 dim: 3 dim: 3 } } }
layer { name: "y" type: "Python" bottom: "x" top: "y"
        python_param { module: "caffe_layers" layer: "MDALayer" param_str: '{"num_domains": 1}' } }
layer { name: "z" type: "Python" bottom: "y" top: "z" python_param { module: "thread_counts" layer: "Counts" } }
"""

COUNTS = """
import ctypes
import caffe, numba

class Counts(caffe.Layer):
    def setup(self, bottom, top): pass
    def reshape(self, bottom, top): top[0].reshape(1)
    def backward(self, top, propagate_down, bottom): pass
    def forward(self, bottom, top):
        openmp = ctypes.CDLL("libgomp.so.1").omp_get_max_threads()
        blas = ctypes.CDLL("libopenblas.so.0").openblas_get_num_threads()
        print("counts", openmp, numba.get_num_threads(), blas, numba.threading_layer(), flush=True)
"""

LASTING = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture
def net(tmp_path, monkeypatch):
    (tmp_path / "thread_counts.py").write_text(COUNTS)
    (tmp_path / "net.prototxt").write_text(NET)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")
    return tmp_path / "net.prototxt"


def counts(log: str) -> set[str]:
    return {line for line in log.splitlines() if line.startswith("counts")}


@pytest.mark.parametrize(("program", "layer"), [("caffe", "tbb"), ("caffe", "omp"), ("pycaffe", "workqueue")])
def test_caffe_process_one_variable_gives_all_layers_of_a_process_their_threads(layer, program, net):
    """numba has two threads of its own accord; Caffe's layers must not get these, nor numba more than Caffe."""
    command = ["caffe", "time", "-model", str(net), "-iterations", "1"]
    if program == "pycaffe":
        code = f"import caffe; n = caffe.Net({str(net)!r}, caffe.TRAIN); n.forward()"
        command = [sys.executable, "-c", code]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    environment["NUMBA_THREADING_LAYER"] = layer
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert counts(done.stdout) == {f"counts 1 1 1 {layer}"}


@pytest.mark.parametrize("threads", [1, 3])
def test_read_log_a_child_has_as_many_threads_as_it_is_given(threads, net, monkeypatch):
    """Whatever the environment says, and whether there are so many cores."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    with start(["time", "-model", str(net), "-iterations", "1"], threads) as child:
        log = read_log(child)
    assert child.returncode == 0, log
    assert {line.rsplit(maxsplit=1)[0] for line in counts(log)} == {f"counts {threads} {threads} 1"}


def test_caffe_process_a_child_is_killed_when_its_parent_alone_is():
    """Also one that a thread has started, and one that sleeps through SIGTERM."""
    code = f"""
import sys, threading
from latent_domains.common.caffe_process import UNMOVED_BY_SIGTERM, start_logged

def work():
    with start_logged([*UNMOVED_BY_SIGTERM, sys.executable, "-c", {LASTING!r}], 1) as child:
        print(child.pid, child.stdout.readline(), flush=True)

thread = threading.Thread(target=work)
thread.start()
thread.join()
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        pid, begun = parent.stdout.readline().split()
        assert begun == "begun" and psutil.pid_exists(int(pid))
        parent.kill()
    wait_until(lambda: not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == "zombie", "its end")


def test_ending_with_parent_a_parent_that_was_gone_before_is_noticed():
    command = ending_with_parent([sys.executable, "-c", "print('ran')"])
    command[command.index(str(os.getpid()))] = str(os.getppid())
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")


def test_read_log_a_child_is_the_program_itself():
    """Signals and exit codes are the program's, SIGPIPE ends it, and SIGTERM does unless that was asked for."""
    code = "import os; status = open('/proc/self/status').read(); print(os.getpid(), status, flush=True); os._exit(7)"
    with start_logged([sys.executable, "-c", code], 1) as child:
        pid, status = read_log(child).split(maxsplit=1)
    assert (int(pid), child.returncode) == (child.pid, 7)
    fields = dict(line.split(":\t", 1) for line in status.strip().splitlines())
    assert int(fields["SigBlk"], 16) == 0
    with start_logged(["cat", "/proc/self/status"], 1) as child:
        fields = dict(line.split(":\t", 1) for line in read_log(child).strip().splitlines())
    ours = sum(1 << (number - 1) for number in (signal.SIGPIPE, signal.SIGXFSZ))  # that Python ignores
    here = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().strip().splitlines())
    assert int(fields["SigIgn"], 16) == int(here["SigIgn"], 16) & ~ours


def test_read_log_a_program_in_a_folder_that_env_takes_for_a_variable(tmp_path):
    program = tmp_path / "a=b" / "program"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    with start_logged([*UNMOVED_BY_SIGTERM, str(program), "1 2", "c=d"], 1) as child:
        assert read_log(child) == "1 2 c=d\n"
    assert child.returncode == 0


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


def test_measurement_every_measurement_has_its_iteration():
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


def test_curves_a_resumed_run_overwrites_what_it_repeats():
    again = LOG + LOG.replace("accuracy = 0.61", "accuracy = 0.62")
    assert curves(again.splitlines())["test", "accuracy"] == {10: 0.62}


@pytest.mark.parametrize("value", ["0.5I1121", "", "0.5.", "1e", "(*"])
def test_history_a_garbled_number_is_not_read_but_nan_is(value):
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
