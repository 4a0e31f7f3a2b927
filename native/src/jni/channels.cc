// Of org.lwmq.core.Jni: channels, listeners, and raw buffers.
#include "crossing.h"

#include <algorithm>
#include <iterator>

namespace lwmq::jni {

// ---- channel ------------------------------------------------------------------------------------

// As Channel.Options.fields has them.
static lwmq_channel_options channel_options(JNIEnv* env, jlongArray fields) {
  jlong said[9] = {};
  env->GetLongArrayRegion(fields, 0, std::size(said), said);
  auto options = sized<lwmq_channel_options>();
  options.buffer_bytes = static_cast<std::uint64_t>(said[0]);
  options.buffers_send = static_cast<std::uint32_t>(said[1]);
  options.buffers_receive = static_cast<std::uint32_t>(said[2]);
  options.retry_ms = static_cast<std::uint32_t>(said[3]);
  options.raw = said[4] != 0;
  options.secure_erase = said[5] != 0;
  options.receive_queue = static_cast<std::uint32_t>(said[6]);
  options.receive_capacity = static_cast<std::uint64_t>(said[7]);
  options.home_thread = said[8] != 0;
  return options;
}

JNI_METHOD(jlong, channelCreate)(JNIEnv* env, jclass, jbyteArray address, jlongArray fields) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return 0;
  const lwmq_channel_options options = channel_options(env, fields);
  lwmq_channel* channel = nullptr;
  if (!check(env, lwmq_channel_create(uri.text(), &options, &channel))) return 0;
  return address_of(channel);
}

JNI_METHOD(void, channelAddTransport)
(JNIEnv* env, jclass, jlong channel, jbyteArray address, jint buffers_send, jint buffers_receive,
 jint retry_ms, jboolean redundant) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return;
  auto options = sized<lwmq_transport_options>();
  options.buffers_send = static_cast<std::uint32_t>(buffers_send);
  options.buffers_receive = static_cast<std::uint32_t>(buffers_receive);
  options.retry_ms = static_cast<std::uint32_t>(retry_ms);
  options.redundant = redundant != 0;
  check(env, lwmq_channel_add_transport(handle<lwmq_channel>(channel), uri.text(), &options));
}

JNI_METHOD(void, channelOpen)(JNIEnv* env, jclass, jlong channel, jint role) {
  check(env, lwmq_channel_open(handle<lwmq_channel>(channel), role));
}

JNI_METHOD(jlong, channelAddSendQueue)
(JNIEnv* env, jclass, jlong channel, jint kind, jint priority, jlong capacity) {
  auto options = sized<lwmq_send_queue_options>();
  options.kind = static_cast<std::uint32_t>(kind);
  options.priority = static_cast<std::uint32_t>(priority);
  options.capacity = static_cast<std::uint64_t>(capacity);
  lwmq_send_queue* queue = nullptr;
  if (!check(env, lwmq_channel_add_send_queue(handle<lwmq_channel>(channel), &options, &queue))) return 0;
  return address_of(queue);
}

namespace {

jlongArray new_peer(JNIEnv* env, const lwmq_peer& peer, jobjectArray out_instance) {
  env->SetObjectArrayElement(out_instance, 0, new_bytes(env, peer.instance, sizeof peer.instance));
  const jlong numbers[] = {peer.connected, peer.number, peer.pid, peer.uid};
  return new_longs(env, numbers, std::size(numbers));
}

}  // namespace

JNI_METHOD(void, channelWaitConnected)(JNIEnv* env, jclass, jlong channel, jint timeout_ms) {
  check(env,
        lwmq_channel_wait_connected(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms)));
}

JNI_METHOD(jlong, channelReceive)(JNIEnv* env, jclass, jlong channel, jint timeout_ms) {
  lwmq_message* message = nullptr;
  const lwmq_status status =
      lwmq_channel_receive(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms), &message);
  return check(env, status) ? address_of(message) : 0;
}

JNI_METHOD(jlong, channelTryReceive)(JNIEnv* env, jclass, jlong channel) {
  lwmq_message* message = nullptr;
  const lwmq_status status = lwmq_channel_receive(handle<lwmq_channel>(channel), 0, &message);
  return received_now(env, status, message);
}

// Of one call. 0 or less is refused there.
static constexpr jint kReceivedAtOnce = 1024;
static std::uint32_t received_at_once(jint limit) {
  return static_cast<std::uint32_t>(limit < 0 ? 0 : limit < kReceivedAtOnce ? limit : kReceivedAtOnce);
}

JNI_METHOD(jlongArray, channelReceiveMany)
(JNIEnv* env, jclass, jlong channel, jint limit, jint timeout_ms) {
  lwmq_message* messages[kReceivedAtOnce];
  jlong addresses[kReceivedAtOnce];
  std::uint32_t count = 0;
  if (!check(env, lwmq_channel_receive_many(handle<lwmq_channel>(channel), received_at_once(limit),
                                            static_cast<std::uint32_t>(timeout_ms), messages, &count))) {
    return nullptr;
  }
  for (std::uint32_t i = 0; i < count; ++i) addresses[i] = address_of(messages[i]);
  jlongArray result = new_longs(env, addresses, count);
  if (result == nullptr) {
    for (std::uint32_t i = 0; i < count; ++i) lwmq_message_destroy(messages[i]);
  }
  return result;
}

// All frames of what was lent, one after the other. Null, with an exception, where memory is short or they
// are more than an array holds.
static jbyteArray bytes_of(JNIEnv* env, const lwmq_lent& lent) {
  const std::uint32_t frames = lent.message == nullptr ? 1 : lwmq_message_frame_count(lent.message);
  const auto frame_at = [&lent](std::uint32_t i) {  // a message without a handle is one frame
    lwmq_bytes frame{lent.data, lent.bytes};
    if (i > 0) lwmq_message_frame(lent.message, i, &frame.data, &frame.bytes);
    return frame;
  };
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < frames; ++i) all += frame_at(i).bytes;
  if (all > INT32_MAX) {
    throw_text(env, LWMQ_E_TOO_BIG,
               "a message of 2 GiB or more fits no array of bytes: receive it as a message");
    return nullptr;
  }
  jbyteArray array = env->NewByteArray(static_cast<jsize>(all));
  jsize at = 0;
  for (std::uint32_t i = 0; array != nullptr && i < frames; ++i) {
    const lwmq_bytes frame = frame_at(i);
    env->SetByteArrayRegion(array, at, static_cast<jsize>(frame.bytes),
                            static_cast<const jbyte*>(frame.data));
    at += static_cast<jsize>(frame.bytes);
  }
  return array;
}

JNI_METHOD(jobjectArray, channelReceiveBytes)
(JNIEnv* env, jclass, jlong channel, jint limit, jint timeout_ms) {
  struct Destroy {
    void operator()(lwmq_loan* loan) const { lwmq_loan_destroy(loan); }
  };
  lwmq_loan* made = nullptr;
  if (!check(env, lwmq_loan_create(received_at_once(limit), &made))) return nullptr;
  const std::unique_ptr<lwmq_loan, Destroy> loan(made);
  const lwmq_lent* lent = nullptr;
  std::uint32_t count = 0;
  if (!check(env, lwmq_channel_receive_loan(handle<lwmq_channel>(channel),
                                            static_cast<std::uint32_t>(timeout_ms), made, &lent, &count))) {
    return nullptr;
  }
  jclass type = env->FindClass("[B");
  jobjectArray result =
      type == nullptr ? nullptr : env->NewObjectArray(static_cast<jsize>(count), type, nullptr);
  for (std::uint32_t i = 0; i < count && result != nullptr; ++i) {
    jbyteArray bytes = bytes_of(env, lent[i]);
    if (bytes == nullptr) return nullptr;
    env->SetObjectArrayElement(result, static_cast<jsize>(i), bytes);
    env->DeleteLocalRef(bytes);
  }
  return result;
}

JNI_METHOD(jint, channelDescriptor)(JNIEnv* env, jclass, jlong channel) {
  std::int32_t descriptor = -1;
  check(env, lwmq_channel_descriptor(handle<lwmq_channel>(channel), &descriptor));
  return descriptor;
}

JNI_METHOD(void, channelAddFilter)(JNIEnv* env, jclass, jlong channel, jbyteArray filter, jint place) {
  const Bytes text(env, filter);
  if (!check_memory(env, text.ok())) return;
  check(env, lwmq_channel_add_filter(handle<lwmq_channel>(channel), text.text(),
                                     static_cast<std::uint32_t>(place)));
}

JNI_METHOD(void, channelRemoveFilter)(JNIEnv* env, jclass, jlong channel, jint place) {
  check(env, lwmq_channel_remove_filter(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(place)));
}

JNI_METHOD(jlongArray, channelQueryFilter)
(JNIEnv* env, jclass, jlong channel, jint place, jobjectArray out_texts) {
  auto view = sized<lwmq_filter_view>();
  const lwmq_status status =
      lwmq_channel_query_filter(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(place), &view);
  if (status == LWMQ_E_INVALID || status == LWMQ_E_UNSUPPORTED || !check(env, status)) return nullptr;
  env->SetObjectArrayElement(out_texts, 0, new_bytes(env, view.name, std::strlen(view.name)));
  env->SetObjectArrayElement(out_texts, 1, new_bytes(env, view.settings, std::strlen(view.settings)));
  const jlong counts[] = {static_cast<jlong>(view.seen),    static_cast<jlong>(view.dropped),
                          static_cast<jlong>(view.changed), static_cast<jlong>(view.sourced),
                          static_cast<jlong>(view.held),    static_cast<jlong>(view.failed),
                          static_cast<jlong>(view.timed)};
  return new_longs(env, counts, std::size(counts));
}

JNI_METHOD(jlong, channelQueryTimes)(JNIEnv* env, jclass, jlong channel, jint place, jdouble share) {
  std::uint64_t ns = 0;
  const lwmq_status status =
      lwmq_channel_query_times(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(place), share, &ns);
  return status != LWMQ_E_EMPTY && check(env, status) ? static_cast<jlong>(ns) : -1;
}

JNI_METHOD(jlongArray, channelQuery)(JNIEnv* env, jclass, jlong channel) {
  auto known = sized<lwmq_channel_statistics>();
  if (!check(env, lwmq_channel_query(handle<lwmq_channel>(channel), &known))) return nullptr;
  const std::uint64_t figures[] = {
      known.connected,          known.is_server,       known.messages_posted, known.messages_shipped,
      known.messages_received,  known.messages_lost,   known.buffers_shipped, known.shipped_full,
      known.shipped_idle,       known.bytes_shipped,   known.bytes_received,  known.peers_lost,
      known.buffers_free,       known.messages_passed, known.receive_queued,  known.receive_discarded,
      known.duplicates_dropped, known.clients_refused, known.messages_unread};
  jlong longs[std::size(figures)];
  std::copy(std::begin(figures), std::end(figures), longs);
  return new_longs(env, longs, std::size(longs));
}

JNI_METHOD(jlongArray, channelPeer)
(JNIEnv* env, jclass, jlong channel, jint transport, jobjectArray out_instance) {
  auto peer = sized<lwmq_peer>();
  const lwmq_status status =
      lwmq_channel_peer(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(transport), &peer);
  if (status == LWMQ_E_EMPTY || !check(env, status)) return nullptr;
  return new_peer(env, peer, out_instance);
}

JNI_METHOD(jlongArray, channelAwaitPeer)
(JNIEnv* env, jclass, jlong channel, jint transport, jint timeout_ms, jlong number, jboolean is_connected,
 jobjectArray out_instance) {
  auto peer = sized<lwmq_peer>();
  peer.number = static_cast<std::uint32_t>(number);
  peer.connected = is_connected;
  const lwmq_status status =
      lwmq_channel_wait_peer(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(transport),
                             static_cast<std::uint32_t>(timeout_ms), &peer);
  return check(env, status) ? new_peer(env, peer, out_instance) : nullptr;
}

JNI_METHOD(void, channelFlush)(JNIEnv* env, jclass, jlong channel, jint timeout_ms) {
  check(env, lwmq_channel_flush(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms)));
}

JNI_METHOD(void, channelClose)(JNIEnv* env, jclass, jlong channel, jint linger_ms) {
  check(env, lwmq_channel_close(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(linger_ms)));
}

JNI_METHOD(void, channelDestroy)(JNIEnv*, jclass, jlong channel) {
  lwmq_channel_destroy(handle<lwmq_channel>(channel));
}

JNI_METHOD(void, channelSetWeights)(JNIEnv* env, jclass, jlong channel, jintArray weights) {
  const jsize count = env->GetArrayLength(weights);
  jint known[16] = {};
  env->GetIntArrayRegion(weights, 0, std::min<jsize>(count, std::size(known)), known);
  std::uint32_t numbers[std::size(known)];
  std::copy(std::begin(known), std::end(known), numbers);
  check(env,
        lwmq_channel_set_weights(handle<lwmq_channel>(channel), numbers, static_cast<std::uint32_t>(count)));
}

// ---- listener -----------------------------------------------------------------------------------

JNI_METHOD(jlong, listenerOpen)(JNIEnv* env, jclass, jbyteArray address, jlongArray fields) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return 0;
  const lwmq_channel_options options = channel_options(env, fields);
  lwmq_listener* listener = nullptr;
  return check(env, lwmq_listener_open(uri.text(), &options, &listener)) ? address_of(listener) : 0;
}

JNI_METHOD(jlong, listenerAccept)(JNIEnv* env, jclass, jlong listener, jint timeout_ms) {
  lwmq_channel* channel = nullptr;
  const lwmq_status status =
      lwmq_listener_accept(handle<lwmq_listener>(listener), static_cast<std::uint32_t>(timeout_ms), &channel);
  return check(env, status) ? address_of(channel) : 0;
}

JNI_METHOD(jlong, listenerTryAccept)(JNIEnv* env, jclass, jlong listener) {
  lwmq_channel* channel = nullptr;
  const lwmq_status status = lwmq_listener_accept(handle<lwmq_listener>(listener), 0, &channel);
  return status != LWMQ_E_EMPTY && check(env, status) ? address_of(channel) : 0;
}

JNI_METHOD(jint, listenerDescriptor)(JNIEnv* env, jclass, jlong listener) {
  std::int32_t descriptor = -1;
  check(env, lwmq_listener_descriptor(handle<lwmq_listener>(listener), &descriptor));
  return descriptor;
}

JNI_METHOD(jbyteArray, listenerAddress)(JNIEnv* env, jclass, jlong listener) {
  const char* address = nullptr;
  if (!check(env, lwmq_listener_address(handle<lwmq_listener>(listener), &address))) return nullptr;
  return new_bytes(env, address, std::strlen(address));
}

JNI_METHOD(jlongArray, listenerQuery)(JNIEnv* env, jclass, jlong listener, jobjectArray out_refusal) {
  auto known = sized<lwmq_listener_statistics>();
  if (!check(env, lwmq_listener_query(handle<lwmq_listener>(listener), &known))) return nullptr;
  env->SetObjectArrayElement(out_refusal, 0, new_bytes(env, known.refusal, std::strlen(known.refusal)));
  const jlong counts[] = {static_cast<jlong>(known.accepted), static_cast<jlong>(known.waiting),
                          static_cast<jlong>(known.refused)};
  return new_longs(env, counts, std::size(counts));
}

JNI_METHOD(void, listenerClose)(JNIEnv* env, jclass, jlong listener) {
  check(env, lwmq_listener_close(handle<lwmq_listener>(listener)));
}

JNI_METHOD(void, listenerDestroy)(JNIEnv*, jclass, jlong listener) {
  lwmq_listener_destroy(handle<lwmq_listener>(listener));
}

// ---- raw buffers --------------------------------------------------------------------------------

JNI_METHOD(void, rawGetBuffer)(JNIEnv* env, jclass, jlong channel, jint timeout_ms, jlongArray out_buffer) {
  lwmq_buffer buffer{};
  const lwmq_status status =
      lwmq_raw_get_buffer(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms), &buffer);
  if (check(env, status)) show_buffer(env, buffer, out_buffer);
}

JNI_METHOD(void, rawSendBuffer)(JNIEnv* env, jclass, jlong channel, jlongArray buffer_fields) {
  lwmq_buffer buffer = buffer_of(env, buffer_fields);
  check(env, lwmq_raw_send_buffer(handle<lwmq_channel>(channel), &buffer));
}

JNI_METHOD(void, rawAbandonBuffer)(JNIEnv* env, jclass, jlong channel, jlongArray buffer_fields) {
  lwmq_buffer buffer = buffer_of(env, buffer_fields);
  check(env, lwmq_raw_abandon_buffer(handle<lwmq_channel>(channel), &buffer));
}

JNI_METHOD(void, rawReceiveBuffer)
(JNIEnv* env, jclass, jlong channel, jint timeout_ms, jlongArray out_buffer) {
  lwmq_buffer buffer{};
  const lwmq_status status =
      lwmq_raw_receive_buffer(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms), &buffer);
  if (check(env, status)) show_buffer(env, buffer, out_buffer);
}

JNI_METHOD(void, rawDisposeBuffer)(JNIEnv* env, jclass, jlong channel, jlongArray buffer_fields) {
  lwmq_buffer buffer = buffer_of(env, buffer_fields);
  check(env, lwmq_raw_dispose_buffer(handle<lwmq_channel>(channel), &buffer));
}

JNI_METHOD(jlong, channelEnds)(JNIEnv* env, jclass, jlong channel) {
  std::uint64_t ends = 0;
  check(env, lwmq_channel_ends(handle<lwmq_channel>(channel), &ends));
  return static_cast<jlong>(ends);
}

JNI_METHOD(jlong, lastEnd)(JNIEnv*, jclass) { return static_cast<jlong>(lwmq_last_end()); }

}  // namespace lwmq::jni
