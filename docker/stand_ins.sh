#!/usr/bin/env bash
# docker/stand_ins.sh FOLDER: make two Debian packages that stand in the image for what OpenCV's packages ask for and
# Caffe never uses: Mesa and LLVM (165 MB; OpenCV can draw with OpenGL) and GDAL (130 MB; see no_gdal.c). apt knows them
# by these names, so that one who wants the real ones installs them, and they take the stand-ins' place.
set -euo pipefail
umask 022  # dpkg-deb takes no folders that are closed to others
[ $# -eq 1 ] || { echo "usage: docker/stand_ins.sh FOLDER" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
cd "$1"

# package NAME REAL VERSION: of what lies in the folder NAME, in place of the package REAL.
package() {
  mkdir -p "$1/DEBIAN"
  cat >"$1/DEBIAN/control" <<TEXT
Package: $1
Version: $3
Architecture: amd64
Provides: $2 (= $3)
Conflicts: $2
Replaces: $2
Maintainer: the image <none@localhost>
Description: stands for $2, which this image does without
TEXT
  dpkg-deb --root-owner-group --build "$1"
  rm -r "$1"
}

package no-mesa libglx-mesa0 22.3.6

libraries=no-gdal/usr/lib/x86_64-linux-gnu
mkdir -p "$libraries"
gcc -Wall -Wextra -Werror -O2 -s -shared -fPIC -Wl,-soname,libgdal.so.32 -o "$libraries/libgdal.so.32" "$here/no_gdal.c"
package no-gdal libgdal32 3.6.2
