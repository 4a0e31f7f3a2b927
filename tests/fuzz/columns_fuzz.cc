// A schema and a batch of a peer, from which a carrier finds the bytes of some columns. The ranges lie inside
// the batch, in ascending order, whatever the metadata says.
#include "input.h"
#include "lwmq/lwmq.h"
#include "stream/columns.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  Input input(data, size);
  const auto which = input.take<std::uint8_t>();
  const std::uint32_t flags = (which & 1) != 0 ? LWMQ_BATCH_IPC_STREAM : LWMQ_BATCH_IPC_MESSAGE;
  const std::string schema = input.take_bytes(input.take<std::uint16_t>());
  const std::string batch = input.rest();
  std::vector<std::string> names;
  for (const char* name : {"a", "b", "c"}) {
    if ((which >> names.size() & 2) == 0) names.emplace_back(name);
  }
  stream::Columns columns(names, 1 + (which >> 4));
  const Status status = columns.declare(schema, "fuzz");
  require(status == LWMQ_OK || (status == LWMQ_E_SCHEMA && last_error()[0] != '\0'), "a refusal has a text");
  std::uint64_t end = 0;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(batch.data());
  const auto& ranges = columns.find(bytes, batch.size(), flags);
  require(!ranges.empty() && ranges.size() <= 1U + (which >> 4), "as many as are allowed");
  for (const stream::ByteRange& range : ranges) {
    require(range.offset >= end && range.offset <= batch.size() && range.bytes <= batch.size() - range.offset,
            "a range lies within its batch, behind the one before");
    end = range.offset + range.bytes;
    touch(bytes + range.offset, range.bytes);
  }
  return 0;
}
