// g++'s -fsanitize=alignment,bounds,… calls these where C++ leaves open what happens.
#include "runtime.h"

using namespace cuda_on_cpu;

namespace {

struct Source {
  const char* file;
  uint32_t line, column;
};
struct TypeName {
  uint16_t kind, info;
  char name[1];
};
struct Access {
  Source source;
  const TypeName* type;
  uint8_t log_alignment, kind;
};
struct Bounds {
  Source source;
  const TypeName *array, *index;
};
struct Arithmetic {
  Source source;
  const TypeName* type;
};

std::string at(const Source& source) {
  return std::string(" (") + source.file + ":" + std::to_string(source.line) + ")";
}

// A value as the sanitizer passes it: itself, or a pointer to it where it is wider than a pointer.
std::string value_text(uintptr_t value, const TypeName& type) {
  const bool is_signed = type.info & 1;
  const unsigned bits = 1u << (type.info >> 1);
  if (!is_signed || bits > 64) return std::to_string(value);
  return std::to_string(int64_t(value << (64 - bits)) >> (64 - bits));
}

[[noreturn]] void overflow(const Arithmetic& data, const char* what) {
  fail(std::string(what) + " does not fit into " + data.type->name + at(data.source));
}

}  // namespace

extern "C" {
void __ubsan_handle_type_mismatch_v1_abort(Access* data, uintptr_t pointer) {
  if (!pointer) fail(std::string("goes through a null pointer to ") + data->type->name + at(data->source));
  fail(std::string("accesses a ") + data->type->name + " at an address that is not a multiple of " +
       std::to_string(1u << data->log_alignment) + at(data->source));
}
void __ubsan_handle_out_of_bounds_abort(Bounds* data, uintptr_t index) {
  fail("uses index " + value_text(index, *data->index) + " of " + data->array->name + at(data->source));
}
void __ubsan_handle_add_overflow_abort(Arithmetic* data, uintptr_t, uintptr_t) { overflow(*data, "a sum"); }
void __ubsan_handle_sub_overflow_abort(Arithmetic* data, uintptr_t, uintptr_t) { overflow(*data, "a difference"); }
void __ubsan_handle_mul_overflow_abort(Arithmetic* data, uintptr_t, uintptr_t) { overflow(*data, "a product"); }
void __ubsan_handle_negate_overflow_abort(Arithmetic* data, uintptr_t) { overflow(*data, "a negated number"); }
void __ubsan_handle_divrem_overflow_abort(Arithmetic* data, uintptr_t, uintptr_t right) {
  if (!right) fail("divides by zero" + at(data->source));
  overflow(*data, "a quotient");
}
void __ubsan_handle_shift_out_of_bounds_abort(Arithmetic* data, uintptr_t, uintptr_t right) {
  fail("shifts by " + std::to_string(right) + " or shifts a negative number" + at(data->source));
}
}
