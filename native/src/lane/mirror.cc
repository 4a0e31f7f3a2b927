#include "lane/mirror.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cstring>
#include <new>

namespace lwmq::lane {
namespace {

static_assert(std::endian::native == std::endian::little, "ranges travel as they lie in memory");

constexpr std::uint64_t kWordBytes = SideLayout::kWordBytes;
constexpr std::uint32_t kKindShift = 48;
constexpr std::uint64_t kOffsetMask = (std::uint64_t{1} << kKindShift) - 1;

constexpr std::uint64_t kClosedOffset = offsetof(SideHeader, closed);
constexpr std::uint64_t kCountsOffset = offsetof(SideHeader, released_landing);
static_assert(offsetof(SideHeader, unsent) == kClosedOffset + kWordBytes);
static_assert(offsetof(SideHeader, released_others) == kCountsOffset + kWordBytes);
static_assert(offsetof(SideHeader, received) == kCountsOffset + 2 * kWordBytes);

constexpr RangeKind kind_of(const RangeHead& head) noexcept {
  return static_cast<RangeKind>(head.offset_and_kind >> kKindShift);
}
constexpr std::uint64_t offset_of(const RangeHead& head) noexcept {
  return head.offset_and_kind & kOffsetMask;
}

}  // namespace

// ---- Going out ----------------------------------------------------------------------------------------

bool MirrorFeed::Ring::init(std::uint32_t entries_max) noexcept {
  size = entries_max;
  entries.reset(new (std::nothrow) std::uint32_t[entries_max]);
  return entries != nullptr;
}

void MirrorFeed::Ring::put(std::uint32_t index) noexcept { entries[(first + count++) % size] = index; }

std::uint32_t MirrorFeed::Ring::take() noexcept {
  const std::uint32_t index = entries[first];
  first = (first + 1) % size;
  --count;
  return index;
}

bool MirrorFeed::init(const Sides& sides, const LaneSender& sender, std::uint32_t buffers,
                      std::uint64_t buffer_bytes, std::uint32_t peer_buffers) noexcept {
  sides_ = sides;
  sender_ = &sender;
  layout_ = SideLayout::of(buffers, buffer_bytes);
  slots_.reset(new (std::nothrow) Slot[buffers]);
  is_freed_.reset(new (std::nothrow) bool[peer_buffers]());
  return slots_ && is_freed_ && queued_.init(buffers) && freed_.init(peer_buffers);
}

void MirrorFeed::note(const lwmq_tli_buffer& buffer, bool ships) noexcept {
  const LaneSender::Place place = LaneSender::place_of(buffer);
  Slot& slot = slots_[place.index];
  if (slot.lap != place.lap) {
    slot.lap = place.lap;
    slot.sent = 0;
    slot.ended = false;
  }
  slot.shown = place.position;
  slot.ended = ships && place.position + kWordBytes <= layout_.stride;
  orders_ = sender_->orders();
  if (slot.is_queued) return;
  slot.is_queued = true;
  queued_.put(place.index);
}

void MirrorFeed::freed(std::uint32_t index) noexcept {
  if (is_freed_[index]) return;  // by a peer that opens what it has not got back
  is_freed_[index] = true;
  freed_.put(index);
}

void MirrorFeed::count() noexcept {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (load<std::uint64_t>(kCountsOffset + i * kWordBytes) != counts_[i]) counts_are_due_ = true;
  }
}

MirrorFeed::Range& MirrorFeed::add(RangeKind kind, std::uint64_t offset, std::uint64_t word,
                                   std::uint64_t bytes) noexcept {
  Range& range = range_at(count_++);
  range.head = {offset | static_cast<std::uint64_t>(kind) << kKindShift, word, bytes};
  range.data = sides_.own + offset + kWordBytes;
  return range;
}

// Of a buffer: what was shown in it since. False: nothing was.
bool MirrorFeed::begin_extents(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  slot.is_queued = false;
  const std::uint64_t from = slot.sent != 0 ? slot.sent : SideLayout::kFirstWord;
  const bool ends = slot.ended && from <= slot.shown;
  if (!ends && from >= slot.shown) return false;
  const std::uint64_t to = std::min(slot.shown, layout_.stride);  // behind a large extent words are aligned
  const std::uint64_t offset = layout_.data_offset + index * layout_.stride + from;
  const bool has_next = !ends && slot.shown + kWordBytes <= layout_.stride;
  add(has_next ? RangeKind::kExtents : RangeKind::kWords, offset, load<std::uint64_t>(offset),
      ends ? to - from : to - from - kWordBytes);
  slot.sent = ends ? slot.shown + kWordBytes : slot.shown;
  return true;
}

// The next order entry, behind what its buffer begins with. False: that has not gone out, or there is none.
bool MirrorFeed::begin_order() noexcept {
  if (orders_sent_ == orders_) return false;
  const std::uint64_t offset =
      SideLayout::kOrderOffset + (orders_sent_ & (layout_.order_slots - 1)) * sizeof(OrderEntry);
  const auto order = load<std::uint64_t>(offset);
  const Slot& slot = slots_[LaneSender::buffer_in(order)];
  if (slot.sent == 0) return false;
  add(RangeKind::kWords, offset, order, kWordBytes);
  ++orders_sent_;
  return true;
}

// The next range. False: there is none.
bool MirrorFeed::begin_range() noexcept {
  if (begin_order()) return true;
  if (freed_.count > 0) {
    const std::uint32_t index = freed_.take();
    is_freed_[index] = false;
    const std::uint64_t offset = SideLayout::kReleasedOffset + index * sizeof(std::uint32_t);
    add(RangeKind::kLap, offset, load<std::uint32_t>(offset), 0);
    return true;
  }
  while (queued_.count > 0) {
    if (begin_extents(queued_.take())) return true;
  }
  if (counts_are_due_) {
    counts_are_due_ = false;
    for (std::size_t i = 0; i < counts_.size(); ++i)
      counts_[i] = load<std::uint64_t>(kCountsOffset + i * kWordBytes);
    Range& range = add(RangeKind::kWords, kCountsOffset, counts_[0], 2 * kWordBytes);
    range.own[0] = counts_[1];
    range.own[1] = counts_[2];
    range.data = reinterpret_cast<const std::uint8_t*>(range.own);
    return true;
  }
  if (!is_closed_ || has_said_so_) return false;
  has_said_so_ = true;
  add(RangeKind::kWords, kClosedOffset, load<std::uint32_t>(kClosedOffset), kWordBytes);
  return true;
}

std::size_t MirrorFeed::pieces(iovec* out, std::size_t limit) noexcept {
  while (count_ < kRangesMax && begin_range()) {
  }
  std::size_t filled = 0;
  std::uint64_t skip = first_sent_;
  const auto put = [&](const void* data, std::uint64_t bytes) {
    const std::uint64_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (skipped == bytes || filled == limit) return;
    out[filled++] = {const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(data)) + skipped,
                     bytes - skipped};
  };
  for (std::uint32_t i = 0; i < count_; ++i) {
    const Range& range = range_at(i);
    put(&range.head, sizeof range.head);
    put(range.data, range.head.bytes);
  }
  return filled;
}

void MirrorFeed::sent(std::uint64_t bytes) noexcept {
  first_sent_ += bytes;
  while (count_ > 0) {
    const std::uint64_t all = sizeof(RangeHead) + range_at(0).head.bytes;
    if (first_sent_ < all) return;
    first_sent_ -= all;
    first_ = (first_ + 1) % kRangesMax;
    --count_;
  }
}

// ---- Coming in ----------------------------------------------------------------------------------------

bool Mirror::init(std::uint8_t* memory, std::uint64_t bytes) noexcept {
  memory_ = memory;
  bytes_ = bytes;
  staged_.reset(new (std::nothrow) std::uint8_t[kStagedMax]);
  return staged_ != nullptr;
}

std::size_t Mirror::places(iovec out[2]) noexcept {
  std::size_t filled = 0;
  if (left_ > 0) out[filled++] = {to_, left_};
  out[filled++] = {staged_.get() + staged_bytes_, kStagedMax - staged_bytes_};
  return filled;
}

// What our end of the doorbells and tickets is to the peer, and behind the side nothing, may not be written.
Status Mirror::begin(const RangeHead& head) noexcept {
  const std::uint64_t offset = offset_of(head);
  const RangeKind kind = kind_of(head);
  const bool is_lap = kind == RangeKind::kLap;
  const std::uint64_t word_bytes = is_lap ? sizeof(std::uint32_t) : kWordBytes;
  const std::uint64_t behind = kind == RangeKind::kExtents ? kWordBytes : 0;
  const bool is_known = kind == RangeKind::kExtents || kind == RangeKind::kWords || is_lap;
  if (!is_known || offset % word_bytes != 0 || offset < kClosedOffset ||
      offset + word_bytes + behind > bytes_ || head.bytes > bytes_ - offset - word_bytes - behind ||
      (is_lap && head.bytes != 0) || (behind != 0 && head.bytes % kWordBytes != 0)) {
    return fail(LWMQ_E_CORRUPT,
                "the peer sends a range of kind %u with %" PRIu64 " bytes for offset %" PRIu64
                " of its side, which has %" PRIu64,
                static_cast<unsigned>(kind), head.bytes, offset, bytes_);
  }
  head_ = head;
  left_ = head.bytes;
  to_ = memory_ + offset + kWordBytes;
  if (behind != 0)
    reinterpret_cast<std::atomic<std::uint64_t>*>(to_ + head.bytes)->store(0, std::memory_order_relaxed);
  advance(0);
  return LWMQ_OK;
}

// Over bytes that are in place. What the range had to say becomes visible with the last of them.
void Mirror::advance(std::uint64_t bytes) noexcept {
  to_ += bytes;
  left_ -= bytes;
  if (left_ > 0) return;
  std::uint8_t* const at = memory_ + offset_of(head_);
  if (kind_of(head_) == RangeKind::kLap) {
    reinterpret_cast<std::atomic<std::uint32_t>*>(at)->store(static_cast<std::uint32_t>(head_.word),
                                                             std::memory_order_release);  // sync: buffer-free
  } else {
    reinterpret_cast<std::atomic<std::uint64_t>*>(at)->store(head_.word, std::memory_order_release);
  }
}

Status Mirror::came(std::uint64_t bytes) noexcept {
  if (left_ > 0) {
    const std::uint64_t direct = std::min(left_, bytes);
    advance(direct);
    bytes -= direct;
  }
  staged_bytes_ += bytes;
  std::uint64_t taken = 0;
  while (staged_bytes_ - taken >= sizeof(RangeHead)) {
    RangeHead head;
    std::memcpy(&head, staged_.get() + taken, sizeof head);
    if (const Status status = begin(head); status != LWMQ_OK) return status;
    taken += sizeof head;
    if (left_ == 0) continue;
    const std::uint64_t here = std::min(left_, staged_bytes_ - taken);
    std::memcpy(to_, staged_.get() + taken, here);
    taken += here;
    if (here > 0) advance(here);
  }
  staged_bytes_ -= taken;
  if (staged_bytes_ > 0) std::memmove(staged_.get(), staged_.get() + taken, staged_bytes_);
  return LWMQ_OK;
}

}  // namespace lwmq::lane
