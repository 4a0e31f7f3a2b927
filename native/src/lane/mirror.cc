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

constexpr std::uint32_t kPlaceBits = 16;
constexpr std::uint64_t kPlaceMask = (std::uint64_t{1} << kPlaceBits) - 1;
static_assert(kGrantsMax <= kPlaceMask + 1);

template <typename To, typename From>
To copied(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
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
  range.push = nullptr;
  return range;
}

Status MirrorFeed::push(const lwmq_tli_grant& grant, std::uint64_t offset, const lwmq_bytes* pieces,
                        std::uint32_t count, std::uint64_t token) noexcept {
  const auto [number, granted, zero] = copied<GrantBytes>(grant);
  if (number >> kPlaceBits == 0 || granted > kOffsetMask || zero[0] != 0 || zero[1] != 0)
    return fail(LWMQ_E_INVALID, "these 32 bytes are no grant");
  if (count > LWMQ_TLI_PUSH_PIECES_MAX)
    return fail(LWMQ_E_INVALID, "a push of %u pieces; it has at most %u", count, LWMQ_TLI_PUSH_PIECES_MAX);
  std::uint64_t bytes = 0;  // no more than it takes to be too many
  for (std::uint32_t i = 0; i < count; ++i) bytes += std::min(pieces[i].bytes, kOffsetMask + 1);
  if (offset > granted || bytes > granted - offset) {
    return fail(LWMQ_E_TOO_BIG,
                "a push of %" PRIu64 " bytes to offset %" PRIu64 " of a grant of %" PRIu64 " bytes", bytes,
                offset, granted);
  }
  if (pushes_noted_ - pushes_reaped_ == kPushesMax) return LWMQ_E_FULL;
  if (pushes_ == nullptr) pushes_.reset(new (std::nothrow) Push[kPushesMax]);
  if (pushes_ == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for %u pushes", kPushesMax);
  Push& push = push_at(pushes_noted_++);
  push.head = {offset | static_cast<std::uint64_t>(RangeKind::kPush) << kKindShift, number, bytes};
  push.token = token;
  push.count = count;
  std::copy_n(pieces, count, push.pieces.begin());
  return LWMQ_OK;
}

std::uint32_t MirrorFeed::reap(std::uint64_t* out_tokens, std::uint32_t limit) noexcept {
  std::uint32_t reaped = 0;
  while (reaped < limit && pushes_reaped_ != pushes_finished_)
    out_tokens[reaped++] = push_at(pushes_reaped_++).token;
  return reaped;
}

void MirrorFeed::give_up() noexcept {
  state_ = State::kOver;
  count_ = 0;
  pushes_finished_ = pushes_begun_ = pushes_noted_;
}

// The next push. False: there is none.
bool MirrorFeed::begin_push() noexcept {
  if (pushes_begun_ == pushes_noted_) return false;
  const Push& push = push_at(pushes_begun_++);
  Range& range = range_at(count_++);
  range.head = push.head;
  range.push = &push;
  return true;
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
  if (state_ == State::kOver) return false;
  if (begin_push()) return true;  // first: see `pushed`
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
  if (state_ == State::kOpen) return false;
  state_ = State::kOver;
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
  for (std::uint32_t i = 0; i < count_ && filled < limit; ++i) {
    const Range& range = range_at(i);
    put(&range.head, sizeof range.head);
    if (range.push == nullptr) {
      put(range.data, range.head.bytes);
      continue;
    }
    for (std::uint32_t k = 0; k < range.push->count; ++k)
      put(range.push->pieces[k].data, range.push->pieces[k].bytes);
  }
  return filled;
}

std::uint32_t MirrorFeed::sent(std::uint64_t bytes) noexcept {
  std::uint32_t pushes = 0;
  first_sent_ += bytes;
  while (count_ > 0) {
    const std::uint64_t all = sizeof(RangeHead) + range_at(0).head.bytes;
    if (first_sent_ < all) break;
    first_sent_ -= all;
    if (range_at(0).push != nullptr) ++pushes;
    first_ = (first_ + 1) % kRangesMax;
    --count_;
  }
  return pushes;
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
  if (left_ > 0 && is_push() && !take_in_hand()) {
    // Nothing of a range that is under way is staged: there is the room for what nobody wants.
    out[0] = {staged_.get(), std::min(left_, kStagedMax)};
    return 1;
  }
  if (left_ > 0) out[filled++] = {to_, left_};
  out[filled++] = {staged_.get() + staged_bytes_, kStagedMax - staged_bytes_};
  return filled;
}

bool Mirror::is_push() const noexcept { return kind_of(head_) == RangeKind::kPush; }

// With the mutex: where the grant of this number has its place. Null: there never was one.
Mirror::Granted* Mirror::granted(std::uint64_t number) noexcept {
  const std::uint64_t place = number & kPlaceMask;
  const std::uint64_t generation = number >> kPlaceBits;
  if (place >= grants_used_ || generation == 0 || generation > grants_[place].generation) return nullptr;
  return &grants_[place];
}

// Whether this number's grant is the one that has the place now.
bool Mirror::is_current(const Granted& place, std::uint64_t number) noexcept {
  return place.base != nullptr && place.generation == number >> kPlaceBits;
}

Status Mirror::grant(std::uint8_t* base, std::uint64_t bytes, lwmq_tli_grant* out_grant) noexcept {
  const std::lock_guard lock(grants_mutex_);
  if (grants_ == nullptr) grants_.reset(new (std::nothrow) Granted[kGrantsMax]);
  if (grants_ == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for %u grants", kGrantsMax);
  std::uint32_t place = 0;
  while (place < grants_used_ && grants_[place].base != nullptr) ++place;
  if (place == kGrantsMax) return LWMQ_E_FULL;
  grants_used_ = std::max(grants_used_, place + 1);
  Granted& made = grants_[place];
  made = {base, bytes, made.generation + 1};
  *out_grant = copied<lwmq_tli_grant>(GrantBytes{made.generation << kPlaceBits | place, bytes, {}});
  return LWMQ_OK;
}

void Mirror::revoke(const lwmq_tli_grant& grant) noexcept {
  const std::uint64_t number = copied<GrantBytes>(grant).number;
  std::unique_lock lock(grants_mutex_);
  Granted* const found = granted(number);
  if (found == nullptr) return;
  if (is_current(*found, number)) found->base = nullptr;
  was_put_back_.wait(lock, [&] { return in_hand_ != number; });  // sync: revoked
}

// For the range that is coming in. False: its grant was revoked.
bool Mirror::take_in_hand() noexcept {
  if (is_thrown_away_) return false;
  const std::lock_guard lock(grants_mutex_);
  is_thrown_away_ = !is_current(*granted(head_.word), head_.word);
  if (!is_thrown_away_) in_hand_ = head_.word;  // sync: revoked
  return !is_thrown_away_;
}

void Mirror::put_back() noexcept {
  const std::lock_guard lock(grants_mutex_);
  in_hand_ = 0;  // sync: revoked
  was_put_back_.notify_all();
}

// Into a grant, or into one that was: the peer may not know yet.
Status Mirror::begin_push(const RangeHead& head) noexcept {
  const std::uint64_t offset = offset_of(head);
  {
    const std::lock_guard lock(grants_mutex_);
    const Granted* const found = granted(head.word);
    if (found == nullptr) {
      return fail(LWMQ_E_CORRUPT,
                  "the peer pushes %" PRIu64 " bytes to grant %#" PRIx64 ", which it never had", head.bytes,
                  head.word);
    }
    is_thrown_away_ = !is_current(*found, head.word);
    if (!is_thrown_away_ && (offset > found->bytes || head.bytes > found->bytes - offset)) {
      return fail(LWMQ_E_CORRUPT,
                  "the peer pushes %" PRIu64 " bytes to offset %" PRIu64 " of a grant of %" PRIu64,
                  head.bytes, offset, found->bytes);
    }
    to_ = is_thrown_away_ ? nullptr : found->base + offset;
  }
  head_ = head;
  left_ = head.bytes;
  return LWMQ_OK;
}

// What our end of the doorbells and tickets is to the peer, and behind the side nothing, may not be written.
Status Mirror::begin(const RangeHead& head) noexcept {
  const std::uint64_t offset = offset_of(head);
  const RangeKind kind = kind_of(head);
  if (kind == RangeKind::kPush) return begin_push(head);
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
  is_thrown_away_ = false;
  to_ = memory_ + offset + kWordBytes;
  if (behind != 0)
    reinterpret_cast<std::atomic<std::uint64_t>*>(to_ + head.bytes)->store(0, std::memory_order_relaxed);
  advance(0);
  return LWMQ_OK;
}

// Over bytes that are in place. What the range had to say becomes visible with the last of them.
void Mirror::advance(std::uint64_t bytes) noexcept {
  left_ -= bytes;
  if (!is_thrown_away_) to_ += bytes;
  if (left_ > 0 || is_push()) return;
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
    if (is_push()) put_back();
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
    const bool is_wanted = !is_push() || take_in_hand();
    if (is_wanted) std::memcpy(to_, staged_.get() + taken, here);
    if (is_push()) put_back();
    taken += here;
    if (here > 0) advance(here);
  }
  staged_bytes_ -= taken;
  if (staged_bytes_ > 0) std::memmove(staged_.get(), staged_.get() + taken, staged_bytes_);
  return LWMQ_OK;
}

}  // namespace lwmq::lane
