// Unix sockets that carry whole messages and descriptors between processes of one machine.
//
// All are SOCK_SEQPACKET, CLOEXEC and non-blocking: a message arrives whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "os/unique_fd.h"

namespace lwmq::os {

inline constexpr std::size_t kFdsMax = 4;                // in one message
inline constexpr std::size_t kSocketPathBytesMax = 107;  // sun_path less its end

// A name that begins with '/' is a file; any other one is in the abstract space of the network namespace.
// At most kSocketPathBytesMax bytes; the caller has checked.

// LWMQ_E_ADDRESS: in use (a file: whether or not anybody listens behind it). LWMQ_E_DENIED, LWMQ_E_SYSTEM.
Status listen_unix(std::string_view name, UniqueFd* out_fd) noexcept;
// LWMQ_E_EMPTY: nobody listens. LWMQ_E_FULL: too many wait to be accepted. LWMQ_E_DENIED, LWMQ_E_SYSTEM.
Status connect_unix(std::string_view name, UniqueFd* out_fd) noexcept;
// LWMQ_E_EMPTY: nobody waits.
Status accept_unix(int listener, UniqueFd* out_fd) noexcept;

struct PeerCredentials {
  std::uint32_t pid = 0;  // 0: not visible in our pid namespace
  std::uint32_t uid = 0;
  bool same_user = false;  // an unmapped uid (another user namespace) is another user
};
Status peer_credentials(int socket, PeerCredentials* out_credentials) noexcept;

// LWMQ_E_FULL: no room now. LWMQ_E_PEER_LOST: the other end is closed. LWMQ_E_SYSTEM.
Status send_message(int socket, const void* data, std::size_t bytes, const int* fds,
                    std::size_t fd_count) noexcept;

struct Received {
  std::size_t bytes = 0;
  UniqueFd fds[kFdsMax];
  std::size_t fd_count = 0;
};
// Takes the next message. LWMQ_E_EMPTY: none now. LWMQ_E_PEER_LOST: the other end is closed and all was
// taken. LWMQ_E_CORRUPT: longer than `room`, or with more than kFdsMax descriptors; those are closed.
// LWMQ_E_SYSTEM: this process may not open as many descriptors as `awaited`; the message stays, to be taken
// later.
Status receive_message(int socket, void* data, std::size_t room, Received* out_received,
                       std::size_t awaited = kFdsMax) noexcept;

// Whether the other end is closed, whatever it has left to be taken.
bool is_hung_up(int socket) noexcept;

// Waits until `socket` is readable (or, with `for_room`, writable), at most timeout_ms; < 0: for ever.
// LWMQ_OK, LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED.
Status poll_socket(int socket, bool for_room, int timeout_ms) noexcept;

}  // namespace lwmq::os
