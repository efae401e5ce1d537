import pytest

from tools.program import ROOT, ProgramError, from_root, run


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ProgramError("k: got 0"), 1, "error: k: got 0\n"),
        (FileNotFoundError(2, "No such file or directory", "x"), 1, "No such file or directory: 'x'\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_exit_codes_and_one_line(error, code, message, capsys):
    def main():
        raise error

    with pytest.raises(SystemExit) as stop:
        run(main)
    assert stop.value.code == code
    shown = capsys.readouterr().err
    assert shown.endswith(message) and shown.count("\n") == 1


def test_a_fault_of_ours_is_not_hidden():
    def main():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(main)


def test_paths_are_relative_to_the_root_where_they_can_be(tmp_path):
    assert from_root(ROOT / "runs" / "x") == "runs/x"
    assert from_root(tmp_path) == str(tmp_path.resolve())
