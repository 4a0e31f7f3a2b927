#include "tli/registry.h"

#include <poll.h>

#include <algorithm>

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

constexpr std::uint32_t kSliceMs = 1000;  // of a wait for an attempt's descriptor

}  // namespace

Status limits(const lwmq_tli_provider& provider, const char* address, lwmq_limits* out_limits) {
  return with_text(provider, address, [&] { return provider.limits(address, out_limits); });
}

Status listen(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
              lwmq_tli_listener** out_listener) noexcept {
  return with_text(provider, address,
                   [&] { return provider.listener->listen(address, &options, out_listener); });
}

Status begin(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
             lwmq_tli_attempt** out_attempt) noexcept {
  return with_text(provider, address,
                   [&] { return provider.attempt->begin(address, &options, out_attempt); });
}

Status advance(const lwmq_tli_provider& provider, const char* address, lwmq_tli_attempt* attempt,
               lwmq_tli_transport** out_transport) noexcept {
  return with_text(provider, address, [&] { return provider.attempt->advance(attempt, out_transport); });
}

Status connect(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
               std::uint32_t timeout_ms, lwmq_tli_transport** out_transport) noexcept {
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  lwmq_tli_attempt* attempt = nullptr;
  Status status = begin(provider, address, options, &attempt);
  if (status != LWMQ_OK) return status;
  for (;;) {
    status = advance(provider, address, attempt, out_transport);
    if (status != LWMQ_E_TIMED_OUT) return status;
    const std::uint32_t left_ms = os::ms_left(deadline);
    pollfd news{provider.attempt->descriptor(attempt), POLLIN, 0};
    if (left_ms == 0) {
      provider.attempt->cancel(attempt);
      return status;
    }
    poll(&news, 1, static_cast<int>(std::min(left_ms, news.fd < 0 ? 1U : kSliceMs)));
  }
}

}  // namespace lwmq::tli
