"""The emulator: what kernels compute in it, and that it finds what a GPU would silently get wrong."""

import re
from typing import NamedTuple

import numpy as np
import pytest

from tests.caffe_layers.emulation import emulator

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++, which compiles kernels for the emulator"),
]

ORDERS = ("forward", "reverse", "shuffled")

RIGHT = """
extern "C" __global__ void __launch_bounds__(BLOCK) sums(const float* __restrict__ x, double* y, float* z, int n) {
  __shared__ double parts[32];
  const float* row = x + (long long)blockIdx.x * n;
  double sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
  if (z && threadIdx.x == 0) z[blockIdx.x] = 1;
}
"""

X = np.zeros(8, np.float32)


@pytest.fixture(scope="module")
def right():
    return emulator.compile(RIGHT, ("-std=c++14", "-DBLOCK=1024"))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("block", [32, 1024])
def test_emulation_a_block_sums_through_shared_memory(right, block, order):
    x = np.random.default_rng(block).normal(size=(3, 777)).astype(np.float32)
    y, z = np.full(3, np.nan), np.full(3, np.nan, np.float32)
    traffic = right.launch("sums", (3,), (block,), (x, y, z, np.int32(777)), order=order, seed=block)
    np.testing.assert_allclose(y, x.sum(axis=1, dtype=float), rtol=1e-12)
    assert traffic == {"x": (x.nbytes, 0), "y": (0, y.nbytes), "z": (0, z.nbytes)} and z.tolist() == [1, 1, 1]
    assert right.launch("sums", (3,), (block,), (x, y, None, np.int32(777))).keys() == {"x", "y"}


class Wrong(NamedTuple):
    """The body of a kernel on 64 zeros x that does what CUDA forbids or leaves undefined, and the message about it."""

    body: str
    message: str
    grid: int = 1
    block: int = 64
    n: int = 0


RACE = r"bytes at byte \d+ of x, which has 256: a race, "
SHARED_RACE = r"bytes at byte \d+ of shared s, which has 256: a race, "
SHARED = "__shared__ float s[64]; int i = threadIdx.x;"
WRONG = {
    # Who forgets to wait.
    "missing_barrier": Wrong(
        SHARED + "s[i] = i;\n __syncthreads();\n s[i] = 2 * i;\n x[i] = s[63 - i];",
        SHARED_RACE + r"thread \(\d+, 0, 0\) (reads|writes) it with nothing between them \(\w+.cu:\d+ and \w+.cu:\d+\)",
    ),
    "two_blocks": Wrong("x[0] = n;", "writes 4 " + RACE + r"another block, \([01], 0, 0\), writes it", grid=2, block=1),
    # Who waits where others do not.
    "two_barriers": Wrong(
        "if (threadIdx.x < 32) {\n __syncthreads();\n } else {\n __syncthreads();\n }",
        r"waits at __syncthreads in line \d+, but thread \(\d+, 0, 0\) waits at that of line \d+",
    ),
    "lane_not_in_mask": Wrong(
        "if (threadIdx.x < 8) __shfl_xor_sync(0xffu, 1.0f, 8);",
        r"for the value of lane \d+, which mask 0x000000ff does",
    ),
    # Who leaves an array.
    "reads_behind": Wrong(
        "if (value(x, threadIdx.x + 1) > 7) x[0] = 1;",
        r"block \(0, 0, 0\), thread \(63, 0, 0\): reads 4 bytes at byte 256 of x, which has 256 \(wrong.cu:2\)",
    ),
    "shared_index": Wrong(SHARED + "s[i + n] = 0;", r"thread \(\d+, 0, 0\): uses index \d+ of 'float \[64\]'", n=1),
    # Who reads what nobody wrote.
    "unwritten": Wrong(
        SHARED + "if (i == 0 && blockIdx.x == 0) s[3] = 1; __syncthreads(); if (i == 1) x[0] = s[3];",
        r"block \(1, 0, 0\), thread \(1, 0, 0\): reads 4 bytes at byte 12 of shared s.*: this block has written",
        grid=2,
    ),
    # Addresses that a GPU refuses, and arithmetic that C++ does not define.
    "misaligned_quad": Wrong(
        "x[threadIdx.x] = ((const float4*)(x + n))->y;",
        r"a 'const struct float4' at an address that is not a .* 16",
        n=1,
    ),
    "overflow": Wrong("x[0] = n * n;", r"a product does not fit into 'int' \(wrong.cu:\d+\)", n=2**16),
    "waits_for_ever": Wrong("while (*(volatile float*)x < 1) {}", "no thread has ended or met others for long"),
    "too_much_shared": Wrong(
        "__shared__ double t[6145]; t[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = t[n];",
        r"49160 bytes of shared memory, but 49152 is the most",
    ),
}


@pytest.fixture(scope="module")
def wrong():
    head = 'extern "C" __global__ void'
    kernels = (f"{head} {name}(float* x, int n) {{\n{case.body}\n}}\n" for name, case in WRONG.items())
    helper = "__device__ float value(const float* x, int i) {\n  return x[i];\n}\n"
    return emulator.compile(helper + "".join(kernels), name="wrong.cu")


@pytest.mark.parametrize("kernel", WRONG)
def test_emulation_what_is_wrong_ends_the_launch(wrong, kernel):
    case = WRONG[kernel]
    for order in ORDERS:
        x = np.zeros(64, np.float32)
        with pytest.raises(emulator.EmulationError) as caught:
            wrong.launch(kernel, (case.grid,), (case.block,), (x, np.int32(case.n)), order=order)
        message = str(caught.value)
        assert message.startswith(f"kernel {kernel}, "), message
        assert re.search(case.message, message), message
        assert not x.any()  # the caller's array is as it was


@pytest.mark.parametrize("first", [X.astype(float), np.zeros(16, np.float32)[::2], np.float32(1)])
def test_emulation_arguments_that_the_kernel_does_not_declare(right, first):
    with pytest.raises(TypeError, match="kernel sums, argument x: "):
        right.launch("sums", (1,), (32,), (first, np.zeros(1), None, np.int32(8)))


def test_emulation_too_many_threads_and_what_does_not_compile(right):
    with pytest.raises(ValueError, match="kernel sums: 2048 threads a block, but 1024 is the most it may have"):
        right.launch("sums", (1,), (1024, 2), (X, np.zeros(1), None, np.int32(8)))
    with pytest.raises(ValueError, match=r"some.cu:2:.*'sin' was not declared"):
        emulator.compile('extern "C" __global__ void k(float* x) {\n  x[0] = sin(1.0f);\n}', name="some.cu")
