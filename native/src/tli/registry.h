// The providers and filters that are linked into this library, found through the bounds of the ELF sections
// `lwmq_tli` and `lwmq_tli_filter`, and those of modules (modules.h).
//
// This floor knows none of them by name. One that is one object file more, or one less, changes what find
// answers and nothing else. (Objects must be linked as objects: out of an archive the linker takes none
// of them, silently. tests/tree lists the registered names for that reason.)
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::tli {

// The n-th registered provider; null after the last. Tables that are not complete (tables.h) are passed over.
const lwmq_tli_provider* provider_at(std::uint32_t index) noexcept;

// Likewise of filters.
const lwmq_tli_filter* filter_at(std::uint32_t index) noexcept;
const lwmq_tli_filter* find_filter(std::string_view name) noexcept;

// The first provider that claims `address`; where none does and filters stand in front of the scheme, the one
// that claims what is behind them, wrapped (filtered.h). LWMQ_E_ADDRESS: nobody does; the text lists the
// registered names.
Status find(const char* address, const lwmq_tli_provider** out_provider) noexcept;

// LWMQ_E_ADDRESS, with the names of the schemes and the address that may be meant: for one that nobody
// claims, or that has no scheme at all.
Status refuse_address(const char* address);

// Calls of a provider's table whose failures an application hears of: they have a text, if only of who gave
// none.
Status limits(const lwmq_tli_provider& provider, const char* address, lwmq_limits* out_limits);
Status listen(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
              lwmq_tli_listener** out_listener) noexcept;
Status connect(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
               std::uint32_t timeout_ms, lwmq_tli_transport** out_transport) noexcept;

// Splits `scheme://rest?key=value` at the question mark: providers see what stands before it.
std::string without_options(const char* address);

}  // namespace lwmq::tli
