#include "tli/purpose.h"

#include "lwmq/lwmq_tli.h"

namespace lwmq::tli {
namespace {

const char* name_of(std::uint32_t purpose) noexcept {
  switch (purpose) {
    case LWMQ_TLI_FOR_MESSAGES:
      return "messages";
    case LWMQ_TLI_FOR_RAW:
      return "raw buffers";
    case LWMQ_TLI_FOR_STREAM:
      return "a stream";
    default:
      return "something unknown";
  }
}

}  // namespace

Status check_purposes(const char* address, std::uint32_t of_client, std::uint32_t of_listener) noexcept {
  if (of_client == of_listener) return LWMQ_OK;
  return fail(LWMQ_E_VERSION, "%s: the client is there for %s (%u), the listener for %s (%u)", address,
              name_of(of_client), of_client, name_of(of_listener), of_listener);
}

}  // namespace lwmq::tli
