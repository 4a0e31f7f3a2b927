#include "stream/near.h"

#include <cstdio>

#include "os/identity.h"
#include "service/provider_services.h"
#include "stream/link.h"
#include "tli/registry.h"

namespace lwmq::stream {
namespace {

std::string address_of(const lwmq_tli_provider& provider, const char* name) {
  return std::string(provider.name) + "://lwmq-endpoint-" + name;
}

}  // namespace

Status near_provider(const lwmq_tli_provider** out_provider) noexcept {
  for (std::uint32_t i = 0;; ++i) {
    const lwmq_tli_provider* provider = tli::linked_provider_at(i);
    if (provider == nullptr)
      return fail(LWMQ_E_UNSUPPORTED, "no provider is linked in whose windows processes of one host share");
    const std::string address = address_of(*provider, "x");
    lwmq_limits limits{};
    limits.size = sizeof limits;
    if (!tli::shares_windows(*provider) || provider->claim(address.c_str()) == 0 ||
        tli::limits(*provider, address.c_str(), &limits) != LWMQ_OK ||
        (limits.capabilities & LWMQ_IS_IN_PROCESS) != 0)
      continue;
    *out_provider = provider;
    return service::start_service(*provider);
  }
}

Status windows_of(const Link& link, const lwmq_tli_provider** out_provider) noexcept {
  *out_provider = link.provider();
  return link.is_far() ? near_provider(out_provider) : LWMQ_OK;
}

std::string random_near_address(const lwmq_tli_provider& provider) {
  std::uint8_t random[12];
  os::random_bytes(random, sizeof random);
  char name[2 * sizeof random + 1] = "";
  for (std::size_t i = 0; i < sizeof random; ++i) std::snprintf(name + 2 * i, 3, "%02x", random[i]);
  return address_of(provider, name);
}

}  // namespace lwmq::stream
