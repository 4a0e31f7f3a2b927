#include "lane/mirror.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <new>

namespace lwmq::lane {
namespace {

constexpr std::uint64_t kWordBytes = 8;

std::atomic<std::uint64_t>& word_at(std::uint8_t* at) noexcept {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(at);
}

std::atomic<std::uint32_t>* released_in(std::uint8_t* side) noexcept {
  return reinterpret_cast<std::atomic<std::uint32_t>*>(side + SideLayout::kReleasedOffset);
}

Status corrupt(const MirrorHead& head, const char* what) noexcept {
  return fail(LWMQ_E_CORRUPT,
              "%s: kind %u, buffer %u, lap %u, at %" PRIu64 ", word %#" PRIx64 ", %" PRIu64 " bytes", what,
              head.kind, head.buffer, head.lap, head.at, head.word, head.bytes);
}

}  // namespace

bool Mirror::init(const lwmq_tli_options& own, std::uint32_t peer_buffers,
                  std::uint64_t peer_buffer_bytes) noexcept {
  own_buffers_ = own.buffers_send;
  peer_buffers_ = peer_buffers;
  own_layout_ = SideLayout::of(own.buffers_send, own.buffer_bytes);
  peer_layout_ = SideLayout::of(peer_buffers, peer_buffer_bytes);
  if (!own_side_.make(own_layout_.bytes) || !peer_side_.make(peer_layout_.bytes)) return false;
  sides_.own = own_side_.data();
  sides_.peer = peer_side_.data();
  waker_.init(sides_);
  noted_.reset(new (std::nothrow) std::uint64_t[own_buffers_]());
  noted_lap_.reset(new (std::nothrow) std::uint16_t[own_buffers_]());
  lap_told_.reset(new (std::nothrow) std::uint32_t[peer_buffers]());
  used_.reset(new (std::nothrow) std::atomic<std::uint8_t>[peer_buffers]());
  account_in_.reset(new (std::nothrow) std::uint8_t[own_buffers_ * kGivenBackBytes]);
  account_out_.reset(new (std::nothrow) std::uint8_t[peer_buffers * kGivenBackBytes]);
  ready_.reset(new (std::nothrow) Ready[std::size_t{2} * own_buffers_]);
  if (!noted_ || !noted_lap_ || !lap_told_ || !used_ || !account_in_ || !account_out_ || !ready_)
    return false;
  receiver_.count_given_back();
  return sender_.init(sides_, &waker_, own.buffers_send, own.buffer_bytes) &&
         receiver_.init(sides_, &waker_, peer_buffers, peer_buffer_bytes);
}

// ---- Out ---------------------------------------------------------------------------------------------

void Mirror::note(const LaneSender::Place& place, std::uint64_t to) noexcept {
  std::uint64_t& noted = noted_[place.buffer];
  if (noted == 0 || noted_lap_[place.buffer] != place.lap) {
    noted = SideLayout::kFirstWord;
    noted_lap_[place.buffer] = place.lap;
  }
  if (to <= noted) return;
  for (std::uint32_t i = ready_end_; i-- > ready_begin_;) {
    if (ready_[i].buffer != place.buffer) continue;
    noted = ready_[i].to = to;
    return;
  }
  if (ready_end_ == 2 * own_buffers_) {
    std::copy(&ready_[ready_begin_], &ready_[ready_end_], &ready_[0]);
    ready_end_ -= ready_begin_;
    ready_begin_ = 0;
  }
  ready_[ready_end_++] = {place.buffer, place.lap, noted, to};
  noted = to;
}

void Mirror::shipped(const LaneSender::Place& place) noexcept {
  const bool has_end = place.next_word + kWordBytes <= own_layout_.stride;
  note(place, place.next_word + (has_end ? kWordBytes : 0));
}

bool Mirror::next_piece(Piece* out_piece) noexcept {
  if (!has_pieces()) {
    ready_begin_ = ready_end_ = 0;
    return false;
  }
  const Ready ready = ready_[ready_begin_++];
  std::uint8_t* const at =
      own_side_.data() + own_layout_.data_offset + ready.buffer * own_layout_.stride + ready.from;
  const bool opens = ready.from == SideLayout::kFirstWord;
  out_piece->head = {static_cast<std::uint32_t>(opens ? MirrorKind::kOpening : MirrorKind::kRange),
                     ready.buffer,
                     ready.lap,
                     ready.from,
                     word_at(at).load(std::memory_order_relaxed),  // our own
                     std::min(ready.to, own_layout_.stride) - ready.from - kWordBytes};
  out_piece->bytes = at + kWordBytes;
  return true;
}

bool Mirror::account(Piece* out_piece) noexcept {
  const SideHeader& header = own_header_of(own_side_.data());
  const std::uint64_t given_back = receiver_.given_back();
  const std::uint64_t released = header.released_landing.load(std::memory_order_acquire) +
                                 header.released_others.load(std::memory_order_acquire);
  const std::uint64_t received = header.received.load(std::memory_order_acquire);
  std::uint64_t bytes = 0;
  if (given_back != given_back_told_.load(std::memory_order_relaxed)) {
    given_back_told_.store(given_back, std::memory_order_relaxed);
    const auto* laps = released_in(own_side_.data());
    for (std::uint32_t i = 0; i < peer_buffers_; ++i) {
      const std::uint32_t lap = laps[i].load(std::memory_order_acquire);
      if (lap == lap_told_[i]) continue;
      lap_told_[i] = lap;
      used_[i].store(0, std::memory_order_release);  // it may begin again
      const auto number = static_cast<std::uint16_t>(i);
      std::memcpy(&account_out_[bytes], &number, sizeof number);
      std::memcpy(&account_out_[bytes + sizeof number], &lap, sizeof lap);
      bytes += kGivenBackBytes;
    }
  }
  if (bytes == 0 && released == released_told_ && received == received_told_) return false;
  released_told_ = released;
  received_told_ = received;
  *out_piece = {{static_cast<std::uint32_t>(MirrorKind::kAccount), 0, 0, released, received, bytes},
                account_out_.get()};
  return true;
}

// ---- In ----------------------------------------------------------------------------------------------

Status Mirror::place(const MirrorHead& head, std::uint8_t** out_where) noexcept {
  *out_where = nullptr;
  switch (static_cast<MirrorKind>(head.kind)) {
    case MirrorKind::kOpening:
      if (head.at != SideLayout::kFirstWord) return corrupt(head, "a buffer begins elsewhere");
      [[fallthrough]];
    case MirrorKind::kRange:
      if (head.buffer >= peer_buffers_ || head.at < SideLayout::kFirstWord || head.at % kWordBytes != 0 ||
          head.at > peer_layout_.stride - kWordBytes ||
          head.bytes > peer_layout_.stride - kWordBytes - head.at)
        return corrupt(head, "a range outside of its buffer");
      *out_where = peer_buffer(head.buffer) + head.at + kWordBytes;
      return LWMQ_OK;
    case MirrorKind::kAccount:
      if (head.bytes % kGivenBackBytes != 0 || head.bytes > own_buffers_ * kGivenBackBytes)
        return corrupt(head, "an account of more buffers than there are");
      *out_where = account_in_.get();
      return LWMQ_OK;
    case MirrorKind::kClosing:
      return head.bytes == 0 ? LWMQ_OK : corrupt(head, "a closing with bytes");
    case MirrorKind::kPush:  // the transport knows what was granted
    case MirrorKind::kSide:  // and whether there is such a thing
      break;
  }
  return corrupt(head, "a head of no kind that there is");
}

Status Mirror::take(const MirrorHead& head) noexcept {
  switch (static_cast<MirrorKind>(head.kind)) {
    case MirrorKind::kAccount:
      return take_account(head);
    case MirrorKind::kClosing:
      peer_header().unsent.store(head.at, std::memory_order_relaxed);  // published by closed
      peer_header().closed.store(1, std::memory_order_release);
      return LWMQ_OK;
    default:
      return take_range(head);
  }
}

Status Mirror::take_account(const MirrorHead& head) noexcept {
  auto* laps = released_in(peer_side_.data());
  for (std::uint64_t at = 0; at < head.bytes; at += kGivenBackBytes) {
    std::uint16_t buffer = 0;
    std::uint32_t lap = 0;
    std::memcpy(&buffer, &account_in_[at], sizeof buffer);
    std::memcpy(&lap, &account_in_[at + sizeof buffer], sizeof lap);
    if (buffer >= own_buffers_) return corrupt(head, "an account of a buffer that does not exist");
    laps[buffer].store(lap, std::memory_order_release);  // sync: buffer-free
  }
  peer_header().released_landing.store(head.at, std::memory_order_release);
  peer_header().received.store(head.word, std::memory_order_release);
  return LWMQ_OK;
}

Status Mirror::take_range(const MirrorHead& head) noexcept {
  std::uint8_t* const at = peer_buffer(head.buffer) + head.at;
  const std::uint64_t step = kWordBytes + (head.bytes + kWordBytes - 1) / kWordBytes * kWordBytes;
  if (head.at + step + kWordBytes <= peer_layout_.stride)
    word_at(at + step).store(0, std::memory_order_relaxed);  // what follows is never an old word
  word_at(at).store(head.word, std::memory_order_release);   // sync: extent-shown
  if (static_cast<MirrorKind>(head.kind) != MirrorKind::kOpening) return LWMQ_OK;
  if (used_[head.buffer].exchange(1, std::memory_order_acq_rel) != 0)
    return corrupt(head, "a buffer begins that was not given back");
  auto& entry = reinterpret_cast<OrderEntry*>(
      peer_side_.data() + SideLayout::kOrderOffset)[orders_ & (peer_layout_.order_slots - 1)];
  ++orders_;
  entry.only.store(0, std::memory_order_relaxed);
  entry.order.store((orders_ & 0xffffffffu) << 32 | std::uint64_t{head.lap} << 16 |
                        static_cast<std::uint64_t>(head.buffer + 1),
                    std::memory_order_release);  // sync: buffer-open
  return LWMQ_OK;
}

}  // namespace lwmq::lane
