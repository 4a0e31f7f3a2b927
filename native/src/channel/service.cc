#include "channel/service.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>

#include "os/identity.h"
#include "os/thread.h"
#include "tli/registry.h"

namespace lwmq::channel {
namespace {

constexpr std::uint32_t kProvidersMax = 32;

// Never set: a provider's service goes on until the process ends.
const volatile std::uint32_t kNeverStop = 0;

void run_service(void* provider) { static_cast<const lwmq_tli_provider*>(provider)->service(&kNeverStop); }

struct Services {
  std::mutex mutex;
  std::atomic<bool> all_started{false};  // written under the mutex; true for good
  bool started[kProvidersMax] = {};
};

// Never destroyed: other threads may call while the process exits.
Services& services() noexcept {
  static auto* instance = new Services;
  return *instance;
}

bool start(const lwmq_tli_provider* provider) noexcept {
  if (provider->service == nullptr) return true;
  char name[16];
  std::snprintf(name, sizeof name, "lwmq-%.10s", provider->name);
  pthread_t thread{};
  if (os::start_thread(name, run_service, const_cast<lwmq_tli_provider*>(provider), &thread) != LWMQ_OK)
    return false;
  pthread_detach(thread);
  return true;
}

}  // namespace

void start_services() noexcept {
  if (os::forked()) return;
  Services& all = services();
  if (all.all_started.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(all.mutex);
  bool complete = true;
  for (std::uint32_t i = 0; i < kProvidersMax; ++i) {
    const lwmq_tli_provider* provider = tli::provider_at(i);
    if (provider == nullptr) break;
    if (!all.started[i]) all.started[i] = start(provider);
    complete = complete && all.started[i];
  }
  all.all_started.store(complete, std::memory_order_release);
}

}  // namespace lwmq::channel
