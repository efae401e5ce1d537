"""The LMDB builder beside Caffe's own convert_imageset, compute_image_mean and Data layer."""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest
from caffe.proto import caffe_pb2
from PIL import Image
from skimage import data as photographs

from latent_domains.common import in_threads
from latent_domains.data import image_datum, lmdb_io
from latent_domains.data.image_datum import Format, make_readable
from latent_domains.data.image_list import SUFFIXES, Entry
from tests.odd_images import odd_images
from tests.programs import child, interrupt, names, program


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photographs in every kind of file, of different sizes, two class folders deep, with a list.txt."""
    root = tmp_path_factory.mktemp("images")
    (root / "a cat").mkdir()
    (root / "rocket").mkdir()
    cat, rocket = Image.fromarray(photographs.chelsea()), Image.fromarray(photographs.rocket())
    cat.save(root / "a cat" / "photo.jpg")
    cat.save(root / "a cat" / "progressive one.JPEG", progressive=True, quality=60)
    cat.crop((10, 20, 110, 197)).save(root / "a cat" / "crop.jpg", quality=95)
    cat.convert("L").save(root / "a cat" / "gray.jpg")
    turned = Image.Exif()
    turned[0x0112] = 6  # to be shown turned by 90 degrees
    cat.save(root / "a cat" / "turned.jpg", exif=turned)
    rocket.resize((201, 133)).save(root / "rocket" / "small.png")
    rocket.convert("L").save(root / "rocket" / "gray.png")
    rocket.convert("P").save(root / "rocket" / "palette.png")
    rocket.convert("RGBA").save(root / "rocket" / "alpha.png")
    rocket.convert("1").save(root / "rocket" / "black and white.png")
    rocket.save(root / "rocket" / "plain.bmp")
    rocket.resize((7, 5)).save(root / "rocket" / "tiny.jpg")
    files = sorted(path for path in root.rglob("*") if path.is_file())
    lines = (f"{path.relative_to(root)} {i % 3}\n" for i, path in enumerate(files))
    (root / "list.txt").write_text("".join(lines))
    return root


def records(path: Path) -> list[tuple[bytes, bytes]]:
    return [(key, datum.SerializeToString()) for key, datum in lmdb_io.read(path)]


# --- equal to Caffe's own


@pytest.mark.program
@pytest.mark.parametrize(
    ("theirs", "ours", "encoded", "others"),
    [
        ([], [], None, ()),
        (["--resize_height=256", "--resize_width=256"], ["--resize", "256x256"], None, ()),
        (["--gray", "--resize_height=50", "--resize_width=131"], ["--gray", "--resize", "50x131"], None, ()),
        (["--encoded", "--encode_type=jpg"], ["--encoded", "jpg"], "jpg", ("gray.jpg", "turned.jpg")),
        (
            ["--encoded", "--encode_type=png"],
            ["--encoded", "png"],
            "png",
            ("gray.png", "alpha.png", "black and white.png"),
        ),
    ],
)
def test_build_lmdb_records_are_those_of_convert_imageset_byte_for_byte(
    images, tmp_path, theirs, ours, encoded, others
):
    reference = ["convert_imageset", *theirs, f"{images}/", str(images / "list.txt"), str(tmp_path / "theirs")]
    subprocess.run(reference, check=True, capture_output=True)
    done = program(
        "build_lmdb", images / "list.txt", tmp_path / "ours", "--root", images, "--no-shuffle", "--jobs", 2, *ours
    )
    assert done.returncode == 0, done.stderr
    expected, found = records(tmp_path / "theirs"), records(tmp_path / "ours")
    assert [key for key, _ in found] == [key for key, _ in expected] and len(found) == 12
    for (key, mine), (_, caffes) in zip(found, expected, strict=True):
        name = Path(key.decode()[9:])
        if not encoded:
            assert mine == caffes, key
        elif name.name not in others:  # files of the format that are not what raw pixels would be, they copy as well
            a, b = map(caffe_pb2.Datum.FromString, (mine, caffes))
            assert (a.label, a.encoded, a.HasField("channels")) == (b.label, b.encoded, b.HasField("channels"))
            # Two builds of one codec may pack a picture differently; files that are copied and all pixels must agree.
            assert np.array_equal(lmdb_io.datum_image(a), lmdb_io.datum_image(b)), key
            if name.suffix.lower().replace("e", "") == f".{encoded}":
                assert a.data == b.data == (images / name).read_bytes()


@pytest.mark.program
def test_build_lmdb_what_caffes_opencv_reads_otherwise_is_named_in_the_help(tmp_path):
    """Every suffix, turned by EXIF and with a second picture where the format can hold these."""
    picture = Image.fromarray(photographs.chelsea()[:40, :60])
    exif = Image.Exif()
    exif[0x0112] = 3
    upright, extra = picture.transpose(Image.Transpose.ROTATE_180), {"save_all": True, "append_images": [picture]}
    files = {f"plain{suffix}": (picture, {}) for suffix in sorted(SUFFIXES - {".jfif"})}
    files |= {f"turned.{kind}": (upright, {"exif": exif}) for kind in ("jpg", "png", "tif", "webp")}
    files |= {f"several.{kind}": (picture, extra) for kind in ("gif", "png", "tif", "webp")}
    for name, (image, how) in files.items():
        image.save(tmp_path / name, **how, **({"lossless": True} if name.endswith("webp") else {}))
    (tmp_path / "list").write_text("".join(f"{name} 0\n" for name in files))
    subprocess.run(["convert_imageset", f"{tmp_path}/", tmp_path / "list", tmp_path / "theirs"], capture_output=True)
    done = program("build_lmdb", tmp_path / "list", tmp_path / "ours", "--root", tmp_path, "--no-shuffle")
    assert done.returncode == 0, done.stderr
    theirs = {key[9:]: value for key, value in records(tmp_path / "theirs")}
    differ = {key[9:].decode() for key, value in records(tmp_path / "ours") if theirs.get(key[9:]) != value}
    assert differ <= {"turned.webp", "plain.gif", "several.gif", "several.webp"}
    assert "does not turn WebPs and leaves GIFs\nand animated WebPs out" in program("build_lmdb", "--help").stdout
    for key, datum in lmdb_io.read(tmp_path / "ours"):
        if key.endswith((b"png", b"tif", b"webp", b"ppm", b"bmp")):  # without a loss
            assert np.array_equal(lmdb_io.datum_image(datum)[::-1].transpose(1, 2, 0), np.asarray(picture)), key


@pytest.mark.parametrize("encoded", ["jpg", "png"])
def test_build_lmdb_encoded_images_are_those_that_are_stored_raw(encoded, tmp_path):
    """As they are where a file of the format holds these very pixels, and encoded by us where it does not."""
    picture = cv2.resize(photographs.chelsea()[..., ::-1], (48, 40))
    files = [file for file, _, _ in odd_images(tmp_path / "odd", picture)]
    turned, upright = Image.Exif(), Image.Exif()
    turned[0x0112], upright[0x0112] = 3, 1  # as tall and as wide
    rgb = Image.fromarray(picture[..., ::-1])
    for name, exif in (("turned", turned), ("upright", upright)):
        for suffix in ("jpg", "png"):
            file = tmp_path / f"{name}.{suffix}"
            rgb.save(file, exif=exif)
            files.append(file)
    rgb.convert("L").save(tmp_path / "gray.jpg")
    shutil.copy(tmp_path / "odd" / "alpha.png", tmp_path / "alpha.jpg")
    kept = []
    for file in [*files, tmp_path / "gray.jpg", tmp_path / "alpha.jpg"]:
        raw, stored = (image_datum.read_image(file, form).datum(0) for form in (Format(), Format(encoded=encoded)))
        pixels = lmdb_io.datum_image(raw)
        if stored.data == file.read_bytes():
            kept.append(file.name)
            assert np.array_equal(lmdb_io.datum_image(stored), pixels), file
        else:
            assert stored.data == cv2.imencode(f".{encoded}", pixels.transpose(1, 2, 0))[1].tobytes(), file
    assert (
        kept == {"jpg": ["cmyk.jpg", "from_chrome.jfif", "upright.jpg"], "png": ["palette.png", "upright.png"]}[encoded]
    )


# --- what files leave open


def stored(folder: Path, out: Path, *options: object) -> tuple[dict[str, np.ndarray], str]:
    """The pictures of an LMDB by their names (C×H×W), and what the program said."""
    done = program("build_lmdb", folder, out, *options)
    assert done.returncode == 0, done.stderr
    return {lmdb_io.record_name(key): lmdb_io.datum_image(datum) for key, datum in lmdb_io.read(out)}, done.stderr


def test_build_lmdb_reads_transparent_and_deep_pictures_as_it_is_told_and_says_so(tmp_path):
    """Strokes on a transparent ground, and 12 bits. What each kind of file has of these: test_pixels.py."""
    (tmp_path / "in" / "a").mkdir(parents=True)
    values = (np.arange(64) * 65).astype(np.uint16).reshape(8, 8)
    drawing = np.zeros((8, 8, 4), np.uint8)
    drawing[3:5, :, 3] = 255
    cv2.imwrite(str(tmp_path / "in" / "a" / "scan.png"), values)
    cv2.imwrite(str(tmp_path / "in" / "a" / "drawing.png"), drawing)
    (tmp_path / "in" / "a" / "scan.pgm").write_bytes(b"P5 8 8 4095\n" + values.astype(">u2").tobytes())
    for name, options, ground, largest in (("white", (), 255, 255), ("told", ("black", "--range", "0:65535"), 0, 16)):
        found, stderr = stored(tmp_path / "in", tmp_path / name, *(["--background", *options] if options else []))
        assert (f"note: 1 picture, such as {tmp_path}/in/a/drawing.png" in stderr) and "(--background)" in stderr
        assert ("4095 white (--range)" in stderr) == (not options)
        assert found["a/drawing.png"][:, 0].min() == ground and found["a/drawing.png"][:, 3].max() == 0
        assert found["a/scan.png"].max() == largest and found["a/scan.pgm"].max() == 255


# --- order, classes, processes


def test_build_lmdb_the_seed_alone_decides_the_order(images, tmp_path):
    def keys(name: str, *options: object) -> list[bytes]:
        done = program("build_lmdb", images / "list.txt", tmp_path / name, "--root", images, *options)
        assert done.returncode == 0, done.stderr
        return [key for key, _ in lmdb_io.read(tmp_path / name)]

    zero, again, one = keys("0", "--jobs", 1), keys("0b", "--jobs", 3, "--seed", 0), keys("1", "--seed", 1)
    assert (tmp_path / "0" / "data.mdb").read_bytes() == (tmp_path / "0b" / "data.mdb").read_bytes()
    assert zero == again != one and {key[9:] for key in zero} == {key[9:] for key in one}


def test_build_lmdb_a_tree_takes_its_labels_from_the_folders(images, tmp_path):
    done = program("build_lmdb", images, tmp_path / "db", "--resize", "8x8")
    assert done.returncode == 0, done.stderr
    assert "12 images of 2 classes" in done.stdout and "left out 1 file (no image by name" in done.stdout
    assert f"{images}: 12 images of 13 files" in done.stdout
    assert (tmp_path / "db" / "classes.txt").read_text() == "a cat\nrocket\n"
    for key, datum in lmdb_io.read(tmp_path / "db"):
        assert datum.label == key[9:].startswith(b"rocket/")
    wanted = tmp_path / "classes.txt"
    wanted.write_text("rocket\nship\na cat\n")
    done = program("build_lmdb", images, tmp_path / "db", "--classes", wanted, "--resize", "8x8", "--force")
    assert done.returncode == 0, done.stderr
    assert lmdb_io.describe(tmp_path / "db").class_counts == {0: 7, 2: 5}
    assert (tmp_path / "db" / "classes.txt").read_text() == wanted.read_text()
    wanted.write_text("rocket\nship\n")
    done = program("build_lmdb", images, tmp_path / "other", "--classes", wanted)
    assert done.returncode == 1 and "folders a cat are not among the classes rocket, ship" in done.stderr


def test_build_lmdb_folders_that_are_numbers_have_these_labels_or_a_note(tmp_path):
    for first in (0, 1):
        for number in range(first, first + 12):
            (tmp_path / f"{first}" / f"{number}").mkdir(parents=True)
            cv2.imwrite(str(tmp_path / f"{first}" / f"{number}" / "a.png"), np.zeros((8, 8, 3), np.uint8))
        done = program("build_lmdb", tmp_path / f"{first}", tmp_path / f"db{first}")
        found = {int(key[9:].split(b"/")[0]): datum.label for key, datum in lmdb_io.read(tmp_path / f"db{first}")}
        assert found == {number: number - first for number in range(first, first + 12)}
        said = (
            "note: folders are numbers, but not their labels: 1 has the label 0, 2 has the label 1, 3 has the label 2"
        )
        assert (said in done.stdout) == bool(first)


def test_build_lmdb_datums_come_in_order_whatever_the_threads(images, monkeypatch):
    monkeypatch.setattr(in_threads, "AHEAD", 3)
    files = sorted(images.rglob("*.*g"))
    entries = [Entry(files[i % len(files)], str(i), i) for i in range(50)]
    made = [one.datum(entry.label) for entry, one in make_readable(entries, Format((9, 8)), 3, skip=False)]
    assert made == [image_datum.read_image(entry.file, Format((9, 8))).datum(entry.label) for entry in entries]


# --- bad input


def cut_to(size: int):
    return lambda file: os.truncate(file, size)


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("a cat/photo.jpg", cut_to(1 << 40), "1099511627776 bytes, more than a picture of 100000000 pixels has"),
        ("a cat/photo.jpg", lambda file: (file.unlink(), file.mkdir()), "Is a directory"),
        ("a cat/photo.jpg", cut_to(0), "0 bytes that OpenCV cannot decode"),
        ("a cat/photo.jpg", cut_to(9000), "a JPEG that was cut short"),
        ("rocket/small.png", cut_to(3000), "3000 bytes that OpenCV cannot decode"),
    ],
)  # fmt: skip
def test_build_lmdb_an_unreadable_image_is_named(images, tmp_path, name, spoil, message):
    file = Path(shutil.copy(images / name, tmp_path))
    spoil(file)
    made = image_datum.read_image(file, Format())
    assert made.image is None and not made.encoded and message in (made.failure or "")


def test_build_lmdb_the_largest_value_of_a_pgm_is_white(tmp_path):
    """OpenCV takes it for 255 or 65,535, but in text below 256."""
    gray = np.linspace(0, 1, 20).reshape(4, 5)
    for kind, largest in itertools.product(("P5", "P2"), (15, 254, 255, 1023, 65535)):
        values = (gray * largest).round().astype(">u2" if largest > 255 else np.uint8)
        head = f"{kind}\n# 2 lines\n5  # by 4\n4\n{largest}\n".encode()
        text = " ".join(map(str, values.ravel())) + "\n"
        (tmp_path / "gray.pgm").write_bytes(head + (text.encode() if kind == "P2" else values.tobytes()))
        for form in (Format(gray=True), Format(), Format(encoded="png")):
            image = lmdb_io.datum_image(image_datum.read_image(tmp_path / "gray.pgm", form).datum(0))
            assert np.abs(image - 255 * gray).max() <= 1.5 + 128 / largest, (kind, largest, form)


@pytest.mark.program
def test_build_lmdb_every_kind_of_image_is_refused_by_its_header(tmp_path):
    (tmp_path / "in" / "a").mkdir(parents=True)
    cv2.imwrite(str(tmp_path / "in" / "a" / "fits.png"), np.zeros((1000, 1000, 3), np.uint8))
    large = [tmp_path / "in" / "a" / f"large{suffix}" for suffix in sorted(SUFFIXES)]
    for file in large:
        pixels = np.zeros((1001, 1000) if file.suffix == ".pgm" else (1001, 1000, 3), np.uint8)
        file.write_bytes(cv2.imencode(".jpg" if file.suffix == ".jfif" else file.suffix, pixels)[1].tobytes())
    few = {"OPENCV_IO_MAX_IMAGE_PIXELS": str(10**6)}
    done = child("build_lmdb", tmp_path / "in", tmp_path / "db", "--skip-unreadable", env=few)
    assert done.returncode == 0 and f"1 images of 1 classes, {len(large)} unreadable ones skipped" in done.stdout
    for file in large:
        assert f"left out {file}: more than 1000000 pixels" in done.stderr


def test_build_lmdb_an_unreadable_image_stops_the_program_or_is_skipped(images, tmp_path):
    root, out = Path(shutil.copytree(images, tmp_path / "images")), tmp_path / "out" / "db"
    file = root / "a cat" / "photo.jpg"
    os.truncate(file, 9000)
    arguments = ("build_lmdb", root / "list.txt", out, "--root", root, "--jobs", 2, "--no-shuffle")
    done = program(*arguments)
    assert done.returncode == 1
    assert f"error: {file}: a JPEG that was cut short" in done.stderr and "Traceback" not in done.stderr
    assert names(out.parent) == []
    done = program(*arguments, "--skip-unreadable")
    assert done.returncode == 0, done.stderr
    assert f"left out {file}: a JPEG that was cut short" in done.stderr
    assert "11 images, 1 unreadable ones skipped" in done.stdout
    keys = [key for key, _ in lmdb_io.read(out)]
    assert [key[:8] for key in keys] == [b"%08d" % i for i in range(11)]
    assert not any(key.endswith(b"photo.jpg") for key in keys)


# --- trouble on the way


@pytest.fixture(scope="module")
def long_list(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list that keeps the program busy for a minute: one photograph 50,000 times."""
    folder = tmp_path_factory.mktemp("long")
    cv2.imwrite(str(folder / "photo.jpg"), photographs.chelsea())
    (folder / "list.txt").write_text("photo.jpg 0\n" * 50_000)
    return folder


@pytest.mark.program
def test_build_lmdb_ctrl_c_leaves_nothing(long_list, tmp_path):
    arguments = (long_list / "list.txt", tmp_path / "db", "--root", long_list, "--jobs", 2)
    code, stderr = interrupt("build_lmdb", *arguments, at="img/s", whole_group=True)
    assert code == 130
    assert "interrupted" in stderr and "Traceback" not in stderr
    assert names(tmp_path) == []


def test_build_lmdb_what_a_phone_puts_behind_a_jpeg_is_no_part_of_it(images, tmp_path):
    film = b"\xff\xd9 a film \xff\xda of any bytes \xff"
    for name in ("photo.jpg", "progressive one.JPEG", "turned.jpg"):
        data = (images / "a cat" / name).read_bytes()
        for file, contents in (("whole.jpg", data), ("film.jpg", data + film), ("cut.jpg", data[:-300])):
            (tmp_path / file).write_bytes(contents)
        files = [tmp_path / f"{name}.jpg" for name in ("whole", "film", "cut")]
        whole, with_film, cut = (image_datum.read_image(file, Format()) for file in files)
        assert whole.failure is None and with_film.datum(0) == whole.datum(0)
        assert "a JPEG that was cut short" in (cut.failure or "")


@pytest.mark.program
def test_build_lmdb_closed_streams_are_no_numbers_for_its_files(images, tmp_path):
    """What libraries say of a picture would get into the LMDB."""
    data = (images / "rocket" / "small.png").read_bytes()
    (tmp_path / "in" / "a").mkdir(parents=True)
    (tmp_path / "in" / "a" / "b.png").write_bytes(data)
    arguments = ("build_lmdb", tmp_path / "in", tmp_path / "db", "--jobs", 1)
    done = child(*arguments, before=lambda: os.closerange(0, 3))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert lmdb_io.describe(tmp_path / "db").records == 1
