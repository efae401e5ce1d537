"""Pictures of the latent domains."""

import cv2
import numpy as np

from latent_domains.report.samples import mosaic, strip


def test_pictures_in_a_strip():
    images = np.zeros((3, 3, 4, 6), np.uint8)
    images[0, 2] = 200  # red, in BGR
    assert mosaic(images, 2)[0, 0].tolist() == [200, 0, 0]
    assert mosaic(images, 2)[-1, -1].tolist() == [255, 255, 255]
    decoded = cv2.imdecode(np.frombuffer(strip(images, 3, side=24), np.uint8), cv2.IMREAD_COLOR)
    assert decoded.shape == (16, 24 * 3 + 4, 3)
    assert decoded[8, 12, 2] > 180 and decoded[8, 12, 0] < 30
    assert strip(images[:, :1], 3)
