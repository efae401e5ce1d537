// The compiler's own view of each kernel's parameters.
#pragma once
#include "module.h"

// The linker's borders of what it lays out.
extern "C" {
extern char __ehdr_start[] __attribute__((visibility("hidden")));
extern char __bss_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
}

namespace cuda_on_cpu {

template <int N>
struct Text {
  char at[N + 1] = {};
};

template <int A, int B>
constexpr Text<A + B> operator+(const Text<A>& a, const Text<B>& b) {
  Text<A + B> both;
  for (int i = 0; i < A; ++i) both.at[i] = a.at[i];
  for (int i = 0; i < B; ++i) both.at[A + i] = b.at[i];
  return both;
}

template <int N>
constexpr Text<N - 1> text(const char (&literal)[N]) {
  Text<N - 1> result;
  for (int i = 0; i < N - 1; ++i) result.at[i] = literal[i];
  return result;
}

template <typename T>
struct Scalar {
  static_assert(sizeof(T) == 0, "a kernel's parameters here are scalars and pointers to scalars");
};
#define CUDA_SCALAR(T, NAME) \
  template <> \
  struct Scalar<T> { \
    static constexpr auto name() { return text(NAME); } \
  };
CUDA_SCALAR(int, "int32")
CUDA_SCALAR(unsigned, "uint32")
CUDA_SCALAR(long, "int64")
CUDA_SCALAR(unsigned long, "uint64")
CUDA_SCALAR(long long, "int64")
CUDA_SCALAR(unsigned long long, "uint64")
CUDA_SCALAR(float, "float32")
CUDA_SCALAR(double, "float64")

template <typename T>
struct Type {
  static constexpr auto name() { return Scalar<T>::name(); }
};
template <typename T>
struct Type<T*> {
  static constexpr auto name() { return Scalar<T>::name() + text("*"); }
};
template <typename T>
struct Type<const T*> {
  static constexpr auto name() { return text("const ") + Scalar<T>::name() + text("*"); }
};

template <auto KERNEL>
struct Entry;
template <typename... A, void (*KERNEL)(A...)>
struct Entry<KERNEL> {
  static constexpr auto parameters = (text("") + ... + (Type<A>::name() + text(",")));

  template <size_t... I>
  struct Indices {
    // (The runtime's list of arguments is no memory of the kernel's.)
    __attribute__((no_sanitize("thread"))) static void call(void** arguments) {
      KERNEL(*static_cast<A*>(arguments[I])...);
    }
  };
  template <typename T, size_t N, size_t... I>
  struct Count : Count<T, N - 1, N - 1, I...> {};
  template <typename T, size_t... I>
  struct Count<T, 0, I...> : Indices<I...> {};

  static void run(void** arguments) { Count<void, sizeof...(A)>::call(arguments); }
};

constexpr unsigned first(unsigned most_threads, unsigned = 0, unsigned = 0) { return most_threads; }

}  // namespace cuda_on_cpu

// A kernel's name, and what its __launch_bounds__ says.
#define CUDA_KERNEL(NAME, ...) \
  cuda_on_cpu::Kernel { \
    #NAME, cuda_on_cpu::Entry<&NAME>::parameters.at, cuda_on_cpu::Entry<&NAME>::run, cuda_on_cpu::first(__VA_ARGS__) \
  }
// Stands behind the source.
#define CUDA_MODULE(...) \
  namespace { \
  const cuda_on_cpu::Kernel cuda_kernel_table[] = {__VA_ARGS__ cuda_on_cpu::Kernel{nullptr, nullptr, nullptr, 0}}; \
  } \
  extern "C" __attribute__((visibility("default"))) const cuda_on_cpu::Module cuda_module; \
  const cuda_on_cpu::Module cuda_module = { \
      cuda_kernel_table, __ehdr_start, __bss_start, _end};
