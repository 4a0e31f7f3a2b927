// The providers and filters that are linked into this library, found through the bounds of the ELF sections
// `lwmq_tli` and `lwmq_tli_filter`, and the calls of a provider whose failures an application hears of.
//
// This floor knows none of them by name. One that is one object file more, or one less, changes what these
// functions answer and nothing else. (Objects must be linked as objects: out of an archive the linker takes
// none of them, silently. tests/tree lists the registered names for that reason.)
#pragma once

#include <cstdint>
#include <string>

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

// Whether the provider's windows are mapped by both processes.
inline bool shares_windows(const lwmq_tli_provider& provider) noexcept {
  return provider.memory != nullptr && provider.memory->window_create != nullptr;
}

// Whether one process can write memory of the other through the provider.
inline bool pushes(const lwmq_tli_provider& provider) noexcept {
  return provider.memory != nullptr && provider.memory->push != nullptr;
}

// Where clients reach a listener that was bound at `asked`: with the port that the system has chosen. Lent
// until the listener is closed. A null listener: `asked`.
inline const char* bound_address(const lwmq_tli_listener_table& table, lwmq_tli_listener* listener,
                                 const std::string& asked) noexcept {
  return listener == nullptr || table.address == nullptr ? asked.c_str() : table.address(listener);
}

// Calls of a provider's table. A failure has a text, if only of which provider gave none.
Status limits(const lwmq_tli_provider& provider, const char* address, lwmq_limits* out_limits);
Status listen(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
              lwmq_tli_listener** out_listener) noexcept;
// Begins to connect; the transport may still have to proceed.
Status connect(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
               lwmq_tli_transport** out_transport) noexcept;
// LWMQ_OK: connected. LWMQ_E_FULL: not yet. After any other status the transport is closed.
Status proceed(const lwmq_tli_provider& provider, const char* address,
               lwmq_tli_transport* transport) noexcept;
// Both, until the transport is connected. Waits at most timeout_ms: LWMQ_E_TIMED_OUT.
Status connect(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
               std::uint32_t timeout_ms, lwmq_tli_transport** out_transport) noexcept;

}  // namespace lwmq::tli
