"""The program that fetches ImageNet's weights, from a server on this machine."""

import hashlib
import re
from dataclasses import replace
from pathlib import Path

import pytest

from latent_domains.data import published_file
from latent_domains.data.published_file import PublishedFile
from latent_domains.experiment.networks import NETWORKS, PRETRAINED
from tests.programs import Done, names, program
from tests.server import CONTENTS, Server
from tools import get_weights

HASHES = {name: hashlib.new(name, CONTENTS).hexdigest() for name in ("sha1", "sha256")}
HALF = len(CONTENTS) // 2


def weights(server: Server, *paths: str) -> PublishedFile:
    return PublishedFile("net.caffemodel", "BVLC's AlexNet", HASHES, tuple(map(server.url, paths)))


@pytest.fixture(autouse=True)
def no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEIGHTS_MIRROR", raising=False)
    monkeypatch.delenv("DATA_MIRROR", raising=False)


def get(monkeypatch: pytest.MonkeyPatch, file: PublishedFile, out: Path, *options: object) -> Done:
    monkeypatch.setitem(PRETRAINED, "alexnet", replace(PRETRAINED["alexnet"], file=file))
    monkeypatch.setattr(published_file, "ATTEMPTS", 1)
    return program("get_weights", "alexnet", "--out", out, *options)


def test_get_weights_what_is_published_is_what_is_pinned() -> None:
    """PyTorch's names carry the first digits of the hash; every hash is a whole one."""
    for net, file in ((name, weights.file) for name, weights in PRETRAINED.items()):
        for algorithm, value in file.hashes.items():
            assert re.fullmatch(r"[0-9a-f]+", value) and len(value) == 2 * hashlib.new(algorithm).digest_size
        tag = re.search(r"-([0-9a-f]{8})\.pth$", file.name)
        of_pytorch = tag and file.hashes["sha256"].startswith(tag[1]) and net in file.name
        assert of_pytorch or net in ("alexnet", "resnet18_cntk")
        assert all(url.startswith(("http://", "https://")) for url in file.urls)
        assert [bool(file.urls), bool(file.package), bool(file.home)].count(True) == 1


def test_get_weights_without_a_network_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://127.0.0.1:1/net.caffemodel"
    done = get(monkeypatch, PublishedFile("net.caffemodel", "AlexNet", HASHES, (url,)), tmp_path)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"{url}: " in done.stderr and "Connection refused" in done.stderr
    hashes = f"sha1 {HASHES['sha1']}, sha256 {HASHES['sha256']}"
    assert f"fetch {url} elsewhere ({hashes}), put it at {tmp_path}/net.caffemodel and run this again" in done.stderr
    assert names(tmp_path) == []


@pytest.mark.program
def test_get_weights_a_file_of_another_hash_is_replaced_only_by_force(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "net.caffemodel"
    target.write_bytes(b"mine")
    done = get(monkeypatch, weights(server, "/good"), tmp_path)
    assert done.returncode == 1 and target.read_bytes() == b"mine" and server.requests == []
    assert f"{target}: sha1 " in done.stderr and "it is not BVLC's AlexNet; pass --force to replace it" in done.stderr
    assert get(monkeypatch, weights(server, "/absent"), tmp_path, "--force").returncode == 1
    assert target.read_bytes() == b"mine"
    assert get(monkeypatch, weights(server, "/good"), tmp_path, "--force").returncode == 0
    assert target.read_bytes() == CONTENTS


@pytest.mark.program
@pytest.mark.parametrize(
    ("how", "place"),
    [
        ("--mirror", "net.caffemodel"),
        ("WEIGHTS_MIRROR", "weights/net.caffemodel"),
        ("DATA_MIRROR", "weights/net.caffemodel"),
    ],
)
def test_get_weights_a_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server, how: str, place: str
) -> None:
    source, out = tmp_path / "mirror" / place, tmp_path / "out"
    source.parent.mkdir(parents=True)
    source.write_bytes(CONTENTS)
    options = ["--mirror", tmp_path / "mirror"] if how == "--mirror" else []
    if not options:
        monkeypatch.setenv(how, str(tmp_path / "mirror"))
    done = get(monkeypatch, weights(server, "/good"), out, *options)
    assert done.returncode == 0, done.stderr
    assert (out / "net.caffemodel").read_bytes() == CONTENTS and names(out) == ["net.caffemodel"]
    assert server.requests == []


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Python finds packages; ``weights-1`` is one that consists of a file net.pth."""
    folder = tmp_path / "packages"
    (folder / "weights-1.dist-info").mkdir(parents=True)
    (folder / "weights-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: weights\nVersion: 1\n")
    (folder / "weights-1.dist-info" / "RECORD").write_text("weights/__init__.py,,\nweights/models/net.pth,,\n")
    (folder / "weights" / "models").mkdir(parents=True)
    (folder / "weights" / "__init__.py").write_text("raise SystemExit('this code must not run')")
    (folder / "weights" / "models" / "net.pth").write_bytes(CONTENTS)
    monkeypatch.syspath_prepend(folder)
    return folder


def test_get_weights_weights_of_a_package(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = PublishedFile("net.pth", "Lite0", HASHES, (), package="weights")
    done = get(monkeypatch, file, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "net.pth").read_bytes() == CONTENTS
    place = packages / "weights" / "models" / "net.pth"
    place.write_bytes(CONTENTS[:HALF])
    done = get(monkeypatch, file, tmp_path / "other")
    assert done.returncode == 1 and f"error: {place}: sha1 " in done.stderr and not (tmp_path / "other").exists()
    place.unlink()
    for package in ("weights", "no-such-package"):
        missing = PublishedFile("net.pth", "Lite0", HASHES, (), package=package)
        done = get(monkeypatch, missing, tmp_path / "other")
        said = f"error: net.pth: the Python package {package}, which has it, is not installed: call make setup\n"
        assert done.returncode == 1 and done.stderr == said


def test_get_weights_lite0_is_always_at_hand_as_nets_begin_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEIGHTS_MIRROR", str(tmp_path))  # a mirror of others
    done = program("get_weights", "lite0", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    made = ["lite0.caffemodel", "lite0.converted.json", "lite0.prototxt", "lite0_mda4.caffemodel"]
    found = ["efficientnet-lite0-57934424.pth", *made]
    assert names(tmp_path) == found and "compared with the checkpoint's own net" in done.stdout
    again = program("get_weights", "lite0", "--out", tmp_path)
    assert again.returncode == 0 and "compared" not in again.stdout
    of_dial = program("get_weights", "lite0", "--out", tmp_path, "--num-domains", 2)
    assert of_dial.returncode == 0 and names(tmp_path) == sorted([*found, "lite0_mda2.caffemodel"])
    other = tmp_path / "lite0_mda4.caffemodel"
    right = other.read_bytes()
    other.write_bytes((tmp_path / "lite0_mda2.caffemodel").read_bytes())  # which is newer than the checkpoint, too
    done = program("get_weights", "lite0", "--out", tmp_path)
    assert done.returncode == 1 and f"error: {other}: sha256 " in done.stderr
    assert "as when it was converted: remove it, or pass --force of tools.get_weights" in done.stderr
    assert program("get_weights", "lite0", "--out", tmp_path, "--force").returncode == 0 and other.read_bytes() == right


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> str:
    """ResNet18's weights where torchvision's cannot be fetched, and the other ones are a file that is no net."""
    monkeypatch.setattr(published_file, "ATTEMPTS", 1)
    for name, file in (
        ("resnet18", PublishedFile("r.pth", "torchvision's", HASHES, ("http://127.0.0.1:1/r.pth",))),
        ("resnet18_cntk", PublishedFile("cntk/r.onnx", "CNTK's", HASHES, (), home="r.onnx of a package")),
    ):
        monkeypatch.setitem(PRETRAINED, name, replace(PRETRAINED[name], file=file))
    return "note: CNTK's exists and is used instead\n"


def test_get_weights_weights_that_stand_in_where_the_first_choice_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_in: str
) -> None:
    converted = []
    monkeypatch.setattr(get_weights, "convert_once", lambda *taken, force: converted.append(taken))
    done = program("get_weights", "resnet18", "--out", tmp_path / "out")
    assert done.returncode == 1 and "Connection refused" in done.stderr and stand_in not in done.stdout
    done = program("get_weights", "resnet18_cntk", "--out", tmp_path / "out")
    assert done.returncode == 1 and names(tmp_path / "out") == []
    assert f"{tmp_path}/out/cntk/r.onnx: not there, expected r.onnx of a package: put it there (sha1 " in done.stderr
    (tmp_path / "mirror" / "weights" / "cntk").mkdir(parents=True)
    (tmp_path / "mirror" / "weights" / "cntk" / "r.onnx").write_bytes(CONTENTS)
    monkeypatch.setenv("DATA_MIRROR", str(tmp_path / "mirror"))
    done = program("get_weights", "resnet18", "--out", tmp_path / "out", "--num-domains", 2)
    assert done.returncode == 0, done.stderr
    assert "note: torchvision's cannot be fetched: r.pth could not be downloaded from its URLs (name a" in done.stdout
    assert stand_in in done.stdout and f"{tmp_path}/out/cntk/r.onnx: CNTK's, sha1, sha256 as published" in done.stdout
    file, out = tmp_path / "out" / "cntk" / "r.onnx", tmp_path / "out" / "resnet18_cntk"
    assert converted == [(NETWORKS["resnet18"], file, out, [0, 2])] and file.read_bytes() == CONTENTS


def test_get_weights_weights_that_are_damaged_have_no_stand_in(tmp_path: Path, stand_in: str) -> None:
    (tmp_path / "cntk").mkdir()
    (tmp_path / "cntk" / "r.onnx").write_bytes(CONTENTS)
    (tmp_path / "r.pth").write_bytes(CONTENTS[:HALF])
    done = program("get_weights", "resnet18", "--out", tmp_path)
    assert done.returncode == 1 and "it is not torchvision's; pass --force to replace it" in done.stderr
