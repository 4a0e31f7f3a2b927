// Writing to a stream, and jobs of many writers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/handle_mark.h"
#include "base/status.h"
#include "lwmq/lwmq.h"
#include "stats/waiting.h"
#include "stream/bounds.h"
#include "stream/client/writer_connection.h"

struct lwmq_writer {
  // Null when closed. Without its link where the writer has ended and waits for the other clients of a stream
  // that this process serves.
  std::unique_ptr<lwmq::stream::WriterConnection> connection;
  std::string address;
  std::string schema;  // as declared
  lwmq::stream::BoundsWriter bounds;
  std::uint32_t partitions = 0;
  bool has_job = false;
  std::uint32_t own_partition = 0;  // with a job: of its task
  std::uint32_t delivery = 0;
  std::uint64_t window_bytes = 0, staging_bytes = 0;
  std::uint32_t expel_after_ms = 0;  // 0: never
  std::uint64_t staged_bytes = 0;    // published and not yet committed
  bool committed = false;
  std::vector<lwmq_committed_range> committed_ranges;  // of the task, whichever attempt has won
  bool closing = false;
  lwmq_writer_statistics statistics{};
  std::uint64_t readers_lost_before = 0;      // of an endpoint of this process: before this writer came
  std::uint64_t readers_lost_told = 0;        // with these
  std::shared_ptr<lwmq::stats::Entry> entry;  // what others see of it
  lwmq::stats::Waiting waiting;
  lwmq::HandleMark mark;
};

struct lwmq_job {
  lwmq::stream::Connection connection;
  std::string schema;
  std::uint32_t partitions = 0;
  // Requests that were sent and not answered yet, and the last of them: asked again, it is not sent again.
  std::uint64_t owed = 0;
  std::string last_request;
  lwmq::HandleMark mark;
};

namespace lwmq::stream {

Status open_writer(const char* address, const void* schema, std::uint64_t schema_bytes,
                   const lwmq_writer_options& options, std::unique_ptr<lwmq_writer>* out_writer);
// How many readers the endpoint has lost since this writer came; 0 where another process serves.
std::uint64_t readers_lost(const lwmq_writer& writer);
// What befell the last of them, once for each; LWMQ_E_EMPTY: nothing new.
Status lost_reader(lwmq_writer& writer, std::string* out_text);
Status allocate(lwmq_writer& writer, std::uint64_t bytes, std::uint32_t timeout_ms, lwmq_block* out_block);
Status publish(lwmq_writer& writer, lwmq_block* block, std::uint32_t partition, std::uint64_t bytes,
               std::uint64_t rows, std::uint32_t flags);
void discard(lwmq_writer& writer, lwmq_block* block);
Status commit(lwmq_writer& writer, std::uint32_t timeout_ms, lwmq_commit_result* out_result);
Status abort(lwmq_writer& writer, const char* reason);
Status close(lwmq_writer& writer, std::uint32_t linger_ms);

Status open_job(const char* address, const void* schema, std::uint64_t schema_bytes,
                const lwmq_writer_options& options, std::unique_ptr<lwmq_job>* out_job);
Status commit_job(lwmq_job& job, std::uint64_t epoch, const lwmq_task_commit* tasks, std::uint32_t task_count,
                  std::uint32_t timeout_ms);
Status end_job(lwmq_job& job, bool aborted, const char* reason, std::uint32_t timeout_ms);

}  // namespace lwmq::stream
