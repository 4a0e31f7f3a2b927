// reorder=0.1,behind=3,seed=7: some extents are overtaken by those that land after them.
#include <new>

#include "base/status.h"
#include "filters/way.h"

namespace lwmq::filters {
namespace {

struct Reorder {
  Choice choice;
  Random random;
  std::uint64_t behind = 1;
  std::uint64_t hold_ns = 10'000'000;
  std::uint64_t number = 0;
};

lwmq_status create(const char* text, std::uint32_t way, void** out_filter) {
  Settings settings("reorder", text, "share");
  Reorder made{{}, Random(0, 0)};
  made.choice.take(settings);
  settings.take("behind", &made.behind);
  settings.take_time("hold", &made.hold_ns);
  const Status status = made.choice.done(settings);
  if (status != LWMQ_OK) return status;
  if (made.behind == 0 || made.behind > 1000)
    return fail(LWMQ_E_INVALID, "filter reorder: behind is 1 to 1000, not %" PRIu64, made.behind);
  if (way == 0) return LWMQ_OK;
  made.random = Random(made.choice.seed, way);
  *out_filter = new Reorder(made);
  return LWMQ_OK;
}

void see(void* filter, lwmq_tli_passing* /*passing*/, lwmq_tli_verdict* out_verdict) {
  auto& reorder = *static_cast<Reorder*>(filter);
  if (!reorder.choice.is_chosen(++reorder.number, reorder.random)) return;
  out_verdict->behind = static_cast<std::uint32_t>(reorder.behind);
  out_verdict->hold_ns = reorder.hold_ns;
}

constexpr lwmq_tli_filter kReorder = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "reorder",
    .help =
        "reorder=SHARE[,every=N][,behind=N][,hold=TIME][,seed=N]: later extents overtake some (at the "
        "receiver)",
    .ways = LWMQ_TLI_LANDING,
    .rewrites = 0,
    .create = create,
    .see = see,
    .source = nullptr,
    .destroy = [](void* filter) { delete static_cast<Reorder*>(filter); },
};

}  // namespace
}  // namespace lwmq::filters

using lwmq::filters::kReorder;
LWMQ_TLI_REGISTER_FILTER(kReorder);
