// The endpoint towards writers and jobs: declaring, publishing, committing, ending.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/cache_line.h"
#include "base/checked.h"
#include "base/yield_point.h"
#include "os/identity.h"
#include "os/process_name.h"
#include "stream/conversation.h"
#include "stream/endpoint.h"
#include "stream/window_pool.h"

namespace lwmq::stream {
namespace {

constexpr std::size_t kFinishedJobsKept = 1024;  // so that a late attempt hears who won

Status corrupt(const char* what) noexcept { return fail(LWMQ_E_CORRUPT, "%s is malformed", what); }

std::string bytes16(const std::uint8_t* bytes) { return {reinterpret_cast<const char*>(bytes), 16}; }

}  // namespace

// ---- Opening ----------------------------------------------------------------------------------------

wire::Opened Endpoint::opened() const {
  wire::Opened letter;
  letter.partitions = static_cast<std::uint32_t>(logs_.size());
  letter.retain = retain_;
  letter.server = static_cast<std::uint32_t>(served_by());
  letter.generation = generation_;
  letter.schema = schema_;
  return letter;
}

wire::Server Endpoint::served_by() const {
  auto found = wire::Server::kEndpoint;
  for (const auto& c : conversations_) {
    if (c->over || std::memcmp(c->peer.instance, os::identity().instance, sizeof c->peer.instance) != 0)
      continue;
    if (c->writer) return wire::Server::kWriter;
    if (c->reader) found = wire::Server::kReader;
  }
  return found;
}

// Says no; the conversation may go on with something else.
Status Endpoint::refuse(Conversation& c, Status status, const char* text) {
  wire::Opened letter;
  letter.status = status;
  letter.text = address_ + ": " + text;
  return c.link.send_letter(wire::StreamKind::kOpened, letter);
}

// The first producer says what the stream is; for the others it is what it is.
Status Endpoint::declare(const wire::OpenProducer& letter) {
  if (declared_) return LWMQ_OK;
  if (letter.partitions == 0 || letter.partitions > kPartitionsMax || letter.retain > LWMQ_RETAIN_NONE ||
      letter.readers == 0 || letter.schema.empty()) {
    return fail(LWMQ_E_INVALID,
                "a stream has 1 to %u partitions (not %u), a schema, and at least one reader to wait for",
                kPartitionsMax, letter.partitions);
  }
  declared_ = true;
  schema_ = letter.schema;
  retain_ = letter.retain;
  readers_needed_ = letter.readers;
  logs_.resize(letter.partitions);
  for (auto& c : conversations_) {
    if (c->reader && !c->reader->declared) declare_to(*c);
  }
  answer_describes();
  return LWMQ_OK;
}

std::shared_ptr<Job> Endpoint::find_job(const std::string& id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? nullptr : found->second;
}

Status Endpoint::open_writer(Conversation& c, const std::string& bytes) {
  wire::OpenProducer letter;
  if (!wire::decode(bytes, &letter) || c.writer || c.reader) return corrupt("OpenWriter");
  std::shared_ptr<Job> job = letter.job.empty() ? nullptr : find_job(letter.job);
  if (declare(letter) != LWMQ_OK) return refuse(c, LWMQ_E_INVALID, last_error());
  if (!letter.job.empty()) {
    if (!job && letter.job_tasks == 0) {
      return refuse(c, LWMQ_E_ABORTED,
                    ("job " + letter.job +
                     " is not open here: its driver has left, or the endpoint is "
                     "another one than when the job began")
                        .c_str());
    }
    if (!job) {
      job = jobs_[letter.job] = std::make_shared<Job>();
      job->producer = std::make_shared<Producer>();
      job->producer->name = letter.job;
      job->delivery = letter.delivery;
      job->tasks_expected = letter.job_tasks;
      ++producers_open_;
    }
  }
  if (!c.pool) {
    auto pool = std::make_shared<Pool>();
    pool->number = next_pool_++;
    pool->provider = provider_;
    pool->conversation = &c;
    LWMQ_YIELD("endpoint.ledger");
    if (provider_->window_create(kLapPageBytes, &pool->ledger_window) != LWMQ_OK ||
        c.link.show_window(pool->ledger_window) != LWMQ_OK) {
      return refuse(c, LWMQ_E_NO_MEMORY, last_error());
    }
    lwmq_tli_window_info info;
    provider_->window_info(pool->ledger_window, &info);
    pool->ledger = reinterpret_cast<LapPage>(info.base);
    LWMQ_YIELD("endpoint.ledger_exported");
    c.pool = std::move(pool);
  }
  c.pool->window_bytes = letter.window_bytes;
  c.pool->stall_ms = letter.stall_ms == 0 || letter.stall_ms == LWMQ_FOREVER ? kStallMs : letter.stall_ms;
  c.pool->expel_after_ms = letter.expel_after_ms;
  c.pool->waits_since_ns = 0;
  c.who = os::process_name(c.peer.pid);
  auto session = std::make_unique<WriterSession>();
  session->job = letter.job;
  session->task = letter.task;
  session->attempt = letter.attempt;
  session->epoch = letter.epoch;
  session->delivery = job ? letter.delivery : static_cast<std::uint32_t>(LWMQ_DELIVERY_LIVE);
  if (job) {
    session->producer = job->producer;
  } else {
    session->producer = std::make_shared<Producer>();
    session->producer->name = "writer in " + c.who;
    ++producers_open_;
  }
  c.writer = std::move(session);
  wire::Opened answer = opened();
  lwmq_tli_window_info info;
  provider_->window_info(c.pool->ledger_window, &info);
  answer.ledger = bytes16(info.id);
  return c.link.send_letter(wire::StreamKind::kOpened, answer);
}

Status Endpoint::open_job(Conversation& c, const std::string& bytes) {
  wire::OpenProducer letter;
  if (!wire::decode(bytes, &letter) || letter.job.empty() || c.job || c.writer || c.reader)
    return corrupt("OpenJob");
  if (declare(letter) != LWMQ_OK) return refuse(c, LWMQ_E_INVALID, last_error());
  if (find_job(letter.job)) {
    return refuse(c, LWMQ_E_INVALID, ("job " + letter.job + " was opened here before").c_str());
  }
  c.who = os::process_name(c.peer.pid);
  auto session = std::make_unique<JobSession>();
  session->id = letter.job;
  session->job = jobs_[letter.job] = std::make_shared<Job>();
  session->job->delivery = letter.delivery;
  session->job->producer = std::make_shared<Producer>();
  session->job->producer->name = letter.job;
  ++producers_open_;
  c.job = std::move(session);
  return c.link.send_letter(wire::StreamKind::kOpened, opened());
}

// ---- Windows and batches ----------------------------------------------------------------------------

Status Endpoint::add_window(Conversation& c, const std::string& bytes) {
  wire::Window record;
  if (!read_record(bytes, &record) || !c.pool || record.index != c.pool->windows.size() ||
      record.index >= kWindowSlotsMax) {
    return corrupt("Window");
  }
  lwmq_tli_window* window = nullptr;
  LWMQ_YIELD("endpoint.window");
  const Status status = c.link.find_window(record.id, &window);
  if (status != LWMQ_OK) return status;
  record.pool = c.pool->number;
  record.pid = c.peer.pid;
  c.pool->windows.push_back(window);
  c.pool->announcements.push_back(record);
  return LWMQ_OK;
}

Status Endpoint::publish(Conversation& c, const std::string& bytes) {
  wire::Publish block;
  if (!read_record(bytes, &block) || !c.writer || c.writer->closing) return corrupt("Publish");
  WriterSession& session = *c.writer;
  if (!session.job.empty()) block.partition = session.task % static_cast<std::uint32_t>(logs_.size());
  lwmq_tli_window_info info{};
  if (block.window < c.pool->windows.size()) provider_->window_info(c.pool->windows[block.window], &info);
  if (block.partition >= logs_.size() || block.slot >= kFinishedSlot || block.lap == 0 ||
      (block.flags & ~std::uint32_t{LWMQ_BATCH_IPC_STREAM}) != 0 || block.offset % kCacheLine != 0 ||
      !fits(block.offset, block.bytes, info.bytes)) {
    return fail(LWMQ_E_CORRUPT,
                "a batch of %" PRIu64 " bytes at %" PRIu64 " of window %u (%" PRIu64
                " bytes), slot %u in lap %u, flags %#x, for partition %u of %zu",
                block.bytes, block.offset, block.window, info.bytes, block.slot, block.lap, block.flags,
                block.partition, logs_.size());
  }
  session.result.partition = block.partition;
  ++session.result.batches;
  session.result.rows += block.rows;
  session.result.bytes += block.bytes;
  Entry entry;
  entry.pool = c.pool;
  entry.producer = session.producer;
  entry.block = block;
  if (session.delivery != LWMQ_DELIVERY_LIVE) {
    session.staged.push_back(std::move(entry));
    return LWMQ_OK;
  }
  std::uint64_t seq = 0;
  LWMQ_YIELD("endpoint.publish");
  append(std::move(entry), block.partition, &seq);
  if (session.result.batches == 1) session.result.start_seq = seq;
  session.result.end_seq = seq + 1;
  advance_all();
  return LWMQ_OK;
}

void Endpoint::append(Entry entry, std::uint32_t partition, std::uint64_t* out_seq) {
  entry.arrival = arrivals_++;
  entry.block.partition = partition;
  ++entry.producer->visible;
  ++entry.producer->unconsumed;
  ++unread_batches_, ++awaited_batches_, ++kept_batches_;
  kept_bytes_ += entry.block.bytes;
  rows_ += entry.block.rows, bytes_ += entry.block.bytes;
  *out_seq = logs_[partition].append(std::move(entry));
}

// The block goes back to its writer: the ledger says so, and a message where the writer waits.
void Endpoint::drop_block(const Entry& entry) {
  Pool& pool = *entry.pool;
  const auto apart = pool.quarantine.find(entry.block.slot);
  if (apart == pool.quarantine.end()) {
    give_back(pool, entry.block.slot, entry.block.lap);
  } else {
    apart->second.dropped = true;
  }
}

void Endpoint::give_back(Pool& pool, std::uint32_t slot, std::uint32_t lap) {
  if (pool.is_behind()) {
    pool.held_drops.emplace_back(slot, lap);
  } else {
    store_drop(pool, slot, lap);
  }
}

void Endpoint::store_drop(Pool& pool, std::uint32_t slot, std::uint32_t lap) {
  LWMQ_YIELD("endpoint.drop");
  pool.ledger[slot].store(lap, std::memory_order_release);  // sync: block-dropped
  LWMQ_YIELD("endpoint.dropped");
  pool.drops_unheard = true;
  tell_room(pool);
}

// Lets a writer that waits look at the ledger again.
void Endpoint::tell_room(Pool& pool) {
  if (!pool.wants_room || !pool.drops_unheard || pool.conversation == nullptr) return;
  pool.wants_room = false;
  pool.waits_since_ns = 0;
  pool.drops_unheard = false;
  pool.conversation->link.send(wire::StreamKind::kRoom, nullptr, 0);
}

void Endpoint::drop_staged(std::vector<Entry>& staged) {
  for (const Entry& entry : staged) drop_block(entry);
  staged.clear();
}

// A writer has no room.
Status Endpoint::want_room(Conversation& c, const std::string& bytes) {
  wire::WantRoom record;
  if (!read_record(bytes, &record) || !c.pool) return corrupt("WantRoom");
  c.pool->wants_room = true;
  c.pool->wanted_bytes = record.bytes;
  begin_to_wait(*c.pool);
  make_room(*c.pool);
  tell_room(*c.pool);  // of drops between the writer's look at the ledger and its message
  return LWMQ_OK;
}

// What was consumed and is only kept for an attempt that might come again is given up, oldest first, until
// there is as much as the writer asks for.
void Endpoint::make_room(Pool& pool) {
  if (retain_ == LWMQ_RETAIN_ALL) return;
  struct Candidate {
    std::uint64_t arrival;
    std::uint32_t partition;
    std::uint64_t seq, bytes;
  };
  std::vector<Candidate> candidates;
  for (std::uint32_t p = 0; p < logs_.size(); ++p) {
    logs_[p].for_each([&](std::uint64_t seq, const Entry& entry) {
      if (entry.pool.get() == &pool && entry.handed_out == 0 && entry.consumed() >= readers_needed_ &&
          !is_needed(p, seq)) {
        candidates.push_back({entry.arrival, p, seq, entry.block.bytes});
      }
      return true;
    });
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.arrival < b.arrival; });
  std::uint64_t freed = 0;
  for (const Candidate& candidate : candidates) {
    if (freed >= pool.wanted_bytes) break;
    freed += candidate.bytes;
    remove(candidate.partition, candidate.seq, true);
  }
}

// ---- Ending -----------------------------------------------------------------------------------------

Status Endpoint::close_writer(Conversation& c) {
  if (!c.writer) return corrupt("CloseWriter");
  WriterSession& session = *c.writer;
  drop_staged(session.staged);  // never committed
  if (!session.job.empty()) {
    c.writer.reset();  // its job is the producer; the pool stays for the next task
    return c.link.send_record(wire::StreamKind::kDrained, wire::Drained{});
  }
  if (!session.closing) {
    session.closing = true;
    end_producer(session.producer);
    begin_to_wait(*c.pool);
  }
  report_drained();
  return LWMQ_OK;
}

Status Endpoint::abort_writer(Conversation& c, const std::string& bytes) {
  wire::Text letter;
  if (!wire::decode(bytes, &letter) || !c.writer) return corrupt("AbortWriter");
  drop_staged(c.writer->staged);
  const auto session = std::move(c.writer);
  if (session->job.empty() && session->producer->open)
    abort_producer(session->producer, LWMQ_E_ABORTED, letter.text);
  return c.link.send_record(wire::StreamKind::kDrained, wire::Drained{});
}

// Tells writers that are closing how much of theirs is still unread: at first, and when it is nothing.
void Endpoint::report_drained() {
  const std::uint32_t readers = readers_open();
  for (auto& c : conversations_) {
    if (!c->writer || !c->writer->closing) continue;
    WriterSession& session = *c->writer;
    const std::uint64_t unconsumed = session.producer->unconsumed + (end_is_news() ? 1 : 0);
    if (unconsumed != 0 && session.reported != ~std::uint64_t{0}) continue;
    session.reported = unconsumed;
    wire::Drained record{};
    record.unconsumed = unconsumed;
    record.readers = readers;
    LWMQ_YIELD("endpoint.drained");
    c->link.send_record(wire::StreamKind::kDrained, record);
    if (unconsumed == 0) {
      c->writer.reset();
      c->pool->waits_since_ns = 0;
    }
  }
}

void Endpoint::end_producer(const std::shared_ptr<Producer>& producer) {
  if (!producer->open) return;
  producer->open = false;
  --producers_open_;
  ++producers_ended_;
  if (!producer->loss.empty()) aborts_.push_back({arrivals_, LWMQ_E_DATA_LOSS, producer->loss});
  if (producers_open_ == 0) end_read_by_.clear();
  advance_all();
}

// What nobody saw has never been; what was seen is followed by the news.
void Endpoint::abort_producer(const std::shared_ptr<Producer>& producer, Status status,
                              const std::string& reason) {
  if (!producer->open) return;
  producer->open = false;
  --producers_open_;
  if (producer->visible > 0) aborts_.push_back({arrivals_, status, reason});
  advance_all();
}

// ---- Jobs -------------------------------------------------------------------------------------------

Status Endpoint::commit_task(Conversation& c) {
  if (!c.writer || c.writer->job.empty()) return corrupt("CommitTask");
  WriterSession& session = *c.writer;
  const auto job = find_job(session.job);
  if (!job) return corrupt("CommitTask");
  const auto key = std::make_pair(session.epoch, session.task);
  const auto found = job->winners.find(key);
  if (found != job->winners.end() && !LWMQ_PLANTED("accept_twice")) {
    drop_staged(session.staged);
    wire::TaskResult result = found->second.result;
    result.won = found->second.attempt == session.attempt ? 1 : 0;  // the winner asks again
    return c.link.send_record(wire::StreamKind::kTaskCommitted, result);
  }
  // No driver will hear of what is gone: the tasks do, and the readers.
  if (job->tasks_expected != 0 && !job->producer->loss.empty()) {
    drop_staged(session.staged);
    wire::Text letter;
    letter.status = LWMQ_E_DATA_LOSS;
    letter.text = (address_ + ": " + job->producer->loss).substr(0, kReasonBytesMax);
    const Status status = c.link.send_letter(wire::StreamKind::kFailed, letter);
    abort_producer(job->producer, LWMQ_E_DATA_LOSS, job->producer->loss);
    retire_job(session.job, *job);
    return status;
  }
  if (job->over) {
    drop_staged(session.staged);
    wire::TaskResult result{};
    return c.link.send_record(wire::StreamKind::kTaskCommitted, result);
  }
  LWMQ_YIELD("endpoint.commit");
  Winner& winner = job->winners[key];
  winner.attempt = session.attempt;
  session.result.partition = session.task % static_cast<std::uint32_t>(logs_.size());
  if (session.delivery == LWMQ_DELIVERY_TASK) {
    session.result.start_seq = logs_[session.result.partition].next_seq();
    session.result.end_seq = session.result.start_seq;
    for (Entry& entry : session.staged) {
      std::uint64_t seq = 0;
      append(std::move(entry), session.result.partition, &seq);
      session.result.end_seq = seq + 1;
    }
    session.staged.clear();
  } else if (session.delivery == LWMQ_DELIVERY_JOB) {
    winner.staged = std::move(session.staged);
    session.staged.clear();
  }
  session.result.won = 1;
  session.result.attempt = session.attempt;
  std::memcpy(session.result.instance, c.peer.instance, sizeof session.result.instance);
  winner.result = session.result;
  LWMQ_YIELD("endpoint.commit_appended");
  const Status status = c.link.send_record(wire::StreamKind::kTaskCommitted, session.result);
  LWMQ_YIELD("endpoint.commit_answered");
  if (job->tasks_expected != 0 && job->winners.size() >= job->tasks_expected) {
    for (auto& [place, each] : job->winners) show_staged(each);  // no driver will commit the job
    finish_job(session.job, *job);
  }
  advance_all();
  return status;
}

void Endpoint::show_staged(Winner& winner) {
  for (Entry& entry : winner.staged) {
    std::uint64_t seq = 0;
    append(std::move(entry), winner.result.partition, &seq);
  }
  winner.staged.clear();
}

// Every commit that the driver counts on must be here; then what was staged for the job becomes visible, in
// the order of its tasks.
Status Endpoint::commit_job(Conversation& c, const std::string& bytes) {
  wire::CommitJob letter;
  if (!wire::decode(bytes, &letter) || !c.job) return corrupt("CommitJob");
  Job& job = *c.job->job;
  wire::Text answer;
  if (!job.producer->loss.empty()) {
    answer.status = LWMQ_E_DATA_LOSS;
    answer.text =
        (address_ + ": " + job.producer->loss + "; then run the job again").substr(0, kReasonBytesMax);
    return c.link.send_letter(wire::StreamKind::kJobCommitted, answer);
  }
  for (const auto& task : letter.tasks) {
    const auto found = job.winners.find({letter.epoch, task.task});
    if (found != job.winners.end() && found->second.attempt == task.attempt &&
        found->second.result.batches == task.batches) {
      continue;
    }
    answer.status = LWMQ_E_DATA_LOSS;
    answer.text = address_ + ": job " + c.job->id + ", epoch " + std::to_string(letter.epoch) +
                  ": the commit of task " + std::to_string(task.task) + " (attempt " +
                  std::to_string(task.attempt) + ", " + std::to_string(task.batches) +
                  " batches) is not here; nothing was committed, run the job again";
    return c.link.send_letter(wire::StreamKind::kJobCommitted, answer);
  }
  for (auto& [key, winner] : job.winners) {
    if (key.first == letter.epoch) show_staged(winner);
  }
  LWMQ_YIELD("endpoint.job_appended");
  const Status status = c.link.send_letter(wire::StreamKind::kJobCommitted, answer);
  LWMQ_YIELD("endpoint.job_answered");
  advance_all();
  return status;
}

Status Endpoint::close_job(Conversation& c, bool aborted, const std::string& reason) {
  if (!c.job) return corrupt("CloseJob");
  const auto session = std::move(c.job);
  Job& job = *session->job;
  for (auto& [key, winner] : job.winners) drop_staged(winner.staged);
  if (aborted) {
    abort_producer(job.producer, LWMQ_E_ABORTED, reason);
    retire_job(session->id, job);
  } else {
    finish_job(session->id, job);
  }
  report_drained();
  if (c.over) return LWMQ_OK;
  return c.link.send_letter(wire::StreamKind::kJobCommitted, wire::Text{});
}

void Endpoint::finish_job(const std::string& id, Job& job) {
  if (job.over) return;
  const std::shared_ptr<Producer> producer = job.producer;
  retire_job(id, job);
  end_producer(producer);
}

// Over, one way or the other: remembered for a while.
void Endpoint::retire_job(const std::string& id, Job& job) {
  if (job.over) return;
  job.over = true;
  finished_jobs_.push_back(id);
  if (finished_jobs_.size() <= kFinishedJobsKept) return;
  jobs_.erase(finished_jobs_.front());
  finished_jobs_.erase(finished_jobs_.begin());
}

}  // namespace lwmq::stream
