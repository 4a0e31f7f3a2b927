// The providers that are linked into this library, found through the bounds of ELF section `lwmq_tli`.
//
// This floor knows no provider by name. A provider that is one object file more, or one less, changes what
// find answers and nothing else. (Objects must be linked as objects: out of an archive the linker takes none
// of them, silently. tests/tree lists the registered names for that reason.)
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::tli {

// The n-th registered provider; null after the last. Tables that are half filled or of another version are
// passed over.
const lwmq_tli_provider* provider_at(std::uint32_t index) noexcept;

// The first provider that claims `address`. LWMQ_E_ADDRESS: none does; the text lists the registered names.
Status find(const char* address, const lwmq_tli_provider** out_provider) noexcept;

// Splits `scheme://rest?key=value` at the question mark: providers see what stands before it.
std::string without_options(const char* address);

}  // namespace lwmq::tli
