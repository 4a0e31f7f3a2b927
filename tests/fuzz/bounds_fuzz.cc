// A schema, a batch and filters of strangers. What a writer finds in the batch and puts behind it stays
// within the block, and a reader finds the batch again; bounds that lie exclude batches, and nothing else.
#include "input.h"
#include "lwmq/lwmq.h"
#include "stream/bounds.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq;
  using namespace lwmq::fuzz;
  Input input(data, size);
  const auto which = input.take<std::uint8_t>();
  std::uint32_t flags = (which & 1) != 0 ? LWMQ_BATCH_IPC_STREAM : LWMQ_BATCH_IPC_MESSAGE;
  const std::string schema = input.take_bytes(input.take<std::uint16_t>());
  std::string block = input.rest();
  auto* bytes = reinterpret_cast<std::uint8_t*>(block.data());

  const std::uint32_t kind = LWMQ_LITERAL_INTEGER + (which >> 1) % 5U;
  std::vector<wire::FilterField> asked;
  for (const char* column : {"a", "b", "c"}) {
    for (std::uint32_t i = 0; i < 5; ++i) {
      asked.push_back({column, LWMQ_EQUAL + i, kind, which * 7U, "text"});
    }
  }
  stream::Filters filters;
  require(filters.take(asked), "these have a meaning");
  const Status fit = filters.declare(schema, "fuzz");
  require(fit == LWMQ_OK || (fit == LWMQ_E_SCHEMA && last_error()[0] != '\0'), "a refusal has a text");

  // As a reader: of a writer that lies.
  const std::uint32_t told = flags | wire::kBatchBounds;
  (void)filters.exclude(bytes, block.size(), told);
  require(stream::bytes_before_bounds(bytes, block.size(), told) <= block.size(), "within the block");
  require(!filters.exclude(bytes, block.size(), flags), "no bounds, so rows may match");

  // As a writer: of an application that lies.
  stream::BoundsWriter writer;
  const Status declared = writer.declare(schema, "fuzz");
  require(declared == LWMQ_OK || (declared == LWMQ_E_SCHEMA && last_error()[0] != '\0'),
          "a refusal has a text");
  const std::uint64_t batch_bytes = block.size();
  block.resize(batch_bytes + writer.room());
  bytes = reinterpret_cast<std::uint8_t*>(block.data());
  const std::uint64_t all = writer.append(bytes, batch_bytes, block.size(), &flags);
  require(all >= batch_bytes && all <= block.size(), "within the block");
  require(stream::bytes_before_bounds(bytes, all, flags) == batch_bytes, "the batch is found again");
  (void)filters.exclude(bytes, all, flags);
  return 0;
}
