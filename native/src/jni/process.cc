// Of org.lwmq.core.Jni: this process, its library, and memory.
#include "crossing.h"

#include <iterator>

namespace lwmq::jni {

JNI_METHOD(jstring, version)(JNIEnv* env, jclass) { return env->NewStringUTF(lwmq_version()); }

JNI_METHOD(jlongArray, identify)(JNIEnv* env, jclass, jobjectArray texts) {
  auto identity = sized<lwmq_identity>();
  if (!check(env, lwmq_identify(&identity))) return nullptr;
  show_text(env, identity.host, texts, 0);
  show_text(env, identity.boot_id, texts, 1);
  show_bytes(env, identity.instance, sizeof identity.instance, texts, 2);
  return longs_of(env, identity.netns, identity.pid, identity.uid);
}

JNI_METHOD(void, setKey)(JNIEnv* env, jclass, jbyteArray name, jbyteArray key) {
  call(env, lwmq_set_key, Bytes(env, name), Bytes(env, key));
}

JNI_METHOD(void, setWindowMemory)(JNIEnv* env, jclass, jlong bytes_max) {
  call(env, lwmq_set_window_memory, bytes_max);
}

JNI_METHOD(jlongArray, queryLimits)(JNIEnv* env, jclass, jbyteArray address) {
  auto limits = sized<lwmq_limits>();
  if (!call(env, lwmq_query_limits, Bytes(env, address), &limits)) return nullptr;
  return longs_of(env, limits.buffer_bytes_max, limits.buffers_max, limits.inline_bytes_max,
                  limits.frames_max, limits.capabilities, limits.registered_bytes_max, limits.regions_max,
                  limits.loss_ms);
}

JNI_METHOD(jboolean, hasProvider)(JNIEnv* env, jclass, jbyteArray address) {
  const Bytes uri(env, address);
  return check_memory(env, uri.ok()) && lwmq_has_provider(uri.text()) != 0;
}

JNI_METHOD(jlong, readValue)(JNIEnv* env, jclass, jint kind, jbyteArray words, jbyteArray text) {
  return output_of(env, lwmq_read_value, kind, Bytes(env, words), Bytes(env, text));
}

JNI_METHOD(jint, nearestWord)(JNIEnv* env, jclass, jbyteArray text, jbyteArray words) {
  const Bytes allowed(env, words);
  const Bytes given(env, text);
  return check_memory(env, allowed.ok() && given.ok()) ? lwmq_nearest_word(given.text(), allowed.text()) : -1;
}

JNI_METHOD(jlong, readSetting)(JNIEnv* env, jclass, jbyteArray key, jbyteArray text) {
  return output_of(env, lwmq_read_setting, Bytes(env, key), Bytes(env, text));
}

JNI_METHOD(jbyteArray, providerSetting)(JNIEnv* env, jclass, jint index) {
  auto setting = sized<lwmq_setting>();
  for (std::uint32_t i = 0; lwmq_query_setting(i, &setting) == LWMQ_OK; ++i) {
    const bool is_own = (setting.taken_by & LWMQ_TAKEN_BY_PROVIDER) != 0;
    if (is_own && index-- == 0) return new_bytes(env, setting.key, std::strlen(setting.key));
  }
  return nullptr;
}

JNI_METHOD(jboolean, addressOption)
(JNIEnv* env, jclass, jbyteArray address, jint taken_by, jint index, jobjectArray found) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return JNI_FALSE;
  auto option = sized<lwmq_address_option>();
  const lwmq_status status = lwmq_read_address_option(uri.text(), static_cast<std::uint32_t>(taken_by),
                                                      static_cast<std::uint32_t>(index), &option);
  if (status == LWMQ_E_EMPTY || !check(env, status)) return JNI_FALSE;
  show_bytes(env, option.key, std::strlen(option.key), found, 0);
  show_bytes(env, option.text, option.text_bytes, found, 1);
  return JNI_TRUE;
}

JNI_METHOD(void, setServiceAffinity)(JNIEnv* env, jclass, jintArray processors) {
  const jsize count = env->GetArrayLength(processors);
  const std::unique_ptr<jint[]> given(new (std::nothrow) jint[static_cast<std::size_t>(count)]);
  if (!check_memory(env, given != nullptr)) return;
  env->GetIntArrayRegion(processors, 0, count, given.get());
  // A negative number becomes one that is too large, and is refused.
  call(env, lwmq_set_service_affinity, reinterpret_cast<const std::uint32_t*>(given.get()), count);
}

JNI_METHOD(jlongArray, statistics)(JNIEnv* env, jclass) {
  auto s = sized<lwmq_statistics>();
  if (!check(env, lwmq_query_statistics(&s))) return nullptr;
#define LWMQ_COUNTER_OF(name, ...) static_cast<jlong>(s.name),
  const jlong numbers[] = {LWMQ_PROCESS_COUNTERS(LWMQ_COUNTER_OF)};
  return new_longs(env, numbers, std::size(numbers));
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
