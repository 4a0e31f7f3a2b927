// Modules: shared objects from outside with providers and filters, found in the folders of $LWMQ_MODULE_PATH.
//
// A file is read once, into sealed memory; what was checked there is what the loader maps. So nothing that is
// done to the file meanwhile matters.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::modules {

// Of all modules that are loaded, in the order of their names; null past the last. The first call loads them.
// Each is complete, or null.
const lwmq_tli_provider* const* module_provider_at(std::uint32_t index) noexcept;
const lwmq_tli_filter* const* module_filter_at(std::uint32_t index) noexcept;

// See lwmq.h.
Status query_module(std::uint32_t index, lwmq_module_view* out_view) noexcept;
Status verify_module(const char* path, const char* trust, lwmq_module_view* out_view);
Status sign_module(const char* path, const char* key, std::uint64_t expires_s);
Status make_module_key(const char* key, char out_public[72]);

}  // namespace lwmq::modules
