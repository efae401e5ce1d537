#include "races.h"

#include <algorithm>
#include <vector>

#include "runtime.h"

namespace cuda_on_cpu::races {

namespace {

struct Past {
  uint32_t begin;
  Index block;
};

uint32_t now = 0;
std::vector<Past> past;  // all blocks so far, and this one

bool in_this_block(const Mark& mark) { return mark.clock >= past.back().begin; }

Past& block_of(const Mark& mark) {
  return *--std::upper_bound(past.begin(), past.end(), mark.clock,
                             [](uint32_t clock, const Past& block) { return clock < block.begin; });
}

bool ordered(const Mark& mark) { return in_this_block(mark) && (mark.thread == place.thread || mark.clock < now); }

bool conflict(const Mark& mark, const Use& use) {
  return mark.clock && !(mark.relaxed && use.relaxed) && !ordered(mark);
}

}  // namespace

void begin_launch() {
  now = 0;
  past.clear();
}

void begin_block() { past.push_back({++now, current_block()}); }

void pass_barrier() { ++now; }

bool written_in_block(const Cell& cell) { return in_this_block(cell.write); }

const Mark* race(Cell& cell, const Use& use) {
  const Mark mark = {now, uint16_t(place.thread), use.relaxed, use.code};
  if (conflict(cell.write, use)) return &cell.write;
  if (use.write) {
    if (conflict(cell.read, use)) return &cell.read;
    if (conflict(cell.earlier_read, use)) return &cell.earlier_read;
    cell.write = mark;
  } else {
    if (cell.read.thread != mark.thread || !in_this_block(cell.read)) cell.earlier_read = cell.read;
    cell.read = mark;
  }
  return nullptr;
}

std::string description(const Mark& mark, bool wrote) {
  const char* verb = wrote ? "writes" : "reads";
  if (in_this_block(mark)) return thread_name(mark.thread) + " " + verb + " it with nothing between them";
  return "another block, " + index_text(block_of(mark).block) + ", " + verb + " it";
}

}  // namespace cuda_on_cpu::races
