// The native half of org.lwmq.core.Jni: one function per method, each one call of lwmq.h.
//
// Status and text cross together: a call that fails throws LwmqException(status, text) before it returns, so
// that no other call on the thread can replace the text. Only readerNext returns a status, because there
// waiting in vain and the end are answers. Arrays are copied in and out; nothing of the Java heap is held
// while a call waits, so a collection never waits for a peer. Text comes as UTF-8 with its NUL.
#include <jni.h>

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>

#include "lwmq/lwmq.h"

namespace {

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

jbyteArray new_bytes(JNIEnv* env, const void* data, std::uint64_t size) {
  if (size > INT32_MAX) size = INT32_MAX;
  jbyteArray array = env->NewByteArray(static_cast<jsize>(size));
  if (array != nullptr) {
    env->SetByteArrayRegion(array, 0, static_cast<jsize>(size), static_cast<const jbyte*>(data));
  }
  return array;
}

jlongArray new_longs(JNIEnv* env, const jlong* data, std::size_t count) {
  jlongArray array = env->NewLongArray(static_cast<jsize>(count));
  if (array != nullptr) env->SetLongArrayRegion(array, 0, static_cast<jsize>(count), data);
  return array;
}

// Throws LwmqException(status, text). Where the exception itself cannot be made, the JVM's own is pending
// instead.
void throw_text(JNIEnv* env, std::int32_t status, const char* text) {
  jclass type = env->FindClass("org/lwmq/core/LwmqException");
  if (type == nullptr) return;
  jmethodID make = env->GetMethodID(type, "<init>", "(I[B)V");
  if (make == nullptr) return;
  jbyteArray bytes = new_bytes(env, text, std::strlen(text));
  if (bytes == nullptr) return;
  auto exception = static_cast<jthrowable>(env->NewObject(type, make, static_cast<jint>(status), bytes));
  if (exception != nullptr) env->Throw(exception);
}

// True when `status` is OK; otherwise an exception is pending.
bool check(JNIEnv* env, lwmq_status status) {
  if (status == LWMQ_OK) return true;
  const char* text = lwmq_last_error();
  throw_text(env, status, *text != '\0' ? text : lwmq_status_name(status));
  return false;
}

bool check_memory(JNIEnv* env, bool ok) {
  if (!ok) throw_text(env, LWMQ_E_NO_MEMORY, "no memory for the arguments of a native call");
  return ok;
}

jobject view_of(JNIEnv* env, void* data, std::uint64_t bytes) {
  if (bytes <= INT32_MAX) return env->NewDirectByteBuffer(data, static_cast<jlong>(bytes));
  char text[120];
  std::snprintf(text, sizeof text, "%" PRIu64 " bytes: a buffer of Java shows 2147483647 at most", bytes);
  throw_text(env, LWMQ_E_TOO_BIG, text);
  return nullptr;
}

const char* direct(JNIEnv* env, jobject buffer, jint position) {
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

// A block crosses as {data, bytes, token, token}.
constexpr jsize kBlockLongs = 4;

lwmq_block block_of(JNIEnv* env, jlongArray array) {
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
constexpr jsize kBufferLongs = 6;

lwmq_buffer buffer_of(JNIEnv* env, jlongArray array) {
  jlong fields[kBufferLongs] = {};
  env->GetLongArrayRegion(array, 0, kBufferLongs, fields);
  lwmq_buffer buffer{};
  buffer.data = handle<void>(fields[0]);
  buffer.bytes = static_cast<std::uint64_t>(fields[1]);
  std::memcpy(buffer.token, fields + 2, sizeof buffer.token);
  return buffer;
}

void show_buffer(JNIEnv* env, const lwmq_buffer& buffer, jlongArray array) {
  jlong fields[kBufferLongs] = {reinterpret_cast<jlong>(buffer.data), static_cast<jlong>(buffer.bytes)};
  std::memcpy(fields + 2, buffer.token, sizeof buffer.token);
  env->SetLongArrayRegion(array, 0, kBufferLongs, fields);
}

}  // namespace

#define JNI_METHOD(type, name) extern "C" JNIEXPORT type JNICALL Java_org_lwmq_core_Jni_##name

JNI_METHOD(jstring, version)(JNIEnv* env, jclass) { return env->NewStringUTF(lwmq_version()); }

JNI_METHOD(jint, protocolVersion)(JNIEnv*, jclass) { return static_cast<jint>(lwmq_protocol_version()); }

JNI_METHOD(jlongArray, identify)(JNIEnv* env, jclass, jobjectArray texts) {
  auto identity = sized<lwmq_identity>();
  if (!check(env, lwmq_identify(&identity))) return nullptr;
  env->SetObjectArrayElement(texts, 0, new_bytes(env, identity.host, std::strlen(identity.host)));
  env->SetObjectArrayElement(texts, 1, new_bytes(env, identity.boot_id, std::strlen(identity.boot_id)));
  env->SetObjectArrayElement(texts, 2, new_bytes(env, identity.instance, sizeof identity.instance));
  const jlong numbers[] = {static_cast<jlong>(identity.netns), identity.pid, identity.uid};
  return new_longs(env, numbers, std::size(numbers));
}

JNI_METHOD(void, setWindowMemory)(JNIEnv* env, jclass, jlong bytes_max) {
  check(env, lwmq_set_window_memory(static_cast<std::uint64_t>(bytes_max)));
}

JNI_METHOD(jlongArray, queryLimits)(JNIEnv* env, jclass, jbyteArray address) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return nullptr;
  auto limits = sized<lwmq_limits>();
  if (!check(env, lwmq_query_limits(uri.text(), &limits))) return nullptr;
  const jlong longs[] = {static_cast<jlong>(limits.buffer_bytes_max), static_cast<jlong>(limits.buffers_max),
                         static_cast<jlong>(limits.inline_bytes_max), limits.frames_max, limits.capabilities};
  return new_longs(env, longs, std::size(longs));
}

JNI_METHOD(void, setServiceAffinity)(JNIEnv* env, jclass, jintArray processors) {
  const jsize count = env->GetArrayLength(processors);
  const std::unique_ptr<jint[]> given(new (std::nothrow) jint[static_cast<std::size_t>(count)]);
  if (!check_memory(env, given != nullptr)) return;
  env->GetIntArrayRegion(processors, 0, count, given.get());
  // A negative number is one that is too large.
  check(env, lwmq_set_service_affinity(reinterpret_cast<const std::uint32_t*>(given.get()),
                                       static_cast<std::uint32_t>(count)));
}

JNI_METHOD(jlongArray, statistics)(JNIEnv* env, jclass) {
  auto s = sized<lwmq_statistics>();
  if (!check(env, lwmq_query_statistics(&s))) return nullptr;
  const std::uint64_t numbers[] = {s.window_bytes, s.mapped_bytes,   s.batches_written,
                                   s.batches_read, s.bytes_written,  s.bytes_read,
                                   s.bytes_copied, s.batches_copied, s.peers_lost};
  return new_longs(env, reinterpret_cast<const jlong*>(numbers), std::size(numbers));
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

// ---- stream ------------------------------------------------------------------------------------

JNI_METHOD(jlongArray, streamDescribe)
(JNIEnv* env, jclass, jbyteArray address, jboolean wait_declared, jint timeout_ms, jobjectArray bytes) {
  const Bytes name(env, address);
  if (!check_memory(env, name.ok())) return nullptr;
  lwmq_stream_state* state = nullptr;
  if (!check(env, lwmq_stream_describe(name.text(), wait_declared != 0,
                                       static_cast<std::uint32_t>(timeout_ms), &state))) {
    return nullptr;
  }
  constexpr std::size_t kHead = 8;
  constexpr std::size_t kEach = 5;
  const std::size_t count = kHead + kEach * state->partition_count;
  std::unique_ptr<jlong[]> numbers(new (std::nothrow) jlong[count]);
  jlongArray result = nullptr;
  if (check_memory(env, numbers != nullptr)) {
    const lwmq_identity& endpoint = state->endpoint;
    const jlong head[kHead] = {state->state,          state->retain,       state->readers,
                               state->producers_open, state->readers_open, static_cast<jlong>(endpoint.netns),
                               endpoint.pid,          endpoint.uid};
    std::memcpy(numbers.get(), head, sizeof head);
    for (std::uint32_t i = 0; i < state->partition_count; i++) {
      const lwmq_partition_state& p = state->partitions[i];
      jlong* at = numbers.get() + kHead + kEach * i;
      at[0] = static_cast<jlong>(p.first_seq);
      at[1] = static_cast<jlong>(p.unacked_seq);
      at[2] = static_cast<jlong>(p.next_seq);
      at[3] = static_cast<jlong>(p.rows);
      at[4] = static_cast<jlong>(p.bytes);
    }
    env->SetObjectArrayElement(bytes, 0, new_bytes(env, state->generation, sizeof state->generation));
    if (state->schema != nullptr) {
      env->SetObjectArrayElement(bytes, 1, new_bytes(env, state->schema, state->schema_bytes));
    }
    env->SetObjectArrayElement(bytes, 2, new_bytes(env, endpoint.host, std::strlen(endpoint.host)));
    env->SetObjectArrayElement(bytes, 3, new_bytes(env, endpoint.boot_id, std::strlen(endpoint.boot_id)));
    env->SetObjectArrayElement(bytes, 4, new_bytes(env, endpoint.instance, sizeof endpoint.instance));
    result = new_longs(env, numbers.get(), count);
  }
  lwmq_stream_state_destroy(state);
  return result;
}

JNI_METHOD(void, streamSettle)
(JNIEnv* env, jclass, jbyteArray address, jbyteArray name, jboolean acknowledge, jint timeout_ms) {
  const Bytes uri(env, address);
  const Bytes reader(env, name);
  if (!check_memory(env, uri.ok() && reader.ok())) return;
  check(env, lwmq_stream_settle(uri.text(), reader.text(), acknowledge != 0,
                                static_cast<std::uint32_t>(timeout_ms)));
}

JNI_METHOD(jlong, endpointOpen)(JNIEnv* env, jclass, jbyteArray address) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return 0;
  lwmq_endpoint* endpoint = nullptr;
  if (!check(env, lwmq_endpoint_open(uri.text(), &endpoint))) return 0;
  return address_of(endpoint);
}

JNI_METHOD(void, endpointClose)(JNIEnv* env, jclass, jlong endpoint, jint linger_ms) {
  check(env, lwmq_endpoint_close(handle<lwmq_endpoint>(endpoint), static_cast<std::uint32_t>(linger_ms)));
}

// ---- writer ------------------------------------------------------------------------------------

JNI_METHOD(jlong, writerOpen)
(JNIEnv* env, jclass, jbyteArray address, jbyteArray schema, jint role, jint partitions, jint retain,
 jint readers, jint delivery, jint timeout_ms, jlong buffer_bytes, jlong window_bytes, jlong staging_bytes,
 jbyteArray job, jint task, jint job_tasks, jlong attempt, jlong epoch, jint stall_ms, jint expel_after_ms) {
  const Bytes uri(env, address);
  const Bytes arrow(env, schema);
  const Bytes job_name(env, job);
  if (!check_memory(env, uri.ok() && arrow.ok() && job_name.ok())) return 0;
  auto options = sized<lwmq_writer_options>();
  options.role = role;
  options.partitions = static_cast<std::uint32_t>(partitions);
  options.retain = static_cast<std::uint32_t>(retain);
  options.readers = static_cast<std::uint32_t>(readers);
  options.delivery = static_cast<std::uint32_t>(delivery);
  options.timeout_ms = static_cast<std::uint32_t>(timeout_ms);
  options.buffer_bytes = static_cast<std::uint64_t>(buffer_bytes);
  options.window_bytes = static_cast<std::uint64_t>(window_bytes);
  options.staging_bytes = static_cast<std::uint64_t>(staging_bytes);
  options.job = job_name.text();
  options.task = static_cast<std::uint32_t>(task);
  options.job_tasks = static_cast<std::uint32_t>(job_tasks);
  options.attempt = static_cast<std::uint64_t>(attempt);
  options.epoch = static_cast<std::uint64_t>(epoch);
  options.stall_ms = static_cast<std::uint32_t>(stall_ms);
  options.expel_after_ms = static_cast<std::uint32_t>(expel_after_ms);
  lwmq_writer* writer = nullptr;
  if (!check(env, lwmq_writer_open(uri.text(), arrow.data(), arrow.size(), &options, &writer))) return 0;
  return address_of(writer);
}

JNI_METHOD(jbyteArray, writerSchema)(JNIEnv* env, jclass, jlong writer, jintArray out_partitions) {
  const void* schema = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t partitions = 0;
  if (!check(env, lwmq_writer_schema(handle<lwmq_writer>(writer), &schema, &bytes, &partitions)))
    return nullptr;
  const jint count = static_cast<jint>(partitions);
  env->SetIntArrayRegion(out_partitions, 0, 1, &count);
  return new_bytes(env, schema, bytes);
}

JNI_METHOD(void, writerAllocate)
(JNIEnv* env, jclass, jlong writer, jlong bytes, jint timeout_ms, jlongArray out_block) {
  lwmq_block block{};
  if (!check(env, lwmq_writer_allocate(handle<lwmq_writer>(writer), static_cast<std::uint64_t>(bytes),
                                       static_cast<std::uint32_t>(timeout_ms), &block))) {
    return;
  }
  const jlong fields[kBlockLongs] = {address_of(block.data), static_cast<jlong>(block.bytes),
                                     static_cast<jlong>(block.token[0]), static_cast<jlong>(block.token[1])};
  env->SetLongArrayRegion(out_block, 0, kBlockLongs, fields);
}

JNI_METHOD(void, writerPublish)
(JNIEnv* env, jclass, jlong writer, jlongArray block_fields, jint partition, jlong bytes, jlong rows,
 jint flags) {
  lwmq_block block = block_of(env, block_fields);
  check(env, lwmq_writer_publish(handle<lwmq_writer>(writer), &block, static_cast<std::uint32_t>(partition),
                                 static_cast<std::uint64_t>(bytes), static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint32_t>(flags)));
}

JNI_METHOD(void, writerDiscard)(JNIEnv* env, jclass, jlong writer, jlongArray block_fields) {
  lwmq_block block = block_of(env, block_fields);
  lwmq_writer_discard(handle<lwmq_writer>(writer), &block);
}

JNI_METHOD(jlongArray, writerCommit)(JNIEnv* env, jclass, jlong writer, jint timeout_ms) {
  auto r = sized<lwmq_commit_result>();
  if (!check(env,
             lwmq_writer_commit(handle<lwmq_writer>(writer), static_cast<std::uint32_t>(timeout_ms), &r))) {
    return nullptr;
  }
  const std::uint64_t numbers[] = {r.won,     r.partition, r.attempt, r.start_seq,
                                   r.end_seq, r.batches,   r.rows,    r.bytes};
  return new_longs(env, reinterpret_cast<const jlong*>(numbers), std::size(numbers));
}

JNI_METHOD(void, writerAbort)(JNIEnv* env, jclass, jlong writer, jbyteArray reason) {
  const Bytes text(env, reason);
  if (!check_memory(env, text.ok())) return;
  check(env, lwmq_writer_abort(handle<lwmq_writer>(writer), text.text()));
}

JNI_METHOD(void, writerClose)(JNIEnv* env, jclass, jlong writer, jint linger_ms) {
  check(env, lwmq_writer_close(handle<lwmq_writer>(writer), static_cast<std::uint32_t>(linger_ms)));
}

JNI_METHOD(void, writerDestroy)(JNIEnv*, jclass, jlong writer) {
  lwmq_writer_destroy(handle<lwmq_writer>(writer));
}

JNI_METHOD(jlongArray, writerQuery)(JNIEnv* env, jclass, jlong writer) {
  auto s = sized<lwmq_writer_statistics>();
  if (!check(env, lwmq_writer_query(handle<lwmq_writer>(writer), &s))) return nullptr;
  const std::uint64_t numbers[] = {s.batches, s.rows, s.bytes, s.wait_ns, s.window_bytes, s.unread_batches};
  return new_longs(env, reinterpret_cast<const jlong*>(numbers), std::size(numbers));
}

// ---- job ---------------------------------------------------------------------------------------

JNI_METHOD(jlong, jobOpen)
(JNIEnv* env, jclass, jbyteArray address, jbyteArray schema, jint role, jint partitions, jint retain,
 jint readers, jint delivery, jint timeout_ms, jbyteArray job, jlong epoch, jint stall_ms) {
  const Bytes uri(env, address);
  const Bytes arrow(env, schema);
  const Bytes job_name(env, job);
  if (!check_memory(env, uri.ok() && arrow.ok() && job_name.ok())) return 0;
  auto options = sized<lwmq_writer_options>();
  options.role = role;
  options.partitions = static_cast<std::uint32_t>(partitions);
  options.retain = static_cast<std::uint32_t>(retain);
  options.readers = static_cast<std::uint32_t>(readers);
  options.delivery = static_cast<std::uint32_t>(delivery);
  options.timeout_ms = static_cast<std::uint32_t>(timeout_ms);
  options.job = job_name.text();
  options.epoch = static_cast<std::uint64_t>(epoch);
  options.stall_ms = static_cast<std::uint32_t>(stall_ms);
  lwmq_job* result = nullptr;
  if (!check(env, lwmq_job_open(uri.text(), arrow.data(), arrow.size(), &options, &result))) return 0;
  return address_of(result);
}

JNI_METHOD(jbyteArray, jobSchema)(JNIEnv* env, jclass, jlong job, jintArray out_partitions) {
  const void* schema = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t partitions = 0;
  if (!check(env, lwmq_job_schema(handle<lwmq_job>(job), &schema, &bytes, &partitions))) return nullptr;
  const jint count = static_cast<jint>(partitions);
  env->SetIntArrayRegion(out_partitions, 0, 1, &count);
  return new_bytes(env, schema, bytes);
}

JNI_METHOD(void, jobCommit)(JNIEnv* env, jclass, jlong job, jlong epoch, jlongArray tasks, jint timeout_ms) {
  constexpr std::size_t kEach = 4;
  const Longs flat(env, tasks);
  if (!check_memory(env, flat.ok())) return;
  const std::size_t count = flat.size() / kEach;
  std::unique_ptr<lwmq_task_commit[]> list(new (std::nothrow) lwmq_task_commit[count + 1]);
  if (!check_memory(env, list != nullptr)) return;
  for (std::size_t i = 0; i < count; i++) {
    list[i].task = static_cast<std::uint32_t>(flat[kEach * i]);
    list[i].partition = static_cast<std::uint32_t>(flat[kEach * i + 1]);
    list[i].attempt = static_cast<std::uint64_t>(flat[kEach * i + 2]);
    list[i].batches = static_cast<std::uint64_t>(flat[kEach * i + 3]);
  }
  check(env, lwmq_job_commit(handle<lwmq_job>(job), static_cast<std::uint64_t>(epoch), list.get(),
                             static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(timeout_ms)));
}

JNI_METHOD(void, jobAbort)(JNIEnv* env, jclass, jlong job, jbyteArray reason, jint timeout_ms) {
  const Bytes text(env, reason);
  if (!check_memory(env, text.ok())) return;
  check(env, lwmq_job_abort(handle<lwmq_job>(job), text.text(), static_cast<std::uint32_t>(timeout_ms)));
}

JNI_METHOD(void, jobClose)(JNIEnv* env, jclass, jlong job) {
  check(env, lwmq_job_close(handle<lwmq_job>(job)));
}

// ---- reader ------------------------------------------------------------------------------------

JNI_METHOD(jlong, readerOpen)
(JNIEnv* env, jclass, jbyteArray address, jint role, jint acknowledge, jboolean follow, jint writers,
 jint timeout_ms, jint credit, jbyteArray name, jbyteArray generation, jboolean keep_mapped,
 jlongArray ranges, jint stall_ms, jbyteArray task, jlong attempt) {
  constexpr std::size_t kEach = 3;
  const Bytes uri(env, address);
  const Bytes reader_name(env, name);
  const Bytes task_name(env, task);
  const Bytes of_generation(env, generation);
  const Longs flat(env, ranges);
  if (!check_memory(env, uri.ok() && reader_name.ok() && task_name.ok() && of_generation.ok() && flat.ok()))
    return 0;
  const std::size_t count = flat.size() / kEach;
  std::unique_ptr<lwmq_range[]> list(new (std::nothrow) lwmq_range[count + 1]);
  if (!check_memory(env, list != nullptr)) return 0;
  for (std::size_t i = 0; i < count; i++) {
    list[i].partition = static_cast<std::uint32_t>(flat[kEach * i]);
    list[i].reserved = 0;
    list[i].start = static_cast<std::uint64_t>(flat[kEach * i + 1]);
    list[i].end = static_cast<std::uint64_t>(flat[kEach * i + 2]);
  }
  auto options = sized<lwmq_reader_options>();
  options.role = role;
  options.acknowledge = static_cast<std::uint32_t>(acknowledge);
  options.follow = follow != 0;
  options.writers = static_cast<std::uint32_t>(writers);
  options.timeout_ms = static_cast<std::uint32_t>(timeout_ms);
  options.credit = static_cast<std::uint32_t>(credit);
  options.name = reader_name.text();
  options.generation = of_generation.data();
  options.ranges = ranges != nullptr ? list.get() : nullptr;
  options.range_count = static_cast<std::uint32_t>(count);
  options.keep_mapped = keep_mapped != 0;
  options.stall_ms = static_cast<std::uint32_t>(stall_ms);
  options.task = task_name.text();
  options.attempt = static_cast<std::uint64_t>(attempt);
  lwmq_reader* reader = nullptr;
  if (!check(env, lwmq_reader_open(uri.text(), &options, &reader))) return 0;
  return address_of(reader);
}

JNI_METHOD(jbyteArray, readerSchema)(JNIEnv* env, jclass, jlong reader, jint timeout_ms) {
  const void* schema = nullptr;
  std::uint64_t bytes = 0;
  if (!check(env, lwmq_reader_schema(handle<lwmq_reader>(reader), static_cast<std::uint32_t>(timeout_ms),
                                     &schema, &bytes))) {
    return nullptr;
  }
  return new_bytes(env, schema, bytes);
}

JNI_METHOD(jint, readerNext)(JNIEnv* env, jclass, jlong reader, jint timeout_ms, jlongArray out_batch) {
  lwmq_batch* batch = nullptr;
  const lwmq_status status =
      lwmq_reader_next(handle<lwmq_reader>(reader), static_cast<std::uint32_t>(timeout_ms), &batch);
  const bool is_answer = status == LWMQ_E_TIMED_OUT || status == LWMQ_E_EMPTY || status == LWMQ_E_END ||
                         status == LWMQ_E_INTERRUPTED;
  if (is_answer || !check(env, status)) return status;
  auto info = sized<lwmq_batch_info>();
  const lwmq_status queried = lwmq_batch_query(batch, &info);
  if (!check(env, queried)) {
    lwmq_batch_release(batch);
    return queried;
  }
  const jlong fields[] = {address_of(batch),
                          address_of(info.data),
                          static_cast<jlong>(info.bytes),
                          static_cast<jlong>(info.rows),
                          static_cast<jlong>(info.seq),
                          static_cast<jlong>(info.timestamp_ns),
                          info.partition,
                          info.flags,
                          info.copied,
                          info.writer_pid,
                          address_of(info.window_data),
                          static_cast<jlong>(info.window_bytes)};
  env->SetLongArrayRegion(out_batch, 0, std::size(fields), fields);
  return LWMQ_OK;
}

JNI_METHOD(void, readerConsume)(JNIEnv* env, jclass, jlong reader) {
  check(env, lwmq_reader_consume(handle<lwmq_reader>(reader)));
}

JNI_METHOD(void, batchRelease)(JNIEnv*, jclass, jlong batch) {
  lwmq_batch_release(handle<lwmq_batch>(batch));
}

JNI_METHOD(jlongArray, readerQuery)(JNIEnv* env, jclass, jlong reader) {
  auto s = sized<lwmq_reader_statistics>();
  if (!check(env, lwmq_reader_query(handle<lwmq_reader>(reader), &s))) return nullptr;
  const std::uint64_t numbers[] = {s.batches,        s.rows,    s.bytes,          s.bytes_copied,
                                   s.batches_copied, s.wait_ns, s.leased_batches, s.leased_bytes};
  return new_longs(env, reinterpret_cast<const jlong*>(numbers), std::size(numbers));
}

JNI_METHOD(void, readerClose)(JNIEnv* env, jclass, jlong reader, jint linger_ms) {
  check(env, lwmq_reader_close(handle<lwmq_reader>(reader), static_cast<std::uint32_t>(linger_ms)));
}

// ---- channel -----------------------------------------------------------------------------------

JNI_METHOD(jlong, channelCreate)
(JNIEnv* env, jclass, jbyteArray address, jlong buffer_bytes, jint buffers_send, jint buffers_receive,
 jint retry_ms, jboolean raw, jboolean secure_erase, jint receive_kind, jlong receive_capacity,
 jboolean home_thread) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return 0;
  auto options = sized<lwmq_channel_options>();
  options.buffer_bytes = static_cast<std::uint64_t>(buffer_bytes);
  options.buffers_send = static_cast<std::uint32_t>(buffers_send);
  options.buffers_receive = static_cast<std::uint32_t>(buffers_receive);
  options.retry_ms = static_cast<std::uint32_t>(retry_ms);
  options.raw = raw != 0;
  options.secure_erase = secure_erase != 0;
  options.receive_queue = static_cast<std::uint32_t>(receive_kind);
  options.receive_capacity = static_cast<std::uint64_t>(receive_capacity);
  options.home_thread = home_thread != 0;
  lwmq_channel* channel = nullptr;
  if (!check(env, lwmq_channel_create(uri.text(), &options, &channel))) return 0;
  return address_of(channel);
}

JNI_METHOD(void, channelAddTransport)
(JNIEnv* env, jclass, jlong channel, jbyteArray address, jint buffers_send, jint buffers_receive,
 jint retry_ms, jboolean redundant) {
  const Bytes uri(env, address);
  if (!check_memory(env, uri.ok())) return;
  auto options = sized<lwmq_transport_options>();
  options.buffers_send = static_cast<std::uint32_t>(buffers_send);
  options.buffers_receive = static_cast<std::uint32_t>(buffers_receive);
  options.retry_ms = static_cast<std::uint32_t>(retry_ms);
  options.redundant = redundant != 0;
  check(env, lwmq_channel_add_transport(handle<lwmq_channel>(channel), uri.text(), &options));
}

JNI_METHOD(void, channelOpen)(JNIEnv* env, jclass, jlong channel, jint role) {
  check(env, lwmq_channel_open(handle<lwmq_channel>(channel), role));
}

JNI_METHOD(jlong, channelAddSendQueue)
(JNIEnv* env, jclass, jlong channel, jint kind, jint priority, jlong capacity) {
  auto options = sized<lwmq_send_queue_options>();
  options.kind = static_cast<std::uint32_t>(kind);
  options.priority = static_cast<std::uint32_t>(priority);
  options.capacity = static_cast<std::uint64_t>(capacity);
  lwmq_send_queue* queue = nullptr;
  if (!check(env, lwmq_channel_add_send_queue(handle<lwmq_channel>(channel), &options, &queue))) return 0;
  return address_of(queue);
}

JNI_METHOD(void, channelWaitConnected)(JNIEnv* env, jclass, jlong channel, jint timeout_ms) {
  check(env,
        lwmq_channel_wait_connected(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms)));
}

JNI_METHOD(jlong, channelReceive)(JNIEnv* env, jclass, jlong channel, jint timeout_ms) {
  lwmq_message* message = nullptr;
  const lwmq_status status =
      lwmq_channel_receive(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms), &message);
  return check(env, status) ? address_of(message) : 0;
}

// What a call that does not wait has received; 0: nothing is there.
static jlong received_now(JNIEnv* env, lwmq_status status, lwmq_message* message) {
  return status != LWMQ_E_EMPTY && check(env, status) ? address_of(message) : 0;
}

JNI_METHOD(jlong, channelTryReceive)(JNIEnv* env, jclass, jlong channel) {
  lwmq_message* message = nullptr;
  const lwmq_status status = lwmq_channel_receive(handle<lwmq_channel>(channel), 0, &message);
  return received_now(env, status, message);
}

// Of one call. 0 or less is refused there.
static constexpr jint kReceivedAtOnce = 1024;
static std::uint32_t received_at_once(jint limit) {
  return static_cast<std::uint32_t>(limit < 0 ? 0 : limit < kReceivedAtOnce ? limit : kReceivedAtOnce);
}

JNI_METHOD(jlongArray, channelReceiveMany)
(JNIEnv* env, jclass, jlong channel, jint limit, jint timeout_ms) {
  lwmq_message* messages[kReceivedAtOnce];
  jlong addresses[kReceivedAtOnce];
  std::uint32_t count = 0;
  if (!check(env, lwmq_channel_receive_many(handle<lwmq_channel>(channel), received_at_once(limit),
                                            static_cast<std::uint32_t>(timeout_ms), messages, &count))) {
    return nullptr;
  }
  for (std::uint32_t i = 0; i < count; ++i) addresses[i] = address_of(messages[i]);
  jlongArray result = new_longs(env, addresses, count);
  if (result == nullptr) {
    for (std::uint32_t i = 0; i < count; ++i) lwmq_message_destroy(messages[i]);
  }
  return result;
}

// All frames of what was lent, one after the other. Null, with an exception, where memory is short or they
// are more than an array holds.
static jbyteArray bytes_of(JNIEnv* env, const lwmq_lent& lent) {
  const std::uint32_t frames = lent.message == nullptr ? 1 : lwmq_message_frame_count(lent.message);
  const auto frame_at = [&lent](std::uint32_t i) {  // a message without a handle is one frame
    lwmq_bytes frame{lent.data, lent.bytes};
    if (i > 0) lwmq_message_frame(lent.message, i, &frame.data, &frame.bytes);
    return frame;
  };
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < frames; ++i) all += frame_at(i).bytes;
  if (all > INT32_MAX) {
    throw_text(env, LWMQ_E_TOO_BIG,
               "a message of 2 GiB or more fits no array of bytes: receive it as a message");
    return nullptr;
  }
  jbyteArray array = env->NewByteArray(static_cast<jsize>(all));
  jsize at = 0;
  for (std::uint32_t i = 0; array != nullptr && i < frames; ++i) {
    const lwmq_bytes frame = frame_at(i);
    env->SetByteArrayRegion(array, at, static_cast<jsize>(frame.bytes),
                            static_cast<const jbyte*>(frame.data));
    at += static_cast<jsize>(frame.bytes);
  }
  return array;
}

JNI_METHOD(jobjectArray, channelReceiveBytes)
(JNIEnv* env, jclass, jlong channel, jint limit, jint timeout_ms) {
  struct Destroy {
    void operator()(lwmq_loan* loan) const { lwmq_loan_destroy(loan); }
  };
  lwmq_loan* made = nullptr;
  if (!check(env, lwmq_loan_create(received_at_once(limit), &made))) return nullptr;
  const std::unique_ptr<lwmq_loan, Destroy> loan(made);
  const lwmq_lent* lent = nullptr;
  std::uint32_t count = 0;
  if (!check(env, lwmq_channel_receive_loan(handle<lwmq_channel>(channel),
                                            static_cast<std::uint32_t>(timeout_ms), made, &lent, &count))) {
    return nullptr;
  }
  jclass type = env->FindClass("[B");
  jobjectArray result =
      type == nullptr ? nullptr : env->NewObjectArray(static_cast<jsize>(count), type, nullptr);
  for (std::uint32_t i = 0; i < count && result != nullptr; ++i) {
    jbyteArray bytes = bytes_of(env, lent[i]);
    if (bytes == nullptr) return nullptr;
    env->SetObjectArrayElement(result, static_cast<jsize>(i), bytes);
    env->DeleteLocalRef(bytes);
  }
  return result;
}

JNI_METHOD(jint, channelDescriptor)(JNIEnv* env, jclass, jlong channel) {
  std::int32_t descriptor = -1;
  check(env, lwmq_channel_descriptor(handle<lwmq_channel>(channel), &descriptor));
  return descriptor;
}

JNI_METHOD(void, channelAddFilter)(JNIEnv* env, jclass, jlong channel, jbyteArray filter, jint place) {
  const Bytes text(env, filter);
  if (!check_memory(env, text.ok())) return;
  check(env, lwmq_channel_add_filter(handle<lwmq_channel>(channel), text.text(),
                                     static_cast<std::uint32_t>(place)));
}

JNI_METHOD(void, channelRemoveFilter)(JNIEnv* env, jclass, jlong channel, jint place) {
  check(env, lwmq_channel_remove_filter(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(place)));
}

JNI_METHOD(jlongArray, channelQueryFilter)
(JNIEnv* env, jclass, jlong channel, jint place, jobjectArray out_texts) {
  auto view = sized<lwmq_filter_view>();
  const lwmq_status status =
      lwmq_channel_query_filter(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(place), &view);
  if (status == LWMQ_E_INVALID || status == LWMQ_E_UNSUPPORTED || !check(env, status)) return nullptr;
  env->SetObjectArrayElement(out_texts, 0, new_bytes(env, view.name, std::strlen(view.name)));
  env->SetObjectArrayElement(out_texts, 1, new_bytes(env, view.settings, std::strlen(view.settings)));
  const jlong counts[] = {static_cast<jlong>(view.seen),    static_cast<jlong>(view.dropped),
                          static_cast<jlong>(view.changed), static_cast<jlong>(view.sourced),
                          static_cast<jlong>(view.held),    static_cast<jlong>(view.failed),
                          static_cast<jlong>(view.timed)};
  return new_longs(env, counts, std::size(counts));
}

JNI_METHOD(jlong, channelQueryTimes)(JNIEnv* env, jclass, jlong channel, jint place, jdouble share) {
  std::uint64_t ns = 0;
  check(env, lwmq_channel_query_times(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(place), share,
                                      &ns));
  return static_cast<jlong>(ns);
}

JNI_METHOD(jlongArray, channelQuery)(JNIEnv* env, jclass, jlong channel) {
  auto known = sized<lwmq_channel_statistics>();
  if (!check(env, lwmq_channel_query(handle<lwmq_channel>(channel), &known))) return nullptr;
  const std::uint64_t figures[] = {known.connected,         known.is_server,         known.messages_posted,
                                   known.messages_shipped,  known.messages_received, known.messages_lost,
                                   known.buffers_shipped,   known.shipped_full,      known.shipped_idle,
                                   known.bytes_shipped,     known.bytes_received,    known.peers_lost,
                                   known.buffers_free,      known.messages_passed,   known.receive_queued,
                                   known.receive_discarded, known.duplicates_dropped};
  jlong longs[std::size(figures)];
  std::copy(std::begin(figures), std::end(figures), longs);
  return new_longs(env, longs, std::size(longs));
}

JNI_METHOD(void, channelFlush)(JNIEnv* env, jclass, jlong channel, jint timeout_ms) {
  check(env, lwmq_channel_flush(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms)));
}

JNI_METHOD(void, channelClose)(JNIEnv* env, jclass, jlong channel, jint linger_ms) {
  check(env, lwmq_channel_close(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(linger_ms)));
}

JNI_METHOD(void, channelDestroy)(JNIEnv*, jclass, jlong channel) {
  lwmq_channel_destroy(handle<lwmq_channel>(channel));
}

JNI_METHOD(void, sendQueuePostDirect)
(JNIEnv* env, jclass, jlong queue, jobject frame, jint position, jint bytes) {
  check(env, lwmq_send_queue_post_bytes(handle<lwmq_send_queue>(queue), direct(env, frame, position),
                                        static_cast<std::uint64_t>(bytes)));
}

JNI_METHOD(void, sendQueuePostBytes)(JNIEnv* env, jclass, jlong queue, jbyteArray frame) {
  const Bytes bytes(env, frame);
  if (!check_memory(env, bytes.ok())) return;
  check(env, lwmq_send_queue_post_bytes(handle<lwmq_send_queue>(queue), bytes.data(), bytes.size()));
}

JNI_METHOD(void, sendQueuePostMessage)(JNIEnv* env, jclass, jlong queue, jlong tag, jlong message) {
  auto* posted = handle<lwmq_message>(message);
  check(env, lwmq_send_queue_post_tagged(handle<lwmq_send_queue>(queue), static_cast<std::uint64_t>(tag),
                                         &posted));
}

JNI_METHOD(void, sendQueuePostWait)
(JNIEnv* env, jclass, jlong queue, jlong tag, jint timeout_ms, jlong message) {
  auto* posted = handle<lwmq_message>(message);
  check(env, lwmq_send_queue_post_wait(handle<lwmq_send_queue>(queue), static_cast<std::uint64_t>(tag),
                                       static_cast<std::uint32_t>(timeout_ms), 0, &posted));
}

JNI_METHOD(void, sendQueuePostMany)
(JNIEnv* env, jclass, jlong queue, jbyteArray content, jintArray lengths) {
  const Bytes bytes(env, content);
  if (!check_memory(env, bytes.ok())) return;
  const auto count = static_cast<std::size_t>(env->GetArrayLength(lengths));
  std::unique_ptr<jint[]> sizes(new (std::nothrow) jint[count]);
  std::unique_ptr<lwmq_bytes[]> frames(new (std::nothrow) lwmq_bytes[count]);
  if (!check_memory(env, sizes != nullptr && frames != nullptr)) return;
  env->GetIntArrayRegion(lengths, 0, static_cast<jsize>(count), sizes.get());
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    frames[i] = {static_cast<const std::uint8_t*>(bytes.data()) + at, static_cast<std::uint64_t>(sizes[i])};
    at += frames[i].bytes;
  }
  std::uint64_t posted = 0;
  check(env, lwmq_send_queue_post_many(handle<lwmq_send_queue>(queue), frames.get(), count, &posted));
}

JNI_METHOD(void, sendQueueSetPriority)(JNIEnv* env, jclass, jlong queue, jint priority) {
  check(env,
        lwmq_send_queue_set_priority(handle<lwmq_send_queue>(queue), static_cast<std::uint32_t>(priority)));
}

JNI_METHOD(jlongArray, sendQueueQuery)(JNIEnv* env, jclass, jlong queue) {
  auto statistics = sized<lwmq_send_queue_statistics>();
  if (!check(env, lwmq_send_queue_query(handle<lwmq_send_queue>(queue), &statistics))) return nullptr;
  const jlong figures[] = {static_cast<jlong>(statistics.posted), static_cast<jlong>(statistics.collected),
                           static_cast<jlong>(statistics.discarded), static_cast<jlong>(statistics.replaced),
                           static_cast<jlong>(statistics.queued)};
  return new_longs(env, figures, std::size(figures));
}

JNI_METHOD(void, channelSetWeights)(JNIEnv* env, jclass, jlong channel, jintArray weights) {
  const jsize count = env->GetArrayLength(weights);
  jint known[16] = {};
  env->GetIntArrayRegion(weights, 0, std::min<jsize>(count, std::size(known)), known);
  std::uint32_t numbers[std::size(known)];
  std::copy(std::begin(known), std::end(known), numbers);
  check(env,
        lwmq_channel_set_weights(handle<lwmq_channel>(channel), numbers, static_cast<std::uint32_t>(count)));
}

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

JNI_METHOD(jlong, selectorWait)(JNIEnv* env, jclass, jlong selector, jint timeout_ms) {
  lwmq_channel* channel = nullptr;
  const lwmq_status status =
      lwmq_selector_wait(handle<lwmq_selector>(selector), static_cast<std::uint32_t>(timeout_ms), &channel);
  return check(env, status) ? address_of(channel) : 0;
}

JNI_METHOD(jlong, selectorTake)(JNIEnv* env, jclass, jlong selector) {
  lwmq_message* message = nullptr;
  const lwmq_status status = lwmq_selector_take(handle<lwmq_selector>(selector), &message);
  return received_now(env, status, message);
}

JNI_METHOD(jlongArray, selectorReceive)(JNIEnv* env, jclass, jlong selector, jint timeout_ms) {
  lwmq_channel* channel = nullptr;
  lwmq_message* message = nullptr;
  const lwmq_status status = lwmq_selector_receive(
      handle<lwmq_selector>(selector), static_cast<std::uint32_t>(timeout_ms), &channel, &message);
  if (!check(env, status)) return nullptr;
  const jlong came[] = {address_of(channel), address_of(message)};
  jlongArray result = new_longs(env, came, std::size(came));
  if (result == nullptr) lwmq_message_destroy(message);
  return result;
}

JNI_METHOD(void, selectorDestroy)(JNIEnv*, jclass, jlong selector) {
  lwmq_selector_destroy(handle<lwmq_selector>(selector));
}

JNI_METHOD(jlong, routerCreate)(JNIEnv* env, jclass) {
  lwmq_router* router = nullptr;
  return check(env, lwmq_router_create(&router)) ? address_of(router) : 0;
}

JNI_METHOD(void, routerAdd)
(JNIEnv* env, jclass, jlong router, jint frame, jbyteArray pattern, jbyteArray group, jlong queue) {
  const Bytes text(env, pattern), name(env, group);
  if (!check_memory(env, text.ok() && name.ok())) return;
  check(env, lwmq_router_add(handle<lwmq_router>(router), static_cast<std::uint32_t>(frame), text.text(),
                             name.text(), handle<lwmq_send_queue>(queue)));
}

JNI_METHOD(void, routerRemove)
(JNIEnv* env, jclass, jlong router, jint frame, jbyteArray pattern, jbyteArray group, jlong queue) {
  const Bytes text(env, pattern), name(env, group);
  if (!check_memory(env, text.ok() && name.ok())) return;
  check(env, lwmq_router_remove(handle<lwmq_router>(router), static_cast<std::uint32_t>(frame), text.text(),
                                name.text(), handle<lwmq_send_queue>(queue)));
}

JNI_METHOD(void, routerForget)(JNIEnv* env, jclass, jlong router, jlong queue) {
  check(env, lwmq_router_forget(handle<lwmq_router>(router), handle<lwmq_send_queue>(queue)));
}

JNI_METHOD(void, routerPost)(JNIEnv* env, jclass, jlong router, jlong message, jintArray out_queues) {
  auto* posted = handle<lwmq_message>(message);
  std::uint32_t count = 0;
  const lwmq_status status = lwmq_router_post(handle<lwmq_router>(router), &posted, &count);
  const jint queues = static_cast<jint>(count);
  env->SetIntArrayRegion(out_queues, 0, 1, &queues);
  if (status != LWMQ_E_EMPTY) check(env, status);
}

JNI_METHOD(void, routerDestroy)(JNIEnv*, jclass, jlong router) {
  lwmq_router_destroy(handle<lwmq_router>(router));
}

JNI_METHOD(jlong, messageCreate)(JNIEnv* env, jclass, jint frames_hint) {
  lwmq_message* message = nullptr;
  if (!check(env, lwmq_message_create(static_cast<std::uint32_t>(frames_hint), &message))) return 0;
  return address_of(message);
}

JNI_METHOD(void, messageAppend)(JNIEnv* env, jclass, jlong message, jbyteArray frame) {
  const Bytes bytes(env, frame);
  if (!check_memory(env, bytes.ok())) return;
  check(env, lwmq_message_append(handle<lwmq_message>(message), bytes.data(), bytes.size()));
}

JNI_METHOD(void, messageAppendDirect)
(JNIEnv* env, jclass, jlong message, jobject frame, jint position, jint bytes) {
  check(env, lwmq_message_append(handle<lwmq_message>(message), direct(env, frame, position),
                                 static_cast<std::uint64_t>(bytes)));
}

JNI_METHOD(jlong, messageReference)(JNIEnv* env, jclass, jlong message) {
  lwmq_message* reference = nullptr;
  check(env, lwmq_message_reference(handle<lwmq_message>(message), &reference));
  return address_of(reference);
}

JNI_METHOD(jint, messageFrameCount)(JNIEnv*, jclass, jlong message) {
  return static_cast<jint>(lwmq_message_frame_count(handle<lwmq_message>(message)));
}

JNI_METHOD(jobject, messageFrame)(JNIEnv* env, jclass, jlong message, jint index) {
  static char nothing = 0;  // an empty frame may have no address, and a direct buffer must have one
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  const lwmq_status status =
      lwmq_message_frame(handle<lwmq_message>(message), static_cast<std::uint32_t>(index), &data, &bytes);
  if (!check(env, status)) return nullptr;
  void* address = data != nullptr ? const_cast<void*>(data) : &nothing;  // Java makes it read-only
  return view_of(env, address, bytes);
}

JNI_METHOD(void, messageSetTimestamp)
(JNIEnv* env, jclass, jlong message, jint index, jint source, jlong ticks) {
  check(env, lwmq_message_set_timestamp(handle<lwmq_message>(message), static_cast<std::uint32_t>(index),
                                        source, static_cast<std::uint64_t>(ticks)));
}

JNI_METHOD(jlong, messageTimestamp)(JNIEnv* env, jclass, jlong message, jint index) {
  std::uint64_t ticks = 0;
  check(env,
        lwmq_message_timestamp(handle<lwmq_message>(message), static_cast<std::uint32_t>(index), &ticks));
  return static_cast<jlong>(ticks);
}

JNI_METHOD(void, messageDestroy)(JNIEnv*, jclass, jlong message) {
  lwmq_message_destroy(handle<lwmq_message>(message));
}

JNI_METHOD(void, rawGetBuffer)(JNIEnv* env, jclass, jlong channel, jint timeout_ms, jlongArray out_buffer) {
  lwmq_buffer buffer{};
  const lwmq_status status =
      lwmq_raw_get_buffer(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms), &buffer);
  if (check(env, status)) show_buffer(env, buffer, out_buffer);
}

JNI_METHOD(void, rawSendBuffer)(JNIEnv* env, jclass, jlong channel, jlongArray buffer_fields) {
  lwmq_buffer buffer = buffer_of(env, buffer_fields);
  check(env, lwmq_raw_send_buffer(handle<lwmq_channel>(channel), &buffer));
}

JNI_METHOD(void, rawAbandonBuffer)(JNIEnv* env, jclass, jlong channel, jlongArray buffer_fields) {
  lwmq_buffer buffer = buffer_of(env, buffer_fields);
  check(env, lwmq_raw_abandon_buffer(handle<lwmq_channel>(channel), &buffer));
}

JNI_METHOD(void, rawReceiveBuffer)
(JNIEnv* env, jclass, jlong channel, jint timeout_ms, jlongArray out_buffer) {
  lwmq_buffer buffer{};
  const lwmq_status status =
      lwmq_raw_receive_buffer(handle<lwmq_channel>(channel), static_cast<std::uint32_t>(timeout_ms), &buffer);
  if (check(env, status)) show_buffer(env, buffer, out_buffer);
}

JNI_METHOD(void, rawDisposeBuffer)(JNIEnv* env, jclass, jlong channel, jlongArray buffer_fields) {
  lwmq_buffer buffer = buffer_of(env, buffer_fields);
  check(env, lwmq_raw_dispose_buffer(handle<lwmq_channel>(channel), &buffer));
}
