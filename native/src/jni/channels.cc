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
  const lwmq_channel_options options = channel_options(env, fields);
  return output_of(env, lwmq_channel_create, uri, &options);
}

JNI_METHOD(void, channelAddTransport)
(JNIEnv* env, jclass, jlong channel, jbyteArray address, jint buffers_send, jint buffers_receive,
 jint retry_ms, jboolean redundant) {
  const Bytes uri(env, address);
  auto options = sized<lwmq_transport_options>();
  options.buffers_send = static_cast<std::uint32_t>(buffers_send);
  options.buffers_receive = static_cast<std::uint32_t>(buffers_receive);
  options.retry_ms = static_cast<std::uint32_t>(retry_ms);
  options.redundant = redundant != 0;
  call(env, lwmq_channel_add_transport, channel, uri, &options);
}

JNI_METHOD(void, channelOpen)(JNIEnv* env, jclass, jlong channel, jint role) {
  call(env, lwmq_channel_open, channel, role);
}

JNI_METHOD(jlong, channelAddSendQueue)
(JNIEnv* env, jclass, jlong channel, jint kind, jint priority, jlong capacity) {
  auto options = sized<lwmq_send_queue_options>();
  options.kind = static_cast<std::uint32_t>(kind);
  options.priority = static_cast<std::uint32_t>(priority);
  options.capacity = static_cast<std::uint64_t>(capacity);
  return output_of(env, lwmq_channel_add_send_queue, channel, &options);
}

namespace {

jlongArray new_peer(JNIEnv* env, const lwmq_peer& peer, jobjectArray out_instance) {
  show_bytes(env, peer.instance, sizeof peer.instance, out_instance, 0);
  return longs_of(env, peer.connected, peer.number, peer.pid, peer.uid);
}

}  // namespace

JNI_METHOD(void, channelWaitConnected)(JNIEnv* env, jclass, jlong channel, jint timeout_ms) {
  call(env, lwmq_channel_wait_connected, channel, timeout_ms);
}

JNI_METHOD(jlong, channelReceive)(JNIEnv* env, jclass, jlong channel, jint timeout_ms) {
  return output_of(env, lwmq_channel_receive, channel, timeout_ms);
}

JNI_METHOD(jlong, channelTryReceive)(JNIEnv* env, jclass, jlong channel) {
  return received_now(env, lwmq_channel_receive, channel, 0);
}

// The most messages that one call receives. The library refuses a limit of 0 or less.
static constexpr jint kReceivedAtOnce = 1024;
static std::uint32_t received_at_once(jint limit) {
  return static_cast<std::uint32_t>(limit < 0 ? 0 : limit < kReceivedAtOnce ? limit : kReceivedAtOnce);
}

JNI_METHOD(jlongArray, channelReceiveMany)
(JNIEnv* env, jclass, jlong channel, jint limit, jint timeout_ms) {
  lwmq_message* messages[kReceivedAtOnce];
  jlong addresses[kReceivedAtOnce];
  std::uint32_t count = 0;
  if (!call(env, lwmq_channel_receive_many, channel, received_at_once(limit), timeout_ms,
            static_cast<lwmq_message**>(messages), &count))
    return nullptr;
  for (std::uint32_t i = 0; i < count; ++i) addresses[i] = address_of(messages[i]);
  jlongArray result = new_longs(env, addresses, count);
  if (result == nullptr) {
    for (std::uint32_t i = 0; i < count; ++i) lwmq_message_destroy(messages[i]);
  }
  return result;
}

// All frames of a lent message, one after the other. Null, with an exception: memory is short, or an array
// cannot hold them.
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
  if (!call(env, lwmq_channel_receive_loan, channel, timeout_ms, made, &lent, &count)) return nullptr;
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
  return static_cast<jint>(output_of(env, lwmq_channel_descriptor, channel));
}

JNI_METHOD(void, channelAddFilter)(JNIEnv* env, jclass, jlong channel, jbyteArray filter, jint place) {
  call(env, lwmq_channel_add_filter, channel, Bytes(env, filter), place);
}

JNI_METHOD(void, channelRemoveFilter)(JNIEnv* env, jclass, jlong channel, jint place) {
  call(env, lwmq_channel_remove_filter, channel, place);
}

JNI_METHOD(jlongArray, channelQueryFilter)
(JNIEnv* env, jclass, jlong channel, jint place, jobjectArray out_texts) {
  auto view = sized<lwmq_filter_view>();
  const lwmq_status status =
      lwmq_channel_query_filter(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(place), &view);
  if (status == LWMQ_E_INVALID || status == LWMQ_E_UNSUPPORTED || !check(env, status)) return nullptr;
  show_text(env, view.name, out_texts, 0);
  show_text(env, view.settings, out_texts, 1);
  return longs_of(env, view.seen, view.dropped, view.changed, view.sourced, view.held, view.failed,
                  view.timed);
}

JNI_METHOD(jlong, channelQueryTimes)(JNIEnv* env, jclass, jlong channel, jint place, jdouble share) {
  std::uint64_t ns = 0;
  const lwmq_status status =
      lwmq_channel_query_times(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(place), share, &ns);
  return status != LWMQ_E_EMPTY && check(env, status) ? static_cast<jlong>(ns) : -1;
}

JNI_METHOD(jlongArray, channelQuery)(JNIEnv* env, jclass, jlong channel) {
  auto known = sized<lwmq_channel_statistics>();
  if (!call(env, lwmq_channel_query, channel, &known)) return nullptr;
  return longs_of(env, known.connected, known.is_server, known.messages_posted, known.messages_shipped,
                  known.messages_received, known.messages_lost, known.buffers_shipped, known.shipped_full,
                  known.shipped_idle, known.bytes_shipped, known.bytes_received, known.peers_lost,
                  known.buffers_free, known.messages_passed, known.receive_queued, known.receive_discarded,
                  known.duplicates_dropped, known.clients_refused, known.messages_unread);
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
  const bool is_done = call(env, lwmq_channel_wait_peer, channel, transport, timeout_ms, &peer);
  return is_done ? new_peer(env, peer, out_instance) : nullptr;
}

JNI_METHOD(void, channelFlush)(JNIEnv* env, jclass, jlong channel, jint timeout_ms) {
  call(env, lwmq_channel_flush, channel, timeout_ms);
}

JNI_METHOD(void, channelClose)(JNIEnv* env, jclass, jlong channel, jint linger_ms) {
  call(env, lwmq_channel_close, channel, linger_ms);
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
  call(env, lwmq_channel_set_weights, channel, static_cast<const std::uint32_t*>(numbers), count);
}

// ---- listener -----------------------------------------------------------------------------------

JNI_METHOD(jlong, listenerOpen)(JNIEnv* env, jclass, jbyteArray address, jlongArray fields) {
  const Bytes uri(env, address);
  const lwmq_channel_options options = channel_options(env, fields);
  return output_of(env, lwmq_listener_open, uri, &options);
}

JNI_METHOD(jlong, listenerAccept)(JNIEnv* env, jclass, jlong listener, jint timeout_ms) {
  return output_of(env, lwmq_listener_accept, listener, timeout_ms);
}

JNI_METHOD(jlong, listenerTryAccept)(JNIEnv* env, jclass, jlong listener) {
  return received_now(env, lwmq_listener_accept, listener, 0);
}

JNI_METHOD(jint, listenerDescriptor)(JNIEnv* env, jclass, jlong listener) {
  return static_cast<jint>(output_of(env, lwmq_listener_descriptor, listener));
}

JNI_METHOD(jlongArray, listenerQuery)(JNIEnv* env, jclass, jlong listener, jobjectArray out_refusal) {
  auto known = sized<lwmq_listener_statistics>();
  if (!call(env, lwmq_listener_query, listener, &known)) return nullptr;
  show_text(env, known.refusal, out_refusal, 0);
  return longs_of(env, known.accepted, known.waiting, known.refused);
}

JNI_METHOD(void, listenerClose)(JNIEnv* env, jclass, jlong listener) {
  call(env, lwmq_listener_close, listener);
}

JNI_METHOD(void, listenerDestroy)(JNIEnv*, jclass, jlong listener) {
  lwmq_listener_destroy(handle<lwmq_listener>(listener));
}

// ---- raw buffers --------------------------------------------------------------------------------

JNI_METHOD(void, rawGetBuffer)(JNIEnv* env, jclass, jlong channel, jint timeout_ms, jlongArray out_buffer) {
  lwmq_buffer buffer{};
  if (call(env, lwmq_raw_get_buffer, channel, timeout_ms, &buffer)) show_words(env, buffer, out_buffer);
}

JNI_METHOD(void, rawSendBuffer)(JNIEnv* env, jclass, jlong channel, jlongArray buffer_fields) {
  auto buffer = words_of<lwmq_buffer>(env, buffer_fields);
  call(env, lwmq_raw_send_buffer, channel, &buffer);
}

JNI_METHOD(void, rawAbandonBuffer)(JNIEnv* env, jclass, jlong channel, jlongArray buffer_fields) {
  auto buffer = words_of<lwmq_buffer>(env, buffer_fields);
  call(env, lwmq_raw_abandon_buffer, channel, &buffer);
}

JNI_METHOD(void, rawReceiveBuffer)
(JNIEnv* env, jclass, jlong channel, jint timeout_ms, jlongArray out_buffer) {
  lwmq_buffer buffer{};
  if (call(env, lwmq_raw_receive_buffer, channel, timeout_ms, &buffer)) show_words(env, buffer, out_buffer);
}

JNI_METHOD(void, rawDisposeBuffer)(JNIEnv* env, jclass, jlong channel, jlongArray buffer_fields) {
  auto buffer = words_of<lwmq_buffer>(env, buffer_fields);
  call(env, lwmq_raw_dispose_buffer, channel, &buffer);
}

}  // namespace lwmq::jni
