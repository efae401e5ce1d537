// Where device code may read and write. g++'s -fsanitize=thread calls a function at every access: these.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "runtime.h"

namespace cuda_on_cpu {

namespace {

// A slot of addresses per region, with the copy in its middle: an index has to be wrong by 2 GiB to meet another.
constexpr uint64_t kSlotBits = 32, kSlot = 1ull << kSlotBits, kMiddle = kSlot / 2, kMostBytes = 1ull << 30;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kAccessLimit = 200'000'000;

struct Copy {
  uintptr_t begin, end;
  const Region* region;
};

struct Memory {
  char* arena = nullptr;
  uint64_t arena_bytes = 0;
  std::vector<Copy> copies;
  const Module* module = nullptr;
  uint64_t accesses = 0;  // since a thread last went on
};
Memory memory;

std::string bytes_text(uintptr_t address, uintptr_t begin) {
  const int64_t offset = int64_t(address) - int64_t(begin);
  return "byte " + std::to_string(offset);
}

[[noreturn]] void fail_access(const char* verb, uintptr_t address, size_t size, const void* code) {
  const std::string what = std::string(verb) + " " + std::to_string(size) + " bytes at ";
  const uint64_t slot = (address - reinterpret_cast<uintptr_t>(memory.arena)) >> kSlotBits;
  if (memory.arena && slot < memory.copies.size()) {
    const Copy& copy = memory.copies[slot];
    fail(what + bytes_text(address, copy.begin) + " of " + copy.region->label + ", which has " +
             std::to_string(copy.end - copy.begin) + " bytes",
         code);
  }
  const uintptr_t shared = reinterpret_cast<uintptr_t>(memory.module->shared);
  const uintptr_t end = reinterpret_cast<uintptr_t>(memory.module->end);
  if (address + (1 << 20) > shared && address < end + (1 << 20))
    fail(what + bytes_text(address, shared) + " of the shared memory, which has " + std::to_string(end - shared) +
             " bytes",
         code);
  if (address < kPage) fail(what + "a null pointer", code);
  fail(what + "an address that belongs to no argument, no shared memory and not to this thread", code);
}

inline void check(uintptr_t address, size_t size, bool write, const void* code) {
  if (address - place.stack < place.stack_end - place.stack) return;
  if (++memory.accesses > kAccessLimit)
    fail("still runs after " + std::to_string(kAccessLimit) + " accesses to memory: it waits for something that never comes",
         code);
  const uint64_t slot = (address - reinterpret_cast<uintptr_t>(memory.arena)) >> kSlotBits;
  if (slot < memory.copies.size()) {
    const Copy& copy = memory.copies[slot];
    if (address >= copy.begin && address + size <= copy.end) return;
  } else {
    const Module& module = *memory.module;
    const uintptr_t from = reinterpret_cast<uintptr_t>(write ? module.shared : module.image);
    if (address >= from && address + size <= reinterpret_cast<uintptr_t>(module.end)) return;
  }
  fail_access(write ? "writes" : "reads", address, size, code);
}

const void* caller(const void* back) { return static_cast<const char*>(back) - 1; }

uint64_t up_to_page(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

Arena::Arena(const Launch& launch) {
  memory.module = launch.module;
  memory.copies.clear();
  memory.arena = nullptr;
  memory.accesses = 0;
  memory.arena_bytes = launch.region_count * kSlot;
  if (!launch.region_count) return;
  void* arena = mmap(nullptr, memory.arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena == MAP_FAILED) throw std::string("no address space for the arguments");
  memory.arena = static_cast<char*>(arena);
  for (uint64_t i = 0; i < launch.region_count; ++i) {
    const Region& region = launch.regions[i];
    if (region.bytes > kMostBytes) throw std::string(region.label) + " has more than 1 GiB";
    // As aligned as the caller's own array.
    char* page = memory.arena + i * kSlot + kMiddle;
    char* begin = page + reinterpret_cast<uintptr_t>(region.data) % kPage;
    mprotect(page, up_to_page(begin + region.bytes - page), PROT_READ | PROT_WRITE);
    memcpy(begin, region.data, region.bytes);
    memory.copies.push_back({reinterpret_cast<uintptr_t>(begin), reinterpret_cast<uintptr_t>(begin) + region.bytes,
                             &launch.regions[i]});
  }
}

Arena::~Arena() {
  if (memory.arena) munmap(memory.arena, memory.arena_bytes);
  memory.arena = nullptr;
  memory.copies.clear();
}

char* Arena::at(const Argument& argument) const {
  return reinterpret_cast<char*>(memory.copies[argument.region].begin + argument.bits);
}

void Arena::copy_back() const {
  for (const Copy& copy : memory.copies)
    if (copy.region->written)
      memcpy(copy.region->data, reinterpret_cast<const void*>(copy.begin), copy.region->bytes);
}

void begin_block() {
  memory.accesses = 0;
  // NaN as float and double, -1 as an integer: what nobody wrote shows.
  memset(memory.module->shared, 0xff, memory.module->end - memory.module->shared);
}

}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

#define CODE caller(__builtin_return_address(0))
#define HOOKS(SIZE) \
  void __tsan_read##SIZE(void* address) { check(reinterpret_cast<uintptr_t>(address), SIZE, false, CODE); } \
  void __tsan_write##SIZE(void* address) { check(reinterpret_cast<uintptr_t>(address), SIZE, true, CODE); }
#define UNALIGNED_HOOKS(SIZE) \
  void __tsan_unaligned_read##SIZE(void* address) { check(reinterpret_cast<uintptr_t>(address), SIZE, false, CODE); } \
  void __tsan_unaligned_write##SIZE(void* address) { check(reinterpret_cast<uintptr_t>(address), SIZE, true, CODE); }
extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
UNALIGNED_HOOKS(2)
UNALIGNED_HOOKS(4)
UNALIGNED_HOOKS(8)
UNALIGNED_HOOKS(16)
void __tsan_read_range(void* address, size_t size) { check(reinterpret_cast<uintptr_t>(address), size, false, CODE); }
void __tsan_write_range(void* address, size_t size) { check(reinterpret_cast<uintptr_t>(address), size, true, CODE); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}

// ---- atomics, declared in cuda_on_cpu.h

namespace {

template <typename T, typename F>
inline T atomically(T* address, const void* code, F&& replacement) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  if (at % sizeof(T)) fail("calls an atomic function on an address that is not a multiple of " + std::to_string(sizeof(T)), code);
  check(at, sizeof(T), true, code);
  const T old = *address;
  *address = replacement(old);
  give_way();
  return old;
}

}  // namespace

#define ATOMIC_VALUE(T, NAME, RESULT) \
  T NAME(T* address, T value) { \
    return atomically(address, CODE, [=](T old) -> T { return RESULT; }); \
  }
#define ATOMIC_CAS(T) \
  T atomicCAS(T* address, T compare, T value) { \
    return atomically(address, CODE, [=](T old) { return old == compare ? value : old; }); \
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
ATOMIC_VALUE(int, atomicExch, (void(old), value))
ATOMIC_VALUE(unsigned, atomicExch, (void(old), value))
ATOMIC_VALUE(unsigned long long, atomicExch, (void(old), value))
ATOMIC_VALUE(float, atomicExch, (void(old), value))
ATOMIC_CAS(int)
ATOMIC_CAS(unsigned)
ATOMIC_CAS(unsigned long long)
