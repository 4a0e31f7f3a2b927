// What channels are made from: an address and the options of its caller, put together and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "filters/filters.h"
#include "lwmq/lwmq.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::conversation {

// What an address says for the settings of its provider.
struct ProviderValues {
  std::vector<std::string> texts;
  std::vector<lwmq_tli_value> values;
};

struct Settings {
  const lwmq_tli_provider* provider = nullptr;
  std::string address;                           // without its options
  lwmq_tli_options transport{};                  // says nothing of `channel` and of rings
  std::shared_ptr<const ProviderValues> values;  // of `transport`; null: the address says nothing
  std::shared_ptr<filters::Filters> filters;     // null: the address names none
  std::uint32_t retry_ms = 0;
  bool raw = false;
  bool one_way = false;  // what the transport carries: from the server to the client
  bool passes = false;   // messages are handed over as they are, to a peer that takes them so
  bool home_thread = false;
  std::uint32_t receive_queue = LWMQ_QUEUE_MONO_UNBOUNDED;
  std::uint64_t receive_capacity = 0;
};

// What an address says of its transport; 0: nothing.
struct AddressOptions {
  std::uint64_t buffer_bytes = 0, buffers = 0, buffers_send = 0, buffers_receive = 0;
  std::uint32_t retry_ms = 0;
  std::shared_ptr<ProviderValues> values;
};

// LWMQ_E_ADDRESS with a text that names the option.
Status read_address_options(const char* address, AddressOptions* out_options);

// LWMQ_E_ADDRESS, LWMQ_E_INVALID with the numbers, LWMQ_E_UNSUPPORTED.
Status read_settings(const char* address, const lwmq_channel_options& given, Settings* out_settings);

}  // namespace lwmq::conversation
