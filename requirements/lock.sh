#!/usr/bin/env bash
# Lock what *.in ask for, with hashes, into *.txt, each for Python 3.11 to 3.14: requirements/lock.sh [NAME…]
# A version that is locked stays while it serves; remove a *.txt first for the newest. uv does it (pip install uv, aside).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
[ $# -gt 0 ] || set -- build runtime workflow slurm dev cuda11 cudnn11 cuda13 cudnn13 nvcc13
declare -A leave=(  # of another lock, of Debian's CUDA, or what nothing here loads (nvjitlink)
  [cudnn11]="nvidia-cublas-cu11 nvidia-cuda-nvrtc-cu11" [cuda13]="numpy nvidia-nvjitlink"
  [cudnn13]="nvidia-cublas nvidia-cuda-nvrtc" [nvcc13]=nvidia-cuda-runtime
)
for name; do
  options=()
  [ "$name" = build ] || options+=(--no-emit-package setuptools)
  for package in ${leave[$name]:-}; do options+=(--no-emit-package "$package"); done
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command requirements/lock.sh "${options[@]}" \
    --output-file "$name.txt" "$name.in"
done
