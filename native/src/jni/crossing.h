// What the native methods of org.lwmq.core.Jni share. Each method is one function, in the file of its part:
// process, streams, channels, messages, frames, requests, selectors, modules, observer.
//
// Most methods are one call of lwmq.h. Status and text cross together: a call that fails throws
// LwmqException(status, text) before it returns, so that no other call on the thread can replace the text.
// Answers that the caller expects are results instead, such as 0 for "nothing is there" of a call that never
// waits; Jni.java says so at each method. Arrays are copied in and out. No call holds anything of the Java
// heap while it waits, so the garbage collector never waits for a peer. Texts come as UTF-8 that ends with
// NUL.
#pragma once

#include <jni.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <tuple>
#include <type_traits>

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

inline void show_bytes(JNIEnv* env, const void* data, std::uint64_t size, jobjectArray out, jsize place) {
  env->SetObjectArrayElement(out, place, new_bytes(env, data, size));
}

// A text of a struct, which may fill its place to the last byte.
template <std::size_t N>
void show_text(JNIEnv* env, const char (&text)[N], jobjectArray texts, jsize place) {
  show_bytes(env, text, strnlen(text, N), texts, place);
}

inline jlongArray new_longs(JNIEnv* env, const jlong* data, std::size_t count) {
  jlongArray array = env->NewLongArray(static_cast<jsize>(count));
  if (array != nullptr) env->SetLongArrayRegion(array, 0, static_cast<jsize>(count), data);
  return array;
}

// An array of these numbers, of any types.
template <typename... T>
jlongArray longs_of(JNIEnv* env, T... numbers) {
  const jlong all[] = {static_cast<jlong>(numbers)...};
  return new_longs(env, all, sizeof...(numbers));
}

// The same into the first places of an array that Java has made.
template <typename... T>
void show_longs(JNIEnv* env, jlongArray out, T... numbers) {
  const jlong all[] = {static_cast<jlong>(numbers)...};
  env->SetLongArrayRegion(out, 0, sizeof...(numbers), all);
}

// Throws LwmqException(status, text). If that cannot be made, an exception of the JVM is pending instead.
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

// True when `status` is OK; otherwise an exception is pending. An answer such as TIMED_OUT may have no text:
// Java knows how long it has waited for what (Deadline).
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

inline const char* direct(JNIEnv* env, jobject buffer, jint position) {
  return static_cast<const char*>(env->GetDirectBufferAddress(buffer)) + position;
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

// ---- Calls of lwmq.h ------------------------------------------------------------------------------

// An argument as lwmq.h takes it, out of what came from Java: a handle, a number, or a copy of an array. What
// is a pointer already, such as that of an output, passes as it is.
template <typename C, typename J>
C argument(const J& given) {
  if constexpr (std::is_same_v<J, Bytes>) {
    if constexpr (std::is_same_v<C, const char*>) {
      return given.text();
    } else {
      return given.data();
    }
  } else if constexpr (std::is_pointer_v<C> && std::is_integral_v<J>) {
    return handle<std::remove_pointer_t<C>>(given);
  } else {
    return static_cast<C>(given);
  }
}

template <typename J>
bool has_memory(const J& given) {
  if constexpr (std::is_same_v<J, Bytes>) return given.ok();
  return true;
}

// Calls `function`. False: an exception is pending.
template <typename... C, typename... J>
bool call(JNIEnv* env, lwmq_status (*function)(C...), const J&... given) {
  return check_memory(env, (has_memory(given) && ...)) && check(env, function(argument<C>(given)...));
}

// Calls `function` with a last argument for its output, a handle or a number, and answers that. 0 where it
// throws, and where the status is `none`, which is no failure here.
template <typename... C, typename... J>
jlong output_unless(JNIEnv* env, std::int32_t none, lwmq_status (*function)(C...), const J&... given) {
  std::remove_pointer_t<std::tuple_element_t<sizeof...(C) - 1, std::tuple<C...>>> output{};
  const auto with_output = [function](const auto&... all) { return function(argument<C>(all)...); };
  if (!check_memory(env, (has_memory(given) && ...))) return 0;
  const lwmq_status status = with_output(given..., &output);
  if (status == none || !check(env, status)) return 0;
  if constexpr (std::is_pointer_v<decltype(output)>) {
    return address_of(output);
  } else {
    return static_cast<jlong>(output);
  }
}

template <typename... C, typename... J>
jlong output_of(JNIEnv* env, lwmq_status (*function)(C...), const J&... given) {
  return output_unless(env, -1, function, given...);
}

// What a call that does not wait has received; 0: nothing is there.
template <typename... C, typename... J>
jlong received_now(JNIEnv* env, lwmq_status (*function)(C...), const J&... given) {
  return output_unless(env, LWMQ_E_EMPTY, function, given...);
}

// A block and a transport buffer cross as the 8-byte words that they consist of.
template <typename T>
T words_of(JNIEnv* env, jlongArray array) {
  static_assert(sizeof(T) % sizeof(jlong) == 0);
  T value{};
  env->GetLongArrayRegion(array, 0, sizeof(T) / sizeof(jlong), reinterpret_cast<jlong*>(&value));
  return value;
}

template <typename T>
void show_words(JNIEnv* env, const T& value, jlongArray array) {
  env->SetLongArrayRegion(array, 0, sizeof(T) / sizeof(jlong), reinterpret_cast<const jlong*>(&value));
}

}  // namespace lwmq::jni
