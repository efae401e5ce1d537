#include "races.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime.h"

namespace cuda_on_cpu::races {

namespace {

constexpr unsigned kWarps = kMostThreads / kLanes;

// What an atomic function made known to other blocks.
struct Publication {
  unsigned thread;
  uint32_t barrier;
  std::vector<uint32_t> fences;  // when each thread last fenced
};

struct Past {
  uint32_t begin;
  Index block;
  Publication published;
};

uint32_t now = 0, barrier = 0;
uint32_t fences[kMostThreads];
uint32_t synced[kWarps][kLanes][kLanes];  // when two lanes of a warp last met
bool met[kMostThreads], all_met;          // who has called an atomic function, or waited for one that has
bool any_fence;
std::vector<Past> past;                   // all blocks so far, and this one

bool acquired() { return all_met || met[place.thread]; }

Past& block_of(const Mark& mark) {
  return *--std::upper_bound(past.begin(), past.end(), mark.clock,
                             [](uint32_t clock, const Past& block) { return clock < block.begin; });
}

bool published(const Mark& mark) {
  const Publication& made = block_of(mark).published;
  if (made.fences.empty()) return false;
  const uint32_t own = made.fences[mark.thread], last = made.fences[made.thread];
  const bool own_fence = mark.clock < own && (mark.thread == made.thread || own < made.barrier);
  // What all threads did before a barrier, one of them makes known for all.
  return own_fence || (mark.clock < made.barrier && made.barrier <= last);
}

bool ordered(const Mark& mark) {
  if (mark.clock < past.back().begin) return acquired() && (mark.relaxed || published(mark));
  if (mark.thread == place.thread || mark.clock < barrier) return true;
  const unsigned warp = place.thread / kLanes;
  return mark.thread / kLanes == warp && mark.clock < synced[warp][mark.thread % kLanes][place.thread % kLanes];
}

bool conflict(const Mark& mark, const Use& use) {
  return mark.clock && !(mark.relaxed && use.relaxed) && !ordered(mark);
}

}  // namespace

void begin_launch() {
  now = 0;
  past.clear();
}

void begin_block() {
  barrier = ++now;
  past.push_back({now, current_block(), {}});
  memset(fences, 0, sizeof fences);
  memset(synced, 0, sizeof synced);
  memset(met, 0, sizeof met);
  all_met = any_fence = false;
}

void pass_barrier() {
  barrier = ++now;
  all_met = all_met || std::find(met, met + kMostThreads, true) != met + kMostThreads;
}

void pass_warp(unsigned first_thread, unsigned lanes) {
  ++now;
  for (unsigned a = 0; a < kLanes; ++a)
    for (unsigned b = 0; b < kLanes; ++b)
      if ((lanes >> a & 1) && (lanes >> b & 1)) synced[first_thread / kLanes][a][b] = now;
}

void fence() {
  fences[place.thread] = ++now;
  any_fence = true;
}

void meet_other_blocks() {
  met[place.thread] = true;
  if (any_fence) past.back().published = {place.thread, barrier, std::vector<uint32_t>(fences, fences + kMostThreads)};
}

bool written_in_launch(const Cell& cell) { return cell.write.clock != 0; }
bool written_in_block(const Cell& cell) { return cell.write.clock >= past.back().begin; }

const Mark* race(Cell& cell, const Use& use) {
  const Mark mark = {now, uint16_t(place.thread), use.relaxed, use.code};
  if (conflict(cell.write, use)) return &cell.write;
  if (use.write) {
    if (conflict(cell.read, use)) return &cell.read;
    if (conflict(cell.earlier_read, use)) return &cell.earlier_read;
    cell.write = mark;
  } else {
    if (cell.read.thread != mark.thread || cell.read.clock < past.back().begin) cell.earlier_read = cell.read;
    cell.read = mark;
  }
  return nullptr;
}

std::string description(const Mark& mark, bool wrote) {
  const char* verb = wrote ? "writes" : "reads";
  if (mark.clock >= past.back().begin) return thread_name(mark.thread) + " " + verb + " it with nothing between them";
  return "another block, " + index_text(block_of(mark).block) + ", " + verb + " it";
}

}  // namespace cuda_on_cpu::races
