// What the library does for providers and filters (lwmq_tli_fail, lwmq_tli_identity): as symbols for what is
// linked with us, as a table for modules.
#pragma once

#include "lwmq/lwmq_tli.h"

namespace lwmq::tli {

const lwmq_tli_host& host() noexcept;

}  // namespace lwmq::tli
