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

#define CUDA_VECTOR2(NAME, T, ALIGN) \
  struct alignas(ALIGN) NAME { T x, y; }; \
  inline NAME make_##NAME(T x, T y) { return NAME{x, y}; }
#define CUDA_VECTOR4(NAME, T, ALIGN) \
  struct alignas(ALIGN) NAME { T x, y, z, w; }; \
  inline NAME make_##NAME(T x, T y, T z, T w) { return NAME{x, y, z, w}; }
CUDA_VECTOR2(float2, float, 8)
CUDA_VECTOR2(int2, int, 8)
CUDA_VECTOR2(double2, double, 16)
CUDA_VECTOR4(float4, float, 16)
CUDA_VECTOR4(int4, int, 16)
struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };

// ---- who a thread is: nothing of it changes while the thread runs

namespace cuda_on_cpu {
uint3 thread_index() __attribute__((const));
uint3 block_index() __attribute__((const));
dim3 block_dimensions() __attribute__((const));
dim3 grid_dimensions() __attribute__((const));
int warp_size() __attribute__((const));
}  // namespace cuda_on_cpu
#define threadIdx (cuda_on_cpu::thread_index())
#define blockIdx (cuda_on_cpu::block_index())
#define blockDim (cuda_on_cpu::block_dimensions())
#define gridDim (cuda_on_cpu::grid_dimensions())
#define warpSize (cuda_on_cpu::warp_size())

// ---- barriers, fences and what the lanes of a warp do together. The line stands for the place in the program.

void __syncthreads(unsigned line = __builtin_LINE());
void __syncwarp(unsigned mask = 0xffffffffu, unsigned line = __builtin_LINE());
void __threadfence();
void __threadfence_system();
unsigned __ballot_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE());
int __any_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE());
int __all_sync(unsigned mask, int predicate, unsigned line = __builtin_LINE());

namespace cuda_on_cpu {
enum Shuffle { SHUFFLE_DOWN, SHUFFLE_XOR, SHUFFLE_FROM };
unsigned long long shuffle(Shuffle kind, unsigned mask, unsigned long long bits, int lane, int width, unsigned line);

template <typename T>
inline T shuffle_value(Shuffle kind, unsigned mask, T value, int lane, int width, unsigned line) {
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = shuffle(kind, mask, bits, lane, width, line);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace cuda_on_cpu

#define CUDA_SHUFFLES(T) \
  inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, unsigned line = __builtin_LINE()) { \
    return cuda_on_cpu::shuffle_value(cuda_on_cpu::SHUFFLE_DOWN, mask, value, (int)by, width, line); \
  } \
  inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, unsigned line = __builtin_LINE()) { \
    return cuda_on_cpu::shuffle_value(cuda_on_cpu::SHUFFLE_XOR, mask, value, lanes, width, line); \
  } \
  inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, unsigned line = __builtin_LINE()) { \
    return cuda_on_cpu::shuffle_value(cuda_on_cpu::SHUFFLE_FROM, mask, value, lane, width, line); \
  }
CUDA_SHUFFLES(int)
CUDA_SHUFFLES(unsigned)
CUDA_SHUFFLES(long long)
CUDA_SHUFFLES(unsigned long long)
CUDA_SHUFFLES(float)
CUDA_SHUFFLES(double)

// ---- memory

int atomicAdd(int* address, int value);
unsigned atomicAdd(unsigned* address, unsigned value);
unsigned long long atomicAdd(unsigned long long* address, unsigned long long value);
float atomicAdd(float* address, float value);
double atomicAdd(double* address, double value);
int atomicMax(int* address, int value);
unsigned atomicMax(unsigned* address, unsigned value);
int atomicMin(int* address, int value);
unsigned atomicMin(unsigned* address, unsigned value);
int atomicExch(int* address, int value);
unsigned atomicExch(unsigned* address, unsigned value);
unsigned long long atomicExch(unsigned long long* address, unsigned long long value);
float atomicExch(float* address, float value);
int atomicCAS(int* address, int compare, int value);
unsigned atomicCAS(unsigned* address, unsigned compare, unsigned value);
unsigned long long atomicCAS(unsigned long long* address, unsigned long long compare, unsigned long long value);

namespace cuda_on_cpu {
void read_only(const void* address, size_t size);
}
#define CUDA_LOADS(T) \
  __forceinline__ T __ldg(const T* address) { \
    cuda_on_cpu::read_only(address, sizeof(T)); \
    return *address; \
  } \
  inline T __ldcs(const T* address) { return *address; } \
  inline void __stcs(T* address, T value) { *address = value; }
CUDA_LOADS(int)
CUDA_LOADS(unsigned)
CUDA_LOADS(long long)
CUDA_LOADS(float)
CUDA_LOADS(double)
CUDA_LOADS(float2)
CUDA_LOADS(int2)
CUDA_LOADS(double2)
CUDA_LOADS(float4)
CUDA_LOADS(int4)

// ---- arithmetic

inline int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
inline float __int_as_float(int value) { return __builtin_bit_cast(float, value); }

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
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
inline double rsqrt(double value) { return 1.0 / sqrt(value); }
inline float rsqrtf(float value) { return (float)(1.0 / sqrt((double)value)); }
inline float rsqrt(float value) { return rsqrtf(value); }

#define CUDA_PREDICATE(NAME) \
  inline bool NAME(float value) { return __builtin_##NAME(value); } \
  inline bool NAME(double value) { return __builtin_##NAME(value); }
CUDA_PREDICATE(isnan)
CUDA_PREDICATE(isinf)
CUDA_PREDICATE(isfinite)

#define CUDA_MIN_MAX(R, A, B) \
  inline R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; } \
  inline R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
CUDA_MIN_MAX(int, int, int)
CUDA_MIN_MAX(unsigned, unsigned, unsigned)
CUDA_MIN_MAX(unsigned, int, unsigned)
CUDA_MIN_MAX(unsigned, unsigned, int)
CUDA_MIN_MAX(long, long, long)
CUDA_MIN_MAX(unsigned long, unsigned long, unsigned long)
CUDA_MIN_MAX(long long, long long, long long)
CUDA_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
