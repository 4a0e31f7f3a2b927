// A handle that is none any more is the caller's mistake, and what follows would be a mystery. The mark of a
// freed handle is there until its memory is used again, so that most are caught, not all.
#pragma once

#include "base/misuse.h"

namespace lwmq::abi {

inline void require_alive(bool is_alive, const char* function, const char* what) noexcept {
  if (!is_alive) [[unlikely]]
    misused("%s: this is no %s, or one that is gone", function, what);
}

}  // namespace lwmq::abi
