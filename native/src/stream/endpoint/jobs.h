// Who writes the stream: producers, which are writers by themselves or jobs of many writers. Decides which
// attempt of a task may commit, and when the stream has ended. Knows no clients.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "stream/endpoint/client.h"
#include "stream/log/log.h"

namespace lwmq::stream {

// The attempt of a task that has committed.
struct CommittedTask {
  wire::TaskCommitted result;
  std::vector<StagedEntry> staged;  // delivery = job: waits for the job
  [[nodiscard]] std::uint64_t batches() const noexcept;
};

struct Job {
  std::string id;
  std::shared_ptr<Producer> producer;
  std::uint32_t tasks_expected = 0;  // 0: a driver says when the job is over
  bool over = false;
  std::map<std::pair<std::uint64_t, std::uint32_t>, CommittedTask> committed;  // by epoch and task
};

class Jobs {
 public:
  Jobs(Log* log, News* news) noexcept : log_(log), news_(news) {}

  // A producer ended without ending its stream: it gave up (LWMQ_E_ABORTED), or is lost. Or it has ended, and
  // some of it is gone (LWMQ_E_DATA_LOSS).
  struct Abort {
    std::uint64_t arrival;  // of the next batch
    Status status;
    std::string reason;
    std::optional<std::uint32_t> told_to = {};  // the first reader that has heard it, by name
  };

  std::shared_ptr<Producer> open_producer(std::string name);
  void end(Producer& producer);
  // What nobody saw has never been; what was seen is followed by the news.
  void abort(Producer& producer, Status status, const std::string& reason);
  // Batches of the producer are gone that a reader had taken and not finished.
  void note_loss(Producer& producer, const std::string& text);

  // Null: no job has this id.
  [[nodiscard]] std::shared_ptr<Job> find(const std::string& id) const;
  std::shared_ptr<Job> open(const std::string& id, std::uint32_t tasks_expected);
  // The first attempt of a task wins: its staged batches become visible, or wait for the job. Those of every
  // other attempt are dropped. `instance`: of the process that asks. LWMQ_E_DATA_LOSS with a text: batches of
  // a job without a driver are gone, and the job has ended with that.
  Status commit_task(Job& job, WriterSession& task, const std::uint8_t instance[16],
                     wire::TaskCommitted* out_result);
  // Every commit that the driver counts on must be here; then the batches that waited for the job become
  // visible, in the order of its tasks. LWMQ_E_DATA_LOSS with a text: nothing was committed.
  Status commit_job(Job& job, const wire::CommitJob& letter);
  // The ranges of `partitions` that the tasks of `asked` have committed, by partition and number.
  // LWMQ_E_DATA_LOSS with a text: one of them has not committed.
  Status committed_ranges(const wire::OpenReader& asked, const std::set<std::uint32_t>& partitions,
                          std::vector<wire::RangeField>* out_ranges) const;
  void close(Job& job);
  void abort(Job& job, const std::string& reason);

  [[nodiscard]] std::uint32_t open_count() const noexcept { return open_; }
  // At least one producer, and no fewer than `writers`, have come and ended, and none is open.
  [[nodiscard]] bool have_ended(std::uint32_t writers) const noexcept;
  // An empty stream is read by hearing of its end; where there were batches, the last of them tells as much.
  // Whether the stream is empty and has ended, and fewer readers have heard than it asks for.
  [[nodiscard]] bool end_is_unread() const noexcept;
  void note_end_read(std::uint32_t reader);
  [[nodiscard]] bool has_read_end(std::uint32_t reader) const noexcept {
    return end_read_by_.contains(reader);
  }
  [[nodiscard]] const std::vector<Abort>& aborts() const noexcept { return aborts_; }
  // This reader hears of it now.
  const Abort& tell(std::size_t abort, std::uint32_t reader) noexcept;

 private:
  void show_staged(CommittedTask& winner);
  void retire(Job& job);

  Log* const log_;
  News* const news_;
  std::uint32_t open_ = 0;
  std::uint32_t ended_ = 0;
  std::set<std::uint32_t> end_read_by_;  // names, by number
  std::vector<Abort> aborts_;
  std::map<std::string, std::shared_ptr<Job>> jobs_;
  std::vector<std::string> retired_;  // oldest first
};

}  // namespace lwmq::stream
