// What the other end of a link says, waited for.
#pragma once

#include <cstdint>
#include <string>

#include "os/clock.h"
#include "stream/link.h"

namespace lwmq::stream {

// The next message of `kind`, passing over others; false when the conversation ends before.
inline bool hear(Link& link, wire::StreamKind kind, std::string* out_bytes) {
  const std::int64_t deadline = os::now_ns() + std::int64_t{60} * 1'000'000'000;
  while (os::now_ns() < deadline) {
    wire::StreamKind heard{};
    const Status status = link.receive(&heard, out_bytes);
    if (status == LWMQ_OK && heard == kind) return true;
    if (status != LWMQ_OK && status != LWMQ_E_EMPTY) return false;
    if (status == LWMQ_E_EMPTY) link.wait(100);
  }
  return false;
}

}  // namespace lwmq::stream
