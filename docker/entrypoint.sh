#!/bin/sh
# The image's entry point: run a command as somebody who may write results, and never as root unless that is asked for.
#
# Docker starts it as root. It then becomes the owner of the folder that is mounted on runs/, else on tables/, else on
# data/, else the image's own user, caffe, and keeps the groups that docker run --group-add gave; what root has left in
# these folders is given to that user (Docker makes a missing folder as root). With --user it runs as that user, whom
# /etc/passwd need not know. It stays root where STAY_ROOT is set, and where root is but the name that a user of the
# machine has inside (rootless engines).
set -eu
runs=$WORKSPACE/runs tables=$WORKSPACE/tables data=$WORKSPACE/data

say() { printf 'entrypoint: %s\n' "$*" >&2; }

# Inside a user namespace, the first number that /proc has for root is that of the user outside.
read -r _ outside _ </proc/self/uid_map

if [ "$(id -u)" -eq 0 ] && [ "$outside" -eq 0 ] && [ -z "${STAY_ROOT:-}" ]; then
  own=$(id -u caffe)
  user=$own group=$(id -g caffe)
  for folder in "$data" "$tables" "$runs"; do
    owner=$(stat -c %u "$folder" 2>/dev/null || echo 0)
    case $owner in 0 | "$own") ;; *) user=$owner group=$(stat -c %g "$folder") ;; esac
  done
  # Results are written over; of data, it is enough that new files can be made.
  find "$runs" "$tables" -xdev -user 0 -exec chown -h "$user:$group" {} + 2>/dev/null || true
  find "$data" -maxdepth 0 -user 0 -exec chown "$user:$group" {} + 2>/dev/null || true
  given=$(id -G | tr ' ' '\n' | grep -vx 0 | paste -sd , -)
  if [ -n "$given" ]; then groups="--groups $given"; else groups=--clear-groups; fi
  # shellcheck disable=SC2086  # two words
  setpriv --reuid "$user" --regid "$group" $groups true 2>/dev/null || {
    say "root may not become user $user here: start the container with --user $user:$group"
    exit 1
  }
  # shellcheck disable=SC2086
  exec setpriv --reuid "$user" --regid "$group" $groups --inh-caps=-all -- "$0" "$@"
fi

for folder in "$runs" "$tables"; do
  [ -w "$folder" ] || say "user $(id -u) cannot write to $folder: results will be lost; give the folder that is mounted" \
    "there to that user, or start the container with --user \"\$(id -u):\$(id -g)\""
done
[ "$CAFFE_VARIANT" = cpu ] || [ -n "$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' -o -name dxg)" ] ||
  say "no GPU in this container, so that only CPU mode will work; docker run --gpus all gives it those of the machine"
if [ "$CAFFE_VARIANT-$CAFFE_CUDA" = cuda-13 ]; then
  # "… Kernel Module  535.154.05  …", or "… for x86_64  580.65.06  …"
  driver=$(cat /proc/driver/nvidia/version 2>/dev/null | sed -nE '1s/.* ([0-9]+)(\.[0-9]+)+ .*/\1/p')
  [ "${driver:-580}" -ge 580 ] ||
    say "the driver of this machine, $driver, is older than 580, with which CUDA 13 begins: only CPU mode will work; update the" \
      "driver, or build the image with --build-arg CUDA=11.8"
fi

# As process 1 a program that handles no signal could not be stopped: tini is that process, and passes signals on.
exec tini -s -- "$@"
