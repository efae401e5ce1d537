#!/usr/bin/env bash
# Prove on one GPU, in about ten minutes, what docs/gpu.md says of it: make prove-gpu [ARGS=FOLDER]
# The tests, the speed table, where an iteration spends its time, memcheck of the kernels' tests (with CUDA's
# compute-sanitizer on PATH), and a training of seven methods. A step that fails does not keep the next from running; the last
# line counts them. Output goes to FOLDER, which must be new (.build/gpu-TIME). MODE=CPU runs the trainings alone, on a
# processor: a trial of this script.
set -uo pipefail
out=${1:-.build/gpu-$(date +%Y%m%d-%H%M%S)} mode=${MODE:-GPU} failed=0
mkdir -p "$(dirname "$out")" && mkdir "$out" || exit 1
export TQDM_DISABLE=1 GLOG_minloglevel=2

# step NAME COMMAND…: run it with its output in FOLDER/NAME.log; say how it ended.
step() {
  local name=$1 begin=$SECONDS how=passed
  shift
  "$@" >"$out/$name.log" 2>&1 </dev/null || { how="FAILED ($?)" failed=$((failed + 1)); }
  printf '%-24s %s, %d s: %s\n' "$name" "$how" $((SECONDS - begin)) "$(tail -n 1 "$out/$name.log" | cut -c1-100)"
}

net() { python -c "
from google.protobuf import text_format
from bench import training
print(text_format.MessageToString(training.net_in_memory(with_mda=$2, **training.settings('$1'))))" >"$out/$1-$2.prototxt"; }

if [ "$mode" = GPU ]; then
  step device nvidia-smi -L
  step tests env REQUIRE_GPU=1 CAFFE_CUDNN_DETERMINISTIC=1 python -m pytest -q -m "gpu and not torch and not browser"
  step bench python -m tools.bench --gpu 0 --seconds 1
  for mda in True False; do
    net resnet18 $mda
    step "time-resnet18-mda-$mda" caffe time -model "$out/resnet18-$mda.prototxt" -gpu 0 -iterations 20
  done
  if command -v compute-sanitizer >/dev/null; then
    step memcheck compute-sanitizer --error-exitcode 1 python -m pytest -q -m gpu tests/docker/test_scale_gpu.py \
      tests/docker/test_depthwise.py tests/caffe_layers/test_mda.py
  else
    echo "memcheck: left out, there is no compute-sanitizer on PATH"
  fi
fi
step data python -m tools.get_data demo --out "$out/data"
for method in source_only dial mda multi_source random_w kmeans_w ghost_w; do
  step "write-$method" python -m tools.write_run --dataset demo --data "$out/data" --method $method --iterations 60 \
    --solver-mode "$mode" "$out/runs/$method"
  step "train-$method" python -m tools.train "$out/runs/$method"
done
echo "$failed steps failed; their output is in $out"
[ $failed -eq 0 ]
