#!/usr/bin/env bash
# Make a virtual environment of Debian's Python: docker/install_python.sh VENV LOCK…, each LOCK a hash-locked file
# requirements/LOCK.txt. It does nothing when VENV holds these very packages; its stamp is VENV/.setup-key.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: docker/install_python.sh VENV LOCK…" >&2; exit 2; }
venv=$(realpath -m -- "$1")
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONPATH PYTHONHOME

# Debian's interpreter, whatever else is first on PATH: Debian's Boost.Python serves no other.
python=/usr/bin/python3
locks=()
for lock in "$@"; do
  [ -f "requirements/$lock.txt" ] || { echo "install_python: no requirements/$lock.txt in $PWD" >&2; exit 1; }
  locks+=("requirements/$lock.txt")
done

key=$("$python" --version; sha256sum "${locks[@]}")
[ "$(cat "$venv/.setup-key" 2>/dev/null)" != "$key" ] || exit 0

echo "installing the Python packages of ${locks[*]} into $venv"
# Only another interpreter makes what is there useless; pip replaces the versions that changed.
clear=()
[ "$("$venv/bin/python" --version 2>/dev/null)" = "$("$python" --version)" ] || clear=(--clear)
rm -f "$venv/.setup-key"
"$python" -m venv "${clear[@]}" "$venv"
# Python compiles a module when it is first imported: to do so for all of them now costs as long as the download.
# A lock names all that is needed, or says why not: pip looks for nothing else. torchfile and connection-pool have no wheel.
"$venv/bin/python" -W ignore -m pip install --quiet --disable-pip-version-check --no-compile --only-binary :all: \
  --no-binary torchfile,connection-pool --no-build-isolation --no-deps --require-hashes "${locks[@]/#/--requirement=}"
printf '%s\n' "$key" >"$venv/.setup-key"
