#!/usr/bin/env bash
# Install Debian packages: docker/install_packages.sh LIST…, each LIST a file docker/packages/LIST.txt.
# The one step of the set-up that needs root; it does nothing, and needs nobody, when all are there.
set -euo pipefail

fail() { printf 'install_packages: %s\n' "$*" >&2; exit 1; }

lists=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/packages
[ $# -gt 0 ] || fail "name at least one list of $lists"
command -v dpkg-query >/dev/null || fail "this is not a Debian machine; install what $lists names by hand"

wanted=()
for list in "$@"; do
  [ -f "$lists/$list.txt" ] || fail "no list '$list' in $lists"
  while read -r package _; do
    case $package in '' | '#'*) ;; *) wanted+=("$package") ;; esac
  done <"$lists/$list.txt"
done

# dpkg-query exits 1 when it knows nothing of a package: such a package is missing as well.
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "installed $package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "these packages are missing and only root can install them: ${missing[*]}
Install sudo, or run as root: apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@"; }

echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt update && apt install -y --no-install-recommends "${missing[@]}"; } </dev/null >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  fail "apt-get could not install: ${missing[*]}"
fi
