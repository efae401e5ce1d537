import cv2
import numpy as np

from latent_domains.data.sets import usps


def line(label: object, values: np.ndarray) -> str:
    return f"{label} " + " ".join(f"{value:.4f}" for value in values.ravel()) + " \n"


VALUES = np.linspace(-1, 1, 3 * 256).reshape(3, 16, 16)
FILE = "".join(line(f"{label}.0000", values) for label, values in zip((6, 0, 6), VALUES, strict=True))


def test_values_become_bytes_and_labels_numbers():
    images, labels = usps.parse(FILE.encode())
    assert labels.tolist() == [6, 0, 6]
    assert images.dtype == np.uint8 and images.shape == (3, 16, 16)
    assert images[0, 0, 0] == 0 and images[-1, -1, -1] == 255
    assert np.abs(images - (VALUES + 1) / 2 * 255).max() < 0.51


def test_images_are_resized_one_by_one():
    images = np.random.default_rng(0).integers(0, 256, (4, 16, 16)).astype(np.uint8)
    resized = usps.resize(images)
    assert resized.shape == (4, 28, 28)
    assert all(np.array_equal(cv2.resize(image, (28, 28)), done) for image, done in zip(images, resized, strict=True))
    assert usps.resize(images[:0]).shape == (0, 28, 28)
