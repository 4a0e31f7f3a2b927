// The threads of providers: one for each provider that has a `service`, started when the provider is first
// used.
#pragma once

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::service {

// Starts the provider's thread, once in a process. Later calls, and calls in a forked child, do nothing. Any
// thread. Does not wait for it. The thread lives as long as the process. A thread that cannot be started is
// tried again by the next call, and is what this one fails with.
Status start_service(const lwmq_tli_provider& provider) noexcept;

}  // namespace lwmq::service
