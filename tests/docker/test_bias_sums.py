"""19-bias-sums.patch, without a GPU: its few lines are compiled for the CPU, whose BLAS has the same calls."""

import subprocess
from pathlib import Path

from latent_domains.common.program import ROOT
from tests.docker.patched import LIBRARIES, unpack

PROGRAM = r"""
#define CPU_ONLY
#include <cmath>
#include <cstdio>
#include "caffe/layers/bias_layer.hpp"
#include "caffe/util/math_functions.hpp"
#define gpu_data cpu_data
#define gpu_diff cpu_diff
#define mutable_gpu_data mutable_cpu_data
#define mutable_gpu_diff mutable_cpu_diff
#define caffe_gpu_gemv caffe_cpu_gemv
namespace caffe {
%s
}
using namespace caffe;

// The gradients of a bias by the loop and by the patch, which begins with the same numbers: a layer's own is added to.
void compare(BiasLayer<float>& layer, std::vector<Blob<float>*> bottom, Blob<float>& y, Blob<float>& bias) {
  std::vector<Blob<float>*> top(1, &y);
  layer.Reshape(bottom, top);
  for (int i = 0; i < y.count(); ++i) y.mutable_cpu_diff()[i] = std::sin(1.0 + i);
  float found[2][16];
  for (int gpu = 0; gpu < 2; ++gpu) {
    for (int c = 0; c < bias.count(); ++c) bias.mutable_cpu_diff()[c] = 10;
    std::vector<bool> wanted(bottom.size(), true);
    if (gpu) layer.BiasLayer<float>::Backward_gpu(top, wanted, bottom);
    else layer.BiasLayer<float>::Backward_cpu(top, wanted, bottom);
    for (int c = 0; c < bias.count(); ++c) found[gpu][c] = bias.cpu_diff()[c];
  }
  for (int c = 0; c < bias.count(); ++c) std::printf("%%.7g %%.7g\n", found[0][c], found[1][c]);
}

int main() {
  LayerParameter param;
  param.mutable_bias_param()->set_axis(1);
  const int shapes[][4] = {{7, 5, 3, 2}, {2, 5, 9, 9}, {6, 5, 1, 1}, {1, 5, 3, 3}};
  Blob<float> x(7, 5, 3, 2), bias(std::vector<int>(1, 5)), y, z;
  BiasLayer<float> own(param), given(param);
  std::vector<Blob<float>*> one = {&x}, two = {&x, &bias}, top = {&y}, other = {&z};
  own.SetUp(one, top);
  given.SetUp(two, other);
  for (auto& shape : shapes) {
    x.Reshape(shape[0], shape[1], shape[2], shape[3]);
    compare(own, one, y, *own.blobs()[0]);
    compare(given, two, z, bias);
  }
  param.mutable_bias_param()->set_num_axes(0);
  BiasLayer<float> scalar(param);
  scalar.SetUp(one, top);
  compare(scalar, one, y, *scalar.blobs()[0]);
}
"""


def test_the_sums_are_those_of_the_loop(tmp_path: Path) -> None:
    file = "src/caffe/layers/bias_layer.cu"
    unpack(tmp_path, "19-bias-sums.patch", file)
    _, begin, rest = (tmp_path / file).read_text().rpartition("template <typename Dtype>\nvoid BiasLayer")
    (tmp_path / "bias.cpp").write_text(PROGRAM % (begin + rest.partition("INSTANTIATE")[0]))
    command = ["g++", "-O1", f"-I{ROOT}/.caffe/include", "-o", "bias", "bias.cpp", *LIBRARIES, "-lboost_system"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "bias"], capture_output=True, text=True, check=True)
    pairs = [tuple(map(float, line.split())) for line in done.stdout.splitlines()]
    assert len(pairs) == 4 * 2 * 5 + 1
    assert all(abs(one - other) < 1e-5 and one != 10 for one, other in pairs)
