#include "stream/endpoint/writers.h"

#include <algorithm>
#include <utility>

#include "base/yield_point.h"
#include "os/identity.h"

namespace lwmq::stream {

// ---- Opening ----------------------------------------------------------------------------------------

// The first producer says what the stream is; for the others it is what it is.
Status Writers::declare(const wire::OpenProducer& letter) {
  if (log_.is_declared()) return LWMQ_OK;
  if (letter.partitions == 0 || letter.partitions > kPartitionsMax || letter.retain > LWMQ_RETAIN_NONE ||
      letter.readers == 0 || letter.schema.empty()) {
    return fail(LWMQ_E_INVALID,
                "a stream has 1 to %u partitions (not %u), a schema, and at least one reader to wait for",
                kPartitionsMax, letter.partitions);
  }
  log_.declare(letter.schema, letter.partitions, letter.retain, letter.readers);
  news_.declared = true;
  return LWMQ_OK;
}

Status Writers::open(Client& c, const std::string& bytes) {
  wire::OpenProducer letter;
  if (!wire::decode(bytes, &letter) || c.writer || c.reader) return malformed("OpenWriter");
  if (declare(letter) != LWMQ_OK) return refuse(c, id_, LWMQ_E_INVALID, last_error());
  std::shared_ptr<Job> job = letter.job.empty() ? nullptr : jobs_.find(letter.job);
  if (!letter.job.empty() && !job) {
    if (letter.job_tasks == 0) {
      return refuse(
          c, id_, LWMQ_E_ABORTED,
          "job " + letter.job +
              " is not open here: its driver has left, or the endpoint is another one than when the job "
              "began");
    }
    job = jobs_.open(letter.job, letter.job_tasks);
  }
  if (!c.pool) {
    auto pool = std::make_shared<Pool>(next_pool_++, &c.link);
    if (pool->make_ledger() != LWMQ_OK) return refuse(c, id_, LWMQ_E_NO_MEMORY, last_error());
    c.pool = std::move(pool);
  }
  c.pool->window_bytes = letter.window_bytes;
  c.pool->stall_ms = letter.stall_ms == 0 || letter.stall_ms == LWMQ_FOREVER ? kStallMs : letter.stall_ms;
  c.pool->expel_after_ms = letter.expel_after_ms;
  c.pool->waits_since_ns = 0;
  c.process = name_of(c.peer);
  c.writer = std::make_unique<WriterSession>();
  c.writer->job = letter.job;
  c.writer->task = letter.task;
  c.writer->attempt = letter.attempt;
  c.writer->epoch = letter.epoch;
  c.writer->delivery = job ? letter.delivery : static_cast<std::uint32_t>(LWMQ_DELIVERY_LIVE);
  c.writer->producer = job ? job->producer : jobs_.open_producer("writer in " + c.process);
  wire::Opened answer = opened(id_, clients_, log_);
  answer.ledger.resize(16);
  c.pool->ledger.window().copy_id(reinterpret_cast<std::uint8_t*>(answer.ledger.data()));
  return c.link.send_letter(wire::StreamKind::kOpened, answer);
}

Status Writers::open_job(Client& c, const std::string& bytes) {
  wire::OpenProducer letter;
  if (!wire::decode(bytes, &letter) || letter.job.empty() || c.job || c.writer || c.reader)
    return malformed("OpenJob");
  if (declare(letter) != LWMQ_OK) return refuse(c, id_, LWMQ_E_INVALID, last_error());
  if (jobs_.find(letter.job))
    return refuse(c, id_, LWMQ_E_INVALID, "job " + letter.job + " was opened here before");
  c.process = name_of(c.peer);
  c.job = jobs_.open(letter.job, 0);
  return c.link.send_letter(wire::StreamKind::kOpened, opened(id_, clients_, log_));
}

// ---- Windows and batches ----------------------------------------------------------------------------

Status Writers::add_window(Client& c, const std::string& bytes) {
  wire::Window record;
  if (!read_record(bytes, &record) || !c.pool) return malformed("Window");
  return c.pool->add_window(record, c.peer.pid);
}

Status Writers::publish(Client& c, const std::string& bytes) {
  wire::Publish block;
  if (!read_record(bytes, &block) || !c.writer || c.writer->closing) return malformed("Publish");
  WriterSession& session = *c.writer;
  if (block.partition >= log_.size() || (block.flags & ~std::uint32_t{LWMQ_BATCH_IPC_STREAM}) != 0 ||
      !c.pool->has(block)) {
    return fail(LWMQ_E_CORRUPT,
                "a batch of %" PRIu64 " bytes at %" PRIu64 " of window %u (%" PRIu64
                " bytes), slot %u in lap %u, flags %#x, for partition %u of %u",
                block.bytes, block.offset, block.window, c.pool->bytes_of(block.window), block.slot,
                block.lap, block.flags, block.partition, log_.size());
  }
  wire::CommittedField* const written = session.job.empty() ? nullptr : &session.written[block.partition];
  if (written != nullptr) {
    written->partition = block.partition;
    ++written->batches;
    written->rows += block.rows;
    written->bytes += block.bytes;
  }
  Entry entry;
  entry.body = {c.pool, block.window, block.slot, block.lap, block.offset};
  entry.producer = session.producer;
  entry.bytes = block.bytes;
  entry.rows = block.rows;
  entry.timestamp_ns = block.timestamp_ns;
  entry.flags = block.flags;
  if (session.delivery != LWMQ_DELIVERY_LIVE) {
    session.staged.push_back({block.partition, std::move(entry)});
    return LWMQ_OK;
  }
  LWMQ_YIELD("endpoint.publish");
  const std::uint64_t seq = log_.append(block.partition, std::move(entry));
  if (written != nullptr) {
    if (written->batches == 1) written->start = seq;
    written->end = seq + 1;
  }
  return LWMQ_OK;
}

Status Writers::want_room(Client& c, const std::string& bytes) {
  wire::WantRoom record;
  if (!read_record(bytes, &record) || !c.pool) return malformed("WantRoom");
  c.pool->wants_room = true;
  c.pool->wanted_bytes = record.bytes;
  c.pool->begin_to_wait();
  readers_.make_room(*c.pool);
  c.pool->tell_room();  // of drops between the writer's look at the ledger and its message
  return LWMQ_OK;
}

// ---- Committing -------------------------------------------------------------------------------------

Status Writers::commit_task(Client& c) {
  const std::shared_ptr<Job> job = c.writer ? jobs_.find(c.writer->job) : nullptr;
  if (!job) return malformed("CommitTask");
  wire::TaskCommitted result;
  if (jobs_.commit_task(*job, *c.writer, c.peer.instance, &result) != LWMQ_OK) {
    wire::Text letter;
    letter.status = LWMQ_E_DATA_LOSS;
    letter.text = (id_.address + ": " + last_error()).substr(0, kReasonBytesMax);
    return c.link.send_letter(wire::StreamKind::kFailed, letter);
  }
  const Status status = c.link.send_letter(wire::StreamKind::kTaskCommitted, result);
  LWMQ_YIELD("endpoint.commit_answered");
  return status;
}

Status Writers::commit_job(Client& c, const std::string& bytes) {
  wire::CommitJob letter;
  if (!wire::decode(bytes, &letter) || !c.job) return malformed("CommitJob");
  wire::Text answer;
  answer.status = jobs_.commit_job(*c.job, letter);
  if (answer.status != LWMQ_OK) answer.text = (id_.address + ": " + last_error()).substr(0, kReasonBytesMax);
  const Status status = c.link.send_letter(wire::StreamKind::kJobCommitted, answer);
  LWMQ_YIELD("endpoint.job_answered");
  return status;
}

Status Writers::close_job(Client& c) {
  if (!c.job) return malformed("CloseJob");
  jobs_.close(*std::exchange(c.job, nullptr));
  news_.for_writers = true;
  return c.link.send_letter(wire::StreamKind::kJobCommitted, wire::Text{});
}

Status Writers::abort_job(Client& c, const std::string& bytes) {
  wire::Text letter;
  if (!wire::decode(bytes, &letter) || !c.job) return malformed("AbortJob");
  jobs_.abort(*std::exchange(c.job, nullptr), letter.text);
  news_.for_writers = true;
  return c.link.send_letter(wire::StreamKind::kJobCommitted, wire::Text{});
}

// ---- Ending -----------------------------------------------------------------------------------------

Status Writers::close(Client& c) {
  if (!c.writer) return malformed("CloseWriter");
  drop_all(&c.writer->staged);  // never committed
  if (!c.writer->job.empty()) {
    c.writer.reset();  // its job is the producer; the pool stays for the next task
    return c.link.send_record(wire::StreamKind::kDrained, wire::Drained{});
  }
  if (!std::exchange(c.writer->closing, true)) {
    jobs_.end(*c.writer->producer);
    c.pool->begin_to_wait();
  }
  news_.for_writers = true;
  return LWMQ_OK;
}

Status Writers::abort(Client& c, const std::string& bytes) {
  wire::Text letter;
  if (!wire::decode(bytes, &letter) || !c.writer) return malformed("AbortWriter");
  drop_all(&c.writer->staged);
  if (c.writer->job.empty()) jobs_.abort(*c.writer->producer, LWMQ_E_ABORTED, letter.text);
  c.writer.reset();
  return c.link.send_record(wire::StreamKind::kDrained, wire::Drained{});
}

void Writers::report_drained() {
  for (const auto& c : clients_) {
    if (!c->writer || !c->writer->closing) continue;
    const std::uint64_t unconsumed = c->writer->producer->unconsumed + (jobs_.end_is_unread() ? 1 : 0);
    if (std::exchange(c->writer->told_unconsumed, true) && unconsumed != 0) continue;
    LWMQ_YIELD("endpoint.drained");
    c->link.send_record(wire::StreamKind::kDrained, wire::Drained{unconsumed, readers_.open_count(), 0});
    if (unconsumed == 0) {
      c->writer.reset();
      c->pool->waits_since_ns = 0;
    }
  }
}

void Writers::leave(Client& c, Status why) {
  const bool died = why == LWMQ_E_PEER_LOST;
  const std::string process = c.process + " on host " + os::identity().host + ", ";
  if (c.writer) {
    drop_all(&c.writer->staged);
    if (c.writer->job.empty() && c.writer->producer->open) {
      const std::string how = died                   ? os::process_end(c.peer.pid)
                              : why == LWMQ_E_CLOSED ? "left"
                                                     : "was shut out, as it broke the protocol,";
      jobs_.abort(*c.writer->producer, LWMQ_E_PEER_LOST,
                  "the producer, " + process + how + " without ending the stream");
    }
  }
  if (c.job && c.job->producer->open) {
    jobs_.abort(*c.job, process + "the driver of job " + c.job->id + ", left before the job's end" +
                            (died ? ": it " + os::process_end(c.peer.pid) : ""));
    news_.for_writers = true;
  }
  if (c.pool) c.pool->lose_writer();
}

}  // namespace lwmq::stream
