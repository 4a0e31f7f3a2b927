#include "os/thread.h"

#include <csignal>
#include <new>

namespace lwmq::os {
namespace {

struct Start {
  void (*body)(void*);
  void* context;
};

void* run(void* argument) noexcept {
  const Start start = *static_cast<Start*>(argument);
  delete static_cast<Start*>(argument);
  start.body(start.context);
  return nullptr;
}

}  // namespace

Status start_thread(const char* name, void (*body)(void*), void* context, pthread_t* out_thread) noexcept {
  auto* start = new (std::nothrow) Start{body, context};
  if (start == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory to start thread %s", name);
  // A thread inherits the mask of its creator: blocked here for a moment, there for ever.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, run, start);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    delete start;
    return fail_errno(LWMQ_E_SYSTEM, error, "pthread_create of %s", name);
  }
  pthread_setname_np(thread, name);
  *out_thread = thread;
  return LWMQ_OK;
}

}  // namespace lwmq::os
