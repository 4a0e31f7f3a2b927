// The C face of streams: arguments are checked, defaults filled in, the rest is stream/.
#include <cstring>
#include <memory>
#include <new>

#include "abi/misuse.h"
#include "abi/options.h"
#include "base/handle_mark.h"
#include "base/limits.h"
#include "base/status.h"
#include "lwmq/lwmq.h"
#include "os/identity.h"
#include "os/memory_budget.h"
#include "stream/arrow_array.h"
#include "stream/client.h"
#include "stream/partition_ids.h"
#include "stream/question.h"
#include "stream/reader.h"
#include "stream/writer.h"

namespace stream = lwmq::stream;
using lwmq::fail;
using lwmq::abi::set_default;

struct lwmq_endpoint {
  stream::StreamUse use;
  lwmq::HandleMark mark;
};

namespace {

constexpr std::uint32_t kTimeoutMs = 30'000;
constexpr std::uint32_t kReaderCredit = 8;

// A child of fork has the handles of its parent and none of its threads.
lwmq_status ready(bool arguments_there, const char* call) noexcept {
  if (!arguments_there) return fail(LWMQ_E_INVALID, "%s: an argument is NULL", call);
  if (lwmq::os::forked())
    return fail(LWMQ_E_CLOSED,
                "forked: %s in a child of the process that loaded lwmq; open what the child "
                "needs after exec (multiprocessing: spawn)",
                call);
  return LWMQ_OK;
}

const char* name_of(const lwmq_endpoint*) noexcept { return "endpoint (closed)"; }
const char* name_of(const lwmq_writer*) noexcept { return "writer (destroyed)"; }
const char* name_of(const lwmq_job*) noexcept { return "job (closed)"; }
const char* name_of(const lwmq_reader*) noexcept { return "reader (closed)"; }
const char* name_of(const lwmq_batch*) noexcept { return "batch (released)"; }

// The same, of a call of `handle`.
template <typename Handle>
lwmq_status ready(const Handle* handle, bool arguments_there, const char* call) noexcept {
  const lwmq_status status = ready(handle != nullptr && arguments_there, call);
  if (status == LWMQ_OK && handle != nullptr)
    lwmq::abi::require_alive(handle->mark.is_alive(), call, name_of(handle));
  return status;
}

// A window is made piece by piece as it is needed; one that was asked for and can never be had is refused
// before.
lwmq_status check_window(const char* address, const lwmq_writer_options* given) noexcept {
  const std::uint64_t bytes = lwmq::abi::read_options(given).window_bytes;
  const std::uint64_t most = lwmq::os::window_memory_budget();
  if (bytes <= most) return LWMQ_OK;
  return lwmq::fail(
      LWMQ_E_NO_MEMORY,
      "%s: a window of %" PRIu64 " bytes, and this process may hold %" PRIu64
      " in windows (half of what was free at its start, or lwmq_set_window_memory): say a smaller "
      "window_bytes, or fewer and smaller buffers (in Spark windowBytes, buffers, bufferBytes)",
      address, bytes, most);
}

lwmq_writer_options with_defaults(const lwmq_writer_options* given) noexcept {
  auto options = lwmq::abi::read_options(given);
  set_default(options.partitions, 1u);
  set_default(options.readers, 1u);
  set_default(options.timeout_ms, kTimeoutMs);
  set_default(options.buffer_bytes, 4 * lwmq::kMiB);
  set_default(options.window_bytes, std::max(64 * lwmq::kMiB, 16 * options.buffer_bytes));
  set_default(options.staging_bytes, lwmq::kGiB);
  set_default(options.stall_ms, lwmq::kStallMs);
  if (options.expel_after_ms == LWMQ_FOREVER) options.expel_after_ms = 0;
  return options;
}

}  // namespace

extern "C" {

// ---- Endpoints and questions --------------------------------------------------------------------------

lwmq_status lwmq_endpoint_open(const char* address, lwmq_endpoint** out_endpoint) {
  lwmq_status status = ready(address != nullptr && out_endpoint != nullptr, "lwmq_endpoint_open");
  if (status != LWMQ_OK) return status;
  auto handle = std::make_unique<lwmq_endpoint>();
  status = stream::host(address, &handle->use);
  if (status == LWMQ_OK) *out_endpoint = handle.release();
  return status;
}

lwmq_status lwmq_endpoint_drain(lwmq_endpoint* endpoint, uint32_t timeout_ms) {
  const lwmq_status status = ready(endpoint, true, "lwmq_endpoint_drain");
  return status == LWMQ_OK ? endpoint->use.drain(timeout_ms) : status;
}

lwmq_status lwmq_endpoint_close(lwmq_endpoint* endpoint, uint32_t linger_ms) {
  const lwmq_status status = ready(endpoint, true, "lwmq_endpoint_close");
  const std::unique_ptr<lwmq_endpoint> handle(endpoint);
  return status == LWMQ_OK ? handle->use.drain(linger_ms) : status;
}

lwmq_status lwmq_stream_describe(const char* address, uint32_t wait_declared, uint32_t timeout_ms,
                                 lwmq_stream_state** out_state) {
  lwmq_status status = ready(address != nullptr && out_state != nullptr, "lwmq_stream_describe");
  if (status != LWMQ_OK) return status;
  std::unique_ptr<stream::Description> description;
  status = stream::describe(address, wait_declared != 0, timeout_ms, &description);
  if (status == LWMQ_OK) *out_state = &description.release()->state;
  return status;
}

void lwmq_stream_state_destroy(lwmq_stream_state* state) {
  // The state is the first member of its description.
  delete reinterpret_cast<stream::Description*>(state);
}

lwmq_status lwmq_stream_settle(const char* address, const char* name, uint32_t acknowledge,
                               uint32_t timeout_ms) {
  const lwmq_status status = ready(address != nullptr && name != nullptr, "lwmq_stream_settle");
  return status == LWMQ_OK ? stream::settle(address, name, acknowledge != 0, timeout_ms) : status;
}

// ---- Writing ------------------------------------------------------------------------------------------

lwmq_status lwmq_writer_open(const char* address, const void* schema, uint64_t schema_bytes,
                             const lwmq_writer_options* options, lwmq_writer** out_writer) {
  LWMQ_SIZED(options);
  lwmq_status status =
      ready(address != nullptr && schema != nullptr && out_writer != nullptr, "lwmq_writer_open");
  if (status == LWMQ_OK) status = check_window(address, options);
  if (status != LWMQ_OK) return status;
  std::unique_ptr<lwmq_writer> writer;
  status = stream::open_writer(address, schema, schema_bytes, with_defaults(options), &writer);
  if (status == LWMQ_OK) *out_writer = writer.release();
  return status;
}

lwmq_status lwmq_writer_schema(const lwmq_writer* writer, const void** out_schema, uint64_t* out_bytes,
                               uint32_t* out_partitions) {
  const lwmq_status status = ready(writer, out_schema && out_bytes && out_partitions, "lwmq_writer_schema");
  if (status != LWMQ_OK) return status;
  *out_schema = writer->schema.data();
  *out_bytes = writer->schema.size();
  *out_partitions = writer->partitions;
  return LWMQ_OK;
}

lwmq_status lwmq_writer_allocate(lwmq_writer* writer, uint64_t bytes, uint32_t timeout_ms,
                                 lwmq_block* out_block) {
  const lwmq_status status = ready(writer, out_block != nullptr, "lwmq_writer_allocate");
  return status == LWMQ_OK ? stream::allocate(*writer, bytes, timeout_ms, out_block) : status;
}

lwmq_status lwmq_writer_publish(lwmq_writer* writer, lwmq_block* block, uint32_t partition, uint64_t bytes,
                                uint64_t rows, uint32_t flags) {
  const lwmq_status status = ready(writer, block != nullptr, "lwmq_writer_publish");
  return status == LWMQ_OK ? stream::publish(*writer, block, partition, bytes, rows, flags) : status;
}

void lwmq_writer_discard(lwmq_writer* writer, lwmq_block* block) {
  if (ready(writer, block != nullptr, "lwmq_writer_discard") == LWMQ_OK) stream::discard(*writer, block);
}

lwmq_status lwmq_writer_hold(lwmq_writer* writer, const lwmq_block* block, lwmq_hold** out_hold) {
  const lwmq_status status = ready(writer, block != nullptr && out_hold != nullptr, "lwmq_writer_hold");
  return status == LWMQ_OK ? stream::hold(*writer, *block, out_hold) : status;
}

void lwmq_hold_end(lwmq_hold* hold) {
  if (hold == nullptr || lwmq::os::forked()) return;
  lwmq::abi::require_alive(hold->mark.is_alive(), __func__, "hold (ended)");
  hold->end();
}

lwmq_status lwmq_writer_write_array(lwmq_writer* writer, const lwmq_array_plan* plan, const void* array,
                                    uint32_t partition, uint32_t timeout_ms) {
  LWMQ_SIZED(plan);
  const lwmq_status status = ready(writer, plan != nullptr && array != nullptr, "lwmq_writer_write_array");
  if (status != LWMQ_OK) return status;
  return stream::write_array(*writer, lwmq::abi::read_options(plan), *static_cast<const ArrowArray*>(array),
                             partition, timeout_ms);
}

lwmq_status lwmq_partition_ids(void* schema, void* array, uint32_t partitions, uint32_t* out_ids) {
  if (schema == nullptr || array == nullptr || out_ids == nullptr)
    return fail(LWMQ_E_INVALID, "lwmq_partition_ids: an argument is NULL");
  auto& types = *static_cast<ArrowSchema*>(schema);
  auto& keys = *static_cast<ArrowArray*>(array);
  const lwmq_status status = stream::partition_ids(types, keys, partitions, out_ids);
  if (keys.release != nullptr) keys.release(&keys);
  if (types.release != nullptr) types.release(&types);
  return status;
}

lwmq_status lwmq_writer_commit(lwmq_writer* writer, uint32_t timeout_ms, lwmq_commit_result* out_result) {
  LWMQ_SIZED(out_result);
  lwmq_status status = ready(writer, out_result != nullptr, "lwmq_writer_commit");
  if (status != LWMQ_OK) return status;
  lwmq_commit_result result{};
  status = stream::commit(*writer, timeout_ms, &result);
  if (status == LWMQ_OK) lwmq::abi::write_output(result, out_result);
  return status;
}

lwmq_status lwmq_writer_abort(lwmq_writer* writer, const char* reason) {
  const lwmq_status status = ready(writer, true, "lwmq_writer_abort");
  return status == LWMQ_OK ? stream::abort(*writer, reason) : status;
}

lwmq_status lwmq_writer_close(lwmq_writer* writer, uint32_t linger_ms) {
  const lwmq_status status = ready(writer, true, "lwmq_writer_close");
  return status == LWMQ_OK ? stream::close(*writer, linger_ms) : status;
}

void lwmq_writer_destroy(lwmq_writer* writer) {
  if (writer == nullptr) return;
  lwmq::abi::require_alive(writer->mark.is_alive(), __func__, name_of(writer));
  delete writer;
}

lwmq_status lwmq_writer_query(const lwmq_writer* writer, lwmq_writer_statistics* out_statistics) {
  LWMQ_SIZED(out_statistics);
  const lwmq_status status = ready(writer, out_statistics != nullptr, "lwmq_writer_query");
  if (status != LWMQ_OK) return status;
  lwmq_writer_statistics statistics = writer->statistics;
  if (writer->line) {
    statistics.window_bytes = writer->line->pool.window_bytes();
    statistics.unread_batches = writer->line->pool.in_flight();
    statistics.readers_expelled = writer->line->readers_expelled;
    statistics.readers_lost = writer->line->readers_lost;
  }
  lwmq::abi::write_output(statistics, out_statistics);
  return LWMQ_OK;
}

lwmq_status lwmq_writer_lost_reader(lwmq_writer* writer, char* out_text, uint64_t bytes) {
  lwmq_status status = ready(writer, out_text != nullptr && bytes > 0, "lwmq_writer_lost_reader");
  std::string text;
  if (status == LWMQ_OK) status = stream::lost_reader(*writer, &text);
  if (status == LWMQ_OK) std::snprintf(out_text, bytes, "%s", text.c_str());
  return status;
}

// ---- Jobs ---------------------------------------------------------------------------------------------

lwmq_status lwmq_job_open(const char* address, const void* schema, uint64_t schema_bytes,
                          const lwmq_writer_options* options, lwmq_job** out_job) {
  LWMQ_SIZED(options);
  lwmq_status status = ready(address && schema && options && out_job, "lwmq_job_open");
  if (status != LWMQ_OK) return status;
  std::unique_ptr<lwmq_job> job;
  status = stream::open_job(address, schema, schema_bytes, with_defaults(options), &job);
  if (status == LWMQ_OK) *out_job = job.release();
  return status;
}

lwmq_status lwmq_job_schema(const lwmq_job* job, const void** out_schema, uint64_t* out_bytes,
                            uint32_t* out_partitions) {
  const lwmq_status status = ready(job, out_schema && out_bytes && out_partitions, "lwmq_job_schema");
  if (status != LWMQ_OK) return status;
  *out_schema = job->schema.data();
  *out_bytes = job->schema.size();
  *out_partitions = job->partitions;
  return LWMQ_OK;
}

lwmq_status lwmq_job_commit(lwmq_job* job, uint64_t epoch, const lwmq_task_commit* tasks, uint32_t task_count,
                            uint32_t timeout_ms) {
  const lwmq_status status = ready(job, (tasks != nullptr || task_count == 0), "lwmq_job_commit");
  return status == LWMQ_OK ? stream::commit_job(*job, epoch, tasks, task_count, timeout_ms) : status;
}

lwmq_status lwmq_job_abort(lwmq_job* job, const char* reason, uint32_t timeout_ms) {
  const lwmq_status status = ready(job, true, "lwmq_job_abort");
  return status == LWMQ_OK ? stream::end_job(*job, true, reason, timeout_ms) : status;
}

lwmq_status lwmq_job_close(lwmq_job* job) {
  const lwmq_status status = ready(job, true, "lwmq_job_close");
  const std::unique_ptr<lwmq_job> handle(job);
  if (status != LWMQ_OK || !handle->reach.link) return status;  // an aborted job is over already
  return stream::end_job(*handle, false, nullptr, kTimeoutMs);
}

// ---- Reading ------------------------------------------------------------------------------------------

lwmq_status lwmq_reader_open(const char* address, const lwmq_reader_options* options,
                             lwmq_reader** out_reader) {
  LWMQ_SIZED(options);
  lwmq_status status = ready(address != nullptr && out_reader != nullptr, "lwmq_reader_open");
  if (status != LWMQ_OK) return status;
  auto given = lwmq::abi::read_options(options);
  set_default(given.timeout_ms, kTimeoutMs);
  set_default(given.credit, kReaderCredit);
  set_default(given.stall_ms, lwmq::kStallMs);
  set_default(given.writers, 1u);
  std::unique_ptr<lwmq_reader> reader;
  status = stream::open_reader(address, given, &reader);
  if (status == LWMQ_OK) *out_reader = reader.release();
  return status;
}

lwmq_status lwmq_reader_schema(lwmq_reader* reader, uint32_t timeout_ms, const void** out_schema,
                               uint64_t* out_bytes) {
  lwmq_status status = ready(reader, out_schema && out_bytes, "lwmq_reader_schema");
  if (status == LWMQ_OK) status = stream::await_schema(*reader, timeout_ms);
  if (status != LWMQ_OK) return status;
  *out_schema = reader->schema.data();
  *out_bytes = reader->schema.size();
  return LWMQ_OK;
}

lwmq_status lwmq_reader_next(lwmq_reader* reader, uint32_t timeout_ms, lwmq_batch** out_batch) {
  const lwmq_status status = ready(reader, out_batch != nullptr, "lwmq_reader_next");
  return status == LWMQ_OK ? stream::next(*reader, timeout_ms, out_batch) : status;
}

lwmq_status lwmq_reader_wait(lwmq_reader* reader, uint32_t timeout_ms) {
  const lwmq_status status = ready(reader, true, "lwmq_reader_wait");
  return status == LWMQ_OK ? stream::wait(*reader, timeout_ms) : status;
}

lwmq_status lwmq_reader_consume(lwmq_reader* reader) {
  const lwmq_status status = ready(reader, true, "lwmq_reader_consume");
  return status == LWMQ_OK ? stream::consume(*reader) : status;
}

lwmq_status lwmq_batch_query(const lwmq_batch* batch, lwmq_batch_info* out_info) {
  LWMQ_SIZED(out_info);
  const lwmq_status status = ready(batch, out_info != nullptr, "lwmq_batch_query");
  if (status == LWMQ_OK) lwmq::abi::write_output(batch->info, out_info);
  return status;
}

void lwmq_batch_release(lwmq_batch* batch) {
  if (batch == nullptr || lwmq::os::forked()) return;
  lwmq::abi::require_alive(batch->mark.is_alive(), __func__, name_of(batch));
  stream::release(batch);
}

lwmq_status lwmq_array_layout_create(const void* array, const lwmq_batch_info* batch, const void* head,
                                     uint64_t head_bytes, lwmq_array_layout** out_layout) {
  LWMQ_SIZED(batch);
  lwmq_status status = ready(array && batch && head && out_layout, "lwmq_array_layout_create");
  if (status != LWMQ_OK) return status;
  auto layout = std::make_unique<lwmq_array_layout>();
  status = stream::learn_layout(*static_cast<const ArrowArray*>(array), lwmq::abi::read_options(batch),
                                {static_cast<const char*>(head), head_bytes}, layout.get());
  if (status == LWMQ_OK) *out_layout = layout.release();
  return status;
}

void lwmq_array_layout_destroy(lwmq_array_layout* layout) { delete layout; }

lwmq_status lwmq_batch_export(lwmq_batch* batch, const lwmq_array_layout* layout, void* out_array) {
  const lwmq_status status = ready(batch, layout && out_array, "lwmq_batch_export");
  return status == LWMQ_OK ? stream::export_batch(batch, *layout, static_cast<ArrowArray*>(out_array))
                           : status;
}

lwmq_status lwmq_reader_query(const lwmq_reader* reader, lwmq_reader_statistics* out_statistics) {
  LWMQ_SIZED(out_statistics);
  const lwmq_status status = ready(reader, out_statistics != nullptr, "lwmq_reader_query");
  if (status != LWMQ_OK) return status;
  lwmq_reader_statistics statistics = reader->statistics;
  for (const auto& [number, view] : reader->views) {
    statistics.leased_batches += view->leased_batches.load(std::memory_order_relaxed);
    statistics.leased_bytes += view->leased_bytes.load(std::memory_order_relaxed);
  }
  lwmq::abi::write_output(statistics, out_statistics);
  return LWMQ_OK;
}

lwmq_status lwmq_reader_close(lwmq_reader* reader, uint32_t linger_ms) {
  const lwmq_status status = ready(reader, true, "lwmq_reader_close");
  const std::unique_ptr<lwmq_reader> handle(reader);
  return status == LWMQ_OK ? stream::close(*handle, linger_ms) : status;
}

void lwmq_reader_abandon(lwmq_reader* reader) {
  if (ready(reader, reader != nullptr, "lwmq_reader_abandon") != LWMQ_OK) return;
  const std::unique_ptr<lwmq_reader> handle(reader);
  stream::abandon(*handle);
}

}  // extern "C"
