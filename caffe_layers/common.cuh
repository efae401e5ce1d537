// What the kernels of every source share; it stands before them (see _cuda_source).

const float LARGEST = 3.4e38f;  // nearly; larger ones are as good as infinite

// What may be wrong (_backend.Place).
enum Place { ROW = 1, COLUMN, CHANNEL };

// Reports a wrong value to the host, which reads the word before a later step: the place in two bits, its number in
// thirty, the value in the lower half (see _backend.Fault). That step may have another shape, so no number here depends
// on the shape.
__device__ void report(unsigned long long* fault, Place place, int number, float value) {
  unsigned long long upper = (unsigned long long)place << 30 | number;
  *(volatile unsigned long long*)fault = upper << 32 | (unsigned)__float_as_int(value);
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
