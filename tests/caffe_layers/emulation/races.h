// Two uses of the same memory, one of them a write, by threads that nothing makes wait for one another.
//
// Within a block, __syncthreads orders the uses before it and after it. Between blocks (they run one after another here,
// on a GPU in any order) nothing does. Atomic and volatile uses do not race with one another.
#pragma once
#include <cstdint>
#include <string>

namespace cuda_on_cpu {

// Who used a place last, how, and when by a clock that steps at every barrier; clock 0 is never.
struct Mark {
  uint32_t clock;
  uint16_t thread;
  bool relaxed;    // atomic or volatile
  uint32_t code;   // where in the module's machine code
};

// A piece of memory, as small as what threads use apart: its last write, and its last reads by two threads.
struct Cell {
  Mark write, read, earlier_read;
};

struct Use {
  bool write, relaxed;
  uint32_t code;
};

namespace races {

void begin_launch();
void begin_block();
void pass_barrier();

// Whether anybody wrote the cell in this block.
bool written_in_block(const Cell& cell);

// Notes the use by the thread that runs; the mark it races with, or null.
const Mark* race(Cell& cell, const Use& use);
// "thread (1, 0, 0) reads it too" for a mark that `race` returned.
std::string description(const Mark& mark, bool wrote);

}  // namespace races
}  // namespace cuda_on_cpu
