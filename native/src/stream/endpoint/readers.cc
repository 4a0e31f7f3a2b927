#include "stream/endpoint/readers.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/identity.h"

namespace lwmq::stream {
namespace {

// Whether a reader that reads on from arrival `oldest` hears of the abort: of a producer whose batches it
// will still see. A loss behind which nothing is left is told to one reader all the same, and to each attempt
// at the task that has heard it.
bool is_news(const Jobs::Abort& abort, const ReaderSession& reader, std::uint64_t oldest) {
  if (abort.arrival > oldest) return true;
  const bool is_next_attempt = !reader.options.task.empty() && abort.told_to == reader.name;
  return abort.status == LWMQ_E_DATA_LOSS && (!abort.told_to || is_next_attempt);
}

void forget_finished(std::vector<ReaderSession::Taken>& taken) {
  std::erase_if(taken, [](const auto& t) { return !t.producer->open && t.producer->unconsumed == 0; });
}

void note_taken(ReaderSession& reader, const Entry& entry) {
  auto& taken = reader.taken;
  if (taken.empty() || taken.back().producer != entry.producer) {  // else as before
    const auto found = std::ranges::find(taken, entry.producer, &ReaderSession::Taken::producer);
    if (found == taken.end()) {
      forget_finished(taken);
      taken.push_back({entry.producer});
    } else {
      std::swap(*found, taken.back());
    }
  }
  ++taken.back().batches, taken.back().rows += entry.rows;
}

}  // namespace

// ---- Opening ----------------------------------------------------------------------------------------

Status Readers::open(Client& c, const std::string& bytes) {
  auto session = std::make_unique<ReaderSession>();
  wire::OpenReader& options = session->options;
  if (!wire::decode(bytes, &options) || c.reader || c.writer || c.job || options.name.empty())
    return malformed("OpenReader");
  options.credit = std::clamp<std::uint32_t>(options.credit, 1, kReaderCreditMax);
  options.writers = std::max<std::uint32_t>(options.writers, 1);
  if (!options.generation.empty() && options.generation != id_.generation &&
      !LWMQ_PLANTED("forget_generation")) {
    return refuse(c, id_, LWMQ_E_DATA_LOSS,
                  "the stream is of another generation than the offsets: its endpoint was started anew, "
                  "and what the old one held is gone");
  }
  c.process = name_of(c.peer);
  session->name = names_.emplace(options.name, static_cast<std::uint32_t>(names_.size())).first->second;
  // A reader that takes part in a planned read may come when the others have read everything. It hears of the
  // end all the same.
  session->joined_before_end = !jobs_.have_ended(options.writers) || !options.generation.empty();
  session->aborts_seen = jobs_.aborts().size();  // declare_to looks again
  c.reader = std::move(session);
  const Status status = c.link.send_letter(wire::StreamKind::kOpened, opened(id_, clients_, log_));
  if (log_.is_declared()) declare_to(c);
  return status;
}

void Readers::declare_to_all() {
  for (const auto& c : clients_) {
    if (c->reader && !c->reader->declared) declare_to(*c);
  }
}

// Tells the reader the schema, and turns what it asked for into numbers.
void Readers::declare_to(Client& c) {
  ReaderSession& reader = *c.reader;
  reader.declared = true;
  wire::Text letter;
  letter.text = log_.schema();
  c.link.send_letter(wire::StreamKind::kDeclared, letter);
  std::vector<wire::RangeField> asked = reader.options.ranges;
  if (asked.empty()) {
    for (std::uint32_t p = 0; p < log_.size(); ++p) asked.push_back({p, LWMQ_SEQ_EARLIEST, LWMQ_SEQ_END});
  }
  if (!reader.options.job.empty()) {
    std::set<std::uint32_t> partitions;
    for (const auto& range : asked) partitions.insert(range.partition);
    asked.clear();
    if (jobs_.committed_ranges(reader.options, partitions, &asked) != LWMQ_OK)
      return fail_reader(c, LWMQ_E_DATA_LOSS, last_error());
  }
  std::uint64_t oldest = log_.figures().arrived;
  for (const auto& range : asked) {
    const std::string where = "partition " + std::to_string(range.partition);
    if (range.partition >= log_.size()) {
      return fail_reader(c, LWMQ_E_INVALID,
                         where + " was asked for; the stream has " + std::to_string(log_.size()));
    }
    PartitionLog& log = log_[range.partition];
    std::uint64_t start = range.start;
    if (start == LWMQ_SEQ_EARLIEST) start = log.unacked_seq_of(reader.name);
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
                 "larger window (buffer_bytes, buffers), or .cache() where one DataFrame is evaluated twice");
    }
    reader.ranges.push_back({range.partition, start, end});
    if (const Entry* entry = log.find(log.next_present(start))) oldest = std::min(oldest, entry->arrival);
  }
  const auto& aborts = jobs_.aborts();
  const auto is_told = [&](const Jobs::Abort& abort) { return is_news(abort, reader, oldest); };
  reader.aborts_seen = static_cast<std::size_t>(std::ranges::find_if(aborts, is_told) - aborts.begin());
  advance(c);
}

// A reader has made its lease page for a pool: the pool's writer must look there before it writes again.
Status Readers::lease(Client& c, const std::string& bytes) {
  wire::Lease record;
  if (!read_record(bytes, &record) || !c.reader) return malformed("Lease");
  // One page for each pool that the reader was shown: every page costs the writer a mapping and a look at
  // each block.
  const auto found = c.reader->pools.find(record.pool);
  if (found == c.reader->pools.end() || std::exchange(found->second.has_page, true)) {
    return fail(LWMQ_E_CORRUPT,
                "Lease names pool %" PRIu64 ", which this reader was not shown or leases already",
                record.pool);
  }
  LapPage page;
  const Status status = c.link.find_page(record.id, &page);  // one that nobody looks for would lie in the way
  if (status != LWMQ_OK) return status;
  if (const auto pool = found->second.pool.lock()) pool->introduce(std::move(page), record);
  return LWMQ_OK;
}

void Readers::leave(Client& c, Status why) {
  for (const auto& [partition, seq] : c.reader->handed) {
    if (Entry* entry = log_[partition].find(seq)) --entry->holders;
  }
  for (const auto& [number, shown] : c.reader->pools) {
    const auto pool = shown.pool.lock();
    if (!pool) continue;
    // A page that was made, and whose message was lost, is expected for ever.
    if (shown.windows == 0 && !shown.has_page) pool->expect_no_page();
    pool->forget_finished();
  }
  if (why != LWMQ_E_CLOSED || c.reader->abandoned) tell_of_lost(c, why == LWMQ_E_PEER_LOST);
  end_quarantine(*c.reader);
  c.reader.reset();
}

// Tells the writers whose stream it read.
void Readers::tell_of_lost(const Client& c, bool died) {
  ReaderSession& reader = *c.reader;
  if (reader.expelled || (reader.done && reader.handed.empty())) return;  // it had nothing more to read
  ++lost_;
  const std::string who = "reader " + reader.options.name + ", " + c.process + " on host " +
                          os::identity().host + ", " +
                          (died ? os::process_end(c.peer.pid) : "left before it had finished");
  std::string place = "had not been told the schema";
  if (!reader.ranges.empty()) {
    const auto [partition, seq] = reader.handed.empty()
                                      ? std::make_pair(reader.ranges[0].partition, reader.ranges[0].cursor)
                                      : reader.handed.front();
    place = "had come to batch " + std::to_string(seq) + " of partition " + std::to_string(partition);
  }
  const std::size_t held = reader.handed.size();
  const std::string text =
      who + "; it " + place + ", and the " +
      (held == 1 ? "batch in its hands goes" : std::to_string(held) + " batches in its hands go") +
      " to the next reader";
  const std::string loss = forsake(reader, who);
  for (const auto& other : clients_) {
    if (!other->writer || other->over) continue;
    const bool is_hit = !loss.empty() && !other->writer->producer->loss.empty();
    wire::Text letter;
    letter.status = is_hit ? LWMQ_E_DATA_LOSS : LWMQ_OK;
    letter.text = (is_hit ? other->writer->producer->loss : text).substr(0, kReasonBytesMax);
    other->link.send_letter(wire::StreamKind::kReaderLost, letter);
  }
}

// What a reader without a name has taken and not finished is not acknowledged by its end. What is still kept
// goes to the next reader. What is gone is a loss of its producers, which they and later readers hear of. A
// producer that has ended and was read to its end is finished. Returns the loss as a text; empty: none.
std::string Readers::forsake(ReaderSession& reader, const std::string& who) {
  auto& taken = reader.taken;
  forget_finished(taken);
  if (taken.empty()) return {};
  for (std::uint32_t p = 0; p < log_.size(); ++p) {
    log_[p].for_each([&](std::uint64_t seq, const Entry& entry) {
      const auto found = std::ranges::find(taken, entry.producer, &ReaderSession::Taken::producer);
      if (found != taken.end() && log_.forget(p, seq, reader.name))
        --found->batches, found->rows -= entry.rows;
      return true;
    });
  }
  std::string text;
  for (const auto& [producer, batches, rows] : taken) {
    if (batches == 0) continue;
    text = who + ". With it went " + std::to_string(batches) + " batches (" + std::to_string(rows) +
           " rows) of " + producer->name +
           ", which it had read, and nobody else can. Ways out: retain=\"all\", or a name for the reader, "
           "under which the next one goes on where it was";
    jobs_.note_loss(*producer, text);
  }
  return text;
}

void Readers::end_quarantine(ReaderSession& reader) {
  for (const auto& [pool, slot] : std::exchange(reader.quarantined, {})) pool->end_quarantine(slot);
}

std::uint32_t Readers::open_count() const noexcept {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(clients_, [](const auto& c) { return c->reader && !c->reader->expelled; }));
}

// ---- Handing out ------------------------------------------------------------------------------------

void Readers::advance_all() {
  for (const auto& c : clients_) {
    if (c->reader && !c->over) advance(*c);
  }
}

void Readers::advance(Client& c) {
  ReaderSession& reader = *c.reader;
  const auto& aborts = jobs_.aborts();
  reader.behind = false;
  while (reader.declared && !reader.done && reader.handed.size() < reader.options.credit) {
    ReaderRange* best = nullptr;
    Entry* best_entry = nullptr;
    for (auto& range : reader.ranges) {
      PartitionLog& log = log_[range.partition];
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
    if (reader.aborts_seen < aborts.size() &&
        (best == nullptr || best_entry->arrival >= aborts[reader.aborts_seen].arrival)) {
      const Jobs::Abort& abort = jobs_.tell(reader.aborts_seen++, reader.name);
      fail_reader(c, abort.status, abort.reason);
      continue;  // for a reader that follows, more may be there already, and nobody calls again
    }
    if (best == nullptr) return finish_if_done(c);
    if (!hand_out(c, best->partition, best->cursor, *best_entry)) return;
    ++best->cursor;
    reader.handed_any = true;
  }
}

bool Readers::hand_out(Client& c, std::uint32_t partition, std::uint64_t seq, Entry& entry) {
  ReaderSession& reader = *c.reader;
  Pool& pool = *entry.body.pool;
  const auto [place, is_first] = reader.pools.try_emplace(pool.number);
  if (is_first) {
    if (std::has_single_bit(reader.pools.size()))  // seldom: there may be many, all in use
      std::erase_if(reader.pools, [](const auto& shown) { return shown.second.is_over(); });
    place->second.pool = entry.body.pool;
    pool.expect_page();
    pool.sharers = sharers_of(pool.number);
  }
  const Status shown = pool.show_windows(c.link, &place->second.windows);
  reader.behind = shown == LWMQ_E_FULL;  // it is stopped or busy: nobody waits for it
  if (shown != LWMQ_OK) return false;
  LWMQ_YIELD("endpoint.hand_out");
  if (hand_over(c.link, partition, seq, entry) != LWMQ_OK) return false;
  LWMQ_YIELD("endpoint.handed_out");
  ++entry.holders;
  if (reader.handed.empty()) {
    reader.moved_ns = os::coarse_now_ns();
    news_.reader_moved = true;
  }
  reader.handed.emplace_back(partition, seq);
  return true;
}

// Everything there is was handed out. Tells the reader if that is the end.
void Readers::finish_if_done(Client& c) {
  ReaderSession& reader = *c.reader;
  bool to_the_end = false;  // some range waits for the stream's end
  bool reaches_end = true;  // every range has come to where the stream ends
  for (const auto& range : reader.ranges) {
    if (range.end == LWMQ_SEQ_END) {
      to_the_end = true;
    } else if (range.cursor < range.end) {
      return;
    }
    reaches_end = reaches_end && range.cursor == log_[range.partition].next_seq();
  }
  if (to_the_end) {
    if (!jobs_.have_ended(reader.options.writers)) return;
    // The end of a stream that others have read is no news for a reader that comes later: it waits for the
    // next producer.
    const bool is_news = (jobs_.end_is_unread() && !jobs_.has_read_end(reader.name)) || reader.handed_any ||
                         reader.joined_before_end || log_.retain() == LWMQ_RETAIN_ALL;
    if (!is_news) return;
    if (reader.options.follow != 0) {
      jobs_.note_end_read(reader.name);
      reader.joined_before_end = true;
      return;
    }
  }
  if (reaches_end && jobs_.have_ended(1)) jobs_.note_end_read(reader.name);
  reader.done = true;
  news_.for_writers = true;
  c.link.send(wire::StreamKind::kEnd, nullptr, 0);
}

bool Readers::is_late(const ReaderSession& reader) const {
  if (!jobs_.have_ended(reader.options.writers) || !reader.handed.empty()) return false;
  return std::ranges::all_of(reader.ranges, [this](const ReaderRange& range) {
    const PartitionLog& log = log_[range.partition];
    return range.end == LWMQ_SEQ_END && log.next_present(range.cursor) == log.next_seq();
  });
}

void Readers::fail_reader(Client& c, Status status, const std::string& text) {
  wire::Text letter;
  letter.status = status;
  letter.text = (id_.address + ": " + text).substr(0, kReasonBytesMax);
  c.link.send_letter(wire::StreamKind::kFailed, letter);
  // A reader that follows goes on after the end of a producer, with the next one.
  const bool of_a_producer = status == LWMQ_E_ABORTED || status == LWMQ_E_PEER_LOST;
  if (!of_a_producer || c.reader->options.follow == 0) c.reader->done = c.reader->failed = true;
}

// A batch that the reader needs was released. Where another attempt at the reader's task lives, this one
// gives way.
void Readers::fail_for_released(Client& c, const std::string& text) {
  const wire::OpenReader& own = c.reader->options;
  const auto has_it = [&](const auto& other) {
    return !other->over && other->reader && !other->reader->expelled && !other->reader->failed &&
           !own.task.empty() && other->reader->options.task == own.task &&
           other->reader->options.attempt != own.attempt;
  };
  const auto other = std::ranges::find_if(clients_, has_it);
  if (other == clients_.end()) return fail_reader(c, LWMQ_E_DATA_LOSS, text);
  fail_reader(c, LWMQ_E_SUPERSEDED,
              text + ". Attempt " + std::to_string((*other)->reader->options.attempt) + " at " + own.task +
                  ", in " + (*other)->process + ", has it and reads on: this attempt gives way");
}

void Readers::count_sharers() {
  for (const auto& c : clients_) {
    if (c->pool && c->pool->sharers > 1) c->pool->sharers = sharers_of(c->pool->number);
  }
}

// Readers of the same partitions hold mostly the same batches, and count as one.
std::uint32_t Readers::sharers_of(std::uint64_t pool) const {
  std::set<std::uint32_t> taken;
  std::uint32_t sharers = 0;
  for (const auto& c : clients_) {
    if (!c->reader || c->over || !c->reader->pools.contains(pool)) continue;
    const auto& ranges = c->reader->ranges;
    const auto is_taken = [&](const ReaderRange& range) { return taken.contains(range.partition); };
    if (std::ranges::any_of(ranges, is_taken)) continue;
    for (const ReaderRange& range : ranges) taken.insert(range.partition);
    ++sharers;
  }
  return sharers;
}

// ---- Moving past ------------------------------------------------------------------------------------

Status Readers::consumed(Client& c, const std::string& bytes) {
  wire::Consumed record;
  // The reader sent this before it heard that it was expelled: what it consumed is no longer its own.
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
  news_.reader_moved = true;  // another one may be in a writer's way now
  if (Entry* entry = log_[record.partition].find(record.seq)) {
    --entry->holders;
    log_.note_consumed(*entry, reader.name);
    if (reader.options.named == 0 && log_.retain() != LWMQ_RETAIN_NONE) note_taken(reader, *entry);
    if (reader.options.acknowledge == LWMQ_ACK_CONSUMED) {
      log_[record.partition].acknowledge(record.seq, reader.name);
    } else {
      unsettled_[reader.name].emplace_back(record.partition, record.seq);
    }
    const std::shared_ptr<Pool> pool = entry->body.pool;
    if (is_free(record.partition, record.seq, *entry)) remove(record.partition, record.seq, false);
    if (pool->wants_room) make_room(*pool);
  }
  advance(c);
  return LWMQ_OK;
}

Status Readers::settle(Client& c, const std::string& bytes) {
  wire::Settle letter;
  if (!wire::decode(bytes, &letter)) return malformed("Settle");
  if (const auto number = names_.find(letter.name); number != names_.end()) {
    const auto found = unsettled_.extract(number->second);
    if (!found.empty() && letter.acknowledge != 0) {
      for (const auto& [partition, seq] : found.mapped()) log_[partition].acknowledge(seq, number->second);
      for (const auto& [partition, seq] : found.mapped()) {
        const Entry* entry = log_[partition].find(seq);
        if (entry != nullptr && is_free(partition, seq, *entry)) remove(partition, seq, false);
      }
    }
  }
  return c.link.send(wire::StreamKind::kSettled, nullptr, 0);
}

// ---- Releasing --------------------------------------------------------------------------------------

// Some open reader has still to be handed this batch.
bool Readers::is_needed(std::uint32_t partition, std::uint64_t seq) const {
  return std::ranges::any_of(clients_, [&](const auto& c) {
    return c->reader && !c->over && !c->reader->done &&
           std::ranges::any_of(c->reader->ranges, [&](const ReaderRange& range) {
             return range.partition == partition && range.cursor <= seq && seq < range.end;
           });
  });
}

bool Readers::is_free(std::uint32_t partition, std::uint64_t seq, const Entry& entry) const {
  return entry.holders == 0 && log_.is_satisfied(entry) && !is_needed(partition, seq);
}

void Readers::remove(std::uint32_t partition, std::uint64_t seq, bool evicted) {
  drop(log_.remove(partition, seq, evicted));
}

void Readers::sweep() {
  if (log_.retain() == LWMQ_RETAIN_ALL) return;
  for (std::uint32_t p = 0; p < log_.size(); ++p) {
    std::vector<std::uint64_t> free;
    log_[p].for_each([&](std::uint64_t seq, const Entry& entry) {
      if (is_free(p, seq, entry)) free.push_back(seq);
      return true;
    });
    for (const std::uint64_t seq : free) remove(p, seq, false);
  }
}

void Readers::make_room(const Pool& pool) {
  if (log_.retain() == LWMQ_RETAIN_ALL) return;
  struct Candidate {
    std::uint64_t arrival;
    std::uint32_t partition;
    std::uint64_t seq, bytes;
  };
  std::vector<Candidate> candidates;
  for (std::uint32_t p = 0; p < log_.size(); ++p) {
    log_[p].for_each([&](std::uint64_t seq, const Entry& entry) {
      if (entry.body.pool.get() == &pool && entry.holders == 0 && entry.consumed() >= log_.readers_needed() &&
          !is_needed(p, seq)) {
        candidates.push_back({entry.arrival, p, seq, entry.bytes});
      }
      return true;
    });
  }
  std::ranges::sort(candidates, {}, &Candidate::arrival);
  std::uint64_t freed = 0;
  for (const Candidate& candidate : candidates) {
    if (freed >= pool.wanted_bytes) break;
    freed += candidate.bytes;
    remove(candidate.partition, candidate.seq, true);
  }
}

}  // namespace lwmq::stream
