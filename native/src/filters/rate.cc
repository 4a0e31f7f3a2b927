// rate=10MiB: so many bytes per second, and no more. What lands waits; who sends finds no room.
#include <algorithm>
#include <new>

#include "base/status.h"
#include "filters/way.h"

namespace lwmq::filters {
namespace {

struct Rate {
  std::uint64_t bytes = 0;    // per second; 0: any
  std::uint64_t count = 0;    // extents per second; 0: any
  std::uint64_t free_ns = 0;  // when the line is free again
};

lwmq_status create(const char* text, std::uint32_t way, void** out_filter) {
  Settings settings("rate", text, "bytes");
  Rate made;
  std::uint32_t ways = 0;
  settings.take("bytes", &made.bytes);
  settings.take("count", &made.count);
  if (!take_way(settings, &ways)) return fail(LWMQ_E_INVALID, "filter rate: way is send, land or both");
  const Status status = settings.done();
  if (status != LWMQ_OK) return status;
  if (made.bytes == 0 && made.count == 0)
    return fail(LWMQ_E_INVALID, "filter rate: bytes or extents per second are wanted");
  if (way == 0) return LWMQ_OK;
  *out_filter = (ways & way) != 0 ? new Rate(made) : nullptr;
  return LWMQ_OK;
}

std::uint64_t nanoseconds(std::uint64_t amount, std::uint64_t per_second) noexcept {
  return per_second == 0 ? 0
                         : static_cast<std::uint64_t>(static_cast<double>(amount) * 1e9 /
                                                      static_cast<double>(per_second));
}

void see(void* filter, lwmq_tli_passing* passing, lwmq_tli_verdict* out_verdict) {
  auto& rate = *static_cast<Rate*>(filter);
  rate.free_ns = std::max(rate.free_ns, passing->now_ns) +
                 std::max(nanoseconds(passing->bytes, rate.bytes), nanoseconds(1, rate.count));
  out_verdict->hold_ns = rate.free_ns - passing->now_ns;
}

constexpr lwmq_tli_filter kRate = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "rate",
    .help = "rate=BYTES[,count=N][,way=send|land|both]: no more than that per second",
    .ways = LWMQ_TLI_SENDING | LWMQ_TLI_LANDING,
    .rewrites = 0,
    .create = create,
    .see = see,
    .source = nullptr,
    .destroy = [](void* filter) { delete static_cast<Rate*>(filter); },
};

}  // namespace
}  // namespace lwmq::filters

using lwmq::filters::kRate;
LWMQ_TLI_REGISTER_FILTER(kRate);
