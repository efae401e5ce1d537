"""Gzipped files: downloaded once, from a mirror, damaged, of wrong contents."""

import gzip
import hashlib
from urllib.parse import urlsplit

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.published_file import PublishedFile, read_contents
from latent_domains.data.sets import urls
from latent_domains.experiment.pretrained import PRETRAINED
from tests.programs import names
from tests.server import CONTENTS, Handler

SHA256 = hashlib.sha256(CONTENTS).hexdigest()


def published(*urls: str) -> PublishedFile:
    return PublishedFile("set/file.gz", "a file", {"sha256": SHA256}, urls)


@pytest.mark.program
def test_a_file_is_downloaded_once_and_only_the_published_one(server, tmp_path, monkeypatch):
    file, packed = published(server.url("/packed")), gzip.compress(b"other")
    monkeypatch.setattr(
        Handler, "do_GET", lambda handler: (server.requests.append(("", 0)), handler.send(packed, packed))
    )
    found = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(ProgramError, match=f"its contents have sha256 {found}, expected {SHA256}"):
        read_contents(file, tmp_path)
    assert names(tmp_path / "set") == []
    packed = gzip.compress(CONTENTS)
    assert read_contents(file, tmp_path) == read_contents(file, tmp_path) == CONTENTS
    assert len(server.requests) == 2 and (tmp_path / "set" / "file.gz").read_bytes() == packed


def test_a_mirror_is_checked_like_a_download(tmp_path):
    (tmp_path / "set").mkdir()
    place, packed = tmp_path / "set" / "file.gz", gzip.compress(CONTENTS)
    for contents, message in (
        (None, r"set/file\.gz: not there; a mirror folder must hold set/file\.gz"),
        (packed[:-20], r"set/file\.gz: not a whole gzip file"),
        (CONTENTS, r"set/file\.gz: not a whole gzip file"),
        (gzip.compress(b"other"), r"set/file\.gz: its contents have sha256"),
    ):
        if contents is not None:
            place.write_bytes(contents)
        with pytest.raises(ProgramError, match=message):
            read_contents(published(), tmp_path / "downloads", tmp_path)
    place.write_bytes(packed)
    assert read_contents(published(), tmp_path / "downloads", tmp_path) == CONTENTS
    assert names(tmp_path) == ["set"]


def test_everything_that_is_fetched_has_two_homes():
    """On two hosts each, but for SURF's two repositories; EfficientNet-Lite0's weights are a Python package."""
    files = [*urls.MNIST_TRAIN, *urls.MNIST_TEST, urls.USPS_TRAIN, urls.USPS_TEST]
    files += [weights.file for weights in PRETRAINED.values() if weights.file.urls]
    homes = {file.name: file.urls for file in files} | {"BSDS500": urls.BSDS500_URLS}
    for name, places in homes.items():
        assert len({urlsplit(place).netloc for place in places}) >= 2, name
    for file in urls.OFFICE_CALTECH_SURF.values():
        assert len(set(file.urls)) == 2 and len(file.hashes["sha256"]) == 64
