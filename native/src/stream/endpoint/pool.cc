#include "stream/endpoint/pool.h"

#include <algorithm>

#include "base/cache_line.h"
#include "base/checked.h"
#include "base/yield_point.h"
#include "os/clock.h"
#include "os/identity.h"
#include "stream/kept_windows.h"

namespace lwmq::stream {

Pool::~Pool() {
  if (inherited_.empty() || os::forked()) return;
  if (pages_expected_ > 0 || std::ranges::any_of(pages_, &LapPage::is_in_use)) return;
  for (Window& window : inherited_) keep_spare(place_, std::move(window));
}

Status Pool::make_ledger() {
  LWMQ_YIELD("endpoint.ledger");
  Status status = LapPage::create(writer->provider(), &ledger);
  if (status == LWMQ_OK) status = writer->try_show(ledger.window());  // nobody waits for one client
  LWMQ_YIELD("endpoint.ledger_exported");
  return status;
}

Status Pool::add_window(const wire::Window& record, std::uint32_t pid) {
  if (record.index != windows_.size() || record.index >= kWindowSlotsMax)
    return fail(LWMQ_E_CORRUPT, "Window is malformed");
  Window window;
  LWMQ_YIELD("endpoint.window");
  const Status status = writer->find_window(record.id, &window);
  if (status != LWMQ_OK) return status;
  windows_.push_back(std::move(window));
  auto& announcement = announcements_.emplace_back(record);
  announcement.pool = number;
  announcement.pid = pid;
  return LWMQ_OK;
}

bool Pool::has(const wire::Publish& block) const noexcept {
  return block.window < windows_.size() && block.slot < kFinishedSlot && block.lap != 0 &&
         block.offset % kCacheLine == 0 && fits(block.offset, block.bytes, bytes_of(block.window));
}

Status Pool::show_windows(Link& reader, std::size_t* shown) const {
  for (; *shown < windows_.size(); ++*shown) {
    Status status = reader.try_show(windows_[*shown]);
    if (status != LWMQ_OK) return status;
    LWMQ_YIELD("endpoint.window_exported");
    wire::Window record = announcements_[*shown];
    record.window_bytes = window_bytes;
    status = reader.send_record(wire::StreamKind::kWindow, record);
    if (status != LWMQ_OK) return status;
  }
  return LWMQ_OK;
}

Status hand_over(Link& reader, std::uint32_t partition, std::uint64_t seq, const Entry& entry) {
  const Body& body = entry.body;
  wire::Batch record{};
  record.seq = seq;
  record.pool = body.pool->number;
  record.block = {partition,   body.window, body.slot,          body.lap,    body.offset,
                  entry.bytes, entry.rows,  entry.timestamp_ns, entry.flags, body.pool->sharers};
  return reader.send_record(wire::StreamKind::kBatch, record);
}

// ---- Towards the writer -----------------------------------------------------------------------------

void Pool::introduce(LapPage page, const wire::Lease& record) {
  --pages_expected_;
  forget_finished();
  pages_.push_back(page.share());
  if (writer == nullptr) return;
  introductions_.emplace_back(std::move(page), record);
  tell_writer();
}

void Pool::forget_finished() {
  std::erase_if(pages_, [](const LapPage& page) { return !page.is_in_use(); });
}

void Pool::lose_writer() noexcept {
  writer = nullptr;
  introductions_.clear();
  held_drops_.clear();
}

void Pool::inherit(std::string place, std::vector<Window> windows) {
  place_ = std::move(place);
  inherited_ = std::move(windows);
}

// First the readers whose pages the writer must look at, as far as it takes the news, and only then what was
// dropped since. With a drop that overtook an introduction, the writer would write over a lease that it knows
// nothing of.
void Pool::tell_writer() {
  for (; !introductions_.empty(); introductions_.pop_front()) {
    const auto& [page, record] = introductions_.front();
    if (!page.is_in_use()) continue;
    LWMQ_YIELD("endpoint.lease");
    const Status status = writer->try_show(page.window());
    if (status == LWMQ_E_FULL) return;  // a writer that is stopped or busy: nobody waits for it
    LWMQ_YIELD("endpoint.lease_exported");
    if (status == LWMQ_OK) writer->send_record(wire::StreamKind::kLease, record);
    LWMQ_YIELD("endpoint.lease_told");
  }
  if (writer->has_backlog()) return;
  for (const auto& [slot, lap] : std::exchange(held_drops_, {})) store_drop(slot, lap);
}

void Pool::drop(std::uint32_t slot, std::uint32_t lap) {
  const auto apart = quarantine_.find(slot);
  if (apart == quarantine_.end()) {
    give_back(slot, lap);
  } else {
    apart->second.dropped = true;
  }
}

void Pool::give_back(std::uint32_t slot, std::uint32_t lap) {
  if (writer != nullptr && (has_introductions() || writer->has_backlog())) {
    held_drops_.emplace_back(slot, lap);
  } else {
    store_drop(slot, lap);
  }
}

void Pool::store_drop(std::uint32_t slot, std::uint32_t lap) {
  LWMQ_YIELD("endpoint.drop");
  ledger[slot].store(lap, std::memory_order_release);  // sync: block-dropped
  LWMQ_YIELD("endpoint.dropped");
  drops_unheard_ = true;
  tell_room();
}

void Pool::tell_room() {
  if (!wants_room || !drops_unheard_ || writer == nullptr) return;
  wants_room = false;
  waits_since_ns = 0;
  drops_unheard_ = false;
  writer->send(wire::StreamKind::kRoom, nullptr, 0);
}

void Pool::begin_to_wait() noexcept {
  if (waits_since_ns != 0) return;
  waits_since_ns = os::coarse_now_ns();
  held_up_told = false;
}

// ---- Quarantine -------------------------------------------------------------------------------------

void Pool::set_apart(std::uint32_t slot, std::uint32_t lap) {
  auto& block = quarantine_[slot];
  block.lap = lap;
  ++block.readers;
}

void Pool::end_quarantine(std::uint32_t slot) {
  const auto found = quarantine_.find(slot);
  if (--found->second.readers > 0) return;
  const Quarantined block = found->second;
  quarantine_.erase(found);
  if (block.dropped) give_back(slot, block.lap);
}

}  // namespace lwmq::stream
