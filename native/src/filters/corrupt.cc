// corrupt=0.01,seed=7: turns bits of some extents over, or cuts their end off.
#include <new>

#include "base/status.h"
#include "filters/way.h"

namespace lwmq::filters {
namespace {

struct Corrupt {
  Choice choice;
  Random random;
  std::uint64_t bits = 1;
  std::uint64_t cut = 0;
  std::uint64_t number = 0;
};

lwmq_status create(const char* text, std::uint32_t way, void** out_filter) {
  Settings settings("corrupt", text, "share");
  Corrupt made{{}, Random(0, 0)};
  std::uint32_t ways = 0;
  made.choice.take(settings);
  settings.take("bits", &made.bits);
  settings.take("cut", &made.cut);
  if (!take_way(settings, &ways)) return fail(LWMQ_E_INVALID, "filter corrupt: way is send, land or both");
  const Status status = made.choice.done(settings);
  if (status != LWMQ_OK || way == 0) return status;
  made.random = Random(made.choice.seed, way);
  *out_filter = (ways & way) != 0 ? new Corrupt(made) : nullptr;
  return LWMQ_OK;
}

void see(void* filter, lwmq_tli_passing* passing, lwmq_tli_verdict* out_verdict) {
  auto& corrupt = *static_cast<Corrupt*>(filter);
  if (!corrupt.choice.is_chosen(++corrupt.number, corrupt.random) || passing->bytes == 0) return;
  out_verdict->changed = 1;
  passing->bytes -= corrupt.cut < passing->bytes ? corrupt.cut : passing->bytes;
  for (std::uint64_t i = 0; i < corrupt.bits && passing->bytes > 0; ++i) {
    const std::uint64_t bit = corrupt.random.below(passing->bytes * 8);
    passing->data[bit / 8] = static_cast<std::uint8_t>(passing->data[bit / 8] ^ (1u << (bit % 8)));
  }
}

constexpr lwmq_tli_filter kCorrupt = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "corrupt",
    .help = "corrupt=SHARE[,every=N][,bits=N][,cut=BYTES][,seed=N][,way=send|land|both]: turns bits over",
    .ways = LWMQ_TLI_SENDING | LWMQ_TLI_LANDING,
    .rewrites = LWMQ_TLI_SENDING | LWMQ_TLI_LANDING,
    .create = create,
    .see = see,
    .source = nullptr,
    .destroy = [](void* filter) { delete static_cast<Corrupt*>(filter); },
};

}  // namespace
}  // namespace lwmq::filters

using lwmq::filters::kCorrupt;
LWMQ_TLI_REGISTER_FILTER(kCorrupt);
