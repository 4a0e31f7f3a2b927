// latency: how long extents are on their way, from show to landing, on one host. Both ends need it: the
// sending one puts the time behind each extent, the landing one takes it off again.
#include <cstring>

#include "base/status.h"
#include "filters/settings.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::filters {
namespace {

// In the kind: who does not have this filter refuses such an extent.
constexpr std::uint32_t kStamped = LWMQ_TLI_KIND_FILTERED;
constexpr std::uint64_t kLongest = 3'600'000'000'000;  // an hour: longer is another clock, or a lie

struct Latency {
  std::uint64_t every = 1;
  std::uint64_t number = 0;
};

lwmq_status create(const char* text, std::uint32_t way, void** out_filter) {
  Settings settings("latency", text, "every");
  Latency made;
  settings.take("every", &made.every);
  const Status status = settings.done();
  if (status != LWMQ_OK) return status;
  if (made.every == 0) return fail(LWMQ_E_INVALID, "filter latency: every is 1 or more");
  if (way != 0) *out_filter = new Latency(made);
  return LWMQ_OK;
}

void see(void* filter, lwmq_tli_passing* passing, lwmq_tli_verdict* out_verdict) {
  auto& latency = *static_cast<Latency*>(filter);
  std::uint64_t stamp = passing->now_ns;
  if (passing->way == LWMQ_TLI_SENDING) {
    const bool room = passing->room - passing->bytes >= sizeof stamp && passing->kind < kStamped;
    if (!room || ++latency.number % latency.every != 0) return;
    std::memcpy(passing->data + passing->bytes, &stamp, sizeof stamp);
    passing->bytes += sizeof stamp;
    passing->kind |= kStamped;
  } else {
    if ((passing->kind & kStamped) == 0 || passing->bytes < sizeof stamp) return;
    passing->bytes -= sizeof stamp;
    passing->kind &= ~kStamped;
    std::memcpy(&stamp, passing->data + passing->bytes, sizeof stamp);
    const std::uint64_t took = passing->now_ns - stamp;  // wraps where the stamp lies ahead
    if (took < kLongest) out_verdict->took_ns = took == 0 ? 1 : took;
  }
  out_verdict->changed = 1;
}

// It only writes where the sender has room: no copy for what lands.
constexpr lwmq_tli_filter kLatency = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "latency",
    .help = "latency[=EVERY]: times each extent, or each n-th, from show to landing; at both ends",
    .ways = LWMQ_TLI_SENDING | LWMQ_TLI_LANDING,
    .rewrites = LWMQ_TLI_SENDING,
    .create = create,
    .see = see,
    .source = nullptr,
    .destroy = [](void* filter) { delete static_cast<Latency*>(filter); },
};

}  // namespace
}  // namespace lwmq::filters

using lwmq::filters::kLatency;
LWMQ_TLI_REGISTER_FILTER(kLatency);
