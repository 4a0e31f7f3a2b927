#include "os/thread.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <mutex>
#include <new>
#include <vector>

namespace lwmq::os {
namespace {

struct Start {
  void (*body)(void*);
  void* context;
};

// The threads that run now, and where they may. Never destroyed: they may outlive main.
struct Threads {
  std::mutex mutex;
  std::vector<pid_t> running;
  bool limited = false;  // to `processors`; else each is where its creator was
  cpu_set_t processors;
};

Threads& threads() noexcept {
  static auto* instance = new Threads;
  return *instance;
}

void* run(void* argument) noexcept {
  const Start start = *static_cast<Start*>(argument);
  delete static_cast<Start*>(argument);
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  {
    const std::lock_guard lock(threads().mutex);
    threads().running.push_back(self);
    // Tried when they were set; what was taken from the process since is nobody's error here.
    if (threads().limited) sched_setaffinity(self, sizeof threads().processors, &threads().processors);
  }
  start.body(start.context);
  const std::lock_guard lock(threads().mutex);
  std::erase(threads().running, self);
  return nullptr;
}

// Whether a thread can be on each of them: asked by one that does nothing else.
Status try_processors(const cpu_set_t& wanted) noexcept {
  struct Trial {
    cpu_set_t mask;
    int error = 0;
  } trial{wanted};
  pthread_t thread{};
  const Status status = start_thread(
      "lwmq-trial",
      [](void* context) {
        auto& asked = *static_cast<Trial*>(context);
        if (sched_setaffinity(0, sizeof asked.mask, &asked.mask) != 0 ||
            sched_getaffinity(0, sizeof asked.mask, &asked.mask) != 0)
          asked.error = errno;
      },
      &trial, &thread);
  if (status != LWMQ_OK) return status;
  pthread_join(thread, nullptr);
  if (trial.error != 0 && trial.error != EINVAL)
    return fail_errno(LWMQ_E_SYSTEM, trial.error, "sched_setaffinity");
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &wanted) && (trial.error != 0 || !CPU_ISSET(processor, &trial.mask)))
      return fail(LWMQ_E_INVALID, "processor %d is not there, or not allowed for this process", processor);
  }
  return LWMQ_OK;
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
    return fail_call(LWMQ_E_SYSTEM, error, "pthread_create of %s", name);
  }
  pthread_setname_np(thread, name);
  *out_thread = thread;
  return LWMQ_OK;
}

Status set_affinity(const std::uint32_t* processors, std::uint32_t count) noexcept {
  cpu_set_t wanted;
  CPU_ZERO(&wanted);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (processors[i] >= CPU_SETSIZE)
      return fail(LWMQ_E_INVALID, "processor %u; 0 to %d are possible", processors[i], CPU_SETSIZE - 1);
    CPU_SET(processors[i], &wanted);
  }
  if (count == 0 && sched_getaffinity(getpid(), sizeof wanted, &wanted) != 0)  // of the main thread
    return fail_errno(LWMQ_E_SYSTEM, errno, "sched_getaffinity");
  if (const Status status = try_processors(wanted); status != LWMQ_OK) return status;
  const std::lock_guard lock(threads().mutex);
  for (const pid_t thread : threads().running) {
    if (sched_setaffinity(thread, sizeof wanted, &wanted) != 0)
      return fail_errno(LWMQ_E_SYSTEM, errno, "sched_setaffinity");
  }
  threads().limited = count != 0;
  threads().processors = wanted;
  return LWMQ_OK;
}

}  // namespace lwmq::os
