#!/usr/bin/env bash
# All the set-up there is, from a bare Debian 12 or 13: Debian packages, .venv/ and .caffe/. `make setup` runs it; with the
# argument torch (`make test`) PyTorch comes into .venv/ too, which the tests compare converted models with, and Chromium,
# which they open the reports in.
# CAFFE_VARIANT=cuda builds Caffe for GPUs, with CUDA 13, cuDNN and CuPy of their wheels in .venv/; docs/gpu.md says more. A
# .caffe/ that was built for GPUs stays as it is until the variable asks for one again.
# Each step leaves a stamp when it is done and is skipped while the stamp is right, so a set-up that was
# interrupted goes on with the step it was in.
set -euo pipefail
[ $# -eq 0 ] || [ "$*" = torch ] || { echo "usage: tools/setup.sh [torch]" >&2; exit 2; }
unset CDPATH PIP_TARGET PIP_PREFIX PIP_ROOT "${!PYTHON@}"
export PIP_USER=0
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."  # links are followed, as by all that is called here

say() { printf 'setup: %s\n' "$*"; }

# Lists of folders have colons between them, CMake's semicolons, and more signs mean something to it, to ninja, to make or
# to a shell even where they are quoted. These do no harm; letters of other alphabets are bytes above them all.
if (LC_ALL=C; [[ $PWD = *[!A-Za-z0-9/" _.+=@%~()"$'\x80'-$'\xff'-]* ]]); then
  say "$PWD: the name of this folder has a sign that PATH, CMake or a shell take for something else, expected letters," \
    "digits, blanks or _ . + = @ % ~ ( ) -: move it to another folder" >&2
  exit 2
fi

if [ ! -x docker/build_caffe.sh ]; then
  say "$PWD: no program may run here: its file system is mounted with noexec, or the files were unpacked without their" \
    "permissions: call git clone in another folder" >&2
  exit 2
fi

tmp=${TMPDIR:-}
mkdir -p .build 2>/dev/null || true
if [ -w .build ]; then  # somebody else's folder is taken as it is: where it is whole, nothing below has anything to do
  exec 9>.build/setup.lock
  # A status above 1: the file system has no locks.
  flock -n 9 2>/dev/null || [ $? -gt 1 ] || { say "another set-up is under way here: waiting for it"; flock 9; }
  # pip puts what it fetches there, gigabytes: more than /tmp may hold, which Debian 13 has in memory.
  [ -n "$tmp" ] || { tmp=$PWD/.build/tmp; rm -rf "$tmp"; mkdir "$tmp"; }
fi

# What .caffe/ is, if it is somebody's choice: "linked" in an image, to the Caffe that was built there.
found=
if [ -L .caffe ]; then found=linked; elif grep -qs '^variant: cuda' .caffe/share/Caffe/build-key; then found=cuda; fi
variant=${CAFFE_VARIANT:-${found:-cpu}}
[ "$found" != linked ] || variant=linked
case $variant in cpu | cuda | linked) ;; *) say "CAFFE_VARIANT=$variant: expected cpu or cuda" >&2; exit 2 ;; esac
# CUDA of wheels lies in .venv/; what belongs to another toolkit (CUDA_HOME) is its owner's.
build_cuda= wheels=
if [ "$variant" = cuda ] && [ -n "${CAFFE_VARIANT:-}" ]; then
  build_cuda=yes
  [ -n "${CUDA_HOME:-}" ] || wheels=yes
elif [ "$variant" = cuda ] && grep -q '^cuda: .*/nvidia/cu13 for ' .caffe/share/Caffe/build-key; then
  wheels=yes
fi

docker/install_packages.sh build python
[ $# -eq 0 ] || docker/install_packages.sh browser

TMPDIR=$tmp docker/install_python.sh .venv runtime workflow slurm dev ${wheels:+cuda13 cudnn13 nvcc13}

if [ $# -gt 0 ] && ! cmp -s requirements/torch.txt .venv/.torch-key; then
  say "installing PyTorch (3 GB, with CUDA's libraries, unless pip finds a build for the CPU)"
  TMPDIR=$tmp .venv/bin/python -W ignore -m pip install --quiet --disable-pip-version-check --no-compile \
    --only-binary :all: --requirement requirements/torch.txt
  cp requirements/torch.txt .venv/.torch-key
fi

export PYTHON=.venv/bin/python
if [ -n "$build_cuda" ]; then
  if [ -n "$wheels" ]; then
    nvidia=$(cd .venv/lib/python3*/site-packages/nvidia && pwd)
    export CUDA_HOME=$nvidia/cu13 CUDNN_HOME=${CUDNN_HOME-$nvidia/cudnn}
  fi
  docker/build_caffe.sh --variant cuda .caffe
elif [ "$variant" = cpu ]; then
  docker/build_caffe.sh .caffe
elif ! problem=$(.caffe/bin/caffe --version 2>&1 >/dev/null); then
  say "$problem" >&2
  say "this Caffe for GPUs does not start. It looks for its libraries where they were when it was built: if they, or this" \
    "folder, were moved, CAFFE_VARIANT=cuda make setup builds it anew" >&2
  exit 1
fi

# The layers' kernels, or the first program would wait for them. They are kept for this processor alone. (The image sets
# up before it has the layers.)
if [ -d caffe_layers ] && [ -w .build ]; then
  processor=$(grep -m 2 -E '^(model name|flags)' /proc/cpuinfo ||
    grep -m 3 -E '^(Features|CPU implementer|CPU part)' /proc/cpuinfo || true)
  kernels=$({ cat caffe_layers/*.py .venv/.setup-key && printf '%s\n' "$processor"; } | sha256sum)
  if [ "$(cat .build/kernels-key 2>/dev/null)" != "$kernels" ]; then
    # Ctrl-C ends it without a word, unless it is ignored.
    .venv/bin/python -c 'import signal
if signal.getsignal(signal.SIGINT) is signal.default_int_handler: signal.signal(signal.SIGINT, signal.SIG_DFL)
from caffe_layers import _kernel_cache; _kernel_cache.load_all()'
    printf '%s\n' "$kernels" >.build/kernels-key
  fi
fi
# Nothing to do takes a second at most, and is not worth a word.
[ "$SECONDS" -lt 5 ] || say "ready after $SECONDS seconds"
