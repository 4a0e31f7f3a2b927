#include "stream/endpoint/watch.h"

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

#include "base/yield_point.h"
#include "os/clock.h"

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

void Watch::note_moved() noexcept {
  if (writers_wait_) look_soon(os::coarse_now_ns());
}

void Watch::note_waits() noexcept {
  writers_wait_ = true;
  look_soon(os::coarse_now_ns());
}

void Watch::look_soon(std::int64_t now_ns) noexcept {
  for (const auto& c : clients_) {
    if (!c->pool || c->pool->waits_since_ns == 0) continue;
    look_at(now_ns + in_ns(c->pool->stall_ms));
    if (c->pool->expel_after_ms != 0) look_at(now_ns + in_ns(c->pool->expel_after_ms));
  }
}

void Watch::look_at(std::int64_t at_ns) noexcept {
  if (at_ns_ == 0 || at_ns < at_ns_) at_ns_ = at_ns;
}

// Says when to look again: never, where every reader in the way is known.
void Watch::look() {
  const std::int64_t now_ns = os::coarse_now_ns();
  const bool overslept = now_ns - at_ns_ > kOversleptNs;
  at_ns_ = 0;
  if (overslept) {  // this process was stopped, and maybe all others with it: all waits begin anew
    for (auto& c : clients_) {
      if (c->pool && c->pool->waits_since_ns != 0) c->pool->waits_since_ns = now_ns;
    }
    return look_soon(now_ns);
  }
  writers_wait_ = false;
  for (auto& c : clients_) {
    if (c->reader) c->reader->stalled = false;
  }
  bool any_expelled = false;
  for (auto& w : clients_) {
    if (!w->pool || w->over || w->pool->waits_since_ns == 0) continue;
    writers_wait_ = true;
    any_expelled |= look_at_readers_of(*w, now_ns);
  }
  if (!any_expelled) return;
  readers_.sweep();
  for (auto& c : clients_) {
    if (c->pool && c->pool->wants_room) readers_.make_room(*c->pool);
  }
  news_.for_readers = news_.for_writers = true;
}

// The readers for which the writer's oldest batch waits keep it waiting. Once they have moved or are gone,
// the others get their time. True when some of them were expelled.
bool Watch::look_at_readers_of(Client& writer, std::int64_t now_ns) {
  Pool& pool = *writer.pool;
  // Where everything is kept, no reader makes room by going on.
  if (log_.retain() == LWMQ_RETAIN_ALL && pool.wants_room) return false;
  std::uint64_t oldest = kNothing;
  std::vector<std::pair<Client*, std::uint64_t>> in_the_way;
  for (auto& c : clients_) {
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
    if (pool.expel_after_ms != 0) look_at(since_ns + in_ns(pool.expel_after_ms));
    if (silent_ns < in_ns(pool.stall_ms)) {
      look_at(since_ns + in_ns(pool.stall_ms));
      continue;
    }
    reader.stalled = true;
    if (std::exchange(pool.held_up_told, true)) continue;
    wire::HeldUp letter;
    letter.pid = c->peer.pid;
    letter.name = reader.options.name;
    writer.link.send_letter(wire::StreamKind::kHeldUp, letter);
  }
  if (any_expelled) {  // the writer looks for room anew, and asks again where there is none
    pool.wants_room = false;
    pool.waits_since_ns = 0;
    if (writer.writer && writer.writer->closing) {
      pool.begin_to_wait();
      note_waits();
    }
  }
  return any_expelled;
}

// When the oldest batch of the pool arrived that is in this reader's hands or still to come to it.
std::uint64_t Watch::oldest_awaiting(const ReaderSession& reader, const Pool& pool) {
  std::uint64_t oldest = kNothing;
  for (const auto& [partition, seq] : reader.handed) {
    const Entry* entry = log_[partition].find(seq);
    if (entry != nullptr && entry->body.pool.get() == &pool) oldest = std::min(oldest, entry->arrival);
  }
  if (reader.done) return oldest;
  for (const auto& range : reader.ranges) {
    log_[range.partition].for_each([&](std::uint64_t seq, const Entry& entry) {
      if (seq < range.cursor || seq >= range.end || entry.body.pool.get() != &pool) return true;
      oldest = std::min(oldest, entry.arrival);
      return false;
    });
  }
  return oldest;
}

// ---- Expelling --------------------------------------------------------------------------------------

void Watch::expel(Client& c, Client& writer, std::int64_t silent_ns) {
  ReaderSession& reader = *c.reader;
  wire::Text letter;
  letter.status = LWMQ_E_DATA_LOSS;
  letter.text =
      id_.address + ": this reader (" + reader.options.name + ") was expelled at " + utc_now() +
      ": it had taken nothing for " + std::to_string(silent_ns / 1'000'000) + " ms while " +
      name_of(writer.peer) + " waited to write (expel_after=" + std::to_string(writer.pool->expel_after_ms) +
      "ms). Batches that it had not consumed " +
      (reader.handed.empty() ? std::string()
                             : "(from " + std::to_string(reader.handed.front().second) + " of partition " +
                                   std::to_string(reader.handed.front().first) + " on) ") +
      "went to other readers or wait for one: open anew to read what is still kept";
  letter.text.resize(std::min<std::size_t>(letter.text.size(), kReasonBytesMax));
  LWMQ_YIELD("endpoint.expel");
  std::map<Pool*, std::vector<wire::SlotField>> apart;
  apart[writer.pool.get()];  // its writer hears of it in any case
  for (const auto& [partition, seq] : std::exchange(reader.handed, {})) {
    Entry* entry = log_[partition].find(seq);
    if (entry == nullptr) continue;
    --entry->holders;
    const Body& body = entry->body;
    body.pool->set_apart(body.slot, body.lap);
    reader.quarantined.emplace_back(body.pool, body.slot);
    apart[body.pool.get()].push_back({body.slot});
  }
  reader.expelled = reader.done = true;
  reader.stalled = false;
  ++expelled_;
  forgo_acknowledgement();
  c.link.send_letter(wire::StreamKind::kExpelled, letter);
  LWMQ_YIELD("endpoint.expelled");
  for (auto& [pool, blocks] : apart) {
    if (pool->writer == nullptr) continue;
    wire::HeldUp letter_to_writer;
    letter_to_writer.expelled = 1;
    letter_to_writer.pid = c.peer.pid;
    letter_to_writer.name = reader.options.name;
    letter_to_writer.blocks = std::move(blocks);
    pool->writer->send_letter(wire::StreamKind::kHeldUp, letter_to_writer);
  }
}

// Where fewer readers are left than the stream waits for, it waits for one less from here on: the expelled
// reader has given its acknowledgement up.
void Watch::forgo_acknowledgement() {
  std::set<std::uint32_t> names;
  for (const auto& c : clients_) {
    if (c->reader && !c->over && !c->reader->expelled) names.insert(c->reader->name);
  }
  if (names.size() < log_.readers_needed()) log_.need_one_reader_less();
}

}  // namespace lwmq::stream
