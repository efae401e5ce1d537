"""Downloads: broken, resumed, of wrong contents; whole or absent."""

import re
import resource
import socket
from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import fetch
from tests.programs import names
from tests.server import CONTENTS, Server


def check(file: Path) -> None:
    if file.read_bytes() != CONTENTS:
        raise ProgramError(f"wrong contents of {file.stat().st_size} bytes")


def get(server: Server, target: Path, *paths: str) -> None:
    fetch.download([server.url(path) for path in paths], target, check, pause=0)


@pytest.mark.program
def test_the_first_url_that_delivers_the_file_is_taken(server, tmp_path):
    get(server, tmp_path / "deep" / "file", "/absent", "/other", "/good")
    assert (tmp_path / "deep" / "file").read_bytes() == CONTENTS
    assert [path for path, _ in server.requests] == ["/absent", "/other", "/good"]
    assert names(tmp_path / "deep") == ["file"]


@pytest.mark.program
def test_a_cut_connection_is_taken_up_where_it_ended(server, tmp_path):
    get(server, tmp_path / "file", "/cut")
    assert (tmp_path / "file").read_bytes() == CONTENTS
    half = len(CONTENTS) // 2
    assert server.requests == [("/cut", 0), ("/cut", half), ("/cut", half + (len(CONTENTS) - half) // 2)]


@pytest.mark.program
def test_a_busy_server_is_asked_again(server, tmp_path, capsys):
    get(server, tmp_path / "file", "/busy")
    assert f"{server.url('/busy')}: HTTP Error 503: Service Unavailable; once more in 0 s" in capsys.readouterr().err
    assert server.requests == [("/busy", 0), ("/busy", 0)]


@pytest.mark.program
def test_every_failure_is_told_and_nothing_is_left(server, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    server.files["/page"] = b"\n<!DOCTYPE html><title>Sorry</title>"
    urls = [server.url(path) for path in ("/absent", "/other", "/always-cut")]
    urls += [f"http://127.0.0.1:{port}/x", server.url("/page")]
    with pytest.raises(ProgramError) as failure:
        fetch.download(urls, tmp_path / "file", check, pause=0)
    lines = str(failure.value).splitlines()
    assert re.fullmatch(r"file could not be had from its URLs \(.* by DATA_MIRROR\):", lines[0])
    assert [line.split(": ", 1)[0].strip() for line in lines[1:]] == urls
    assert "HTTP Error 404" in lines[1] and "wrong contents of 14 bytes" in lines[2]
    assert re.search(r"the connection ended after \d+ of 512000 bytes", lines[3])
    assert "refused" in lines[4]
    assert "/page: a web page, not the file: wrong contents of 36 bytes" in lines[5]
    assert not [line for line in lines[:5] if "a web page" in line]
    assert [path for path, _ in server.requests].count("/always-cut") == fetch.ATTEMPTS
    assert names(tmp_path) == []


@pytest.mark.program
def test_a_full_disk_is_not_taken_for_a_bad_url(server, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(CONTENTS) // 3, hard))
    try:
        with pytest.raises(ProgramError, match="file: writing it failed: File too large"):
            get(server, tmp_path / "file", "/good", "/good")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(server.requests) == 1 and names(tmp_path) == []
