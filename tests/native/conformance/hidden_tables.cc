// hidden://name - ipc:// without its optional tables: the mandatory calls alone serve every feature.
#include <cstring>
#include <string>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "modules/find.h"

namespace {

constexpr char kScheme[] = "hidden://";

std::string below(const char* address) { return "ipc://" + std::string(address + sizeof kScheme - 1); }

const lwmq_tli_provider& ipc() {
  static const lwmq_tli_provider* const found = [] {
    const lwmq_tli_provider* provider = nullptr;
    return lwmq::modules::find("ipc://any", &provider) == LWMQ_OK ? provider : nullptr;
  }();
  return *found;
}

// A failure speaks of the address that the caller knows.
lwmq_status in_its_words(lwmq_status status, const char* address) {
  if (lwmq::is_failure(status)) lwmq::add_context(address);
  return status;
}

lwmq_tli_listener_table listener;
lwmq_tli_transport_table transport;

lwmq_tli_provider hidden = {
    .size = sizeof(lwmq_tli_provider),
    .version = LWMQ_TLI_VERSION,
    .name = "hidden",
    .settings = nullptr,
    .claim = [](const char* address) -> std::int32_t {
      return std::strncmp(address, kScheme, sizeof kScheme - 1) == 0 ? 1 : 0;
    },
    .limits = [](const char* address, lwmq_limits* out_limits) -> lwmq_status {
      const lwmq_status status = ipc().limits(below(address).c_str(), out_limits);
      out_limits->capabilities &= ~std::uint32_t{LWMQ_CAN_SHARE_WINDOW};
      return in_its_words(status, address);
    },
    .service = nullptr,  // that of ipc, from `filled` on
    .listener = &listener,
    .transport = &transport,
    .fast = nullptr,
    .memory = nullptr,
};

// The tables of ipc are constants, filled in before anything runs.
extern "C" {
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_provider* const __start_lwmq_tli[];
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_provider* const __stop_lwmq_tli[];
}

const bool filled = [] {
  for (const auto* const* at = __start_lwmq_tli; at != __stop_lwmq_tli; ++at) {
    if (std::strcmp((*at)->name, "ipc") != 0) continue;
    listener = *(*at)->listener;
    transport = *(*at)->transport;
    hidden.service = (*at)->service;  // the same one: it starts once
  }
  listener.listen = [](const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out) {
    return in_its_words(ipc().listener->listen(below(address).c_str(), options, out), address);
  };
  transport.connect = [](const char* address, const lwmq_tli_options* options, lwmq_tli_transport** out) {
    return in_its_words(ipc().transport->connect(below(address).c_str(), options, out), address);
  };
  return true;
}();

}  // namespace

LWMQ_TLI_REGISTER(hidden);
