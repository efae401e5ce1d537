#!/usr/bin/env bash
# All the set-up there is, from a bare Debian 12: Debian packages, .venv/ and .caffe/. `make setup` runs it; with the
# argument torch (`make test`) PyTorch comes into .venv/ too, which the tests compare converted models with.
# Each step leaves a stamp when it is done and is skipped while the stamp is right, so a set-up that was
# interrupted goes on with the step it was in.
set -euo pipefail
[ $# -eq 0 ] || [ "$*" = torch ] || { echo "usage: tools/setup.sh [torch]" >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME

say() { printf 'setup: %s\n' "$*"; }

mkdir -p .build
exec 9>.build/setup.lock
flock -n 9 || { say "another set-up is under way here: waiting for it"; flock 9; }

docker/install_packages.sh build run python

docker/install_python.sh .venv runtime dev

if [ $# -gt 0 ] && ! cmp -s requirements/torch.txt .venv/.torch-key; then
  say "installing PyTorch"
  .venv/bin/python -W ignore -m pip install --quiet --disable-pip-version-check --no-compile --only-binary :all: \
    --requirement requirements/torch.txt
  cp requirements/torch.txt .venv/.torch-key
fi

# In an image .caffe is a link to the Caffe that was built there.
[ -L .caffe ] || PYTHON=.venv/bin/python docker/build_caffe.sh .caffe
# Nothing to do takes a second at most, and is not worth a word.
[ "$SECONDS" -lt 5 ] || say "ready after $SECONDS seconds"
