// Short conversations with an endpoint that are neither reading nor writing: what is there, and what became
// of it.
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
  std::string address, schema;
  std::vector<lwmq_partition_state> partitions;
};

Status describe(const char* address, bool wait_declared, std::uint32_t timeout_ms,
                std::unique_ptr<Description>* out);
Status settle(const char* address, const char* name, bool acknowledge, std::uint32_t timeout_ms);

}  // namespace lwmq::stream
