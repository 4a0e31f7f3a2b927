// Of org.lwmq.core.Jni: selectors over channels and listeners.
#include "crossing.h"

namespace lwmq::jni {

JNI_METHOD(jlong, selectorCreate)(JNIEnv* env, jclass) { return output_of(env, lwmq_selector_create); }

JNI_METHOD(void, selectorAdd)(JNIEnv* env, jclass, jlong selector, jlong channel) {
  call(env, lwmq_selector_add, selector, channel);
}

JNI_METHOD(void, selectorRemove)(JNIEnv* env, jclass, jlong selector, jlong channel) {
  call(env, lwmq_selector_remove, selector, channel);
}

JNI_METHOD(void, selectorAddListener)(JNIEnv* env, jclass, jlong selector, jlong listener) {
  call(env, lwmq_selector_add_listener, selector, listener);
}

JNI_METHOD(void, selectorRemoveListener)(JNIEnv* env, jclass, jlong selector, jlong listener) {
  call(env, lwmq_selector_remove_listener, selector, listener);
}

JNI_METHOD(jlong, selectorWait)(JNIEnv* env, jclass, jlong selector, jint timeout_ms) {
  return output_of(env, lwmq_selector_wait, selector, timeout_ms);
}

JNI_METHOD(jint, selectorDescriptor)(JNIEnv* env, jclass, jlong selector) {
  return static_cast<jint>(output_of(env, lwmq_selector_descriptor, selector));
}

JNI_METHOD(jlong, selectorTake)(JNIEnv* env, jclass, jlong selector) {
  return received_now(env, lwmq_selector_take, selector);
}

JNI_METHOD(jlong, selectorReceive)
(JNIEnv* env, jclass, jlong selector, jint timeout_ms, jlongArray out_channel) {
  lwmq_channel* channel = nullptr;
  lwmq_message* message = nullptr;
  const lwmq_status status = lwmq_selector_receive(
      handle<lwmq_selector>(selector), static_cast<std::uint32_t>(timeout_ms), &channel, &message);
  show_longs(env, out_channel, address_of(channel));  // also where its receive has failed
  return check(env, status) ? address_of(message) : 0;
}

JNI_METHOD(void, selectorDestroy)(JNIEnv*, jclass, jlong selector) {
  lwmq_selector_destroy(handle<lwmq_selector>(selector));
}

}  // namespace lwmq::jni
