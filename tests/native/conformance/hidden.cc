// hidden://name - ipc:// with the mandatory tables alone: no shortcuts, and no memory that a peer can reach.
// Channels need nothing else, whatever the provider: what runs over it takes the longer way of every call,
// and a step more to connect, without a descriptor.
#include <utility>

#include "conformance/renamed.h"

namespace {

constexpr char kScheme[] = "hidden://";
constexpr char kBelow[] = "ipc://";

using Hidden = lwmq::conformance::Renamed<kScheme, kBelow>;
constexpr lwmq_tli_provider& hidden = Hidden::provider;

struct Attempt {
  lwmq_tli_attempt* below;
  bool was_asked = false;
};
Attempt* of(lwmq_tli_attempt* attempt) { return reinterpret_cast<Attempt*>(attempt); }

const bool filled = [] {
  Hidden::fill("hidden");
  hidden.limits = [](const char* address, lwmq_limits* out_limits) -> lwmq_status {
    const lwmq_status status = Hidden::limits(address, out_limits);
    out_limits->capabilities &= ~static_cast<std::uint32_t>(LWMQ_CAN_SHARE_WINDOW);
    return status;
  };
  Hidden::attempt = {
      .begin = [](const char* address, const lwmq_tli_options* options,
                  lwmq_tli_attempt** out_attempt) -> lwmq_status {
        lwmq_tli_attempt* below = nullptr;
        const std::string address_below = Hidden::address_below(address);
        const lwmq_status status = Hidden::below().attempt->begin(address_below.c_str(), options, &below);
        if (status == LWMQ_OK) *out_attempt = reinterpret_cast<lwmq_tli_attempt*>(new Attempt{below});
        return status;
      },
      .advance = [](lwmq_tli_attempt* attempt, lwmq_tli_transport** out_transport) -> lwmq_status {
        if (!std::exchange(of(attempt)->was_asked, true)) return LWMQ_E_TIMED_OUT;
        const lwmq_status status = Hidden::below().attempt->advance(of(attempt)->below, out_transport);
        if (status != LWMQ_E_TIMED_OUT) delete of(attempt);
        return status;
      },
      .descriptor = [](lwmq_tli_attempt*) -> std::int32_t { return -1; },
      .cancel =
          [](lwmq_tli_attempt* attempt) {
            Hidden::below().attempt->cancel(of(attempt)->below);
            delete of(attempt);
          },
  };
  hidden.fast = nullptr;
  hidden.memory = nullptr;
  return true;
}();

LWMQ_TLI_REGISTER(hidden);

}  // namespace
