import numpy as np
import pytest

from latent_domains.data.image_statistics import image_statistics


def image(*channels):
    return np.stack([np.asarray(channel, np.uint8) * np.ones((4, 6), np.uint8) for channel in channels])


def test_statistics_of_flat_images():
    blue = image_statistics(image(255, 0, 0))
    assert blue["brightness"] == pytest.approx(100 / 3, abs=1e-4)
    assert blue["colour"] == pytest.approx(100)
    assert blue["blue less grey"] == pytest.approx(200 / 3, abs=1e-4)
    assert blue["red less grey"] == pytest.approx(-100 / 3, abs=1e-4)
    assert blue["contrast"] == pytest.approx(0, abs=1e-4) and blue["edges"] == 0


def test_statistics_of_stripes_in_grey():
    stripes = np.zeros((1, 4, 6), np.uint8)
    stripes[..., ::2] = 255
    found = image_statistics(stripes)
    assert found["brightness"] == pytest.approx(50) and found["contrast"] == pytest.approx(50)
    assert found["colour"] == found["red less grey"] == found["blue less grey"] == 0
    # 4×5 neighbours side by side, all of them edges; 3×6 one above the other, none
    assert found["edges"] == pytest.approx(100 * 20 / 38)
    faint = image_statistics((stripes > 0).astype(np.uint8) * 25)
    assert faint["edges"] == 0, "25 of 255 is less than 10 %"
