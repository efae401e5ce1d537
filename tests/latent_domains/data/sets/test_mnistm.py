import numpy as np

from latent_domains.data.sets import mnistm


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def test_blend_a_blend_is_the_absolute_difference():
    digits, patches = noise(3, 5, 4), noise(3, 5, 4, 3, seed=1)
    blended = mnistm.blend(digits, patches)
    assert blended.dtype == np.uint8
    for i, y, x, c in np.ndindex(patches.shape):
        assert blended[i, y, x, c] == abs(int(patches[i, y, x, c]) - int(digits[i, y, x]))


def test_random_patches_patches_come_from_everywhere_in_every_photograph():
    photographs = [noise(6, 9, 3, seed=2), noise(5, 4, 3, seed=3)]
    places = {}
    for which, photo in enumerate(photographs):
        for top in range(photo.shape[0] - 3):
            for left in range(photo.shape[1] - 3):
                places[photo[top : top + 4, left : left + 4].tobytes()] = which
    patches = mnistm.random_patches(photographs, 2000, 4, np.random.default_rng(0))
    found = [places[patch.tobytes()] for patch in patches]
    assert {patch.tobytes() for patch in patches} == set(places)
    # each photograph half of the time, whatever its size: 5 standard deviations around 1000
    assert abs(found.count(0) - 1000) < 5 * np.sqrt(2000 / 4)
