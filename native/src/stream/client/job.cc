// Jobs: many writers that count as one producer. The driver's end of it.
#include <string>
#include <utility>

#include "base/yield_point.h"
#include "stream/client/producer.h"
#include "stream/client/writer.h"

namespace lwmq::stream {

Status open_job(const char* address, const void* schema, std::uint64_t schema_bytes,
                const lwmq_writer_options& options, std::unique_ptr<lwmq_job>* out_job) {
  Status status = check(address, schema, schema_bytes, options);
  if (status != LWMQ_OK) return status;
  if (options.job == nullptr) return fail(LWMQ_E_INVALID, "%s: a job needs a name", address);
  const Deadline deadline(options.timeout_ms);
  auto job = std::make_unique<lwmq_job>();
  wire::Opened answer;
  do {
    status = connect(address, options.role, deadline, options.stall_ms, &job->connection);
    if (status == LWMQ_OK) {
      status = open_with(job->connection, wire::StreamKind::kOpenJob,
                         letter_of(schema, schema_bytes, options), deadline, &answer);
    }
  } while (ask_again(&status, deadline));
  if (status != LWMQ_OK) return status;
  job->schema = std::move(answer.schema);
  job->partitions = answer.partitions;
  *out_job = std::move(job);
  return LWMQ_OK;
}

namespace {

// Sends, and reads the JobCommitted that answers; each request is answered once, in order.
Status ask_job(lwmq_job& job, wire::StreamKind kind, const std::string& request, std::uint32_t timeout_ms) {
  if (!job.connection.link)
    return fail(LWMQ_E_CLOSED, "%s: this job is over", job.connection.address.c_str());
  Status status = LWMQ_OK;
  const std::string whole = std::to_string(static_cast<std::uint32_t>(kind)) + ":" + request;
  if (job.owed == 0 || job.last_request != whole) {
    LWMQ_YIELD("job.ask");
    status = job.connection.link->send(kind, request.data(), request.size());
    LWMQ_YIELD("job.asked");
    if (status == LWMQ_OK) ++job.owed;
    job.last_request = whole;
  }
  std::string bytes;
  const Deadline deadline(timeout_ms);
  while (status == LWMQ_OK && job.owed > 0) {
    status = await_answer(job.connection, wire::StreamKind::kJobCommitted, deadline, &bytes);
    if (status == LWMQ_OK) --job.owed;
  }
  if (status == LWMQ_E_TIMED_OUT) {
    return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint has not answered", job.connection.address.c_str());
  }
  if (status != LWMQ_OK) return status;
  LWMQ_YIELD("job.answered");
  wire::Text answer;
  if (!wire::decode(bytes, &answer))
    return fail(LWMQ_E_CORRUPT, "the endpoint's answer to a job is malformed");
  return answer.status == LWMQ_OK ? LWMQ_OK : fail(told_failure(answer.status), "%s", answer.text.c_str());
}

}  // namespace

Status commit_job(lwmq_job& job, std::uint64_t epoch, const lwmq_task_commit* tasks, std::uint32_t task_count,
                  std::uint32_t timeout_ms) {
  wire::CommitJob letter;
  letter.epoch = epoch;
  for (std::uint32_t i = 0; i < task_count; ++i) {
    letter.tasks.push_back({tasks[i].task, tasks[i].partition, tasks[i].attempt, tasks[i].batches});
  }
  return ask_job(job, wire::StreamKind::kCommitJob, wire::encode(letter), timeout_ms);
}

Status end_job(lwmq_job& job, bool aborted, const char* reason, std::uint32_t timeout_ms) {
  wire::Text letter;
  letter.status = LWMQ_E_ABORTED;
  if (reason != nullptr) letter.text = std::string(reason).substr(0, kReasonBytesMax);
  const auto kind = aborted ? wire::StreamKind::kAbortJob : wire::StreamKind::kCloseJob;
  const Status status = ask_job(job, kind, aborted ? wire::encode(letter) : std::string(), timeout_ms);
  if (status != LWMQ_E_INTERRUPTED) job.connection.link.reset();
  return status;
}

}  // namespace lwmq::stream
