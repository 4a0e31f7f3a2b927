// Record batches as arrays of Arrow's C data interface, for what is done with every batch of a stream.
//
// How a batch lies in a block, and whether a block holds one, pyarrow decides: it writes and checks the
// metadata. Batches of one schema differ in few numbers. Here those are filled in, or found to be the same as
// before, without asking it again. Columns of fixed width alone: nothing in their bodies says where something
// else lies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "stream/c_data.h"

// How the batches with a certain head are cut into arrays. Never changes once made.
struct lwmq_array_layout {
  struct Node {
    std::int64_t length, null_count, offset;
    std::uint32_t buffers, children;
  };
  std::string head;     // the bytes that the block begins with
  std::uint64_t bytes;  // of the block
  std::uint64_t rows;
  std::vector<Node> nodes;            // each before its children
  std::vector<std::int64_t> buffers;  // of all nodes: offset in the block; -1: there is none
};

namespace lwmq::stream {

Status learn_layout(const ArrowArray& example, const lwmq_batch_info& block, std::string_view head,
                    lwmq_array_layout* out_layout);
Status export_batch(lwmq_batch* batch, const lwmq_array_layout& layout, ArrowArray* out_array);
Status write_array(lwmq_writer& writer, const lwmq_array_plan& plan, const ArrowArray& array,
                   std::uint32_t partition, std::uint32_t timeout_ms);

}  // namespace lwmq::stream
