// Of org.lwmq.core.Jni: messages, the send queues that take them, and routers.
#include "crossing.h"

#include <iterator>

namespace lwmq::jni {

// ---- send queue ---------------------------------------------------------------------------------

JNI_METHOD(void, sendQueuePostDirect)
(JNIEnv* env, jclass, jlong queue, jobject frame, jint position, jint bytes) {
  call(env, lwmq_send_queue_post_bytes, queue, direct(env, frame, position), bytes);
}

JNI_METHOD(void, sendQueuePostBytes)(JNIEnv* env, jclass, jlong queue, jbyteArray frame) {
  const Bytes bytes(env, frame);
  call(env, lwmq_send_queue_post_bytes, queue, bytes, bytes.size());
}

JNI_METHOD(void, sendQueuePostMessage)(JNIEnv* env, jclass, jlong queue, jlong tag, jlong message) {
  auto* posted = handle<lwmq_message>(message);
  call(env, lwmq_send_queue_post_tagged, queue, tag, &posted);
}

JNI_METHOD(void, sendQueuePostWait)
(JNIEnv* env, jclass, jlong queue, jlong tag, jint timeout_ms, jlong message) {
  auto* posted = handle<lwmq_message>(message);
  call(env, lwmq_send_queue_post_wait, queue, tag, timeout_ms, 0, &posted);
}

JNI_METHOD(void, sendQueueWaitRoom)(JNIEnv* env, jclass, jlong queue, jint timeout_ms) {
  call(env, lwmq_send_queue_wait_room, queue, timeout_ms);
}

JNI_METHOD(void, sendQueuePostMany)
(JNIEnv* env, jclass, jlong queue, jbyteArray content, jintArray lengths) {
  const Bytes bytes(env, content);
  if (!check_memory(env, bytes.ok())) return;
  const auto count = static_cast<std::size_t>(env->GetArrayLength(lengths));
  std::unique_ptr<jint[]> sizes(new (std::nothrow) jint[count]);
  std::unique_ptr<lwmq_bytes[]> frames(new (std::nothrow) lwmq_bytes[count]);
  if (!check_memory(env, sizes != nullptr && frames != nullptr)) return;
  env->GetIntArrayRegion(lengths, 0, static_cast<jsize>(count), sizes.get());
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    frames[i] = {static_cast<const std::uint8_t*>(bytes.data()) + at, static_cast<std::uint64_t>(sizes[i])};
    at += frames[i].bytes;
  }
  output_of(env, lwmq_send_queue_post_many, queue, frames.get(), count);
}

JNI_METHOD(void, sendQueuePostMessages)(JNIEnv* env, jclass, jlong queue, jlongArray messages) {
  const Longs addresses(env, messages);
  const std::size_t count = addresses.size();
  std::unique_ptr<lwmq_message*[]> posted(new (std::nothrow) lwmq_message*[count + 1]);
  std::unique_ptr<jlong[]> left(new (std::nothrow) jlong[count + 1]);
  if (!check_memory(env, addresses.ok() && posted != nullptr && left != nullptr)) return;
  for (std::size_t i = 0; i < count; ++i) posted[i] = handle<lwmq_message>(addresses[i]);
  std::uint64_t posted_count = 0;
  const lwmq_status status =
      lwmq_send_queue_post_messages(handle<lwmq_send_queue>(queue), posted.get(), count, &posted_count);
  for (std::size_t i = 0; i < count; ++i) left[i] = address_of(posted[i]);
  env->SetLongArrayRegion(messages, 0, static_cast<jsize>(count), left.get());
  check(env, status);
}

JNI_METHOD(void, sendQueueSetPriority)(JNIEnv* env, jclass, jlong queue, jint priority) {
  call(env, lwmq_send_queue_set_priority, queue, priority);
}

JNI_METHOD(jlongArray, sendQueueQuery)(JNIEnv* env, jclass, jlong queue) {
  auto statistics = sized<lwmq_send_queue_statistics>();
  if (!call(env, lwmq_send_queue_query, queue, &statistics)) return nullptr;
  return longs_of(env, statistics.posted, statistics.collected, statistics.discarded, statistics.replaced,
                  statistics.queued);
}

// ---- router -------------------------------------------------------------------------------------

JNI_METHOD(jlong, routerCreate)(JNIEnv* env, jclass) { return output_of(env, lwmq_router_create); }

JNI_METHOD(void, routerAdd)
(JNIEnv* env, jclass, jlong router, jint frame, jbyteArray pattern, jbyteArray group, jlong queue) {
  const Bytes text(env, pattern), name(env, group);
  call(env, lwmq_router_add, router, frame, text, name, queue);
}

JNI_METHOD(void, routerRemove)
(JNIEnv* env, jclass, jlong router, jint frame, jbyteArray pattern, jbyteArray group, jlong queue) {
  const Bytes text(env, pattern), name(env, group);
  call(env, lwmq_router_remove, router, frame, text, name, queue);
}

JNI_METHOD(void, routerForget)(JNIEnv* env, jclass, jlong router, jlong queue) {
  call(env, lwmq_router_forget, router, queue);
}

JNI_METHOD(void, routerPost)(JNIEnv* env, jclass, jlong router, jlong message, jintArray out_queues) {
  auto* posted = handle<lwmq_message>(message);
  std::uint32_t count = 0;
  const lwmq_status status = lwmq_router_post(handle<lwmq_router>(router), &posted, &count);
  const jint queues = static_cast<jint>(count);
  env->SetIntArrayRegion(out_queues, 0, 1, &queues);
  if (status != LWMQ_E_EMPTY) check(env, status);
}

JNI_METHOD(void, routerDestroy)(JNIEnv*, jclass, jlong router) {
  lwmq_router_destroy(handle<lwmq_router>(router));
}

// ---- message ------------------------------------------------------------------------------------

JNI_METHOD(jlong, messageCreate)(JNIEnv* env, jclass, jint frames_hint) {
  return output_of(env, lwmq_message_create, frames_hint);
}

JNI_METHOD(void, messageAppend)(JNIEnv* env, jclass, jlong message, jbyteArray frame) {
  const Bytes bytes(env, frame);
  call(env, lwmq_message_append, message, bytes, bytes.size());
}

JNI_METHOD(void, messageAppendDirect)
(JNIEnv* env, jclass, jlong message, jobject frame, jint position, jint bytes) {
  call(env, lwmq_message_append, message, direct(env, frame, position), bytes);
}

JNI_METHOD(jlong, messageReference)(JNIEnv* env, jclass, jlong message) {
  return output_of(env, lwmq_message_reference, message);
}

JNI_METHOD(jint, messageFrameCount)(JNIEnv*, jclass, jlong message) {
  return static_cast<jint>(lwmq_message_frame_count(handle<lwmq_message>(message)));
}

JNI_METHOD(jlong, messageFrameBytes)(JNIEnv* env, jclass, jlong message, jint index) {
  const void* data = nullptr;
  return output_of(env, lwmq_message_frame, message, index, &data);
}

JNI_METHOD(jobject, messageFrame)(JNIEnv* env, jclass, jlong message, jint index) {
  static char nothing = 0;  // an empty frame may have no address, and a direct buffer must have one
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  if (!call(env, lwmq_message_frame, message, index, &data, &bytes)) return nullptr;
  void* address = data != nullptr ? const_cast<void*>(data) : &nothing;  // Java makes it read-only
  return view_of(env, address, bytes);
}

JNI_METHOD(void, messageSetTimestamp)
(JNIEnv* env, jclass, jlong message, jint index, jint source, jlong ticks) {
  call(env, lwmq_message_set_timestamp, message, index, source, ticks);
}

JNI_METHOD(jlong, messageTimestamp)(JNIEnv* env, jclass, jlong message, jint index) {
  return output_of(env, lwmq_message_timestamp, message, index);
}

JNI_METHOD(void, messageDestroy)(JNIEnv*, jclass, jlong message) {
  lwmq_message_destroy(handle<lwmq_message>(message));
}

}  // namespace lwmq::jni
