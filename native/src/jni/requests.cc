// Of org.lwmq.core.Jni: requests and their replies.
#include "crossing.h"

namespace lwmq::jni {
// ---- Asking -------------------------------------------------------------------------------------

JNI_METHOD(jlong, requestsCreate)
(JNIEnv* env, jclass, jlong channel, jlong queue, jlong outstanding_max) {
  auto options = sized<lwmq_requests_options>();
  options.queue = handle<lwmq_send_queue>(queue);
  options.outstanding_max = static_cast<std::uint64_t>(outstanding_max);
  options.keep_failures = 1;
  return output_of(env, lwmq_requests_create, channel, &options);
}

JNI_METHOD(jlong, requestsMake)(JNIEnv* env, jclass, jlong requests) {
  return output_of(env, lwmq_requests_make, requests);
}

JNI_METHOD(void, requestsSubmit)
(JNIEnv* env, jclass, jlong requests, jlong message, jint timeout_ms) {
  auto* request = handle<lwmq_message>(message);
  output_of(env, lwmq_requests_submit, requests, &request, timeout_ms);
}

JNI_METHOD(jlong, requestsNext)(JNIEnv* env, jclass, jlong requests, jlongArray out_outcome) {
  std::uint64_t number = 0;
  lwmq_message* reply = nullptr;
  const lwmq_status status = lwmq_requests_next(handle<lwmq_requests>(requests), 0, &number, &reply);
  auto s = sized<lwmq_requests_statistics>();
  s.due_ms = LWMQ_FOREVER;
  if (status == LWMQ_E_EMPTY) lwmq_requests_query(handle<lwmq_requests>(requests), &s);
  show_longs(env, out_outcome, number, status == LWMQ_E_HANDLER, s.due_ms);
  return status == LWMQ_OK || status == LWMQ_E_HANDLER || status == LWMQ_E_EMPTY || check(env, status)
             ? address_of(reply)
             : 0;
}

JNI_METHOD(void, requestsFile)(JNIEnv* env, jclass, jlong requests, jlong message) {
  auto* received = handle<lwmq_message>(message);
  call(env, lwmq_requests_file, requests, &received);
}

JNI_METHOD(void, requestsLose)(JNIEnv* env, jclass, jlong requests, jint failure) {
  call(env, lwmq_requests_lose, requests, failure);
}

JNI_METHOD(jboolean, requestsCancel)(JNIEnv* env, jclass, jlong requests, jlong number) {
  const lwmq_status status =
      lwmq_requests_cancel(handle<lwmq_requests>(requests), static_cast<std::uint64_t>(number));
  return status != LWMQ_E_EMPTY && check(env, status);
}

JNI_METHOD(jlongArray, requestsQuery)(JNIEnv* env, jclass, jlong requests) {
  auto s = sized<lwmq_requests_statistics>();
  if (!call(env, lwmq_requests_query, requests, &s)) return nullptr;
  return longs_of(env, s.asked, s.outstanding, s.answered, s.failed, s.timed_out, s.lost, s.given_up, s.late,
                  s.foreign, s.malformed);
}

JNI_METHOD(void, requestsDestroy)(JNIEnv*, jclass, jlong requests) {
  lwmq_requests_destroy(handle<lwmq_requests>(requests));
}

// ---- Answering ----------------------------------------------------------------------------------

JNI_METHOD(jbyteArray, requestHead)(JNIEnv* env, jclass, jlong message) {
  const auto* request = handle<lwmq_message>(message);
  lwmq_message* reply = nullptr;
  const lwmq_status status = lwmq_reply_make(request, &reply);
  lwmq_message_destroy(reply);
  const void* head = nullptr;
  std::uint64_t bytes = 0;
  if (status == LWMQ_E_CORRUPT || !check(env, status) ||
      !check(env, lwmq_message_frame(request, 0, &head, &bytes)))
    return nullptr;
  return new_bytes(env, head, bytes);
}

JNI_METHOD(jlong, replyMake)(JNIEnv* env, jclass, jbyteArray head, jbyteArray kind, jbyteArray text) {
  const Bytes bytes(env, head), name(env, kind), words(env, text);
  lwmq_message* request = nullptr;
  lwmq_message* reply = nullptr;
  if (check_memory(env, bytes.ok() && name.ok() && words.ok()) &&
      check(env, lwmq_message_create(1, &request)) &&
      check(env, lwmq_message_append(request, bytes.data(), bytes.size()))) {
    check(env, kind == nullptr ? lwmq_reply_make(request, &reply)
                               : lwmq_reply_make_failure(request, name.text(), words.text(), &reply));
  }
  lwmq_message_destroy(request);
  return address_of(reply);
}

}  // namespace lwmq::jni
