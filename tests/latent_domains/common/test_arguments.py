import ast
from argparse import ArgumentTypeError

import cv2
import numpy as np
import pytest

from latent_domains.common.arguments import natural, number, path, percentages, positive, seconds, threads
from latent_domains.common.program import ROOT
from tests.programs import names, program

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
def test_arguments_odd_numbers_are_refused_or_what_they_say(read, taken):
    found = {}
    for text in ODD:
        try:
            found[text] = read(text)
        except ArgumentTypeError as error:
            assert str(error).startswith(f"got {text!r}, expected a ")
    assert found == taken


def test_threads_more_threads_than_openmp_bears():
    with pytest.raises(ArgumentTypeError, match="'4096', expected a whole number of at least 1, at most 1024"):
        threads("4096")


def test_root_no_option_is_read_by_int_or_float():
    files = [file for top in ("tools", "latent_domains") for file in ROOT.glob(f"{top}/**/*.py")]
    plain = [
        f"{file.relative_to(ROOT)}:{node.value.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "type" and getattr(node.value, "id", "") in ("int", "float")
    ]
    assert len(files) > 100 and plain == []


def test_path_a_tilde_is_the_home_folder_wherever_it_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "p" / "a").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "p" / "a" / "1.png"), np.zeros((8, 8, 3), np.uint8))
    for arguments in (("p", "~/l"), ("~/../p", "~/m"), ("p", "./~")):
        done = program("build_lmdb", *arguments)
        assert done.returncode == 0, done.stderr
    assert names(tmp_path / "home") == ["l", "m"] and names(tmp_path) == ["home", "p", "~"]
    with pytest.raises(ArgumentTypeError, match="got '~nobody at all', expected the home folder of a user"):
        path("~nobody at all")


@pytest.mark.parametrize(
    "arguments", [("watch", ""), ("get_data", "demo", "--out", ""), ("watch", "--once", "runs", "")]
)
def test_arguments_a_path_of_an_unset_variable_is_not_this_folder(arguments):
    done = program(*arguments)
    assert done.returncode == 2 and "got '', expected a path (. is this folder)" in done.stderr
