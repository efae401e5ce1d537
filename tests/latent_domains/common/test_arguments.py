import ast
from argparse import ArgumentTypeError

import pytest

from latent_domains.common.arguments import natural, number, percentages, positive, program_parser, seconds, threads
from latent_domains.common.program import ROOT
from tests.programs import child, program

ODD = ("-1", "0", "nan", "inf", "-inf", "1e308", "1" + "0" * 30, "1.5", "", " 3", "३", "1_000", "9" * 5000, "0x10", "a")


@pytest.mark.parametrize(
    ("read", "taken"),
    [
        (positive, {}),
        (natural, {"0": 0}),
        (threads, {}),
        (percentages, {}),
        (seconds, {"1.5": 1.5, " 3": 3, "३": 3, "1_000": 1000}),
        (number, {"-1": -1, "0": 0, "1" + "0" * 30: 1e30, "1.5": 1.5, " 3": 3, "३": 3, "1_000": 1000}),
    ],
)
def test_odd_numbers_are_refused_or_what_they_say(read, taken):
    found = {}
    for text in ODD:
        try:
            found[text] = read(text)
        except ArgumentTypeError as error:
            assert str(error).startswith(f"got {text!r}, expected a ")
    assert found == taken


def test_more_threads_than_openmp_bears():
    with pytest.raises(ArgumentTypeError, match="'4096', expected a whole number of at least 1, at most 1024"):
        threads("4096")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("write_run", ["--k", "2", "--seed", "0", "--k", "3", "RUN"], "--k: given twice, as '2' and as '3'"),
        ("write_run", ["--targets", "a+b", "--target=c", "RUN"], "--target: given twice, as 'a+b' and as 'c'"),
        ("adapt", ["--source", "a", "--target", "b", "--out", "c", "--out", "d"], "given twice, as 'c' and as 'd'"),
        ("get_data", ["digits", "--seed", "1", "--seed", "2"], "argument --seed: given twice, as '1' and as '2'"),
        ("bench", ["--only", "a", "b", "--only", "c"], "argument --only: given twice, as 'a b' and as 'c'"),
    ],
)
def test_an_option_that_takes_one_value_is_given_once(name, arguments, said):
    done = program(name, *arguments)
    assert done.returncode == 2
    assert f"{said}: expected once\n" in done.stderr


def test_options_that_may_be_repeated():
    parser = program_parser("tools.x", "")
    parser.add_argument("--list", action="append")
    parser.add_argument("--flag", action="store_true")
    arguments = ["--list", "a", "--flag", "--list", "b", "--flag"]
    assert [vars(parser.parse_args(arguments)) for _ in range(2)] == 2 * [{"list": ["a", "b"], "flag": True}]


def test_no_option_is_read_by_int_or_float():
    files = [file for top in ("tools", "latent_domains") for file in ROOT.glob(f"{top}/**/*.py")]
    plain = [
        f"{file.relative_to(ROOT)}:{node.value.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "type" and getattr(node.value, "id", "") in ("int", "float")
    ]
    assert len(files) > 100 and plain == []


def test_variables_of_threads_that_are_empty_or_a_list():
    done = child("watch", "--help", env={"NUMBA_NUM_THREADS": "", "OMP_NUM_THREADS": " 2,1"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments", [("watch", ""), ("get_data", "demo", "--out", ""), ("watch", "--once", "runs", "")]
)
def test_a_path_of_an_unset_variable_is_not_this_folder(arguments):
    done = program(*arguments)
    assert done.returncode == 2 and "got '', expected a path (. is this folder)" in done.stderr
