#include "service/provider_services.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <vector>

#include "os/identity.h"
#include "os/thread.h"

namespace lwmq::service {
namespace {

using Service = void (*)();

// Never destroyed: other threads may call while the process exits.
struct Started {
  std::mutex mutex;
  std::vector<Service> services;  // a filtered provider has that of the provider below it
};

Started& started() noexcept {
  static auto* instance = new Started;
  return *instance;
}

}  // namespace

Status start_service(const lwmq_tli_provider& provider) noexcept {
  if (provider.service == nullptr || os::forked()) return LWMQ_OK;
  Started& all = started();
  const std::lock_guard lock(all.mutex);
  const auto known = std::find(all.services.begin(), all.services.end(), provider.service);
  if (known != all.services.end()) return LWMQ_OK;
  char name[16];
  std::snprintf(name, sizeof name, "lwmq-%.10s", provider.name);
  pthread_t thread{};
  const Status status = os::start_thread(
      name, [](void* service) { reinterpret_cast<Service>(service)(); },
      reinterpret_cast<void*>(provider.service), &thread);
  if (status != LWMQ_OK) return status;
  pthread_detach(thread);
  all.services.push_back(provider.service);
  return LWMQ_OK;
}

}  // namespace lwmq::service
