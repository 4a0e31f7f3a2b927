#include "tli/registry.h"

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

Status limits(const lwmq_tli_provider& provider, const char* address, lwmq_limits* out_limits) {
  return with_text(provider, address, [&] { return provider.limits(address, out_limits); });
}

Status listen(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
              lwmq_tli_listener** out_listener) noexcept {
  return with_text(provider, address,
                   [&] { return provider.listener->listen(address, &options, out_listener); });
}

Status connect(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
               std::uint32_t timeout_ms, lwmq_tli_transport** out_transport) noexcept {
  return with_text(provider, address,
                   [&] { return provider.transport->connect(address, &options, timeout_ms, out_transport); });
}

}  // namespace lwmq::tli
