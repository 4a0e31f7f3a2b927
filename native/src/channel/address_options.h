// What may stand behind the question mark of an address:
// `scheme://name?buffer_bytes=4MiB&buffers=16&retry=250ms`.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace lwmq::channel {

struct AddressOptions {
  std::uint64_t buffer_bytes = 0;  // 0: not said
  std::uint32_t buffers_send = 0;  // `buffers` says both
  std::uint32_t buffers_receive = 0;
  std::uint32_t retry_ms = 0;
};

// Parses them. LWMQ_E_ADDRESS with a text: unknown key, malformed number or unit. Bytes take KiB, MiB, GiB
// (or K, M, G: the same) and KB, MB, GB (powers of 1000); times ms, s, m, h (seconds where no unit stands).
// Fractions are possible where whole bytes or milliseconds come of them.
Status parse_address_options(const char* address, AddressOptions* out_options);

}  // namespace lwmq::channel
