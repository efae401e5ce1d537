from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import lmdb
import numpy as np
import pytest
from caffe.proto.caffe_pb2 import Datum

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from tests.programs import names


def write(path: Path, *records: tuple[np.ndarray, int], **options: bool) -> Path:
    with lmdb_io.create(path, **options) as (writer, _):
        for i, (image, label) in enumerate(records):
            writer.put(f"image {i}.png", lmdb_io.image_datum(image, label))
    return path


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def raw_lmdb(path: Path, **records: bytes) -> Path:
    """An LMDB that was not written by Caffe or by us."""
    with lmdb.open(str(path), map_size=1 << 20) as env, env.begin(write=True) as transaction:
        for key, value in records.items():
            transaction.put(key.encode(), value)
    return path


# --- records


def test_read_images_records_come_back_in_the_order_they_were_put(tmp_path):
    images = noise(30, 6, 5, 3)
    path = write(tmp_path / "db", *((image, i % 4 - 1) for i, image in enumerate(images)))
    found, labels = lmdb_io.read_images(path)
    assert np.array_equal(found, np.moveaxis(images, 3, 1))
    assert labels.tolist() == [i % 4 - 1 for i in range(30)]
    assert lmdb_io.read_labels(path).tolist() == labels.tolist()
    assert lmdb_io.count(path) == 30
    assert np.array_equal(lmdb_io.read_images(path, limit=7)[0], found[:7])
    assert names(path) == ["data.mdb", "source.json"]


def test_count_an_lmdb_can_be_looked_at_while_it_is_being_read(tmp_path):
    path = write(tmp_path / "db", *((noise(20, 20, 3), i) for i in range(50)))
    for _, datum in lmdb_io.read(path):
        assert lmdb_io.count(path) == 50 and datum.label in range(50)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: lmdb_io.read_labels(path).tolist(), range(40)))
    assert found == [list(range(50))] * 40


# --- writing


def test_record_names_a_name_that_no_key_has_room_for_is_said(tmp_path):
    longest = 502 * "n"
    with lmdb_io.create(tmp_path / "db") as (writer, _):
        writer.put(longest, Datum())
    assert list(lmdb_io.record_names(tmp_path / "db")) == [longest]
    with (
        pytest.raises(ProgramError, match=r"^nn+é: a name of 504 bytes, expected at most 502 for a key of an LMDB"),
        lmdb_io.create(tmp_path / "other") as (writer, _),
    ):
        writer.put(longest + "é", Datum())
    assert names(tmp_path) == ["db"]


def test_read_images_the_map_grows(tmp_path, monkeypatch):
    monkeypatch.setattr(lmdb_io, "FIRST_MAP_SIZE", 1 << 15)
    monkeypatch.setattr(lmdb_io, "BATCH_BYTES", 1 << 17)
    images = noise(40, 100, 100, 3)
    path = write(tmp_path / "db", *((image, 0) for image in images))
    assert (path / "data.mdb").stat().st_size > images.nbytes
    assert np.array_equal(lmdb_io.read_images(path)[0], np.moveaxis(images, 3, 1))


def test_image_datum_a_failure_leaves_nothing_and_the_old_lmdb_alone(tmp_path):
    for wrong in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(wrong), lmdb_io.create(tmp_path / "new") as (writer, _):
            writer.put("x", lmdb_io.image_datum(noise(3, 3), 0))
            raise wrong
    assert names(tmp_path) == []
    old = write(tmp_path / "db", (noise(3, 3), 5))
    with pytest.raises(RuntimeError), lmdb_io.create(old, force=True) as (writer, _):
        writer.put("x", lmdb_io.image_datum(noise(3, 3), 0))
        raise RuntimeError
    assert names(tmp_path) == ["db"] and lmdb_io.read_labels(old).tolist() == [5]


def test_read_labels_what_lies_beside_an_lmdb_is_not_removed_by_force(tmp_path):
    path = write(tmp_path / "db", (noise(3, 3), 5))
    for name in ("lock.mdb", "source.json", "classes.txt", "domains.txt", ".source.json.killed"):
        (path / name).touch()
    (path / "my pictures").mkdir()
    with pytest.raises(ProgramError, match="db exists already"):
        write(path, (noise(3, 3), 6))
    with pytest.raises(ProgramError, match="db: found my pictures, expected an LMDB's files alone"):
        write(path, (noise(3, 3), 6), force=True)
    assert lmdb_io.read_labels(path).tolist() == [5] and (path / "my pictures").is_dir()
    (path / "my pictures").rmdir()
    write(path, (noise(3, 3), 6), force=True)
    assert names(path) == ["data.mdb", "source.json"]


def test_count_a_link_in_place_of_the_lock_file_is_told(tmp_path):
    """Caffe opens it, and writes its own contents over those of another file."""
    path, other = write(tmp_path / "db", (noise(3, 3), 5)), write(tmp_path / "other", (noise(3, 3), 6))
    (other / "lock.mdb").touch()
    (path / "lock.mdb").symlink_to(other / "lock.mdb")
    assert lmdb_io.read_labels(path).tolist() == [5]
    (path / "lock.mdb").unlink()
    (path / "lock.mdb").symlink_to(tmp_path / "precious")
    with pytest.raises(ProgramError, match=r"db/lock\.mdb: a link to .*precious, into which Caffe would write: delete"):
        lmdb_io.count(path)


# --- describing


def test_describe_a_description_counts_and_measures(tmp_path):
    path = write(tmp_path / "db", *((noise(4, 6, 3), label) for label in (2, 0, 9, 2, -1)))
    assert lmdb_io.describe(path) == lmdb_io.Description(
        records=5,
        shape=(3, 4, 6),
        storage="raw",
        class_counts={-1: 1, 0: 1, 2: 2, 9: 1},
        same_size=True,
    )


def test_describe_a_description_sees_encoded_images_and_different_sizes(tmp_path):
    with lmdb_io.create(tmp_path / "jpg") as (writer, _):
        for label in (0, 1):
            writer.put("x", lmdb_io.encoded_datum(cv2.imencode(".jpg", noise(5, 7, 3))[1].tobytes(), label))
    found = lmdb_io.describe(tmp_path / "jpg")
    assert (found.shape, found.storage) == ((3, 5, 7), "encoded")
    assert found.same_size and found.class_counts == {0: 1, 1: 1}
    mixed = lmdb_io.describe(write(tmp_path / "mixed", (noise(4, 6, 3), 0), (noise(4, 5, 3), 0)))
    assert not mixed.same_size and mixed.shape[2] == 6


@pytest.mark.parametrize("reader", [lmdb_io.count, lmdb_io.read_images])
def test_lmdb_io_what_is_no_lmdb_is_named(tmp_path, reader):
    with pytest.raises(ProgramError, match="absent: found nothing, expected an LMDB folder"):
        reader(tmp_path / "absent")
    (tmp_path / "file").touch()
    with pytest.raises(ProgramError, match="file: found a file, expected an LMDB folder"):
        reader(tmp_path / "file")
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ProgramError, match=r"folder: no data\.mdb"):
        reader(folder)
    assert names(folder) == []
    for contents in (b"", b"short", b"garbage " * 4096):
        (folder / "data.mdb").write_bytes(contents)
        with pytest.raises(ProgramError, match=rf"data\.mdb: {len(contents)} bytes that are not a whole LMDB"):
            reader(folder)


def test_describe_an_lmdb_that_is_cut_short_or_has_more_bytes_is_named(tmp_path):
    """Pages would be read at wrong places or beyond the end of the file: SIGBUS."""
    file = write(tmp_path / "db", *((noise(30, 30, 3), 0) for _ in range(40))) / "data.mdb"
    data = file.read_bytes()
    for spoilt, message in (
        (data[: len(data) // 3], f"truncated: found {len(data) // 3} bytes, expected {len(data)}"),
        (data[:-1], f"truncated: found {len(data) - 1} bytes"),
        (data[:20_000] + b"\0" + data[20_000:], f"damaged: found {len(data) + 1} bytes, expected whole pages"),
    ):
        file.write_bytes(spoilt)
        with pytest.raises(ProgramError, match=rf"data\.mdb: {message}"):
            lmdb_io.describe(file.parent)


def test_describe_records_that_are_no_datums_are_named(tmp_path):
    with pytest.raises(ProgramError, match="empty: an LMDB without records"):
        lmdb_io.describe(raw_lmdb(tmp_path / "empty"))
    with pytest.raises(ProgramError, match=r"record 'a' is not a Datum"):
        lmdb_io.describe(raw_lmdb(tmp_path / "text", a=b"\xffno datum"))
    good, short = (Datum(channels=1, height=2, width=2, data=b"1" * n).SerializeToString() for n in (4, 3))
    path = raw_lmdb(tmp_path / "short", a=good, b=short)
    with pytest.raises(ProgramError, match=r"record 'b' is not an image for Caffe: 3 values for 1×2×2"):
        lmdb_io.describe(path)
    with pytest.raises(ProgramError, match=r"record 'b': 3 bytes of data, expected 1×2×2"):
        lmdb_io.read_images(path)
    encoded = raw_lmdb(tmp_path / "encoded", a=lmdb_io.encoded_datum(b"no jpeg", 0).SerializeToString())
    with pytest.raises(ProgramError, match="7 bytes marked as encoded"):
        lmdb_io.describe(encoded)


def test_lmdb_io_a_png_that_names_more_bytes_than_it_has_is_refused_before_opencv_takes_them(monkeypatch):
    png = cv2.imencode(".png", np.zeros((9, 8, 3), np.uint8))[1].tobytes()
    for good in (png, png + b"\xff\xff\xff\xffrubbish"):
        assert lmdb_io.decoded(good, cv2.IMREAD_COLOR).shape == (9, 8, 3)
    place = png.index(b"IDAT") - 4
    monkeypatch.setattr(cv2, "imdecode", None)
    no_end = png[:25] + b"IEND" + png[29:33] + b"\xff" + png[34:]  # the name is that of no chunk; a fuzzer found it
    for bad in (png[:place] + b"\xff" + png[place + 1 :], png[:-5], png[:8] + b"\xff\xff\xff\xff", png[:4], no_end):
        assert lmdb_io.decoded(bad, cv2.IMREAD_COLOR) is None
