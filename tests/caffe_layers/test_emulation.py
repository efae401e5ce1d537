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
template <typename T>
__device__ T block_sum(T value) {
  __shared__ T parts[32];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  if (threadIdx.x % warpSize == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : T(0);
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK) sums(const float* __restrict__ x, double* y, float* z, int n) {
  const float* row = x + (long long)blockIdx.x * n;
  double sum = 0;
  float most = -1e30f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i];
  for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, row[i]);
  sum = block_sum(sum);
  float count = block_sum(most > -1e30f ? 1.0f : 0.0f);
  if (threadIdx.x == 0) {
    y[blockIdx.x] = sum;
    z[blockIdx.x] = count;
  }
}

extern "C" __global__ void shuffles(int* down, double* across, float* from, unsigned long long* wide) {
  int i = threadIdx.x;
  down[i] = __shfl_down_sync(0xffffffffu, i, 3, 8);
  across[i] = __shfl_xor_sync(0xffffffffu, 1.0 / (i + 1), 9, 16);
  from[i] = __shfl_sync(0xffffffffu, 0.5f * i, 2, 8);
  if (i < 12) wide[i] = __shfl_xor_sync(0xfffu, (1ull << 40) + i, 1);
}

extern "C" __global__ void atomics(const int* x, int* i, unsigned long long* u, float* f, double* d, int n) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  atomicAdd(&i[0], x[at]);
  atomicMax(&i[1], x[at]);
  atomicMin(&i[2], x[at]);
  atomicAdd(u, (unsigned long long)at << 20);
  atomicAdd(f, 0.5f);
  unsigned long long* address = (unsigned long long*)d;
  (void)address;
  atomicAdd(d, 0.25 * x[at]);
  while (atomicCAS(&i[3], 0, 1) != 0) {}
  __threadfence();
  *(volatile int*)&i[4] = *(volatile int*)&i[4] + 1;
  __threadfence();
  atomicExch(&i[3], 0);
}

// The last block to finish adds up what all blocks left.
extern "C" __global__ void last_block(const float* x, float* parts, int* count, float* total) {
  __shared__ bool last;
  float sum = block_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(count, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x >= 32) return;
  sum = 0;
  for (int i = threadIdx.x; i < gridDim.x; i += 32) sum += parts[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (threadIdx.x == 0) *total = sum;
}

extern "C" __global__ void sequence(int* count, int* blocks, int* threads) {
  __shared__ int at[32];
  at[threadIdx.x] = atomicAdd(count, 1);
  blocks[at[threadIdx.x]] = blockIdx.x;
  threads[at[threadIdx.x]] = threadIdx.x;
}

extern "C" __global__ void optional(const float* x, float* y) { y[threadIdx.x] = x ? x[threadIdx.x] : -1.0f; }
"""


@pytest.fixture(scope="module")
def right():
    return emulator.compile(RIGHT, ("-std=c++14", "-DBLOCK=1024"))


X = np.zeros(8, np.float32)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("block", [32, 256, 1024])
def test_a_block_sums_through_shared_memory(right, block, order):
    x = np.random.default_rng(block).normal(size=(3, 777)).astype(np.float32)
    y, z = np.full(3, np.nan), np.full(3, np.nan, np.float32)
    right.launch("sums", (3,), (block,), (x, y, z, np.int32(777)), order=order, seed=block)
    np.testing.assert_allclose(y, x.sum(axis=1, dtype=float), rtol=1e-12)
    assert z.tolist() == [min(block, 777)] * 3


def test_shuffles(right):
    i = np.arange(32)
    down, across, given = np.zeros(32, np.int32), np.zeros(32), np.zeros(32, np.float32)
    wide = np.zeros(12, np.uint64)
    right.launch("shuffles", (1,), (32,), (down, across, given, wide))
    # Down by 3 in groups of 8: who has nobody there keeps its own.
    assert np.array_equal(down, np.where(i % 8 < 5, i + 3, i))
    assert np.array_equal(across, 1 / ((i ^ 9) + 1))
    assert np.array_equal(given, 0.5 * (i // 8 * 8 + 2))
    assert np.array_equal(wide, (1 << 40) + (np.arange(12, dtype=np.uint64) ^ np.uint64(1)))


@pytest.mark.parametrize("order", ORDERS)
def test_atomics_and_a_lock(right, order):
    x = np.random.default_rng(1).integers(-50, 50, 150).astype(np.int32)
    i, u = np.array([5, -99, 99, 0, 0], np.int32), np.zeros(1, np.uint64)
    f, d = np.zeros(1, np.float32), np.ones(1)
    right.launch("atomics", (3,), (64,), (x, i, u, f, d, np.int32(150)), order=order)
    assert i.tolist() == [5 + x.sum(), x.max(), x.min(), 0, 150]
    assert (u[0], f[0], d[0]) == (sum(range(150)) << 20, 75, 1 + x.sum() / 4)


@pytest.mark.parametrize("order", ORDERS)
def test_the_last_block_reads_what_all_have_fenced(right, order):
    x = np.random.default_rng(3).normal(size=640).astype(np.float32)
    parts, count, total = np.zeros(10, np.float32), np.zeros(1, np.int32), np.zeros(1, np.float32)
    right.launch("last_block", (10,), (64,), (x, parts, count, total), order=order)
    assert total[0] == pytest.approx(x.sum(dtype=float), rel=1e-5)


def test_traffic(right):
    x, y, z = np.zeros((3, 100), np.float32), np.zeros(3), np.zeros(3, np.float32)
    traffic = right.launch("sums", (3,), (64,), (x, y, z, np.int32(100)))
    assert traffic == {"x": (2 * x.nbytes, 0), "y": (0, y.nbytes), "z": (0, z.nbytes)}
    assert right.launch("optional", (1,), (2,), (None, z)) == {"y": (0, 8)} and z[:2].tolist() == [-1, -1]
    count, blocks, threads = np.zeros((3, 32), np.int32)
    assert right.launch("sequence", (1,), (32,), (count, blocks, threads))["count"] == (128, 128)


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
    "no_fence": Wrong(
        "x[1 + blockIdx.x] = 1; if (atomicAdd((int*)x, 1)) x[3] = x[1] + x[2];",
        "reads 4 " + RACE + r"another block, \([01], 0, 0\), writes it",
        grid=2,
        block=1,
    ),
    # Who waits where others do not.
    "two_barriers": Wrong(
        "if (threadIdx.x < 32) {\n __syncthreads();\n } else {\n __syncthreads();\n }",
        r"waits at __syncthreads in line \d+, but thread \(\d+, 0, 0\) waits at that of line \d+",
    ),
    "lane_not_in_mask": Wrong(
        "if (threadIdx.x < 8) __shfl_down_sync(0xffu, 1.0f, 4);",
        r"for the value of lane \d+, which mask 0x000000ff does",
    ),
    # Who leaves an array.
    "reads_behind": Wrong(
        "if (x[threadIdx.x + 1] > 7) x[0] = 1;",
        r"block \(0, 0, 0\), thread \(63, 0, 0\): reads 4 bytes at byte 256 of x, which has 256 \(wrong.cu:\d+\)",
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
    "too_much_shared": Wrong(
        "__shared__ double t[6145]; t[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = t[n];",
        r"49160 bytes of shared memory, but 49152 is the most",
    ),
}


@pytest.fixture(scope="module")
def wrong():
    head = 'extern "C" __global__ void'
    kernels = (f"{head} {name}(float* x, int n) {{\n{case.body}\n}}\n" for name, case in WRONG.items())
    return emulator.compile("".join(kernels), name="wrong.cu")


@pytest.mark.parametrize("kernel", WRONG)
def test_what_is_wrong_ends_the_launch(wrong, kernel):
    case = WRONG[kernel]
    for order in ORDERS:
        x = np.zeros(64, np.float32)
        with pytest.raises(emulator.EmulationError) as caught:
            wrong.launch(kernel, (case.grid,), (case.block,), (x, np.int32(case.n)), order=order)
        message = str(caught.value)
        assert message.startswith(f"kernel {kernel}, "), message
        assert re.search(case.message, message), message
        assert not x.any()  # the caller's array is as it was


def test_waiting_for_ever():
    module = emulator.compile('extern "C" __global__ void k(float* x) { while (*(volatile float*)x < 1) {} }')
    with pytest.raises(emulator.EmulationError, match=r"kernel k, .*: .*no thread has ended or met others for long"):
        module.launch("k", (1,), (2,), (np.zeros(1, np.float32),))


def test_the_lines_named_are_the_sources():
    lines = ["__device__ float read(const float* x, int i) {", "  return x[i];", "}"]
    lines += ['extern "C" __global__ void k(const float* x, float* y) {', "  y[0] = read(x, 4);", "}"]
    module = emulator.compile("\n".join(lines), name="some.cu")
    x = np.zeros(4, np.float32)
    with pytest.raises(emulator.EmulationError, match=r"reads 4 bytes at byte 16 of x, which has 16 \(some.cu:2\)"):
        module.launch("k", (1,), (1,), (x, x.copy()))


@pytest.mark.parametrize("arguments", [(X,), (X.astype(float), X), (X[::2], X)])
def test_arguments_that_the_kernel_does_not_declare(right, arguments):
    with pytest.raises(TypeError, match="kernel optional"):
        right.launch("optional", (1,), (4,), arguments)


def test_too_many_threads_and_what_does_not_compile(right):
    with pytest.raises(ValueError, match="kernel optional: 2048 threads a block, but 1024 is the most it may have"):
        right.launch("optional", (1,), (1024, 2), (X, X))
    with pytest.raises(ValueError, match=r"some.cu:2:.*'sin' was not declared"):
        emulator.compile('extern "C" __global__ void k(float* x) {\n  x[0] = sin(1.0f);\n}', name="some.cu")
