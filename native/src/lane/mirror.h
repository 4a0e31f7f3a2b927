// A record lane between two processes that share no memory: each end keeps its own side and a mirror of the
// peer's, in private memory, and a connection carries what changes (lane/mirror_head.h). The lane's own code
// runs over the two sides as it does over shared ones.
//
// This class knows no connection. A transport asks it for the pieces to send, and hands it what has come:
//
//   out   show, ship -> next_piece -> the connection
//   in    the connection -> place -> bytes, straight to where they belong -> take
//
// Threads: `shown` and next_piece are the sending thread's; account is called under a lock of the transport;
// place and take are called by one thread at a time, which may be another one. The lane's own rules hold for
// the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "lane/mirror_head.h"
#include "lane/private_side.h"
#include "lane/record_lane.h"
#include "lwmq/lwmq_tli.h"

namespace lwmq::lane {

class Mirror {
 public:
  // Of an end with these options, whose peer has so many buffers. False: no memory.
  [[nodiscard]] bool init(const lwmq_tli_options& own, std::uint32_t peer_buffers,
                          std::uint64_t peer_buffer_bytes) noexcept;

  [[nodiscard]] LaneSender& sender() noexcept { return sender_; }
  [[nodiscard]] LaneReceiver& receiver() noexcept { return receiver_; }

  // ---- Out ----
  // Something of the buffer was shown, up to `place`.
  void shown(const LaneSender::Place& place) noexcept { note(place, place.next_word); }
  // The buffer was shipped at `place`: its end is shown, where there is room for that word.
  void shipped(const LaneSender::Place& place) noexcept;
  [[nodiscard]] bool has_pieces() const noexcept { return ready_begin_ < ready_end_; }
  // A head, and the bytes that follow it, which lie in our side and stay as they are until the peer has given
  // the buffer back.
  struct Piece {
    MirrorHead head;
    const std::uint8_t* bytes;
  };
  // False: the peer has everything.
  bool next_piece(Piece* out_piece) noexcept;

  // What the peer may know of its own buffers and extents by now; the bytes stay as they are until the next
  // account. False: it knows all of it.
  bool account(Piece* out_piece) noexcept;
  // How many buffers an account would give back. Any thread; a hint.
  [[nodiscard]] std::uint64_t owed_buffers() const noexcept {
    return receiver_.given_back() - given_back_told_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool owes_buffers() const noexcept { return owed_buffers() != 0; }

  // ---- For a connection by which one end writes memory of the other ----
  struct Memory {
    std::uint8_t* data;
    std::uint64_t bytes;
  };
  // The buffers of our side, and of the mirror of the peer's. A byte lies at the same offset of both.
  [[nodiscard]] Memory own_buffers() const noexcept { return buffers_of(own_side_, own_layout_); }
  [[nodiscard]] Memory peer_buffers() const noexcept { return buffers_of(peer_side_, peer_layout_); }

  // ---- In ----
  // Where the bytes behind a head go; null where there are none. LWMQ_E_CORRUPT.
  Status place(const MirrorHead& head, std::uint8_t** out_where) noexcept;
  // The bytes are there. LWMQ_E_CORRUPT.
  Status take(const MirrorHead& head) noexcept;
  [[nodiscard]] bool peer_has_closed() const noexcept {
    return peer_header().closed.load(std::memory_order_acquire) != 0;
  }

 private:
  // What the peer has not got of a buffer.
  struct Ready {
    std::uint16_t buffer;
    std::uint16_t lap;
    std::uint64_t from;  // offsets in the buffer
    std::uint64_t to;
  };

  static Memory buffers_of(const PrivateSide& side, const SideLayout& layout) noexcept {
    return {side.data() + layout.data_offset, layout.bytes - layout.data_offset};
  }
  void note(const LaneSender::Place& place, std::uint64_t to) noexcept;
  [[nodiscard]] SideHeader& peer_header() const noexcept { return own_header_of(peer_side_.data()); }
  [[nodiscard]] std::uint8_t* peer_buffer(std::uint16_t buffer) const noexcept {
    return peer_side_.data() + peer_layout_.data_offset + buffer * peer_layout_.stride;
  }
  Status take_account(const MirrorHead& head) noexcept;
  Status take_range(const MirrorHead& head) noexcept;

  PrivateSide own_side_;
  PrivateSide peer_side_;
  SideLayout own_layout_;
  SideLayout peer_layout_;
  std::uint32_t own_buffers_ = 0;
  std::uint32_t peer_buffers_ = 0;
  Sides sides_;
  Waker waker_;  // the peer never sleeps on our words
  LaneSender sender_;
  LaneReceiver receiver_;

  // In the order in which their buffers were shown first, each buffer once: twice as many places as buffers.
  std::unique_ptr<Ready[]> ready_;
  std::uint32_t ready_begin_ = 0;  // those before have gone
  std::uint32_t ready_end_ = 0;
  std::unique_ptr<std::uint64_t[]> noted_;      // by buffer: up to where it was noted
  std::unique_ptr<std::uint16_t[]> noted_lap_;  // in that lap
  std::unique_ptr<std::uint32_t[]> lap_told_;   // by buffer of the peer: the lap that it knows was given back
  std::atomic<std::uint64_t> given_back_told_{0};
  std::uint64_t released_told_ = 0;
  std::uint64_t received_told_ = 0;

  std::uint64_t orders_ = 0;                           // buffers of the peer that have begun
  std::unique_ptr<std::atomic<std::uint8_t>[]> used_;  // by buffer of the peer: begun, and not given back
  std::unique_ptr<std::uint8_t[]> account_in_;         // of the peer, while it comes
  std::unique_ptr<std::uint8_t[]> account_out_;        // ours, while it goes
};

}  // namespace lwmq::lane
