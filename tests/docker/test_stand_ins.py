"""docker/stand_ins.sh: the empty packages with which OpenCV's are content, and Caffe works."""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.common.program import ROOT
from latent_domains.data.lmdb_io import count

LIBRARIES = Path("/usr/lib", sysconfig.get_config_var("MULTIARCH") or "")
IMGCODECS = next(iter(sorted(LIBRARIES.glob("libopencv_imgcodecs.so.*"))), None)

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(
        shutil.which("gcc") is None or shutil.which("dpkg-deb") is None or IMGCODECS is None,
        reason="needs gcc, dpkg and Debian's OpenCV",
    ),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the packages."""
    folder = tmp_path_factory.mktemp("stand-ins")
    subprocess.run([ROOT / "docker/stand_ins.sh", folder], check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def library(made: Path) -> Path:
    """Return the library that stands for GDAL, unpacked."""
    subprocess.run(["dpkg-deb", "--extract", made / "no-gdal.deb", made / "gdal"], check=True)
    return next((made / f"gdal{LIBRARIES}").glob("libgdal.so.*"))


def test_stand_ins_packages_are_taken_for_the_real_ones(made: Path) -> None:
    """They satisfy what OpenCV's packages depend on, also by version, and give way to the real ones."""
    assert sorted(path.name for path in made.glob("*.deb")) == ["no-gdal.deb", "no-mesa.deb"]
    for name, pattern in (("no-gdal", r"libgdal\d+(t64)?"), ("no-mesa", "libglx-mesa0")):
        shown = subprocess.run(
            ["dpkg-deb", "--field", made / f"{name}.deb"], check=True, capture_output=True, text=True
        ).stdout
        fields = dict(re.findall(r"^([A-Z]\w+): (.*)$", shown, re.MULTILINE))
        assert fields["Package"] == name
        real = fields["Conflicts"]
        assert re.fullmatch(pattern, real)
        assert fields["Provides"] == f"{real} (= {fields['Version']})"
        assert fields["Replaces"] == real


def test_stand_ins_caffe_reads_images_without_gdal(library: Path, tmp_path: Path) -> None:
    image = np.zeros((8, 9, 3), np.uint8)
    for name in ("a.png", "b.jpg"):
        cv2.imwrite(str(tmp_path / name), image)
    (tmp_path / "list.txt").write_text("a.png 0\nb.jpg 1\n")
    env = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    program = ROOT / ".caffe/bin/convert_imageset"
    libraries = subprocess.run(["ldd", program], env=env, check=True, capture_output=True, text=True).stdout
    assert f"{library.name} => {library}" in libraries
    command = [program, f"{tmp_path}/", tmp_path / "list.txt", tmp_path / "lmdb"]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert count(tmp_path / "lmdb") == 2
