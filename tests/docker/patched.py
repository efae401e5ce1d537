"""Files of Caffe's source with one of our patches, for tests that compile a piece of it with stand-ins."""

import subprocess
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

LIBRARIES = (f"-L{ROOT}/.caffe/lib", f"-Wl,-rpath,{ROOT}/.caffe/lib", "-lcaffe", "-lglog", "-lprotobuf")


def unpack(folder: Path, patch: str, *files: str) -> None:
    """Unpack ``files`` of Caffe's source, or folders of it, into ``folder``; apply what ``patch`` changes of these."""
    archives = sorted((ROOT / ".build/download").glob("caffe_*.orig.tar.gz"))
    if not archives:
        pytest.skip("the archive of Caffe's source is not in .build/download: make setup fetches it")
    subprocess.run(["tar", "-C", folder, "-xzf", archives[0], *files], check=True)
    parts = (ROOT / "docker/patches" / patch).read_text().split("--- a/")[1:]
    assert all(any(part.startswith(file) for part in parts) for file in files)
    changes = "".join("--- a/" + part for part in parts if part.startswith(files))
    subprocess.run(["patch", "-p1", "--quiet"], cwd=folder, input=changes, text=True, check=True)
