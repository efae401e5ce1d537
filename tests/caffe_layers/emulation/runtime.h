// What the runtime's parts know of one another. One launch runs at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "module.h"

namespace cuda_on_cpu {

struct Index {
  unsigned x, y, z;
};

// An array that the kernel is given, or several that overlap.
struct Region {
  char* data;
  uint64_t bytes;
  uint32_t written;      // copied back after the launch
  const char* label;     // for messages
};

// A parameter: a scalar's bits, or a place in a region.
struct Argument {
  int64_t region;        // -1: scalar (or null pointer)
  uint64_t bits;         // the scalar, or the offset in bytes
};

struct Launch {
  const Module* module;
  const Kernel* kernel;
  Index grid, block;
  const Region* regions;
  uint64_t region_count;
  const Argument* arguments;
  uint64_t argument_count;
  uint32_t order;        // 0 forward, 1 reverse, 2 shuffled
  uint64_t seed;
};

// ---- threads.cpp

struct Place {
  uintptr_t stack, stack_end;   // of the thread that runs now
  unsigned thread;              // its number within the block
};
extern Place place;

// Ends the launch with a message about the thread that runs now; `address` is that of the machine code, or null.
[[noreturn]] void fail(const std::string& message, const void* address = nullptr);
// The same where no thread is to blame.
[[noreturn]] void fail_block(const std::string& message);
// Lets other threads of the block run: atomics do, so that those who wait for one another can go on.
void give_way();
std::string thread_name(unsigned thread);

// ---- memory.cpp

// Puts copies of all regions far apart, so that an index that leaves its array meets no other; throws std::string.
class Arena {
 public:
  explicit Arena(const Launch& launch);
  ~Arena();
  char* at(const Argument& argument) const;
  void copy_back() const;
};
void begin_block();
void count_memory_access();

}  // namespace cuda_on_cpu
