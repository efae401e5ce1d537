"""The colours."""

import numpy as np

from latent_domains.report.palette import COLOURS, VARIABLES


def test_colours_are_variables_and_stand_out_from_their_ground():
    assert len(VARIABLES) == len(COLOURS)

    def luminance(colour):
        values = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    for name, pair in COLOURS.items():
        for colour, ground in zip(pair, COLOURS["ground"], strict=True):
            lighter, darker = sorted((luminance(colour), luminance(ground)), reverse=True)
            contrast = (lighter + 0.05) / (darker + 0.05)
            least = {"ground": 1, "grid": 1.2, "ink": 7, "muted": 4.5}.get(name, 2.9)
            assert contrast >= least, (name, colour, contrast)
