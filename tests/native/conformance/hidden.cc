// hidden://name - ipc:// with the mandatory tables alone: no shortcuts, and no memory that a peer can reach.
// Channels need nothing else, whatever the provider: what runs over it takes the longer way of every call.
#include "conformance/renamed.h"

namespace {

constexpr char kScheme[] = "hidden://";
constexpr char kBelow[] = "ipc://";

using Hidden = lwmq::conformance::Renamed<kScheme, kBelow>;
constexpr lwmq_tli_provider& hidden = Hidden::provider;

const bool filled = [] {
  Hidden::fill("hidden");
  hidden.limits = [](const char* address, lwmq_limits* out_limits) -> lwmq_status {
    const lwmq_status status = Hidden::limits(address, out_limits);
    out_limits->capabilities &= ~static_cast<std::uint32_t>(LWMQ_CAN_SHARE_WINDOW);
    return status;
  };
  hidden.fast = nullptr;
  hidden.memory = nullptr;
  return true;
}();

LWMQ_TLI_REGISTER(hidden);

}  // namespace
