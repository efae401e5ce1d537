#!/usr/bin/env python3
"""Take out of the image's virtual environment what no program here needs: 400 MB and, with CUDA, 900 MB.

docker/trim_python.py VENV
"""

import platform
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

# The largest page of a kernel for this processor.
PAGE = 65536 if platform.machine() == "aarch64" else 4096
NOT_NEEDED = (
    "**/tests",  # packages' own tests, most of them ONNX's data:
    "onnx/backend/test/data",
    "**/*.c",
    "**/*.cc",
    "**/*.pyx",  # what compiled modules were made of
    "onnxruntime/capi/libonnxruntime.so.*",  # for programs in C; the module is whole in itself
    "nvidia/cudnn/lib/libcudnn_adv*",  # recurrent networks, which Caffe has of its own
    "nvidia/cu13/bin",  # what compiled Caffe:
    "nvidia/cu13/nvvm",
    "nvidia/cu13/lib/*.a",
    "nvidia/cu13/lib/libnvvm*",
    "nvidia/cu13/lib/libnvrtc*.alt.*",  # a second NVRTC, and BLAS in the place of a processor's:
    "nvidia/cu13/lib/libnvblas*",
    "cupy/cuda/thrust.*.so",  # the part of CuPy that sorts; CuPy looks whether it is there
    "pulp/solverdir/cbc",  # Snakemake's other scheduler (the default profile chooses the greedy one)
    "cv2/data/*.xml",
    "cv2/qt/fonts",  # OpenCV's detectors of faces; letters for its windows
    "pip",
    "pip-*",
    "setuptools",
    "setuptools-*",
    "pkg_resources",
    "_distutils_hack",
    "distutils-precedence.pth",
    "../../../bin/pip*",  # `python -m ensurepip` brings it back
)
OPENBLAS = f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}/libopenblas.so.0"


def trim(packages: Path) -> None:
    """Trim the folder of packages, VENV/lib/python3*/site-packages."""
    for pattern in NOT_NEEDED:
        for path in sorted(packages.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():  # it may have been below a folder that is gone
                path.unlink()
    # OpenCV brings an OpenBLAS of its own: Debian's, which Caffe has, serves both.
    for library in packages.glob("opencv_python*.libs/libopenblas*.so"):
        library.unlink()
        library.symlink_to(OPENBLAS)
    for library in packages.rglob("*.so*"):
        if library.is_file() and not library.is_symlink():
            strip(library)


def strip(library: Path) -> None:
    """Take a library's symbols for debuggers, unless that would damage it.

    Wheels' libraries have often been given other paths to look for libraries in; strip then moves their segments to
    where they cannot be loaded from.
    """
    bare = library.with_name(library.name + ".bare")
    done = subprocess.run(["strip", "--strip-unneeded", "-o", bare, library], capture_output=True, check=False)
    if done.returncode == 0 and is_loadable(bare):
        shutil.copymode(library, bare)
        bare.replace(library)
    bare.unlink(missing_ok=True)


def is_loadable(library: Path) -> bool:
    """Whether every segment that is loaded from a 64-bit ELF file lies in it as it will lie on its pages."""
    with library.open("rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:5] != b"\x7fELF\x02":
            return False
        (offset,), (size, count) = struct.unpack_from("<Q", header, 32), struct.unpack_from("<HH", header, 54)
        file.seek(offset)
        table = file.read(size * count)
    for start in range(0, size * count, size):
        kind, _, in_file, in_memory = struct.unpack_from("<IIQQ", table, start)
        if kind == 1 and (in_file - in_memory) % PAGE:
            return False
    return True


def main() -> None:
    found = sorted(Path(sys.argv[1]).glob("lib/python3*/site-packages")) if len(sys.argv) == 2 else []
    if len(found) != 1:
        sys.exit("usage: docker/trim_python.py VENV, the folder of a virtual environment")
    trim(found[0])


if __name__ == "__main__":
    main()
