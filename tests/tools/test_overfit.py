"""The program that overfits a few pictures."""

import re

import pytest

from latent_domains.training import overfit
from tests.pictures import EACH, draw
from tests.programs import program


def test_overfit_takes_what_it_is_given_and_no_less(tmp_path):
    images = draw(tmp_path / "images", EACH)
    done = program("overfit", "resnet18", "--images", images, "--runs", tmp_path / "runs")
    assert done.returncode == 1
    assert re.search(r"error: .*images: 2 images of art_painting/dog, expected at least 4", done.stderr)
    done = program("overfit", "resnet18", "--images", images, "--iterations", 9)
    assert done.returncode == 1 and "iterations: got 9, expected at least 10" in done.stderr


@pytest.mark.parametrize(("accuracy", "code"), [(0.9, 1), (0.92, 0)])
def test_overfit_fails_unless_the_pictures_are_known(accuracy, code, tmp_path, monkeypatch):
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
    done = program("overfit", "resnet18", "--images", draw(tmp_path / "images"), "--runs", tmp_path / "runs")
    assert done.returncode == code, done.stderr
    assert f"{100 * accuracy:.1f} % of the training pictures" in done.stdout
