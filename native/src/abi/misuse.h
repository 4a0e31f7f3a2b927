// A handle that is none any more is the caller's mistake, and what follows would be a mystery. The mark of a
// freed handle is there until its memory is used again, so that most are caught, not all.
#pragma once

namespace lwmq::abi {

// Ends the program, with a text.
[[noreturn]] void misused(const char* function, const char* what) noexcept;

inline void require_alive(bool is_alive, const char* function, const char* what) noexcept {
  if (!is_alive) [[unlikely]]
    misused(function, what);
}

}  // namespace lwmq::abi
