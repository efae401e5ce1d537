"""The tiny digits with a mixture."""

import shutil
from pathlib import Path

import pytest

from latent_domains.data.join import join


@pytest.fixture
def mixed(tiny_data: Path, tmp_path: Path) -> Path:
    """A data folder of a test's own: the tiny digits, both sources in one LMDB, and a mixture of 48 and 12 images."""
    data = shutil.copytree(tiny_data, tmp_path / "data")
    inputs = [data / "digits" / f"{source}_train" for source in ("mnist", "mnistm")]
    join(inputs, data / "digits" / "mnist+mnistm_train")
    join(inputs, data / "digits" / "mnist80+mnistm20_train", shares=(80, 20))
    return data
