#include "stream/writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/yield_point.h"
#include "os/clock.h"
#include "stats/process_counters.h"
#include "stream/producer.h"

namespace lwmq::stream {
namespace {

constexpr std::uint32_t kAnswerMs = 30'000;  // for an endpoint that lives
constexpr std::uint32_t kLeaseLookMs = 5;    // while only leases hold the room: nobody rings for these

Status closed(const lwmq_writer& writer) noexcept {
  return fail(LWMQ_E_CLOSED, "%s: this writer is closed", writer.address.c_str());
}

// What `lwmq top` shows.
void note(lwmq_writer& writer) noexcept {
  stats::Entry& entry = *writer.entry;
  const WindowPool& pool = writer.line->pool;
  stats::set(entry.batches, writer.statistics.batches);
  stats::set(entry.rows, writer.statistics.rows);
  stats::set(entry.bytes, writer.statistics.bytes);
  stats::set(entry.window_bytes, pool.window_bytes());
  stats::set(entry.window_used_bytes, pool.used_bytes());
  stats::set(entry.unread_batches, pool.in_flight());
}

// Why a conversation is over: an endpoint that ended it has said so before it closed.
Status why_over(Line& line, Status status) {
  if (status != LWMQ_E_CLOSED && status != LWMQ_E_PEER_LOST) return status;
  const std::string text = last_error();
  const Status told = line.pump();
  if (is_failure(told) && told != LWMQ_E_CLOSED && told != LWMQ_E_PEER_LOST) return told;
  return fail(status, "%s", text.c_str());
}

// Lease pages may be told of at any time, also before an answer.
OtherNews news_of(Line& line) {
  return [&line](wire::StreamKind kind, const std::string& bytes) { return line.handle(kind, bytes); };
}

}  // namespace

Status open_writer(const char* address, const void* schema, std::uint64_t schema_bytes,
                   const lwmq_writer_options& options, std::unique_ptr<lwmq_writer>* out_writer) {
  Status status = check(address, schema_bytes, options);
  if (status != LWMQ_OK) return status;
  const Deadline deadline(options.timeout_ms);
  auto writer = std::make_unique<lwmq_writer>();
  wire::Opened answer;
  do {
    writer->line.reset();
    status = Line::take(address, options.role, deadline, &writer->line);
    if (status != LWMQ_OK) return status;
    status = open_with(writer->line->reach, wire::StreamKind::kOpenWriter,
                       letter_of(schema, schema_bytes, options), deadline, &answer, news_of(*writer->line));
    // The endpoint of a line that lay on the shelf may have gone just now, and another one serve the address.
  } while ((status == LWMQ_E_PEER_LOST || status == LWMQ_E_CLOSED) && writer->line->used_before);
  if (status != LWMQ_OK) return status;
  if (!writer->line->pool.has_ledger()) {  // a line from the shelf knows it
    lwmq_tli_window* ledger = nullptr;
    if (answer.ledger.size() != 16)
      return fail(LWMQ_E_CORRUPT, "%s: the endpoint's answer has no ledger", address);
    status = writer->line->reach.link->find_window(
        reinterpret_cast<const std::uint8_t*>(answer.ledger.data()), &ledger);
    if (status == LWMQ_OK) status = writer->line->pool.set_ledger(ledger);
    if (status != LWMQ_OK) return status;
  }
  writer->address = writer->line->reach.address;
  writer->schema = std::move(answer.schema);
  writer->partitions = answer.partitions;
  writer->has_job = options.job != nullptr;
  writer->delivery = writer->has_job ? options.delivery : static_cast<std::uint32_t>(LWMQ_DELIVERY_LIVE);
  writer->window_bytes = options.window_bytes;
  writer->staging_bytes = options.staging_bytes;
  writer->entry = stats::open_entry(stats::EntryKind::kWriter, writer->address.c_str(),
                                    writer->has_job ? options.job : "");
  stats::set(writer->entry->partitions, writer->partitions);
  *out_writer = std::move(writer);
  return LWMQ_OK;
}

namespace {

Status no_room(lwmq_writer& writer) {
  const auto holders = writer.line->pool.holders();
  return fail(LWMQ_E_TIMED_OUT,
              "%s: the window of %" PRIu64 " bytes is full: %" PRIu64
              " batches not yet read or acknowledged, %" PRIu64
              " read and still held%s%s; a reader must go on, or buffers must be enlarged",
              writer.address.c_str(), writer.window_bytes, holders.unread, holders.leased,
              holders.leased > 0 ? " by process " : "",
              holders.leased > 0 ? std::to_string(holders.leased_by).c_str() : "");
}

// Staged batches wait for nobody but this writer's own commit: waiting for their room would be for ever.
Status staging_full(lwmq_writer& writer, std::uint64_t bytes) {
  return fail(LWMQ_E_NO_MEMORY,
              "%s: %" PRIu64 " bytes staged by this task and %" PRIu64
              " more needed; staging_bytes is %" PRIu64 " beside a window of %" PRIu64
              ". Ways out: delivery=live, more partitions, larger stagingBytes",
              writer.address.c_str(), writer.staged_bytes, bytes, writer.staging_bytes, writer.window_bytes);
}

}  // namespace

Status allocate(lwmq_writer& writer, std::uint64_t bytes, std::uint32_t timeout_ms, lwmq_block* out_block) {
  if (!writer.line || writer.closing) return closed(writer);
  Line& line = *writer.line;
  Link& link = *line.reach.link;
  const Deadline deadline(timeout_ms);
  const bool staged = writer.has_job && writer.delivery != LWMQ_DELIVERY_LIVE;
  // Its own staged bytes do not count against a writer; of a job that commits as a whole, nobody's do.
  std::uint64_t limit = writer.window_bytes;
  if (staged)
    limit += writer.delivery == LWMQ_DELIVERY_JOB ? writer.staging_bytes
                                                  : std::min(writer.staged_bytes, writer.staging_bytes);
  if (staged && writer.staged_bytes + bytes > writer.window_bytes + writer.staging_bytes) {
    return staging_full(writer, bytes);
  }
  std::int64_t wait_began = 0;
  Status status = LWMQ_OK;
  for (;;) {
    std::int64_t new_window = -1;
    status = line.pool.allocate(bytes, limit, out_block, &new_window);
    if (status == LWMQ_OK && new_window >= 0) {
      lwmq_tli_window* window = line.pool.window(static_cast<std::size_t>(new_window));
      lwmq_tli_window_info info;
      line.reach.provider->window_info(window, &info);
      wire::Window record{};
      record.index = static_cast<std::uint32_t>(new_window);
      record.window_bytes = writer.window_bytes;
      std::memcpy(record.id, info.id, sizeof record.id);
      LWMQ_YIELD("writer.window_made");
      status = link.show_window(window);
      LWMQ_YIELD("writer.window_exported");
      if (status == LWMQ_OK) status = link.send_record(wire::StreamKind::kWindow, record);
    }
    if (status != LWMQ_E_FULL) break;
    if (writer.delivery == LWMQ_DELIVERY_JOB && staged) {
      status = staging_full(writer, bytes);
      break;
    }
    if (wait_began == 0) {
      wait_began = os::now_ns();
      note(writer);
      writer.waiting.begin(*writer.entry, wait_began);
    }
    if (deadline.over()) {
      status = no_room(writer);
      break;
    }
    if (!line.room_asked) {
      line.room_asked = true;
      link.send_record(wire::StreamKind::kWantRoom, wire::WantRoom{bytes});
    }
    const auto holders = line.pool.holders();
    if (holders.nobody > 0) continue;  // nobody rings for a lease that has ended
    stats::set(writer.entry->peer_pid, holders.leased_by);
    status = line.reach.wait(deadline.left_ms(holders.leased > 0 ? kLeaseLookMs : LWMQ_FOREVER));
    if (status == LWMQ_E_INTERRUPTED) break;
    link.flush();
    status = line.pump();
    if (status != LWMQ_OK) break;
  }
  if (wait_began != 0) {
    const std::int64_t now = os::now_ns();
    writer.statistics.wait_ns += static_cast<std::uint64_t>(now - wait_began);
    writer.waiting.end(*writer.entry, now, status != LWMQ_OK);
    stats::set(writer.entry->peer_pid, 0);
  }
  return why_over(line, status);
}

Status publish(lwmq_writer& writer, lwmq_block* block, std::uint32_t partition, std::uint64_t bytes,
               std::uint64_t rows, std::uint32_t flags) {
  if (!writer.line || writer.closing) return closed(writer);
  Line& line = *writer.line;
  if (bytes > block->bytes || (!writer.has_job && partition >= writer.partitions)) {
    discard(writer, block);
    return fail(LWMQ_E_INVALID,
                "%s: a batch of %" PRIu64 " bytes in a block of %" PRIu64 ", for partition %u of %u",
                writer.address.c_str(), bytes, block->bytes, partition, writer.partitions);
  }
  wire::Publish record{};
  if (!line.pool.publish(*block, &record)) {
    return fail(LWMQ_E_INVALID, "%s: this block was not lent by this writer, or has gone back",
                writer.address.c_str());
  }
  const std::uint64_t block_bytes = block->bytes;
  *block = lwmq_block{};
  record.partition = partition;
  record.bytes = bytes;
  record.rows = rows;
  record.flags = flags;
  record.timestamp_ns = os::realtime_ns();
  Link& link = *line.reach.link;
  LWMQ_YIELD("writer.publish");
  Status status = link.send_record(wire::StreamKind::kPublish, record);
  LWMQ_YIELD("writer.published");
  if (status == LWMQ_OK && link.has_backlog()) status = push_backlog(line.reach);
  if (status != LWMQ_OK) return why_over(line, status);
  line.reach.pump();
  if (writer.has_job && !writer.committed) writer.staged_bytes += block_bytes;
  auto& counted = writer.statistics;
  ++counted.batches, counted.rows += rows, counted.bytes += bytes;
  stats::add(stats::process().batches_written, 1);
  stats::add(stats::process().bytes_written, bytes);
  stats::set(writer.entry->moved_ns, static_cast<std::uint64_t>(os::coarse_now_ns()));
  note(writer);
  return LWMQ_OK;
}

void discard(lwmq_writer& writer, lwmq_block* block) {
  if (writer.line) writer.line->pool.discard(*block);
  *block = lwmq_block{};
}

Status commit(lwmq_writer& writer, std::uint32_t timeout_ms, lwmq_commit_result* out_result) {
  if (!writer.line || writer.closing) return closed(writer);
  if (!writer.has_job)
    return fail(LWMQ_E_INVALID, "%s: only a writer of a job commits", writer.address.c_str());
  Link& link = *writer.line->reach.link;
  Status status = writer.line->pump();
  LWMQ_YIELD("writer.commit");
  if (status == LWMQ_OK) status = link.send(wire::StreamKind::kCommitTask, nullptr, 0);
  LWMQ_YIELD("writer.commit_asked");
  std::string bytes;
  if (status == LWMQ_OK) {
    status = await_answer(writer.line->reach, wire::StreamKind::kTaskCommitted, Deadline(timeout_ms), &bytes,
                          news_of(*writer.line));
  }
  if (status == LWMQ_E_TIMED_OUT) {
    return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint has not answered the commit", writer.address.c_str());
  }
  if (status != LWMQ_OK) return status;
  wire::TaskResult result;
  if (!read_record(bytes, &result)) {
    return fail(LWMQ_E_CORRUPT, "%s: the endpoint's answer to a commit is malformed", writer.address.c_str());
  }
  LWMQ_YIELD("writer.committed");
  writer.committed = true;
  writer.staged_bytes = 0;
  out_result->won = result.won;
  out_result->partition = result.partition;
  out_result->attempt = result.attempt;
  out_result->start_seq = result.start_seq;
  out_result->end_seq = result.end_seq;
  out_result->batches = result.batches;
  out_result->rows = result.rows;
  out_result->bytes = result.bytes;
  std::memcpy(out_result->instance, result.instance, sizeof out_result->instance);
  return LWMQ_OK;
}

Status abort(lwmq_writer& writer, const char* reason) {
  if (!writer.line) return closed(writer);
  wire::Text letter;
  letter.status = LWMQ_E_ABORTED;
  letter.text = std::string(reason == nullptr ? "the writer gave up" : reason).substr(0, kReasonBytesMax);
  const auto line = std::move(writer.line);
  const Status status = line->reach.link->send_letter(wire::StreamKind::kAbortWriter, letter);
  push_backlog(line->reach);
  if (line->reach.endpoint && line->reach.endpoint.use_count() == 1) {
    // Ours alone: readers still have to hear of it.
    return part(&line->reach, Deadline(1000)) == LWMQ_E_TIMED_OUT ? LWMQ_OK : status;
  }
  return status;
}

namespace {

Status not_drained(const lwmq_writer& writer) {
  const auto& drained = writer.line->drained;
  if (writer.statistics.batches == 0) {
    return fail(LWMQ_E_TIMED_OUT, "%s: no reader has seen this empty stream; %u readers are there",
                writer.address.c_str(), drained.readers);
  }
  return fail(LWMQ_E_TIMED_OUT,
              "%s: at the end, %" PRIu64 " of %" PRIu64 " batches were not consumed, with %u readers",
              writer.address.c_str(), drained.unconsumed, writer.statistics.batches, drained.readers);
}

}  // namespace

Status close(lwmq_writer& writer, std::uint32_t linger_ms) {
  if (!writer.line) return closed(writer);
  Line& line = *writer.line;
  Link& link = *line.reach.link;
  const Deadline deadline(linger_ms);
  Status status = line.pump();
  if (status == LWMQ_OK && !writer.closing) {
    line.drained_known = false;
    LWMQ_YIELD("writer.close");
    status = link.send(wire::StreamKind::kCloseWriter, nullptr, 0);
    LWMQ_YIELD("writer.close_asked");
    if (status == LWMQ_OK) status = push_backlog(line.reach);
    writer.closing = status == LWMQ_OK;
    stats::set(writer.entry->flags, stats::kEntryClosed);
  }
  while (status == LWMQ_OK && (!line.drained_known || line.drained.unconsumed != 0)) {
    // An endpoint that lives answers at once; its first answer says how much is left.
    const std::uint32_t left = line.drained_known ? deadline.left_ms() : kAnswerMs;
    if (line.drained_known) stats::set(writer.entry->unread_batches, line.drained.unconsumed);
    if (line.drained_known && deadline.over()) {
      return not_drained(writer);
    }
    status = line.reach.wait(left);
    if (status == LWMQ_E_TIMED_OUT) status = LWMQ_OK;
    if (status == LWMQ_E_INTERRUPTED) return status;
    // An endpoint that goes once all is consumed has said so before it closed: that comes first.
    const Status pumped = line.pump();
    if (status == LWMQ_OK) status = pumped;
  }
  if (status == LWMQ_E_INTERRUPTED) return status;
  if (status != LWMQ_OK && writer.closing && line.drained_known && line.drained.unconsumed == 0)
    status = LWMQ_OK;
  auto taken = std::move(writer.line);
  return status == LWMQ_OK ? Line::give_back(std::move(taken), deadline) : status;
}

}  // namespace lwmq::stream
