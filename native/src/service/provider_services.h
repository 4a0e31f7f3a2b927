// The service threads of the providers: one for each provider that has a `service`, started once in a
// process, when the first channel, listener or stream uses it.
#pragma once

#include "base/status.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::service {

// Starts that of `provider`; later calls, and calls in a forked child, do nothing. Any thread. Does not wait
// for it. The thread lives as long as the process: it witnesses deaths for every transport of the provider.
// Where it cannot be started this fails, and the next call tries again.
Status start_service(const lwmq_tli_provider& provider) noexcept;

}  // namespace lwmq::service
