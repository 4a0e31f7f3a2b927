// The endpoint's patience with readers: who keeps a writer waiting, since when, and what becomes of it.
//
// From here a reader that is stopped and one that computes look alike: neither takes anything. So nobody is
// asked; what counts is that a writer waits, for room or to be read to its end, and that the reader stands in
// its way.
//
// An expelled reader may be alive. Three sorts of blocks are its own until it has heard, or died:
//
//   handed over, not consumed   it may lease them without asking: they lie in *quarantine*, dropped from
//                               the log and not from the ledger
//   leased                      stand on its lease pages, where the writer looks
//   never handed over           not its own: they are dropped as for everybody
//
// Its answer to Expelled ends the quarantine: what it leases was on its pages before.
#include <time.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/yield_point.h"
#include "os/clock.h"
#include "os/process_name.h"
#include "stream/conversation.h"
#include "stream/endpoint.h"

namespace lwmq::stream {
namespace {

constexpr std::int64_t kOversleptNs = 1'000'000'000;
constexpr std::uint64_t kNothing = ~std::uint64_t{0};

constexpr std::int64_t in_ns(std::uint32_t ms) noexcept { return std::int64_t{ms} * 1'000'000; }

std::string utc_now() {
  const std::time_t now = static_cast<std::time_t>(os::realtime_ns() / 1'000'000'000);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

}  // namespace

// ---- Watching ---------------------------------------------------------------------------------------

void Endpoint::begin_to_wait(Pool& pool) {
  writers_wait_ = true;
  if (pool.waits_since_ns != 0) return;
  pool.waits_since_ns = os::coarse_now_ns();
  pool.held_up_told = false;
  watch_soon(pool.waits_since_ns);
}

void Endpoint::watch_soon(std::int64_t now_ns) noexcept {
  for (const auto& c : conversations_) {
    if (!c->pool || c->pool->waits_since_ns == 0) continue;
    watch_at(now_ns + in_ns(c->pool->stall_ms));
    if (c->pool->expel_after_ms != 0) watch_at(now_ns + in_ns(c->pool->expel_after_ms));
  }
}

void Endpoint::watch_at(std::int64_t at_ns) noexcept {
  if (watch_at_ns_ == 0 || at_ns < watch_at_ns_) watch_at_ns_ = at_ns;
}

// Looks at who waits for whom, and says when to look again: no more where every reader in the way is known.
void Endpoint::watch_readers() {
  const std::int64_t now_ns = os::coarse_now_ns();
  const bool overslept = now_ns - watch_at_ns_ > kOversleptNs;
  watch_at_ns_ = 0;
  if (overslept) {  // it was we who were stopped, and maybe everybody with us: all waits begin anew
    for (auto& c : conversations_) {
      if (c->pool && c->pool->waits_since_ns != 0) c->pool->waits_since_ns = now_ns;
    }
    return watch_soon(now_ns);
  }
  writers_wait_ = false;
  for (auto& c : conversations_) {
    if (c->reader) c->reader->stalled = false;
  }
  bool any_expelled = false;
  for (auto& w : conversations_) {
    if (!w->pool || w->over || w->pool->waits_since_ns == 0) continue;
    writers_wait_ = true;
    any_expelled |= watch_readers_of(*w, now_ns);
  }
  if (!any_expelled) return;
  sweep();
  for (auto& c : conversations_) {
    if (c->pool && c->pool->wants_room) make_room(*c->pool);
  }
  advance_all();
  report_drained();
}

// Who keeps this writer waiting are the readers that its oldest batch waits for; once they have moved, or are
// gone, the others get their time. True when some of them were expelled.
bool Endpoint::watch_readers_of(Conversation& writer, std::int64_t now_ns) {
  Pool& pool = *writer.pool;
  // Where everything is kept, no reader's going on makes room.
  if (retain_ == LWMQ_RETAIN_ALL && pool.wants_room) return false;
  std::uint64_t oldest = kNothing;
  std::vector<std::pair<Conversation*, std::uint64_t>> in_the_way;
  for (auto& c : conversations_) {
    if (!c->reader || c->over || c->reader->expelled) continue;
    const std::uint64_t arrival = oldest_awaiting(*c->reader, pool);
    oldest = std::min(oldest, arrival);
    if (arrival != kNothing) in_the_way.emplace_back(c.get(), arrival);
  }
  bool any_expelled = false;
  for (const auto& [c, arrival] : in_the_way) {
    if (arrival != oldest) continue;
    ReaderSession& reader = *c->reader;
    const std::int64_t since_ns = std::max(reader.moved_ns, pool.waits_since_ns);
    const std::int64_t silent_ns = now_ns - since_ns;
    if (pool.expel_after_ms != 0 && silent_ns >= in_ns(pool.expel_after_ms)) {
      expel(*c, writer, silent_ns);
      any_expelled = true;
      continue;
    }
    if (pool.expel_after_ms != 0) watch_at(since_ns + in_ns(pool.expel_after_ms));
    if (silent_ns < in_ns(pool.stall_ms)) {
      watch_at(since_ns + in_ns(pool.stall_ms));
      continue;
    }
    reader.stalled = true;
    if (std::exchange(pool.held_up_told, true)) continue;
    wire::HeldUp letter;
    letter.pid = c->peer.pid;
    letter.name = reader.options.name;
    writer.link.send_letter(wire::StreamKind::kHeldUp, letter);
  }
  if (any_expelled) {  // it looks for room anew, and asks again where there is none
    pool.wants_room = false;
    pool.waits_since_ns = 0;
    if (writer.writer && writer.writer->closing) begin_to_wait(pool);
  }
  return any_expelled;
}

// When the oldest batch of the pool arrived that waits for this reader: in its hands, or still to come to it.
std::uint64_t Endpoint::oldest_awaiting(const ReaderSession& reader, const Pool& pool) {
  std::uint64_t oldest = kNothing;
  for (const auto& [partition, seq] : reader.handed) {
    const Entry* entry = logs_[partition].find(seq);
    if (entry != nullptr && entry->pool.get() == &pool) oldest = std::min(oldest, entry->arrival);
  }
  if (reader.done) return oldest;
  for (const auto& range : reader.ranges) {
    logs_[range.partition].for_each([&](std::uint64_t seq, const Entry& entry) {
      if (seq < range.cursor || seq >= range.end || entry.pool.get() != &pool) return true;
      oldest = std::min(oldest, entry.arrival);
      return false;
    });
  }
  return oldest;
}

// ---- Expelling --------------------------------------------------------------------------------------

void Endpoint::expel(Conversation& c, Conversation& writer, std::int64_t silent_ns) {
  ReaderSession& reader = *c.reader;
  wire::Text letter;
  letter.status = LWMQ_E_DATA_LOSS;
  letter.text =
      address_ + ": this reader (" + reader.options.name + ") was expelled at " + utc_now() +
      ": it had taken nothing for " + std::to_string(silent_ns / 1'000'000) + " ms while " +
      os::process_name(writer.peer.pid) +
      " waited to write (expel_after=" + std::to_string(writer.pool->expel_after_ms) +
      "ms). Batches that it had not consumed " +
      (reader.handed.empty() ? std::string()
                             : "(from " + std::to_string(reader.handed.front().second) + " of partition " +
                                   std::to_string(reader.handed.front().first) + " on) ") +
      "went to other readers or wait for one: open anew to read what is still kept";
  letter.text.resize(std::min<std::size_t>(letter.text.size(), kReasonBytesMax));
  LWMQ_YIELD("endpoint.expel");
  std::map<Pool*, std::vector<wire::SlotField>> apart;
  apart[writer.pool.get()];  // hears of it in any case
  for (const auto& [partition, seq] : std::exchange(reader.handed, {})) {
    Entry* entry = logs_[partition].find(seq);
    if (entry == nullptr) continue;
    --entry->handed_out;
    auto& block = entry->pool->quarantine[entry->block.slot];
    block.lap = entry->block.lap;
    ++block.readers;
    reader.quarantined.emplace_back(entry->pool, entry->block.slot);
    apart[entry->pool.get()].push_back({entry->block.slot});
  }
  reader.expelled = reader.done = true;
  reader.stalled = false;
  ++readers_expelled_;
  forgo_acknowledgement();
  c.link.send_letter(wire::StreamKind::kExpelled, letter);
  LWMQ_YIELD("endpoint.expelled");
  for (auto& [pool, blocks] : apart) {
    if (pool->conversation == nullptr) continue;
    wire::HeldUp news;
    news.expelled = 1;
    news.pid = c.peer.pid;
    news.name = reader.options.name;
    news.blocks = std::move(blocks);
    pool->conversation->link.send_letter(wire::StreamKind::kHeldUp, news);
  }
}

// Where fewer readers are left than the stream waits for, it waits for one less from here on: whoever was
// expelled has given its acknowledgement up. One is always waited for.
void Endpoint::forgo_acknowledgement() {
  std::set<std::uint32_t> names;
  for (const auto& c : conversations_) {
    if (c->reader && !c->over && !c->reader->expelled) names.insert(c->reader->name);
  }
  if (readers_needed_ <= 1 || names.size() >= readers_needed_) return;
  --readers_needed_;
  for (auto& log : logs_) {
    log.for_each([&](std::uint64_t, const Entry& entry) {
      if (entry.consumed() == readers_needed_) stop_awaiting(entry);
      return true;
    });
  }
}

// The expelled reader has heard, or is gone: what it leases stands on its pages.
void Endpoint::end_quarantine(ReaderSession& reader) {
  for (const auto& [pool, slot] : std::exchange(reader.quarantined, {})) {
    const auto found = pool->quarantine.find(slot);
    if (--found->second.readers > 0) continue;
    const auto block = found->second;
    pool->quarantine.erase(found);
    if (block.dropped) give_back(*pool, slot, block.lap);
  }
}

}  // namespace lwmq::stream
