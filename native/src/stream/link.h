// A conversation of stream messages over one transport. Sending never waits: what finds no room stays behind,
// in order, until flush. One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "wire/stream_messages.h"

namespace lwmq::stream {

inline constexpr std::uint64_t kControlBufferBytes = 2 * wire::kPartBytes;
inline constexpr std::uint32_t kControlBuffers = 8;  // touched only where used

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
    return provider_->wait(transport_, LWMQ_TLI_WAIT_EXTENT, 0) == LWMQ_OK;
  }
  // Waits for a message, or for room where something stayed behind.
  Status wait(std::uint32_t timeout_ms);

  // Shows a window to the peer. Waits while the peer has too many that it has not looked for: LWMQ_E_STALLED.
  Status show_window(lwmq_tli_window* window) const;
  // Lends the window with this id that the peer has exported to us; keeps it for the caller.
  Status find_window(const std::uint8_t id[16], lwmq_tli_window** out_window) const;

  [[nodiscard]] const lwmq_tli_provider* provider() const noexcept { return provider_; }
  [[nodiscard]] lwmq_tli_transport* transport() const noexcept { return transport_; }

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

// A fixed-size record out of the bytes of a message; false when the size is not its.
template <typename Record>
[[nodiscard]] bool read_record(const std::string& bytes, Record* out_record) noexcept {
  if (bytes.size() != sizeof(Record)) return false;
  std::memcpy(out_record, bytes.data(), sizeof(Record));
  return true;
}

}  // namespace lwmq::stream
