// Of org.lwmq.core.Jni: providers and filters, and the modules that bring more of them.
#include "crossing.h"

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
  return longs_of(env, view.status, view.loaded, view.expires_s);
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
  // The view has a refusal of the module, which is a result. Any other failure is one of the call itself.
  return status == view.status || check(env, status) ? module_of(env, view, texts) : nullptr;
}

JNI_METHOD(void, moduleSign)(JNIEnv* env, jclass, jbyteArray path, jbyteArray key, jlong expires_s) {
  call(env, lwmq_module_sign, Bytes(env, path), Bytes(env, key), expires_s);
}

JNI_METHOD(jbyteArray, moduleMakeKey)(JNIEnv* env, jclass, jbyteArray key) {
  char shared[72] = {};
  if (!call(env, lwmq_module_make_key, Bytes(env, key), static_cast<char*>(shared))) return nullptr;
  return new_bytes(env, shared, std::strlen(shared));
}

}  // namespace lwmq::jni
