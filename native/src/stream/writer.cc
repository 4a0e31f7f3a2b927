#include "stream/writer.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/process_name.h"
#include "stats/process_counters.h"
#include "stream/producer.h"

namespace lwmq::stream {
namespace {

constexpr std::uint32_t kAnswerMs = 30'000;     // for an endpoint that lives
constexpr std::uint32_t kAbortMs = 1000;        // for readers of an endpoint of our own
constexpr std::uint64_t kReaderBytesPerNs = 4;  // of a reader that keeps up
constexpr std::uint64_t kLooksAtReaders = 16;   // before it is taken to be behind
constexpr std::int64_t kNewsNs = 50'000'000;    // between two looks for news by a writer that need not wait
constexpr std::uint32_t kLookMs = 5;  // while leases or an untaken window hold us up: nobody rings for these

Status closed(const lwmq_writer& writer) noexcept {
  return fail(LWMQ_E_CLOSED, "%s: this writer is closed", writer.address.c_str());
}

// Its batches are the endpoint's to show only once it has committed.
bool is_staged(const lwmq_writer& writer) noexcept {
  return writer.has_job && writer.delivery != LWMQ_DELIVERY_LIVE && !writer.committed;
}

// Nothing of it is left to be consumed, but it serves others, who have not got what is theirs.
bool has_left(const lwmq_writer& writer) noexcept { return !writer.line->reach.link; }

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

// Why a conversation is over. An endpoint that ended it has said so before it closed. One that is gone has
// said nothing, and what nobody had consumed went with it.
Status why_over(lwmq_writer& writer, Status status) {
  if (status != LWMQ_E_CLOSED && status != LWMQ_E_PEER_LOST) return status;
  Line& line = *writer.line;
  const Status told = line.pump();
  if (is_failure(told) && told != LWMQ_E_CLOSED && told != LWMQ_E_PEER_LOST) return told;
  const bool was_reader = line.reach.server_is == wire::Server::kReader;
  return fail(status,
              "%s: %s. Of %" PRIu64 " batches (%" PRIu64 " rows) that this writer has written, %" PRIu64
              " were not yet read and let go%s. Way out: open a new writer, and write again what is missing",
              writer.address.c_str(), how_it_was_lost(line.reach, status).c_str(), writer.statistics.batches,
              writer.statistics.rows, line.pool.holders().unread,
              was_reader ? "; what it had read went with it" : "");
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
    status = Line::take(address, options.role, deadline, options.stall_ms, &writer->line);
    if (status == LWMQ_OK) {
      status = open_with(writer->line->reach, wire::StreamKind::kOpenWriter,
                         letter_of(schema, schema_bytes, options), deadline, &answer, news_of(*writer->line));
    }
  } while (ask_again(&status, deadline));
  if (status != LWMQ_OK) return status;
  if (!writer->line->pool.has_ledger()) {  // a line from the idle ones knows it
    LapPage ledger;
    if (answer.ledger.size() != 16)
      return fail(LWMQ_E_CORRUPT, "%s: the endpoint's answer has no ledger", address);
    status = writer->line->reach.link->find_page(reinterpret_cast<const std::uint8_t*>(answer.ledger.data()),
                                                 &ledger);
    if (status != LWMQ_OK) return status;
    writer->line->pool.set_ledger(std::move(ledger));
  }
  writer->address = writer->line->reach.address;
  writer->schema = std::move(answer.schema);
  writer->partitions = answer.partitions;
  writer->has_job = options.job != nullptr;
  writer->own_partition = options.task % writer->partitions;
  writer->delivery = writer->has_job ? options.delivery : static_cast<std::uint32_t>(LWMQ_DELIVERY_LIVE);
  writer->window_bytes = options.window_bytes;
  writer->staging_bytes = options.staging_bytes;
  writer->expel_after_ms = options.expel_after_ms;
  writer->entry = stats::open_entry(stats::EntryKind::kWriter, writer->address.c_str(),
                                    writer->has_job ? options.job : "");
  stats::set(writer->entry->partitions, writer->partitions);
  *out_writer = std::move(writer);
  return LWMQ_OK;
}

namespace {

std::string who_must_read(const WindowPool& pool) {
  const WindowPool::Readers readers = pool.readers();
  if (readers.count == 0) return "no reader is there: start one";
  const std::string one = "a reader must go on, " + os::process_name(readers.pid);
  return readers.count == 1 ? one : one + " or one of " + std::to_string(readers.count - 1) + " more";
}

Status no_room(lwmq_writer& writer) {
  Line& line = *writer.line;
  const auto holders = line.pool.holders();
  if (line.reach.link->has_backlog() || !line.unannounced.empty()) {
    return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint has not yet read what was written before",
                writer.address.c_str());
  }
  const bool has_slot = line.pool.has_slot();
  const std::string lent =
      holders.lent == 0 ? "" : ", " + std::to_string(holders.lent) + " lent to this process and not let go";
  const bool for_us = holders.lent > 0 && holders.unread + holders.leased == 0;
  return fail(LWMQ_E_TIMED_OUT,
              "%s: the window of %" PRIu64 " bytes %s: %" PRIu64
              " batches not yet read or acknowledged, %" PRIu64 " read and still held%s%s%s%s%s; %s, or %s",
              writer.address.c_str(), writer.window_bytes,
              has_slot ? "is full" : "has as many batches as it can", holders.unread, holders.leased,
              holders.leased > 0 ? " by " : "",
              holders.leased > 0 ? os::process_name(holders.leased_by).c_str() : "", lent.c_str(),
              line.held_up_by.empty() ? "" : "; no batch was taken for long by ", line.held_up_by.c_str(),
              for_us ? "views of blocks must be let go" : who_must_read(line.pool).c_str(),
              has_slot ? "buffers must be enlarged" : "batches must be larger");
}

Status too_big(const lwmq_writer& writer, std::uint64_t bytes) {
  const std::uint64_t staging = is_staged(writer) ? writer.staging_bytes : 0;
  return fail(LWMQ_E_TOO_BIG,
              "%s: a batch of %" PRIu64 " bytes does not fit the window of %" PRIu64
              " bytes%s. Ways out: a "
              "larger window_bytes (in Spark windowBytes, or bufferBytes), smaller batches",
              writer.address.c_str(), bytes, writer.window_bytes + staging,
              staging > 0 ? " that it has with staging_bytes" : "");
}

// Staged batches wait for nobody but this writer's own commit: waiting for their room would be for ever.
Status staging_full(lwmq_writer& writer, std::uint64_t bytes) {
  return fail(LWMQ_E_NO_MEMORY,
              "%s: %" PRIu64 " bytes staged by this task, in windows of %" PRIu64 " bytes, and %" PRIu64
              " more needed; staging_bytes is %" PRIu64 " beside a window of %" PRIu64
              ". Ways out: delivery=live, more partitions, larger stagingBytes",
              writer.address.c_str(), writer.staged_bytes, writer.line->pool.own_bytes(), bytes,
              writer.staging_bytes, writer.window_bytes);
}

Status too_many_staged(lwmq_writer& writer) {
  return fail(LWMQ_E_NO_MEMORY,
              "%s: %u batches of this task, or of tasks before it, are not yet read or committed, as many as "
              "there can be. Ways out: delivery=live, more partitions, larger batches",
              writer.address.c_str(), kFinishedSlot);
}

// A block that is there, or can be made. LWMQ_E_FULL: not now.
Status allocate_now(lwmq_writer& writer, std::uint64_t bytes, std::uint64_t limit, lwmq_block* out_block) {
  Line& line = *writer.line;
  std::int64_t new_window = -1;
  Status status = line.pool.allocate(bytes, limit, out_block, &new_window);
  if (status == LWMQ_E_FULL && writer.expel_after_ms != 0) {
    // What expelled readers may still look at, or hold for that long, is set apart: it counts no more, within
    // a bound.
    const bool holders_too =
        line.readers_expelled > 0 || writer.waiting.since_ms(os::now_ns()) >= writer.expel_after_ms;
    const std::uint64_t apart = line.pool.quarantined_bytes(holders_too);
    if (apart > 0) {
      status =
          line.pool.allocate(bytes, limit + std::min(apart, writer.window_bytes), out_block, &new_window);
    }
  }
  if (status != LWMQ_OK || new_window < 0) return status;
  line.unannounced.push_back(static_cast<std::uint32_t>(new_window));
  status = line.announce(writer.window_bytes);
  if (status != LWMQ_OK) discard(writer, out_block);
  return status;
}

// Readers that keep up free a block in a moment, and both sides go on in memory that their caches hold.
// Readers that are slower than kReaderBytesPerNs are behind: then the window is for them.
void let_readers_catch_up(Line& line, std::uint64_t bytes, const Deadline& deadline) {
  if (!line.pool.wants_readers_first(bytes)) return;
  const std::uint64_t used = line.pool.used_bytes();
  const std::uint64_t head_start = WindowPool::working_set(bytes);
  const timespec pause{0, static_cast<long>(head_start / kReaderBytesPerNs / kLooksAtReaders)};
  for (const std::int64_t began_ns = os::now_ns(); !deadline.over();) {
    line.reach.pump();
    nanosleep(&pause, nullptr);  // meanwhile the readers have several batches before them
    if (!line.pool.wants_readers_first(bytes)) return;
    const auto waited_ns = static_cast<std::uint64_t>(os::now_ns() - began_ns);
    if (waited_ns * kReaderBytesPerNs > head_start + used - line.pool.used_bytes()) {
      line.pool.set_readers_behind(true);
      return;
    }
  }
}

}  // namespace

Status allocate(lwmq_writer& writer, std::uint64_t bytes, std::uint32_t timeout_ms, lwmq_block* out_block) {
  if (!writer.line || writer.closing) return closed(writer);
  Line& line = *writer.line;
  Link& link = *line.reach.link;
  const Deadline deadline(timeout_ms);
  const bool staged = is_staged(writer);
  const bool by_job = staged && writer.delivery == LWMQ_DELIVERY_JOB;
  const std::uint64_t limit_max = writer.window_bytes + (staged ? writer.staging_bytes : 0);
  // Windows that only this writer can free do not count against it; where a job commits as a whole, no window
  // does.
  const std::uint64_t own = staged ? line.pool.own_bytes() : 0;
  const std::uint64_t limit =
      by_job ? limit_max : std::min(own + std::max(writer.window_bytes, bytes), limit_max);
  if (bytes > limit_max) return too_big(writer, bytes);
  if (!staged) let_readers_catch_up(line, bytes, deadline);
  std::int64_t wait_began = 0;
  Status status = LWMQ_OK;
  for (;;) {
    // What the endpoint has not taken yet stays behind; nothing is added to it.
    status = link.flush() ? line.announce(writer.window_bytes) : LWMQ_E_FULL;
    const bool taken = status == LWMQ_OK;
    if (taken) status = allocate_now(writer, bytes, limit, out_block);
    if (status != LWMQ_E_FULL) break;
    if (taken && staged && !line.pool.has_slot()) {
      status = too_many_staged(writer);
      break;
    }
    if (taken && staged && (by_job || own + bytes > limit_max)) {
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
    if (taken && !line.room_asked) {
      line.room_asked = true;
      link.send_record(wire::StreamKind::kWantRoom, wire::WantRoom{bytes});
    }
    const auto holders = line.pool.holders();
    if (taken && holders.nobody > 0) continue;  // nobody rings for a lease that has ended
    stats::set(writer.entry->peer_pid, holders.leased_by);
    const bool rung = holders.leased == 0 && holders.lent == 0 && line.unannounced.empty();
    status = line.reach.wait(deadline.left_ms(rung ? LWMQ_FOREVER : kLookMs));
    if (status == LWMQ_E_INTERRUPTED || status == LWMQ_E_STALLED) break;
    status = line.pump();
    if (status != LWMQ_OK) break;
  }
  if (wait_began != 0) {
    if (status == LWMQ_OK) line.pool.set_readers_behind(false);  // they have made room: another try
    const std::int64_t now = os::now_ns();
    writer.statistics.wait_ns += static_cast<std::uint64_t>(now - wait_began);
    writer.waiting.end(*writer.entry, now, status != LWMQ_OK);
    stats::set(writer.entry->flags, line.reach.pulse.is_stalled() ? stats::kEntryStalled : 0);
    stats::set(writer.entry->peer_pid, 0);
  }
  return why_over(writer, status);
}

Status lost_reader(lwmq_writer& writer, std::string* out_text) {
  if (!writer.line || writer.line->lost_reader.empty()) return LWMQ_E_EMPTY;
  *out_text = std::exchange(writer.line->lost_reader, {});
  return LWMQ_OK;
}

Status publish(lwmq_writer& writer, lwmq_block* block, std::uint32_t partition, std::uint64_t bytes,
               std::uint64_t rows, std::uint32_t flags) {
  if (!writer.line || writer.closing) return closed(writer);
  Line& line = *writer.line;
  if (partition == LWMQ_PARTITION_OF_TASK && writer.has_job) partition = writer.own_partition;
  if (bytes > block->bytes || partition >= writer.partitions) {
    discard(writer, block);
    return fail(LWMQ_E_INVALID,
                "%s: a batch of %" PRIu64 " bytes in a block of %" PRIu64 ", for partition %u of %u",
                writer.address.c_str(), bytes, block->bytes, partition, writer.partitions);
  }
  wire::Publish record{};
  const bool staged = is_staged(writer);
  if (!line.pool.publish(*block, staged, &record)) {
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
  const Status status = link.send_record(wire::StreamKind::kPublish, record);
  LWMQ_YIELD("writer.published");
  if (status != LWMQ_OK) return why_over(writer, status);
  line.reach.pump();
  const std::int64_t now_ns = os::coarse_now_ns();
  if (now_ns - line.pumped_ns >= kNewsNs) {  // of readers that have died: a writer with room hears of it here
    const Status told = line.pump();
    if (told != LWMQ_OK) return why_over(writer, told);
  }
  if (staged) writer.staged_bytes += block_bytes;
  auto& counted = writer.statistics;
  ++counted.batches, counted.rows += rows, counted.bytes += bytes;
  stats::add(stats::process().batches_written, 1);
  stats::add(stats::process().bytes_written, bytes);
  stats::set(writer.entry->moved_ns, static_cast<std::uint64_t>(now_ns));
  note(writer);
  return LWMQ_OK;
}

Status hold(lwmq_writer& writer, const lwmq_block& block, lwmq_hold** out_hold) {
  if (!writer.line || writer.closing) return closed(writer);
  *out_hold = writer.line->pool.hold(block);
  if (*out_hold != nullptr) return LWMQ_OK;
  return fail(LWMQ_E_INVALID, "%s: this block is held already, was not lent by this writer, or has gone back",
              writer.address.c_str());
}

void discard(lwmq_writer& writer, lwmq_block* block) {
  if (writer.line) writer.line->pool.discard(*block);
  *block = lwmq_block{};
}

Status commit(lwmq_writer& writer, std::uint32_t timeout_ms, lwmq_commit_result* out_result) {
  if (!writer.line || writer.closing) return closed(writer);
  if (!writer.has_job)
    return fail(LWMQ_E_INVALID, "%s: only a writer of a job commits", writer.address.c_str());
  Line& line = *writer.line;
  Status status = LWMQ_OK;
  if (!line.commit_unanswered) {  // else this call goes on where one before was cut off
    status = line.pump();
    LWMQ_YIELD("writer.commit");
    if (status == LWMQ_OK) status = line.reach.link->send(wire::StreamKind::kCommitTask, nullptr, 0);
    line.commit_unanswered = status == LWMQ_OK;
    LWMQ_YIELD("writer.commit_asked");
  }
  std::string bytes;
  if (status == LWMQ_OK) {
    status = await_answer(line.reach, wire::StreamKind::kTaskCommitted, Deadline(timeout_ms), &bytes,
                          news_of(line));
  }
  if (status == LWMQ_E_TIMED_OUT) {
    return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint has not answered the commit", writer.address.c_str());
  }
  if (status != LWMQ_OK) return why_over(writer, status);
  line.commit_unanswered = false;
  wire::TaskCommitted result;
  if (!wire::decode(bytes, &result)) {
    return fail(LWMQ_E_CORRUPT, "%s: the endpoint's answer to a commit is malformed", writer.address.c_str());
  }
  LWMQ_YIELD("writer.committed");
  writer.committed = true;
  writer.staged_bytes = 0;
  line.pool.settle_staged();
  out_result->won = result.won;
  out_result->attempt = result.attempt;
  std::memcpy(out_result->instance, result.instance.data(), result.instance.size());
  writer.committed_ranges.clear();
  for (const wire::CommittedField& range : result.ranges) {
    writer.committed_ranges.push_back(
        {range.partition, 0, range.start, range.end, range.batches, range.rows, range.bytes});
    out_result->batches += range.batches;
    out_result->rows += range.rows;
    out_result->bytes += range.bytes;
  }
  out_result->partition = writer.own_partition;
  if (!result.ranges.empty()) {
    out_result->partition = result.ranges.front().partition;
    out_result->start_seq = result.ranges.front().start;
    out_result->end_seq = result.ranges.front().end;
  }
  out_result->ranges = writer.committed_ranges.data();
  out_result->range_count = static_cast<std::uint32_t>(writer.committed_ranges.size());
  return LWMQ_OK;
}

Status abort(lwmq_writer& writer, const char* reason) {
  if (!writer.line) return closed(writer);
  if (has_left(writer)) {  // all that it wrote was consumed
    writer.line.reset();
    return LWMQ_OK;
  }
  wire::Text letter;
  letter.status = LWMQ_E_ABORTED;
  letter.text = std::string(reason == nullptr ? "the writer gave up" : reason).substr(0, kReasonBytesMax);
  const auto line = std::move(writer.line);
  const Status status = line->reach.link->send_letter(wire::StreamKind::kAbortWriter, letter);
  push_backlog(line->reach);
  part(&line->reach, Deadline(kAbortMs));  // readers still have to hear of it
  return status;
}

namespace {

Status not_answered(const lwmq_writer& writer) {
  return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint has not answered that this writer ends in %u ms",
              writer.address.c_str(), kAnswerMs);
}

Status not_drained(const lwmq_writer& writer) {
  const auto& drained = writer.line->drained;
  if (writer.statistics.batches == 0) {
    return fail(LWMQ_E_TIMED_OUT,
                "%s: fewer readers than asked for have seen this empty stream; %u are there",
                writer.address.c_str(), drained.readers);
  }
  return fail(LWMQ_E_TIMED_OUT,
              "%s: at the end, %" PRIu64 " of %" PRIu64 " batches were not consumed, with %u readers%s%s",
              writer.address.c_str(), drained.unconsumed, writer.statistics.batches, drained.readers,
              writer.line->held_up_by.empty() ? "" : "; no batch was taken for long by ",
              writer.line->held_up_by.c_str());
}

// Until all that it wrote was consumed.
Status leave(lwmq_writer& writer, const Deadline& deadline) {
  Line& line = *writer.line;
  Link& link = *line.reach.link;
  Status status = line.pump();
  if (status == LWMQ_OK && !writer.closing) {
    line.drained_known = false;
    LWMQ_YIELD("writer.close");
    status = link.send(wire::StreamKind::kCloseWriter, nullptr, 0);
    LWMQ_YIELD("writer.close_asked");
    writer.closing = status == LWMQ_OK;
    stats::set(writer.entry->flags, stats::kEntryClosed);
  }
  // An endpoint that lives answers at once, whatever the time to linger; its first answer says how much is
  // left.
  const Deadline answer(kAnswerMs);
  while (status == LWMQ_OK && (!line.drained_known || line.drained.unconsumed != 0)) {
    if (line.drained_known) stats::set(writer.entry->unread_batches, line.drained.unconsumed);
    const Deadline& limit = line.drained_known ? deadline : answer;
    if (limit.over()) return line.drained_known ? not_drained(writer) : not_answered(writer);
    status = line.reach.wait(limit.left_ms());
    if (status == LWMQ_E_INTERRUPTED || status == LWMQ_E_STALLED) return status;
    if (status == LWMQ_E_TIMED_OUT) status = LWMQ_OK;
    link.flush();
    // An endpoint that goes once all is consumed has said so before it closed: that comes first.
    const Status pumped = line.pump();
    if (status == LWMQ_OK) status = pumped;
  }
  if (status != LWMQ_OK && writer.closing && line.drained_known && line.drained.unconsumed == 0)
    status = LWMQ_OK;
  status = why_over(writer, status);
  if (status != LWMQ_OK) writer.line.reset();
  return status;
}

}  // namespace

Status close(lwmq_writer& writer, std::uint32_t linger_ms) {
  if (!writer.line) return closed(writer);
  const Deadline deadline(linger_ms);
  Status status = has_left(writer) ? LWMQ_OK : leave(writer, deadline);
  if (status != LWMQ_OK) return status;
  const std::string loss =
      writer.has_job ? std::string() : writer.line->loss;  // the commit of a job tells it
  status = Line::give_back(&writer.line, deadline);
  if (status != LWMQ_OK || loss.empty()) return status;
  return fail(LWMQ_E_DATA_LOSS, "%s: %s", writer.address.c_str(), loss.c_str());
}

}  // namespace lwmq::stream
