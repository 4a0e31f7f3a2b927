#include "stream/client/writer.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/process_name.h"
#include "stats/process_counters.h"
#include "stream/client/producer.h"
#include "stream/near.h"

namespace lwmq::stream {
namespace {

constexpr std::uint32_t kAnswerMs = 30'000;     // for an endpoint that lives
constexpr std::uint32_t kAbortMs = 1000;        // for readers of an endpoint of our own
constexpr std::uint64_t kReaderBytesPerNs = 4;  // of a reader that keeps up
constexpr std::uint64_t kLooksAtReaders = 16;   // before it is taken to be behind
constexpr std::uint32_t kLookMs = 5;  // while leases or an untaken window hold us up: nobody rings for these

Status closed(const lwmq_writer& writer) noexcept {
  return fail(LWMQ_E_CLOSED, "%s: this writer is closed", writer.address.c_str());
}

// Its batches are the endpoint's to show only once it has committed.
bool is_staged(const lwmq_writer& writer) noexcept {
  return writer.has_job && writer.delivery != LWMQ_DELIVERY_LIVE && !writer.committed;
}

// Nothing of it is left to be consumed, but it serves others, who have not got what is theirs.
bool has_left(const lwmq_writer& writer) noexcept { return !writer.connection->link; }

// What `lwmq top` shows.
void note(lwmq_writer& writer) noexcept {
  stats::Entry& entry = *writer.entry;
  const WindowPool& pool = writer.connection->pool;
  stats::set(entry.batches, writer.statistics.batches);
  stats::set(entry.rows, writer.statistics.rows);
  stats::set(entry.bytes, writer.statistics.bytes);
  stats::set(entry.window_bytes, pool.window_bytes());
  stats::set(entry.window_used_bytes, pool.used_bytes());
  stats::set(entry.unread_batches, pool.in_flight());
}

// Why a conversation is over: an endpoint that ended it has said so before it closed.
Status why_over(WriterConnection& connection, Status status) {
  if (status != LWMQ_E_CLOSED && status != LWMQ_E_PEER_LOST) return status;
  const std::string text = last_error();
  const Status told = connection.handle_all();
  // It may have been heard before, where nobody was there to be told.
  if (connection.ended != LWMQ_OK) return fail(connection.ended, "%s", connection.ended_why.c_str());
  if (is_failure(told) && told != LWMQ_E_CLOSED && told != LWMQ_E_PEER_LOST) return told;
  return fail(status, "%s", text.c_str());
}

Stream::LostReaders lost_readers(const lwmq_writer& writer) {
  return writer.connection && writer.connection->own_stream ? writer.connection->own_stream->lost_readers()
                                                            : Stream::LostReaders{};
}

// Lease pages may be told of at any time, also before an answer.
OtherMessages messages_of(WriterConnection& connection) {
  return [&connection](wire::StreamKind kind, const std::string& bytes) {
    return connection.handle(kind, bytes);
  };
}

// The ledger that the endpoint writes. Over a far link it is our own: what the carrier says is written there.
Status take_ledger(const WriterConnection& connection, const wire::Opened& answer, LapPage* out_ledger) {
  const Link& link = *connection.link;
  if (link.is_far()) {
    const lwmq_tli_provider* provider = nullptr;
    const Status status = windows_of(link, &provider);
    return status == LWMQ_OK ? LapPage::create(provider, out_ledger) : status;
  }
  if (answer.ledger.size() != 16)
    return fail(LWMQ_E_CORRUPT, "%s: the endpoint's answer has no ledger", connection.address.c_str());
  return link.find_page(reinterpret_cast<const std::uint8_t*>(answer.ledger.data()), out_ledger);
}

}  // namespace

Status open_writer(const char* address, const void* schema, std::uint64_t schema_bytes,
                   const lwmq_writer_options& options, std::unique_ptr<lwmq_writer>* out_writer) {
  Status status = check(address, schema, schema_bytes, options);
  if (status != LWMQ_OK) return status;
  const Deadline deadline(options.timeout_ms);
  auto writer = std::make_unique<lwmq_writer>();
  wire::Opened answer;
  do {
    writer->connection.reset();
    status = WriterConnection::take(address, options.role, deadline, options.stall_ms, &writer->connection);
    if (status == LWMQ_OK) {
      status = open_with(*writer->connection, wire::StreamKind::kOpenWriter,
                         letter_of(schema, schema_bytes, options), deadline, &answer,
                         messages_of(*writer->connection));
    }
  } while (ask_again(&status, deadline));
  if (status != LWMQ_OK) return status;
  if (!writer->connection->pool.has_ledger()) {  // a kept connection has it
    LapPage ledger;
    status = take_ledger(*writer->connection, answer, &ledger);
    if (status != LWMQ_OK) return status;
    writer->connection->pool.set_ledger(std::move(ledger));
  }
  writer->address = writer->connection->address;
  writer->schema = std::move(answer.schema);
  writer->bounds.declare(writer->schema, writer->address);  // whoever declared it was told of errors
  writer->partitions = answer.partitions;
  writer->has_job = options.job != nullptr;
  writer->own_partition = options.task % answer.partitions;
  writer->delivery = writer->has_job ? options.delivery : static_cast<std::uint32_t>(LWMQ_DELIVERY_LIVE);
  writer->window_bytes = options.window_bytes;
  writer->staging_bytes = options.staging_bytes;
  writer->expel_after_ms = options.expel_after_ms;
  writer->readers_lost_before = writer->readers_lost_told = lost_readers(*writer).count;
  writer->entry = stats::open_entry(stats::EntryKind::kWriter, writer->address.c_str(),
                                    writer->has_job ? options.job : "");
  stats::set(writer->entry->partitions, writer->partitions);
  *out_writer = std::move(writer);
  return LWMQ_OK;
}

namespace {

std::string who_must_read(const WriterConnection& connection) {
  if (connection.is_far()) return "a reader must go on, or be started (`lwmq info` says which are there)";
  const WindowPool::Readers readers = connection.pool.readers();
  if (readers.count == 0) return "no reader is there: start one";
  const std::string one = "a reader must go on, " + os::process_name(readers.pid);
  return readers.count == 1 ? one : one + " or one of " + std::to_string(readers.count - 1) + " more";
}

Status no_room(lwmq_writer& writer) {
  WriterConnection& connection = *writer.connection;
  const auto holders = connection.pool.holders();
  if (connection.link->has_backlog() || !connection.unannounced.empty()) {
    return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint has not yet read what was written before",
                writer.address.c_str());
  }
  const bool has_slot = connection.pool.has_slot();
  return fail(
      LWMQ_E_TIMED_OUT,
      "%s: the window of %" PRIu64 " bytes %s: %" PRIu64 " batches not yet read or acknowledged, %" PRIu64
      " read and still held%s%s%s%s; %s, or %s",
      writer.address.c_str(), writer.window_bytes, has_slot ? "is full" : "has as many batches as it can",
      holders.unread, holders.leased, holders.leased > 0 ? " by " : "",
      holders.leased > 0 ? os::process_name(holders.leased_by).c_str() : "",
      connection.held_up_by.empty() ? "" : "; no batch was taken for long by ", connection.held_up_by.c_str(),
      who_must_read(connection).c_str(), has_slot ? "buffers must be enlarged" : "batches must be larger");
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
              writer.address.c_str(), writer.staged_bytes, writer.connection->pool.own_bytes(), bytes,
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
  WriterConnection& connection = *writer.connection;
  std::int64_t new_window = -1;
  Status status = connection.pool.allocate(bytes, limit, out_block, &new_window);
  if (status == LWMQ_E_FULL && writer.expel_after_ms != 0) {
    // What expelled readers may still look at, or hold for that long, is set apart: it counts no more, within
    // a bound.
    const bool holders_too =
        connection.readers_expelled > 0 || writer.waiting.since_ms(os::now_ns()) >= writer.expel_after_ms;
    const std::uint64_t apart = connection.pool.quarantined_bytes(holders_too);
    if (apart > 0) {
      status = connection.pool.allocate(bytes, limit + std::min(apart, writer.window_bytes), out_block,
                                        &new_window);
    }
  }
  if (status != LWMQ_OK || new_window < 0) return status;
  connection.unannounced.push_back(static_cast<std::uint32_t>(new_window));
  status = connection.announce(writer.window_bytes);
  if (status != LWMQ_OK) discard(writer, out_block);
  return status;
}

// Readers that keep up free a block in a moment, and both sides go on in memory that their caches hold.
// Readers that are slower than kReaderBytesPerNs are behind: then the window is for them.
void let_readers_catch_up(WriterConnection& connection, std::uint64_t bytes, const Deadline& deadline) {
  if (!connection.pool.wants_readers_first(bytes)) return;
  const std::uint64_t used = connection.pool.used_bytes();
  const std::uint64_t head_start = WindowPool::working_set(bytes);
  const timespec pause{0, static_cast<long>(head_start / kReaderBytesPerNs / kLooksAtReaders)};
  for (const std::int64_t began_ns = os::now_ns(); !deadline.over();) {
    connection.serve();
    nanosleep(&pause, nullptr);  // meanwhile the readers have several batches before them
    if (!connection.pool.wants_readers_first(bytes)) return;
    const auto waited_ns = static_cast<std::uint64_t>(os::now_ns() - began_ns);
    if (waited_ns * kReaderBytesPerNs > head_start + used - connection.pool.used_bytes()) {
      connection.pool.set_readers_behind(true);
      return;
    }
  }
}

}  // namespace

Status allocate(lwmq_writer& writer, std::uint64_t bytes, std::uint32_t timeout_ms, lwmq_block* out_block) {
  if (!writer.connection || writer.closing) return closed(writer);
  WriterConnection& connection = *writer.connection;
  Link& link = *connection.link;
  const Deadline deadline(timeout_ms);
  if (__builtin_add_overflow(bytes, writer.bounds.room(), &bytes)) return too_big(writer, bytes);
  const bool staged = is_staged(writer);
  const bool by_job = staged && writer.delivery == LWMQ_DELIVERY_JOB;
  const std::uint64_t limit_max = writer.window_bytes + (staged ? writer.staging_bytes : 0);
  // Windows that only this writer can free do not count against it; where a job commits as a whole, no window
  // does.
  const std::uint64_t own = staged ? connection.pool.own_bytes() : 0;
  const std::uint64_t limit =
      by_job ? limit_max : std::min(own + std::max(writer.window_bytes, bytes), limit_max);
  if (bytes > limit_max) return too_big(writer, bytes);
  Status status = LWMQ_OK;
  if (connection.is_far()) status = connection.handle_all();  // blocks that have come back
  if (status != LWMQ_OK) return why_over(connection, status);
  if (!staged && !connection.is_far()) let_readers_catch_up(connection, bytes, deadline);
  std::int64_t wait_began = 0;
  for (;;) {
    // What the endpoint has not taken yet stays behind; nothing is added to it.
    status = link.flush() ? connection.announce(writer.window_bytes) : LWMQ_E_FULL;
    const bool taken = status == LWMQ_OK;
    if (taken) status = allocate_now(writer, bytes, limit, out_block);
    if (status != LWMQ_E_FULL) break;
    // A window that is new here has no mirror at the endpoint yet. The writer lacks no room then.
    const bool awaits_mirror = connection.is_far() && !connection.unannounced.empty() && !link.has_backlog();
    if (taken && staged && !connection.pool.has_slot()) {
      status = too_many_staged(writer);
      break;
    }
    if (taken && staged && !awaits_mirror && (by_job || own + bytes > limit_max)) {
      status = staging_full(writer, bytes);
      break;
    }
    if (wait_began == 0 && !awaits_mirror) {
      wait_began = os::now_ns();
      note(writer);
      writer.waiting.begin(*writer.entry, wait_began);
    }
    if (deadline.over()) {
      status = no_room(writer);
      break;
    }
    if (taken && !awaits_mirror && !connection.room_asked) {
      connection.room_asked = true;
      link.send_record(wire::StreamKind::kWantRoom, wire::WantRoom{bytes});
    }
    const auto holders = connection.pool.holders();
    if (taken && holders.nobody > 0) continue;  // nobody rings for a lease that has ended
    stats::set(writer.entry->peer_pid, holders.leased_by);
    const bool rung = holders.leased == 0 && connection.unannounced.empty();
    status = connection.wait(deadline.left_ms(rung ? LWMQ_FOREVER : kLookMs));
    if (status == LWMQ_E_INTERRUPTED || status == LWMQ_E_STALLED) break;
    status = connection.handle_all();
    if (status != LWMQ_OK) break;
  }
  if (wait_began != 0) {
    if (status == LWMQ_OK) connection.pool.set_readers_behind(false);  // they have made room: another try
    const std::int64_t now = os::now_ns();
    writer.statistics.wait_ns += static_cast<std::uint64_t>(now - wait_began);
    writer.waiting.end(*writer.entry, now, status != LWMQ_OK);
    stats::set(writer.entry->flags, connection.pulse.is_stalled() ? stats::kEntryStalled : 0);
    stats::set(writer.entry->peer_pid, 0);
  }
  return why_over(connection, status);
}

std::uint64_t readers_lost(const lwmq_writer& writer) {
  const std::uint64_t count = lost_readers(writer).count;
  return count - std::min(count, writer.readers_lost_before);
}

Status lost_reader(lwmq_writer& writer, std::string* out_text) {
  Stream::LostReaders lost = lost_readers(writer);
  if (lost.count <= writer.readers_lost_told) return LWMQ_E_EMPTY;
  writer.readers_lost_told = lost.count;
  *out_text = std::move(lost.last);
  return LWMQ_OK;
}

Status publish(lwmq_writer& writer, lwmq_block* block, std::uint32_t partition, std::uint64_t bytes,
               std::uint64_t rows, std::uint32_t flags) {
  if (!writer.connection || writer.closing) return closed(writer);
  WriterConnection& connection = *writer.connection;
  if (partition == LWMQ_PARTITION_OF_TASK && writer.has_job) partition = writer.own_partition;
  if (bytes > block->bytes || partition >= writer.partitions) {
    discard(writer, block);
    return fail(LWMQ_E_INVALID,
                "%s: a batch of %" PRIu64 " bytes in a block of %" PRIu64 ", for partition %u of %u",
                writer.address.c_str(), bytes, block->bytes, partition, writer.partitions);
  }
  wire::Publish record{};
  const bool staged = is_staged(writer);
  bytes = writer.bounds.append(block->data, bytes, block->bytes, &flags);
  if (!connection.pool.publish(*block, staged, &record)) {
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
  LWMQ_YIELD("writer.publish");
  const Status status = connection.publish(record);
  LWMQ_YIELD("writer.published");
  if (status != LWMQ_OK) return why_over(connection, status);
  connection.handle_all();
  if (staged) writer.staged_bytes += block_bytes;
  auto& counted = writer.statistics;
  ++counted.batches, counted.rows += rows, counted.bytes += bytes;
  stats::add(stats::process().batches_written, 1);
  stats::add(stats::process().bytes_written, bytes);
  stats::set(writer.entry->moved_ns, static_cast<std::uint64_t>(os::coarse_now_ns()));
  note(writer);
  return LWMQ_OK;
}

void discard(lwmq_writer& writer, lwmq_block* block) {
  if (writer.connection) writer.connection->pool.discard(*block);
  *block = lwmq_block{};
}

Status commit(lwmq_writer& writer, std::uint32_t timeout_ms, lwmq_commit_result* out_result) {
  if (!writer.connection || writer.closing) return closed(writer);
  if (!writer.has_job)
    return fail(LWMQ_E_INVALID, "%s: only a writer of a job commits", writer.address.c_str());
  WriterConnection& connection = *writer.connection;
  Status status = LWMQ_OK;
  if (!connection.commit_unanswered) {  // else this call goes on where one before was cut off
    status = connection.handle_all();
    LWMQ_YIELD("writer.commit");
    if (status == LWMQ_OK) status = connection.link->send(wire::StreamKind::kCommitTask, nullptr, 0);
    connection.commit_unanswered = status == LWMQ_OK;
    LWMQ_YIELD("writer.commit_asked");
  }
  std::string bytes;
  if (status == LWMQ_OK) {
    status = await_answer(connection, wire::StreamKind::kTaskCommitted, Deadline(timeout_ms), &bytes,
                          messages_of(connection));
  }
  if (status == LWMQ_E_TIMED_OUT) {
    return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint has not answered the commit", writer.address.c_str());
  }
  if (status != LWMQ_OK) return status;
  connection.commit_unanswered = false;
  wire::TaskCommitted result;
  if (!wire::decode(bytes, &result)) {
    return fail(LWMQ_E_CORRUPT, "%s: the endpoint's answer to a commit is malformed", writer.address.c_str());
  }
  LWMQ_YIELD("writer.committed");
  writer.committed = true;
  writer.staged_bytes = 0;
  connection.pool.settle_staged();
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
  if (!writer.connection) return closed(writer);
  if (has_left(writer)) {  // all that it wrote was consumed
    writer.connection.reset();
    return LWMQ_OK;
  }
  wire::Text letter;
  letter.status = LWMQ_E_ABORTED;
  letter.text = std::string(reason == nullptr ? "the writer gave up" : reason).substr(0, kReasonBytesMax);
  const auto connection = std::move(writer.connection);
  const Status status = connection->link->send_letter(wire::StreamKind::kAbortWriter, letter);
  push_backlog(*connection);
  disconnect(connection.get(), Deadline(kAbortMs));  // readers still have to hear of it
  return status;
}

namespace {

Status not_answered(const lwmq_writer& writer) {
  return fail(LWMQ_E_TIMED_OUT, "%s: the endpoint has not answered that this writer ends in %u ms",
              writer.address.c_str(), kAnswerMs);
}

Status not_drained(const lwmq_writer& writer) {
  const auto& drained = writer.connection->drained;
  if (writer.statistics.batches == 0) {
    return fail(LWMQ_E_TIMED_OUT,
                "%s: fewer readers than asked for have seen this empty stream; %u are there",
                writer.address.c_str(), drained.readers);
  }
  return fail(LWMQ_E_TIMED_OUT,
              "%s: at the end, %" PRIu64 " of %" PRIu64 " batches were not consumed, with %u readers%s%s",
              writer.address.c_str(), drained.unconsumed, writer.statistics.batches, drained.readers,
              writer.connection->held_up_by.empty() ? "" : "; no batch was taken for long by ",
              writer.connection->held_up_by.c_str());
}

// Until all that it wrote was consumed.
Status leave(lwmq_writer& writer, const Deadline& deadline) {
  WriterConnection& connection = *writer.connection;
  Link& link = *connection.link;
  Status status = connection.handle_all();
  if (status == LWMQ_OK && !writer.closing) {
    connection.drained_known = false;
    LWMQ_YIELD("writer.close");
    status = link.send(wire::StreamKind::kCloseWriter, nullptr, 0);
    LWMQ_YIELD("writer.close_asked");
    writer.closing = status == LWMQ_OK;
    stats::set(writer.entry->flags, stats::kEntryClosed);
  }
  // An endpoint that lives answers at once, whatever the time to linger; its first answer says how much is
  // left.
  const Deadline answer(kAnswerMs);
  while (status == LWMQ_OK && (!connection.drained_known || connection.drained.unconsumed != 0)) {
    if (connection.drained_known) stats::set(writer.entry->unread_batches, connection.drained.unconsumed);
    const Deadline& limit = connection.drained_known ? deadline : answer;
    if (limit.over()) return connection.drained_known ? not_drained(writer) : not_answered(writer);
    status = connection.wait(limit.left_ms());
    if (status == LWMQ_E_INTERRUPTED || status == LWMQ_E_STALLED) return status;
    if (status == LWMQ_E_TIMED_OUT) status = LWMQ_OK;
    link.flush();
    // An endpoint that goes once all is consumed has said so before it closed: that comes first.
    const Status pumped = connection.handle_all();
    if (status == LWMQ_OK) status = pumped;
  }
  if (status != LWMQ_OK && writer.closing && connection.drained_known && connection.drained.unconsumed == 0)
    status = LWMQ_OK;
  if (status != LWMQ_OK) writer.connection.reset();
  return status;
}

}  // namespace

Status close(lwmq_writer& writer, std::uint32_t linger_ms) {
  if (!writer.connection) return closed(writer);
  const Deadline deadline(linger_ms);
  const Status status = has_left(writer) ? LWMQ_OK : leave(writer, deadline);
  return status == LWMQ_OK ? WriterConnection::give_back(&writer.connection, deadline) : status;
}

}  // namespace lwmq::stream
