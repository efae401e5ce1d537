#!/usr/bin/env bash
# docker/debian_sources.sh COMPONENTS FOLDER [APT]
#
# Write into FOLDER what apt needs to fetch packages of further COMPONENTS of this machine's release of Debian, derived from
# the entries that it has for main (under APT, default /etc/apt): the same mirror, keys and options. Both of apt's formats
# are read; other archives' entries, and entries that are switched off, are left alone.
set -euo pipefail

[ $# -eq 2 ] || [ $# -eq 3 ] || { echo "usage: debian_sources.sh COMPONENTS FOLDER [APT]" >&2; exit 2; }
components=$1 folder=$2 apt=${3:-/etc/apt}
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mkdir -p "$folder"
shopt -s nullglob

made="deb \\1\\2 $release $components"
cat /dev/null "$apt"/sources.list "$apt"/sources.list.d/*.list 2>/dev/null |
  sed -nE "s/^deb[ \t]+(\[[^]]*\][ \t]+)?([^ \t]+)[ \t]+${release}[ \t]+(.*[ \t])?main([ \t].*)?$/$made/p" \
    >"$folder/lines.list" || true

# One paragraph an entry; every field but Types, Suites and Components (the address, the key, …) is kept as it is.
awk -v release="$release" -v components="$components" '
  BEGIN { RS = ""; FS = "\n" }
  {
    kept = ""; binary = own = main = off = 0
    for (i = 1; i <= NF; i++) {
      words = " " $i " "
      if ($i ~ /^#/) continue
      else if ($i ~ /^Enabled:[ \t]*no/) off = 1
      else if ($i ~ /^Types:/) binary = words ~ /[ \t]deb[ \t]/
      else if ($i ~ /^Suites:/) own = words ~ ("[ \t]" release "[ \t]")
      else if ($i ~ /^Components:/) main = words ~ /[ \t]main[ \t]/
      else kept = kept $i "\n"
    }
    if (binary && own && main && !off)
      printf "Types: deb\nSuites: %s\nComponents: %s\n%s\n", release, components, kept
  }' /dev/null "$apt"/sources.list.d/*.sources >"$folder/entries.sources"

[ -s "$folder/lines.list" ] || [ -s "$folder/entries.sources" ] || {
  echo "debian_sources: $apt has no entry for Debian $release, component main" >&2
  exit 1
}
