// What the two ends of a transport are there for has to be the same.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace lwmq::tli {

// LWMQ_E_VERSION, with both in the text.
Status check_purposes(const char* address, std::uint32_t of_client, std::uint32_t of_listener) noexcept;

}  // namespace lwmq::tli
