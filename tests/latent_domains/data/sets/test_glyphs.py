import numpy as np
from scipy.ndimage import label as components

from latent_domains.data.sets import glyphs

GLYPHS = glyphs.load_glyphs()


def test_glyphs_the_strokes_of_the_glyphs_enclose_what_a_digit_encloses():
    holes = {0: 1, 1: 0, 2: 0, 3: 0, 5: 0, 6: 1, 7: 0, 8: 2, 9: 1}  # a four is open or closed
    for digit, expected in holes.items():
        for glyph in GLYPHS[digit]:
            _, grounds = components(glyph.distance <= 0, np.ones((3, 3)))
            assert grounds - 1 == expected, f"a {digit}"


def test_render_rendered_digits_lie_inside_and_are_smooth():
    labels = np.arange(400) % 10
    images = glyphs.render(GLYPHS, labels, 28, np.random.default_rng(0), "test")
    assert images.shape == (400, 28, 28) and images.min() == 0 and images.max() == 1
    assert ((images > 0) & (images < 1)).any(axis=(1, 2)).all(), "soft outlines"
    share = images.mean(axis=(1, 2))
    assert share.min() > 0.03 and share.max() < 0.6
    border = np.concatenate([images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]], axis=1)
    assert (border > 0.5).mean() < 0.01, "few digits touch the border"
    assert len({image.tobytes() for image in images}) == 400
