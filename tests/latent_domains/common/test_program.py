import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from caffe.proto.caffe_pb2 import SolverParameter
from tqdm import tqdm

from latent_domains.common.program import ROOT, ProgramError, exit_code, from_root


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ProgramError("k: got 0"), 1, "error: k: got 0\n"),
        (FileNotFoundError(2, "No such file or directory", "x"), 1, "No such file or directory: 'x'\n"),
        (ProgramError("a\x1b]0;b\x07\r\x9b: no file"), 1, "error: a\\x1b]0;b\\x07\\r\\x9b: no file\n"),
        (MemoryError(), 1, "error: not enough memory\n"),
        (MemoryError("8 GB"), 1, "error: not enough memory: 8 GB\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_exit_code_exit_codes_and_one_line(error, code, message, capsys):
    def main():
        raise error

    assert exit_code(main) == code
    shown = capsys.readouterr().err
    assert shown.endswith(message) and shown.count("\n") == 1


def test_exit_code_a_name_that_a_net_cannot_hold(capsys):
    assert exit_code(lambda: SolverParameter(train_net=os.fsdecode(b"caf\xe9/train.prototxt"))) == 1
    assert capsys.readouterr().err == "error: found 'caf\\udce9/train.prototxt', expected a name in UTF-8\n"


def test_exit_code_a_fault_of_ours_is_not_hidden():
    def main():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        exit_code(main)


def test_from_root_paths_are_relative_to_the_root_where_they_can_be(tmp_path):
    assert from_root(ROOT / "runs" / "x") == "runs/x"
    assert from_root(tmp_path) == str(tmp_path.resolve())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_exit_code_kill_ends_a_program_as_ctrl_c_does(number, capsys):
    cleaned = []

    def main():
        try:
            os.kill(os.getpid(), number)
            signal.pause()
        finally:
            cleaned.append(True)

    before = signal.getsignal(number)
    assert exit_code(main) == 130 and cleaned == [True]
    assert capsys.readouterr().err == "interrupted\n"
    assert signal.getsignal(number) == before


def ctrl_c_that_a_library_makes_an_error_of():
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt as error:
        raise ValueError("SchemaError: KeyboardInterrupt") from error


def ctrl_c_and_a_descriptor_that_the_interrupted_library_closes_twice():
    """As shutil.rmtree does if the signal comes right behind its os.close()."""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        os.close(12345)


@pytest.mark.parametrize(
    "main",
    [
        ctrl_c_that_a_library_makes_an_error_of,
        ctrl_c_and_a_descriptor_that_the_interrupted_library_closes_twice,
    ],
)
def test_exit_code_ctrl_c_is_no_other_error(main, capsys):
    assert exit_code(main) == 130 and capsys.readouterr().err == "interrupted\n"


def test_exit_code_ctrl_c_frees_nothing():
    """A module of LLVM that was being linked belongs to two: llvmlite and Python would both free it."""
    freed = []

    def main():
        held = type("Held", (), {"__del__": lambda self: freed.append(self)})()  # noqa: F841
        raise KeyboardInterrupt

    assert exit_code(main) == 130 and freed == []


def test_exit_code_the_last_line_stands_below_the_progress_bar(capsys):
    def fail(_):
        raise ProgramError("k: got 0")

    exit_code(lambda: {i: fail(i) for i in tqdm(range(2))})
    assert capsys.readouterr().err.splitlines()[-1] == "error: k: got 0"


def ended(code: str) -> subprocess.CompletedProcess[str]:
    """How a process of its own that runs ``code`` ends."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.program
def test_program_an_interrupted_program_ends_before_what_its_threads_use_is_taken_away():
    code = (
        "import atexit, signal, threading\n"
        "from latent_domains.common.program import run\n"
        "def main():\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    print('kept')\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "atexit.register(print, 'the end of Python')\n"
        "run(main)\n"
    )
    done = ended(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "kept\n", "interrupted\n")


@pytest.mark.program
@pytest.mark.parametrize(
    ("full", "why", "printed"),
    [
        (False, "[Errno 32] Broken pipe", "__import__('argparse').ArgumentParser().parse_args(['-h'])"),
        (True, "[Errno 28] No space left on device", "print(1)"),
    ],
)
def test_program_what_a_program_prints_cannot_be_written(full, why, printed):
    reading, writing = os.pipe()
    os.close(reading)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with os.fdopen(writing, "w") as closed, Path("/dev/full").open("w") as disk:
        done = subprocess.run(
            [sys.executable, "-c", f"from latent_domains.common.program import run\nrun(lambda: {printed})"],
            cwd=ROOT,
            env=environment,
            stdout=disk if full else closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, f"error: {why}: 'stdout'\n")


@pytest.mark.parametrize(("char", "shown", "count"), [("x", "xxx", 10**6), ("\0", "\\x00", 4000)])
def test_exit_code_no_message_is_endless(char, shown, count, capsys):
    def main():
        raise ProgramError("name: found " + char * count)

    assert exit_code(main) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"error: name: found {shown}") and said.endswith(f"… ({count + 12} characters)\n")
    assert len(said) <= 5000


def test_exit_code_nohup_is_respected():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert exit_code(lambda: os.kill(os.getpid(), signal.SIGHUP)) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_exit_code_letters_that_the_terminal_lacks_end_no_program(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "latin-1"))
    assert exit_code(lambda: print("conv1, ½, …")) == 0
    assert written.getvalue() == b"conv1, \xbd, \\u2026\n"
