"""Weights that others publish."""

import re

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.experiment.pretrained import expect_caffemodel


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lite0_mda2.caffemodel", " (from: python -m tools.get_weights lite0 --num-domains 2)"),
        ("resnet18.caffemodel", " (from: python -m tools.get_weights resnet18)"),
        ("bvlc_alexnet.caffemodel", " (from: python -m tools.get_weights alexnet)"),
        ("mine.caffemodel", ""),
    ],
)
def test_missing_weights_are_named_with_the_command_that_gets_them(name, hint, tmp_path):
    message = f"{tmp_path / name}: no such file, expected a caffemodel{hint}"
    with pytest.raises(ProgramError, match=f"^{re.escape(message)}$"):
        expect_caffemodel(tmp_path / name)
