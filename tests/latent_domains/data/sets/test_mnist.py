import struct

import numpy as np

from latent_domains.data.sets import mnist

IMAGES = np.random.default_rng(0).integers(0, 256, (5, 4, 3)).astype(np.uint8)


def test_images_and_labels_are_read():
    assert np.array_equal(mnist.parse(struct.pack(">4I", 0x803, 5, 4, 3) + IMAGES.tobytes()), IMAGES)
    assert mnist.parse(struct.pack(">2I", 0x801, 5) + bytes([0, 9, 3, 3, 1])).tolist() == [0, 9, 3, 3, 1]
