// Threads of the library: named, with every signal blocked, so that handlers run on the application's
// threads.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "base/status.h"

namespace lwmq::os {

// Starts `body(context)` on a joinable thread; `name` has at most 15 characters. LWMQ_E_SYSTEM.
Status start_thread(const char* name, void (*body)(void*), void* context, pthread_t* out_thread) noexcept;

// Where those threads may run, the ones that run and the ones to come; none given: where the main thread may.
// LWMQ_E_INVALID: one of them is not there, or not allowed for this process; nothing has changed then. Any
// thread.
Status set_affinity(const std::uint32_t* processors, std::uint32_t count) noexcept;

}  // namespace lwmq::os
