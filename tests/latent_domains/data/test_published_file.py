"""Gzipped files: downloaded once, from a mirror, damaged, of wrong contents."""

import gzip
import hashlib
import re
import resource
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import published_file
from latent_domains.data.published_file import PublishedFile, read_contents
from latent_domains.data.sets import urls
from latent_domains.experiment.networks import PRETRAINED
from tests.programs import names
from tests.server import CONTENTS, Handler, Server

SHA256 = hashlib.sha256(CONTENTS).hexdigest()


def published(*urls: str) -> PublishedFile:
    return PublishedFile("set/file.gz", "a file", {"sha256": SHA256}, urls)


@pytest.mark.program
def test_read_contents_a_file_is_downloaded_once_and_only_the_published_one(server, tmp_path, monkeypatch):
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


def test_read_contents_a_mirror_is_checked_like_a_download(tmp_path):
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


def test_urls_everything_that_is_fetched_has_two_homes():
    """On two hosts each, but for SURF's two repositories; EfficientNet-Lite0's weights are a Python package."""
    files = [*urls.MNIST_TRAIN, *urls.MNIST_TEST, urls.USPS_TRAIN, urls.USPS_TEST]
    files += [weights.file for weights in PRETRAINED.values() if weights.file.urls]
    homes = {file.name: file.urls for file in files} | {"BSDS500": urls.BSDS500_URLS}
    for name, places in homes.items():
        assert len({urlsplit(place).netloc for place in places}) >= 2, name
    for file in urls.OFFICE_CALTECH_SURF.values():
        assert len(set(file.urls)) == 2 and len(file.hashes["sha256"]) == 64


def check(file: Path) -> None:
    if file.read_bytes() != CONTENTS:
        raise ProgramError(f"wrong contents of {file.stat().st_size} bytes")


def get(server: Server, target: Path, *paths: str) -> None:
    published_file.download([server.url(path) for path in paths], target, check, pause=0)


@pytest.mark.program
def test_download_the_first_url_that_delivers_the_file_is_taken(server, tmp_path):
    get(server, tmp_path / "deep" / "file", "/absent", "/other", "/good")
    assert (tmp_path / "deep" / "file").read_bytes() == CONTENTS
    assert [path for path, _ in server.requests] == ["/absent", "/other", "/good"]
    assert names(tmp_path / "deep") == ["file"]


@pytest.mark.program
def test_download_a_cut_connection_is_taken_up_where_it_ended(server, tmp_path):
    get(server, tmp_path / "file", "/cut")
    assert (tmp_path / "file").read_bytes() == CONTENTS
    half = len(CONTENTS) // 2
    assert server.requests == [("/cut", 0), ("/cut", half), ("/cut", half + (len(CONTENTS) - half) // 2)]


@pytest.mark.program
def test_download_a_busy_server_is_asked_again(server, tmp_path, capsys):
    get(server, tmp_path / "file", "/busy")
    assert f"{server.url('/busy')}: HTTP Error 503: Service Unavailable; once more in 0 s" in capsys.readouterr().err
    assert server.requests == [("/busy", 0), ("/busy", 0)]


@pytest.mark.program
def test_download_every_failure_is_told_and_nothing_is_left(server, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    server.files["/page"] = b"\n<!DOCTYPE html><title>Sorry</title>"
    urls = [server.url(path) for path in ("/absent", "/other", "/always-cut")]
    urls += [f"http://127.0.0.1:{port}/x", server.url("/page")]
    with pytest.raises(ProgramError) as failure:
        published_file.download(urls, tmp_path / "file", check, pause=0)
    lines = str(failure.value).splitlines()
    assert re.fullmatch(r"file could not be downloaded from its URLs \(.* with DATA_MIRROR\):", lines[0])
    assert [line.split(": ", 1)[0].strip() for line in lines[1:]] == urls
    assert "HTTP Error 404" in lines[1] and "wrong contents of 14 bytes" in lines[2]
    assert re.search(r"the connection ended after \d+ of 512000 bytes", lines[3])
    assert "refused" in lines[4]
    assert "/page: a web page, not the file: wrong contents of 36 bytes" in lines[5]
    assert not [line for line in lines[:5] if "a web page" in line]
    assert [path for path, _ in server.requests].count("/always-cut") == published_file.ATTEMPTS
    assert names(tmp_path) == []


@pytest.mark.program
def test_download_a_full_disk_is_not_taken_for_a_bad_url(server, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(CONTENTS) // 3, hard))
    try:
        with pytest.raises(ProgramError, match="file: writing it failed: File too large"):
            get(server, tmp_path / "file", "/good", "/good")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(server.requests) == 1 and names(tmp_path) == []
