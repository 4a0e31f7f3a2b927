#include "stream/endpoint/jobs.h"

#include <algorithm>

#include "base/yield_point.h"

namespace lwmq::stream {
namespace {

constexpr std::size_t kRetiredMax = 1024;  // jobs remembered, so that a late attempt hears who has won

}  // namespace

// ---- Producers --------------------------------------------------------------------------------------

std::shared_ptr<Producer> Jobs::open_producer(std::string name) {
  auto producer = std::make_shared<Producer>();
  producer->name = std::move(name);
  ++open_;
  return producer;
}

void Jobs::end(Producer& producer) {
  if (!std::exchange(producer.open, false)) return;
  if (--open_ == 0) end_read_by_.clear();
  ++ended_;
  news_->for_readers = true;
}

void Jobs::abort(Producer& producer, Status status, const std::string& reason) {
  if (!std::exchange(producer.open, false)) return;
  --open_;
  if (producer.visible > 0) aborts_.push_back({log_->figures().arrived, status, reason});
  news_->for_readers = true;
}

bool Jobs::have_ended(std::uint32_t writers) const noexcept {
  return log_->is_declared() && open_ == 0 && ended_ >= std::max<std::uint32_t>(writers, 1);
}

bool Jobs::end_is_unread() const noexcept {
  return log_->figures().arrived == 0 && have_ended(1) && end_read_by_.size() < log_->readers_needed();
}

void Jobs::note_end_read(std::uint32_t reader) {
  news_->for_writers = true;
  if (log_->figures().arrived == 0) end_read_by_.insert(reader);
}

// ---- Jobs -------------------------------------------------------------------------------------------

std::uint64_t CommittedTask::batches() const noexcept {
  std::uint64_t sum = 0;
  for (const wire::CommittedField& range : result.ranges) sum += range.batches;
  return sum;
}

std::shared_ptr<Job> Jobs::find(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second;
}

std::shared_ptr<Job> Jobs::open(const std::string& id, std::uint32_t tasks_expected) {
  auto job = std::make_shared<Job>();
  job->id = id;
  job->producer = open_producer(id);
  job->tasks_expected = tasks_expected;
  jobs_[id] = job;
  return job;
}

wire::TaskCommitted Jobs::commit_task(Job& job, WriterSession& task, const std::uint8_t instance[16]) {
  const auto key = std::make_pair(task.epoch, task.task);
  const auto found = job.committed.find(key);
  if (found != job.committed.end() && !LWMQ_PLANTED("accept_twice")) {
    drop_all(&task.staged);
    wire::TaskCommitted result = found->second.result;
    result.won = result.attempt == task.attempt ? 1 : 0;  // the winner asks again
    return result;
  }
  if (job.over) {
    drop_all(&task.staged);
    return {};
  }
  LWMQ_YIELD("endpoint.commit");
  CommittedTask& winner = job.committed[key];
  if (task.delivery == LWMQ_DELIVERY_TASK) {
    for (auto& [partition, written] : task.written) written.start = (*log_)[partition].next_seq();
    for (StagedEntry& one : task.staged) log_->append(one.partition, std::move(one.entry));
    for (auto& [partition, written] : task.written) written.end = (*log_)[partition].next_seq();
  } else if (task.delivery == LWMQ_DELIVERY_JOB) {
    winner.staged = std::move(task.staged);
  }
  task.staged.clear();
  wire::TaskCommitted& result = winner.result;
  result.won = 1;
  result.attempt = task.attempt;
  result.instance.assign(reinterpret_cast<const char*>(instance), 16);
  for (const auto& [partition, written] : task.written) result.ranges.push_back(written);
  LWMQ_YIELD("endpoint.commit_appended");
  if (job.tasks_expected != 0 && job.committed.size() >= job.tasks_expected) close(job);
  return result;
}

Status Jobs::commit_job(Job& job, const wire::CommitJob& letter) {
  for (const auto& task : letter.tasks) {
    const auto found = job.committed.find({letter.epoch, task.task});
    if (found != job.committed.end() && found->second.result.attempt == task.attempt &&
        found->second.batches() == task.batches) {
      continue;
    }
    return fail(LWMQ_E_DATA_LOSS,
                "job %s, epoch %" PRIu64 ": the commit of task %u (attempt %" PRIu64 ", %" PRIu64
                " batches) is not here; nothing was committed, run the job again",
                job.id.c_str(), letter.epoch, task.task, task.attempt, task.batches);
  }
  for (auto& [key, winner] : job.committed) {
    if (key.first != letter.epoch) continue;
    for (StagedEntry& one : winner.staged) log_->append(one.partition, std::move(one.entry));
    winner.staged.clear();
  }
  LWMQ_YIELD("endpoint.job_appended");
  return LWMQ_OK;
}

void Jobs::close(Job& job) {
  if (std::exchange(job.over, true)) return;
  retire(job);
  end(*job.producer);
}

void Jobs::abort(Job& job, const std::string& reason) {
  abort(*job.producer, LWMQ_E_ABORTED, reason);
  if (!std::exchange(job.over, true)) retire(job);
}

// Over, one way or the other: what waited for its commit goes, and its commits are remembered for a while.
void Jobs::retire(Job& job) {
  for (auto& [key, winner] : job.committed) drop_all(&winner.staged);
  retired_.push_back(job.id);
  if (retired_.size() <= kRetiredMax) return;
  jobs_.erase(retired_.front());
  retired_.erase(retired_.begin());
}

}  // namespace lwmq::stream
