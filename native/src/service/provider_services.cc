#include "service/provider_services.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <vector>

#include "os/identity.h"
#include "os/thread.h"

namespace lwmq::service {
namespace {

// Never set: a provider's service goes on until the process ends.
const volatile std::uint32_t kNeverStop = 0;

void run_service(void* provider) { static_cast<const lwmq_tli_provider*>(provider)->service(&kNeverStop); }

struct Services {
  std::mutex mutex;
  // One thread for each, whichever table names it: a provider behind filters has that of the one below.
  std::vector<decltype(lwmq_tli_provider::service)> started;
};

// Never destroyed: other threads may call while the process exits.
Services& services() noexcept {
  static auto* instance = new Services;
  return *instance;
}

}  // namespace

Status start_service(const lwmq_tli_provider& provider) noexcept {
  if (provider.service == nullptr || os::forked()) return LWMQ_OK;
  Services& all = services();
  const std::lock_guard lock(all.mutex);
  if (std::ranges::find(all.started, provider.service) != all.started.end()) return LWMQ_OK;
  char name[16];
  std::snprintf(name, sizeof name, "lwmq-%.10s", provider.name);
  pthread_t thread{};
  const Status status =
      os::start_thread(name, run_service, const_cast<lwmq_tli_provider*>(&provider), &thread);
  if (status != LWMQ_OK) return status;
  pthread_detach(thread);
  all.started.push_back(provider.service);
  return LWMQ_OK;
}

}  // namespace lwmq::service
