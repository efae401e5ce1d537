"""Pixels of files with transparent parts and of more than 8 bits, beside what Pillow and tifffile say of them."""

import struct
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps

from latent_domains.data.pixels import decided_by, deep_values, pages, read_pixels
from latent_domains.data.preprocessing import USUAL, Reading

SIZE = (7, 9)
"""Height and width."""

WHITE, GREEN = (255, 255, 255), (10, 200, 30)


def coloured(seed: int = 0) -> Image.Image:
    """Colours and opacities of all kinds."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*SIZE, 4), np.uint8))


def seen(image: Image.Image, background: tuple[int, int, int] = WHITE) -> np.ndarray:
    """What Pillow shows of an image on a background (B, G, R), as H×W×3 (B, G, R)."""
    image = image.convert("RGBA")
    below = Image.new("RGBA", image.size, (*background[::-1], 255))
    return np.asarray(Image.alpha_composite(below, image))[..., 2::-1]


def with_key(mode: str, key: object) -> Callable[[Path], None]:
    """Write a picture of two values of which the first one is transparent, as a palette or a key says."""

    def write(file: Path) -> None:
        image = Image.new(mode, SIZE[::-1], 0)
        image.paste(1 if mode in ("P", "1") else 200 if mode == "L" else (200, 100, 0), (2, 2, 5, 6))
        image.save(file, transparency=key)

    return write


SEE_THROUGH = {
    "rgba.png": lambda file: coloured().save(file),
    "gray.png": lambda file: coloured().convert("LA").save(file),
    "palette.png": with_key("P", 0),
    "two_opacities.png": with_key("P", bytes([90, 200])),
    "key.png": with_key("RGB", (0, 0, 0)),
    "gray_key.png": with_key("L", 0),
    "bilevel_key.png": with_key("1", 0),
    "key.gif": with_key("P", 0),
    "lossless.webp": lambda file: coloured().save(file, lossless=True, exact=True),
    "straight.tif": lambda file: coloured().save(file),
    "of_opencv.tif": lambda file: cv2.imwrite(str(file), cv2.cvtColor(np.asarray(coloured()), cv2.COLOR_RGBA2BGRA)),
    "of_opencv.bmp": lambda file: cv2.imwrite(str(file), cv2.cvtColor(np.asarray(coloured()), cv2.COLOR_RGBA2BGRA)),
}


@pytest.mark.parametrize("background", [WHITE, GREEN])
@pytest.mark.parametrize("name", SEE_THROUGH)
def test_decided_by_transparent_parts_show_the_background(name, background, tmp_path):
    SEE_THROUGH[name](tmp_path / name)
    data, reading = (tmp_path / name).read_bytes(), Reading(background)
    original = coloured() if name.startswith("of_opencv") else Image.open(tmp_path / name)
    found = read_pixels(data, reading)
    assert found.transparent and np.abs(found.image.astype(int) - seen(original, background)).max() <= 1
    gray = read_pixels(data, reading, gray=True).image
    assert np.array_equal(gray, cv2.cvtColor(found.image, cv2.COLOR_BGR2GRAY))
    assert decided_by(data, reading) == {"--background": "white" if background == WHITE else "#1ec80a"}


@pytest.mark.parametrize("suffix", ["png", "webp"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_read_pixels_what_exif_turns_is_turned_with_its_opacity(suffix, orientation, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    how = {"lossless": True, "exact": True} if suffix == "webp" else {}
    coloured().save(tmp_path / f"a.{suffix}", exif=exif, **how)
    turned = ImageOps.exif_transpose(Image.open(tmp_path / f"a.{suffix}"))
    found = read_pixels((tmp_path / f"a.{suffix}").read_bytes(), USUAL).image
    assert found.shape == seen(turned).shape and np.abs(found.astype(int) - seen(turned)).max() <= 1


def test_read_pixels_colours_of_a_tiff_may_be_multiplied_by_their_opacity(tmp_path):
    """Black of half opacity is gray on white, in 8 bits and 16, whether colours are multiplied or not."""
    for bits, kind in ((8, "u1"), (16, "u2")):
        for extra, white in (("unassalpha", 2**bits - 1), ("assocalpha", 2 ** (bits - 1))):
            values = np.zeros((*SIZE, 4), kind)
            values[..., 3] = 2 ** (bits - 1)
            values[0, :, :3] = white
            tifffile.imwrite(tmp_path / "a.tif", values, photometric="rgb", extrasamples=[extra])
            found = read_pixels((tmp_path / "a.tif").read_bytes(), USUAL).image
            assert set(found[0].ravel()) <= {254, 255} and set(found[1:].ravel()) <= {127, 128}, (bits, extra)
    both = np.zeros((*SIZE, 2), "u1")
    tifffile.imwrite(tmp_path / "a.tif", both, photometric="minisblack", extrasamples=["unassalpha"])
    with pytest.raises(ValueError, match="a gray TIFF with an alpha channel, which OpenCV leaves out"):
        read_pixels((tmp_path / "a.tif").read_bytes(), USUAL)


def test_decided_by_an_opaque_alpha_channel_changes_nothing(tmp_path):
    image = coloured()
    image.putalpha(255)
    for name, how in (("a.png", {}), ("a.webp", {"lossless": True}), ("a.tif", {})):
        image.save(tmp_path / name, **how)
        data = (tmp_path / name).read_bytes()
        found = read_pixels(data, Reading(GREEN))
        assert not found.transparent and np.array_equal(found.image, cv2.imread(str(tmp_path / name)))
        assert decided_by(data, Reading(GREEN)) == {}


RAMP = np.linspace(0, 1, SIZE[0] * SIZE[1]).reshape(SIZE)


def packed(values: np.ndarray, bits: int) -> bytes:
    """A TIFF of gray values of so many bits each."""
    digits = "".join("".join(format(value, f"0{bits}b") for value in row).ljust(-(-len(row) * bits // 8) * 8, "0")
                     for row in values)  # fmt: skip
    strip = int(digits, 2).to_bytes(len(digits) // 8)
    height, width = values.shape
    tags = {256: width, 257: height, 258: bits, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: len(strip)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<I", 8 + len(strip)) + strip + struct.pack("<H", len(tags)) + entries + bytes(4)


def test_read_pixels_the_range_becomes_black_to_white(tmp_path):
    kinds = {"i1": (-100, 90), "i2": (-1000, 2000), "u2": (0, 4095), "i4": (-70000, 70000), "f4": (-0.5, 1.5)}
    for kind, (low, high) in kinds.items():
        values = low + RAMP * (high - low)
        values = values if kind == "f4" else values.round()
        for name, three in (("gray", values), ("colours", np.dstack([values] * 3))):
            file = tmp_path / f"{name}.tif"
            if kind == "i4" and name == "colours":
                continue  # OpenCV has no such
            tifffile.imwrite(file, three.astype(kind), photometric="rgb" if name == "colours" else "minisblack")
            found = read_pixels(file.read_bytes(), Reading(range=(low, high))).image
            assert found.shape == (*SIZE, 3) and np.abs(found - 255 * RAMP[..., np.newaxis]).max() <= 1.5, (kind, name)
            half = read_pixels(file.read_bytes(), Reading(range=(low, (low + high) / 2)), gray=True).image
            assert np.abs(half - np.minimum(510 * RAMP, 255)).max() <= 4, (kind, name)
            assert decided_by(file.read_bytes(), Reading(range=(low, high))) == {"--range": f"{low:g}:{high:g}"}
            if kind != "u2":
                with pytest.raises(ValueError, match=r"numbers of the type \w+: --range says which become black"):
                    read_pixels(file.read_bytes(), USUAL)


def test_read_pixels_a_file_may_say_how_many_bits_it_has():
    for bits in (10, 12, 14):
        data = packed((RAMP * (2**bits - 1)).round().astype(int), bits)
        values, said = deep_values(data)
        assert said == bits and values.max() == 2**bits - 1
        assert np.abs(read_pixels(data, USUAL).image - 255 * RAMP[..., np.newaxis]).max() <= 1


def test_read_pixels_holes_of_fractions_are_black(tmp_path):
    values = RAMP.astype("f4")
    values[2] = np.nan
    tifffile.imwrite(tmp_path / "a.tif", values)
    found = read_pixels((tmp_path / "a.tif").read_bytes(), Reading(range=(0, 1)), gray=True).image
    assert not found[2].any() and found[3].any()


def test_read_pixels_several_pages_are_told_from_smaller_copies(tmp_path):
    picture = (RAMP * 255).astype(np.uint8)
    for name, more, several in (("one", [], False), ("stack", [{}], True), ("pyramid", [{"subfiletype": 1}], False)):
        for big in (False, True):
            with tifffile.TiffWriter(tmp_path / name, bigtiff=big) as file:
                for how in ({}, *more):
                    file.write(picture, metadata=None, **how)
            data = (tmp_path / name).read_bytes()
            assert len(list(pages(data))) == 1 + len(more)
            assert read_pixels(data, USUAL).several == several


def test_pages_a_damaged_tiff_ends_the_pages(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", np.zeros((3, *SIZE), np.uint8), photometric="minisblack")
    data = (tmp_path / "a.tif").read_bytes()
    for length in range(0, len(data), 7):
        assert len(list(pages(data[:length]))) <= 3
    (place,) = struct.unpack("<I", data[4:8])
    (count,) = struct.unpack_from("<H", data, place)
    following = place + 2 + 12 * count
    round_about = data[:following] + data[4:8] + data[following + 4 :]  # the first page is the next one
    assert len(list(pages(round_about))) == 1
