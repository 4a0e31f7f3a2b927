// Of org.lwmq.core.Jni: what the processes of this machine do.
#include "crossing.h"

#include <cstddef>
#include <iterator>

#define LWMQ_LISTED_COUNTER(name, ...) view.name,

namespace lwmq::jni {

JNI_METHOD(jlong, observerCreate)(JNIEnv* env, jclass) {
  lwmq_observer* observer = nullptr;
  return check(env, lwmq_observer_create(&observer)) ? address_of(observer) : 0;
}

JNI_METHOD(jlong, observerLook)(JNIEnv* env, jclass, jlong observer) {
  std::uint64_t processes = 0;
  check(env, lwmq_observer_look(handle<lwmq_observer>(observer), &processes));
  return static_cast<jlong>(processes);
}

JNI_METHOD(jlongArray, observerProcess)
(JNIEnv* env, jclass, jlong observer, jlong process, jobjectArray texts) {
  auto view = sized<lwmq_process_view>();
  if (!check(env, lwmq_observer_process(handle<const lwmq_observer>(observer),
                                        static_cast<std::uint64_t>(process), &view))) {
    return nullptr;
  }
  show_text(env, view.library, texts, 0);
  const std::uint64_t numbers[] = {view.pid,
                                   view.uid,
                                   view.page_version,
                                   view.known,
                                   view.entry_count,
                                   view.unlisted,
                                   LWMQ_PROCESS_COUNTERS(LWMQ_LISTED_COUNTER)};
  return new_longs(env, reinterpret_cast<const jlong*>(numbers), std::size(numbers));
}

// From waiting_ns on, all fields are numbers of eight bytes. They cross in their order.
static constexpr std::size_t kFiguresAt = offsetof(lwmq_entry_view, waiting_ns);
static constexpr std::size_t kFigures = (sizeof(lwmq_entry_view) - kFiguresAt) / sizeof(jlong);
static_assert(kFiguresAt % sizeof(jlong) == 0 && sizeof(lwmq_entry_view) % sizeof(jlong) == 0);

JNI_METHOD(jlongArray, observerEntry)
(JNIEnv* env, jclass, jlong observer, jlong process, jlong entry, jobjectArray texts) {
  auto view = sized<lwmq_entry_view>();
  if (!check(env,
             lwmq_observer_entry(handle<const lwmq_observer>(observer), static_cast<std::uint64_t>(process),
                                 static_cast<std::uint64_t>(entry), &view))) {
    return nullptr;
  }
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
