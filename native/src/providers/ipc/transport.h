// One conversation with one peer: two sides of shared memory, a life line, and the peer's death word.
//
// The life line is a socket. It carries doorbells and window notices, never data. The death word is the first
// witness of the peer's end; the hang-up of the life line is the second. For the sync names of the lanes see
// lane/record_lane.h. This file adds one:
//
//   closed   the closing side stores `closed` in its header (release), rings, closes its life line
//            -> the other side loads it (acquire): everything that was shown before is seen by the next land
//
// An end is believed only if a look for extents *after* the look at the state finds none: what a peer showed
// before it closed or died is always landed first.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/failure.h"
#include "base/status.h"
#include "lane/outstanding.h"
#include "lane/patience.h"
#include "lane/record_lane.h"
#include "lwmq/lwmq_tli.h"
#include "os/identity.h"
#include "os/robust_words.h"
#include "os/segment.h"
#include "os/unix_socket.h"
#include "providers/ipc/door.h"
#include "providers/ipc/process.h"
#include "providers/ipc/window.h"

namespace lwmq::ipc {

// What the handshake has brought together.
struct TransportParts {
  std::string address;
  lwmq_tli_options options{};
  lwmq_tli_peer peer{};
  os::Mapping own_side;
  os::Mapping peer_side;
  std::shared_ptr<PeerProcess> process;
  std::uint32_t death_word = 0;  // of the peer's page
};

// A descriptor that is there from some moment on, and then stays. Any thread looks; who puts it holds a lock.
class LateFd {
 public:
  [[nodiscard]] int get() const noexcept { return fd_.load(std::memory_order_acquire); }
  [[nodiscard]] bool is_there() const noexcept { return get() >= 0; }
  void put(os::UniqueFd fd) noexcept {
    owned_ = std::move(fd);
    fd_.store(owned_.get(), std::memory_order_release);
  }

 private:
  os::UniqueFd owned_;
  std::atomic<int> fd_{-1};
};

class Transport {
 public:
  // Puts the parts to work, before the peer is told that it may begin: what fails here, it hears of.
  // LWMQ_E_NO_MEMORY.
  static Status create(TransportParts parts, Transport** out_transport);

  // The handshake is over: its socket lives on. Before anybody else knows of the transport.
  void take_life_line(os::UniqueFd socket) noexcept { life_line_ = std::move(socket); }
  // For accepted transports, which have their life line: behind which door that lies, and their doorbell once
  // there is one: of streams at once, for their endpoint polls them all.
  Status stand_behind(std::shared_ptr<Door> door);

  // The rest is what the tables call; see lwmq_tli.h for each contract.
  void peer(lwmq_tli_peer* out_peer) const noexcept { *out_peer = parts_.peer; }
  std::int32_t state() noexcept { return is_connected() ? LWMQ_TLI_CONNECTED : look_at_end(); }
  std::int32_t state(lwmq_tli_figures* out_figures) noexcept;
  Status acquire(lwmq_tli_buffer* out_buffer) noexcept;
  Status show(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept;
  std::uint64_t show_run(lwmq_tli_buffer* buffer, const lwmq_bytes* frames, std::uint64_t count,
                         std::uint32_t kind, std::uint64_t* out_bytes) noexcept;
  Status ship(lwmq_tli_buffer* buffer) noexcept;
  Status ship_only(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept;
  void abandon(lwmq_tli_buffer* buffer) noexcept;
  Status land(lwmq_tli_extent* out_extent) noexcept;
  void release(const std::uint64_t token[2], std::uint32_t count) noexcept;
  void release_last(const std::uint64_t token[2], std::uint32_t count) noexcept;
  std::uint32_t land_run(std::uint64_t bytes_below, std::uint32_t limit, std::uint64_t out_token[2],
                         lwmq_tli_piece* out_pieces) noexcept;
  bool land_soon(std::uint64_t bytes_below, std::uint64_t out_token[2], lwmq_tli_piece* out_piece) noexcept;
  bool land_awaited(lwmq_tli_extent* out_extent) noexcept;
  Status wait(std::uint32_t what, std::uint32_t timeout_ms) noexcept;
  std::int32_t arm(std::uint32_t what) noexcept;
  std::int32_t fd() noexcept;
  void close(std::uint32_t lent, std::uint64_t unsent) noexcept;
  Status export_window(Window* window);
  Status find_window(const std::uint8_t id[16], std::uint32_t timeout_ms, Window** out_window);

  // For the door.
  [[nodiscard]] int life_line() const noexcept { return life_line_.get(); }
  void hung_up() noexcept;

 private:
  explicit Transport(TransportParts parts) noexcept
      : parts_(std::move(parts)), death_(&parts_.process->death_word(parts_.death_word)) {}
  ~Transport() = default;

  // At a glance: where it is not, look_at_end knows.
  [[nodiscard]] bool is_connected() const noexcept {
    return end_.load(std::memory_order_acquire) == LWMQ_TLI_CONNECTED && os::still_ours() &&
           sides_.peer_header().closed.load(std::memory_order_acquire) == 0 &&  // sync: closed
           os::is_held(*death_) && !hung_up_.load(std::memory_order_acquire);
  }
  std::int32_t look_at_end() noexcept;
  void disarm() noexcept;
  Status show_looking(lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) noexcept;
  Status over() noexcept;
  Status land_no_more() noexcept;
  void note_landed(std::uint32_t count) noexcept;
  bool sees_extent() noexcept;
  Status land_nothing(Status status, lwmq_tli_extent* out_extent) noexcept;
  bool is_ready(std::uint32_t what) noexcept;
  std::int32_t has_news(std::uint32_t what) noexcept;
  Status sleep_until_ready(std::uint32_t what, std::uint32_t timeout_ms) noexcept;
  Status sleep(std::uint32_t what, std::int64_t timeout_ns) noexcept;
  void end(std::int32_t state) noexcept;
  Status make_doorbell(std::unique_lock<std::mutex>& lock);
  bool ring_peer() noexcept;
  Status read_life_line(std::unique_lock<std::mutex>& lock);
  void glance_at_life_line() noexcept;
  Status take_message(const AnyMessage& message, os::Received* received);
  Status take_doorbell(os::Received* received);
  Status take_notice(const WindowNotice& notice, os::Received* received);
  void remember_found(const std::string& key);

  TransportParts parts_;
  os::UniqueFd life_line_;
  const std::atomic<std::uint32_t>* const death_;  // the peer's word
  std::shared_ptr<Door> door_;
  lane::Sides sides_;
  lane::Waker waker_;
  lane::LaneSender sender_;
  lane::LaneReceiver receiver_;
  std::atomic<std::int32_t> end_{LWMQ_TLI_CONNECTED};  // never back; by whoever notices first
  std::atomic<bool> broken_{false};                    // the peer broke the protocol: believe nothing more
  std::atomic<bool> hung_up_{false};                   // by whoever reads the life line
  bool wants_room_ = false;                            // the sending thread's: its last acquire found none
  lane::Announced announced_;
  lane::Patience patience_;
  lane::Outstanding outstanding_;  // whoever has the last of it, or finds none at the close, destroys

  std::mutex line_mutex_;
  Failure breach_;    // under line_mutex_: what it has broken it with, where that came over the life line
  LateFd doorbell_;   // put under line_mutex_: what the peer makes readable where we have armed, once we poll
  LateFd peer_bell_;  // put under line_mutex_: the other end's
  // Written under line_mutex_: the peer was to be rung, and had no bell here.
  std::atomic<bool> owes_ring_{false};
  os::UniqueFd own_poll_;  // under line_mutex_: our doorbell and our life line, once somebody polls us alone
  std::atomic<bool> is_polled_alone_{true};   // by own_poll_, or as the end that has connected
  std::map<std::string, ShownWindow> shown_;  // under line_mutex_: arrived, not looked for yet
  std::set<std::string> found_;  // under line_mutex_: found before, and still mapped as far as we know
  std::size_t found_limit_ = kFoundRememberedMin;  // under line_mutex_: when to look which of them are gone
};

}  // namespace lwmq::ipc
