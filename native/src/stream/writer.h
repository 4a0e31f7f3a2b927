// Writing to a stream, and jobs of many writers.
//
// What a writer needs to reach its endpoint - a conversation and a pool of windows - is a *line*. A line outlives its
// writer: it is kept for the next writer of this process at the same address, so that the tasks of a Spark job, one after
// the other, write into memory that is mapped and warm.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "lwmq/lwmq.h"
#include "stream/client.h"
#include "stream/window_pool.h"

namespace lwmq::stream {

class Line {
 public:
  explicit Line(Reach reach) noexcept;
  ~Line();

  // Takes a line from the shelf, or makes one.
  static Status take(const char* address, std::int32_t role, const Deadline& deadline, std::unique_ptr<Line>* out_line);
  // Puts it back where that is of use; else parts from the endpoint, waiting at most until the deadline.
  static Status give_back(std::unique_ptr<Line> line, const Deadline& deadline);

  // Handles what has come, without waiting; or one message that the caller has received.
  Status pump();
  Status handle(wire::StreamKind kind, const std::string& bytes);
  [[nodiscard]] bool is_connected() const noexcept;

  Reach reach;
  WindowPool pool;
  bool room_asked = false;
  bool drained_known = false;
  wire::Drained drained{};
  std::int64_t shelved_ns = 0;
};

}  // namespace lwmq::stream

struct lwmq_writer {
  std::unique_ptr<lwmq::stream::Line> line;  // null when closed
  std::string address;
  std::string schema;  // as declared
  std::uint32_t partitions = 0;
  bool has_job = false;
  std::uint32_t delivery = 0;
  std::uint64_t window_bytes = 0, staging_bytes = 0;
  std::uint64_t staged_bytes = 0;  // published and not yet committed
  bool committed = false;
  bool closing = false;
  lwmq_writer_statistics statistics{};
};

struct lwmq_job {
  lwmq::stream::Reach reach;
  std::string schema;
  std::uint32_t partitions = 0;
};

namespace lwmq::stream {

Status open_writer(const char* address, const void* schema, std::uint64_t schema_bytes,
                   const lwmq_writer_options& options, std::unique_ptr<lwmq_writer>* out_writer);
Status allocate(lwmq_writer& writer, std::uint64_t bytes, std::uint32_t timeout_ms, lwmq_block* out_block);
Status publish(lwmq_writer& writer, lwmq_block* block, std::uint32_t partition, std::uint64_t bytes, std::uint64_t rows,
               std::uint32_t flags);
void discard(lwmq_writer& writer, lwmq_block* block);
Status commit(lwmq_writer& writer, std::uint32_t timeout_ms, lwmq_commit_result* out_result);
Status abort(lwmq_writer& writer, const char* reason);
Status close(lwmq_writer& writer, std::uint32_t linger_ms);

Status open_job(const char* address, const void* schema, std::uint64_t schema_bytes, const lwmq_writer_options& options,
                std::unique_ptr<lwmq_job>* out_job);
Status commit_job(lwmq_job& job, std::uint64_t epoch, const lwmq_task_commit* tasks, std::uint32_t task_count,
                  std::uint32_t timeout_ms);
Status end_job(lwmq_job& job, bool aborted, const char* reason, std::uint32_t timeout_ms);

}  // namespace lwmq::stream
