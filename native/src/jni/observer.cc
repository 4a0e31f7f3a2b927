// Of org.lwmq.core.Jni: what the processes of this machine do.
#include "crossing.h"

#include <cstddef>
#include <iterator>

namespace lwmq::jni {

JNI_METHOD(jlong, observerCreate)(JNIEnv* env, jclass) { return output_of(env, lwmq_observer_create); }

JNI_METHOD(jlong, observerLook)(JNIEnv* env, jclass, jlong observer) {
  return output_of(env, lwmq_observer_look, observer);
}

JNI_METHOD(jlongArray, observerProcess)
(JNIEnv* env, jclass, jlong observer, jlong process, jobjectArray texts) {
  auto view = sized<lwmq_process_view>();
  if (!call(env, lwmq_observer_process, observer, process, &view)) return nullptr;
  show_text(env, view.library, texts, 0);
#define LWMQ_AND_COUNTER(name, ...) , view.name
  return longs_of(env, view.pid, view.uid, view.page_version, view.known, view.entry_count,
                  view.unlisted LWMQ_PROCESS_COUNTERS(LWMQ_AND_COUNTER));
}

// From waiting_ns on, all fields are numbers of eight bytes. They cross in their order.
static constexpr std::size_t kFiguresAt = offsetof(lwmq_entry_view, waiting_ns);
static constexpr std::size_t kFigures = (sizeof(lwmq_entry_view) - kFiguresAt) / sizeof(jlong);
static_assert(kFiguresAt % sizeof(jlong) == 0 && sizeof(lwmq_entry_view) % sizeof(jlong) == 0);

JNI_METHOD(jlongArray, observerEntry)
(JNIEnv* env, jclass, jlong observer, jlong process, jlong entry, jobjectArray texts) {
  auto view = sized<lwmq_entry_view>();
  if (!call(env, lwmq_observer_entry, observer, process, entry, &view)) return nullptr;
  show_text(env, view.address, texts, 0);
  show_text(env, view.name, texts, 1);
  jlong numbers[3 + kFigures] = {static_cast<jlong>(view.kind), static_cast<jlong>(view.flags),
                                 static_cast<jlong>(view.opened_ns)};
  std::memcpy(numbers + 3, reinterpret_cast<const char*>(&view) + kFiguresAt, kFigures * sizeof(jlong));
  return new_longs(env, numbers, std::size(numbers));
}

JNI_METHOD(jbyteArray, counterName)(JNIEnv* env, jclass, jint index, jboolean of_process) {
  auto counter = sized<lwmq_counter>();
  for (std::uint32_t i = 0; lwmq_counter_at(i, &counter) == LWMQ_OK; ++i) {
    if (((counter.owners & 1) != 0) == (of_process != JNI_FALSE) && index-- == 0)
      return new_bytes(env, counter.name, std::strlen(counter.name));
  }
  return nullptr;
}

JNI_METHOD(void, observerDestroy)(JNIEnv*, jclass, jlong observer) {
  lwmq_observer_destroy(handle<lwmq_observer>(observer));
}

}  // namespace lwmq::jni
