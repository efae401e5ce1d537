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

# Debian's interpreter, whatever else is first on PATH: Debian's Boost.Python serves no other.
python=/usr/bin/python3
mkdir -p .build
exec 9>.build/setup.lock
flock -n 9 || { say "another set-up is under way here: waiting for it"; flock 9; }

docker/install_packages.sh build run python

# Python compiles a module when it is first imported: to do so for all of them now costs as long as the download.
pip_install() {
  .venv/bin/python -W ignore -m pip install --quiet --disable-pip-version-check --no-compile "$@"
}

locks=(requirements/runtime.txt requirements/dev.txt)
key=$("$python" --version; sha256sum "${locks[@]}")
if [ "$(cat .venv/.setup-key 2>/dev/null)" != "$key" ]; then
  say "installing the Python packages of ${locks[*]} into .venv"
  # Only another interpreter makes what is there useless; pip replaces the versions that changed.
  clear=()
  [ "$(.venv/bin/python --version 2>/dev/null)" = "$("$python" --version)" ] || clear=(--clear)
  rm -f .venv/.setup-key
  "$python" -m venv "${clear[@]}" .venv
  # torchfile is the one package without a wheel.
  pip_install --only-binary :all: --no-binary torchfile --no-build-isolation --require-hashes \
    "${locks[@]/#/--requirement=}"
  printf '%s\n' "$key" >.venv/.setup-key
fi

if [ $# -gt 0 ] && ! cmp -s requirements/torch.txt .venv/.torch-key; then
  say "installing PyTorch"
  pip_install --only-binary :all: --requirement requirements/torch.txt
  cp requirements/torch.txt .venv/.torch-key
fi

PYTHON=.venv/bin/python docker/build_caffe.sh .caffe
# Nothing to do takes a second at most, and is not worth a word.
[ "$SECONDS" -lt 5 ] || say "ready after $SECONDS seconds"
