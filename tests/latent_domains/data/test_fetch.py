"""Downloads: broken, resumed, of wrong contents; whole or absent, or kept in part where that is wanted."""

import fcntl
import gzip
import hashlib
import re
import resource
import socket
from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import fetch
from latent_domains.data.sets.homes import GzipFile
from tests.programs import names
from tests.server import CONTENTS, Handler, Server


def check(file: Path) -> None:
    if file.read_bytes() != CONTENTS:
        raise ProgramError(f"wrong contents of {file.stat().st_size} bytes")


def get(server: Server, target: Path, *paths: str) -> None:
    fetch.download([server.url(path) for path in paths], target, check, pause=0)


def test_a_file_arrives_whole(server, tmp_path):
    get(server, tmp_path / "deep" / "file", "/good")
    assert (tmp_path / "deep" / "file").read_bytes() == CONTENTS
    assert server.requests == [("/good", 0)] and names(tmp_path / "deep") == ["file"]


def test_a_cut_connection_is_taken_up_where_it_ended(server, tmp_path):
    get(server, tmp_path / "file", "/cut")
    assert (tmp_path / "file").read_bytes() == CONTENTS
    half = len(CONTENTS) // 2
    assert server.requests == [("/cut", 0), ("/cut", half), ("/cut", half + (len(CONTENTS) - half) // 2)]


def test_a_server_that_cannot_resume_sends_all_again(server, tmp_path):
    get(server, tmp_path / "file", "/cut-no-range")
    assert (tmp_path / "file").read_bytes() == CONTENTS
    assert [start > 0 for _, start in server.requests] == [False, True, True]


def test_a_part_that_does_not_fit_is_dropped(server, tmp_path):
    get(server, tmp_path / "file", "/shrunk")
    assert (tmp_path / "file").read_bytes() == CONTENTS
    assert [start > 0 for _, start in server.requests] == [False, True, False]


def test_a_busy_server_is_asked_again(server, tmp_path, capsys):
    get(server, tmp_path / "file", "/busy")
    assert f"{server.url('/busy')}: HTTP 503 Service Unavailable; once more in 0 s" in capsys.readouterr().err
    assert server.requests == [("/busy", 0), ("/busy", 0)]


def test_the_next_home_is_tried(server, tmp_path):
    get(server, tmp_path / "file", "/absent", "/other", "/good")
    assert (tmp_path / "file").read_bytes() == CONTENTS
    assert [path for path, _ in server.requests] == ["/absent", "/other", "/good"]


def test_every_failure_is_told_and_nothing_is_left(server, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    urls = [server.url(path) for path in ("/absent", "/other", "/always-cut")]
    urls += [f"http://127.0.0.1:{port}/x", "file:///etc/passwd"]
    with pytest.raises(ProgramError) as failure:
        fetch.download(urls, tmp_path / "file", check, pause=0)
    lines = str(failure.value).splitlines()
    assert re.fullmatch(r"file could not be had from its homes \(.*--mirror or DATA_MIRROR\):", lines[0])
    assert [line.split(": ", 1)[0].strip() for line in lines[1:]] == urls
    assert "HTTP 404" in lines[1] and "wrong contents of 14 bytes" in lines[2]
    assert re.search(r"the connection ended after \d+ of 512000 bytes", lines[3])
    assert "no connection" in lines[4] and "only http and https" in lines[5]
    assert [path for path, _ in server.requests].count("/always-cut") == fetch.ATTEMPTS
    assert names(tmp_path) == []


def test_a_full_disk_is_not_taken_for_a_bad_home(server, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(CONTENTS) // 3, hard))
    try:
        with pytest.raises(ProgramError, match="file: writing it failed: File too large"):
            get(server, tmp_path / "file", "/good", "/good")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(server.requests) == 1 and names(tmp_path) == []


def test_a_disk_without_room_is_told_before_anything_is_written(server, tmp_path):
    with pytest.raises(ProgramError, match=r"file: writing it failed: 1000000000000000 more bytes are needed, \d+ are"):
        get(server, tmp_path / "file", "/huge", "/good")
    assert server.requests == [("/huge", 0)] and names(tmp_path) == []


def keep(server: Server, target: Path, *paths: str) -> None:
    fetch.download([server.url(path) for path in paths], target, check, keep_part=True, pause=0)


HALF = len(CONTENTS) // 2


def test_a_part_waits_for_the_next_call(server, tmp_path):
    with pytest.raises(ProgramError, match="the connection ended after"):
        keep(server, tmp_path / "file", "/always-cut")
    assert names(tmp_path) == ["file.part"]
    have = (tmp_path / "file.part").stat().st_size
    assert 0 < have < len(CONTENTS)
    keep(server, tmp_path / "file", "/good")
    assert (tmp_path / "file").read_bytes() == CONTENTS and names(tmp_path) == ["file"]
    assert server.requests[-1] == ("/good", have)


def test_another_home_goes_on_where_one_gave_up(server, tmp_path):
    keep(server, tmp_path / "file", "/always-cut", "/good")
    assert (tmp_path / "file").read_bytes() == CONTENTS
    assert server.requests[-1][0] == "/good" and server.requests[-1][1] > HALF


def test_a_whole_part_is_not_fetched_again(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENTS)
    keep(server, tmp_path / "file", "/good")
    assert names(tmp_path) == ["file"] and server.requests == [("/good", len(CONTENTS))]


@pytest.mark.parametrize("length", [HALF, len(CONTENTS)])
def test_a_part_of_something_else_is_fetched_anew(server, tmp_path, length):
    (tmp_path / "file.part").write_bytes(bytes(length))
    keep(server, tmp_path / "file", "/good")
    assert (tmp_path / "file").read_bytes() == CONTENTS
    assert server.requests == [("/good", length), ("/good", 0)]


def test_a_part_is_sent_again_by_a_server_that_cannot_resume(server, tmp_path):
    (tmp_path / "file.part").write_bytes(bytes(HALF))
    keep(server, tmp_path / "file", "/cut-no-range")
    assert (tmp_path / "file").read_bytes() == CONTENTS


def test_wrong_contents_are_not_kept(server, tmp_path):
    (tmp_path / "file.part").write_bytes(CONTENTS[:5])
    with pytest.raises(fetch.Unavailable, match="wrong contents of 14 bytes"):
        keep(server, tmp_path / "file", "/other")
    assert names(tmp_path) == []


def test_nothing_is_left_of_a_download_that_never_began(server, tmp_path):
    with pytest.raises(fetch.Unavailable, match="HTTP 404"):
        keep(server, tmp_path / "file", "/absent")
    assert names(tmp_path) == []


def test_a_full_disk_keeps_what_has_arrived(server, tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (HALF, hard))
    try:
        with pytest.raises(ProgramError, match="file: writing it failed: File too large"):
            keep(server, tmp_path / "file", "/good")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(tmp_path) == ["file.part"]
    keep(server, tmp_path / "file", "/good")
    assert (tmp_path / "file").read_bytes() == CONTENTS and server.requests[-1] == ("/good", HALF)


def test_two_downloads_do_not_write_one_part(server, tmp_path):
    part = fetch.part_of(tmp_path / "file")
    with part.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ProgramError, match=r"file\.part: another download is writing it"):
            keep(server, tmp_path / "file", "/good")
    assert server.requests == [] and part.exists()
    keep(server, tmp_path / "file", "/good")
    assert (tmp_path / "file").read_bytes() == CONTENTS


def test_a_part_that_is_finished_meanwhile_is_not_begun_again(server, tmp_path, monkeypatch):
    part = fetch.part_of(tmp_path / "file")
    monkeypatch.setattr(fetch.fcntl, "flock", lambda *_: part.rename(tmp_path / "file"))  # the other got there first
    with pytest.raises(ProgramError, match="another download is writing it"):
        keep(server, tmp_path / "file", "/good")
    assert server.requests == [] and names(tmp_path) == ["file"]


def test_hashes_name_what_was_found_and_expected(tmp_path):
    (tmp_path / "file").write_bytes(CONTENTS)
    right = {name: hashlib.new(name, CONTENTS).hexdigest() for name in ("sha1", "sha256")}
    fetch.check_hashes(tmp_path / "file", right, "the file")
    for name in right:
        with pytest.raises(ProgramError, match=f"the file: {name} {right[name]}, expected 00$"):
            fetch.check_hashes(tmp_path / "file", {**right, name: "00"}, "the file")


def gzip_file(server: Server | None, contents: bytes = CONTENTS) -> GzipFile:
    homes = (server.url("/packed"),) if server else ()
    return GzipFile("set/file.gz", hashlib.sha256(contents).hexdigest(), homes)


def test_an_unpacked_file_is_downloaded_once(server, tmp_path, monkeypatch):
    packed = gzip.compress(CONTENTS)
    monkeypatch.setattr(
        Handler, "do_GET", lambda handler: (server.requests.append(("", 0)), handler.send(packed, packed))
    )
    file = gzip_file(server)
    assert fetch.unpacked(file, tmp_path) == CONTENTS
    assert fetch.unpacked(file, tmp_path) == CONTENTS
    assert len(server.requests) == 1 and (tmp_path / "set" / "file.gz").read_bytes() == packed


def test_a_download_with_the_wrong_hash_leaves_nothing(server, tmp_path, monkeypatch):
    packed = gzip.compress(b"other contents")
    monkeypatch.setattr(Handler, "do_GET", lambda handler: handler.send(packed, packed))
    found = hashlib.sha256(b"other contents").hexdigest()
    with pytest.raises(
        ProgramError, match=f"the unpacked contents have sha256 {found}, expected {gzip_file(None).sha256}"
    ):
        fetch.unpacked(gzip_file(server), tmp_path)
    assert names(tmp_path / "set") == []


def test_a_mirror_is_checked_like_a_download(tmp_path):
    (tmp_path / "set").mkdir()
    place = tmp_path / "set" / "file.gz"
    with pytest.raises(ProgramError, match=r"set/file\.gz: not there; a mirror folder must hold set/file\.gz"):
        fetch.unpacked(gzip_file(None), tmp_path / "downloads", tmp_path)
    packed = gzip.compress(CONTENTS)
    place.write_bytes(packed)
    assert fetch.unpacked(gzip_file(None), tmp_path / "downloads", tmp_path) == CONTENTS
    place.write_bytes(packed[:-20])
    with pytest.raises(ProgramError, match=r"set/file\.gz: not a whole gzip file"):
        fetch.unpacked(gzip_file(None), tmp_path / "downloads", tmp_path)
    place.write_bytes(gzip.compress(b"other"))
    with pytest.raises(ProgramError, match=r"set/file\.gz: the unpacked contents have sha256"):
        fetch.unpacked(gzip_file(None), tmp_path / "downloads", tmp_path)
    assert names(tmp_path) == ["set"]
