"""docker/caffe_source.py: Caffe's source from several homes, of which some fail, some lie and one delivers."""

import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

from latent_domains.common.program import ROOT
from tests.server import Server

pytestmark = pytest.mark.program

SCRIPT = ROOT / "docker/caffe_source.py"
FILES = {"a.txt": "one\n", "a/b.cpp": "two\n", "a/c/run.sh": "#!/bin/sh\n", "a.d": "", "ü.txt": "three\n"}


def pack(folder: str = "", change: str = "", level: int = 9) -> bytes:
    """Return the files as an archive, each name after ``folder``; a.txt ends in ``change``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=level) as archive:
        for name, text in FILES.items():
            contents = (text + change * (name == "a.txt")).encode()
            member = tarfile.TarInfo(folder + name)
            member.size, member.mode = len(contents), 0o775 if name.endswith(".sh") else 0o664
            archive.addfile(member, io.BytesIO(contents))
    return packed.getvalue()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return git's own hash of the files."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    folder = tmp_path_factory.mktemp("git")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755 if name.endswith(".sh") else 0o644)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=folder, env=env, check=True, capture_output=True)
    done = subprocess.run(["git", "write-tree"], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def source(tree: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script, told to expect these files in place of Caffe's."""
    spec = importlib.util.spec_from_file_location("caffe_source", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "TREE", tree)
    return module


def run(source: ModuleType, monkeypatch: pytest.MonkeyPatch, folder: Path, *urls: str, seconds: float = 5) -> None:
    """Unpack into FOLDER/source with the archive beside it."""
    arguments = ["--seconds", seconds, folder / "source", folder / "down/caffe.tar.gz", *urls]
    monkeypatch.setattr(sys, "argv", ["caffe_source.py", *map(str, arguments)])
    source.main()


@pytest.mark.parametrize(
    "packed", [pack(), pack("./"), pack("caffe-99bd997/", level=1)], ids=["debian", "dots", "github"]
)
def test_caffe_source_the_same_files_in_archives_of_other_bytes(
    packed, source, server: Server, tmp_path, monkeypatch
) -> None:
    server.files["/good.tar.gz"] = packed
    run(source, monkeypatch, tmp_path, server.url("/good.tar.gz"))
    found = {str(path.relative_to(tmp_path / "source")): path for path in (tmp_path / "source").rglob("*.*")}
    assert {name: path.read_text() for name, path in found.items()} == FILES
    programs = [name for name, path in found.items() if os.access(path, os.X_OK)]
    assert programs == ["a/c/run.sh"]
    # Its archive is kept: no home is asked again.
    shutil.rmtree(tmp_path / "source")
    run(source, monkeypatch, tmp_path)
    assert (tmp_path / "source/a.txt").exists()


def test_caffe_source_homes_are_tried_in_turn(source, server: Server, tmp_path: Path, monkeypatch) -> None:
    """Each that fails is named with its reason; none of them leaves anything."""
    whole = pack()
    server.files |= {
        "/page": b"\n<!DOCTYPE html><title>Sorry</title>",
        "/truncated": whole[: len(whole) // 2],
        "/changed": pack(change="more\n"),
        "/link": b"\x1f\x8b nothing",
    }
    reasons = {
        "/absent": "HTTP Error 404",
        "/page": "a web page, not an archive",
        "/truncated": f"not a whole archive ({len(whole) // 2} bytes)",
        "/changed": "other files: their tree is ",
        "/link": "not a whole archive",
        "/always-cut": "the connection ended after 256000 of 512000 bytes",
        "/stuck": "timed out",
        "/slow": "too slow or too large: ",
    }
    urls = [server.url(path) for path in reasons] + ["ftp://127.0.0.1/caffe", "http://127.0.0.1:1/caffe"]
    with pytest.raises(SystemExit) as ended:
        run(source, monkeypatch, tmp_path, *urls, seconds=1)
    message = str(ended.value)
    assert message.startswith("Caffe's source could not be had; CAFFE_SRC=DIR builds from a checkout of BVLC/caffe at")
    lines = message.splitlines()[1:]
    expected = [*reasons.values(), "only http and https are fetched", "Connection refused"]
    for line, url, reason in zip(lines, urls, expected, strict=True):
        assert line.startswith(f"  {url}: ") and reason in line
    assert list(tmp_path.iterdir()) == []
    server.files["/good"] = whole
    run(source, monkeypatch, tmp_path, *urls[:3], server.url("/good"))
    assert (tmp_path / "source/a/b.cpp").read_text() == "two\n"


def test_caffe_source_a_damaged_archive_is_fetched_again(source, server: Server, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "down").mkdir()
    (tmp_path / "down/caffe.tar.gz").write_bytes(pack()[:-20])
    server.files["/good"] = pack()
    run(source, monkeypatch, tmp_path, server.url("/good"))
    assert (tmp_path / "down/caffe.tar.gz").read_bytes() == server.files["/good"]
