#!/usr/bin/env bash
# docker/trim_python.sh VENV: take out of the image's virtual environment what no program here needs: 280 MB and, with
# CUDA, 650 MB. Caffe's Python folder must be on PYTHONPATH.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: docker/trim_python.sh VENV" >&2; exit 2; }
venv=$(realpath -s -- "$1")
cd "$venv"/lib/python3*/site-packages

# Packages' own tests, most of them ONNX's data.
find . -type d -name tests -prune -exec rm -r {} +
rm -r onnx/backend/test/data
# ONNX Runtime for programs in C; Python's is whole in itself.
rm -r onnxruntime/capi/libonnxruntime.so.*
# OpenCV's own OpenBLAS: Debian's, which Caffe has, serves both.
ln -sf /usr/lib/x86_64-linux-gnu/libopenblas.so.0 opencv_python*.libs/libopenblas*.so
# cuDNN's recurrent networks, which Caffe does not use, and the part of CuPy that sorts.
rm -f nvidia/cudnn/lib/libcudnn_adv_*.so.* cupy/cuda/thrust.*.so
# Symbols for debuggers. What came into a wheel from elsewhere (*.libs) is left as it is.
find . -name '*.so*' -type f -not -path './*.libs/*' -exec strip --strip-unneeded {} +
# `python -m ensurepip` brings pip back.
rm -r "$venv"/bin/pip* pip pip-* setuptools setuptools-* pkg_resources _distutils_hack distutils-precedence.pth

# Compile what Caffe and the layers import: a user of the image cannot write it, and a start takes four seconds without.
home=$(mktemp -d)
HOME=$home "$venv/bin/python" -c "import caffe, cv2, google.protobuf.text_format, lmdb, numba, tqdm"
rm -r "$home"
