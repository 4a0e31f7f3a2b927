// A conversation of stream messages over one transport. Sending never waits: a message that finds no room
// stays behind, and so do all after it, until flush. One thread at a time.
//
// The provider's calls for transports are used in link.cc, and nowhere else in this folder but where a
// transport begins: endpoint.cc accepts, client.cc connects.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "os/process_name.h"
#include "stream/lap_page.h"
#include "stream/window.h"
#include "wire/stream_messages.h"

namespace lwmq::stream {

inline constexpr std::uint64_t kControlBufferBytes = 2 * wire::kPartBytes;
inline constexpr std::uint32_t kControlBuffers = 8;  // touched only where used

// The peer as errors name it: a process of this host with its program, another one in its provider's words.
inline std::string name_of(const lwmq_tli_peer& peer) {
  return peer.pid != 0 ? os::process_name(peer.pid) : peer.name;
}

// Options of every stream transport, on both sides.
lwmq_tli_options control_options() noexcept;

class Link {
 public:
  // Takes the transport.
  Link(const lwmq_tli_provider* provider, lwmq_tli_transport* transport) noexcept
      : provider_(provider), transport_(transport) {}
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Queues one message, in parts where it is long. Fails only when the conversation is over.
  Status send(wire::StreamKind kind, const void* data, std::uint64_t bytes);
  template <typename Record>
  Status send_record(wire::StreamKind kind, const Record& record) {
    return send(kind, &record, sizeof record);
  }
  template <typename Letter>
  Status send_letter(wire::StreamKind kind, const Letter& letter) {
    const std::string bytes = wire::encode(letter);
    return send(kind, bytes.data(), bytes.size());
  }

  // Moves what stayed behind. True when nothing is left.
  bool flush();
  [[nodiscard]] bool has_backlog() const noexcept { return !backlog_.empty(); }

  // The next message, copied out of the peer's memory into *out_bytes. LWMQ_E_EMPTY: none now; LWMQ_E_CLOSED
  // and LWMQ_E_PEER_LOST after the last.
  Status receive(wire::StreamKind* out_kind, std::string* out_bytes);
  // How many messages have come, and how many of them only answered a Ping.
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
  [[nodiscard]] std::uint64_t answers() const noexcept { return answers_; }
  // True when receive may have something. Never waits.
  [[nodiscard]] bool has_news() const noexcept {
    return provider_->transport->wait(transport_, LWMQ_TLI_WAIT_EXTENT, 0) == LWMQ_OK;
  }
  // Waits for a message, or for room where something stayed behind.
  Status wait(std::uint32_t timeout_ms);

  // Waits for room alone.
  Status wait_for_room(std::uint32_t timeout_ms) {
    return provider_->transport->wait(transport_, LWMQ_TLI_WAIT_ROOM, timeout_ms);
  }
  // Asks that the listener's descriptor becomes readable when there is news or room. 1: there is some
  // already. -1: not possible now; look again after a while.
  std::int32_t arm() noexcept {
    return provider_->transport->arm(transport_, LWMQ_TLI_WAIT_EXTENT | LWMQ_TLI_WAIT_ROOM);
  }
  void disarm() noexcept { provider_->transport->arm(transport_, 0); }
  // Of an armed link: whether there is news or room, or it must be looked at soon. Else it stays armed: a
  // mere look for news would disarm it.
  [[nodiscard]] bool has_rung() noexcept { return arm() != 0; }

  // Shows a window to the peer. LWMQ_E_FULL: the peer has too many that it has not looked for.
  Status try_show(const Window& window) const {
    return provider_->memory->export_to(transport_, window.get());
  }
  // Waits instead: LWMQ_E_STALLED.
  Status show(const Window& window) const;
  // The window with this id that the peer has shown.
  Status find_window(const std::uint8_t id[16], Window* out_window) const;
  // The same, of a page of laps.
  Status find_page(const std::uint8_t id[16], LapPage* out_page) const;

  [[nodiscard]] bool is_connected() const noexcept {
    return provider_->transport->state(transport_, nullptr) == LWMQ_TLI_CONNECTED;
  }
  [[nodiscard]] lwmq_tli_peer peer() const noexcept {
    lwmq_tli_peer peer{};
    provider_->transport->peer(transport_, &peer);
    return peer;
  }
  [[nodiscard]] const lwmq_tli_provider* provider() const noexcept { return provider_; }

 private:
  Status send_part(wire::StreamKind kind, const void* data, std::uint64_t bytes);
  Status try_send(wire::StreamKind kind, const void* data, std::uint64_t bytes);

  const lwmq_tli_provider* provider_;
  lwmq_tli_transport* transport_;
  lwmq_tli_buffer open_{};  // while has_open_
  bool has_open_ = false;
  std::uint64_t shown_in_open_ = 0;
  std::uint64_t received_ = 0, answers_ = 0;
  std::deque<std::pair<wire::StreamKind, std::string>> backlog_;
  std::string parts_;  // of a message that has not come whole
};

// Reads a record of fixed size. False when `bytes` has another size.
template <typename Record>
[[nodiscard]] bool read_record(const std::string& bytes, Record* out_record) noexcept {
  if (bytes.size() != sizeof(Record)) return false;
  std::memcpy(out_record, bytes.data(), sizeof(Record));
  return true;
}

// LWMQ_E_CORRUPT: the other end broke the protocol by this message.
inline Status malformed(const char* message) noexcept {
  return fail(LWMQ_E_CORRUPT, "%s is malformed", message);
}

}  // namespace lwmq::stream
