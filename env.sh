# Put this project into a shell: . ./env.sh
# (bash from any folder; a plain sh finds the file by the shell's open files, and asks if it cannot.)
#
# PYTHONPATH names the virtual environment's packages as well: `caffe train` embeds the interpreter and knows no
# virtual environment. Sourcing it twice changes nothing.
# shellcheck shell=sh disable=SC3028,SC3054

case $- in *f*) _cld_noglob=f ;; *) _cld_noglob= ;; esac
set +f
_cld_root=
if [ -n "${BASH_VERSION:-}" ]; then
  # In any other shell this line is not reached; it parses there as well.
  _cld_root=$(dirname "${BASH_SOURCE:-.}")
else
  # While a plain sh reads this file it holds it open; only the shell's own process has that descriptor.
  for _cld_file in "/proc/$$/fd"/*; do
    _cld_file=$(readlink "$_cld_file" 2>/dev/null || true)
    case $_cld_file in */env.sh) _cld_root=${_cld_file%/env.sh} ;; esac
  done
  [ -n "$_cld_root" ] || _cld_root=.
fi
_cld_root=$(CDPATH='' cd -P "$_cld_root" 2>/dev/null && pwd)

# _cld_first PATHLIST FOLDER: the list with the folder in front, and nowhere else in it: it may stand behind that of
# another checkout, or of this one before it was moved.
_cld_first() {
  _cld_list=:$1:
  while case $_cld_list in *:"$2":*) ;; *) false ;; esac; do
    _cld_list=${_cld_list%%:"$2":*}:${_cld_list#*:"$2":}
  done
  _cld_list=${_cld_list#:} _cld_list=${_cld_list%:}
  printf '%s' "$2${_cld_list:+:$_cld_list}"
}

_cld_status=1
if [ ! -f "$_cld_root/docker/build_caffe.sh" ]; then
  echo "env.sh: run this from the repository's folder" >&2
elif [ ! -f "$_cld_root/.venv/.setup-key" ] || [ ! -x "$_cld_root/.caffe/bin/caffe" ]; then
  echo "env.sh: $_cld_root is not set up yet: run make setup there" >&2
elif ! "$_cld_root/docker/install_python.sh" --check "$_cld_root/.venv"; then
  echo "env.sh: $_cld_root was moved, and the commands in its .venv/ were not told: run make setup there" >&2
else
  PATH=$(_cld_first "$PATH" "$_cld_root/.caffe/bin")
  PATH=$(_cld_first "$PATH" "$_cld_root/.venv/bin")
  for _cld_file in "$_cld_root"/.venv/lib/python3*/site-packages "$_cld_root/.caffe/python" "$_cld_root"; do
    PYTHONPATH=$(_cld_first "${PYTHONPATH:-}" "$_cld_file")
  done
  # OMP_NUM_THREADS is the number of all layers' threads: more of BLAS cost more than they bring. A thread that waits
  # sleeps, or it takes what other processes could use.
  OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}
  OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
  # Files are UTF-8, whatever the locale.
  PYTHONUTF8=1
  # Another Python's library, with which this one would not start.
  unset PYTHONHOME
  export PATH PYTHONPATH OPENBLAS_NUM_THREADS OMP_WAIT_POLICY PYTHONUTF8
  _cld_status=0
fi
[ -z "$_cld_noglob" ] || set -f
unset _cld_root _cld_file _cld_list _cld_noglob
unset -f _cld_first
# The status is the last command's, since a file that is sourced may be in no function to return from.
if [ "$_cld_status" -eq 0 ]; then unset _cld_status; else unset _cld_status; false; fi
