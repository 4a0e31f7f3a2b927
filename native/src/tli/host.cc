#include "tli/host.h"

#include "base/status.h"
#include "os/identity.h"

lwmq_status lwmq_tli_fail(lwmq_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  lwmq::fail_with(status, format, arguments);
  va_end(arguments);
  return status;
}

const lwmq_identity* lwmq_tli_identity() { return &lwmq::os::identity(); }

namespace lwmq::tli {

const lwmq_tli_host& host() noexcept {
  static constexpr lwmq_tli_host kHost = {
      .size = sizeof(lwmq_tli_host),
      .version = LWMQ_TLI_VERSION,
      .fail = fail_with,
      .identity = lwmq_tli_identity,
  };
  return kHost;
}

}  // namespace lwmq::tli
