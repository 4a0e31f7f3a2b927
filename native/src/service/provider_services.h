// The service threads of the providers: one for each provider that has a `service`, started once
// in a process.
#pragma once

#include "base/status.h"

namespace lwmq::service {

// Starts them; later calls, and calls in a forked child, do nothing. Any thread. Does not wait for them.
// The threads live as long as the process: they witness deaths for every transport of their provider. A
// thread that cannot be started is tried again by the next call, and is what this one fails with.
Status start_services() noexcept;

}  // namespace lwmq::service
