#include "stream/window_pool.h"

#include <algorithm>
#include <bit>
#include <new>

#include "base/cache_line.h"
#include "base/checked.h"
#include "base/yield_point.h"
#include "stats/process_counters.h"

namespace lwmq::stream {
namespace {

constexpr std::uint64_t kSmallestBlock = kKiB;
constexpr std::uint32_t kClassesPerDoubling = 8;
// Of a window, unless the pool is smaller or the block larger.
constexpr std::uint64_t kFirstBytes = 256 * kKiB;
constexpr std::uint64_t kSegmentBytes = 16 * kMiB;
constexpr std::size_t kGlance = 16;                   // in-flight blocks looked at before memory is taken
constexpr std::uint64_t kWorkingSetBytes = 8 * kMiB;  // in flight, that caches hold: DECISIONS.md

// Class c is (8 + c % 8) << (c / 8 + 7) bytes: 1 KiB, 1.125 KiB ... 2 KiB ...
constexpr std::uint64_t class_bytes(std::uint32_t size_class) noexcept {
  return std::uint64_t{kClassesPerDoubling + size_class % kClassesPerDoubling}
         << (size_class / kClassesPerDoubling + 7);
}
static_assert(class_bytes(0) == kSmallestBlock && class_bytes(8) == 2 * kSmallestBlock);
static_assert(class_bytes(1) % kCacheLine == 0);

constexpr std::uint32_t class_of(std::uint64_t bytes) noexcept {
  if (bytes <= kSmallestBlock) return 0;
  const auto doubling =
      static_cast<std::uint32_t>(std::bit_width(bytes - 1) - 11);  // of the power of two below
  std::uint32_t size_class = doubling * kClassesPerDoubling;
  while (class_bytes(size_class) < bytes) ++size_class;
  return size_class;
}
static_assert(class_of(1024) == 0 && class_of(1025) == 1 && class_of(2048) == 8 && class_of(2049) == 9);
static_assert(class_bytes(class_of(4 * kMiB)) == 4 * kMiB &&
              class_bytes(class_of(kGiB + 1)) <= kGiB + kGiB / 8);

}  // namespace

WindowPool::~WindowPool() {
  for (auto& slot : slots_) {
    if (slot.hold != nullptr) slot.hold->leave();
  }
}

std::vector<Window> WindowPool::keep_spares() {
  std::vector<Window> read_still;
  if (!has_ledger()) return read_still;  // nobody can say
  take_back_let_go();
  reclaim(in_flight_.size());
  std::vector<bool> has_hold(segments_.size());
  for (std::uint32_t index = 0; index < slots_.size(); ++index) {
    if (is_held(index)) has_hold[slots_[index].segment] = true;
  }
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = segments_[i];
    if (!segment.window || segment.lent != 0 || has_hold[i]) continue;
    const bool is_free = segment.live == 0;
    Window window = std::exchange(segment, Segment{}).window;
    if (is_free) {
      keep_spare(place_, std::move(window));
    } else {
      read_still.push_back(std::move(window));
    }
  }
  return read_still;
}

// ---- Lending ----------------------------------------------------------------------------------------

Status WindowPool::allocate(std::uint64_t bytes, std::uint64_t limit_bytes, lwmq_block* out_block,
                            std::int64_t* out_new_window) {
  *out_new_window = -1;
  const std::uint32_t size_class = class_of(bytes);
  if (free_.size() <= size_class + 2 * kClassesPerDoubling)
    free_.resize(size_class + 2 * kClassesPerDoubling + 1);
  take_back_let_go();
  reclaim(kGlance);
  if (take_free(size_class, out_block) || cut(size_class, out_block)) return LWMQ_OK;
  if (reclaim(in_flight_.size()) && take_free(size_class, out_block)) return LWMQ_OK;
  // A block of up to four times the size is better than new memory.
  for (std::uint32_t c = size_class + 1; c <= size_class + 2 * kClassesPerDoubling; ++c) {
    if (take_free(c, out_block)) return LWMQ_OK;
  }
  if (recut() && cut(size_class, out_block)) return LWMQ_OK;
  if (!has_slot()) return LWMQ_E_FULL;
  const Status status = grow(class_bytes(size_class), limit_bytes, out_new_window);
  if (status != LWMQ_OK) return status;
  return cut(size_class, out_block) ? LWMQ_OK : LWMQ_E_FULL;
}

std::uint64_t WindowPool::working_set(std::uint64_t bytes) noexcept {
  return std::max(kWorkingSetBytes, 2 * bytes);
}

bool WindowPool::wants_readers_first(std::uint64_t bytes) {
  if (bytes > 2 * kWorkingSetBytes) return false;  // no cache holds it
  const std::uint64_t most = working_set(bytes);
  if (readers_are_behind_ || used_bytes_ + bytes > most) reclaim(kGlance);
  if (used_bytes_ <= most / 2) readers_are_behind_ = false;
  return !readers_are_behind_ && used_bytes_ + bytes > most;
}

bool WindowPool::take_free(std::uint32_t size_class, lwmq_block* out_block) {
  auto& stack = free_[size_class];
  if (stack.empty()) return false;
  lend(stack.back(), out_block);
  stack.pop_back();
  return true;
}

bool WindowPool::has_slot() const noexcept { return !unused_slots_.empty() || slots_.size() < kFinishedSlot; }

bool WindowPool::cut(std::uint32_t size_class, lwmq_block* out_block) {
  const std::uint64_t bytes = class_bytes(size_class);
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = segments_[i];
    if (!segment.window || segment.window.bytes() - segment.cut < bytes) continue;
    std::uint32_t slot = 0;
    if (!has_slot()) return false;
    if (!unused_slots_.empty()) {
      slot = unused_slots_.back();
      unused_slots_.pop_back();
    } else {
      slot = static_cast<std::uint32_t>(slots_.size());
      slots_.emplace_back();
    }
    Slot& made = slots_[slot];
    made.segment = i;
    made.size_class = size_class;
    made.offset = segment.cut;
    segment.cut += bytes;
    lend(slot, out_block);
    return true;
  }
  return false;
}

void WindowPool::lend(std::uint32_t index, lwmq_block* out_block) {
  Slot& slot = slots_[index];
  Segment& segment = segments_[slot.segment];
  slot.lent = true;
  if (++slot.lap == 0) slot.lap = 1;  // 0 means: not leased
  ++segment.live, ++segment.lent;
  used_bytes_ += class_bytes(slot.size_class);
  out_block->data = segment.window.base() + slot.offset;
  out_block->bytes = class_bytes(slot.size_class);
  out_block->token[0] = index;
  out_block->token[1] = slot.lap;
}

// Windows whose blocks are all free are cut anew.
bool WindowPool::recut() {
  bool any = false;
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = segments_[i];
    if (!segment.window || segment.live != 0 || segment.cut == 0) continue;
    segment.cut = 0;
    any = true;
  }
  if (!any) return false;
  for (auto& stack : free_) {
    std::erase_if(stack, [&](std::uint32_t slot) {
      const bool cut_anew = segments_[slots_[slot].segment].cut == 0;
      if (cut_anew) unused_slots_.push_back(slot);
      return cut_anew;
    });
  }
  return true;
}

// A spare one, or a new one; spare ones of other places make way.
Status WindowPool::make_window(std::uint64_t bytes, std::uint64_t bytes_max, Window* out_window) {
  *out_window = take_spare(place_, bytes, bytes_max);
  if (*out_window) return LWMQ_OK;
  const Status status = create_window(provider_, bytes, out_window);
  if (status == LWMQ_OK) stats::add(stats::process().window_bytes_made, bytes);
  return status;
}

Status WindowPool::grow(std::uint64_t bytes, std::uint64_t limit_bytes, std::int64_t* out_new_window) {
  const std::uint64_t limit =
      limit_bytes + limit_bytes / kClassesPerDoubling;  // what rounding up to a class may add
  // As much as there is already: a writer of little takes little, and a reader of much is shown few windows.
  const std::uint64_t intent =
      std::min({kSegmentBytes, limit_bytes / 4, std::max(kFirstBytes, window_bytes_)});
  std::uint64_t size = align_up(std::max(bytes, intent), 4096);
  // Empty windows that are too small for this block make way for one that is not.
  for (auto& segment : segments_) {
    if (window_bytes_ + size <= limit) break;
    if (!segment.window || segment.live != 0 || segment.cut != 0) continue;
    window_bytes_ -= segment.window.bytes();
    segment = Segment{};
  }
  if (window_bytes_ + size > limit) size = align_up(bytes, 4096);
  if (window_bytes_ + size > align_up(limit, 4096)) return LWMQ_E_FULL;
  Segment segment;
  Status status = make_window(size, align_up(limit, 4096) - window_bytes_, &segment.window);
  if (status == LWMQ_E_NO_MEMORY && size > bytes)  // there is room for this block, perhaps
    status = make_window(align_up(bytes, 4096), align_up(limit, 4096) - window_bytes_, &segment.window);
  if (status != LWMQ_OK) return status;
  window_bytes_ += segment.window.bytes();
  *out_new_window = static_cast<std::int64_t>(segments_.size());
  segments_.push_back(std::move(segment));
  return LWMQ_OK;
}

// ---- Publishing and taking back -----------------------------------------------------------------------

bool WindowPool::owns(const lwmq_block& block) const noexcept {
  return block.token[0] < slots_.size() && slots_[block.token[0]].lent &&
         slots_[block.token[0]].lap == block.token[1];
}

bool WindowPool::publish(const lwmq_block& block, bool staged, wire::Publish* out_record) {
  if (!owns(block)) return false;
  const auto index = static_cast<std::uint32_t>(block.token[0]);
  Slot& slot = slots_[index];
  end_loan(slot);
  if (slot.hold != nullptr) std::erase(held_, index);
  if (staged) ++segments_[slot.segment].staged;
  out_record->window = slot.segment;
  out_record->slot = index;
  out_record->lap = slot.lap;
  out_record->offset = slot.offset;
  in_flight_.push_back(index);
  return true;
}

bool WindowPool::discard(const lwmq_block& block) {
  if (!owns(block)) return false;
  const auto index = static_cast<std::uint32_t>(block.token[0]);
  end_loan(slots_[index]);
  if (!is_held(index)) put_back(index);
  return true;
}

lwmq_hold* WindowPool::hold(const lwmq_block& block) {
  if (!owns(block) || slots_[block.token[0]].hold != nullptr) return nullptr;
  Slot& slot = slots_[block.token[0]];
  slot.hold = new (std::nothrow) lwmq_hold(segments_[slot.segment].window.share());
  if (slot.hold != nullptr) held_.push_back(static_cast<std::uint32_t>(block.token[0]));
  return slot.hold;
}

// Blocks that are not in flight and whose hold has ended.
void WindowPool::take_back_let_go() {
  for (std::size_t i = 0; i < held_.size();) {
    const std::uint32_t index = held_[i];
    if (is_held(index)) {
      ++i;
      continue;
    }
    if (slots_[index].lent) end_loan(slots_[index]);
    put_back(index);
  }
}

void WindowPool::end_loan(Slot& slot) noexcept {
  slot.lent = false;
  --segments_[slot.segment].lent;
}

void WindowPool::settle_staged() noexcept {
  for (auto& segment : segments_) segment.staged = 0;
}

std::uint64_t WindowPool::own_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& segment : segments_)
    bytes += segment.lent + segment.staged > 0 ? segment.window.bytes() : 0;
  return bytes;
}

void WindowPool::discard_lent() {
  for (std::uint32_t index = 0; index < slots_.size(); ++index) {
    if (!slots_[index].lent) continue;
    end_loan(slots_[index]);
    if (!is_held(index)) put_back(index);
  }
}

void WindowPool::put_back(std::uint32_t index) {
  --segments_[slots_[index].segment].live;
  slots_[index].quarantined = false;
  if (lwmq_hold* hold = std::exchange(slots_[index].hold, nullptr); hold != nullptr) {
    std::erase(held_, index);
    hold->leave();
  }
  used_bytes_ -= class_bytes(slots_[index].size_class);
  free_[slots_[index].size_class].push_back(index);
}

bool WindowPool::is_held(std::uint32_t index) const noexcept {
  return slots_[index].hold != nullptr && !slots_[index].hold->has_ended();
}

const LapPage* WindowPool::lease_of(std::uint32_t index) {
  if (LWMQ_PLANTED("skip_release_check")) return nullptr;
  const std::uint32_t lap = slots_[index].lap;
  for (std::size_t i = 0; i < lease_pages_.size();) {
    LapPage& page = lease_pages_[i];
    if (!page.is_in_use()) {
      std::swap(page, lease_pages_.back());
      lease_pages_.pop_back();
      continue;
    }
    if (page[index].load(std::memory_order_acquire) == lap) return &page;  // sync: block-leased
    ++i;
  }
  return nullptr;
}

// Looks at the oldest `look_at` blocks in flight. True when one came back.
//
// In three steps, in this order: what has the endpoint dropped; which readers have come (the news of a
// reader's page was sent before the drop); what do their pages say. Asking for news first could miss a page
// that came with the drop.
bool WindowPool::reclaim(std::size_t look_at) {
  look_at = std::min(look_at, in_flight_.size());
  bool any_dropped = false;
  for (std::size_t i = 0; i < look_at; ++i) {
    Slot& slot = slots_[in_flight_[i]];
    slot.dropped = ledger_[in_flight_[i]].load(std::memory_order_acquire) == slot.lap;  // sync: block-dropped
    any_dropped = any_dropped || slot.dropped;
  }
  if (!any_dropped) return false;
  if (!news_(news_context_)) return false;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < look_at; ++i) {
    const std::uint32_t index = in_flight_[i];
    if (slots_[index].dropped && lease_of(index) == nullptr && !is_held(index)) {
      LWMQ_YIELD("pool.put_back");
      put_back(index);
    } else {
      in_flight_[kept++] = index;
    }
  }
  in_flight_.erase(in_flight_.begin() + static_cast<std::ptrdiff_t>(kept),
                   in_flight_.begin() + static_cast<std::ptrdiff_t>(look_at));
  return kept < look_at;
}

void WindowPool::quarantine(std::uint32_t index) noexcept {
  if (index < slots_.size()) slots_[index].quarantined = true;  // until it is put back
}

std::uint64_t WindowPool::quarantined_bytes(bool leased) {
  std::uint64_t bytes = 0;
  for (const std::uint32_t index : in_flight_) {
    const Slot& slot = slots_[index];
    const bool dropped = ledger_[index].load(std::memory_order_acquire) == slot.lap;
    if (dropped ? leased && lease_of(index) != nullptr : slot.quarantined)
      bytes += class_bytes(slot.size_class);
  }
  return bytes;
}

WindowPool::Holders WindowPool::holders() {
  Holders holders;
  for (const auto& segment : segments_) holders.lent += segment.lent;
  for (const std::uint32_t index : in_flight_) {
    if (ledger_[index].load(std::memory_order_acquire) != slots_[index].lap) {
      ++holders.unread;
      continue;
    }
    if (const LapPage* page = lease_of(index)) {
      ++holders.leased;
      holders.leased_by = page->window().owner_pid();
    } else if (is_held(index)) {
      ++holders.lent;
    } else {
      ++holders.nobody;
    }
  }
  return holders;
}

WindowPool::Readers WindowPool::readers() const {
  Readers found;
  for (const LapPage& page : lease_pages_) {
    if (!page.is_in_use()) continue;
    ++found.count;
    found.pid = page.window().owner_pid();
  }
  return found;
}

}  // namespace lwmq::stream
