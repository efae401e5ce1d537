import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lmdb
import numpy as np
import pytest

from latent_domains.common.artefact import make_missing
from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io, lmdb_plans
from latent_domains.data.lmdb_folder import NOTE, MadeOf, Material, read_note
from latent_domains.data.lmdb_plans import NewRecords, PlannedLmdb, plan_of_arrays
from tests.programs import names

GRAY = np.random.default_rng(0).integers(0, 256, (12, 5, 4)).astype(np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (12, 5, 4, 3)).astype(np.uint8)
LABELS = np.arange(12) % 10


def part(path: Path, images: np.ndarray = GRAY, seed: int = 0, **origin: object) -> PlannedLmdb:
    return plan_of_arrays(path, {"part": path.name, "seed": seed, **origin}, lambda: (images, LABELS), (seed, 1))


def never() -> None:
    raise AssertionError("made again")


@pytest.mark.parametrize("images", [GRAY, COLOUR])
def test_plan_of_arrays_shuffles_images_and_keeps_label_and_name(tmp_path, images):
    assert part(tmp_path / "a", images).make() == 12
    order = []
    for key, datum in lmdb_io.read(tmp_path / "a"):
        source = int(key.decode().rsplit("_", 1)[1])
        assert key.decode() == f"{len(order):08d}_a_{source:05d}"
        order.append(source)
        assert datum.label == LABELS[source]
        found = np.moveaxis(lmdb_io.datum_image(datum), 0, 2)
        assert found.shape == (5, 4, 3)
        assert np.array_equal(
            found, images[source] if images.ndim == 4 else images[source][..., None].repeat(3, axis=2)
        )
    assert sorted(order) == list(range(12)) and order != list(range(12))


def test_make_missing_leaves_an_lmdb_that_is_there(tmp_path, capsys):
    a, b = part(tmp_path / "a"), part(tmp_path / "b")
    a.make()
    before = (a.path / "data.mdb").stat().st_mtime_ns
    make_missing([PlannedLmdb(a.path, a.origin, never), b])
    assert f"{a.path}: built before\n{b.path}: 12 images\n" == capsys.readouterr().out
    assert (a.path / "data.mdb").stat().st_mtime_ns == before and names(tmp_path) == ["a", "b"]


def test_make_missing_leaves_what_another_process_made_meanwhile(tmp_path, capsys):
    ours = part(tmp_path / "a")

    def late(of: PlannedLmdb) -> PlannedLmdb:
        def make() -> NewRecords:
            of.make()
            return ours.records()

        return PlannedLmdb(ours.path, ours.origin, make)

    make_missing([late(ours), part(tmp_path / "b")])
    assert capsys.readouterr().out == f"{ours.path}: built before\n{tmp_path / 'b'}: 12 images\n"
    shutil.rmtree(ours.path)
    with pytest.raises(ProgramError, match="a: made with seed 1 instead of 0"):
        make_missing([late(part(tmp_path / "a", seed=1))])


def test_planned_lmdb_is_not_one_of_another_origin(tmp_path):
    part(tmp_path / "a").make()
    other = part(tmp_path / "a", seed=5)
    with pytest.raises(ProgramError, match=r"a: made with seed 0 instead of 5; pass --force to replace it, or name"):
        other.is_there()
    untouched = part(tmp_path / "b")
    with pytest.raises(ProgramError, match="made with seed 0 instead of 5"):
        make_missing([untouched, other])
    assert names(tmp_path) == ["a"], "nothing is built before all is checked"
    make_missing([untouched, other], force=True)
    note = read_note(tmp_path / "a")
    assert (note.recipe, note.records) == ({"part": "a", "seed": 5}, 12)
    assert other.is_there() and not list(tmp_path.glob(".*"))


def test_make_missing_replaces_a_damaged_lmdb_by_force(tmp_path):
    part(tmp_path / "a").make()
    with (tmp_path / "a" / "data.mdb").open("r+b") as file:
        file.truncate(5000)
    with pytest.raises(ProgramError, match="truncated: found 5000 bytes"):
        make_missing([part(tmp_path / "a")])
    assert make_missing([part(tmp_path / "a")], force=True) == [12] and lmdb_io.count(tmp_path / "a") == 12


DAMAGED = ["", "[]", '{"recipe": null}', '{"recipe": {"part": "a", "seed": 0}}', '{"recipe": {}, "other": 1}']


@pytest.mark.parametrize("note", [None, *DAMAGED])
def test_planned_lmdb_is_not_one_of_unknown_origin(tmp_path, note):
    part(tmp_path / "a").make()
    file = tmp_path / "a" / NOTE
    file.unlink()
    if note is not None:
        file.write_text(note)
    with pytest.raises(ProgramError, match=r"a: exists, but without a source\.json that says how it was made"):
        part(tmp_path / "a").is_there()
    assert not part(tmp_path / "a").is_there(force=True)


@pytest.mark.parametrize("force", [False, True])
def test_make_missing_never_replaces_what_is_no_lmdb(force, tmp_path):
    (tmp_path / "photo" / "dog").mkdir(parents=True)
    message = "photo: found other files, expected an LMDB or nothing; choose another --out"
    with pytest.raises(ProgramError, match=message):
        make_missing([part(tmp_path / "first"), part(tmp_path / "photo")], force=force)
    assert names(tmp_path) == ["photo"]
    (tmp_path / "photo" / "dog").rmdir()
    assert make_missing([part(tmp_path / "photo")]) == [12]


def of_material(path: Path, contents: str | Callable[[], str], stamp: str) -> PlannedLmdb:
    def read() -> MadeOf:
        return MadeOf(contents() if callable(contents) else contents, stamp)

    return replace(part(path), material=Material(stamp, read))


def test_planned_lmdb_reads_contents_only_where_the_stamp_is_another_one(tmp_path, monkeypatch):
    place = tmp_path / "a"
    of_material(place, "contents", "first").make()
    monkeypatch.setattr(lmdb_io, "_read_contents", never)
    assert of_material(place, never, "first").is_there()
    assert of_material(place, "contents", "second").is_there(), "copied, or touched"
    assert of_material(place, never, "second").is_there()
    with pytest.raises(
        ProgramError, match="a: made with other images: their sha256 was contents, is others; pass --for"
    ):
        of_material(place, "others", "third").is_there()
    assert not of_material(place, "others", "third").is_there(force=True)

    def read_only(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(lmdb_plans, "write_note", read_only)
    assert of_material(place, "contents", "fourth").is_there()


def test_planned_lmdb_reads_a_copy_once_and_notices_changed_records(tmp_path, monkeypatch):
    part(tmp_path / "b").make()
    shutil.copytree(tmp_path / "b", tmp_path / "a")
    (tmp_path / "a" / NOTE).write_text((tmp_path / "a" / NOTE).read_text().replace('"part": "b"', '"part": "a"'))
    before = read_note(tmp_path / "a")
    assert part(tmp_path / "a").is_there()
    after = read_note(tmp_path / "a")
    assert after.stamp != before.stamp and replace(after, stamp=before.stamp) == before
    with monkeypatch.context() as patch:
        patch.setattr(lmdb_io, "_read_contents", never)
        assert part(tmp_path / "a").is_there()
    with lmdb.open(str(tmp_path / "a"), lock=False) as env, env.begin(write=True) as transaction:
        key = next(lmdb_io.keys(transaction))
        value = transaction.get(key)
        transaction.put(key, value[:-1] + bytes([value[-1] ^ 1]))
    with pytest.raises(
        ProgramError, match=r"a: changed since it was made: the sha256 of its records was \w+, is \w+; "
    ):
        part(tmp_path / "a").is_there()
    assert read_note(tmp_path / "a") == after
