// Short conversations with an endpoint that neither read nor write: asking for the state of a stream, and
// settling a read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq.h"

namespace lwmq::stream {

// lwmq_stream_state and what it lends, in one piece.
struct Description {
  lwmq_stream_state state{};
  std::string address, addresses, schema;
  std::vector<lwmq_partition_state> partitions;
};

// What lwmq_stream_describe may wait for.
enum Wait : std::uint32_t { kWaitServed = 0, kWaitDeclared = 1, kWaitForNobody = 2 };

Status describe(const char* address, std::uint32_t wait, std::uint32_t timeout_ms,
                std::unique_ptr<Description>* out);
Status settle(const char* address, const char* name, bool acknowledge, std::uint32_t timeout_ms);

}  // namespace lwmq::stream
