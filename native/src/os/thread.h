// Threads of the library: named, with every signal blocked, so that handlers run on the application's
// threads.
#pragma once

#include <pthread.h>

#include "base/status.h"

namespace lwmq::os {

// Starts `body(context)` on a joinable thread; `name` has at most 15 characters. LWMQ_E_SYSTEM.
Status start_thread(const char* name, void (*body)(void*), void* context, pthread_t* out_thread) noexcept;

}  // namespace lwmq::os
