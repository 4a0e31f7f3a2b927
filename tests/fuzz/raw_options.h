// What a fuzzed transport is opened with.
#pragma once

#include <cstdint>

#include "lwmq/lwmq_tli.h"

namespace lwmq::fuzz {

inline lwmq_tli_options raw_options(std::uint32_t buffers = 4, std::uint64_t buffer_bytes = 4096) {
  lwmq_tli_options made{};
  made.size = sizeof made;
  made.buffer_bytes = buffer_bytes;
  made.buffers_send = buffers;
  made.purpose = LWMQ_TLI_FOR_RAW;
  return made;
}

}  // namespace lwmq::fuzz
