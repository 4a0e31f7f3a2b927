#include "tli/registry.h"

#include <poll.h>

#include <algorithm>
#include <string>

#include "os/deadline.h"

// The linker's own bounds of the sections. Hidden, so that each library sees its own; weak, so that a library
// without any provider still links.
extern "C" {
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_provider* const __start_lwmq_tli[];
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_provider* const __stop_lwmq_tli[];
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_filter* const __start_lwmq_tli_filter[];
[[gnu::visibility("hidden"), gnu::weak]] extern const lwmq_tli_filter* const __stop_lwmq_tli_filter[];
}

namespace lwmq::tli {

const lwmq_tli_provider* linked_provider_at(std::uint32_t index) noexcept {
  return complete_at(__start_lwmq_tli, __stop_lwmq_tli, &index);
}

const lwmq_tli_filter* linked_filter_at(std::uint32_t index) noexcept {
  return complete_at(__start_lwmq_tli_filter, __stop_lwmq_tli_filter, &index);
}

namespace {

constexpr std::uint32_t kStepMs = 10;  // between two looks at a handshake, whatever its descriptor says

template <typename Call>
Status with_text(const lwmq_tli_provider& provider, const char* address, Call&& call) {
  forget_error();
  const Status status = call();
  if (!is_failure(status) || last_error()[0] != '\0') return status;
  return fail(status, "%s: provider '%s' answers %s without a text", address, provider.name,
              status_name(status));
}

}  // namespace

Status limits(const lwmq_tli_provider& provider, const char* address, lwmq_limits* out_limits) {
  return with_text(provider, address, [&] { return provider.limits(address, out_limits); });
}

Status listen(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
              lwmq_tli_listener** out_listener) noexcept {
  return with_text(provider, address,
                   [&] { return provider.listener->listen(address, &options, out_listener); });
}

Status connect(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
               lwmq_tli_transport** out_transport) noexcept {
  return with_text(provider, address,
                   [&] { return provider.transport->connect(address, &options, out_transport); });
}

Status proceed(const lwmq_tli_provider& provider, const char* address,
               lwmq_tli_transport* transport) noexcept {
  if (provider.transport->proceed == nullptr) return LWMQ_OK;
  const Status status = with_text(provider, address, [&] { return provider.transport->proceed(transport); });
  if (status != LWMQ_OK && status != LWMQ_E_FULL) provider.transport->close(transport, 0, 0);
  return status;
}

Status connect(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
               std::uint32_t timeout_ms, lwmq_tli_transport** out_transport) noexcept {
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  lwmq_tli_transport* transport = nullptr;
  if (const Status status = connect(provider, address, options, &transport); status != LWMQ_OK) return status;
  for (;;) {
    const Status status = proceed(provider, address, transport);
    if (status == LWMQ_OK) *out_transport = transport;
    if (status != LWMQ_E_FULL) return status;
    const std::uint32_t left_ms = os::ms_left(deadline);
    if (left_ms == 0) {
      const std::string awaited = last_error();
      provider.transport->close(transport, 0, 0);
      return awaited.empty() ? LWMQ_E_TIMED_OUT : fail(LWMQ_E_TIMED_OUT, "%s", awaited.c_str());
    }
    pollfd progress{provider.transport->descriptor(transport), POLLIN, 0};
    poll(&progress, 1, static_cast<int>(std::min(left_ms, kStepMs)));  // a signal ends no handshake
  }
}

}  // namespace lwmq::tli
