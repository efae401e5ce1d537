#!/usr/bin/env bash
# docker/run_packages.sh FILE|FOLDER…: list the Debian packages that programs and libraries, and those in folders, are
# linked to, or come with: a list for install_packages.sh. It is for the machine that built them, whose development
# packages brought them all.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: docker/run_packages.sh FILE|FOLDER…" >&2; exit 2; }

# linked_to FILE: the libraries that it names itself, where the loader finds them; apt knows what these need.
linked_to() {
  local named
  named=$(objdump -p "$1" 2>/dev/null | awk '$1 == "NEEDED" {print $2}')
  [ -z "$named" ] || ldd "$1" | grep -F -w -e "$named" | awk '$2 == "=>" && $3 ~ "^/" {print $3}'
}

find -L "$@" -type f \( -name '*.so' -o -name '*.so.*' -o -perm -u+x \) | while IFS= read -r file; do
  printf '%s\n' "$file"
  linked_to "$file"
done | xargs -d '\n' realpath | sort -u | while IFS= read -r file; do
  # A file's folder has two names where /lib is a link to /usr/lib.
  package=$({ dpkg-query --search "$file" || dpkg-query --search "${file#/usr}"; } 2>/dev/null | sed -n '1s/:.*//p') || true
  [ -n "$package" ] || continue  # it was built here
  section=$(dpkg-query -W -f='${Section}' "$package")
  case $section in */*) printf '%s  %s\n' "$package" "${section%%/*}" ;; *) printf '%s\n' "$package" ;; esac
done | sort -u
