// What machine code calls at every access to memory (g++'s -fsanitize=thread), and the atomic function.
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

// Declared in cuda_on_cpu.h.
int atomicExch(int* address, int value) {
  use_memory(address, sizeof value, Kind::kAtomic, false, BACK);
  const int old = *address;
  *address = value;
  return old;
}
