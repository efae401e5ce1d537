#!/usr/bin/env bash
# docker/stand_ins.sh FOLDER: make two Debian packages that stand in the image for what OpenCV's packages ask for and
# Caffe never uses: Mesa and LLVM (165 MB; OpenCV can draw with OpenGL) and GDAL (130 MB; OpenCV reads maps with it where
# imread is told to). apt knows them by these names, so that one who wants the real ones installs them, and they take the
# stand-ins' place. It runs where Caffe was built: the real ones are there, and tell names and versions.
set -euo pipefail
umask 022  # dpkg-deb takes no folders that are closed to others
[ $# -eq 1 ] || { echo "usage: docker/stand_ins.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
cd "$1"

# package NAME REAL: of what lies in the folder NAME, in place of the package REAL.
package() {
  mkdir -p "$1/DEBIAN"
  cat >"$1/DEBIAN/control" <<TEXT
Package: $1
Version: $(dpkg-query -W -f='${Version}' "$2")
Architecture: $(dpkg --print-architecture)
Provides: $2 (= $(dpkg-query -W -f='${Version}' "$2"))
Conflicts: $2
Replaces: $2
Maintainer: the image <none@localhost>
Description: stands for $2, which this image does without
TEXT
  dpkg-deb --root-owner-group --build "$1"
  rm -r "$1"
}

package no-mesa libglx-mesa0

# Each function of GDAL that OpenCV's library names, without which it would not load. GDALOpen is the first to be called
# for a map; it opens none, and OpenCV goes no further.
images=$(/sbin/ldconfig -p | sed -n 's/.*libopencv_imgcodecs\.so\..*=> //p' | head -n 1)
gdal=$(ldd "$images" | sed -nE 's/.*(libgdal\.so\.[0-9]+) => (.*) \(.*/\1 \2/p')
libraries=no-gdal/usr/lib/$(gcc -print-multiarch)
mkdir -p "$libraries"
nm -D --undefined-only "$images" | awk '$2 ~ /GDAL/ {sub("@.*", "", $2); print "void *" $2 "(void) { return 0; }"}' |
  gcc -Wall -Wextra -Werror -O2 -s -shared -fPIC -x c -Wl,-soname,"${gdal% *}" -o "$libraries/${gdal% *}" -
package no-gdal "$(dpkg-query --search "$(realpath "${gdal#* }")" | sed 's/:.*//')"
