// Structures of the caller that may be of another size than ours: fields that he does not know take their
// default, and so does a zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/status.h"
#include "lwmq/lwmq.h"

namespace lwmq::abi {

// Whether somebody has set the size of what he gave; where it is missing, all that he says would go unheard.
template <typename Sized>
bool has_size(const Sized* given) noexcept {
  return given == nullptr || given->size >= sizeof given->size;
}
inline lwmq_status size_missing(const char* function) noexcept {
  return fail(LWMQ_E_INVALID, "%s: a structure whose size is not set: say .size = sizeof it before the call",
              function);
}

// A copy of what the caller gave, zero where he gave less.
template <typename Options>
Options read_options(const Options* given) noexcept {
  Options options{};
  if (given != nullptr) std::memcpy(&options, given, std::min<std::uint64_t>(given->size, sizeof(Options)));
  options.size = sizeof(Options);
  return options;
}

// Writes what fits into the caller's structure and leaves its size as it was.
template <typename Output>
void write_output(const Output& value, Output* out) noexcept {
  const std::uint64_t size = std::min<std::uint64_t>(out->size, sizeof(Output));
  if (size <= sizeof(std::uint64_t)) return;
  std::memcpy(reinterpret_cast<std::uint8_t*>(out) + sizeof(std::uint64_t),
              reinterpret_cast<const std::uint8_t*>(&value) + sizeof(std::uint64_t),
              size - sizeof(std::uint64_t));
}

template <typename T>
void set_default(T& field, T value) noexcept {
  if (field == T{}) field = value;
}

}  // namespace lwmq::abi

#define LWMQ_SIZED(given)                       \
  if (!lwmq::abi::has_size(given)) [[unlikely]] \
  return lwmq::abi::size_missing(__func__)
