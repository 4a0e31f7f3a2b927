// lwmq.h: messages, channels and direct buffers. Checks what C callers may get wrong, and nothing else.
#include "abi/handles.h"
#include "abi/memory.h"
#include "abi/options.h"
#include "base/status.h"
#include "channel/channel.h"
#include "lwmq/lwmq.h"
#include "message/message.h"
#include "os/clock.h"
#include "os/identity.h"
#include "patterns/notice.h"

using lwmq::fail;
using lwmq::Message;
using lwmq::channel::Channel;
using lwmq::channel::ChannelQueue;
using lwmq::conversation::Loan;
using lwmq::conversation::Messages;
using lwmq::patterns::Notice;
using lwmq::patterns::Requests;
using lwmq::patterns::Router;
using lwmq::patterns::Selector;
using namespace lwmq::abi;  // the handles

namespace {

lwmq_status no_frame(const lwmq_message* message, uint32_t index) noexcept {
  return fail(LWMQ_E_INVALID, "frame %u of a message of %u", index, in(message)->frame_count());
}

uint64_t ticks_of(uint64_t realtime_ns) noexcept { return LWMQ_TICKS_1970 + realtime_ns / 100; }

// For the calls that post one message; `function` is theirs.
lwmq_status post(lwmq_send_queue* queue, uint64_t tag, lwmq_message** message,
                 const char* function) noexcept {
  if (queue == nullptr || message == nullptr || *message == nullptr) [[unlikely]]
    return null_argument(function);
  check_alive(queue, function);
  check_alive(*message, function);
  const lwmq_status status = Channel::post(in(queue), in(*message), tag);
  if (status == LWMQ_OK) *message = nullptr;
  return status;
}

}  // namespace

extern "C" {

// ---- Messages -----------------------------------------------------------------------------------------

lwmq_status lwmq_message_create(uint32_t frames_hint, lwmq_message** out_message) {
  LWMQ_REQUIRE(out_message != nullptr);
  Message* message = Message::create(frames_hint);
  if (message == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a message");
  *out_message = out(message);
  return LWMQ_OK;
}

lwmq_status lwmq_message_append(lwmq_message* message, const void* data, uint64_t bytes) {
  LWMQ_REQUIRE_ALIVE(message, (data != nullptr || bytes == 0));
  return in(message)->append(data, bytes);
}

lwmq_status lwmq_message_append_static(lwmq_message* message, const void* data, uint64_t bytes) {
  LWMQ_REQUIRE_ALIVE(message, (data != nullptr || bytes == 0));
  return in(message)->append_static(data, bytes);
}

lwmq_status lwmq_message_append_external(lwmq_message* message, const void* data, uint64_t bytes,
                                         lwmq_frame_callback callback, void* context) {
  LWMQ_REQUIRE_ALIVE(message, (data != nullptr || bytes == 0) && callback != nullptr);
  return in(message)->append_external(data, bytes, callback, context);
}

lwmq_status lwmq_message_reference(lwmq_message* message, lwmq_message** out_message) {
  LWMQ_REQUIRE_ALIVE(message, out_message != nullptr);
  Message* reference = in(message)->reference();
  if (reference == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a message");
  *out_message = out(reference);
  return LWMQ_OK;
}

uint32_t lwmq_message_frame_count(const lwmq_message* message) {
  if (message == nullptr) return 0;
  LWMQ_ALIVE(message);
  return in(message)->frame_count();
}

lwmq_status lwmq_message_frame(const lwmq_message* message, uint32_t index, const void** out_data,
                               uint64_t* out_bytes) {
  LWMQ_REQUIRE_ALIVE(message, out_data != nullptr && out_bytes != nullptr);
  if (index >= in(message)->frame_count()) return no_frame(message, index);
  const lwmq::Frame& frame = in(message)->frames()[index];
  *out_data = frame.data;
  *out_bytes = frame.bytes;
  return LWMQ_OK;
}

lwmq_status lwmq_message_set_timestamp(lwmq_message* message, uint32_t index, int32_t source,
                                       uint64_t ticks) {
  LWMQ_REQUIRE_ALIVE(message);
  if (index >= in(message)->frame_count()) return no_frame(message, index);
  switch (source) {
    case LWMQ_TIMESTAMP_NONE:
      ticks = 0;
      break;
    case LWMQ_TIMESTAMP_SYSTEM:
      ticks = ticks_of(lwmq::os::coarse_realtime_ns());
      break;
    case LWMQ_TIMESTAMP_PRECISE:
      ticks = ticks_of(lwmq::os::realtime_ns());
      break;
    case LWMQ_TIMESTAMP_EXPLICIT:
      if (ticks == 0)
        return fail(LWMQ_E_INVALID, "0 ticks are no timestamp: LWMQ_TIMESTAMP_NONE takes one away");
      break;
    default:
      return fail(LWMQ_E_INVALID, "there is no source %d of timestamps; there are 0 (none) to 3 (explicit)",
                  source);
  }
  return in(message)->set_timestamp(index, ticks);
}

lwmq_status lwmq_message_timestamp(const lwmq_message* message, uint32_t index, uint64_t* out_ticks) {
  LWMQ_REQUIRE_ALIVE(message, out_ticks != nullptr);
  if (index >= in(message)->frame_count()) return no_frame(message, index);
  *out_ticks = in(message)->timestamp(index);
  return LWMQ_OK;
}

void lwmq_message_destroy(lwmq_message* message) {
  if (message == nullptr) return;
  LWMQ_ALIVE(message);
  Message::destroy(in(message));
}

// ---- Channels -----------------------------------------------------------------------------------------

lwmq_status lwmq_channel_create(const char* address, const lwmq_channel_options* options,
                                lwmq_channel** out_channel) {
  LWMQ_SIZED(options);
  LWMQ_REQUIRE(address != nullptr && out_channel != nullptr);
  Channel* channel = nullptr;
  const lwmq_status status =
      or_no_memory(__func__, [&] { return Channel::create(address, read_options(options), &channel); });
  if (status == LWMQ_OK) *out_channel = out(channel);
  return status;
}

lwmq_status lwmq_channel_add_transport(lwmq_channel* channel, const char* address,
                                       const lwmq_transport_options* options) {
  LWMQ_SIZED(options);
  LWMQ_REQUIRE_ALIVE(channel, address != nullptr);
  return or_no_memory(__func__, [&] { return in(channel)->add_transport(address, read_options(options)); });
}

lwmq_status lwmq_channel_add_send_queue(lwmq_channel* channel, const lwmq_send_queue_options* options,
                                        lwmq_send_queue** out_queue) {
  LWMQ_SIZED(options);
  LWMQ_REQUIRE_ALIVE(channel, out_queue != nullptr);
  ChannelQueue* queue = nullptr;
  const lwmq_status status =
      or_no_memory(__func__, [&] { return in(channel)->add_send_queue(read_options(options), &queue); });
  if (status == LWMQ_OK) *out_queue = out(queue);
  return status;
}

lwmq_status lwmq_channel_open(lwmq_channel* channel, int32_t role) {
  LWMQ_REQUIRE_ALIVE(channel);
  return in(channel)->open(role);
}

lwmq_status lwmq_channel_wait_connected(lwmq_channel* channel, uint32_t timeout_ms) {
  LWMQ_REQUIRE_ALIVE(channel);
  return answered(in(channel)->wait_connected(timeout_ms));
}

lwmq_status lwmq_channel_set_weights(lwmq_channel* channel, const uint32_t* weights, uint32_t count) {
  LWMQ_REQUIRE_ALIVE(channel, weights != nullptr);
  return in(channel)->set_weights(weights, count);
}

lwmq_status lwmq_send_queue_set_priority(lwmq_send_queue* queue, uint32_t priority) {
  LWMQ_REQUIRE_ALIVE(queue);
  return Channel::set_priority(in(queue), priority);
}

lwmq_status lwmq_send_queue_post(lwmq_send_queue* queue, lwmq_message** message) {
  return post(queue, 0, message, __func__);
}

lwmq_status lwmq_send_queue_post_tagged(lwmq_send_queue* queue, uint64_t tag, lwmq_message** message) {
  return post(queue, tag, message, __func__);
}

lwmq_status lwmq_send_queue_post_wait(lwmq_send_queue* queue, uint64_t tag, uint32_t timeout_ms,
                                      uint32_t or_discard, lwmq_message** message) {
  LWMQ_REQUIRE_ALIVE(queue, message != nullptr && *message != nullptr);
  LWMQ_ALIVE(*message);
  const lwmq_status status = Channel::post_wait(in(queue), in(*message), tag, timeout_ms, or_discard != 0);
  if (status == LWMQ_OK) *message = nullptr;
  return answered(status);
}

lwmq_status lwmq_send_queue_wait_room(lwmq_send_queue* queue, uint32_t timeout_ms) {
  LWMQ_REQUIRE_ALIVE(queue);
  return answered(Channel::wait_room(in(queue), timeout_ms));
}

lwmq_status lwmq_send_queue_post_bytes(lwmq_send_queue* queue, const void* data, uint64_t bytes) {
  LWMQ_REQUIRE_ALIVE(queue, (data != nullptr || bytes == 0));
  return Channel::post_bytes(in(queue), data, bytes);
}

lwmq_status lwmq_send_queue_post_many(lwmq_send_queue* queue, const lwmq_bytes* frames, uint64_t count,
                                      uint64_t* out_posted) {
  if (out_posted != nullptr) *out_posted = 0;
  LWMQ_REQUIRE_ALIVE(queue, (frames != nullptr || count == 0) && out_posted != nullptr);
  return Channel::post_many(in(queue), frames, count, out_posted);
}

lwmq_status lwmq_send_queue_post_messages(lwmq_send_queue* queue, lwmq_message** messages, uint64_t count,
                                          uint64_t* out_posted) {
  if (out_posted != nullptr) *out_posted = 0;
  LWMQ_REQUIRE_ALIVE(queue, (messages != nullptr || count == 0) && out_posted != nullptr);
  for (uint64_t i = 0; i < count; ++i) {
    if (messages[i] != nullptr) LWMQ_ALIVE(messages[i]);
  }
  return Channel::post_messages(in(queue), reinterpret_cast<Message**>(messages), count, out_posted);
}

lwmq_status lwmq_send_queue_query(const lwmq_send_queue* queue, lwmq_send_queue_statistics* out_statistics) {
  LWMQ_SIZED(out_statistics);
  LWMQ_REQUIRE_ALIVE(queue, out_statistics != nullptr);
  lwmq_send_queue_statistics known{};
  const lwmq_status status = Channel::query_queue(in(queue), &known);
  if (status == LWMQ_OK) write_output(known, out_statistics);
  return status;
}

// Where none is at hand.
[[gnu::noinline]] static lwmq_status receive_one(Channel* channel, uint32_t timeout_ms,
                                                 lwmq_message** out_message) {
  Message* message = nullptr;
  Messages into(&message, 1);
  const lwmq_status status = channel->take({timeout_ms}, into);
  if (status == LWMQ_OK) *out_message = out(message);
  return answered(status);
}

lwmq_status lwmq_channel_receive(lwmq_channel* channel, uint32_t timeout_ms, lwmq_message** out_message) {
  LWMQ_REQUIRE_ALIVE(channel, out_message != nullptr);
  Message* message = in(channel)->take_at_hand();
  if (message == nullptr) [[unlikely]]
    return receive_one(in(channel), timeout_ms, out_message);
  *out_message = out(message);
  return LWMQ_OK;
}

lwmq_status lwmq_channel_receive_many(lwmq_channel* channel, uint32_t limit, uint32_t timeout_ms,
                                      lwmq_message** out_messages, uint32_t* out_count) {
  LWMQ_REQUIRE_ALIVE(channel, out_messages != nullptr && out_count != nullptr);
  if (limit == 0) return fail(LWMQ_E_INVALID, "no message can be received with a limit of 0");
  Messages into(reinterpret_cast<Message**>(out_messages), limit);
  const lwmq_status status = in(channel)->take({timeout_ms}, into);
  if (status == LWMQ_OK) *out_count = into.count();
  return answered(status);
}

lwmq_status lwmq_loan_create(uint32_t limit, lwmq_loan** out_loan) {
  LWMQ_REQUIRE(out_loan != nullptr);
  if (limit == 0) return fail(LWMQ_E_INVALID, "a loan with a limit of 0 receives no message");
  Loan* loan = Loan::create(limit);
  if (loan == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for a loan of %u messages", limit);
  *out_loan = out(loan);
  return LWMQ_OK;
}

lwmq_status lwmq_channel_receive_loan(lwmq_channel* channel, uint32_t timeout_ms, lwmq_loan* loan,
                                      const lwmq_lent** out_lent, uint32_t* out_count) {
  LWMQ_REQUIRE_ALIVE(channel, loan != nullptr && out_lent != nullptr && out_count != nullptr);
  LWMQ_ALIVE(loan);
  *out_lent = nullptr;  // what was lent is no more, whatever comes
  *out_count = 0;
  const lwmq_status status = in(channel)->take({timeout_ms}, *in(loan));
  if (status != LWMQ_OK) return answered(status);
  *out_lent = in(loan)->entries();
  *out_count = in(loan)->count();
  return LWMQ_OK;
}

void lwmq_loan_give_back(lwmq_loan* loan) {
  if (loan == nullptr) return;
  LWMQ_ALIVE(loan);
  in(loan)->give_back();
}

void lwmq_loan_destroy(lwmq_loan* loan) {
  if (loan == nullptr) return;
  LWMQ_ALIVE(loan);
  delete in(loan);
}

lwmq_status lwmq_channel_descriptor(lwmq_channel* channel, int32_t* out_descriptor) {
  LWMQ_REQUIRE_ALIVE(channel, out_descriptor != nullptr);
  return in(channel)->descriptor(out_descriptor);
}

lwmq_status lwmq_channel_on_message(lwmq_channel* channel, lwmq_on_message callback, void* context) {
  LWMQ_REQUIRE_ALIVE(channel);
  return Notice::set(*in(channel), callback, 0, context);
}

lwmq_status lwmq_channel_signal_on_message(lwmq_channel* channel, int32_t signal, void* value) {
  LWMQ_REQUIRE_ALIVE(channel);
  return Notice::set(*in(channel), nullptr, signal, value);
}

lwmq_status lwmq_channel_flush(lwmq_channel* channel, uint32_t timeout_ms) {
  LWMQ_REQUIRE_ALIVE(channel);
  return answered(in(channel)->flush(timeout_ms));
}

lwmq_status lwmq_channel_query(const lwmq_channel* channel, lwmq_channel_statistics* out_statistics) {
  LWMQ_SIZED(out_statistics);
  LWMQ_REQUIRE_ALIVE(channel, out_statistics != nullptr);
  // To ask whether the peer is there takes the pump for a moment: a change that the caller cannot see.
  auto* asked = in(const_cast<lwmq_channel*>(channel));
  lwmq_channel_statistics known{};
  const lwmq_status status = asked->query(&known);
  if (status == LWMQ_OK) write_output(known, out_statistics);
  return status;
}

lwmq_status lwmq_channel_peer(lwmq_channel* channel, uint32_t transport, lwmq_peer* out_peer) {
  LWMQ_REQUIRE(channel != nullptr && out_peer != nullptr);
  LWMQ_SIZED(out_peer);
  LWMQ_ALIVE(channel);
  lwmq_peer known{};
  const lwmq_status status = in(channel)->peer(transport, &known);
  if (status == LWMQ_OK) write_output(known, out_peer);
  return answered(status);
}

lwmq_status lwmq_channel_ends(const lwmq_channel* channel, uint64_t* out_ends) {
  LWMQ_REQUIRE_ALIVE(channel, out_ends != nullptr);
  *out_ends = in(channel)->ends();
  return LWMQ_OK;
}

lwmq_status lwmq_channel_wait_peer(lwmq_channel* channel, uint32_t transport, uint32_t timeout_ms,
                                   lwmq_peer* peer) {
  LWMQ_REQUIRE(channel != nullptr && peer != nullptr);
  LWMQ_SIZED(peer);
  LWMQ_ALIVE(channel);
  lwmq_peer known{};
  known.number = peer->number;
  known.connected = peer->connected;
  const lwmq_status status = in(channel)->wait_peer(transport, timeout_ms, &known);
  if (status == LWMQ_OK) write_output(known, peer);
  return answered(status);
}

lwmq_status lwmq_channel_add_filter(lwmq_channel* channel, const char* filter, uint32_t place) {
  LWMQ_REQUIRE_ALIVE(channel, filter != nullptr);
  lwmq::filters::Filters* filters = nullptr;
  lwmq_status status = in(channel)->first().filters(&filters);
  if (status == LWMQ_OK) status = filters->add(filter, place);
  if (status == LWMQ_OK) in(channel)->first().note_filters_changed();
  return status;
}

lwmq_status lwmq_channel_remove_filter(lwmq_channel* channel, uint32_t place) {
  LWMQ_REQUIRE_ALIVE(channel);
  lwmq::filters::Filters* filters = nullptr;
  lwmq_status status = in(channel)->first().filters(&filters);
  if (status == LWMQ_OK) status = filters->remove(place);
  if (status == LWMQ_OK) in(channel)->first().note_filters_changed();
  return status;
}

lwmq_status lwmq_channel_query_filter(const lwmq_channel* channel, uint32_t place,
                                      lwmq_filter_view* out_view) {
  LWMQ_SIZED(out_view);
  LWMQ_REQUIRE_ALIVE(channel, out_view != nullptr);
  lwmq::filters::Filters* filters = nullptr;
  lwmq_status status = in(channel)->first().filters(&filters);
  lwmq_filter_view view{};
  if (status == LWMQ_OK) status = filters->query(place, &view);
  if (status == LWMQ_OK) write_output(view, out_view);
  return status;
}

lwmq_status lwmq_channel_query_times(const lwmq_channel* channel, uint32_t place, double share,
                                     uint64_t* out_ns) {
  LWMQ_REQUIRE_ALIVE(channel, out_ns != nullptr);
  lwmq::filters::Filters* filters = nullptr;
  const lwmq_status status = in(channel)->first().filters(&filters);
  return status != LWMQ_OK ? status : filters->query_times(place, share, out_ns);
}

lwmq_status lwmq_channel_close(lwmq_channel* channel, uint32_t linger_ms) {
  LWMQ_REQUIRE_ALIVE(channel);
  return in(channel)->close(linger_ms);
}

void lwmq_channel_destroy(lwmq_channel* channel) {
  if (channel == nullptr) return;
  LWMQ_ALIVE(channel);
  if (!lwmq::os::forked()) {
    Notice::set(*in(channel), nullptr, 0, nullptr);
    Selector::forget_everywhere(in(channel));
    Requests::forget_everywhere(in(channel));
    Router::forget_everywhere(in(channel));
  }
  Channel::destroy(in(channel));
}

// ---- Direct buffers -----------------------------------------------------------------------------------

lwmq_status lwmq_raw_get_buffer(lwmq_channel* channel, uint32_t timeout_ms, lwmq_buffer* out_buffer) {
  LWMQ_REQUIRE_ALIVE(channel, out_buffer != nullptr);
  return answered(in(channel)->first().raw_get(timeout_ms, out_buffer));
}

lwmq_status lwmq_raw_send_buffer(lwmq_channel* channel, lwmq_buffer* buffer) {
  LWMQ_REQUIRE_ALIVE(channel, buffer != nullptr);
  return in(channel)->first().raw_send(buffer);
}

lwmq_status lwmq_raw_abandon_buffer(lwmq_channel* channel, lwmq_buffer* buffer) {
  LWMQ_REQUIRE_ALIVE(channel, buffer != nullptr);
  return in(channel)->first().raw_abandon(buffer);
}

lwmq_status lwmq_raw_receive_buffer(lwmq_channel* channel, uint32_t timeout_ms, lwmq_buffer* out_buffer) {
  LWMQ_REQUIRE_ALIVE(channel, out_buffer != nullptr);
  return answered(in(channel)->first().raw_receive(timeout_ms, out_buffer));
}

lwmq_status lwmq_raw_dispose_buffer(lwmq_channel* channel, lwmq_buffer* buffer) {
  LWMQ_REQUIRE_ALIVE(channel, buffer != nullptr);
  return in(channel)->first().raw_dispose(buffer);
}

}  // extern "C"
