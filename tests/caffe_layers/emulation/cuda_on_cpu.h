// The part of CUDA C that our kernels use, for g++. Nothing else is declared here and no standard header is read, so
// what is not listed does not compile. Types and overloads are CUDA's own: what is ambiguous there is so here.
#pragma once

typedef __SIZE_TYPE__ size_t;

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
// The source has no other variables that outlive a call: they fill its .bss, where the runtime finds them.
#define __shared__ static

// ---- vectors

struct alignas(16) float4 { float x, y, z, w; };
inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }
struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

// ---- who a thread is: nothing of it changes while the thread runs

namespace cuda_on_cpu {
uint3 thread_index() __attribute__((const));
uint3 block_index() __attribute__((const));
dim3 block_dimensions() __attribute__((const));
dim3 grid_dimensions() __attribute__((const));
}  // namespace cuda_on_cpu
#define threadIdx (cuda_on_cpu::thread_index())
#define blockIdx (cuda_on_cpu::block_index())
#define blockDim (cuda_on_cpu::block_dimensions())
#define gridDim (cuda_on_cpu::grid_dimensions())

// ---- barriers, and what the lanes of a warp exchange. The line stands for the place in the program.

void __syncthreads(unsigned line = __builtin_LINE());

namespace cuda_on_cpu {
unsigned long long shuffle_xor(unsigned mask, unsigned long long bits, int lanes, unsigned line);
}

#define CUDA_SHUFFLE(T) \
  inline T __shfl_xor_sync(unsigned mask, T value, int lanes, unsigned line = __builtin_LINE()) { \
    unsigned long long bits = 0; \
    __builtin_memcpy(&bits, &value, sizeof(T)); \
    bits = cuda_on_cpu::shuffle_xor(mask, bits, lanes, line); \
    __builtin_memcpy(&value, &bits, sizeof(T)); \
    return value; \
  }
CUDA_SHUFFLE(int)
CUDA_SHUFFLE(float)
CUDA_SHUFFLE(double)

// ---- memory

int atomicExch(int* address, int value);

// ---- arithmetic

inline int __float_as_int(float value) { return __builtin_bit_cast(int, value); }

#define CUDA_REAL(NAME) \
  inline double NAME(double value) { return __builtin_##NAME(value); } \
  inline float NAME##f(float value) { return __builtin_##NAME##f(value); } \
  inline float NAME(float value) { return NAME##f(value); }
CUDA_REAL(sqrt)
CUDA_REAL(exp)
CUDA_REAL(log)
CUDA_REAL(fabs)
CUDA_REAL(floor)
#define CUDA_REAL2(NAME) \
  inline double NAME(double a, double b) { return __builtin_##NAME(a, b); } \
  inline float NAME##f(float a, float b) { return __builtin_##NAME##f(a, b); } \
  inline float NAME(float a, float b) { return NAME##f(a, b); }
CUDA_REAL2(fmax)
CUDA_REAL2(fmin)
inline double nan(const char* tag) { return __builtin_nan(""); }

#define CUDA_MIN_MAX(R, A, B) \
  inline R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; } \
  inline R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
CUDA_MIN_MAX(int, int, int)
CUDA_MIN_MAX(unsigned, unsigned, unsigned)
CUDA_MIN_MAX(unsigned, int, unsigned)
CUDA_MIN_MAX(unsigned, unsigned, int)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
