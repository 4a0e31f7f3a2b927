// Where the bytes of a batch are.
//
// The log keeps a body with each entry and never looks into it. Only endpoint/pool.h does: it shows a body to
// readers and gives it back to its writer. There is one kind: a block in a window of the writer's process,
// which readers map. A body on another machine or in a file will be another kind, here and there.
#pragma once

#include <cstdint>
#include <memory>

namespace lwmq::stream {

struct Pool;

struct Body {
  std::shared_ptr<Pool> pool;       // the writer's windows
  std::uint32_t window = 0;         // which of them
  std::uint32_t slot = 0, lap = 0;  // of the block, in ledger and lease pages
  std::uint64_t offset = 0;         // of the block in the window
};

}  // namespace lwmq::stream
