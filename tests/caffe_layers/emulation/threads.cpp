// Runs a grid block by block, every thread of a block as a fiber: it runs until it waits for others, or ends.
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "races.h"
#include "runtime.h"

namespace cuda_on_cpu {

Place place;

namespace {

constexpr size_t kStackBytes = 256 << 10;  // of virtual memory, with a page at its low end that nobody may touch
constexpr uint64_t kMostMeetings = 1'000'000;
constexpr unsigned long long kMostShared = 48 << 10;

enum class State { kReady, kAtBarrier, kAtWarp, kEnded };

// What a thread asked for that waits for its warp.
struct Request {
  unsigned mask, line;
  int lanes;
  uint64_t bits;  // given, and then the result
};

struct Thread {
  jmp_buf context;
  bool started = false;
  State state = State::kEnded;
  Index index{};
  unsigned line = 0;  // of the barrier
  Request request{};
};

struct Runner {
  std::vector<Thread> threads = std::vector<Thread>(kMostThreads);
  char* stacks = nullptr;
  unsigned count = 0, at_barrier = 0, ended = 0;
  uint64_t meetings = 0;  // in this block
  const Launch* launch = nullptr;
  void** arguments = nullptr;
  Index block{};
  jmp_buf scheduler;
  std::string message;
  Codes codes{};
};
Runner run;

Thread& current() { return run.threads[place.thread]; }

void to_scheduler() {
  if (!_setjmp(current().context)) _longjmp(run.scheduler, 1);
}

void thread_main() {
  for (;;) {
    run.launch->kernel->run(run.arguments);
    current().state = State::kEnded;
    ++run.ended;
    note_progress();
    to_scheduler();  // comes back with the next block
  }
}

char* stack_of(unsigned thread) { return run.stacks + thread * kStackBytes; }

void make_stacks() {
  if (run.stacks) return;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
  void* memory = mmap(nullptr, kMostThreads * kStackBytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) throw std::string("no memory for the threads' stacks");
  run.stacks = static_cast<char*>(memory);
  for (unsigned i = 0; i < kMostThreads; ++i) mprotect(stack_of(i), kPage, PROT_NONE);
}

// False: the thread ended the launch. Not to be inlined: its frame is where a thread jumps back to.
__attribute__((noinline)) bool resume(unsigned number) {
  place = {reinterpret_cast<uintptr_t>(stack_of(number)), reinterpret_cast<uintptr_t>(stack_of(number)) + kStackBytes,
           number};
  const int back = _setjmp(run.scheduler);
  if (back) return back == 1;
  Thread& thread = current();
  if (thread.started) _longjmp(thread.context, 1);
  thread.started = true;
  ucontext_t start;
  getcontext(&start);
  start.uc_stack.ss_sp = stack_of(number) + kPage;
  start.uc_stack.ss_size = kStackBytes - kPage;
  start.uc_link = nullptr;
  makecontext(&start, thread_main, 0);
  setcontext(&start);
  return false;
}

std::string text(const char* format, auto... values) {
  char buffer[512];
  snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

std::string where(const Thread& thread) {
  const Request& r = thread.request;
  switch (thread.state) {
    case State::kEnded:
      return "has returned";
    case State::kAtBarrier:
      return text("waits at __syncthreads in line %u", thread.line);
    case State::kAtWarp:
      return text("waits at __shfl_xor_sync in line %u with mask 0x%08x", r.line, r.mask);
    default:
      return "runs";
  }
}

void note_meeting() {
  note_progress();
  if (++run.meetings > kMostMeetings)
    fail("still runs after " + std::to_string(kMostMeetings) + " barriers and exchanges in this block");
}

bool same(const Request& a, const Request& b) { return a.mask == b.mask && a.line == b.line; }

// Why nobody can go on.
[[noreturn]] void fail_stalled() {
  const auto find = [](State state) {
    unsigned i = 0;
    while (i < run.count && run.threads[i].state != state) ++i;
    return i;
  };
  const unsigned lane_waits = find(State::kAtWarp);
  if (lane_waits < run.count) {
    const Thread& thread = run.threads[lane_waits];
    const unsigned first = lane_waits - lane_waits % kLanes;
    for (unsigned i = 0; i < kLanes; ++i) {
      const Thread& other = run.threads[first + i];
      if ((thread.request.mask >> i & 1) && (other.state != State::kAtWarp || !same(other.request, thread.request)))
        fail_block(thread_name(lane_waits) + " " + where(thread) + ", but " + thread_name(first + i) + ", lane " +
                   std::to_string(i) + ", " + where(other));
    }
  }
  const unsigned waits = find(State::kAtBarrier);
  const unsigned ended = find(State::kEnded);
  fail_block(thread_name(waits) + " " + where(run.threads[waits]) + ", but " + thread_name(ended) + " " +
             where(run.threads[ended]));
}

void run_block(const Launch& launch, std::mt19937_64& random, std::vector<unsigned>& turns) {
  begin_block();
  run.at_barrier = run.ended = 0;
  run.meetings = 0;
  for (unsigned i = 0; i < run.count; ++i) {
    run.threads[i].state = State::kReady;
    run.threads[i].index = {i % launch.block.x, i / launch.block.x % launch.block.y,
                            i / launch.block.x / launch.block.y};
  }
  while (run.ended < run.count) {
    if (launch.order == 2) std::shuffle(turns.begin(), turns.end(), random);
    bool ran = false;
    for (unsigned number : turns) {
      if (run.threads[number].state != State::kReady) continue;
      ran = true;
      if (!resume(number)) throw run.message;
    }
    if (!ran) fail_stalled();
  }
}

void run_grid(const Launch& launch) {
  make_stacks();
  Arena arena(launch);
  std::vector<uint64_t> values(launch.argument_count);
  std::vector<void*> arguments(launch.argument_count);
  for (size_t i = 0; i < values.size(); ++i) {
    const Argument& argument = launch.arguments[i];
    values[i] = argument.region < 0 ? argument.bits : reinterpret_cast<uint64_t>(arena.at(argument));
    arguments[i] = &values[i];
  }
  run.launch = &launch;
  run.arguments = arguments.data();
  run.count = launch.block.x * launch.block.y * launch.block.z;
  run.codes = {};

  std::mt19937_64 random(launch.seed);
  std::vector<unsigned> turns(run.count);
  std::iota(turns.begin(), turns.end(), 0);
  std::vector<uint64_t> blocks(uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z);
  std::iota(blocks.begin(), blocks.end(), 0);
  if (launch.order == 1) {
    std::reverse(turns.begin(), turns.end());
    std::reverse(blocks.begin(), blocks.end());
  }
  if (launch.order == 2) std::shuffle(blocks.begin(), blocks.end(), random);
  for (uint64_t number : blocks) {
    const Index& grid = launch.grid;
    run.block = {unsigned(number % grid.x), unsigned(number / grid.x % grid.y), unsigned(number / grid.x / grid.y)};
    run_block(launch, random, turns);
  }
  if (const uint64_t bytes = shared_bytes(); bytes > kMostShared)
    throw text("%llu bytes of shared memory, but %llu is the most", bytes, kMostShared);
  arena.copy_back();
}

}  // namespace

Index current_block() { return run.block; }

std::string index_text(const Index& i) { return text("(%u, %u, %u)", i.x, i.y, i.z); }

std::string thread_name(unsigned thread) { return "thread " + index_text(run.threads[thread].index); }

void fail(const std::string& message, const Codes& codes) {
  run.message = "block " + index_text(run.block) + ", " + thread_name(place.thread) + ": " + message;
  run.codes = codes;
  _longjmp(run.scheduler, 2);
}

void fail_block(const std::string& message) { throw "block " + index_text(run.block) + ": " + message; }

}  // namespace cuda_on_cpu

// ---- what device code calls, declared in cuda_on_cpu.h

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
};

namespace cuda_on_cpu {
::uint3 thread_index() {
  const Index& i = current().index;
  return {i.x, i.y, i.z};
}
::uint3 block_index() { return {run.block.x, run.block.y, run.block.z}; }
::dim3 block_dimensions() { return {run.launch->block.x, run.launch->block.y, run.launch->block.z}; }
::dim3 grid_dimensions() { return {run.launch->grid.x, run.launch->grid.y, run.launch->grid.z}; }

unsigned long long shuffle_xor(unsigned mask, unsigned long long bits, int lanes, unsigned line) {
  const char* name = "__shfl_xor_sync";
  const unsigned lane = place.thread % kLanes, first = place.thread - lane;
  if (!(mask >> lane & 1))
    fail(text("calls %s in line %u with mask 0x%08x, which does not name its own lane %u", name, line, mask, lane));
  if (lanes < 0 || lanes >= int(kLanes)) fail(text("calls %s in line %u with %d: 0 to 31 is expected", name, line, lanes));
  if (!(mask >> (lane ^ lanes) & 1))
    fail(text("calls %s in line %u for the value of lane %u, which mask 0x%08x does not name", name, line, lane ^ lanes,
              mask));
  Thread& self = current();
  self.request = {mask, line, lanes, bits};
  self.state = State::kAtWarp;
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(mask >> i & 1)) continue;
    if (first + i >= run.count)
      fail(text("calls %s in line %u with mask 0x%08x, but the block ends before lane %u of this warp", name, line, mask,
                i));
    const Thread& other = run.threads[first + i];
    if (other.state != State::kAtWarp || !same(other.request, self.request)) {
      to_scheduler();
      return self.request.bits;
    }
  }
  note_meeting();
  // The last to arrive works out everybody's result before anybody goes on.
  uint64_t given[kLanes] = {};
  for (unsigned i = 0; i < kLanes; ++i)
    if (mask >> i & 1) given[i] = run.threads[first + i].request.bits;
  for (unsigned i = 0; i < kLanes; ++i) {
    if (!(mask >> i & 1)) continue;
    Thread& other = run.threads[first + i];
    other.state = State::kReady;
    other.request.bits = given[i ^ other.request.lanes];
  }
  return self.request.bits;
}
}  // namespace cuda_on_cpu

using namespace cuda_on_cpu;

void __syncthreads(unsigned line) {
  Thread& self = current();
  self.state = State::kAtBarrier;
  self.line = line;
  if (++run.at_barrier < run.count) return to_scheduler();
  for (unsigned i = 0; i < run.count; ++i)
    if (run.threads[i].line != line)
      fail(where(self) + ", but " + thread_name(i) + " waits at that of line " + std::to_string(run.threads[i].line));
  for (unsigned i = 0; i < run.count; ++i) run.threads[i].state = State::kReady;
  run.at_barrier = 0;
  note_meeting();
  races::pass_barrier();
}

// Called by emulator.py. 0, or 1 with a message and the machine code it is about.
extern "C" int cuda_launch(const Launch* launch, char* message, size_t size, Codes* codes) {
  try {
    run_grid(*launch);
    return 0;
  } catch (const std::string& error) {
    snprintf(message, size, "%s", error.c_str());
  } catch (const std::exception& error) {
    snprintf(message, size, "%s", error.what());
  }
  *codes = run.codes;
  // Whoever was in the middle of something is forgotten.
  for (Thread& thread : run.threads) thread.started = false;
  return 1;
}
