// delay=5ms,jitter=1ms: what lands, lands later, in its order. When the peer has ended, at once.
#include <new>

#include "base/status.h"
#include "filters/random.h"
#include "filters/settings.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::filters {
namespace {

struct Delay {
  std::uint64_t hold_ns = 0;
  std::uint64_t jitter_ns = 0;
  Random random;
};

lwmq_status create(const char* text, std::uint32_t way, void** out_filter) {
  Settings settings("delay", text, "time");
  std::uint64_t hold_ns = 0;
  std::uint64_t jitter_ns = 0;
  std::uint64_t seed = 1;
  settings.take_time("time", &hold_ns);
  settings.take_time("jitter", &jitter_ns);
  settings.take("seed", &seed);
  const Status status = settings.done();
  if (status != LWMQ_OK || way == 0) return status;
  *out_filter = new Delay{hold_ns, jitter_ns, Random(seed, way)};
  return LWMQ_OK;
}

void see(void* filter, lwmq_tli_passing* /*passing*/, lwmq_tli_verdict* out_verdict) {
  auto& delay = *static_cast<Delay*>(filter);
  out_verdict->hold_ns = delay.hold_ns + delay.random.below(delay.jitter_ns);
}

constexpr lwmq_tli_filter kDelay = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "delay",
    .help = "delay=TIME[,jitter=TIME][,seed=N]: extents land later, in order (at the receiver)",
    .ways = LWMQ_TLI_LANDING,
    .rewrites = 0,
    .create = create,
    .see = see,
    .source = nullptr,
    .destroy = [](void* filter) { delete static_cast<Delay*>(filter); },
};

}  // namespace
}  // namespace lwmq::filters

using lwmq::filters::kDelay;
LWMQ_TLI_REGISTER_FILTER(kDelay);
