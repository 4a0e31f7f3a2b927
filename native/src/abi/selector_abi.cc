// lwmq.h: many channels by one thread.
#include "abi/handles.h"
#include "abi/memory.h"
#include "lwmq/lwmq.h"

using lwmq::Message;
using lwmq::channel::Channel;
using lwmq::patterns::Selector;
using namespace lwmq::abi;  // the handles

extern "C" {

lwmq_status lwmq_selector_create(lwmq_selector** out_selector) {
  LWMQ_REQUIRE(out_selector != nullptr);
  return or_no_memory(__func__, [&] { return Selector::create(reinterpret_cast<Selector**>(out_selector)); });
}

lwmq_status lwmq_selector_add(lwmq_selector* selector, lwmq_channel* channel) {
  LWMQ_REQUIRE_ALIVE(selector, channel != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(channel);
  return or_no_memory(__func__, [&] { return in(selector)->add(in(channel)); });
}

lwmq_status lwmq_selector_remove(lwmq_selector* selector, lwmq_channel* channel) {
  LWMQ_REQUIRE_ALIVE(selector, channel != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(channel);
  return in(selector)->remove(in(channel));
}

lwmq_status lwmq_selector_add_listener(lwmq_selector* selector, lwmq_listener* listener) {
  LWMQ_REQUIRE_ALIVE(selector, listener != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(listener);
  return or_no_memory(__func__, [&] { return in(selector)->add(in(listener)); });
}

lwmq_status lwmq_selector_remove_listener(lwmq_selector* selector, lwmq_listener* listener) {
  LWMQ_REQUIRE_ALIVE(selector, listener != nullptr);
  LWMQ_NOT_FORKED();
  LWMQ_ALIVE(listener);
  return in(selector)->remove(in(listener));
}

lwmq_status lwmq_selector_wait(lwmq_selector* selector, uint32_t timeout_ms, lwmq_channel** out_channel) {
  LWMQ_REQUIRE_ALIVE(selector, out_channel != nullptr);
  LWMQ_NOT_FORKED();
  Channel* channel = nullptr;
  const lwmq_status status = in(selector)->wait(timeout_ms, &channel);
  if (status == LWMQ_OK) *out_channel = out(channel);
  return answered(status);
}

lwmq_status lwmq_selector_take(lwmq_selector* selector, lwmq_message** out_message) {
  LWMQ_REQUIRE_ALIVE(selector, out_message != nullptr);
  LWMQ_NOT_FORKED();
  Message* message = nullptr;
  const lwmq_status status = in(selector)->take(&message);
  if (status == LWMQ_OK) *out_message = out(message);
  return answered(status);
}

lwmq_status lwmq_selector_receive(lwmq_selector* selector, uint32_t timeout_ms, lwmq_channel** out_channel,
                                  lwmq_message** out_message) {
  LWMQ_REQUIRE_ALIVE(selector, out_channel != nullptr && out_message != nullptr);
  LWMQ_NOT_FORKED();
  Channel* channel = nullptr;
  Message* message = nullptr;
  const lwmq_status status = in(selector)->receive(timeout_ms, &channel, &message);
  *out_channel = out(channel);
  if (status == LWMQ_OK) *out_message = out(message);
  return answered(status);
}

lwmq_status lwmq_selector_descriptor(lwmq_selector* selector, int32_t* out_fd) {
  LWMQ_REQUIRE_ALIVE(selector, out_fd != nullptr);
  LWMQ_NOT_FORKED();
  *out_fd = in(selector)->descriptor();
  return LWMQ_OK;
}

void lwmq_selector_destroy(lwmq_selector* selector) {
  if (selector == nullptr) return;
  LWMQ_ALIVE(selector);
  delete in(selector);
}

}  // extern "C"
