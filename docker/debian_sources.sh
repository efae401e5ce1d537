#!/usr/bin/env bash
# docker/debian_sources.sh TYPE SUITE COMPONENT FOLDER [APT]
#
# Write into FOLDER what apt needs to fetch packages of TYPE (deb or deb-src) from COMPONENT of Debian's release SUITE,
# derived from the entries that this machine has for main of its own release (under APT, default /etc/apt): the same
# mirror, keys and options. Both of apt's formats are read; other archives' entries, and entries that are switched off,
# are left alone.
set -euo pipefail

[ $# -eq 4 ] || [ $# -eq 5 ] || { echo "usage: debian_sources.sh TYPE SUITE COMPONENT FOLDER [APT]" >&2; exit 2; }
type=$1 suite=$2 component=$3 folder=$4 apt=${5:-/etc/apt}
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mkdir -p "$folder"
shopt -s nullglob

made="$type \\1\\2 $suite $component"
cat /dev/null "$apt"/sources.list "$apt"/sources.list.d/*.list 2>/dev/null |
  sed -nE "s/^deb[ \t]+(\[[^]]*\][ \t]+)?([^ \t]+)[ \t]+${release}[ \t]+(.*[ \t])?main([ \t].*)?$/$made/p" \
    >"$folder/lines.list" || true

# One paragraph an entry; every field but Types, Suites and Components (the address, the key, …) is kept as it is.
awk -v release="$release" -v type="$type" -v suite="$suite" -v component="$component" '
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
      printf "Types: %s\nSuites: %s\nComponents: %s\n%s\n", type, suite, component, kept
  }' /dev/null "$apt"/sources.list.d/*.sources >"$folder/entries.sources"

[ -s "$folder/lines.list" ] || [ -s "$folder/entries.sources" ] || {
  echo "debian_sources: $apt has no entry for Debian $release, component main" >&2
  exit 1
}
