"""Gzipped files: downloaded once, from a mirror, damaged, of wrong contents."""

import gzip
import hashlib
from urllib.parse import urlsplit

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.sets import urls
from latent_domains.data.sets.pinned_file import PinnedFile, unpacked
from latent_domains.experiment.networks import NETWORKS
from tests.programs import names
from tests.server import CONTENTS, Handler, Server


def pinned_file(server: Server | None, contents: bytes = CONTENTS) -> PinnedFile:
    urls = (server.url("/packed"),) if server else ()
    return PinnedFile("set/file.gz", hashlib.sha256(contents).hexdigest(), urls)


def test_an_unpacked_file_is_downloaded_once(server, tmp_path, monkeypatch):
    packed = gzip.compress(CONTENTS)
    monkeypatch.setattr(
        Handler, "do_GET", lambda handler: (server.requests.append(("", 0)), handler.send(packed, packed))
    )
    file = pinned_file(server)
    assert unpacked(file, tmp_path) == CONTENTS
    assert unpacked(file, tmp_path) == CONTENTS
    assert len(server.requests) == 1 and (tmp_path / "set" / "file.gz").read_bytes() == packed


def test_a_download_with_the_wrong_hash_leaves_nothing(server, tmp_path, monkeypatch):
    packed = gzip.compress(b"other contents")
    monkeypatch.setattr(Handler, "do_GET", lambda handler: handler.send(packed, packed))
    found = hashlib.sha256(b"other contents").hexdigest()
    with pytest.raises(
        ProgramError, match=f"the unpacked contents have sha256 {found}, expected {pinned_file(None).sha256}"
    ):
        unpacked(pinned_file(server), tmp_path)
    assert names(tmp_path / "set") == []


def test_a_mirror_is_checked_like_a_download(tmp_path):
    (tmp_path / "set").mkdir()
    place = tmp_path / "set" / "file.gz"
    with pytest.raises(ProgramError, match=r"set/file\.gz: not there; a mirror folder must hold set/file\.gz"):
        unpacked(pinned_file(None), tmp_path / "downloads", tmp_path)
    packed = gzip.compress(CONTENTS)
    place.write_bytes(packed)
    assert unpacked(pinned_file(None), tmp_path / "downloads", tmp_path) == CONTENTS
    place.write_bytes(packed[:-20])
    with pytest.raises(ProgramError, match=r"set/file\.gz: not a whole gzip file"):
        unpacked(pinned_file(None), tmp_path / "downloads", tmp_path)
    place.write_bytes(gzip.compress(b"other"))
    with pytest.raises(ProgramError, match=r"set/file\.gz: the unpacked contents have sha256"):
        unpacked(pinned_file(None), tmp_path / "downloads", tmp_path)
    assert names(tmp_path) == ["set"]


def test_everything_that_is_fetched_has_two_homes():
    """On two hosts each; EfficientNet-Lite0's weights are a Python package."""
    pinned = [*urls.MNIST_TRAIN, *urls.MNIST_TEST, urls.USPS_TRAIN, urls.USPS_TEST]
    homes = {file.path: file.urls for file in pinned} | {"BSDS500": urls.BSDS500_URLS}
    weights = [network.weights for network in NETWORKS.values() if network.weights]
    homes |= {file.name: file.urls for file in weights if not file.package}
    for name, places in homes.items():
        assert len({urlsplit(place).netloc for place in places}) >= 2, name
