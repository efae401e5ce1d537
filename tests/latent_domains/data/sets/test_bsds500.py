import hashlib
import io
import re
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.sets import bsds500
from tests.programs import names

PHOTOGRAPHS = {
    name: cv2.imencode(".jpg", np.random.default_rng(i).integers(0, 256, (40, 30, 3)).astype(np.uint8))[1].tobytes()
    for i, name in enumerate(("1.jpg", "20.jpg", "3.jpg"))
}
SUMS = {name: hashlib.sha256(data).hexdigest() for name, data in PHOTOGRAPHS.items()}


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


PLACES = {"1.jpg": "train", "20.jpg": "val", "3.jpg": "test"}
ALL = {f"BSR/BSDS500/data/images/{folder}/{name}": PHOTOGRAPHS[name] for name, folder in PLACES.items()}


def test_unpack_the_photographs_are_unpacked_and_nothing_else(tmp_path):
    extra = {
        "BSR/bench/data/images/4.jpg": b"another picture",
        "BSR/BSDS500/data/images/train/Thumbs.db": b"rubbish",
        "../../images/train/1.jpg": PHOTOGRAPHS["1.jpg"],
        "/images/train/../../escaped.jpg": b"x",
    }
    folder = tmp_path / "deep" / "photos"
    folder.mkdir(parents=True)
    bsds500.unpack(archive(tmp_path / "a.tgz", {**extra, **ALL}), folder, SUMS)
    assert {name: (folder / name).read_bytes() for name in names(folder)} == PHOTOGRAPHS
    assert names(tmp_path) == ["a.tgz", "deep"]


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_unpack_a_damaged_archive_is_named(tmp_path, share):
    path = archive(tmp_path / "a.tgz", ALL)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ProgramError, match=r"a\.tgz: (not a whole \.tgz archive|\d of 3 photographs are not in it)"):
        bsds500.unpack(path, tmp_path, SUMS)


def test_load_an_archive_is_fetched_once_and_not_kept(tmp_path, monkeypatch):
    calls = []

    def download(urls, target, check):
        calls.append(urls)
        archive(target, ALL)
        check(target)

    monkeypatch.setattr(bsds500, "download", download)
    monkeypatch.setattr(bsds500, "read_sums", lambda: SUMS)
    first, second = bsds500.load(tmp_path), bsds500.load(tmp_path)
    assert calls == [bsds500.BSDS500_URLS] and names(tmp_path / "bsds500") == sorted(PHOTOGRAPHS)
    assert len(first) == 3 and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_load_a_missing_or_changed_photograph_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(bsds500, "read_sums", lambda: SUMS)
    folder = tmp_path / "bsds500"
    folder.mkdir()
    for name, data in PHOTOGRAPHS.items():
        (folder / name).write_bytes(data)
    (folder / "20.jpg").write_bytes(PHOTOGRAPHS["20.jpg"][:-1])
    with pytest.raises(ProgramError, match=rf"20\.jpg: sha256 \w+, expected {SUMS['20.jpg']}"):
        bsds500.load(tmp_path, tmp_path)
    (folder / "20.jpg").unlink()
    with pytest.raises(ProgramError, match=r"20\.jpg: not there, expected 3 photographs in"):
        bsds500.load(tmp_path, tmp_path)


def test_read_sums_500_photographs_are_pinned():
    sums = bsds500.read_sums()
    assert len(sums) == 500 and list(sums) == sorted(sums)
    assert all(re.fullmatch(r"\d+\.jpg", name) and re.fullmatch("[0-9a-f]{64}", sha) for name, sha in sums.items())
