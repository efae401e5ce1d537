#!/bin/sh
# Whether Caffe runs and, where the container has GPUs, reaches every one of them.
set -eu
if [ "$CAFFE_VARIANT" = cuda ] && [ -n "$(find /dev -maxdepth 1 -name 'nvidia[0-9]*' -o -name dxg)" ]; then
  exec caffe device_query -gpu all
fi
exec caffe --version
