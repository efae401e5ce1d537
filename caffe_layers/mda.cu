// mDA on the GPU. NVRTC compiles it for a number of domains, -DDOMAINS=D, and for rows of one value, -DFLAT=1, or of
// several, -DFLAT=0. The formulas it calls stand before this text (see _cuda_source).
//
// Shapes: N samples, C channels, S positions; R = N·C rows of S values. What has x's size is float, what is smaller is
// double; the coefficients of a row are rounded to float once and then read with it. Every sum is taken in a fixed
// order: a step gives the same bits each time.

// ---------------------------------------------------------------------------------------------------------------
// Rows. `lanes` threads share a row: a power of two up to 32, or all of the block.

struct Row {
  long long index;  // sample · C + channel
  long long start;  // of the row in the array
  int size, lanes, lane;
  int head;   // values before the first address that a float4 may have
  int quads;  // groups of four from there
};

// Threads left over in the last block get an empty row, so that they take part in sums.
__device__ Row row_of(const float* x, long long block, long long rows, int size, int lanes) {
  Row row;
  row.index = block * (blockDim.x / lanes) + threadIdx.x / lanes;
  row.size = row.index < rows ? size : 0;
  row.start = row.index < rows ? row.index * size : 0;
  row.lanes = lanes;
  row.lane = threadIdx.x % lanes;
  int past = (int)(((unsigned long long)(x + row.start) & 15) / 4);
  row.head = min((4 - past) & 3, row.size);
  row.quads = (row.size - row.head) / 4;
  return row;
}

// Calls one(s) for each single value of this thread's share of a row, four(q) for each group of four, and join() after
// at most RUN groups: it adds the sums of floats to doubles while they are short.
const int RUN = 16;

template <class One, class Four, class Join>
__device__ __forceinline__ void each(const Row& row, One one, Four four, Join join) {
  int tail = row.head + 4 * row.quads;
  int singles = row.size - 4 * row.quads;
  for (int k = row.lane; k < singles; k += row.lanes) one(k < row.head ? k : tail + k - row.head);
  join();
  for (int start = row.lane; start < row.quads; start += row.lanes * RUN) {
    int end = min(start + row.lanes * RUN, row.quads);
#pragma unroll 4
    for (int q = start; q < end; q += row.lanes) four(q);
    join();
  }
}

__device__ __forceinline__ const float4* quads_of(const float* x, const Row& row) {
  return (const float4*)(x + row.start + row.head);
}

__device__ __forceinline__ float4* quads_of(float* x, const Row& row) { return (float4*)(x + row.start + row.head); }

// Mean and biased variance of every row. Each thread subtracts an origin from all values that it reads. Its origin is a
// value of the row, and no other thread has the same one. So the squared distances of the origins from the mean are all
// terms of the row's sum of squares, and rounding errors grow at most with the number of values of a thread.
extern "C" __global__ void row_moments(const float* __restrict__ x, double* __restrict__ mean,
                                       double* __restrict__ variance, long long rows, int size, int lanes) {
  Row row = row_of(x, blockIdx.x, rows, size, lanes);
  const float* values = x + row.start;
  const float4* quads = quads_of(x, row);
  float origin = row.size ? values[min(row.lane, row.size - 1)] : 0;
  float run = 0, run_square = 0;
  double sum = 0, square = 0;
  int count = 0;
  each(
      row,
      [&](int s) {
        float d = values[s] - origin;
        run += d;
        run_square += d * d;
        ++count;
      },
      [&](int q) {
        float4 v = quads[q];
        float a = v.x - origin, b = v.y - origin, c = v.z - origin, d = v.w - origin;
        run += (a + b) + (c + d);
        run_square += (a * a + b * b) + (c * c + d * d);
        count += 4;
      },
      [&]() {
        sum += run;
        square += run_square;
        run = run_square = 0;
      });
  double m = over_threads(count * (double)origin + sum, lanes) / size;
  double step = m - origin;
  double v = over_threads(square - step * (2 * sum - count * step), lanes) / size;
  if (row.size && row.lane == 0) {
    mean[row.index] = m;
    variance[row.index] = v < 0 ? 0 : v;
  }
}

// G = Σ_s g and Σ_s g (x - centre) of every row.
extern "C" __global__ void row_gradients(const float* __restrict__ x, const float* __restrict__ g,
                                         const float* __restrict__ centre, double* __restrict__ grad_sum,
                                         double* __restrict__ grad_dot, long long rows, int size, int lanes) {
  Row row = row_of(x, blockIdx.x, rows, size, lanes);
  const float4 *quads = quads_of(x, row), *grad_quads = quads_of(g, row);
  float origin = row.size ? centre[row.index] : 0;
  float run = 0, run_dot = 0;
  double sum = 0, dot = 0;
  each(
      row,
      [&](int s) {
        float grad = g[row.start + s];
        run += grad;
        run_dot += grad * (x[row.start + s] - origin);
      },
      [&](int q) {
        float4 v = quads[q], d = grad_quads[q];
        run += (d.x + d.y) + (d.z + d.w);
        run_dot += (d.x * (v.x - origin) + d.y * (v.y - origin)) + (d.z * (v.z - origin) + d.w * (v.w - origin));
      },
      [&]() {
        sum += run;
        dot += run_dot;
        run = run_dot = 0;
      });
  sum = over_threads(sum, lanes);
  dot = over_threads(dot, lanes);
  if (row.size && row.lane == 0) {
    grad_sum[row.index] = sum;
    grad_dot[row.index] = dot;
  }
}

// y = scale (x - centre) + offset. This kernel and the next begin with the last row, because the cache still holds the
// end of x from the kernel before.
extern "C" __global__ void row_affine(const float* __restrict__ x, const float* __restrict__ centre,
                                      const float* __restrict__ scale, const float* __restrict__ offset,
                                      float* __restrict__ y, long long rows, int size, int lanes) {
  Row row = row_of(x, gridDim.x - 1 - blockIdx.x, rows, size, lanes);
  if (!row.size) return;
  float c = centre[row.index], a = scale[row.index], b = offset[row.index];
  const float4* quads = quads_of(x, row);
  float4* out = quads_of(y, row);
  each(
      row, [&](int s) { y[row.start + s] = a * (x[row.start + s] - c) + b; },
      [&](int q) {
        float4 v = quads[q];
        out[q] = make_float4(a * (v.x - c) + b, a * (v.y - c) + b, a * (v.z - c) + b, a * (v.w - c) + b);
      },
      []() {});
}

// dx = scale g + slope (x - centre) + offset.
extern "C" __global__ void row_input_gradient(const float* __restrict__ x, const float* __restrict__ g,
                                              const float* __restrict__ centre, const float* __restrict__ scale,
                                              const float* __restrict__ slope, const float* __restrict__ offset,
                                              float* __restrict__ dx, long long rows, int size, int lanes) {
  Row row = row_of(x, gridDim.x - 1 - blockIdx.x, rows, size, lanes);
  if (!row.size) return;
  float c = centre[row.index], a = scale[row.index], k = slope[row.index], b = offset[row.index];
  const float4 *quads = quads_of(x, row), *grad_quads = quads_of(g, row);
  float4* out = quads_of(dx, row);
  each(
      row,
      [&](int s) { dx[row.start + s] = a * g[row.start + s] + (k * (x[row.start + s] - c) + b); },
      [&](int q) {
        float4 v = quads[q], d = grad_quads[q];
        out[q] = make_float4(a * d.x + (k * (v.x - c) + b), a * d.y + (k * (v.y - c) + b),
                             a * d.z + (k * (v.z - c) + b), a * d.w + (k * (v.w - c) + b));
      },
      []() {});
}

// ---------------------------------------------------------------------------------------------------------------
// Small matrices. A block has TILE channels, side by side in memory, and shares out the samples into SLICES parts (both
// macros).

// The sum over the slices of a channel, in all of its threads.
__device__ double over_slices(double value) {
  __shared__ double parts[SLICES][TILE];
  __syncthreads();
  parts[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  double total = 0;
  for (int slice = 0; slice < SLICES; ++slice) total += parts[slice][threadIdx.x];
  return total;
}

// What these kernels read of the rows of x: the moments of their values, and the sums of their gradients. A row of one
// value is its own mean and centre.
struct Rows {
  const float *x, *g;
  const double *row_mean, *row_variance, *sum, *dot;
  const float* row_centre;
#if FLAT
  __device__ double mean(long long at) const { return x[at]; }
  __device__ double variance(long long at) const { return 0; }
  __device__ double centre(long long at) const { return x[at]; }
  __device__ double grad_sum(long long at) const { return g[at]; }
  __device__ double grad_dot(long long at) const { return 0; }
#else
  __device__ double mean(long long at) const { return row_mean[at]; }
  __device__ double variance(long long at) const { return row_variance[at]; }
  __device__ double centre(long long at) const { return row_centre[at]; }
  __device__ double grad_sum(long long at) const { return sum[at]; }
  __device__ double grad_dot(long long at) const { return dot[at]; }
#endif
};

// Writes the masses W (D) and returns whether w is right. A row that is not probabilities is reported, with its sum or
// its least element; so is a column whose entries below zero outweigh its sum, with that sum.
__device__ bool domain_masses(const float* w, int samples, double* mass, unsigned long long* fault) {
  __shared__ int wrong, below_zero;
  int thread = threadIdx.y * TILE + threadIdx.x;
  if (thread == 0) wrong = below_zero = 0;
  __syncthreads();
  double sums[DOMAINS];
  for (int d = 0; d < DOMAINS; ++d) sums[d] = 0;
  for (int i = thread; i < samples; i += TILE * SLICES) {
    float total = 0, least = 1;
    for (int d = 0; d < DOMAINS; ++d) {
      float value = w[(long long)i * DOMAINS + d];
      sums[d] += value;
      total += value;
      least = fminf(least, value);
    }
    if (least < 0) atomicExch(&below_zero, 1);
    bool sums_to_one = fabsf(total - 1) <= SLACK;  // false for NaN
    if (sums_to_one && least >= -SLACK) continue;
    atomicExch(&wrong, 1);
    report(fault, ROW, i, sums_to_one ? least : total);
  }
  for (int d = 0; d < DOMAINS; ++d) {
    double total = over_threads(sums[d], TILE * SLICES);
    if (thread == 0) mass[d] = total;
  }
  __syncthreads();
  for (int d = 0; below_zero && d < DOMAINS; ++d) {
    double below = 0;
    for (int i = thread; i < samples; i += TILE * SLICES) below -= fminf(w[(long long)i * DOMAINS + d], 0);
    below = over_threads(below, TILE * SLICES);
    if (thread != 0 || below <= mass[d]) continue;
    if (!wrong) report(fault, COLUMN, d, mass[d]);
    wrong = 1;
  }
  __syncthreads();
  return !wrong;
}

// Eq. 1-3. First the domains' statistics (D×C): with `fixed` the running ones, else the batch's, which are folded into
// the running sums. If w is wrong, no running sum changes, the result is NaN; if a channel is not finite, its running
// sums do not change. Then, for each row: y if the row is one value, else the coefficients of row_affine.
extern "C" __global__ void __launch_bounds__(TILE * SLICES) statistics(
    const float* __restrict__ x, const double* __restrict__ row_mean,
                                      const double* __restrict__ row_variance, const float* __restrict__ w,
                                      float* mean_sum, float* variance_sum, float* divisor,
                                      double* __restrict__ masses, double* __restrict__ means,
                                      double* __restrict__ variances, double* __restrict__ inverses,
                                      float* __restrict__ centres, float* __restrict__ scales,
                                      float* __restrict__ offsets, float* __restrict__ y, unsigned long long* fault,
                                      int samples, int channels, int size, double eps, double fraction, int fixed) {
  Rows rows = {x, 0, row_mean, row_variance, 0, 0, 0};
  int c = blockIdx.x * TILE + threadIdx.x;
  int slice = c < channels ? threadIdx.y : samples;  // no samples for the channels left over
  bool writes = c < channels && threadIdx.y == 0;
  bool first = blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0;
  double mean[DOMAINS], inverse[DOMAINS], sum[DOMAINS], square[DOMAINS];
  __shared__ double mass[DOMAINS];
  bool right = domain_masses(w, samples, mass, fault);

  // Means and squares count from the first row's mean, which is a number of the data's own size.
  double origin = !fixed && c < channels ? rows.mean(c) : 0;
  for (int d = 0; d < DOMAINS; ++d) sum[d] = square[d] = 0;
  for (int i = slice; !fixed && i < samples; i += SLICES) {
    long long at = (long long)i * channels + c;
    double m = rows.mean(at) - origin, s = spread(rows.variance(at), m, 0);
    for (int d = 0; d < DOMAINS; ++d) {
      double weight = w[(long long)i * DOMAINS + d];
      sum[d] += weight * m;
      square[d] += weight * s;
    }
  }
  for (int d = 0; d < DOMAINS; ++d) {
    long long at = (long long)d * channels + c;
    double variance = 0;
    if (fixed) {
      double seen = divisor[d];
      bool known = seen != 0 && c < channels;
      mean[d] = known ? mean_sum[at] / seen : 0;
      variance = known ? variance_sum[at] / seen : 0;
      inverse[d] = right ? inverse_deviation(variance, eps) : nan("");
    } else {
      double share = mass[d] != 0 ? 1 / mass[d] : 0;
      double m = over_slices(sum[d]) * share, s = over_slices(square[d]) * share;
      mean[d] = mass[d] != 0 ? origin + m : 0;
      variance = s - m * m;
      variance = variance < 0 ? 0 : variance;  // NaN stays
      bool finite = variance <= LARGEST;
      if (!finite && right && writes) report(fault, CHANNEL, c, variance);
      inverse[d] = !right ? nan("") : mass[d] != 0 ? inverse_deviation(variance, eps) : 0;
      if (right && finite && mass[d] != 0 && writes) {
        double count = mass[d] * size;
        mean_sum[at] = folded(mean_sum[at], fraction, mean[d]);
        variance_sum[at] = folded(variance_sum[at], fraction, variance * (count > 1 ? unbiased_factor(count) : 1));
      }
      if (right && mass[d] != 0 && first) divisor[d] = folded(divisor[d], fraction, 1);
      if (first) masses[d] = mass[d];
    }
    if (writes) {
      means[at] = mean[d];
      variances[at] = variance;
      inverses[at] = inverse[d];
    }
  }

  for (int i = slice; i < samples; i += SLICES) {
    long long at = (long long)i * channels + c;
    double scale = 0, centre = 0, shift = 0;
    for (int d = 0; d < DOMAINS; ++d) {
      double weight = w[(long long)i * DOMAINS + d];
      scale += weight * inverse[d];
      centre += weight * mean[d];
      shift += weight * (inverse[d] * mean[d]);
    }
#if FLAT
    y[at] = (float)affine_offset(scale, x[at], shift);
#else
    float rounded = (float)centre;
    centres[at] = rounded;
    scales[at] = (float)scale;
    offsets[at] = (float)affine_offset(scale, rounded, shift);
#endif
  }
}

// First the gradients of the domains' statistics. Then, for each row: dx if the row is one value, else the coefficients
// of row_input_gradient (with `fixed`, all but `scales` are zero). And each block's part of ∂w_id, the sum over its
// channels (blocks×N×D).
extern "C" __global__ void __launch_bounds__(TILE * SLICES) gradients(
    const float* __restrict__ x, const float* __restrict__ g, const double* __restrict__ row_mean,
    const double* __restrict__ row_variance, const double* __restrict__ grad_sum, const double* __restrict__ grad_dot,
    const float* __restrict__ centres, const float* __restrict__ w, const double* __restrict__ masses,
    const double* __restrict__ means, const double* __restrict__ variances, const double* __restrict__ inverses,
    float* __restrict__ scales, float* __restrict__ slopes, float* __restrict__ offsets, float* __restrict__ dx,
    double* __restrict__ parts, int samples, int channels, int size, int fixed, int wants_x, int wants_w) {
  Rows rows = {x, g, row_mean, row_variance, grad_sum, grad_dot, centres};
  int c = blockIdx.x * TILE + threadIdx.x;
  bool real = c < channels;
  double mean[DOMAINS], inverse[DOMAINS];
  double slope_of[DOMAINS], linear_of[DOMAINS], constant_of[DOMAINS];
  // Means count from one origin, which keeps their squares small.
  double origin = 0;
  for (int d = 0; d < DOMAINS; ++d) {
    mean[d] = real ? means[(long long)d * channels + c] : 0;
    inverse[d] = real ? inverses[(long long)d * channels + c] : 0;
    origin += mean[d] / DOMAINS;
  }
  for (int d = 0; d < DOMAINS; ++d) mean[d] -= origin;

  // First the sums Σ_i w_id G_i and Σ_i w_id Σ_s g (x - μ_d).
  for (int d = 0; d < DOMAINS; ++d) linear_of[d] = slope_of[d] = constant_of[d] = 0;
  for (int i = threadIdx.y; !fixed && real && i < samples; i += SLICES) {
    long long at = (long long)i * channels + c;
    double total = rows.grad_sum(at), product = about(rows.grad_dot(at), origin - rows.centre(at), total);
    for (int d = 0; d < DOMAINS; ++d) {
      double weight = w[(long long)i * DOMAINS + d];
      linear_of[d] += weight * total;
      slope_of[d] += weight * about(product, mean[d], total);
    }
  }
  for (int d = 0; d < DOMAINS && !fixed; ++d) {
    // A domain without mass has inverse 0, and so no gradient.
    double share = masses[d] != 0 ? 1 / masses[d] : 0;
    double grad_mean = mean_gradient(inverse[d], share * over_slices(linear_of[d]));
    double grad_variance = variance_gradient(inverse[d], share * over_slices(slope_of[d]));
    slope_of[d] = grad_variance;
    linear_of[d] = linear(grad_mean, grad_variance, mean[d]);
    constant_of[d] = real ? constant(grad_mean, grad_variance, mean[d], variances[(long long)d * channels + c]) : 0;
  }

  for (int i = threadIdx.y; i < samples; i += SLICES) {  // all lanes of a warp together
    long long at = (long long)i * channels + c;
    double total = 0, product = 0, m = 0, square = 0;
    if (real) {
      double centre = rows.centre(at) - origin, scale = 0, slope = 0, offset = 0;
      if (wants_w || FLAT) total = rows.grad_sum(at);
      for (int d = 0; d < DOMAINS; ++d) {
        double weight = w[(long long)i * DOMAINS + d];
        scale += weight * inverse[d];
        slope += weight * input_slope(slope_of[d], size);
        offset += weight * linear_of[d];
      }
      offset = offset / size + slope * centre;
#if FLAT
      if (wants_x) dx[at] = (float)(scale * total + offset);  // x is its own centre: no slope
#else
      if (wants_x) {
        scales[at] = (float)scale;
        slopes[at] = (float)slope;
        offsets[at] = (float)offset;
      }
#endif
      if (wants_w) product = about(rows.grad_dot(at), -centre, total);
      if (wants_w && !fixed) {
        m = FLAT ? centre : rows.mean(at) - origin;
        square = spread(rows.variance(at), m, 0);
      }
    }
    for (int d = 0; d < DOMAINS && wants_w; ++d) {
      double part = inverse[d] * about(product, mean[d], total) + m * linear_of[d] + square * slope_of[d] + constant_of[d];
      for (int step = TILE / 2; step > 0; step /= 2) part += __shfl_xor_sync(0xffffffff, part, step);
      if (threadIdx.x == 0) parts[((long long)blockIdx.x * samples + i) * DOMAINS + d] = part;
    }
  }
}

// ∂w (`size` = N·D numbers) from the parts of `blocks` blocks. A thread for each number.
extern "C" __global__ void weight_gradient(const double* __restrict__ parts, float* __restrict__ dw, int size,
                                           int blocks) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= size) return;
  double total = 0;
  for (int block = 0; block < blocks; ++block) total += parts[(long long)block * size + at];
  dw[at] = (float)total;
}
