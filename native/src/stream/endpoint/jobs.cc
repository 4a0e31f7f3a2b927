#include "stream/endpoint/jobs.h"

#include <algorithm>
#include <cinttypes>
#include <utility>

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
  if (!producer.loss.empty()) aborts_.push_back({log_->figures().arrived, LWMQ_E_DATA_LOSS, producer.loss});
  news_->for_readers = true;
}

void Jobs::abort(Producer& producer, Status status, const std::string& reason) {
  if (!std::exchange(producer.open, false)) return;
  --open_;
  if (producer.visible > 0) aborts_.push_back({log_->figures().arrived, status, reason});
  news_->for_readers = true;
}

void Jobs::note_loss(Producer& producer, const std::string& text) {
  producer.loss = text;
  if (!producer.open) aborts_.push_back({log_->figures().arrived, LWMQ_E_DATA_LOSS, text});
}

const Jobs::Abort& Jobs::tell(std::size_t abort, std::uint32_t reader) noexcept {
  Abort& told = aborts_[abort];
  if (!told.told_to) told.told_to = reader;
  return told;
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

Status Jobs::commit_task(Job& job, WriterSession& task, const std::uint8_t instance[16],
                         wire::TaskCommitted* out_result) {
  *out_result = {};
  const auto key = std::make_pair(task.epoch, task.task);
  const auto found = job.committed.find(key);
  if (found != job.committed.end() && !LWMQ_PLANTED("accept_twice")) {
    drop_all(&task.staged);
    *out_result = found->second.result;
    out_result->won = out_result->attempt == task.attempt ? 1 : 0;  // the winner asks again
    return LWMQ_OK;
  }
  // No driver will hear of what is gone: the tasks do, and the readers.
  if (job.tasks_expected != 0 && !job.producer->loss.empty()) {
    drop_all(&task.staged);
    abort(*job.producer, LWMQ_E_DATA_LOSS, job.producer->loss);
    retire(job);
    return fail(LWMQ_E_DATA_LOSS, "%s", job.producer->loss.c_str());
  }
  if (job.over) {
    drop_all(&task.staged);
    return LWMQ_OK;
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
  *out_result = result;
  LWMQ_YIELD("endpoint.commit_appended");
  if (job.tasks_expected != 0 && job.committed.size() >= job.tasks_expected) {
    for (auto& [place, each] : job.committed) show_staged(each);  // no driver will commit the job
    close(job);
  }
  return LWMQ_OK;
}

void Jobs::show_staged(CommittedTask& winner) {
  for (StagedEntry& one : winner.staged) log_->append(one.partition, std::move(one.entry));
  winner.staged.clear();
}

Status Jobs::commit_job(Job& job, const wire::CommitJob& letter) {
  if (!job.producer->loss.empty())
    return fail(LWMQ_E_DATA_LOSS, "%s; then run the job again", job.producer->loss.c_str());
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
    if (key.first == letter.epoch) show_staged(winner);
  }
  LWMQ_YIELD("endpoint.job_appended");
  return LWMQ_OK;
}

Status Jobs::committed_ranges(const wire::OpenReader& asked, const std::set<std::uint32_t>& partitions,
                              std::vector<wire::RangeField>* out_ranges) const {
  const std::shared_ptr<Job> job = find(asked.job);
  if (!job) return fail(LWMQ_E_DATA_LOSS, "job %s is not known here", asked.job.c_str());
  for (const wire::TaskNumber& one : asked.tasks) {
    const auto found = job->committed.find({asked.epoch, one.task});
    if (found == job->committed.end()) {
      return fail(LWMQ_E_DATA_LOSS, "task %u of job %s has not committed in epoch %" PRIu64, one.task,
                  asked.job.c_str(), asked.epoch);
    }
    for (const wire::CommittedField& range : found->second.result.ranges) {
      if (range.start < range.end && partitions.contains(range.partition))
        out_ranges->push_back({range.partition, range.start, range.end});
    }
  }
  // Tasks that follow each other become one range: a reader looks at each of its ranges for every batch.
  std::ranges::sort(*out_ranges, {}, [](const auto& r) { return std::pair(r.partition, r.start); });
  std::vector<wire::RangeField> merged;
  for (const wire::RangeField& range : *out_ranges) {  // a task that is named twice is read once
    if (!merged.empty() && merged.back().partition == range.partition && merged.back().end >= range.start)
      merged.back().end = range.end;
    else
      merged.push_back(range);
  }
  *out_ranges = std::move(merged);
  return LWMQ_OK;
}

void Jobs::close(Job& job) {
  if (job.over) return;
  retire(job);
  end(*job.producer);
}

void Jobs::abort(Job& job, const std::string& reason) {
  abort(*job.producer, LWMQ_E_ABORTED, reason);
  retire(job);
}

// Over, one way or the other: what waited for its commit goes, and its commits are remembered for a while.
void Jobs::retire(Job& job) {
  if (std::exchange(job.over, true)) return;
  for (auto& [key, winner] : job.committed) drop_all(&winner.staged);
  retired_.push_back(job.id);
  if (retired_.size() <= kRetiredMax) return;
  jobs_.erase(retired_.front());
  retired_.erase(retired_.begin());
}

}  // namespace lwmq::stream
