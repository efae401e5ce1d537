#!/usr/bin/env bash
# Build Caffe and pycaffe into PREFIX; see usage below. A second run with nothing changed does nothing.
#
# The tree is compiled and installed aside, tried, and renamed to PREFIX as the last step: PREFIX is whole or absent.
set -euo pipefail

# BVLC/caffe at 99bd997, which caffe_source.py knows by its tree, and where it is to be had besides the machine's own
# mirrors: the archive of Debian's source package, of which other distributions and the past have copies, and GitHub's.
archive=caffe_1.0.0+git20180821.99bd997.orig.tar.gz
homes=(
  "http://deb.debian.org/debian/pool/main/c/caffe/$archive"
  "http://archive.ubuntu.com/ubuntu/pool/universe/c/caffe/$archive"
  "http://archive.debian.org/debian/pool/main/c/caffe/$archive"
  "https://snapshot.debian.org/archive/debian/20220101T000000Z/pool/main/c/caffe/$archive"
  https://github.com/BVLC/caffe/archive/99bd99795dcdf0b1d3086a8d67ab1782a8a08383.tar.gz
)

usage() {
  cat <<'TEXT'
usage: docker/build_caffe.sh [--variant cpu|cuda] [--check] PREFIX

Builds Caffe and pycaffe into the folder PREFIX. Debian packages it lacks are installed, through sudo unless
run by root.
  --variant   cpu (default), or cuda: CUDA 11, 12 or 13
  --check     build nothing: exit 0 if PREFIX is what this script would build, 1 if not

environment
  PYTHON           the interpreter that pycaffe is for, with what it will run with: NumPy, … (/usr/bin/python3)
  CAFFE_SRC        build this Caffe checkout instead of fetching the source; it is copied, never changed. PREFIX is
                   then up to date without the variable too; remove PREFIX to go back to the source that is fetched
  CAFFE_BUILD_DIR  where to build (.build of the repository)

environment of the cuda variant
  CUDA_HOME        the CUDA toolkit: a folder with bin/nvcc, include/ and lib64/ or lib/, such as nvidia/cu13 of the wheels
                   of requirements/cuda13.txt and nvcc13.txt, or /usr for Debian's (docker/install_packages.sh cuda)
  CUDA_ARCH_BIN    GPU architectures; the newest of them as PTX too, for GPUs to come ("60 61 70 75 80 86 89 90 100 120",
                   without those that the toolkit does not know)
  CUDNN_HOME       cuDNN: a folder with include/ and lib/, such as nvidia/cudnn of its Python wheel; without it Caffe is
                   built without cuDNN
Caffe looks for the libraries of these folders where they are, unless they lie in PREFIX/lib.

environment when Caffe runs on the CPU
  CAFFE_WINOGRAD             0: convolutions of 3x3 taps like all others, not by fewer products (14-8-winograd.patch)

environment when a CUDA build with cuDNN runs
  CAFFE_CUDNN_DETERMINISTIC  1: only algorithms that give the same bits every time, or an error where there is none
  CAFFE_TF32                 1: floats may be rounded to TF32 before they are multiplied, also without cuDNN
TEXT
}

say() { printf 'build_caffe: %s\n' "$*"; }
fail() { say "$*" >&2; exit 1; }
misused() { say "$*" >&2; usage >&2; exit 2; }

# step NAME COMMAND…: run it with its output in a log; on failure name the step and show the end of the log.
step() {
  local name=$1 log=$work/log/$1.log
  shift
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 25 "$log" >&2
    fail "step '$name' failed; above are the last lines of $log"
  fi
}

variant=cpu check=no prefix=
while [ $# -gt 0 ]; do
  case $1 in
    --variant) [ $# -gt 1 ] || misused "--variant needs a value: cpu or cuda"; variant=$2; shift ;;
    --variant=*) variant=${1#*=} ;;
    --check) check=yes ;;
    -h | --help) usage; exit ;;
    -*) misused "unknown option $1" ;;
    *) [ -z "$prefix" ] || misused "one PREFIX expected, got '$prefix' and '$1'"; prefix=$1 ;;
  esac
  shift
done
[ -n "$prefix" ] || misused "PREFIX is missing"
case $variant in cpu | cuda) ;; *) misused "unknown variant '$variant': expected cpu or cuda" ;; esac

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
prefix=$(realpath -m -- "$prefix")
stamp=share/Caffe/build-key
work=$(realpath -m -- "${CAFFE_BUILD_DIR:-$here/../.build}")/caffe-$variant
python=${PYTHON:-/usr/bin/python3}
case $python in [!/]*/*) python=$PWD/$python ;; esac

# Nothing of the caller's shell may leak into the build, such as flags, Python folders, another toolchain's prefixes: of
# all that it exports this is kept.
kept=" HOME USER TMPDIR APT_CONFIG SSL_CERT_FILE SSL_CERT_DIR PYTHON CAFFE_SRC CAFFE_BUILD_DIR
  CUDA_HOME CUDA_ARCH_BIN CUDNN_HOME
  http_proxy https_proxy ftp_proxy no_proxy all_proxy HTTP_PROXY HTTPS_PROXY FTP_PROXY NO_PROXY ALL_PROXY "
for name in $(compgen -e); do
  [[ $kept = *[[:space:]]"$name"[[:space:]]* ]] || unset "$name" 2>/dev/null || true  # bash lets go of none of its own
done
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8

if [ -e "$prefix" ] && [ ! -e "$prefix/$stamp" ] && [ -n "$(ls -A "$prefix")" ]; then
  fail "$prefix exists and was not made by this script: name a new or empty folder"
fi
if [ -n "${CAFFE_SRC:-}" ]; then
  for file in CMakeLists.txt src/caffe/proto/caffe.proto python/caffe/_caffe.cpp; do
    [ -f "$CAFFE_SRC/$file" ] || fail "CAFFE_SRC=$CAFFE_SRC is not a Caffe checkout: it has no $file"
  done
fi

# library HOME NAME: the path of a library below HOME, linked by its name alone or, as wheels have it, by a version.
library() {
  local folder file
  for folder in lib64 lib lib/x86_64-linux-gnu; do
    for file in "$1/$folder/lib$2.so" "$1/$folder/lib$2.so".*; do
      [ ! -e "$file" ] || { realpath -s -- "$file"; return; }
    done
  done
}

# expect VARIABLE HOME WHAT HEADERS LIBRARIES: fail unless the folder HOME has them all, by their names.
expect() {
  local name missing=()
  for name in $4; do [ -f "$2/include/$name" ] || missing+=("include/$name"); done
  for name in $5; do [ -n "$(library "$2" "$name")" ] || missing+=("lib/lib$name.so"); done
  [ ${#missing[@]} -eq 0 ] || fail "$1=$2 is not $3: it lacks ${missing[*]}"
}

# defined NAME FILE: the value of a macro.
defined() { sed -nE "s/^#[ \t]*define[ \t]+$1[ \t]+([^ \t]+).*/\1/p" "$2" | head -n 1; }

# version_of FILE MACRO…: the version that a header gives.
version_of() {
  local file=$1 name value found=
  shift
  for name; do
    value=$(defined "$name" "$file")
    [ -n "$value" ] || fail "$file does not define $name: its version is unknown"
    found=$found${found:+.}$value
  done
  printf '%s' "$found"
}

cuda=
if [ "$variant" = cuda ]; then
  architectures=${CUDA_ARCH_BIN:-60 61 70 75 80 86 89 90 100 120}
  [[ $architectures =~ ^[0-9]+(\ [0-9]+)*$ ]] ||
    fail "CUDA_ARCH_BIN='$architectures': expected numbers such as '80 90', without dots"
  [ -n "${CUDA_HOME:-}" ] || fail "CUDA_HOME names no CUDA toolkit; CAFFE_VARIANT=cuda make setup installs one, and builds"
  cuda_home=$(realpath -m -- "$CUDA_HOME")
  nvcc=$cuda_home/bin/nvcc
  [ -x "$nvcc" ] || fail "CUDA_HOME=$cuda_home is not a CUDA toolkit: it lacks bin/nvcc"
  expect CUDA_HOME "$cuda_home" "a whole CUDA toolkit" "cuda_runtime.h cublas_v2.h curand.h" "cudart cublas curand"
  cuda_version=$("$nvcc" --version | sed -nE 's/.*release ([0-9.]+),.*/\1/p' || true)
  case $cuda_version in
    11.* | 12.* | 13.*) ;;
    *) fail "CUDA_HOME=$cuda_home is CUDA ${cuda_version:-of an unknown version}: expected 11, 12 or 13" ;;
  esac
  glibc=$(getconf GNU_LIBC_VERSION | sed 's/.* //')
  if [ "$(printf '%s\n' 12.9 "$cuda_version" | sort -V | head -n 1)" != 12.9 ] &&
    [ "$(printf '%s\n' 2.41 "$glibc" | sort -V | head -n 1)" = 2.41 ]; then
    fail "CUDA $cuda_version of $cuda_home does not compile with this system's glibc $glibc: expected 12.9 or newer"
  fi
  known=$("$nvcc" --list-gpu-arch | sed 's/^compute_//' | sort -n | xargs) || fail "$nvcc --list-gpu-arch failed"
  kept=
  for architecture in $architectures; do
    if [[ " $known " = *" $architecture "* ]]; then
      kept=$kept${kept:+ }$architecture
    elif [ -n "${CUDA_ARCH_BIN:-}" ]; then
      fail "nvcc does not know architecture $architecture of CUDA_ARCH_BIN; it knows $known"
    fi
  done
  architectures=$kept
  [ -n "$architectures" ] || fail "nvcc knows none of the usual architectures: name some of $known by CUDA_ARCH_BIN"
  cuda="
cuda: $cuda_version of $cuda_home for $architectures"
  if [ -n "${CUDNN_HOME:-}" ]; then
    cudnn_home=$(realpath -m -- "$CUDNN_HOME")
    expect CUDNN_HOME "$cudnn_home" "a folder of cuDNN" cudnn.h cudnn
    header=$cudnn_home/include/cudnn_version.h  # cuDNN 8 and later
    [ -f "$header" ] || header=$cudnn_home/include/cudnn.h
    cudnn_version=$(version_of "$header" CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
    cuda="$cuda
cudnn: $cudnn_version of $cudnn_home"
  fi
fi

if [ "$check" = no ]; then
  "$here/install_packages.sh" build
  if [ "$variant" = cuda ]; then
    host=g++
    newest=$(sed -nE '/^#if __GNUC__ > ([0-9]+).*/{s//\1/p;q}' "$cuda_home/include/crt/host_config.h" 2>/dev/null || true)
    [ -z "$newest" ] || [ "$(g++ -dumpversion)" -le "$newest" ] || host=g++-$newest
    command -v "$host" >/dev/null ||
      fail "$host, the newest host compiler that CUDA $cuda_version takes, was not found: install Debian's package $host"
  fi
fi

# Boost.Python is compiled for one Python version, pycaffe for one NumPy.
command -v "$python" >/dev/null || fail "PYTHON=$python does not exist"
facts=$("$python" - <<'PY'
import importlib.util
import sys
import sysconfig

# What pycaffe imports; to find that out after the build would be late.
needed = {"numpy": "numpy", "scipy": "scipy", "scikit-image": "skimage", "protobuf": "google", "six": "six"}
missing = [package for package, module in needed.items() if importlib.util.find_spec(module) is None]
if missing:
    sys.exit("it lacks " + ", ".join(missing))
import numpy

print(sysconfig.get_config_var("py_version_nodot"), sysconfig.get_path("platinclude"))
print(sysconfig.get_config_var("LIBDIR") + "/" + sysconfig.get_config_var("LDLIBRARY"))
print(numpy.__version__)
PY
) || fail "PYTHON=$python cannot serve pycaffe (see above): give one that has requirements/runtime.txt installed"
{ read -r python_version python_include; read -r python_library; read -r numpy_version; } <<<"$facts"
compgen -G "/usr/lib/*/libboost_python$python_version.so.*" >/dev/null ||
  fail "Debian's Boost.Python does not serve PYTHON=$python (version $python_version): use /usr/bin/python3" \
    "or a virtual environment built on it"

# What the source tree is made of, for the key: without its history and without what a build leaves in it.
pack_source() {
  tar -C "$CAFFE_SRC" --exclude-vcs --exclude=./build --exclude=./python/caffe/_caffe.so --exclude=./python/caffe/proto \
    --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - .
}
source_id="BVLC/caffe 99bd997"
[ -z "${CAFFE_SRC:-}" ] || source_id="a checkout, sha256 $(pack_source | sha256sum | cut -d' ' -f1)"
recipe=$(cat "$here/build_caffe.sh" "$here"/patches/*.patch | sha256sum | cut -d' ' -f1)
key="source: $source_id
recipe: $recipe
variant: $variant$cuda
python: $python_version
numpy: $numpy_version"

# up_to_date: whether PREFIX is what would be built, of the checkout that somebody chose for it if none is named now.
up_to_date() {
  local made
  made=$(cat "$prefix/$stamp" 2>/dev/null) || return 1
  if [ -z "${CAFFE_SRC:-}" ] && [[ $made = "source: a checkout, "* ]]; then
    [ "${made#*$'\n'}" = "${key#*$'\n'}" ]
  else
    [ "$made" = "$key" ]
  fi
}
if [ "$check" = yes ]; then
  up_to_date || { say "$prefix is not what this script would build now"; exit 1; }
  exit 0
fi
if up_to_date; then exit 0; fi

parent=$(dirname "$prefix")
mkdir -p "$parent" "$work" 2>/dev/null || fail "cannot create $parent or $work: choose other folders or run as root"
[ -w "$parent" ] || fail "$parent is not writable by $(id -un): choose another PREFIX or run as root"
exec 9>"$work.lock"
# A status above 1: the file system has no locks.
flock -n 9 2>/dev/null || [ $? -gt 1 ] || { say "another build is under way in $work: waiting for it"; flock 9; }
if up_to_date; then exit 0; fi
rm -rf "$prefix".partial-??????  # of an installation that was killed

# An interrupted build of the same key is continued; any other is begun anew, and one that was moved: CMake has its path.
begun="$key
folder: $work"
if [ "$(cat "$work/key" 2>/dev/null)" != "$begun" ]; then
  rm -rf "$work"
fi
mkdir -p "$work/log"
printf '%s\n' "$begun" >"$work/key"
source=$work/source build=$work/build

# own_mirrors: where this machine's package sources would have the archive.
own_mirrors() {
  local release
  release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  apt-get indextargets --format "\$(REPO_URI)pool/\$(COMPONENT)/c/caffe/$archive" "Created-By: Packages" "Release: $release" |
    grep -E '^https?:.*/pool/(main|universe)/' | sort -u || true
}

unpack() {
  local file own
  rm -rf "$source.new"
  mkdir "$source.new"
  if [ -n "${CAFFE_SRC:-}" ]; then
    pack_source | tar -C "$source.new" -xf - || return 1
  else
    mapfile -t own < <(own_mirrors)
    "$python" "$here/caffe_source.py" "$source.new" "${work%/*}/download/$archive" "${own[@]}" "${homes[@]}" || return 1
  fi
  for file in "$here"/patches/*.patch; do
    if patch -d "$source.new" -p1 --forward --dry-run <"$file"; then
      patch -d "$source.new" -p1 --forward --no-backup-if-mismatch <"$file" || return 1
    elif patch -d "$source.new" -p1 --reverse --force --dry-run <"$file" >/dev/null; then
      echo "docker/patches/${file##*/} is in this tree already"
    else
      echo "docker/patches/${file##*/} does not apply to this tree: expected BVLC/caffe at commit 99bd997," \
        "as it is or with these patches"
      return 1
    fi
  done
  mv "$source.new" "$source"
}

if [ ! -d "$source" ]; then
  [ -n "${CAFFE_SRC:-}" ] || [ -e "${work%/*}/download/$archive" ] || say "fetching Caffe's source"
  step unpack unpack
  ! grep ' is in this tree already$' "$work/log/unpack.log" || say "(and so not applied again)"
fi

# Baseline x86-64, since a prefix may travel in an image; OpenBLAS and Caffe's own loops (14-1-threads.patch) pick
# what the processor has when they are loaded. A square root that need not set errno is done by vectors.
options=(
  -G Ninja -S "$source" -B "$build"
  -DCMAKE_POLICY_VERSION_MINIMUM=3.5 -Wno-dev  # CMake 4 takes Caffe's rules of CMake 2.8 no longer, CMake 3 speaks of it
  -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS_RELEASE=-O3 -DNDEBUG -fno-math-errno"
  "-DCMAKE_INSTALL_PREFIX=$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_EXPORT_NO_PACKAGE_REGISTRY=ON
  -DBLAS=Open -DUSE_OPENMP=ON -DUSE_LMDB=ON -DALLOW_LMDB_NOLOCK=ON -DUSE_OPENCV=ON -DUSE_LEVELDB=OFF
  -DBUILD_docs=OFF -DBUILD_matlab=OFF -DBUILD_examples=OFF
  -DBUILD_python=ON -DBUILD_python_layer=ON -Dpython_version=3
  "-DPYTHON_EXECUTABLE=$(command -v "$python")" "-DPYTHON_INCLUDE_DIR=$python_include" "-DPYTHON_LIBRARY=$python_library"
)
told=()
# Eight files compiled as one: the headers they share are most of the work. A changed tree may not stand it.
[ -n "${CAFFE_SRC:-}" ] || options+=(-DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=8)
if [ "$variant" = cpu ]; then
  options+=(-DCPU_ONLY=ON)
else
  newest=$(tr ' ' '\n' <<<"$architectures" | sort -n | tail -n 1)
  # Paths are told: CMake would look for CUDA by its own lights, and wheels have no libraries without a version. It
  # forgets them if the toolkit is not the one of its last run. CUDA's runtime is linked as a library, since CuPy in
  # the same process has it too.
  told=("CUDA_NVCC_EXECUTABLE=$nvcc" "CUDA_TOOLKIT_INCLUDE=$cuda_home/include"
    "CUDA_CUDART_LIBRARY=$(library "$cuda_home" cudart)" "CUDA_cublas_LIBRARY=$(library "$cuda_home" cublas)"
    "CUDA_curand_LIBRARY=$(library "$cuda_home" curand)")
  options+=(-DCPU_ONLY=OFF -DCMAKE_INSTALL_RPATH_USE_LINK_PATH=ON -DCUDA_USE_STATIC_CUDA_RUNTIME=OFF
    "-DCUDA_TOOLKIT_ROOT_DIR=$cuda_home" "-DCUDA_TOOLKIT_ROOT_DIR_INTERNAL=$cuda_home" "${told[@]/#/-D}"
    "-DCUDA_HOST_COMPILER=$(command -v "$host")"
    -DCUDA_ARCH_NAME=Manual "-DCUDA_ARCH_BIN=$architectures" "-DCUDA_ARCH_PTX=$newest"
    -DUSE_CUDNN=OFF -DUSE_NCCL=OFF)
  if [ -n "${CUDNN_HOME:-}" ]; then
    options+=(-DUSE_CUDNN=ON "-DCUDNN_INCLUDE=$cudnn_home/include" "-DCUDNN_LIBRARY=$(library "$cudnn_home" cudnn)")
  fi
fi
step configure cmake "${options[@]}"
# Caffe's CMake goes on without what it does not find.
! grep -q 'Python interface is disabled' "$work/log/configure.log" ||
  fail "Caffe's CMake found no Boost.Python or NumPy; see $work/log/configure.log"
! grep -q 'CUDA is not detected' "$work/log/configure.log" ||
  fail "Caffe's CMake found no CUDA; see $work/log/configure.log"

for entry in "${told[@]}"; do
  grep -qxF -e "${entry%%=*}:FILEPATH=${entry#*=}" -e "${entry%%=*}:PATH=${entry#*=}" "$build/CMakeCache.txt" ||
    fail "CMake did not take $entry; see $work/log/configure.log"
done

say "compiling the $variant variant (a few minutes; log: $work/log/compile.log)"
step compile ninja -C "$build" -j "$(nproc)"

aside=$(mktemp -d "$prefix.partial-XXXXXX")
trap 'rm -rf "$aside"' EXIT
step install env "DESTDIR=$aside" ninja -C "$build" install
new=$aside/new
mv "$aside$prefix" "$new"
step try-caffe "$new/bin/caffe" --version
# (Not by env: an interpreter whose path has an = is a variable to it.)
try_pycaffe() { PYTHONPATH=$new/python PYTHONDONTWRITEBYTECODE=1 "$python" -c 'import caffe; print(caffe.get_mode())'; }
step try-pycaffe try_pycaffe
printf '%s\n' "$key" >"$new/$stamp"
if [ -e "$prefix" ]; then mv "$prefix" "$aside/old"; fi
mv "$new" "$prefix"
rm -rf "$build" "$source" "$work/key"
say "Caffe ($variant) is in $prefix"
