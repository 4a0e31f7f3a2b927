// Of org.lwmq.core.Jni: frames of the application's memory, and who is told when no message shows them.
#include "crossing.h"

#include <atomic>

namespace lwmq::jni {

// The library tells a release on any thread, which the JVM need not know and which must not wait for it. So
// it is noted here, and a thread of Java's takes it.
struct ExternalFrame {
  jobject owner = nullptr;  // a global reference
  ExternalFrame* next = nullptr;
};

static std::atomic<ExternalFrame*> g_released{nullptr};  // a stack: anybody pushes, one thread takes all
static ExternalFrame* g_taken = nullptr;                 // that thread's, the earliest first

static void frame_event(void* context, std::int32_t event) {
  if (event != LWMQ_FRAME_RELEASE) return;
  auto* frame = static_cast<ExternalFrame*>(context);
  frame->next = g_released.load(std::memory_order_relaxed);
  while (!g_released.compare_exchange_weak(frame->next, frame, std::memory_order_release,
                                           std::memory_order_relaxed)) {
  }
  g_released.notify_one();
}

JNI_METHOD(void, messageAppendExternal)
(JNIEnv* env, jclass, jlong message, jobject memory, jobject owner) {
  std::unique_ptr<ExternalFrame> frame(new (std::nothrow) ExternalFrame);
  if (!check_memory(env, frame != nullptr)) return;
  frame->owner = env->NewGlobalRef(owner);
  if (!check_memory(env, frame->owner != nullptr)) return;
  const lwmq_bytes all = direct(env, memory);
  const lwmq_status status = lwmq_message_append_external(handle<lwmq_message>(message), all.data, all.bytes,
                                                          frame_event, frame.get());
  if (status == LWMQ_OK) {
    frame.release();  // NOLINT(bugprone-unused-return-value): the library has it, until frame_event
  } else {
    check(env, status);
    env->DeleteGlobalRef(frame->owner);
  }
}

JNI_METHOD(jobject, takeReleased)(JNIEnv* env, jclass) {
  if (g_taken == nullptr) {
    g_released.wait(nullptr, std::memory_order_acquire);
    ExternalFrame* latest = g_released.exchange(nullptr, std::memory_order_acquire);
    while (latest != nullptr) {
      ExternalFrame* const earlier = latest->next;
      latest->next = g_taken;
      g_taken = latest;
      latest = earlier;
    }
  }
  const std::unique_ptr<ExternalFrame> frame(g_taken);
  g_taken = frame->next;
  jobject owner = env->NewLocalRef(frame->owner);
  env->DeleteGlobalRef(frame->owner);
  return owner;
}

}  // namespace lwmq::jni
