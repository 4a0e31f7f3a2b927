// The provider whose windows processes of this host share, for streams at network addresses: mirrors lie in
// its windows, and clients on the endpoint's own host meet the endpoint over it.
#pragma once

#include <string>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::stream {

class Link;

// Who makes the memory of one end of a link: the link's provider, or where that shares no windows this one.
Status windows_of(const Link& link, const lwmq_tli_provider** out_provider) noexcept;

// Finds it, and starts its service. LWMQ_E_UNSUPPORTED: this library is built without one.
Status near_provider(const lwmq_tli_provider** out_provider) noexcept;

// An address of that provider which nobody else knows.
std::string random_near_address(const lwmq_tli_provider& provider);

}  // namespace lwmq::stream
