// Domain assignment and entropy loss on the GPU. The formulas called here stand before this text (see _cuda_source).
// Everything is computed in double. A wrong label is reported, and makes the result NaN.

const int UNKNOWN = -1;

// Whether the label of a row is right, a whole number from -1 to limit - 1.
__device__ bool read_label(const float* labels, int row, float limit, int* label, unsigned long long* fault) {
  *label = UNKNOWN;
  if (!labels) return true;
  float value = labels[row];
  bool right = value >= -1 && value == floorf(value) && value < limit;  // false for NaN
  if (right)
    *label = (int)value;
  else
    report(fault, ROW, row, value);
  return right;
}

// The softmax of `count` logits, `step` apart: the largest and Σ exp(logit - largest).
__device__ void normaliser(const float* logits, int count, int step, double* largest, double* total) {
  *largest = logits[0];
  *total = 0;
  for (int k = 1; k < count; ++k) *largest = fmax(*largest, (double)logits[(long long)k * step]);
  for (int k = 0; k < count; ++k) *total += exp(logits[(long long)k * step] - *largest);
}

// w (n×D): the softmax p (n×group) at columns first …, one-hot where the label is known. A thread for each row.
extern "C" __global__ void assign(const float* __restrict__ logits, const float* __restrict__ labels,
                                  double* __restrict__ p, float* __restrict__ w, unsigned long long* fault, int rows,
                                  int group, int first, int domains) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  const float* row = logits + (long long)i * group;
  double largest, total;
  normaliser(row, group, 1, &largest, &total);
  int label;
  bool right = read_label(labels, i, group, &label, fault);
  for (int d = 0; d < domains; ++d) w[(long long)i * domains + d] = 0;
  for (int k = 0; k < group; ++k) {
    double value = label == UNKNOWN ? exp(log_probability(row[k], largest, total)) : k == label;
    value = right ? value : nan("");
    p[(long long)i * group + k] = value;
    w[(long long)i * domains + first + k] = (float)value;
  }
}

// ∂L/∂logits from p and ∂L/∂w; zero for a known, one-hot row.
extern "C" __global__ void assign_gradient(const double* __restrict__ p, const float* __restrict__ dw,
                                           float* __restrict__ dlogits, int rows, int group, int first, int domains) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= rows) return;
  const double* probability = p + (long long)i * group;
  const float* grad = dw + (long long)i * domains + first;
  double expected = 0;
  for (int k = 0; k < group; ++k) expected += probability[k] * grad[k];
  for (int k = 0; k < group; ++k)
    dlogits[(long long)i * group + k] = (float)softmax_gradient(probability[k], grad[k], expected);
}

// The entropy of each of the N×T predictions of logits N×K×T, and each block's sums of those that count: their
// entropies in `parts`, their number after them. A thread for each prediction.
extern "C" __global__ void entropies(const float* __restrict__ logits, const float* __restrict__ labels,
                                     double* __restrict__ entropy, double* __restrict__ parts,
                                     unsigned long long* fault, int rows, int classes, int size) {
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  double h = 0, counted = 0;
  if (at < (long long)rows * size) {
    int i = (int)(at / size);
    const float* logit = logits + (long long)i * classes * size + at % size;
    double largest, total;
    normaliser(logit, classes, size, &largest, &total);
    for (int k = 0; k < classes; ++k)
      h += surprise(log_probability(logit[(long long)k * size], largest, total));
    entropy[at] = h;
    int label;
    if (!read_label(labels, i, LARGEST, &label, fault)) h = nan("");
    counted = label == UNKNOWN;
  }
  h = over_threads(counted ? h : 0, blockDim.x);
  counted = over_threads(counted, blockDim.x);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = h;
    parts[gridDim.x + blockIdx.x] = counted;
  }
}

// The loss and the number it was divided by, from the sums of `blocks` blocks. One block.
extern "C" __global__ void entropy_loss(const double* __restrict__ parts, double* __restrict__ number,
                                        float* __restrict__ loss, int blocks) {
  double h = 0, counted = 0;
  for (int k = threadIdx.x; k < blocks; k += blockDim.x) {
    h += parts[k];
    counted += parts[blocks + k];
  }
  h = over_threads(h, blockDim.x);
  counted = over_threads(counted, blockDim.x);
  if (threadIdx.x == 0) {
    *number = fmax(counted, 1.);
    *loss = (float)(h / *number);
  }
}

// ∂L/∂logits, where `weight` is ∂L/∂loss; zero for the predictions that do not count.
extern "C" __global__ void entropy_loss_gradient(const float* __restrict__ logits, const float* __restrict__ labels,
                                                 const double* __restrict__ entropy, const double* __restrict__ number,
                                                 const float* __restrict__ weight, float* __restrict__ dlogits,
                                                 int rows, int classes, int size) {
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= (long long)rows * size) return;
  int i = (int)(at / size);
  long long start = (long long)i * classes * size + at % size;
  double largest, total, scale = labels && labels[i] != UNKNOWN ? 0 : *weight / *number;
  normaliser(logits + start, classes, size, &largest, &total);
  for (int k = 0; k < classes; ++k) {
    long long of = start + (long long)k * size;
    double grad = entropy_gradient(log_probability(logits[of], largest, total), entropy[at]);
    dlogits[of] = scale == 0 ? 0 : (float)(scale * grad);
  }
}

// The mean p̄ (K) of the N×T predictions that count, and their number. A block for each class.
extern "C" __global__ void mean_probabilities(const float* __restrict__ logits, const float* __restrict__ labels,
                                              double* __restrict__ mean, double* __restrict__ number,
                                              unsigned long long* fault, int rows, int classes, int size) {
  double sum = 0, counted = 0;
  for (long long at = threadIdx.x; at < (long long)rows * size; at += blockDim.x) {
    int i = (int)(at / size), label;
    double p = nan("");
    if (read_label(labels, i, LARGEST, &label, fault)) {
      const float* logit = logits + (long long)i * classes * size + at % size;
      double largest, total;
      normaliser(logit, classes, size, &largest, &total);
      p = exp(log_probability(logit[(long long)blockIdx.x * size], largest, total));
    }
    sum += label == UNKNOWN ? p : 0;
    counted += label == UNKNOWN;
  }
  sum = over_threads(sum, blockDim.x);
  counted = over_threads(counted, blockDim.x);
  if (threadIdx.x == 0) {
    mean[blockIdx.x] = sum / fmax(counted, 1.);
    if (blockIdx.x == 0) *number = counted;
  }
}

// The entropy of the mean prediction; 0 if none counts. One block.
extern "C" __global__ void mean_entropy_loss(const double* __restrict__ mean, const double* __restrict__ number,
                                             float* __restrict__ loss, int classes) {
  double h = 0;
  for (int k = threadIdx.x; k < classes; k += blockDim.x) h += surprise(log(mean[k]));
  h = over_threads(h, blockDim.x);
  if (threadIdx.x == 0) *loss = *number > 0 ? (float)h : 0;
}

// ∂L/∂logits, where `weight` is ∂L/∂loss; zero for the predictions that do not count.
extern "C" __global__ void mean_entropy_loss_gradient(const float* __restrict__ logits,
                                                      const float* __restrict__ labels,
                                                      const double* __restrict__ mean,
                                                      const double* __restrict__ number,
                                                      const float* __restrict__ weight, float* __restrict__ dlogits,
                                                      int rows, int classes, int size) {
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= (long long)rows * size) return;
  int i = (int)(at / size);
  long long start = (long long)i * classes * size + at % size;
  double largest, total, expected = 0;
  double scale = labels && labels[i] != UNKNOWN ? 0 : *weight / fmax(*number, 1.);
  normaliser(logits + start, classes, size, &largest, &total);
  for (int k = 0; k < classes; ++k)
    expected -= exp(log_probability(logits[start + (long long)k * size], largest, total)) * finite_log(log(mean[k]));
  for (int k = 0; k < classes; ++k) {
    long long of = start + (long long)k * size;
    double p = exp(log_probability(logits[of], largest, total));
    dlogits[of] = scale == 0 ? 0 : (float)(scale * softmax_gradient(p, -finite_log(log(mean[k])), expected));
  }
}
