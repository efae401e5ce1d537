// What machine code calls at every access to memory (g++'s -fsanitize=thread), and the atomic functions.
#include "runtime.h"

using namespace cuda_on_cpu;

#define BACK __builtin_return_address(0)

#define ACCESS_HOOKS(NAME, SIZE, VOLATILE) \
  void __tsan_##NAME##read##SIZE(void* address) { use_memory(address, SIZE, Kind::kRead, VOLATILE, BACK); } \
  void __tsan_##NAME##write##SIZE(void* address) { use_memory(address, SIZE, Kind::kWrite, VOLATILE, BACK); }
#define ALL_SIZES(NAME, VOLATILE) \
  ACCESS_HOOKS(NAME, 1, VOLATILE) \
  ACCESS_HOOKS(NAME, 2, VOLATILE) \
  ACCESS_HOOKS(NAME, 4, VOLATILE) \
  ACCESS_HOOKS(NAME, 8, VOLATILE) \
  ACCESS_HOOKS(NAME, 16, VOLATILE)

extern "C" {
ALL_SIZES(, false)
ALL_SIZES(unaligned_, false)
ALL_SIZES(volatile_, true)
ALL_SIZES(unaligned_volatile_, true)
void __tsan_read_range(void* address, size_t size) { use_memory(address, size, Kind::kRead, false, BACK); }
void __tsan_write_range(void* address, size_t size) { use_memory(address, size, Kind::kWrite, false, BACK); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}

// ---- declared in cuda_on_cpu.h

namespace cuda_on_cpu {

void read_only(const void* address, size_t size) { use_read_only(address, size, BACK); }

namespace {

template <typename T, typename F>
T atomically(T* address, const void* back, F&& replacement) {
  if (reinterpret_cast<uintptr_t>(address) % sizeof(T))
    fail("calls an atomic function on an address that is not a multiple of " + std::to_string(sizeof(T)));
  use_memory(address, sizeof(T), Kind::kAtomic, false, back);
  const T old = *address;
  *address = replacement(old);
  give_way();
  return old;
}

}  // namespace
}  // namespace cuda_on_cpu

#define ATOMIC_VALUE(T, NAME, RESULT) \
  T NAME(T* address, T value) { \
    return atomically(address, BACK, [=]([[maybe_unused]] T old) -> T { return RESULT; }); \
  }
#define ATOMIC_CAS(T) \
  T atomicCAS(T* address, T compare, T value) { \
    return atomically(address, BACK, [=](T old) { return old == compare ? value : old; }); \
  }
ATOMIC_VALUE(int, atomicAdd, int(unsigned(old) + unsigned(value)))
ATOMIC_VALUE(unsigned, atomicAdd, old + value)
ATOMIC_VALUE(unsigned long long, atomicAdd, old + value)
ATOMIC_VALUE(float, atomicAdd, old + value)
ATOMIC_VALUE(double, atomicAdd, old + value)
ATOMIC_VALUE(int, atomicMax, old > value ? old : value)
ATOMIC_VALUE(unsigned, atomicMax, old > value ? old : value)
ATOMIC_VALUE(int, atomicMin, old < value ? old : value)
ATOMIC_VALUE(unsigned, atomicMin, old < value ? old : value)
ATOMIC_VALUE(int, atomicExch, value)
ATOMIC_VALUE(unsigned, atomicExch, value)
ATOMIC_VALUE(unsigned long long, atomicExch, value)
ATOMIC_VALUE(float, atomicExch, value)
ATOMIC_CAS(int)
ATOMIC_CAS(unsigned)
ATOMIC_CAS(unsigned long long)
