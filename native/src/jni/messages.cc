// Of org.lwmq.core.Jni: messages, the send queues that take them, and routers.
#include "crossing.h"

#include <iterator>

namespace lwmq::jni {

// ---- send queue ---------------------------------------------------------------------------------

JNI_METHOD(void, sendQueuePostDirect)(JNIEnv* env, jclass, jlong queue, jobject frame) {
  const lwmq_bytes all = direct(env, frame);
  check(env, lwmq_send_queue_post_bytes(handle<lwmq_send_queue>(queue), all.data, all.bytes));
}

JNI_METHOD(void, sendQueuePostBytes)(JNIEnv* env, jclass, jlong queue, jbyteArray frame) {
  const Bytes bytes(env, frame);
  if (!check_memory(env, bytes.ok())) return;
  check(env, lwmq_send_queue_post_bytes(handle<lwmq_send_queue>(queue), bytes.data(), bytes.size()));
}

JNI_METHOD(void, sendQueuePostMessage)(JNIEnv* env, jclass, jlong queue, jlong tag, jlong message) {
  auto* posted = handle<lwmq_message>(message);
  check(env, lwmq_send_queue_post_tagged(handle<lwmq_send_queue>(queue), static_cast<std::uint64_t>(tag),
                                         &posted));
}

JNI_METHOD(void, sendQueuePostWait)
(JNIEnv* env, jclass, jlong queue, jlong tag, jint timeout_ms, jlong message) {
  auto* posted = handle<lwmq_message>(message);
  check(env, lwmq_send_queue_post_wait(handle<lwmq_send_queue>(queue), static_cast<std::uint64_t>(tag),
                                       static_cast<std::uint32_t>(timeout_ms), 0, &posted));
}

JNI_METHOD(void, sendQueueWaitRoom)(JNIEnv* env, jclass, jlong queue, jint timeout_ms) {
  check(env,
        lwmq_send_queue_wait_room(handle<lwmq_send_queue>(queue), static_cast<std::uint32_t>(timeout_ms)));
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
    if (sizes[i] < 0 || at > bytes.size()) {
      throw_text(env, LWMQ_E_INVALID, "the frames of a call of many are longer than its bytes");
      return;
    }
  }
  std::uint64_t posted = 0;
  check(env, lwmq_send_queue_post_many(handle<lwmq_send_queue>(queue), frames.get(), count, &posted));
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
  check(env,
        lwmq_send_queue_set_priority(handle<lwmq_send_queue>(queue), static_cast<std::uint32_t>(priority)));
}

JNI_METHOD(jlongArray, sendQueueQuery)(JNIEnv* env, jclass, jlong queue) {
  auto statistics = sized<lwmq_send_queue_statistics>();
  if (!check(env, lwmq_send_queue_query(handle<lwmq_send_queue>(queue), &statistics))) return nullptr;
  const jlong figures[] = {static_cast<jlong>(statistics.posted), static_cast<jlong>(statistics.collected),
                           static_cast<jlong>(statistics.discarded), static_cast<jlong>(statistics.replaced),
                           static_cast<jlong>(statistics.queued)};
  return new_longs(env, figures, std::size(figures));
}

// ---- router -------------------------------------------------------------------------------------

JNI_METHOD(jlong, routerCreate)(JNIEnv* env, jclass) {
  lwmq_router* router = nullptr;
  return check(env, lwmq_router_create(&router)) ? address_of(router) : 0;
}

JNI_METHOD(void, routerAdd)
(JNIEnv* env, jclass, jlong router, jint frame, jbyteArray pattern, jbyteArray group, jlong queue) {
  const Bytes text(env, pattern), name(env, group);
  if (!check_memory(env, text.ok() && name.ok())) return;
  check(env, lwmq_router_add(handle<lwmq_router>(router), static_cast<std::uint32_t>(frame), text.text(),
                             name.text(), handle<lwmq_send_queue>(queue)));
}

JNI_METHOD(void, routerRemove)
(JNIEnv* env, jclass, jlong router, jint frame, jbyteArray pattern, jbyteArray group, jlong queue) {
  const Bytes text(env, pattern), name(env, group);
  if (!check_memory(env, text.ok() && name.ok())) return;
  check(env, lwmq_router_remove(handle<lwmq_router>(router), static_cast<std::uint32_t>(frame), text.text(),
                                name.text(), handle<lwmq_send_queue>(queue)));
}

JNI_METHOD(void, routerForget)(JNIEnv* env, jclass, jlong router, jlong queue) {
  check(env, lwmq_router_forget(handle<lwmq_router>(router), handle<lwmq_send_queue>(queue)));
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
  lwmq_message* message = nullptr;
  if (!check(env, lwmq_message_create(static_cast<std::uint32_t>(frames_hint), &message))) return 0;
  return address_of(message);
}

JNI_METHOD(void, messageAppend)(JNIEnv* env, jclass, jlong message, jbyteArray frame) {
  const Bytes bytes(env, frame);
  if (!check_memory(env, bytes.ok())) return;
  check(env, lwmq_message_append(handle<lwmq_message>(message), bytes.data(), bytes.size()));
}

JNI_METHOD(void, messageAppendDirect)(JNIEnv* env, jclass, jlong message, jobject frame) {
  const lwmq_bytes all = direct(env, frame);
  check(env, lwmq_message_append(handle<lwmq_message>(message), all.data, all.bytes));
}

JNI_METHOD(jlong, messageReference)(JNIEnv* env, jclass, jlong message) {
  lwmq_message* reference = nullptr;
  check(env, lwmq_message_reference(handle<lwmq_message>(message), &reference));
  return address_of(reference);
}

JNI_METHOD(jint, messageFrameCount)(JNIEnv*, jclass, jlong message) {
  return static_cast<jint>(lwmq_message_frame_count(handle<lwmq_message>(message)));
}

JNI_METHOD(jlong, messageFrameBytes)(JNIEnv* env, jclass, jlong message, jint index) {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  check(env,
        lwmq_message_frame(handle<lwmq_message>(message), static_cast<std::uint32_t>(index), &data, &bytes));
  return static_cast<jlong>(bytes);
}

JNI_METHOD(jlong, messageBytes)(JNIEnv*, jclass, jlong message) {
  const auto* counted = handle<lwmq_message>(message);
  const std::uint32_t frames = lwmq_message_frame_count(counted);
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < frames; ++i) {
    const void* data = nullptr;
    std::uint64_t bytes = 0;
    lwmq_message_frame(counted, i, &data, &bytes);
    all += bytes;
  }
  return static_cast<jlong>(all);
}

JNI_METHOD(jobject, messageFrame)(JNIEnv* env, jclass, jlong message, jint index) {
  static char nothing = 0;  // an empty frame may have no address, and a direct buffer must have one
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  const lwmq_status status =
      lwmq_message_frame(handle<lwmq_message>(message), static_cast<std::uint32_t>(index), &data, &bytes);
  if (!check(env, status)) return nullptr;
  void* address = data != nullptr ? const_cast<void*>(data) : &nothing;  // Java makes it read-only
  return view_of(env, address, bytes);
}

JNI_METHOD(void, messageSetTimestamp)
(JNIEnv* env, jclass, jlong message, jint index, jint source, jlong ticks) {
  check(env, lwmq_message_set_timestamp(handle<lwmq_message>(message), static_cast<std::uint32_t>(index),
                                        source, static_cast<std::uint64_t>(ticks)));
}

JNI_METHOD(jlong, messageTimestamp)(JNIEnv* env, jclass, jlong message, jint index) {
  std::uint64_t ticks = 0;
  check(env,
        lwmq_message_timestamp(handle<lwmq_message>(message), static_cast<std::uint32_t>(index), &ticks));
  return static_cast<jlong>(ticks);
}

JNI_METHOD(void, messageDestroy)(JNIEnv*, jclass, jlong message) {
  lwmq_message_destroy(handle<lwmq_message>(message));
}

}  // namespace lwmq::jni
