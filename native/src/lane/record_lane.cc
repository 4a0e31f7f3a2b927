#include "lane/record_lane.h"

#include <algorithm>
#include <new>

#include "base/checked.h"
#include "base/copy.h"
#include "base/erase.h"
#include "base/yield_point.h"

namespace lwmq::lane {
namespace {

constexpr std::uint64_t kFirstWord = SideLayout::kFirstWord;
constexpr std::uint64_t kWordBytes = SideLayout::kWordBytes;
constexpr std::uint64_t kLargeExtent = 1024;  // behind one, the next extent gets a line of its own
constexpr std::uint32_t kKindEnd = 255;
// Of a run: each word is found by the length in the one before, which is a cache miss each; whoever reads the
// bytes first finds the next word with them.
constexpr std::uint64_t kRunBytes = 4096;
constexpr std::uint32_t kLengthBits = 40;
constexpr std::uint64_t kLengthMask = (std::uint64_t{1} << kLengthBits) - 1;

// In the token of an only extent, above its lap.
constexpr std::uint64_t kIsOnly = std::uint64_t{1} << 32;

// A ticket names one sleep: number << 1 | waits at a descriptor. Never 0.
constexpr std::uint32_t kAtDescriptor = 1;

constexpr std::uint64_t make_word(std::uint64_t length, std::uint32_t kind, std::uint64_t lap) noexcept {
  return length | std::uint64_t{kind} << kLengthBits | lap << 48;
}

constexpr std::uint64_t length_of(std::uint64_t word) noexcept { return word & kLengthMask; }
constexpr std::uint32_t kind_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word >> kLengthBits & 0xff);
}
constexpr std::uint64_t lap_of(std::uint64_t word) noexcept { return word >> 48; }

// From the word at `position`, of an extent that long, to the next one.
constexpr std::uint64_t step_from(std::uint64_t position, std::uint64_t length) noexcept {
  const std::uint64_t step = kWordBytes + align_up(length, kWordBytes);
  if (length < kLargeExtent) [[likely]]
    return step;
  return align_up(position + step + kWordBytes, kCacheLine) - kWordBytes - position;
}
constexpr std::uint64_t next_word(std::uint64_t position, std::uint64_t length) noexcept {
  return position + step_from(position, length);
}
static_assert(next_word(kFirstWord, 56) == 120);
static_assert((next_word(kFirstWord, 1024) + kWordBytes) % kCacheLine == 0);

// Where the next word lies follows from a length that is still on its way from the other core. It is taken to
// be that of the extent before, behind a branch, so that the processor looks for several words at once and
// not for one after the other; where it was another one, the branch costs some nanoseconds.
void guess_length(std::uint64_t length, std::uint64_t* guessed) noexcept {
  if (length == *guessed) [[likely]]
    return;
  asm volatile("" : "+r"(length));  // a branch, and no conditional move: that would wait for the length
  *guessed = length;
}

// token[0] of a buffer that is lent for sending: index:12 | extents shown in it:36 | lap:16, the lap where a
// word has it; token[1] is the position of its next word.
constexpr std::uint64_t kOneShown = std::uint64_t{1} << 12;
constexpr std::uint64_t kLapMask = std::uint64_t{0xffff} << 48;
constexpr std::uint32_t index_in(std::uint64_t token) noexcept {
  return static_cast<std::uint32_t>(token % kOneShown);
}
constexpr std::uint64_t shown_in(std::uint64_t token) noexcept { return (token & ~kLapMask) / kOneShown; }
static_assert(kBuffersMax <= kOneShown && kBufferBytesMax / kWordBytes < kLapMask / 0xffff / kOneShown);

// Of an order entry.
constexpr std::uint32_t index_of(std::uint64_t entry) noexcept {
  return static_cast<std::uint32_t>(entry & 0xffff) - 1;
}

std::atomic<std::uint64_t>& word_at(std::uint8_t* base, std::uint64_t offset) noexcept {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(base + offset);
}

const std::atomic<std::uint64_t>& word_at(const std::uint8_t* base, std::uint64_t offset) noexcept {
  return *reinterpret_cast<const std::atomic<std::uint64_t>*>(base + offset);
}

}  // namespace

SideLayout SideLayout::of(std::uint32_t buffers, std::uint64_t buffer_bytes) noexcept {
  SideLayout layout;
  layout.order_slots = 1;
  while (layout.order_slots < buffers) layout.order_slots *= 2;
  layout.data_offset = align_up(kOrderOffset + layout.order_slots * sizeof(OrderEntry), 4096);
  layout.stride = kCacheLine + align_up(buffer_bytes, kCacheLine);
  layout.bytes = align_up(layout.data_offset + buffers * layout.stride, 4096);
  return layout;
}

// ---- Waking ---------------------------------------------------------------------------------------

void Waker::init(const Sides& sides) noexcept {
  sides_ = sides;
  sleepers_pay_ = os::membarrier_available() && sides.peer_has_membarrier;
}

// `ticket` is not 0: the peer sleeps, or is about to.
[[gnu::noinline]] void Waker::answer(std::uint32_t ticket, std::atomic<std::uint32_t>& answered) noexcept {
  // Two of our threads may ring for one ticket: a wake too many is harmless.
  if (answered.exchange(ticket, std::memory_order_relaxed) == ticket) return;
  auto& doorbell = sides_.own_header().doorbell;
  LWMQ_YIELD("waker.ring");
  doorbell.fetch_add(1, std::memory_order_release);  // sync: doorbell
  LWMQ_YIELD("waker.rung");
  if ((ticket & kAtDescriptor) != 0) {
    if (sides_.poke != nullptr && !sides_.poke(sides_.context))
      answered.store(0, std::memory_order_relaxed);  // the next look at this ticket tries again
  } else {
    os::futex_wake_all(doorbell);
  }
}

void Waker::wake() noexcept {
  auto& doorbell = sides_.own_header().doorbell;
  doorbell.fetch_add(1, std::memory_order_release);  // sync: doorbell
  os::futex_wake_all(doorbell);
}

void Waker::ring() noexcept {
  wake();
  if (sides_.poke != nullptr) sides_.poke(sides_.context);
}

void announce_waiting(std::atomic<std::uint32_t>& waiting, bool at_descriptor) noexcept {
  static std::atomic<std::uint32_t> tickets{0};
  std::uint32_t number = 0;
  while (number == 0) number = (tickets.fetch_add(1, std::memory_order_relaxed) + 1) & 0x7fffffffu;
  LWMQ_YIELD("sleeper.announce");
  waiting.store(number << 1 | (at_descriptor ? kAtDescriptor : 0u), std::memory_order_relaxed);
  LWMQ_YIELD("sleeper.announced");
  os::heavy_barrier();  // sync: sleeper
}

// ---- Sending --------------------------------------------------------------------------------------

bool LaneSender::init(const Sides& sides, Waker* waker, std::uint32_t buffers,
                      std::uint64_t buffer_bytes) noexcept {
  sides_ = sides;
  waker_ = waker;
  layout_ = SideLayout::of(buffers, buffer_bytes);
  slots_.reset(new (std::nothrow) Slot[buffers]);
  shipped_.reset(new (std::nothrow) std::uint32_t[buffers]);
  return free_.init(buffers, buffer_bytes) && slots_ && shipped_;
}

Status LaneSender::acquire(lwmq_tli_buffer* out_buffer) noexcept {
  if (!free_.has_used()) collect();
  if (!free_.has_any()) return LWMQ_E_FULL;
  const std::uint32_t index = free_.take(unread_buffers_);
  Slot& slot = slots_[index];
  ++slot.lap;
  slot.opened = slot.only = false;
  std::uint8_t* base = buffer_at(index);
  word_at(base, kFirstWord).store(0, std::memory_order_relaxed);  // seen no later than buffer-open
  LWMQ_YIELD("lane.acquired");
  out_buffer->next = base + kFirstWord + kWordBytes;
  out_buffer->room = layout_.stride - kFirstWord - kWordBytes;
  out_buffer->token[0] = std::uint64_t{slot.lap} << 48 | index;
  out_buffer->token[1] = kFirstWord;
  return LWMQ_OK;
}

namespace {

constexpr bool is_extent(const lwmq_tli_buffer& buffer, std::uint64_t bytes, std::uint32_t kind) noexcept {
  return bytes <= buffer.room && kind <= LWMQ_TLI_KIND_MAX;
}

[[gnu::noinline]] Status refuse_extent(const lwmq_tli_buffer& buffer, std::uint64_t bytes,
                                       std::uint32_t kind) noexcept {
  return fail(LWMQ_E_TOO_BIG, "extent of %" PRIu64 " bytes, kind %u: the buffer has room for %" PRIu64, bytes,
              kind, buffer.room);
}

// What is left of `buffer`, `stride` from the next one, behind further `extents`, which take `bytes` with
// their words. Its room may be less than the lane said: a filter holds its sender so.
lwmq_tli_buffer behind(const lwmq_tli_buffer& buffer, std::uint64_t stride, std::uint64_t bytes,
                       std::uint64_t extents) noexcept {
  const std::uint64_t position = buffer.token[1] + bytes;
  const std::uint64_t payload = position + kWordBytes;
  return {buffer.next + bytes,
          payload < stride ? stride - payload : 0,
          {buffer.token[0] + extents * kOneShown, position}};
}

}  // namespace

// Nothing here is called but at the end, so that nothing needs to be saved first.
Status LaneSender::show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept {
  if (!is_extent(*buffer, bytes, kind)) [[unlikely]]
    return refuse_extent(*buffer, bytes, kind);
  const lwmq_tli_buffer now = *buffer;  // for all that a compiler knows, what we store could lie in it
  const std::uint64_t word = make_word(bytes, kind + 1, lap_of(now.token[0]));
  const std::uint64_t position = now.token[1];
  const std::uint64_t step = step_from(position, bytes);
  std::uint8_t* const at = now.next - kWordBytes;
  LWMQ_YIELD("lane.written");
  if (position + step + kWordBytes <= layout_.stride) [[likely]]
    word_at(at, step).store(0, std::memory_order_relaxed);
  LWMQ_YIELD("lane.zeroed");
  word_at(at, 0).store(word, std::memory_order_release);  // sync: extent-shown
  LWMQ_YIELD("lane.shown");
  *buffer = behind(now, layout_.stride, step, 1);
  note_shown(1);
  if (position == kFirstWord) [[unlikely]]
    return open_shown(index_in(now.token[0]));
  if (const std::uint32_t ticket = waker_->extent_ticket(); ticket != 0) [[unlikely]]
    return wake(ticket);
  return LWMQ_OK;
}

[[gnu::noinline]] Status LaneSender::open_shown(std::uint32_t index) noexcept {
  open(index, 0);
  waker_->extent_shown();
  return LWMQ_OK;
}

[[gnu::noinline]] Status LaneSender::wake(std::uint32_t ticket) noexcept {
  waker_->answer_extent(ticket);
  return LWMQ_OK;
}

std::uint64_t LaneSender::show_run(lwmq_tli_buffer* buffer, const lwmq_bytes* frames, std::uint64_t count,
                                   std::uint32_t kind, std::uint64_t* out_bytes) noexcept {
  if (kind > LWMQ_TLI_KIND_MAX) return 0;
  const std::uint64_t lap = lap_of(buffer->token[0]);
  const std::uint64_t stride = layout_.stride;
  const std::uint64_t first = buffer->token[1];
  std::uint8_t* const base = buffer->next - kWordBytes - first;
  const std::uint64_t end = first + kRunBytes;
  std::uint64_t position = first;
  std::uint64_t first_bytes = 0;
  std::uint64_t shown = 0;
  std::uint64_t shown_bytes = 0;
  for (; shown < count && position < end; ++shown) {
    const std::uint64_t bytes = frames[shown].bytes;
    if (!fits(position + kWordBytes, bytes, stride)) break;
    if (shown > 0 && position + bytes > end) break;  // small ones do not wait for it
    copy_bytes(base + position + kWordBytes, frames[shown].data, bytes);
    if (shown == 0) {
      first_bytes = bytes;
    } else {
      word_at(base, position).store(make_word(bytes, kind + 1, lap), std::memory_order_relaxed);
    }
    position = next_word(position, bytes);
    shown_bytes += bytes;
  }
  if (shown == 0) return 0;
  *out_bytes = shown_bytes;
  LWMQ_YIELD("lane.run_written");
  if (position + kWordBytes <= stride) word_at(base, position).store(0, std::memory_order_relaxed);
  LWMQ_YIELD("lane.run_zeroed");
  word_at(base, first)
      .store(make_word(first_bytes, kind + 1, lap), std::memory_order_release);  // sync: extent-shown
  LWMQ_YIELD("lane.run_shown");
  *buffer = behind(*buffer, stride, position - first, shown);
  note_shown(shown);
  if (first == kFirstWord) open(index_in(buffer->token[0]), 0);
  waker_->extent_shown();
  return shown;
}

[[gnu::noinline]] void LaneSender::open(std::uint32_t index, std::uint64_t only) noexcept {
  Slot& slot = slots_[index];
  slot.opened = true;
  const std::uint64_t number = next_order_++;
  auto& entry = reinterpret_cast<OrderEntry*>(sides_.own +
                                              SideLayout::kOrderOffset)[number & (layout_.order_slots - 1)];
  entry.only.store(only, std::memory_order_relaxed);
  LWMQ_YIELD("lane.only");
  entry.order.store((number + 1) << 32 | std::uint64_t{slot.lap} << 16 | (index + 1),
                    std::memory_order_release);  // sync: buffer-open
  LWMQ_YIELD("lane.opened");
}

void LaneSender::ship(lwmq_tli_buffer* buffer) noexcept {
  const std::uint32_t index = index_in(buffer->token[0]);
  const std::uint64_t position = buffer->token[1];
  Slot& slot = slots_[index];
  LWMQ_YIELD("lane.ship");
  if (position + kWordBytes <= layout_.stride) {
    word_at(buffer_at(index), position)
        .store(make_word(0, kKindEnd, slot.lap), std::memory_order_release);  // sync: extent-shown
  }
  LWMQ_YIELD("lane.ended");
  if (!slot.opened) open(index, 0);  // an empty buffer: the peer opens and releases it
  slot.used = position;
  slot.extents = shown_in(buffer->token[0]);
  shipped_[shipped_count_++] = index;
  buffer->room = 0;
  waker_->extent_shown();
}

Status LaneSender::ship_only(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept {
  if (!is_extent(*buffer, bytes, kind)) [[unlikely]] {
    const Status status = refuse_extent(*buffer, bytes, kind);
    ship(buffer);
    return status;
  }
  const std::uint32_t index = index_in(buffer->token[0]);
  Slot& slot = slots_[index];
  note_shown(1);
  slot.only = true;
  slot.extents = 1;
  open(index, make_word(bytes, kind + 1, slot.lap));
  slot.used = kFirstWord + kWordBytes + bytes;
  shipped_[shipped_count_++] = index;
  buffer->room = 0;
  waker_->extent_shown();
  return LWMQ_OK;
}

void LaneSender::abandon(lwmq_tli_buffer* buffer) noexcept {
  const std::uint32_t index = index_in(buffer->token[0]);
  if (erases_) erase_buffer(index, layout_.stride);
  --slots_[index].lap;  // never seen by the peer: else laps came round to the last that it gave back
  free_.put(index);
  buffer->room = 0;
}

LaneSender::Place LaneSender::place_of(const lwmq_tli_buffer& buffer) noexcept {
  return {index_in(buffer.token[0]), static_cast<std::uint32_t>(lap_of(buffer.token[0])), buffer.token[1]};
}

std::uint32_t LaneSender::buffer_in(std::uint64_t order) noexcept { return index_of(order); }

bool LaneSender::collect() noexcept {
  const auto* released =
      reinterpret_cast<const std::atomic<std::uint32_t>*>(sides_.peer + SideLayout::kReleasedOffset);
  std::uint64_t read = 0;
  std::uint64_t only = 0;
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < shipped_count_; ++i) {
    const std::uint32_t index = shipped_[i];
    if (released[index].load(std::memory_order_acquire) == slots_[index].lap) {  // sync: buffer-free
      read += slots_[index].extents;
      if (slots_[index].only) ++only;
      if (erases_) [[unlikely]]
        erase_buffer(index, erases_whole_ ? layout_.stride : slots_[index].used + kWordBytes);
      free_.put(index);
    } else {
      shipped_[kept++] = index;
    }
  }
  shipped_count_ = unread_buffers_ = kept;
  if (read > 0) {  // our own
    collected_.store(collected_.load(std::memory_order_relaxed) + read - only, std::memory_order_release);
    collected_only_.store(collected_only_.load(std::memory_order_relaxed) + only, std::memory_order_release);
  }
  return free_.has_any();
}

std::uint32_t LaneSender::free_buffers() noexcept {
  collect();
  return free_.count();
}

void LaneSender::erase_buffer(std::uint32_t index, std::uint64_t bytes) noexcept {
  erase(buffer_at(index), bytes < layout_.stride ? bytes : layout_.stride);
}

void LaneSender::erase_rest(bool gone, bool lent_stay) noexcept {
  if (!erases_) return;
  collect();
  for (std::uint32_t i = 0; i < free_.fresh(); ++i) {
    // What was shown is the peer's as long as it can read; what never was is ours, or lent: abandon erases
    // that.
    if (slots_[i].opened ? gone : !lent_stay) erase_buffer(i, layout_.stride);
  }
}

std::uint64_t LaneSender::unread_extents() const noexcept {
  const SideHeader& peer = sides_.peer_header();
  // shown_ comes last: what was collected was shown before.
  const std::uint64_t only = collected_only_.load(std::memory_order_acquire);
  const std::uint64_t collected = collected_.load(std::memory_order_acquire);
  const std::uint64_t shown = shown_.load(std::memory_order_relaxed);
  const std::uint64_t unread = shown - collected - only;  // in buffers that did not come back
  // Of those; what a liar says is no more than there is.
  const std::uint64_t released = peer.released_landing.load(std::memory_order_acquire) +
                                 peer.released_others.load(std::memory_order_acquire) - collected;
  const std::uint64_t held = released <= unread ? unread - released : unread;
  const std::uint64_t received = std::min(peer.received.load(std::memory_order_acquire), shown);
  return std::min(held, shown - received);
}

// ---- Receiving ------------------------------------------------------------------------------------

bool LaneReceiver::init(const Sides& sides, Waker* waker, std::uint32_t peer_buffers,
                        std::uint64_t peer_buffer_bytes) noexcept {
  sides_ = sides;
  waker_ = waker;
  buffers_ = peer_buffers;
  layout_ = SideLayout::of(peer_buffers, peer_buffer_bytes);
  leases_.reset(new (std::nothrow) std::atomic<std::int64_t>[peer_buffers]());
  return leases_ != nullptr;
}

const OrderEntry& LaneReceiver::order_at(std::uint64_t number) const noexcept {
  return reinterpret_cast<const OrderEntry*>(sides_.peer +
                                             SideLayout::kOrderOffset)[number & (layout_.order_slots - 1)];
}

bool LaneReceiver::has_next_buffer() const noexcept {
  const std::uint64_t entry = order_at(next_order_).order.load(std::memory_order_relaxed);
  if (!is_next(entry)) return false;
  const std::uint32_t index = index_of(entry);
  if (index < buffers_) __builtin_prefetch(buffer_at(index) + kCacheLine);
  return true;
}

Status LaneReceiver::open_next() noexcept {
  const OrderEntry& at = order_at(next_order_);
  const std::uint64_t entry = at.order.load(std::memory_order_acquire);  // sync: buffer-open
  if (!is_next(entry)) return LWMQ_E_EMPTY;
  const std::uint32_t index = index_of(entry);
  if (index >= buffers_ || leases_[index].load(std::memory_order_relaxed) != 0) {
    return fail(LWMQ_E_CORRUPT, "the peer opened buffer %u of %u, which %s", index, buffers_,
                index >= buffers_ ? "does not exist" : "is still in our hands");
  }
  only_ = at.only.load(std::memory_order_relaxed);
  ++next_order_;
  index_ = index;
  lap_ = static_cast<std::uint32_t>(entry >> 16 & 0xffff);
  position_ = kFirstWord;
  buffer_ = buffer_at(index);
  landed_ = 0;
  return LWMQ_OK;
}

// In a buffer: what its next word says, checked. It is read once.
inline LaneReceiver::Here LaneReceiver::look(std::uint64_t* out_word,
                                             lwmq_tli_extent* out_extent) const noexcept {
  *out_word = word().load(std::memory_order_acquire);  // sync: extent-shown
  return *out_word == 0 ? Here::kNothing : read(*out_word, out_extent);
}

inline LaneReceiver::Here LaneReceiver::read(std::uint64_t seen, lwmq_tli_extent* out_extent) const noexcept {
  const std::uint64_t length = length_of(seen);
  const std::uint32_t kind = kind_of(seen);
  const std::uint64_t payload = position_ + kWordBytes;
  out_extent->data = buffer_ + payload;
  out_extent->bytes = length;
  out_extent->kind = kind - 1;
  out_extent->token[0] = index_;
  out_extent->token[1] = lap_;
  if (lap_of(seen) != lap_ || kind == 0 || !fits(payload, length, layout_.stride)) return Here::kCorrupt;
  if (kind <= LWMQ_TLI_KIND_MAX + 1) [[likely]]
    return Here::kExtent;
  return kind == kKindEnd ? Here::kEnd : Here::kCorrupt;
}

// Over an extent that landed. False: it was the buffer's last.
inline bool LaneReceiver::step_over(std::uint64_t length) noexcept {
  ++landed_;
  ++all_landed_;
  position_ = next_word(position_, length);
  if (position_ + kWordBytes <= layout_.stride) [[likely]]
    return true;
  leave_buffer();
  return false;
}

Status LaneReceiver::corrupt(std::uint64_t word) const noexcept {
  return fail(LWMQ_E_CORRUPT,
              "the peer shows an extent of %" PRIu64 " bytes, kind %u, lap %" PRIu64 " at %" PRIu64
              " of a buffer of %" PRIu64 " in lap %u",
              length_of(word), kind_of(word), lap_of(word), position_, layout_.stride, lap_);
}

Status LaneReceiver::land(lwmq_tli_extent* out_extent) noexcept {
  // A peer has only so many buffers to leave empty; one that goes on for ever would keep us here.
  for (std::uint32_t opened = 0;;) {
    if (buffer_ == nullptr) [[unlikely]] {
      if (opened++ > buffers_) return LWMQ_E_EMPTY;
      const Status status = open_next();
      if (status != LWMQ_OK) return status;
    }
    if (only_ != 0) return land_only(out_extent);
    std::uint64_t seen = 0;
    switch (look(&seen, out_extent)) {
      case Here::kNothing:
        return LWMQ_E_EMPTY;
      case Here::kCorrupt:
        return corrupt(seen);
      case Here::kEnd:
        leave_buffer();
        continue;
      case Here::kExtent:
        if (step_over(out_extent->bytes)) __builtin_prefetch(&word());  // on its way while we decode this one
        return LWMQ_OK;
    }
  }
}

// Of the buffer that was opened last.
Status LaneReceiver::land_only(lwmq_tli_extent* out_extent) noexcept {
  if (read(only_, out_extent) != Here::kExtent) return corrupt(only_);
  out_extent->token[1] |= kIsOnly;
  leases_[index_].store(1, std::memory_order_relaxed);
  ++all_landed_;
  only_ = 0;
  buffer_ = nullptr;  // nothing else is in it
  return LWMQ_OK;
}

// Into the next buffer where this one has ended. False: there is none, nothing is shown in it, or land knows
// more of it.
inline bool LaneReceiver::find_buffer() noexcept {
  if (buffer_ != nullptr) [[likely]] {
    if (only_ != 0) return false;
    const std::uint64_t seen = word().load(std::memory_order_acquire);  // sync: extent-shown
    if (kind_of(seen) != kKindEnd || lap_of(seen) != lap_) [[likely]]
      return seen != 0;
    leave_buffer();
  }
  return open_next() == LWMQ_OK && only_ == 0;
}

bool LaneReceiver::land_one(std::uint64_t bytes_below, std::uint64_t out_token[2],
                            lwmq_tli_piece* out_piece) noexcept {
  if (buffer_ == nullptr || only_ != 0) [[unlikely]]
    return land_run(bytes_below, 1, out_token, out_piece) != 0;
  const std::uint64_t seen = word().load(std::memory_order_acquire);  // sync: extent-shown
  const std::uint64_t length = length_of(seen);
  const std::uint32_t kind = kind_of(seen) - 1;
  const std::uint64_t payload = position_ + kWordBytes;
  if (kind > LWMQ_TLI_KIND_MAX || lap_of(seen) != lap_ || length > UINT32_MAX || length >= bytes_below ||
      !fits(payload, length, layout_.stride)) [[unlikely]] {
    return land_run(bytes_below, 1, out_token, out_piece) != 0;
  }
  out_token[0] = index_;
  out_token[1] = lap_;
  *out_piece = {buffer_ + payload, static_cast<std::uint32_t>(length), kind};
  guessed_length_ = length;
  step_over(length);
  return true;
}

[[gnu::noinline]] std::uint32_t LaneReceiver::land_run(std::uint64_t bytes_below, std::uint32_t limit,
                                                       std::uint64_t out_token[2],
                                                       lwmq_tli_piece* out_pieces) noexcept {
  if (!find_buffer()) return 0;
  out_token[0] = index_;
  out_token[1] = lap_;
  const std::uint8_t* const base = buffer_;
  const std::uint64_t stride = layout_.stride;
  const std::uint64_t lap_and_kind = make_word(0, 1, lap_) >> kLengthBits;
  // Where the last word may lie: behind it there is no room for another, or enough has landed.
  const std::uint64_t last = std::min(position_ + kRunBytes - 1, stride - kWordBytes);
  bytes_below = std::min<std::uint64_t>(bytes_below, UINT32_MAX);
  std::uint64_t position = position_;
  std::uint64_t guessed = guessed_length_;
  std::uint32_t count = 0;
  while (count < limit && position <= last) {
    const std::uint64_t seen = word_at(base, position).load(std::memory_order_acquire);  // sync: extent-shown
    const std::uint64_t length = length_of(seen);
    const std::uint64_t kind = (seen >> kLengthBits) - lap_and_kind;  // beyond all kinds in another lap
    if (kind > LWMQ_TLI_KIND_MAX || length >= bytes_below || length > stride - kWordBytes - position) break;
    guess_length(length, &guessed);
    const std::uint64_t step = step_from(position, guessed);
    const std::uint64_t last_alike = guessed < kLargeExtent ? std::min(last, stride - step) : 0;
    do {  // those behind it with the same word need no other look
      out_pieces[count++] = {base + position + kWordBytes, static_cast<std::uint32_t>(length),
                             static_cast<std::uint32_t>(kind)};
      position += step;
      __builtin_prefetch(base + position + kCacheLine);
    } while (count < limit && position <= last_alike &&
             word_at(base, position).load(std::memory_order_acquire) == seen);  // sync: extent-shown
  }
  position_ = position;
  guessed_length_ = guessed;
  landed_ += static_cast<std::int64_t>(count);
  all_landed_ += count;
  if (position > stride - kWordBytes) [[unlikely]]
    leave_buffer();
  return count;
}

void LaneReceiver::leave_buffer() noexcept {
  buffer_ = nullptr;
  // Acquire-release: whoever comes last speaks for the reads of all.
  if (landed_ != 0 && leases_[index_].fetch_add(landed_, std::memory_order_acq_rel) != -landed_) return;
  give_back(index_, lap_);
}

void LaneReceiver::release(const std::uint64_t token[2], std::uint32_t count) noexcept {
  const auto index = static_cast<std::uint32_t>(token[0]);
  const auto released = static_cast<std::int64_t>(count);
  if ((token[1] & kIsOnly) != 0) {  // ours alone: nobody else counts
    leases_[index].store(0, std::memory_order_relaxed);
    return give_back(index, static_cast<std::uint32_t>(token[1]));
  }
  sides_.own_header().released_others.fetch_add(count, std::memory_order_release);
  // Nobody meets 0 before we have left the buffer: until then it only counts down.
  if (leases_[index].fetch_sub(released, std::memory_order_acq_rel) != released) return;
  give_back(index, static_cast<std::uint32_t>(token[1]));
}

void LaneReceiver::release_last(const std::uint64_t token[2], std::uint32_t count) noexcept {
  if (buffer_ != nullptr) [[likely]] {
    landed_ -= static_cast<std::int64_t>(count);
    released_landing_ += count;
    sides_.own_header().released_landing.store(released_landing_, std::memory_order_release);
  } else {
    release(token, count);  // the buffer's last was among them
  }
}

void LaneReceiver::give_back(std::uint32_t index, std::uint32_t lap) noexcept {
  auto* released = reinterpret_cast<std::atomic<std::uint32_t>*>(sides_.own + SideLayout::kReleasedOffset);
  LWMQ_YIELD("lane.release");
  released[index].store(lap, std::memory_order_release);  // sync: buffer-free
  if (sides_.freed != nullptr) return sides_.freed(sides_.context, index);
  waker_->buffer_freed();
}

}  // namespace lwmq::lane
