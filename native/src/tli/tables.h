// What providers and filters fill in: whether it is all there. A table with a hole would be found out in the
// middle of a conversation.
#pragma once

#include "lwmq/lwmq_tli.h"

namespace lwmq::tli {

// The shortcuts of `provider`, where it has none a table of nulls.
const lwmq_tli_fast_table& fast_of(const lwmq_tli_provider& provider) noexcept;

inline void flush(const lwmq_tli_transport_table& table, lwmq_tli_transport* transport) {
  if (table.flush != nullptr) table.flush(transport);
}

// Which groups of calls it has of the memory table: a peer reads memory of ours, a peer writes to it.
bool shares_windows(const lwmq_tli_provider& provider) noexcept;
bool takes_pushes(const lwmq_tli_provider& provider) noexcept;

// The first thing that is missing or wrong in it, as in `name` or `listener.close`; null: complete.
const char* flaw_of(const lwmq_tli_provider& provider) noexcept;
const char* flaw_of(const lwmq_tli_filter& filter) noexcept;

}  // namespace lwmq::tli
