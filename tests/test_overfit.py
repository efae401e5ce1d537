"""The check that a net overfits a few pictures."""

import re
import sys

import pytest

from latent_domains.common.program import exit_code
from tests import overfit
from tests.pictures import EACH, draw


def code_of(*arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["overfit", "resnet18", *map(str, arguments)])
    return exit_code(overfit.main)


def test_overfit_takes_what_it_is_given_and_no_less(tmp_path, monkeypatch, capsys):
    images = draw(tmp_path / "images", EACH)
    assert code_of("--images", images, "--runs", tmp_path / "runs", monkeypatch=monkeypatch) == 1
    assert re.search(r"error: .*images: 2 images of art_painting/dog, expected at least 4", capsys.readouterr().err)
    assert code_of("--images", images, "--iterations", 9, monkeypatch=monkeypatch) == 1
    assert "iterations: got 9, expected at least 10" in capsys.readouterr().err


@pytest.mark.parametrize(("accuracy", "code"), [(0.9, 1), (0.92, 0)])
def test_overfit_fails_unless_the_pictures_are_known(accuracy, code, tmp_path, monkeypatch, capsys):
    """The log is a made one: that the nets do learn the pictures is shown by the command in the README."""

    def train_all(runs, **_):
        (run,) = runs
        assert run.read_solver().display == 1
        half = [accuracy - 0.08, accuracy + 0.08]  # of the two halves of the pictures, in turns
        lines = []
        for i in range(30):
            value = half[i % 2] if i >= 20 else 0.1
            lines += [
                f"I x.cpp:1] Iteration {i} (1 iter/s, 1s/1 iters), loss = 1",
                f"I x.cpp:1]     Train net output #0: source_accuracy = {value}",
            ]
        run.log.write_text("\n".join(lines))

    monkeypatch.setattr(overfit, "train_all", train_all)
    monkeypatch.setattr(overfit, "EACH", EACH)
    images = draw(tmp_path / "images")
    assert code_of("--images", images, "--runs", tmp_path / "runs", monkeypatch=monkeypatch) == code
    assert f"{100 * accuracy:.1f} % of the training pictures" in capsys.readouterr().out
