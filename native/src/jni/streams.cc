// Of org.lwmq.core.Jni: streams, writers, jobs, readers.
#include "crossing.h"

#include <cstring>
#include <iterator>

namespace lwmq::jni {

// ---- stream ------------------------------------------------------------------------------------

JNI_METHOD(jlongArray, streamDescribe)
(JNIEnv* env, jclass, jbyteArray address, jint wait_declared, jint timeout_ms, jobjectArray bytes) {
  lwmq_stream_state* state = nullptr;
  if (!call(env, lwmq_stream_describe, Bytes(env, address), wait_declared, timeout_ms, &state))
    return nullptr;
  constexpr std::size_t kHead = 8;
  constexpr std::size_t kEach = sizeof(lwmq_partition_state) / sizeof(jlong);
  const std::size_t count = kHead + kEach * state->partition_count;
  std::unique_ptr<jlong[]> numbers(new (std::nothrow) jlong[count]);
  jlongArray result = nullptr;
  if (check_memory(env, numbers != nullptr)) {
    const lwmq_identity& endpoint = state->endpoint;
    const jlong head[kHead] = {state->state,          state->retain,       state->readers,
                               state->producers_open, state->readers_open, static_cast<jlong>(endpoint.netns),
                               endpoint.pid,          endpoint.uid};
    std::memcpy(numbers.get(), head, sizeof head);
    if (state->partition_count > 0)
      std::memcpy(numbers.get() + kHead, state->partitions, (count - kHead) * sizeof(jlong));
    show_bytes(env, state->generation, sizeof state->generation, bytes, 0);
    if (state->schema != nullptr) show_bytes(env, state->schema, state->schema_bytes, bytes, 1);
    show_text(env, endpoint.host, bytes, 2);
    show_text(env, endpoint.boot_id, bytes, 3);
    show_bytes(env, endpoint.instance, sizeof endpoint.instance, bytes, 4);
    show_bytes(env, state->addresses, std::strlen(state->addresses), bytes, 5);
    result = new_longs(env, numbers.get(), count);
  }
  lwmq_stream_state_destroy(state);
  return result;
}

JNI_METHOD(void, streamSettle)
(JNIEnv* env, jclass, jbyteArray address, jbyteArray name, jboolean acknowledge, jint timeout_ms) {
  call(env, lwmq_stream_settle, Bytes(env, address), Bytes(env, name), acknowledge, timeout_ms);
}

JNI_METHOD(jlong, endpointOpen)(JNIEnv* env, jclass, jbyteArray address) {
  return output_of(env, lwmq_endpoint_open, Bytes(env, address));
}

JNI_METHOD(jbyteArray, endpointAddress)(JNIEnv* env, jclass, jlong endpoint) {
  const char* address = lwmq_endpoint_address(handle<lwmq_endpoint>(endpoint));
  return new_bytes(env, address, std::strlen(address));
}

JNI_METHOD(void, endpointClose)(JNIEnv* env, jclass, jlong endpoint, jint linger_ms) {
  call(env, lwmq_endpoint_close, endpoint, linger_ms);
}

// ---- writer ------------------------------------------------------------------------------------

// As WriterOptions.fields has them.
static lwmq_writer_options writer_options(JNIEnv* env, jlongArray fields, const Bytes& job) {
  jlong said[15] = {};
  env->GetLongArrayRegion(fields, 0, std::size(said), said);
  auto options = sized<lwmq_writer_options>();
  options.role = static_cast<std::int32_t>(said[0]);
  options.partitions = static_cast<std::uint32_t>(said[1]);
  options.retain = static_cast<std::uint32_t>(said[2]);
  options.readers = static_cast<std::uint32_t>(said[3]);
  options.delivery = static_cast<std::uint32_t>(said[4]);
  options.timeout_ms = static_cast<std::uint32_t>(said[5]);
  options.buffer_bytes = static_cast<std::uint64_t>(said[6]);
  options.window_bytes = static_cast<std::uint64_t>(said[7]);
  options.staging_bytes = static_cast<std::uint64_t>(said[8]);
  options.task = static_cast<std::uint32_t>(said[9]);
  options.job_tasks = static_cast<std::uint32_t>(said[10]);
  options.attempt = static_cast<std::uint64_t>(said[11]);
  options.epoch = static_cast<std::uint64_t>(said[12]);
  options.stall_ms = static_cast<std::uint32_t>(said[13]);
  options.expel_after_ms = static_cast<std::uint32_t>(said[14]);
  options.job = job.text();
  return options;
}

// Opens a writer or a job.
template <typename Open>
static jlong open_producer(JNIEnv* env, Open open, jbyteArray address, jbyteArray schema, jbyteArray job,
                           jlongArray fields) {
  const Bytes arrow(env, schema), name(env, job);
  if (!check_memory(env, name.ok())) return 0;
  const lwmq_writer_options options = writer_options(env, fields, name);
  return output_of(env, open, Bytes(env, address), arrow, arrow.size(), &options);
}

// Of a writer or a job: the declared schema, and the number of partitions.
template <typename Ask>
static jbyteArray declared(JNIEnv* env, Ask ask, jlong producer, jintArray out_partitions) {
  const void* schema = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t partitions = 0;
  if (!call(env, ask, producer, &schema, &bytes, &partitions)) return nullptr;
  const jint count = static_cast<jint>(partitions);
  env->SetIntArrayRegion(out_partitions, 0, 1, &count);
  return new_bytes(env, schema, bytes);
}

JNI_METHOD(jlong, writerOpen)
(JNIEnv* env, jclass, jbyteArray address, jbyteArray schema, jbyteArray job, jlongArray options) {
  return open_producer(env, lwmq_writer_open, address, schema, job, options);
}

JNI_METHOD(jbyteArray, writerSchema)(JNIEnv* env, jclass, jlong writer, jintArray out_partitions) {
  return declared(env, lwmq_writer_schema, writer, out_partitions);
}

JNI_METHOD(void, writerAllocate)
(JNIEnv* env, jclass, jlong writer, jlong bytes, jint timeout_ms, jlongArray out_block) {
  lwmq_block block{};
  if (call(env, lwmq_writer_allocate, writer, bytes, timeout_ms, &block)) show_words(env, block, out_block);
}

JNI_METHOD(void, writerPublish)
(JNIEnv* env, jclass, jlong writer, jlongArray block_fields, jint partition, jlong bytes, jlong rows,
 jint flags) {
  auto block = words_of<lwmq_block>(env, block_fields);
  call(env, lwmq_writer_publish, writer, &block, partition, bytes, rows, flags);
}

JNI_METHOD(void, writerDiscard)(JNIEnv* env, jclass, jlong writer, jlongArray block_fields) {
  auto block = words_of<lwmq_block>(env, block_fields);
  lwmq_writer_discard(handle<lwmq_writer>(writer), &block);
}

JNI_METHOD(jlongArray, writerCommit)(JNIEnv* env, jclass, jlong writer, jint timeout_ms) {
  auto r = sized<lwmq_commit_result>();
  if (!call(env, lwmq_writer_commit, writer, timeout_ms, &r)) return nullptr;
  return longs_of(env, r.won, r.partition, r.attempt, r.start_seq, r.end_seq, r.batches, r.rows, r.bytes);
}

JNI_METHOD(void, writerAbort)(JNIEnv* env, jclass, jlong writer, jbyteArray reason) {
  call(env, lwmq_writer_abort, writer, Bytes(env, reason));
}

JNI_METHOD(void, writerClose)(JNIEnv* env, jclass, jlong writer, jint linger_ms) {
  call(env, lwmq_writer_close, writer, linger_ms);
}

JNI_METHOD(void, writerDestroy)(JNIEnv*, jclass, jlong writer) {
  lwmq_writer_destroy(handle<lwmq_writer>(writer));
}

JNI_METHOD(jlongArray, writerQuery)(JNIEnv* env, jclass, jlong writer) {
  auto s = sized<lwmq_writer_statistics>();
  if (!call(env, lwmq_writer_query, writer, &s)) return nullptr;
  return longs_of(env, s.batches, s.rows, s.bytes, s.wait_ns, s.window_bytes, s.unread_batches);
}

// ---- job ---------------------------------------------------------------------------------------

JNI_METHOD(jlong, jobOpen)
(JNIEnv* env, jclass, jbyteArray address, jbyteArray schema, jbyteArray job, jlongArray options) {
  return open_producer(env, lwmq_job_open, address, schema, job, options);
}

JNI_METHOD(jbyteArray, jobSchema)(JNIEnv* env, jclass, jlong job, jintArray out_partitions) {
  return declared(env, lwmq_job_schema, job, out_partitions);
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
  call(env, lwmq_job_commit, job, epoch, list.get(), count, timeout_ms);
}

JNI_METHOD(void, jobAbort)(JNIEnv* env, jclass, jlong job, jbyteArray reason, jint timeout_ms) {
  call(env, lwmq_job_abort, job, Bytes(env, reason), timeout_ms);
}

JNI_METHOD(void, jobClose)(JNIEnv* env, jclass, jlong job) { call(env, lwmq_job_close, job); }

// ---- reader ------------------------------------------------------------------------------------

JNI_METHOD(jlong, readerOpen)
(JNIEnv* env, jclass, jbyteArray address, jint role, jint acknowledge, jboolean follow, jint writers,
 jint timeout_ms, jint credit, jbyteArray name, jbyteArray generation, jboolean keep_mapped,
 jlongArray ranges, jint stall_ms, jbyteArray task, jlong attempt, jbyteArray columns,
 jbyteArray filter_columns, jlongArray filters) {
  constexpr std::size_t kEach = 3;
  const Bytes uri(env, address);
  const Bytes reader_name(env, name);
  const Bytes task_name(env, task);
  const Bytes of_generation(env, generation);
  const Longs flat(env, ranges);
  const Bytes names(env, columns);
  const Bytes compared(env, filter_columns);
  const Longs tests(env, filters);
  if (!check_memory(env, uri.ok() && reader_name.ok() && task_name.ok() && of_generation.ok() && flat.ok() &&
                             names.ok() && compared.ok() && tests.ok()))
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
  const char* const names_end = names.text() + names.size();
  std::uint32_t name_count = 0;
  std::unique_ptr<const char*[]> name_list(new (std::nothrow) const char*[names.size() + 1]);
  if (!check_memory(env, name_list != nullptr)) return 0;
  for (const char* at = names.text(); at < names_end; at += std::strlen(at) + 1) {
    name_list[name_count++] = at;
  }
  const std::size_t filter_count = tests.size() / kEach;
  std::unique_ptr<lwmq_filter[]> filter_list(new (std::nothrow) lwmq_filter[filter_count + 1]());
  std::unique_ptr<std::uint64_t[]> texts(new (std::nothrow) std::uint64_t[filter_count + 1]);
  if (!check_memory(env, filter_list != nullptr && texts != nullptr)) return 0;
  const char* filter_column = compared.text();
  for (std::size_t i = 0; i < filter_count; i++) {
    lwmq_filter& filter = filter_list[i];
    const jlong bits = tests[kEach * i + 2];
    texts[i] = __builtin_bswap64(static_cast<std::uint64_t>(bits));
    filter.column = filter_column;
    filter.comparison = static_cast<std::int32_t>(tests[kEach * i]);
    filter.literal_kind = static_cast<std::int32_t>(tests[kEach * i + 1]);
    filter.integer = bits;
    std::memcpy(&filter.real, &bits, sizeof bits);
    filter.bytes = &texts[i];
    filter.byte_count = sizeof texts[i];
    filter_column += std::strlen(filter_column) + 1;
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
  options.columns = columns != nullptr ? name_list.get() : nullptr;
  options.column_count = name_count;
  options.filters = filters != nullptr ? filter_list.get() : nullptr;
  options.filter_count = static_cast<std::uint32_t>(filter_count);
  return output_of(env, lwmq_reader_open, uri, &options);
}

JNI_METHOD(jbyteArray, readerSchema)(JNIEnv* env, jclass, jlong reader, jint timeout_ms) {
  const void* schema = nullptr;
  std::uint64_t bytes = 0;
  const bool is_done = call(env, lwmq_reader_schema, reader, timeout_ms, &schema, &bytes);
  return is_done ? new_bytes(env, schema, bytes) : nullptr;
}

JNI_METHOD(jboolean, readerNext)(JNIEnv* env, jclass, jlong reader, jint timeout_ms, jlongArray out_batch) {
  lwmq_batch* batch = nullptr;
  const lwmq_status status =
      lwmq_reader_next(handle<lwmq_reader>(reader), static_cast<std::uint32_t>(timeout_ms), &batch);
  if (status == LWMQ_E_END || !check(env, status)) return JNI_FALSE;
  auto info = sized<lwmq_batch_info>();
  if (!check(env, lwmq_batch_query(batch, &info))) {
    lwmq_batch_release(batch);
    return JNI_FALSE;
  }
  show_longs(env, out_batch, address_of(batch), address_of(info.data), info.bytes, info.rows, info.seq,
             info.timestamp_ns, info.partition, info.flags, info.copied, info.writer_pid,
             address_of(info.window_data), info.window_bytes);
  return JNI_TRUE;
}

JNI_METHOD(void, readerConsume)(JNIEnv* env, jclass, jlong reader) { call(env, lwmq_reader_consume, reader); }

JNI_METHOD(void, batchRelease)(JNIEnv*, jclass, jlong batch) {
  lwmq_batch_release(handle<lwmq_batch>(batch));
}

JNI_METHOD(jlongArray, readerQuery)(JNIEnv* env, jclass, jlong reader) {
  auto s = sized<lwmq_reader_statistics>();
  if (!call(env, lwmq_reader_query, reader, &s)) return nullptr;
  return longs_of(env, s.batches, s.rows, s.bytes, s.bytes_copied, s.batches_copied, s.wait_ns,
                  s.leased_batches, s.leased_bytes, s.bytes_received, s.batches_skipped);
}

JNI_METHOD(void, readerClose)(JNIEnv* env, jclass, jlong reader, jint linger_ms) {
  call(env, lwmq_reader_close, reader, linger_ms);
}

}  // namespace lwmq::jni
