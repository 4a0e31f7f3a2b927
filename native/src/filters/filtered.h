// A provider behind filters: tables like any other's, whose functions ask the filters and then the
// provider. Who uses it does not know, and the provider does not know either; where an address names no
// filters, none of this is met.
#pragma once

#include <memory>

#include "base/status.h"
#include "filters/filters.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::filters {

// The first provider that claims `address`; where none does and filters stand in front of the scheme, the one
// that claims what is behind them, wrapped: the same one every time. LWMQ_E_ADDRESS: nobody does; the text
// lists the registered names.
Status find(const char* address, const lwmq_tli_provider** out_provider) noexcept;

// The filters of a channel at `address`; null where that names none. LWMQ_E_ADDRESS with a text.
Status make_filters(const char* address, std::shared_ptr<Filters>* out_filters);

// As tli::listen and tli::begin (tli/registry.h). Where `provider` is a wrapped one, what it makes asks
// `filters`, which may be null: then those that the address names, its own.
Status listen(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
              const std::shared_ptr<Filters>& filters, lwmq_tli_listener** out_listener);
Status begin(const lwmq_tli_provider& provider, const char* address, const lwmq_tli_options& options,
             const std::shared_ptr<Filters>& filters, lwmq_tli_attempt** out_attempt);

}  // namespace lwmq::filters
