""".ci/run: what the tests of a change find in their environment."""

import os
import shutil
import subprocess

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program

KEPT = {"HOME": "/home/new", "https_proxy": "http://proxy:1", "NO_PROXY": "*", "PIP_INDEX_URL": "https://index/a b",
        "PIP_CERT": "/c", "SSL_CERT_FILE": "/c", "REQUESTS_CA_BUNDLE": "/c", "GIT_SSL_CAINFO": "/c", "APT_CONFIG": "/a",
        "CI": "1", "DATA_MIRROR": "/data"}  # fmt: skip
LEFT = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "/p", "LANG": "de_DE.UTF-8",
        "OMP_NUM_THREADS": "1", "TMPDIR": "/t", "ISA": "avx512", "MAKEFLAGS": "-n"}  # fmt: skip


def test_ci_run_the_environment_is_a_newcomers(tmp_path):
    (tmp_path / "clone/.ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", tmp_path / "clone/.ci")
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "$@" >>"{tmp_path}/calls"\nenv -0 >"{tmp_path}/environment"\n')
    make.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run([tmp_path / "clone/.ci/run"], env=KEPT | LEFT | {"PATH": path}, check=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls[0] == "test" and calls[1].startswith("test ISA=avx2 ARGS=tests/")
    folders, _, others = calls[1].split("ARGS=")[1].partition(" -k ")
    assert all(any(ROOT.glob(folder)) for folder in folders.split()) and others.startswith("'not (trains or ")
    found = dict(entry.split("=", 1) for entry in (tmp_path / "environment").read_text().split("\0") if entry)
    made_by_sh = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert {name: value for name, value in found.items() if name not in made_by_sh} == KEPT | {"PATH": path}
