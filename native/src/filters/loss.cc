// loss=0.01,seed=7: some extents end here, as on a bad network. Nobody below repairs them.
#include <new>

#include "base/status.h"
#include "filters/way.h"

namespace lwmq::filters {
namespace {

struct Loss {
  Choice choice;
  Random random;
  std::uint64_t number = 0;
};

lwmq_status create(const char* text, std::uint32_t way, void** out_filter) {
  Settings settings("loss", text, "share");
  Choice choice;
  std::uint32_t ways = 0;
  choice.take(settings);
  if (!take_way(settings, &ways)) return fail(LWMQ_E_INVALID, "filter loss: way is send, land or both");
  const Status status = choice.done(settings);
  if (status != LWMQ_OK || way == 0) return status;
  *out_filter = (ways & way) != 0 ? new Loss{choice, Random(choice.seed, way)} : nullptr;
  return LWMQ_OK;
}

void see(void* filter, lwmq_tli_passing* /*passing*/, lwmq_tli_verdict* out_verdict) {
  auto& loss = *static_cast<Loss*>(filter);
  out_verdict->drop = loss.choice.is_chosen(++loss.number, loss.random) ? 1 : 0;
}

constexpr lwmq_tli_filter kLoss = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "loss",
    .help = "loss=SHARE[,every=N][,seed=N][,way=send|land|both]: drops extents",
    .ways = LWMQ_TLI_SENDING | LWMQ_TLI_LANDING,
    .rewrites = 0,
    .create = create,
    .see = see,
    .source = nullptr,
    .destroy = [](void* filter) { delete static_cast<Loss*>(filter); },
};

}  // namespace
}  // namespace lwmq::filters

using lwmq::filters::kLoss;
LWMQ_TLI_REGISTER_FILTER(kLoss);
