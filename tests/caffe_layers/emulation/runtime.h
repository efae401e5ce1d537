// What the runtime's parts know of one another. One launch runs at a time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "module.h"

namespace cuda_on_cpu {

constexpr unsigned kMostThreads = 1024;
constexpr unsigned kLanes = 32;
constexpr size_t kPage = 4096;

// ---- what emulator.py passes

struct Index {
  unsigned x, y, z;
};

// An array that the kernel is given, or several that overlap.
struct Region {
  char* data;
  uint64_t bytes;
  uint32_t written;      // copied back after the launch
  const char* label;     // for messages
  uint64_t bytes_read, bytes_written;  // by all threads together; the runtime counts them
};

// A parameter: a scalar's bits, or a place in a region.
struct Argument {
  int64_t region;        // -1: scalar (or null pointer)
  uint64_t bits;         // the scalar, or the offset in bytes
};

// A __shared__ variable.
struct Variable {
  uint64_t begin, end;   // from the beginning of the module's image
  const char* label;
};

struct Launch {
  const Module* module;
  const Kernel* kernel;
  Index grid, block;
  Region* regions;
  uint64_t region_count;
  const Argument* arguments;
  uint64_t argument_count;
  const Variable* variables;
  uint64_t variable_count;
  uint32_t order;        // 0 forward, 1 reverse, 2 shuffled
  uint64_t seed;
};

// Places in the module's machine code, from the beginning of its image, that a message is about; 0 is none.
struct Codes {
  uint64_t here, other;
};

// ---- threads.cpp

// The thread that runs now: its stack, and its number within the block.
struct Place {
  uintptr_t stack, stack_end;
  unsigned thread;
};
extern Place place;

// Ends the launch with a message about the thread that runs now.
[[noreturn]] void fail(const std::string& message, const Codes& codes = {});
// The same where no thread is to blame.
[[noreturn]] void fail_block(const std::string& message);
Index current_block();
std::string index_text(const Index& index);
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

enum class Kind { kRead, kWrite, kAtomic };

// Ends the launch unless the thread that runs may use this memory so. `back` is where its machine code goes on.
void use_memory(const void* address, size_t size, Kind kind, bool is_volatile, const void* back);
void begin_block();
// A thread has ended, or threads have met: nobody waits in vain.
void note_progress();
// The bytes of shared memory that this launch has used.
uint64_t shared_bytes();

}  // namespace cuda_on_cpu
