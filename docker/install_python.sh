#!/usr/bin/env bash
# Make a virtual environment of Debian's Python: docker/install_python.sh VENV LOCK…, each LOCK a hash-locked file
# requirements/LOCK.txt. It does nothing when VENV holds these very packages; its stamp is VENV/.setup-key. The commands
# of a VENV that was moved are mended.
# docker/install_python.sh --check VENV ends with 1 if they need it, as does env.sh then.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: docker/install_python.sh VENV LOCK… | --check VENV" >&2; exit 2; }
check=no
[ "$1" != --check ] || { check=yes; shift; }
venv=$(realpath -m -- "$1")
shift

# A command is a script that begins with the path of its Python; pip, which is mended last, stands for all.
in_place() {
  local head
  head=$(head -n 2 "$venv/bin/pip" 2>/dev/null) || return 0
  [[ $head = *[\ \"!]"$venv/bin/python"* ]]
}
if [ "$check" = yes ]; then
  in_place || exit 1
  exit 0
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Nor may the user's settings of pip send packages elsewhere.
unset PIP_TARGET PIP_PREFIX PIP_ROOT "${!PYTHON@}"
export PIP_USER=0

# Debian's interpreter, whatever else is first on PATH: Debian's Boost.Python serves no other.
python=/usr/bin/python3
locks=()
for lock in "$@"; do
  [ -f "requirements/$lock.txt" ] || { echo "install_python: no requirements/$lock.txt in $PWD" >&2; exit 1; }
  locks+=("requirements/$lock.txt")
done

# pip writes INSTALLER last: a package without it was cut off, by a kill or a full disk, and pip would take it for whole.
for package in "$venv"/lib/python3*/site-packages/*.dist-info; do
  [ ! -e "$package" ] || [ -e "$package/INSTALLER" ] || rm -r "$package"
done

key=$("$python" --version; sha256sum requirements/build.txt "${locks[@]}")
installed=$(cat "$venv/.setup-key" 2>/dev/null || true)
if [ "$installed" = "$key" ] && in_place; then exit 0; fi

if [ "$installed" != "$key" ]; then
  echo "installing the Python packages of ${locks[*]} into $venv"
  # Only another interpreter makes what is there useless, such as that of a Debian since upgraded; pip replaces the
  # versions that changed.
  clear=()
  grep -qsxF "executable = $(realpath "$python")" "$venv/pyvenv.cfg" || clear=(--clear)
  rm -f "$venv/.setup-key"
  "$python" -m venv "${clear[@]}" "$venv"
  # Python compiles a module when it is first imported: to do so for all of them now costs as long as the download.
  # A lock names all that is needed, or says why not: pip looks for nothing else. torchfile and connection-pool have no
  # wheel.
  install() {
    "$venv/bin/python" -W ignore -m pip install --quiet --disable-pip-version-check --no-compile --only-binary :all: \
      --no-deps --require-hashes "$@"
  }
  install --requirement requirements/build.txt
  install --no-binary torchfile,connection-pool --use-pep517 --no-build-isolation "${locks[@]/#/--requirement=}"
else
  echo "$venv was moved: telling its commands"
  "$python" -m venv --without-pip "$venv"  # activate, and the environment's own notes
fi

# A path that is long, or has a space, is no kernel's first line: then it is sh's, as pip does it.
"$python" - "$venv" <<'PY'
import re
import sys
from pathlib import Path

venv = sys.argv[1]
interpreter = f"{venv}/bin/python"
head = f"#!{interpreter}\n"
if " " in venv or len(head) > 127:
    head = f"#!/bin/sh\n'''exec' \"{interpreter}\" \"$0\" \"$@\"\n' '''\n"
old = re.compile(rb"""#!(?:/bin/sh\n'''exec' )?"?(/.*)/bin/python[\d.]*"?(?: "\$0" "\$@"\n' ''')?\n""")
for file in sorted(Path(venv, "bin").iterdir(), key=lambda file: file.name == "pip"):
    if file.is_file() and not file.is_symlink() and (found := old.match(text := file.read_bytes())) and found[1] != venv.encode():
        aside = file.with_name(".moved")
        aside.write_bytes(head.encode() + text[found.end() :])
        aside.chmod(file.stat().st_mode)
        aside.replace(file)
PY
[ "$installed" = "$key" ] || printf '%s\n' "$key" >"$venv/.setup-key"
