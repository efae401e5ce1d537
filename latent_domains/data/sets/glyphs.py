"""Printed digits from the fonts that come with matplotlib, rendered with random shapes.

Each glyph is kept as a field of signed distances to its outline. Sampled through a random affine map and cut at a
random level, such a field gives a smooth digit of any size, slant and stroke width (Green, "Improved Alpha-Tested
Magnification for Vector Textures and Special Effects", SIGGRAPH 2007 course notes).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import matplotlib
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from tqdm import tqdm

from latent_domains.common.program import ProgramError

ALL = "0123456789"
_DEJAVU = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSans-BoldOblique")
_SERIF = ("DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic", "DejaVuSerif-BoldItalic")
_STIX = ("STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "STIXGeneralBolIta")
_COMPUTER_MODERN = ("cmb10", "cmr10", "cmss10", "cmti10", "cmtt10")
_MONO = ("DejaVuSansMono", "DejaVuSansMono-Bold", "DejaVuSansMono-Oblique", "DejaVuSansMono-BoldOblique")
FONTS = {
    **dict.fromkeys((*_DEJAVU, *_SERIF, *_STIX, *_COMPUTER_MODERN), ALL),
    **dict.fromkeys(_MONO, ALL[1:]),  # their zero has a dot inside and looks like an eight
}
"""The bundled fonts whose digits look like digits (not the symbol fonts, nor cmmi10's old-style ones), and which."""

HEIGHT = 72
"""Height of a glyph's ink in its field, in the field's pixels."""

FIELD = 160
"""Side of a field, in pixels; the ink lies in its middle."""


@dataclass(frozen=True)
class Glyph:
    """One digit of one font."""

    distance: NDArray[np.float32]
    """FIELD×FIELD: distance to the outline in the field's pixels, positive in the ink."""
    stroke: float
    """Mean width of the strokes, in the field's pixels."""


def load_glyphs() -> list[list[Glyph]]:
    """Return the glyphs of each digit 0-9. Refuses a matplotlib without one of FONTS."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    glyphs: list[list[Glyph]] = [[] for _ in ALL]
    for font, digits in FONTS.items():
        file = folder / f"{font}.ttf"
        if not file.is_file():
            raise ProgramError(f"{file}: not there; matplotlib {matplotlib.__version__} lacks this font")
        face = ImageFont.truetype(str(file), 2 * HEIGHT)
        for character in digits:
            digit = int(character)
            glyphs[digit].append(_glyph(face, digit))
    return glyphs


def _glyph(face: ImageFont.FreeTypeFont, digit: int) -> Glyph:
    left, top, right, bottom = face.getbbox(str(digit))
    canvas = Image.new("L", (int(right - left), int(bottom - top)), 0)
    ImageDraw.Draw(canvas).text((-left, -top), str(digit), font=face, fill=255)
    ink = np.asarray(canvas)
    scale = HEIGHT / ink.shape[0]
    size = (max(1, round(ink.shape[1] * scale)), HEIGHT)
    ink = cv2.resize(ink, size, interpolation=cv2.INTER_AREA) > 127
    top, left = (FIELD - ink.shape[0]) // 2, (FIELD - ink.shape[1]) // 2
    mask = np.zeros((FIELD, FIELD), np.uint8)
    mask[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
    inside = cv2.distanceTransform(mask, cv2.DIST_L2, 5)
    outside = cv2.distanceTransform(1 - mask, cv2.DIST_L2, 5)
    # Across a stroke of width w the inner distance runs evenly from 0 to w/2 and back: its mean is w/4.
    return Glyph(inside - outside, 4 * float(inside[mask > 0].mean()))


def render(
    glyphs: Sequence[Sequence[Glyph]], digits: Sequence[int], side: int, rng: np.random.Generator, name: str
) -> NDArray[np.float32]:
    """Render one digit for each entry of ``digits``: n×side×side, 0 ground to 1 ink, each shape drawn from ``rng``.

    ``name`` labels the progress bar. Drawn uniformly are: font; height 60-90 % of the side; width 75-125 % of the
    font's; slant -0.3 to 0.3; rotation ±10°; shift ±8 % of the side; stroke 6-17 % of the side as far as the font
    allows; and a smooth wobble of the outline of up to 4 % of the side.
    """
    images = np.empty((len(digits), side, side), np.float32)
    rows, columns = np.mgrid[0:side, 0:side].astype(np.float32) - (side - 1) / 2
    for i, digit in enumerate(tqdm(digits, desc=name, unit="img")):
        glyph = glyphs[digit][rng.integers(len(glyphs[digit]))]
        height = rng.uniform(0.60, 0.90) * side
        aspect = rng.uniform(0.75, 1.25)
        slant = rng.uniform(-0.3, 0.3)
        angle = np.deg2rad(rng.uniform(-10, 10))
        shift = rng.uniform(-0.08, 0.08, 2) * side
        stroke = rng.uniform(0.06, 0.17) * side
        wobble = rng.uniform(-0.04, 0.04, (2, 4, 4)).astype(np.float32) * side

        unit = HEIGHT / height  # field pixels in an image pixel
        bend = [cv2.resize(grid, (side, side), interpolation=cv2.INTER_CUBIC) for grid in wobble]
        y = rows - np.float32(shift[0]) + bend[0]
        x = columns - np.float32(shift[1]) + bend[1]
        y, x = np.cos(angle) * y - np.sin(angle) * x, np.sin(angle) * y + np.cos(angle) * x
        x = (x + slant * y) / aspect
        middle = (FIELD - 1) / 2
        distance = cv2.remap(
            glyph.distance,
            (x * unit + middle).astype(np.float32),
            (y * unit + middle).astype(np.float32),
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE,
        )
        own = glyph.stroke / unit
        thicker = max((stroke - own) / 2, -0.12 * own)  # thin parts of a font with contrast must not vanish
        images[i] = np.clip(distance / unit + thicker + 0.5, 0, 1)
    return images
