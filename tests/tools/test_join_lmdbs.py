"""Mixtures of LMDBs."""

import json
from pathlib import Path

import cv2
import lmdb
import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.join import join, read_domains
from latent_domains.data.lmdb_plans import features_of
from tests.programs import names, program

COUNTS = {"a": 7, "b": 5, "c": 9}


def fill(path: Path, count: int, *, side: int = 6, domain: int = 0, encoded: bool = False) -> Path:
    """An LMDB of ``count`` distinct images."""
    rng = np.random.default_rng(domain)
    with lmdb_io.create(path) as (writer, _):
        for i in range(count):
            image = rng.integers(0, 256, (side, side, 3)).astype(np.uint8)
            png = lmdb_io.encoded_datum(cv2.imencode(".png", image)[1].tobytes(), i)
            writer.put(f"class/{path.name}{i}.png", png if encoded else lmdb_io.image_datum(image, i))
    return path


@pytest.fixture
def inputs(tmp_path: Path) -> list[Path]:
    return [fill(tmp_path / name, count, domain=i) for i, (name, count) in enumerate(COUNTS.items())]


def raw_records(path: Path) -> list[tuple[bytes, bytes]]:
    """Keys and values as they lie in the LMDB."""
    with lmdb.open(str(path), readonly=True, lock=False) as env, env.begin() as transaction:
        return list(transaction.cursor())


def domains_by_key(path: Path) -> list[tuple[str, str]]:
    """The domain that domains.txt says and the one that the record's name begins with."""
    keys = [key.decode().split("/")[1][0] for key, _ in raw_records(path)]
    return list(zip(read_domains(path), keys, strict=True))


def test_join_lmdbs_every_record_is_there_once_byte_for_byte_with_a_new_number(inputs, tmp_path):
    done = program("join_lmdbs", *inputs, tmp_path / "out" / "a+b+c")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / 'out' / 'a+b+c'}: 21 images\n"
    found = raw_records(tmp_path / "out" / "a+b+c")
    assert [key[:9] for key, _ in found] == [b"%08d_" % i for i in range(21)]
    expected = [(key[9:], value) for path in inputs for key, value in raw_records(path)]
    assert sorted((key[9:], value) for key, value in found) == sorted(expected)
    assert [(key[9:], value) for key, value in found] != expected
    assert names(tmp_path / "out" / "a+b+c") == ["data.mdb", "domains.txt", "source.json"]
    for name, seed in (("again", 0), ("other", 1)):
        join(inputs, tmp_path / name, seed=seed)
        assert (raw_records(tmp_path / name) == found) == (seed == 0)


def test_join_lmdbs_domains_txt_says_where_each_record_is_from(inputs, tmp_path):
    join(inputs, tmp_path / "0")
    found = domains_by_key(tmp_path / "0")
    assert len(found) == 21 and all(said == true for said, true in found)
    assert read_domains(inputs[0]) is None
    (tmp_path / "0" / "domains.txt").write_text("a\n")
    with pytest.raises(ProgramError, match=r"domains.txt: 1 lines, expected 21, one for each record"):
        read_domains(tmp_path / "0")


@pytest.mark.parametrize(("shares", "expected"), [("80:20", [7, 1]), ("40:60", [6, 9]), ("1:99", [1, 9])])
def test_join_lmdbs_shares_make_the_largest_mixture_that_has_them(shares, expected, inputs, tmp_path):
    done = program("join_lmdbs", "--shares", shares, inputs[0], inputs[2], tmp_path / "out")
    assert done.stdout == f"{tmp_path / 'out'}: {sum(expected)} images\n", done.stderr
    found = domains_by_key(tmp_path / "out")
    assert [sum(pair == (name, name) for pair in found) for name in ("a", "c")] == expected
    assert len({key[9:] for key, _ in raw_records(tmp_path / "out")}) == sum(expected)


def test_join_lmdbs_a_mixture_of_features_says_how_they_were_made(inputs, tmp_path):
    recipe = {"program": "tools.extract_features pacs", "backbone": "x", "weights": "aa", "size": 32, "part": "a"}
    for path, weights in zip(inputs, ("aa", "aa", "bb"), strict=True):
        note = {"recipe": {**recipe, "weights": weights, "images": 3}, "records": lmdb_io.count(path)}
        (path / "source.json").write_text(json.dumps(note))
    join(inputs[:2], tmp_path / "out")
    assert features_of(tmp_path / "out") == {"backbone": "x", "weights": "aa", "size": 32}
    with pytest.raises(ProgramError, match=f"{inputs[2]}: features made with weights 'bb' instead of 'aa'"):
        join(inputs, tmp_path / "more")
    (inputs[2] / "source.json").unlink()
    join(inputs, tmp_path / "more")
    assert features_of(tmp_path / "more") == {}


def test_join_lmdbs_the_classes_travel_along_and_must_agree(inputs, tmp_path):
    for path in inputs[:2]:
        (path / "classes.txt").write_text("dog\na cat\n")
    join(inputs[:2], tmp_path / "two")
    assert (tmp_path / "two" / "classes.txt").read_text() == "dog\na cat\n"
    done = program("join_lmdbs", *inputs, tmp_path / "three")
    said = f"note: {inputs[2]}: no classes.txt explains its labels; make sure that they mean the same as in {inputs[0]}"
    assert done.returncode == 0 and f"{said} (0 dog, 1 a cat)" in done.stderr
    assert not (tmp_path / "three" / "classes.txt").exists()
    (inputs[2] / "classes.txt").write_text("a cat\ndog\n")
    with pytest.raises(ProgramError, match=f"{inputs[2] / 'classes.txt'}: other classes than in {inputs[0]}"):
        join(inputs, tmp_path / "out")


# --- bad input


def test_join_lmdbs_an_older_mixture_is_replaced_by_force_alone(inputs, tmp_path):
    out = tmp_path / "out"
    join(inputs, out)
    before = raw_records(out)
    with pytest.raises(ProgramError, match=f"{out}: made with inputs .* pass --force to replace it, or name another"):
        join(inputs[:2], out)
    assert raw_records(out) == before
    join(inputs[:2], out, force=True)
    assert lmdb_io.count(out) == 12 and "out" in names(tmp_path) and len(names(tmp_path)) == 4


def test_join_lmdbs_a_mixture_that_lost_its_domains_is_made_again_by_force(inputs, tmp_path):
    join(inputs, tmp_path / "0")
    text = (tmp_path / "0" / "domains.txt").read_text()
    for damage in (Path.unlink, lambda file: file.write_text(text.replace("a", "b", 1))):
        damage(tmp_path / "0" / "domains.txt")
        with pytest.raises(ProgramError, match=r"its domains\.txt is missing or was changed; pass --force"):
            join(inputs, tmp_path / "0")
        join(inputs, tmp_path / "0", force=True)
        assert (tmp_path / "0" / "domains.txt").read_text() == text
