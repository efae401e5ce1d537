// What the kernels of every source share; it stands before them (see _cuda_source).

const float LARGEST = 3.4e38f;  // nearly; larger ones are as good as infinite

// Tells the host, which reads the word before a later step, of a row that is wrong: its number + 1 in the upper half, a
// value in the lower (see _backend.Fault).
__device__ void report(unsigned long long* fault, int row, float value) {
  *(volatile unsigned long long*)fault = (unsigned long long)(row + 1) << 32 | (unsigned)__float_as_int(value);
}

// The sum over `count` neighbouring threads, in all of them: a power of two up to 32, or all of the block.
__device__ double over_threads(double value, int count) {
  __shared__ double parts[32];
  int thread = threadIdx.y * blockDim.x + threadIdx.x;
  for (int step = min(count, 32) / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
  if (count > 32) {
    __syncthreads();  // whoever reads the sum before this one has done so
    if (thread % 32 == 0) parts[thread / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < count / 32; ++warp) value += parts[warp];
  }
  return value;
}
