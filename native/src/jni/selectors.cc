// Of org.lwmq.core.Jni: selectors over channels and listeners.
#include "crossing.h"

namespace lwmq::jni {

JNI_METHOD(jlong, selectorCreate)(JNIEnv* env, jclass) {
  lwmq_selector* selector = nullptr;
  return check(env, lwmq_selector_create(&selector)) ? address_of(selector) : 0;
}

JNI_METHOD(void, selectorAdd)(JNIEnv* env, jclass, jlong selector, jlong channel) {
  check(env, lwmq_selector_add(handle<lwmq_selector>(selector), handle<lwmq_channel>(channel)));
}

JNI_METHOD(void, selectorRemove)(JNIEnv* env, jclass, jlong selector, jlong channel) {
  check(env, lwmq_selector_remove(handle<lwmq_selector>(selector), handle<lwmq_channel>(channel)));
}

JNI_METHOD(void, selectorAddListener)(JNIEnv* env, jclass, jlong selector, jlong listener) {
  check(env, lwmq_selector_add_listener(handle<lwmq_selector>(selector), handle<lwmq_listener>(listener)));
}

JNI_METHOD(void, selectorRemoveListener)(JNIEnv* env, jclass, jlong selector, jlong listener) {
  check(env, lwmq_selector_remove_listener(handle<lwmq_selector>(selector), handle<lwmq_listener>(listener)));
}

JNI_METHOD(jlong, selectorWait)(JNIEnv* env, jclass, jlong selector, jint timeout_ms) {
  lwmq_channel* channel = nullptr;
  const lwmq_status status =
      lwmq_selector_wait(handle<lwmq_selector>(selector), static_cast<std::uint32_t>(timeout_ms), &channel);
  return check(env, status) ? address_of(channel) : 0;
}

JNI_METHOD(jint, selectorDescriptor)(JNIEnv* env, jclass, jlong selector) {
  std::int32_t descriptor = -1;
  check(env, lwmq_selector_descriptor(handle<lwmq_selector>(selector), &descriptor));
  return descriptor;
}

JNI_METHOD(jlong, selectorTake)(JNIEnv* env, jclass, jlong selector) {
  lwmq_message* message = nullptr;
  const lwmq_status status = lwmq_selector_take(handle<lwmq_selector>(selector), &message);
  return received_now(env, status, message);
}

JNI_METHOD(jlong, selectorReceive)
(JNIEnv* env, jclass, jlong selector, jint timeout_ms, jlongArray out_channel) {
  lwmq_channel* channel = nullptr;
  lwmq_message* message = nullptr;
  const lwmq_status status = lwmq_selector_receive(
      handle<lwmq_selector>(selector), static_cast<std::uint32_t>(timeout_ms), &channel, &message);
  const jlong whose = address_of(channel);  // also where its receive has failed
  env->SetLongArrayRegion(out_channel, 0, 1, &whose);
  return check(env, status) ? address_of(message) : 0;
}

JNI_METHOD(void, selectorDestroy)(JNIEnv*, jclass, jlong selector) {
  lwmq_selector_destroy(handle<lwmq_selector>(selector));
}

}  // namespace lwmq::jni
