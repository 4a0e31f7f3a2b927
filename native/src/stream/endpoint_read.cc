// The endpoint towards readers: handing out, acknowledging, releasing.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/process_name.h"
#include "stream/conversation.h"
#include "stream/endpoint.h"

namespace lwmq::stream {

// ---- Opening ----------------------------------------------------------------------------------------

std::uint32_t Endpoint::name_number(const std::string& name) {
  return names_.emplace(name, static_cast<std::uint32_t>(names_.size())).first->second;
}

Status Endpoint::open_reader(Conversation& c, const std::string& bytes) {
  auto session = std::make_unique<ReaderSession>();
  if (!wire::decode(bytes, &session->options) || c.reader || c.writer || c.job ||
      session->options.name.empty()) {
    return fail(LWMQ_E_CORRUPT, "OpenReader is malformed");
  }
  wire::OpenReader& options = session->options;
  options.credit = std::clamp<std::uint32_t>(options.credit, 1, kReaderCreditMax);
  options.writers = std::max<std::uint32_t>(options.writers, 1);
  if (!options.generation.empty() && options.generation != generation_ &&
      !LWMQ_PLANTED("forget_generation")) {
    return refuse(c, LWMQ_E_DATA_LOSS,
                  "the stream is of another generation than the offsets: its endpoint was started anew, "
                  "and what the old one held is gone");
  }
  c.who = os::process_name(c.peer.pid);
  session->name = name_number(options.name);
  // A part of a planned read may begin when the others have read everything: the end is its own all the same.
  session->joined_before_end = !has_ended(options.writers) || !options.generation.empty();
  session->aborts_seen = aborts_.size();  // of those that lie wholly before it; declare_to looks again
  c.reader = std::move(session);
  const Status status = c.link.send_letter(wire::StreamKind::kOpened, opened());
  if (declared_) declare_to(c);
  return status;
}

// The schema is known: tell the reader, and turn what it asked for into numbers.
void Endpoint::declare_to(Conversation& c) {
  ReaderSession& reader = *c.reader;
  reader.declared = true;
  wire::Text letter;
  letter.text = schema_;
  c.link.send_letter(wire::StreamKind::kDeclared, letter);
  std::vector<wire::RangeField> asked = reader.options.ranges;
  if (asked.empty()) {
    for (std::uint32_t p = 0; p < logs_.size(); ++p) asked.push_back({p, LWMQ_SEQ_EARLIEST, LWMQ_SEQ_END});
  }
  const std::uint32_t acks = retain_ == LWMQ_RETAIN_ALL ? UINT32_MAX : readers_needed_;
  std::uint64_t oldest = arrivals_;
  for (const auto& range : asked) {
    const std::string where = "partition " + std::to_string(range.partition);
    if (range.partition >= logs_.size()) {
      return fail_reader(c, LWMQ_E_INVALID,
                         where + " was asked for; the stream has " + std::to_string(logs_.size()));
    }
    PartitionLog& log = logs_[range.partition];
    std::uint64_t start = range.start;
    if (start == LWMQ_SEQ_EARLIEST) start = log.lowest_unacked(reader.name, acks);
    if (start == LWMQ_SEQ_LATEST) start = log.next_seq();
    const std::uint64_t end = range.end == LWMQ_SEQ_LATEST ? log.next_seq() : range.end;
    if (start > log.next_seq() || (end != LWMQ_SEQ_END && end > log.next_seq())) {
      return fail_reader(c, LWMQ_E_INVALID,
                         where + ": numbers " + std::to_string(start) + " to " +
                             (end == LWMQ_SEQ_END ? "the end" : std::to_string(end)) +
                             " were asked for; the next one to be written is " +
                             std::to_string(log.next_seq()));
    }
    if (end != LWMQ_SEQ_END && start > end) {
      return fail_reader(c, LWMQ_E_INVALID,
                         where + ": the range ends at " + std::to_string(end) + ", before its start at " +
                             std::to_string(start));
    }
    if (start < log.first_seq() && (end == LWMQ_SEQ_END || start < end)) {
      return fail_for_released(
          c, where + ": batch " + std::to_string(start) + " was asked for, the oldest kept is " +
                 std::to_string(log.first_seq()) +
                 "; acknowledged or consumed batches were released to make room. Ways out: retain=\"all\", a "
                 "larger "
                 "window (buffer_bytes, buffers), or .cache() where one DataFrame is evaluated twice");
    }
    reader.ranges.push_back({range.partition, start, end});
    if (const Entry* entry = log.find(log.next_present(start))) oldest = std::min(oldest, entry->arrival);
  }
  const auto news = [&](const Abort& abort) { return is_news(abort, reader, oldest); };
  reader.aborts_seen = static_cast<std::size_t>(std::ranges::find_if(aborts_, news) - aborts_.begin());
  advance(c);
}

// Aborts of producers whose batches the reader will still see, from arrival `oldest` on. A loss behind which
// nothing is left is told to one reader all the same, and to each attempt at the task that has heard it.
bool Endpoint::is_news(const Abort& abort, const ReaderSession& reader, std::uint64_t oldest) {
  if (abort.arrival > oldest) return true;
  const bool is_next_attempt = !reader.options.task.empty() && abort.told_to == reader.name;
  return abort.status == LWMQ_E_DATA_LOSS && (!abort.told_to || is_next_attempt);
}

// How many readers hold different batches of a window: those of the same partitions hold mostly the same
// ones.
std::uint32_t Endpoint::count_sharers(std::uint64_t pool) const {
  std::set<std::uint32_t> taken;
  std::uint32_t sharers = 0;
  for (const auto& c : conversations_) {
    if (!c->reader || c->over || !c->reader->windows_told.contains(pool)) continue;
    const auto& ranges = c->reader->ranges;
    const auto is_taken = [&](const ReaderRange& range) { return taken.contains(range.partition); };
    if (std::ranges::any_of(ranges, is_taken)) continue;
    for (const ReaderRange& range : ranges) taken.insert(range.partition);
    ++sharers;
  }
  return sharers;
}

// ---- Handing out ------------------------------------------------------------------------------------

void Endpoint::advance_all() {
  for (auto& c : conversations_) {
    if (c->reader && !c->over) advance(*c);
  }
}

// Hands out, in order of arrival over the reader's partitions, what its credit allows.
void Endpoint::advance(Conversation& c) {
  ReaderSession& reader = *c.reader;
  reader.behind = false;
  while (reader.declared && !reader.done && reader.handed.size() < reader.options.credit) {
    ReaderRange* best = nullptr;
    Entry* best_entry = nullptr;
    for (auto& range : reader.ranges) {
      PartitionLog& log = logs_[range.partition];
      const std::uint64_t end = std::min(range.end, log.next_seq());
      if (range.cursor >= end) continue;
      const std::uint64_t next = log.next_present(range.cursor);
      if (log.lost_between(range.cursor, std::min(next, end))) {
        return fail_for_released(
            c, "partition " + std::to_string(range.partition) + ": batch " + std::to_string(range.cursor) +
                   " was consumed by an attempt before this one and released to make room. Ways out: "
                   "retain=\"all\", a larger window (buffer_bytes, buffers)");
      }
      range.cursor = std::min(next, end);
      Entry* entry = range.cursor < end ? log.find(range.cursor) : nullptr;
      if (entry != nullptr && (best == nullptr || entry->arrival < best_entry->arrival)) {
        best = &range;
        best_entry = entry;
      }
    }
    // An abort is told after what came before it and before what came after.
    if (reader.aborts_seen < aborts_.size() &&
        (best == nullptr || best_entry->arrival >= aborts_[reader.aborts_seen].arrival)) {
      Abort& abort = aborts_[reader.aborts_seen++];
      if (!abort.told_to) abort.told_to = reader.name;
      fail_reader(c, abort.status, abort.reason);
      continue;  // a reader that follows: what came behind it may be there already, and nobody calls again
    }
    if (best == nullptr) return finish_if_done(c);
    if (!hand_out(c, best->partition, best->cursor, *best_entry)) return;
    ++best->cursor;
    reader.handed_any = true;
  }
}

bool Endpoint::hand_out(Conversation& c, std::uint32_t partition, std::uint64_t seq, Entry& entry) {
  ReaderSession& reader = *c.reader;
  Pool& pool = *entry.pool;
  const auto [place, is_first] = reader.windows_told.try_emplace(pool.number, 0);
  if (is_first) pool.sharers = count_sharers(pool.number);
  std::size_t& told = place->second;
  for (; told < pool.windows.size(); ++told) {
    const Status status = provider_->window_export(c.link.transport(), pool.windows[told]);
    reader.behind =
        status == LWMQ_E_FULL;  // a reader that is stopped, or busy elsewhere: nobody waits for it
    if (status != LWMQ_OK) return false;
    LWMQ_YIELD("endpoint.window_exported");
    wire::Window record = pool.announcements[told];
    record.window_bytes = pool.window_bytes;
    if (c.link.send_record(wire::StreamKind::kWindow, record) != LWMQ_OK) return false;
  }
  LWMQ_YIELD("endpoint.hand_out");
  wire::Batch record{};
  record.seq = seq;
  record.pool = pool.number;
  record.block = entry.block;
  record.block.sharers = pool.sharers;
  if (c.link.send_record(wire::StreamKind::kBatch, record) != LWMQ_OK) return false;
  LWMQ_YIELD("endpoint.handed_out");
  ++entry.handed_out;
  if (reader.handed.empty()) {
    reader.moved_ns = os::coarse_now_ns();
    if (writers_wait_) watch_soon(reader.moved_ns);
  }
  reader.handed.emplace_back(partition, seq);
  return true;
}

bool Endpoint::has_ended(std::uint32_t writers) const {
  return declared_ && producers_open_ == 0 && producers_ended_ >= std::max<std::uint32_t>(writers, 1);
}

// An empty stream is read by hearing of its end; where there were batches, the last of them tells as much.
bool Endpoint::end_is_news() const {
  return arrivals_ == 0 && has_ended(1) && end_read_by_.size() < readers_needed_;
}

void Endpoint::note_end_read(const ReaderSession& reader) {
  if (arrivals_ == 0) end_read_by_.insert(reader.name);
}

// It has had everything, and waits for the next producer: nobody has to wait for it.
bool Endpoint::is_late(const ReaderSession& reader) const {
  if (!has_ended(reader.options.writers) || !reader.handed.empty()) return false;
  return std::ranges::all_of(reader.ranges, [this](const ReaderRange& range) {
    const PartitionLog& log = logs_[range.partition];
    return range.end == LWMQ_SEQ_END && log.next_present(range.cursor) == log.next_seq();
  });
}

// Everything there is was handed out: is that the end?
void Endpoint::finish_if_done(Conversation& c) {
  ReaderSession& reader = *c.reader;
  bool to_the_end = false;  // some range waits for the stream's end
  bool reaches_end = true;  // every range has come to where the stream ends
  for (const auto& range : reader.ranges) {
    if (range.end == LWMQ_SEQ_END) {
      to_the_end = true;
    } else if (range.cursor < range.end) {
      return;
    }
    reaches_end = reaches_end && range.cursor == logs_[range.partition].next_seq();
  }
  if (to_the_end) {
    if (!has_ended(reader.options.writers)) return;
    // The end of a stream that others have read is no news for who comes later: it waits for the next
    // producer.
    const bool its_end = (end_is_news() && !end_read_by_.contains(reader.name)) || reader.handed_any ||
                         reader.joined_before_end || retain_ == LWMQ_RETAIN_ALL;
    if (!its_end) return;
    if (reader.options.follow != 0) {
      note_end_read(reader);
      reader.joined_before_end = true;
      return report_drained();
    }
  }
  if (reaches_end && has_ended(1)) note_end_read(reader);
  reader.done = true;
  c.link.send(wire::StreamKind::kEnd, nullptr, 0);
  report_drained();
}

void Endpoint::fail_reader(Conversation& c, Status status, const std::string& text) {
  wire::Text letter;
  letter.status = status;
  letter.text = (address_ + ": " + text).substr(0, kReasonBytesMax);
  c.link.send_letter(wire::StreamKind::kFailed, letter);
  // A reader that follows goes on after the end of a producer, with the next one.
  const bool of_a_producer = status == LWMQ_E_ABORTED || status == LWMQ_E_PEER_LOST;
  if (!of_a_producer || c.reader->options.follow == 0) c.reader->done = c.reader->failed = true;
}

// What the reader needs was released. An attempt at a task of which another one lives gives way to that one.
void Endpoint::fail_for_released(Conversation& c, const std::string& text) {
  const wire::OpenReader& own = c.reader->options;
  const auto has_it = [&](const std::unique_ptr<Conversation>& other) {
    return !other->over && other->reader && !other->reader->expelled && !other->reader->failed &&
           !own.task.empty() && other->reader->options.task == own.task &&
           other->reader->options.attempt != own.attempt;
  };
  const auto other = std::find_if(conversations_.begin(), conversations_.end(), has_it);
  if (other == conversations_.end()) return fail_reader(c, LWMQ_E_DATA_LOSS, text);
  fail_reader(c, LWMQ_E_SUPERSEDED,
              text + ". Attempt " + std::to_string((*other)->reader->options.attempt) + " at " + own.task +
                  ", in process " + std::to_string((*other)->peer.pid) +
                  ", has it and reads on: this attempt gives way");
}

// A reader has made its page of leases for a pool: its writer must look there before it writes again.
Status Endpoint::lease(Conversation& c, const std::string& bytes) {
  wire::Lease record;
  if (!read_record(bytes, &record) || !c.reader) return fail(LWMQ_E_CORRUPT, "Lease is malformed");
  // One page for each pool that it was shown: every page costs the writer a mapping and a look at each block.
  if (!c.reader->windows_told.contains(record.pool) || !c.reader->pools_leased.insert(record.pool).second) {
    return fail(LWMQ_E_CORRUPT,
                "Lease names pool %" PRIu64 ", which this reader was not shown or leases already",
                record.pool);
  }
  for (auto& other : conversations_) {
    if (!other->pool || other->pool->number != record.pool || other->over) continue;
    lwmq_tli_window* page = nullptr;
    Status status = c.link.find_window(record.id, &page);
    if (status != LWMQ_OK) return status;
    lwmq_tli_window_info info;
    provider_->window_info(page, &info);
    if (info.bytes != kLapPageBytes) {
      provider_->window_release(page);
      return fail(LWMQ_E_CORRUPT, "a lease page of %" PRIu64 " bytes; %" PRIu64 " were expected", info.bytes,
                  kLapPageBytes);
    }
    other->pool->introductions.emplace_back(page, record);
    introduce(*other);
    return LWMQ_OK;
  }
  return LWMQ_OK;
}

// Tells a writer of the readers whose pages it must look at, as far as it takes the news, and only then of
// what was dropped since: a drop that overtook an introduction would let it write over a lease that it knows
// nothing of.
void Endpoint::introduce(Conversation& writer) {
  Pool& pool = *writer.pool;
  while (!pool.introductions.empty()) {
    const auto [page, record] = pool.introductions.front();
    lwmq_tli_window_info info;
    provider_->window_info(page, &info);
    const auto* laps = reinterpret_cast<const std::atomic<std::uint32_t>*>(info.base);
    // A reader that has let go of everything, or has died, holds nothing that anybody must know of.
    const bool matters =
        laps[kFinishedSlot].load(std::memory_order_acquire) == 0 && provider_->window_owner_alive(page) != 0;
    if (matters) {
      LWMQ_YIELD("endpoint.lease");
      const Status status = provider_->window_export(writer.link.transport(), page);
      if (status == LWMQ_E_FULL) return;  // a writer that is stopped, or busy elsewhere: nobody waits for it
      LWMQ_YIELD("endpoint.lease_exported");
      if (status == LWMQ_OK) writer.link.send_record(wire::StreamKind::kLease, record);
      LWMQ_YIELD("endpoint.lease_told");
    }
    provider_->window_release(page);
    pool.introductions.pop_front();
  }
  if (writer.link.has_backlog()) return;
  for (const auto& [slot, lap] : std::exchange(pool.held_drops, {})) store_drop(pool, slot, lap);
}

// ---- Moving past ------------------------------------------------------------------------------------

Status Endpoint::consumed(Conversation& c, const std::string& bytes) {
  wire::Consumed record;
  // Sent before it has heard: what it consumed is no longer its own.
  if (c.reader && c.reader->expelled && read_record(bytes, &record)) return LWMQ_OK;
  if (!read_record(bytes, &record) || !c.reader || c.reader->handed.empty() ||
      c.reader->handed.front() != std::make_pair(record.partition, record.seq)) {
    return fail(LWMQ_E_CORRUPT, "Consumed names a batch that is not the oldest in this reader's hands");
  }
  LWMQ_YIELD("endpoint.consumed");
  ReaderSession& reader = *c.reader;
  reader.handed.pop_front();
  reader.moved_ns = os::coarse_now_ns();
  reader.stalled = false;
  if (writers_wait_ && watch_at_ns_ == 0) watch_soon(reader.moved_ns);  // another one may be in the way now
  if (Entry* entry = logs_[record.partition].find(record.seq)) {
    --entry->handed_out;
    count_consumed(*entry, reader.name);
    if (reader.options.named == 0 && retain_ != LWMQ_RETAIN_NONE) note_taken(reader, *entry);
    if (reader.options.acknowledge == LWMQ_ACK_CONSUMED) {
      acknowledge(record.partition, record.seq, reader.name);
    } else {
      unsettled_[reader.name].emplace_back(record.partition, record.seq);
    }
    const std::shared_ptr<Pool> pool = entry->pool;
    release_if_free(record.partition, record.seq);
    if (pool->wants_room) make_room(*pool);
  }
  advance(c);
  return LWMQ_OK;
}

void Endpoint::note_taken(ReaderSession& reader, const Entry& entry) {
  auto& taken = reader.taken;
  if (taken.empty() || taken.back().producer != entry.producer) {  // else as before
    const auto found = std::ranges::find(taken, entry.producer, &ReaderSession::Taken::producer);
    if (found == taken.end()) {
      // Those that have ended and were read to their end are finished: they need no memory.
      std::erase_if(taken, [](const auto& t) { return !t.producer->open && t.producer->unconsumed == 0; });
      taken.push_back({entry.producer});
    } else {
      std::swap(*found, taken.back());
    }
  }
  ++taken.back().batches, taken.back().rows += entry.block.rows;
}

void Endpoint::count_consumed(Entry& entry, std::uint32_t name) {
  if (!entry.note_consumed(name)) return;
  if (entry.consumed() == 1) --unread_batches_;
  if (entry.consumed() == readers_needed_ && stop_awaiting(entry)) report_drained();
}

// As many readers as the stream asks for have moved past it, or nobody will any more. True where it was the
// last one of its producer.
bool Endpoint::stop_awaiting(const Entry& entry) noexcept {
  --awaited_batches_;
  return --entry.producer->unconsumed == 0;
}

void Endpoint::acknowledge(std::uint32_t partition, std::uint64_t seq, std::uint32_t name) {
  if (Entry* entry = logs_[partition].find(seq); entry != nullptr) entry->acknowledge(name);
}

Status Endpoint::settle(Conversation& c, const std::string& bytes) {
  wire::Settle letter;
  if (!wire::decode(bytes, &letter)) return fail(LWMQ_E_CORRUPT, "Settle is malformed");
  const auto number = names_.find(letter.name);
  if (number != names_.end()) {
    const auto found = unsettled_.find(number->second);
    if (found != unsettled_.end()) {
      const auto batches = std::move(found->second);
      unsettled_.erase(found);
      if (letter.acknowledge != 0) {
        for (const auto& [partition, seq] : batches) acknowledge(partition, seq, number->second);
        for (const auto& [partition, seq] : batches) release_if_free(partition, seq);
      }
    }
  }
  return c.link.send(wire::StreamKind::kSettled, nullptr, 0);
}

// ---- Releasing --------------------------------------------------------------------------------------

bool Endpoint::is_satisfied(const Entry& entry) const {
  switch (retain_) {
    case LWMQ_RETAIN_UNTIL_ACKED:
      return entry.acknowledged() >= readers_needed_;
    case LWMQ_RETAIN_NONE:
      return entry.consumed() >= readers_needed_;
    default:
      return false;
  }
}

// Some open reader has still to be handed this batch.
bool Endpoint::is_needed(std::uint32_t partition, std::uint64_t seq) const {
  for (const auto& c : conversations_) {
    if (!c->reader || c->over || c->reader->done) continue;
    for (const auto& range : c->reader->ranges) {
      if (range.partition == partition && range.cursor <= seq && seq < range.end) return true;
    }
  }
  return false;
}

void Endpoint::release_if_free(std::uint32_t partition, std::uint64_t seq) {
  const Entry* entry = logs_[partition].find(seq);
  if (entry == nullptr || entry->handed_out > 0 || !is_satisfied(*entry) || is_needed(partition, seq)) return;
  remove(partition, seq, false);
}

void Endpoint::remove(std::uint32_t partition, std::uint64_t seq, bool evicted) {
  Entry* entry = logs_[partition].find(seq);
  if (entry->consumed() < readers_needed_) stop_awaiting(*entry);
  if (entry->consumed() == 0) --unread_batches_;
  --kept_batches_;
  kept_bytes_ -= entry->block.bytes;
  drop_block(*entry);
  logs_[partition].remove(seq, evicted);
}

// A reader has gone: what only it held up goes now.
void Endpoint::sweep() {
  for (std::uint32_t p = 0; p < logs_.size(); ++p) {
    std::vector<std::uint64_t> free;
    logs_[p].for_each([&](std::uint64_t seq, const Entry& entry) {
      if (entry.handed_out == 0 && is_satisfied(entry) && !is_needed(p, seq)) free.push_back(seq);
      return true;
    });
    for (const std::uint64_t seq : free) remove(p, seq, false);
  }
}

}  // namespace lwmq::stream
