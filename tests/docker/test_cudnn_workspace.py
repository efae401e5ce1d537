"""29-cudnn-workspace.patch, without a GPU: the workspace that layers share, with stand-ins for CUDA's memory."""

import subprocess
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>
#define CUDA_CHECK(call) do { if (call) std::abort(); } while (0)
enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation = 2 };
static int device = 0, taken = 0;
static const size_t ROOM = 100;
static cudaError_t cudaGetDevice(int* number) { *number = device; return cudaSuccess; }
static cudaError_t cudaGetLastError() { return cudaSuccess; }
static cudaError_t cudaFree(void* data) { if (data) { --taken; std::free(data); } return cudaSuccess; }
static cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (bytes > ROOM) { return cudaErrorMemoryAllocation; }
  ++taken;
  *data = std::malloc(bytes);
  return cudaSuccess;
}
%s
static void say(const char* what, bool right) { std::printf("%%s: %%d\n", what, right); }
int main() {
  say("nothing for no bytes", !workspace(0, 0) && taken == 0);
  void* first = workspace(0, 50);
  say("one memory for all that fit", first && workspace(0, 20) == first && workspace(0, 50) == first && taken == 1);
  say("another for another stream", workspace(1, 50) && workspace(1, 50) != first && taken == 2);
  say("a larger one in its place", workspace(0, 80) && workspace(0, 50) == workspace(0, 80) && taken == 2);
  device = 1;
  say("another for another GPU", workspace(0, 10) && taken == 3);
  device = 0;
  void* before = workspace(0, 80);
  say("none where there is no room", !workspace(0, 101));
  say("what others count on stays", workspace(0, 80) == before && taken == 3);
  std::thread([] { say("another for another thread", workspace(0, 10) && taken == 4); }).join();
  say("which goes with the thread", taken == 3);
}
"""


def test_cudnn_workspace_the_workspace_that_layers_share(tmp_path: Path) -> None:
    text = (ROOT / "docker/patches/29-cudnn-workspace.patch").read_text().split("--- a/src/caffe/util/cudnn.cpp")[1]
    added = "\n".join(line[1:] for line in text.splitlines() if line.startswith("+") and not line.startswith("+++"))
    code = added[added.index("namespace {") :]
    (tmp_path / "workspace.cpp").write_text(PROGRAM % code)
    command = ["g++", "-O1", "-Wall", "-Werror", "-pthread", "-o", "workspace", "workspace.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "workspace"], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 9 and all(line.endswith(": 1") for line in lines), done.stdout
