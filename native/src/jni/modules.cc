// Of org.lwmq.core.Jni: providers and filters, and the modules that bring more of them.
#include "crossing.h"

#include <iterator>

namespace lwmq::jni {

static jbyteArray text_or_null(JNIEnv* env, const char* text) {
  return text == nullptr ? nullptr : new_bytes(env, text, std::strlen(text));
}

JNI_METHOD(jbyteArray, providerName)(JNIEnv* env, jclass, jint index) {
  return text_or_null(env, lwmq_provider_name(static_cast<std::uint32_t>(index)));
}

JNI_METHOD(jbyteArray, filterName)(JNIEnv* env, jclass, jint index) {
  return text_or_null(env, lwmq_filter_name(static_cast<std::uint32_t>(index)));
}

JNI_METHOD(jbyteArray, filterHelp)(JNIEnv* env, jclass, jint index) {
  return text_or_null(env, lwmq_filter_help(static_cast<std::uint32_t>(index)));
}

// ---- modules ------------------------------------------------------------------------------------

static jlongArray module_of(JNIEnv* env, const lwmq_module_view& view, jobjectArray texts) {
  show_text(env, view.path, texts, 0);
  show_text(env, view.name, texts, 1);
  show_text(env, view.key, texts, 2);
  show_text(env, view.signer, texts, 3);
  show_text(env, view.text, texts, 4);
  const jlong numbers[] = {view.status, view.loaded, static_cast<jlong>(view.expires_s)};
  return new_longs(env, numbers, std::size(numbers));
}

JNI_METHOD(jlongArray, queryModule)(JNIEnv* env, jclass, jint index, jobjectArray texts) {
  auto view = sized<lwmq_module_view>();
  const lwmq_status status = lwmq_query_module(static_cast<std::uint32_t>(index), &view);
  if (status == LWMQ_E_INVALID) return nullptr;  // past the last
  return check(env, status) ? module_of(env, view, texts) : nullptr;
}

JNI_METHOD(jlongArray, moduleVerify)
(JNIEnv* env, jclass, jbyteArray path, jbyteArray trust, jobjectArray texts) {
  const Bytes file(env, path), trusted(env, trust);
  if (!check_memory(env, file.ok() && trusted.ok())) return nullptr;
  auto view = sized<lwmq_module_view>();
  const lwmq_status status = lwmq_module_verify(file.text(), trusted.text(), &view);
  // A refusal is what was asked for, and the view has it; without one the call itself has failed.
  return status == view.status || check(env, status) ? module_of(env, view, texts) : nullptr;
}

JNI_METHOD(void, moduleSign)(JNIEnv* env, jclass, jbyteArray path, jbyteArray key, jlong expires_s) {
  const Bytes file(env, path), secret(env, key);
  if (!check_memory(env, file.ok() && secret.ok())) return;
  check(env, lwmq_module_sign(file.text(), secret.text(), static_cast<std::uint64_t>(expires_s)));
}

JNI_METHOD(jbyteArray, moduleMakeKey)(JNIEnv* env, jclass, jbyteArray key) {
  const Bytes secret(env, key);
  if (!check_memory(env, secret.ok())) return nullptr;
  char shared[72] = {};
  if (!check(env, lwmq_module_make_key(secret.text(), shared))) return nullptr;
  return new_bytes(env, shared, std::strlen(shared));
}

}  // namespace lwmq::jni
