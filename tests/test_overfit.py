"""The check that a net overfits a few pictures."""

import sys

import pytest

from latent_domains.common.program import exit_code
from tests import overfit
from tests.pictures import draw


@pytest.mark.parametrize(("accuracy", "code"), [(0.9, 1), (0.92, 0)])
def test_overfit_fails_unless_the_pictures_are_known(accuracy, code, tmp_path, monkeypatch, capsys):
    """The log is a made one: that the nets do learn the pictures is shown by the command in docs/experiments.md."""

    def train_all(runs):
        (run,) = runs
        assert run.read_solver().display == 1
        lines = []
        for i in range(30):
            value = accuracy + 0.08 * (-1) ** i if i >= 20 else 0.1  # of the two halves of the pictures, in turns
            lines += [
                f"I x.cpp:1] Iteration {i} (1 iter/s, 1s/1 iters), loss = 1",
                f"I x.cpp:1]     Train net output #0: source_accuracy = {value}",
            ]
        run.log.write_text("\n".join(lines))

    monkeypatch.setattr(overfit, "train_all", train_all)
    monkeypatch.setattr(overfit, "ROOT", tmp_path)
    for each, expected in ((overfit.EACH - 1, 1), (overfit.EACH, code)):
        images = draw(tmp_path / str(each), each)
        monkeypatch.setattr(sys, "argv", ["overfit", "resnet18", "--images", str(images)])
        assert exit_code(overfit.main) == expected
    said = capsys.readouterr()
    assert f"{tmp_path}/3: art_painting: expected at least 4 pictures of each class" in said.err
    assert f"{100 * accuracy:.1f} % of the training pictures" in said.out
