// The providers and filters that are linked into this library, found through the bounds of the ELF sections
// `lwmq_tli` and `lwmq_tli_filter`; and the provider calls whose failures reach an application.
//
// This floor knows none of them by name. Adding or removing an object file changes what these functions
// return and nothing else. (The objects must be linked as objects: from an archive the linker silently takes
// none of them. For that reason tests/tree lists the registered names.)
#pragma once

#include <cstdint>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "tli/tables.h"

namespace lwmq::tli {

// The n-th complete table between two bounds; null after the last, and then `*index` is less by their number.
// Tables that are not complete (tables.h) are passed over.
template <typename Table>
const Table* complete_at(const Table* const* begin, const Table* const* end, std::uint32_t* index) noexcept {
  for (const auto* entry = begin; entry < end; ++entry) {
    if (*entry == nullptr || flaw_of(**entry) != nullptr) continue;
    if ((*index)-- == 0) return *entry;
  }
  return nullptr;
}

// The n-th complete table that is linked in; null after the last.
const lwmq_tli_provider* linked_provider_at(std::uint32_t index) noexcept;
const lwmq_tli_filter* linked_filter_at(std::uint32_t index) noexcept;

// Answers as `call` does, which asks `provider` for something at `address`. A failure has a text, if only of
// which provider gave none: what an older failure has left is not its text.
template <typename Call>
Status with_text(const lwmq_tli_provider& provider, const char* address, Call&& call) {
  forget_error();
  const Status status = call();
  if (!is_failure(status) || last_error()[0] != '\0') return status;
  return fail(status, "%s: provider '%s' answers %s without a text", address, provider.name,
              status_name(status));
}

// Calls of a provider's tables, each by with_text.
Status limits(const lwmq_tli_provider& provider, const char* address, lwmq_limits* out_limits);
Status listen(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
              lwmq_tli_listener** out_listener) noexcept;
Status begin(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
             lwmq_tli_attempt** out_attempt) noexcept;
Status advance(const lwmq_tli_provider& provider, const char* address, lwmq_tli_attempt* attempt,
               lwmq_tli_transport** out_transport) noexcept;

// For threads that have nothing else to do: begins an attempt and waits for its end, at most timeout_ms.
// LWMQ_E_TIMED_OUT, without a text. A signal ends no handshake.
Status connect(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
               std::uint32_t timeout_ms, lwmq_tli_transport** out_transport) noexcept;

}  // namespace lwmq::tli
