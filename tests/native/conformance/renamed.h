// A provider under another scheme, for tests that replace some of its calls or leave some out: `<scheme>name`
// is what `<below>name` is.
#pragma once

#include <cstring>
#include <string>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::conformance {

LWMQ_TLI_BOUND(lwmq_tli_provider, __start_lwmq_tli);
LWMQ_TLI_BOUND(lwmq_tli_provider, __stop_lwmq_tli);

template <const char* kScheme, const char* kBelow>
struct Renamed {
  static inline lwmq_tli_provider provider;
  static inline lwmq_tli_listener_table listener;
  static inline lwmq_tli_attempt_table attempt;
  static inline lwmq_tli_transport_table transport;

  static const lwmq_tli_provider& below() {
    const auto* const* at = __start_lwmq_tli;
    while ((*at)->claim == nullptr || (*at)->claim(kBelow) == 0) ++at;
    return **at;
  }
  static std::string address_below(const char* address) { return kBelow + std::string(address + length()); }

  // Those of the provider below. A provider that allows less begins with them.
  static lwmq_status limits(const char* address, lwmq_limits* out_limits) {
    const lwmq_status status = below().limits(address_below(address).c_str(), out_limits);
    if (is_failure(status)) add_context(address);
    return status;
  }

  // For a static initialiser: before anybody looks for providers.
  static bool fill(const char* name) {
    const lwmq_tli_provider& from = below();  // as long as we are not like it ourselves
    listener = *from.listener;
    attempt = *from.attempt;
    transport = *from.transport;
    provider = from;
    provider.name = name;
    provider.listener = &listener;
    provider.attempt = &attempt;
    provider.transport = &transport;
    provider.claim = [](const char* address) -> std::int32_t {
      return std::strncmp(address, kScheme, length()) == 0 ? 1 : 0;
    };
    provider.limits = limits;
    listener.listen = [](const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out) {
      const lwmq_status status = below().listener->listen(address_below(address).c_str(), options, out);
      if (is_failure(status)) add_context(address);
      return status;
    };
    attempt.begin = [](const char* address, const lwmq_tli_options* options, lwmq_tli_attempt** out) {
      return below().attempt->begin(address_below(address).c_str(), options, out);
    };
    return true;
  }

 private:
  static std::size_t length() { return std::strlen(kScheme); }
};

}  // namespace lwmq::conformance
