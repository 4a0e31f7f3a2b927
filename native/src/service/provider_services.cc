#include "service/provider_services.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <vector>

#include "modules/find.h"
#include "os/identity.h"
#include "os/thread.h"

namespace lwmq::service {
namespace {

// Never set: a provider's service goes on until the process ends.
const volatile std::uint32_t kNeverStop = 0;

void run_service(void* provider) { static_cast<const lwmq_tli_provider*>(provider)->service(&kNeverStop); }

struct Services {
  std::mutex mutex;
  std::atomic<bool> all_started{false};           // written under the mutex; true for good
  std::vector<const lwmq_tli_provider*> started;  // those that have something to do
};

// Never destroyed: other threads may call while the process exits.
Services& services() noexcept {
  static auto* instance = new Services;
  return *instance;
}

Status start(Services& all, const lwmq_tli_provider* provider) {
  if (provider->service == nullptr ||
      std::find(all.started.begin(), all.started.end(), provider) != all.started.end())
    return LWMQ_OK;
  char name[16];
  std::snprintf(name, sizeof name, "lwmq-%.10s", provider->name);
  pthread_t thread{};
  const Status status =
      os::start_thread(name, run_service, const_cast<lwmq_tli_provider*>(provider), &thread);
  if (status != LWMQ_OK) return status;
  pthread_detach(thread);
  all.started.push_back(provider);
  return LWMQ_OK;
}

}  // namespace

Status start_services() noexcept {
  if (os::forked()) return LWMQ_OK;
  Services& all = services();
  if (all.all_started.load(std::memory_order_acquire)) return LWMQ_OK;
  const std::lock_guard lock(all.mutex);
  for (std::uint32_t i = 0; const auto* provider = modules::provider_at(i); ++i) {
    if (const Status status = start(all, provider); status != LWMQ_OK) return status;
  }
  all.all_started.store(true, std::memory_order_release);
  return LWMQ_OK;
}

}  // namespace lwmq::service
