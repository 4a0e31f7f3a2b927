// Writing to a stream: writers, and jobs, which are many writers that count as one producer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/handle_mark.h"
#include "base/status.h"
#include "lwmq/lwmq.h"
#include "stats/waiting.h"
#include "stream/line.h"

struct lwmq_writer {
  // Null when closed; without its link where only those are waited for whom the endpoint of this process
  // serves.
  std::unique_ptr<lwmq::stream::Line> line;
  std::string address;
  std::string schema;  // as declared
  std::uint32_t partitions = 0;
  bool has_job = false;
  std::uint32_t own_partition = 0;                     // of a task
  std::vector<lwmq_committed_range> committed_ranges;  // of the task, whichever attempt has won
  std::uint32_t delivery = 0;
  std::uint64_t window_bytes = 0, staging_bytes = 0;
  std::uint32_t expel_after_ms = 0;  // 0: never
  std::uint64_t staged_bytes = 0;    // published and not yet committed
  bool committed = false;
  bool closing = false;
  lwmq_writer_statistics statistics{};
  std::shared_ptr<lwmq::stats::Entry> entry;  // what others see of it
  lwmq::stats::Waiting waiting;
  lwmq::HandleMark mark;
};

struct lwmq_job {
  lwmq::stream::Reach reach;
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
// What befell the reader that was lost last, once for each; LWMQ_E_EMPTY: nothing new.
Status lost_reader(lwmq_writer& writer, std::string* out_text);
Status allocate(lwmq_writer& writer, std::uint64_t bytes, std::uint32_t timeout_ms, lwmq_block* out_block);
Status publish(lwmq_writer& writer, lwmq_block* block, std::uint32_t partition, std::uint64_t bytes,
               std::uint64_t rows, std::uint32_t flags);
void discard(lwmq_writer& writer, lwmq_block* block);
Status hold(lwmq_writer& writer, const lwmq_block& block, lwmq_hold** out_hold);
Status commit(lwmq_writer& writer, std::uint32_t timeout_ms, lwmq_commit_result* out_result);
Status abort(lwmq_writer& writer, const char* reason);
Status close(lwmq_writer& writer, std::uint32_t linger_ms);

Status open_job(const char* address, const void* schema, std::uint64_t schema_bytes,
                const lwmq_writer_options& options, std::unique_ptr<lwmq_job>* out_job);
Status commit_job(lwmq_job& job, std::uint64_t epoch, const lwmq_task_commit* tasks, std::uint32_t task_count,
                  std::uint32_t timeout_ms);
Status end_job(lwmq_job& job, bool aborted, const char* reason, std::uint32_t timeout_ms);

}  // namespace lwmq::stream
