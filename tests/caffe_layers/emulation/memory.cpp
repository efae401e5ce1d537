// Where device code may read and write: its arguments, the shared variables, its own stack and constants.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "races.h"
#include "runtime.h"

namespace cuda_on_cpu {

namespace {

// A slot of addresses per region, with the copy in its middle: an index has to be wrong by 2 GiB to meet another.
constexpr uint64_t kSlotBits = 32, kSlot = 1ull << kSlotBits, kMiddle = kSlot / 2, kMostBytes = 1ull << 30;
constexpr uint64_t kCellBytes = 4;          // of an argument: no kernel has arrays of anything smaller
constexpr uint64_t kNearby = 4096;          // so far from the shared memory, one of its variables is meant
constexpr uint64_t kMostWork = 4'000'000;  // that brings nobody on

struct Copy {
  uintptr_t begin, end;
  Region* region;
  Cell* cells;
  uint64_t cells_bytes;
};

struct Memory {
  const Launch* launch = nullptr;
  uintptr_t image = 0, shared = 0, end = 0;  // of the module
  uintptr_t arena = 0;
  std::vector<Copy> copies;
  std::vector<Cell> cells;      // one for each byte of shared memory
  std::vector<uint32_t> owner;  // of each byte of shared memory: its variable + 1
  std::vector<bool> used;       // these variables
  uint64_t work = 0;            // since the last progress
};
Memory memory;

struct Access {
  uintptr_t address;
  size_t size;
  Kind kind;
  Use use;
};

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
uint64_t up_to_page(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

char* mapped(uint64_t bytes, int protection) {
  void* memory = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::string("no memory for the arguments");
  return static_cast<char*>(memory);
}

std::string text(const Access& access) {
  const char* verb = access.kind == Kind::kRead ? "reads " : access.kind == Kind::kWrite ? "writes " : "changes ";
  return verb + std::to_string(access.size) + " bytes at ";
}

std::string text(const Access& access, const std::string& label, uintptr_t begin, uintptr_t end) {
  return text(access) + "byte " + std::to_string(int64_t(access.address - begin)) + " of " + label + ", which has " +
         std::to_string(end - begin);
}

std::string text(const Access& access, const Copy& copy) {
  return text(access, copy.region->label, copy.begin, copy.end);
}

std::string shared_text(const Access& access) {
  const Launch& launch = *memory.launch;
  const Variable* variable = launch.variables;
  for (uint64_t i = 1; i < launch.variable_count; ++i)
    if (memory.image + launch.variables[i].begin <= access.address) variable = &launch.variables[i];
  return text(access, std::string("shared ") + variable->label, memory.image + variable->begin,
              memory.image + variable->end);
}

[[noreturn]] void fail_at(const Access& access, const std::string& message) { fail(message, {access.use.code, 0}); }

void use_cell(Cell& cell, const Access& access, const auto& where) {
  if (const Mark* other = races::race(cell, access.use))
    fail(where() + ": a race, " + races::description(*other, other == &cell.write), {access.use.code, other->code});
}

void use_copy(const Access& access, const Copy& copy) {
  const auto where = [&] { return text(access, copy); };
  if (access.address < copy.begin || access.address + access.size > copy.end) fail_at(access, where());
  if (access.kind != Kind::kWrite) copy.region->bytes_read += access.size;
  if (access.kind != Kind::kRead) copy.region->bytes_written += access.size;
  const uint64_t last = (access.address + access.size - 1 - copy.begin) / kCellBytes;
  for (uint64_t i = (access.address - copy.begin) / kCellBytes; i <= last; ++i) use_cell(copy.cells[i], access, where);
}

void use_shared(const Access& access) {
  const auto where = [&] { return shared_text(access); };
  const uint64_t first = access.address - memory.shared;
  const uint32_t owner = memory.owner[first];
  for (uint64_t i = first; i < first + access.size; ++i) {
    if (!owner || i >= memory.owner.size() || memory.owner[i] != owner) fail_at(access, where());
    if (access.kind != Kind::kWrite && !races::written_in_block(memory.cells[i]))
      fail_at(access, where() + ": this block has written nothing there");
    use_cell(memory.cells[i], access, where);
  }
  memory.used[owner - 1] = true;
}

void use(const Access& access) {
  if (access.address - place.stack < place.stack_end - place.stack) return;
  if (++memory.work > kMostWork)
    fail_at(access, "still runs, and no thread has ended or met others for long: does it wait for another block?");
  const uint64_t slot = (access.address - memory.arena) >> kSlotBits;
  if (memory.arena && slot < memory.copies.size()) return use_copy(access, memory.copies[slot]);
  if (access.address >= memory.shared && access.address < memory.end) return use_shared(access);
  if (access.kind == Kind::kRead && access.address >= memory.image && access.address < memory.shared) return;
  if (access.address < kPage) fail_at(access, text(access) + "a null pointer");
  const bool nearby = access.address + kNearby >= memory.shared && access.address < memory.end + kNearby;
  if (nearby && memory.launch->variable_count) fail_at(access, shared_text(access));
  fail_at(access, text(access) + "an address in no argument, no shared variable and not on this thread's stack");
}

void map_regions(const Launch& launch) {
  char* arena = mapped(launch.region_count * kSlot, PROT_NONE);
  memory.arena = number(arena);
  for (uint64_t i = 0; i < launch.region_count; ++i) {
    Region& region = launch.regions[i];
    // As aligned as the caller's own array.
    char* page = arena + i * kSlot + kMiddle;
    char* begin = page + number(region.data) % kPage;
    if (mprotect(page, up_to_page(begin + region.bytes - page), PROT_READ | PROT_WRITE))
      throw std::string("no memory for the arguments");
    memcpy(begin, region.data, region.bytes);
    const uint64_t cells_bytes = (region.bytes / kCellBytes + 1) * sizeof(Cell);
    Cell* cells = reinterpret_cast<Cell*>(mapped(cells_bytes, PROT_READ | PROT_WRITE));
    memory.copies.push_back({number(begin), number(begin) + region.bytes, &region, cells, cells_bytes});
  }
}

void release() {
  for (const Copy& copy : memory.copies) munmap(copy.cells, copy.cells_bytes);
  if (memory.arena) munmap(reinterpret_cast<void*>(memory.arena), memory.launch->region_count * kSlot);
  memory = Memory();
}

uint32_t code(const void* back) { return uint32_t(number(back) - 1 - memory.image); }

}  // namespace

Arena::Arena(const Launch& launch) {
  const Module& module = *launch.module;
  memory = Memory();
  memory.launch = &launch;
  memory.image = number(module.image);
  memory.shared = number(module.shared);
  memory.end = number(module.end);
  memory.cells.resize(memory.end - memory.shared);
  memory.owner.resize(memory.end - memory.shared);
  memory.used.resize(launch.variable_count);
  for (uint64_t i = 0; i < launch.variable_count; ++i)
    for (uint64_t at = launch.variables[i].begin; at < launch.variables[i].end; ++at)
      memory.owner[memory.image + at - memory.shared] = uint32_t(i + 1);
  races::begin_launch();
  for (uint64_t i = 0; i < launch.region_count; ++i)
    if (launch.regions[i].bytes > kMostBytes) throw std::string(launch.regions[i].label) + " has more than 1 GiB";
  if (!launch.region_count) return;
  try {
    map_regions(launch);
  } catch (...) {
    release();
    throw;
  }
}

Arena::~Arena() { release(); }

char* Arena::at(const Argument& argument) const {
  return reinterpret_cast<char*>(memory.copies[argument.region].begin + argument.bits);
}

void Arena::copy_back() const {
  for (const Copy& copy : memory.copies)
    if (copy.region->written)
      memcpy(copy.region->data, reinterpret_cast<const void*>(copy.begin), copy.region->bytes);
}

void begin_block() {
  note_progress();
  memory.cells.assign(memory.cells.size(), {});
  races::begin_block();
}

void use_memory(const void* address, size_t size, Kind kind, bool is_volatile, const void* back) {
  const bool relaxed = is_volatile || kind == Kind::kAtomic;
  use({number(address), size, kind, {kind != Kind::kRead, relaxed, code(back)}});
}

void note_progress() { memory.work = 0; }

uint64_t shared_bytes() {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < memory.launch->variable_count; ++i)
    if (memory.used[i]) bytes += memory.launch->variables[i].end - memory.launch->variables[i].begin;
  return bytes;
}

}  // namespace cuda_on_cpu
