// What the native halves of org.lwmq.core.Jni share: one function per method, in the file of its part
// (process, streams, channels, messages, frames, selectors, modules, observer).
//
// Mostly each is one call of lwmq.h. Status and text cross together: a call that fails throws
// LwmqException(status, text) before it returns, so that no other call on the thread can replace the text.
// Answers that a caller expects are results instead: readerNext returns its status, calls that never wait
// return 0 for nothing there (channelTryReceive, selectorTake), and so on; Jni.java has it at each. Arrays
// are copied in and out; nothing of the Java heap is held while a call waits, so a collection never waits for
// a peer. Text comes as UTF-8 with its NUL.
#pragma once

#include <jni.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>

#include "lwmq/lwmq.h"

#define JNI_METHOD(type, name) extern "C" JNIEXPORT type JNICALL Java_org_lwmq_core_Jni_##name

namespace lwmq::jni {

// A copy of a Java byte array, or nothing for null. Allocation is nothrow: ok() says whether it worked.
class Bytes {
 public:
  Bytes(JNIEnv* env, jbyteArray array) {
    if (array == nullptr) return;
    size_ = static_cast<std::size_t>(env->GetArrayLength(array));
    data_.reset(new (std::nothrow) jbyte[size_ + 1]);
    if (!data_) {
      ok_ = false;
      return;
    }
    env->GetByteArrayRegion(array, 0, static_cast<jsize>(size_), data_.get());
    data_[size_] = 0;
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] const char* text() const { return reinterpret_cast<const char*>(data_.get()); }
  [[nodiscard]] const std::uint8_t* data() const {
    return reinterpret_cast<const std::uint8_t*>(data_.get());
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::unique_ptr<jbyte[]> data_;
  std::size_t size_ = 0;
  bool ok_ = true;
};

// The same for longs.
class Longs {
 public:
  Longs(JNIEnv* env, jlongArray array) {
    if (array == nullptr) return;
    size_ = static_cast<std::size_t>(env->GetArrayLength(array));
    data_.reset(new (std::nothrow) jlong[size_ + 1]);
    if (!data_) {
      ok_ = false;
      return;
    }
    env->GetLongArrayRegion(array, 0, static_cast<jsize>(size_), data_.get());
  }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  jlong operator[](std::size_t i) const { return data_[i]; }

 private:
  std::unique_ptr<jlong[]> data_;
  std::size_t size_ = 0;
  bool ok_ = true;
};

inline jbyteArray new_bytes(JNIEnv* env, const void* data, std::uint64_t size) {
  if (size > INT32_MAX) size = INT32_MAX;
  jbyteArray array = env->NewByteArray(static_cast<jsize>(size));
  if (array != nullptr) {
    env->SetByteArrayRegion(array, 0, static_cast<jsize>(size), static_cast<const jbyte*>(data));
  }
  return array;
}

// A text of a struct, which may fill its place to the last byte.
template <std::size_t N>
void show_text(JNIEnv* env, const char (&text)[N], jobjectArray texts, jsize place) {
  env->SetObjectArrayElement(texts, place, new_bytes(env, text, strnlen(text, N)));
}

inline jlongArray new_longs(JNIEnv* env, const jlong* data, std::size_t count) {
  jlongArray array = env->NewLongArray(static_cast<jsize>(count));
  if (array != nullptr) env->SetLongArrayRegion(array, 0, static_cast<jsize>(count), data);
  return array;
}

// Throws LwmqException(status, text). Where the exception itself cannot be made, the JVM's own is pending
// instead.
inline void throw_text(JNIEnv* env, std::int32_t status, const char* text) {
  jclass type = env->FindClass("org/lwmq/core/LwmqException");
  if (type == nullptr) return;
  jmethodID make = env->GetMethodID(type, "<init>", "(I[B)V");
  if (make == nullptr) return;
  jbyteArray bytes = new_bytes(env, text, std::strlen(text));
  if (bytes == nullptr) return;
  auto exception = static_cast<jthrowable>(env->NewObject(type, make, static_cast<jint>(status), bytes));
  if (exception != nullptr) env->Throw(exception);
}

// True when `status` is OK; otherwise an exception is pending. An answer may have no text: what was waited
// for, and how long, is for Java to say (Deadline).
inline bool check(JNIEnv* env, lwmq_status status) {
  if (status == LWMQ_OK) return true;
  const bool is_answer = status < LWMQ_E_INVALID;
  const char* text = lwmq_last_error();
  throw_text(env, status, *text != '\0' || is_answer ? text : lwmq_status_name(status));
  return false;
}

inline bool check_memory(JNIEnv* env, bool ok) {
  if (!ok) throw_text(env, LWMQ_E_NO_MEMORY, "no memory for the arguments of a native call");
  return ok;
}

inline jobject view_of(JNIEnv* env, void* data, std::uint64_t bytes) {
  if (bytes <= INT32_MAX) return env->NewDirectByteBuffer(data, static_cast<jlong>(bytes));
  char text[120];
  std::snprintf(text, sizeof text, "%" PRIu64 " bytes: a buffer of Java shows 2147483647 at most", bytes);
  throw_text(env, LWMQ_E_TOO_BIG, text);
  return nullptr;
}

// All of a direct buffer.
inline lwmq_bytes direct(JNIEnv* env, jobject buffer) {
  return {env->GetDirectBufferAddress(buffer),
          static_cast<std::uint64_t>(env->GetDirectBufferCapacity(buffer))};
}

template <typename T>
T* handle(jlong address) {
  return reinterpret_cast<T*>(address);  // NOLINT(performance-no-int-to-ptr): that is what a Java handle is
}

template <typename T>
jlong address_of(const T* pointer) {
  return reinterpret_cast<jlong>(pointer);
}

template <typename T>
T sized() {
  T value{};
  value.size = sizeof(T);
  return value;
}

// What a call that does not wait has received; 0: nothing is there.
inline jlong received_now(JNIEnv* env, lwmq_status status, const lwmq_message* message) {
  return status != LWMQ_E_EMPTY && check(env, status) ? address_of(message) : 0;
}

// A block crosses as {data, bytes, token, token}.
inline constexpr jsize kBlockLongs = 4;

inline lwmq_block block_of(JNIEnv* env, jlongArray array) {
  jlong fields[kBlockLongs] = {};
  env->GetLongArrayRegion(array, 0, kBlockLongs, fields);
  lwmq_block block{};
  block.data = handle<std::uint8_t>(fields[0]);
  block.bytes = static_cast<std::uint64_t>(fields[1]);
  block.token[0] = static_cast<std::uint64_t>(fields[2]);
  block.token[1] = static_cast<std::uint64_t>(fields[3]);
  return block;
}

// A transport buffer crosses as {data, bytes, token[4]}.
inline constexpr jsize kBufferLongs = 6;

inline lwmq_buffer buffer_of(JNIEnv* env, jlongArray array) {
  jlong fields[kBufferLongs] = {};
  env->GetLongArrayRegion(array, 0, kBufferLongs, fields);
  lwmq_buffer buffer{};
  buffer.data = handle<void>(fields[0]);
  buffer.bytes = static_cast<std::uint64_t>(fields[1]);
  std::memcpy(buffer.token, fields + 2, sizeof buffer.token);
  return buffer;
}

inline void show_buffer(JNIEnv* env, const lwmq_buffer& buffer, jlongArray array) {
  jlong fields[kBufferLongs] = {reinterpret_cast<jlong>(buffer.data), static_cast<jlong>(buffer.bytes)};
  std::memcpy(fields + 2, buffer.token, sizeof buffer.token);
  env->SetLongArrayRegion(array, 0, kBufferLongs, fields);
}

}  // namespace lwmq::jni
