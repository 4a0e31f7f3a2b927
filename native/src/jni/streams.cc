// Of org.lwmq.core.Jni: streams, writers, jobs, readers.
#include "crossing.h"

#include <iterator>

namespace lwmq::jni {

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

JNI_METHOD(void, partitionIds)
(JNIEnv* env, jclass, jlong schema, jlong array, jint partitions, jlong ids) {
  check(env, lwmq_partition_ids(handle<void>(schema), handle<void>(array),
                                static_cast<std::uint32_t>(partitions), handle<std::uint32_t>(ids)));
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

JNI_METHOD(jlong, writerHold)(JNIEnv* env, jclass, jlong writer, jlongArray block_fields) {
  const lwmq_block block = block_of(env, block_fields);
  lwmq_hold* hold = nullptr;
  return check(env, lwmq_writer_hold(handle<lwmq_writer>(writer), &block, &hold)) ? address_of(hold) : 0;
}

JNI_METHOD(void, holdEnd)(JNIEnv*, jclass, jlong hold) { lwmq_hold_end(handle<lwmq_hold>(hold)); }

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
 jlongArray ranges, jint stall_ms, jbyteArray task, jlong attempt, jbyteArray job, jlongArray tasks) {
  constexpr std::size_t kEach = 3;
  const Bytes uri(env, address);
  const Bytes reader_name(env, name);
  const Bytes task_name(env, task);
  const Bytes of_generation(env, generation);
  const Bytes job_name(env, job);
  const Longs flat(env, ranges);
  const Longs numbers(env, tasks);
  if (!check_memory(env, uri.ok() && reader_name.ok() && task_name.ok() && of_generation.ok() && flat.ok() &&
                             job_name.ok() && numbers.ok())) {
    return 0;
  }
  const std::size_t count = flat.size() / kEach;
  std::unique_ptr<lwmq_range[]> list(new (std::nothrow) lwmq_range[count + 1]);
  std::unique_ptr<std::uint32_t[]> task_list(new (std::nothrow) std::uint32_t[numbers.size() + 1]);
  if (!check_memory(env, list != nullptr && task_list != nullptr)) return 0;
  for (std::size_t i = 0; i < numbers.size(); i++) task_list[i] = static_cast<std::uint32_t>(numbers[i]);
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
  options.job = job_name.text();
  options.tasks = task_list.get();
  options.task_count = static_cast<std::uint32_t>(numbers.size());
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

JNI_METHOD(jboolean, readerNext)(JNIEnv* env, jclass, jlong reader, jint timeout_ms, jlongArray out_batch) {
  lwmq_batch* batch = nullptr;
  const lwmq_status status =
      lwmq_reader_next(handle<lwmq_reader>(reader), static_cast<std::uint32_t>(timeout_ms), &batch);
  if (status == LWMQ_E_END || !check(env, status)) return JNI_FALSE;
  auto info = sized<lwmq_batch_info>();
  const lwmq_status queried = lwmq_batch_query(batch, &info);
  if (!check(env, queried)) {
    lwmq_batch_release(batch);
    return JNI_FALSE;
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
  return JNI_TRUE;
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

}  // namespace lwmq::jni
