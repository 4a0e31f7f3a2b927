// Arithmetic on numbers that a peer or a caller chose: it either fits or says so.
#pragma once

#include <cstdint>

namespace lwmq {

// True when [offset, offset + bytes) lies inside [0, limit); never overflows.
constexpr bool fits(std::uint64_t offset, std::uint64_t bytes, std::uint64_t limit) noexcept {
  return offset <= limit && bytes <= limit - offset;
}

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace lwmq
