"""Inputs have the net's shape and its transformation of pixels."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.models import inputs


def test_noise_is_pixels_transformed_and_follows_the_seed() -> None:
    plain = inputs.noise((3, 5, 6), seed=1)
    assert plain.shape == (inputs.NOISE, 3, 5, 6)
    assert plain.min() >= 0
    assert plain.max() <= 255
    shifted = inputs.noise((3, 5, 6), seed=1, mean=(10, 20, 30), scale=0.5)
    np.testing.assert_allclose(shifted[:, 2], (plain[:, 2] - 30) / 2)
    assert (inputs.noise((3, 5, 6), seed=2) != plain).any()
    assert inputs.noise((7,), seed=0).shape == (inputs.NOISE, 7)


def test_images_are_blue_green_red_and_at_most_so_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "IMAGES", 3)
    for i in range(7):
        (tmp_path / "class").mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / "class" / f"{i}.png"), np.full((9, 8, 3), (i, 100, 200), np.uint8))
    rows = inputs.images(tmp_path, (3, 4, 5), mean=(1, 2, 3))
    assert rows.shape == (3, 3, 4, 5)
    np.testing.assert_array_equal(rows[:, :, 0, 0], [[i - 1, 98, 197] for i in (0, 3, 6)])
    assert inputs.images(tmp_path, (1, 4, 5)).shape == (3, 1, 4, 5)


def test_folders_without_readable_images(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="no images in it"):
        inputs.images(tmp_path, (3, 4, 4))
    with pytest.raises(ProgramError, match="no such folder"):
        inputs.images(tmp_path / "none", (3, 4, 4))
    (tmp_path / "a.jpg").write_bytes(b"no image")
    with pytest.raises(ProgramError, match=r"a\.jpg: 8 bytes that OpenCV cannot decode"):
        inputs.images(tmp_path, (3, 4, 4))
    with pytest.raises(ProgramError, match="input is 4096, expected an image"):
        inputs.images(tmp_path, (4096,))
