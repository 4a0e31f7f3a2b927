// Of org.lwmq.core.Jni: this process, its library, and memory.
#include "crossing.h"

#include <iterator>

namespace lwmq::jni {

JNI_METHOD(jstring, version)(JNIEnv* env, jclass) { return env->NewStringUTF(lwmq_version()); }

JNI_METHOD(jint, protocolVersion)(JNIEnv*, jclass) { return static_cast<jint>(lwmq_protocol_version()); }

JNI_METHOD(jlongArray, identify)(JNIEnv* env, jclass, jobjectArray texts) {
  auto identity = sized<lwmq_identity>();
  if (!check(env, lwmq_identify(&identity))) return nullptr;
  env->SetObjectArrayElement(texts, 0, new_bytes(env, identity.host, std::strlen(identity.host)));
  env->SetObjectArrayElement(texts, 1, new_bytes(env, identity.boot_id, std::strlen(identity.boot_id)));
  env->SetObjectArrayElement(texts, 2, new_bytes(env, identity.instance, sizeof identity.instance));
  const jlong numbers[] = {static_cast<jlong>(identity.netns), identity.pid, identity.uid};
  return new_longs(env, numbers, std::size(numbers));
}

JNI_METHOD(void, setWindowMemory)(JNIEnv* env, jclass, jlong bytes_max) {
  check(env, lwmq_set_window_memory(static_cast<std::uint64_t>(bytes_max)));
}

JNI_METHOD(jlongArray, queryLimits)(JNIEnv* env, jclass, jbyteArray address) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return nullptr;
  auto limits = sized<lwmq_limits>();
  if (!check(env, lwmq_query_limits(uri.text(), &limits))) return nullptr;
  const jlong longs[] = {static_cast<jlong>(limits.buffer_bytes_max),
                         static_cast<jlong>(limits.buffers_max),
                         static_cast<jlong>(limits.inline_bytes_max),
                         limits.frames_max,
                         limits.capabilities,
                         limits.loss_ms};
  return new_longs(env, longs, std::size(longs));
}

JNI_METHOD(jlong, readValue)(JNIEnv* env, jclass, jint kind, jbyteArray words, jbyteArray text) {
  const Bytes allowed(env, words);
  const Bytes given(env, text);
  if (!check_memory(env, allowed.ok() && given.ok())) return 0;
  std::uint64_t value = 0;
  check(env, lwmq_read_value(static_cast<std::uint32_t>(kind), allowed.text(), given.text(), &value));
  return static_cast<jlong>(value);
}

JNI_METHOD(jint, nearestWord)(JNIEnv* env, jclass, jbyteArray text, jbyteArray words) {
  const Bytes allowed(env, words);
  const Bytes given(env, text);
  return check_memory(env, allowed.ok() && given.ok()) ? lwmq_nearest_word(given.text(), allowed.text()) : -1;
}

JNI_METHOD(jlong, readSetting)(JNIEnv* env, jclass, jbyteArray key, jbyteArray text) {
  const Bytes name(env, key);
  const Bytes given(env, text);
  if (!check_memory(env, name.ok() && given.ok())) return 0;
  std::uint64_t value = 0;
  check(env, lwmq_read_setting(name.text(), given.text(), &value));
  return static_cast<jlong>(value);
}

JNI_METHOD(jboolean, addressOption)
(JNIEnv* env, jclass, jbyteArray address, jint taken_by, jint index, jobjectArray found) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return JNI_FALSE;
  auto option = sized<lwmq_address_option>();
  const lwmq_status status = lwmq_read_address_option(uri.text(), static_cast<std::uint32_t>(taken_by),
                                                      static_cast<std::uint32_t>(index), &option);
  if (status == LWMQ_E_EMPTY || !check(env, status)) return JNI_FALSE;
  env->SetObjectArrayElement(found, 0, new_bytes(env, option.key, std::strlen(option.key)));
  env->SetObjectArrayElement(found, 1, new_bytes(env, option.text, option.text_bytes));
  return JNI_TRUE;
}

JNI_METHOD(void, setServiceAffinity)(JNIEnv* env, jclass, jintArray processors) {
  const jsize count = env->GetArrayLength(processors);
  const std::unique_ptr<jint[]> given(new (std::nothrow) jint[static_cast<std::size_t>(count)]);
  if (!check_memory(env, given != nullptr)) return;
  env->GetIntArrayRegion(processors, 0, count, given.get());
  // A negative number is one that is too large.
  check(env, lwmq_set_service_affinity(reinterpret_cast<const std::uint32_t*>(given.get()),
                                       static_cast<std::uint32_t>(count)));
}

JNI_METHOD(jlongArray, statistics)(JNIEnv* env, jclass) {
  auto statistics = sized<lwmq_statistics>();
  if (!check(env, lwmq_query_statistics(&statistics))) return nullptr;
#define LWMQ_LISTED_COUNTER(name, ...) statistics.name,
  const std::uint64_t numbers[] = {LWMQ_PROCESS_COUNTERS(LWMQ_LISTED_COUNTER)};
  return new_longs(env, reinterpret_cast<const jlong*>(numbers), std::size(numbers));
}

JNI_METHOD(jobject, wrap)(JNIEnv* env, jclass, jlong address, jlong bytes) {
  return view_of(env, handle<void>(address), static_cast<std::uint64_t>(bytes));
}

JNI_METHOD(jlong, address)(JNIEnv* env, jclass, jobject direct) {
  return address_of(env->GetDirectBufferAddress(direct));
}

JNI_METHOD(void, copyOut)(JNIEnv* env, jclass, jlong address, jbyteArray target, jint bytes) {
  env->SetByteArrayRegion(target, 0, bytes, handle<const jbyte>(address));
}

}  // namespace lwmq::jni
