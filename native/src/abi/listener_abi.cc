// lwmq.h: one address, many clients.
#include "abi/handles.h"
#include "abi/memory.h"
#include "abi/options.h"
#include "lwmq/lwmq.h"

using lwmq::channel::Channel;
using lwmq::patterns::Listener;
using namespace lwmq::abi;  // the handles

extern "C" {

lwmq_status lwmq_listener_open(const char* address, const lwmq_channel_options* options,
                               lwmq_listener** out_listener) {
  LWMQ_REQUIRE(address != nullptr && out_listener != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_SIZED(options);
  return or_no_memory(__func__, [&] {
    return Listener::open(address, read_options(options), reinterpret_cast<Listener**>(out_listener));
  });
}

lwmq_status lwmq_listener_accept(lwmq_listener* listener, uint32_t timeout_ms, lwmq_channel** out_channel) {
  LWMQ_REQUIRE_ALIVE(listener, out_channel != nullptr);
  LWMQ_NOT_FORKED();
  Channel* channel = nullptr;
  const lwmq_status status = in(listener)->accept(timeout_ms, &channel);
  if (status == LWMQ_OK) *out_channel = out(channel);
  return answered(status);
}

lwmq_status lwmq_listener_descriptor(const lwmq_listener* listener, int32_t* out_descriptor) {
  LWMQ_REQUIRE_ALIVE(listener, out_descriptor != nullptr);
  LWMQ_NOT_FORKED();
  *out_descriptor = in(listener)->descriptor();
  return LWMQ_OK;
}

lwmq_status lwmq_listener_address(const lwmq_listener* listener, const char** out_address) {
  LWMQ_REQUIRE_ALIVE(listener, out_address != nullptr);
  *out_address = in(listener)->address().c_str();
  return LWMQ_OK;
}

lwmq_status lwmq_listener_query(lwmq_listener* listener, lwmq_listener_statistics* out_statistics) {
  LWMQ_REQUIRE(listener != nullptr && out_statistics != nullptr);
  LWMQ_SIZED(out_statistics);
  LWMQ_ALIVE(listener);
  LWMQ_NOT_FORKED();
  lwmq_listener_statistics statistics{};
  in(listener)->query(&statistics);
  write_output(statistics, out_statistics);
  return LWMQ_OK;
}

lwmq_status lwmq_listener_close(lwmq_listener* listener) {
  LWMQ_REQUIRE_ALIVE(listener);
  LWMQ_NOT_FORKED();
  return in(listener)->close();
}

void lwmq_listener_destroy(lwmq_listener* listener) {
  if (listener == nullptr) return;
  LWMQ_ALIVE(listener);
  Listener::destroy(in(listener));
}

}  // extern "C"
