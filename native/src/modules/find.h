// Providers and filters by number, by name and by address: first those of modules, then those that are linked
// in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::modules {

// The n-th provider: first those of all modules, in the order of the modules' names, then those that are
// linked in (tli/registry.h). Null after the last. The first call loads the modules. Any thread.
const lwmq_tli_provider* provider_at(std::uint32_t index) noexcept;

// Likewise of filters.
const lwmq_tli_filter* filter_at(std::uint32_t index) noexcept;
const lwmq_tli_filter* find_filter(std::string_view name) noexcept;

// The first provider that claims `address`, which names no filters (filters/filtered.h finds those that do).
// LWMQ_E_ADDRESS: no provider does; the text lists the registered names. LWMQ_E_CLOSED: this is a forked
// child.
Status find(const char* address, const lwmq_tli_provider** out_provider) noexcept;

// LWMQ_E_ADDRESS, with the names of the schemes and the address that may be meant: for one that nobody
// claims, or that has no scheme at all.
Status refuse_address(const char* address);

// `trace+loss=0.01+scheme://rest`: what stands behind the last `+` in front of the scheme; `address` itself
// where there is none.
const char* behind_filters(const char* address) noexcept;

// Splits `scheme://rest?key=value` at the question mark: providers see what stands before it.
std::string without_options(const char* address);

}  // namespace lwmq::modules
