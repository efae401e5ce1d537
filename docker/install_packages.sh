#!/usr/bin/env bash
# Install Debian packages: docker/install_packages.sh LIST…, each LIST a file docker/packages/LIST.txt.
# The one step of the set-up that needs root; it does nothing, and needs nobody, when all are there.
#
# A line of a list is a package and, unless main has it, the components of Debian that it and what it depends on are in.
set -euo pipefail

fail() { printf 'install_packages: %s\n' "$*" >&2; exit 1; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lists=$here/packages
[ $# -gt 0 ] || fail "name at least one list of $lists"
needed="Debian 12 or newer (or an Ubuntu of that age) with Python 3.11 to 3.14 is needed; elsewhere use the image, docs/docker.md:\
 docker build -t latent-domains:cpu --build-arg VARIANT=cpu -f docker/Dockerfile ."
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || fail "this system has no apt: $needed"

wanted=()
declare -A components_of
for list in "$@"; do
  [ -f "$lists/$list.txt" ] || fail "no list '$list' in $lists"
  while read -r package components; do
    case $package in '' | '#'*) ;; *) wanted+=("$package") components_of[$package]=$components ;; esac
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
Install sudo, or run as root: docker/install_packages.sh $*"
  as_root=(sudo)
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# apt STEP…: run apt-get; on failure show the end of its words.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null >"$log" 2>&1 &&
    return
  tail -n 20 "$log" >&2
  fail "apt-get could not install: ${missing[*]}"
}

# version PACKAGE: the version that apt knows. All of apt-cache's words are read: it fails where nobody reads them any more.
version() { { apt-cache show --no-all-versions "$1" 2>/dev/null || true; } | sed -n 's/^Version: //p'; }

echo "installing ${#missing[@]} Debian packages: ${missing[*]}"
apt update
for package in "${missing[@]}"; do
  components=${components_of[$package]}
  [ -z "$components" ] || [ -n "$(version "$package")" ] ||
    fail "apt does not know $package, which is in Debian's components $components: add them to main in apt's sources," \
      "such as /etc/apt/sources.list.d/debian.sources, and run this again"
done
# Before anything is installed: the packages of Python have wheels for these versions.
python=$(version python3)
{ dpkg --compare-versions "$python" ge 3.11 && dpkg --compare-versions "$python" lt 3.15; } ||
  fail "this system has Python ${python:-of no version that apt knows}: $needed"
apt install -y --no-install-recommends "${missing[@]}"
