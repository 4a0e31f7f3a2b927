// Zeroing that stays, also where nobody looks at the bytes again.
#pragma once

#include <cstddef>
#include <cstring>

namespace lwmq {

inline void erase(void* memory, std::size_t bytes) noexcept {
  std::memset(memory, 0, bytes);
  asm volatile("" : : "r"(memory) : "memory");  // somebody might look: the compiler may not drop the stores
}

}  // namespace lwmq
