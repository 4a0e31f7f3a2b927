// Calls that make something: where memory is short the library's containers throw, and nothing is made.
#pragma once

#include <new>

#include "base/status.h"

namespace lwmq::abi {

template <typename Call>
Status or_no_memory(const char* function, Call&& call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return fail(LWMQ_E_NO_MEMORY, "%s: no memory", function);
  }
}

}  // namespace lwmq::abi
