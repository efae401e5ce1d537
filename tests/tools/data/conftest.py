"""The real data sets, where they are at hand."""

import os
from pathlib import Path

import pytest

from tools.program import ROOT


@pytest.fixture(scope="session")
def mirror() -> Path:
    """A mirror folder with the real MNIST, USPS and BSDS500; skips the test where there is none."""
    folder = Path(os.environ.get("DATA_MIRROR") or ROOT.parent / "shared" / "data")
    if not (folder / "mnist").is_dir():
        pytest.skip(f"needs the real data sets: no mnist in {folder} (DATA_MIRROR may name another folder)")
    return folder
