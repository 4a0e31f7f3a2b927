#include "os/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#ifndef SO_PEERCRED
#define SO_PEERCRED 17
#endif

namespace lwmq::os {
namespace {

constexpr int kBacklog = 256;

struct Name {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

Name make_name(std::string_view name) noexcept {
  Name out;
  out.address.sun_family = AF_UNIX;
  const bool is_file = name.starts_with('/');
  char* at = out.address.sun_path + (is_file ? 0 : 1);  // a leading NUL makes it abstract
  std::memcpy(at, name.data(), name.size());
  out.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return out;
}

Status make_socket(UniqueFd* out_fd) noexcept {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_call(LWMQ_E_SYSTEM, errno, "socket(AF_UNIX, SOCK_SEQPACKET)");
  *out_fd = std::move(fd);
  return LWMQ_OK;
}

int shown_bytes(std::string_view text) noexcept { return static_cast<int>(text.size()); }

// In a namespace that maps only some users, all others show up as the overflow uid.
bool is_unmapped(std::uint32_t uid) noexcept {
  constexpr std::uint32_t kOverflowUid = 65534;
  if (uid != kOverflowUid) return false;
  UniqueFd fd(open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC));
  char text[256] = "";
  if (!fd || read(fd.get(), text, sizeof text - 1) <= 0) return true;
  unsigned inside = 1;
  unsigned outside = 1;
  unsigned count = 0;
  const bool everybody = std::sscanf(text, "%u %u %u", &inside, &outside, &count) == 3 && inside == 0 &&
                         outside == 0 && count == 4294967295U;
  return !everybody;
}

}  // namespace

Status listen_unix(std::string_view name, UniqueFd* out_fd) noexcept {
  UniqueFd fd;
  if (const Status status = make_socket(&fd); status != LWMQ_OK) return status;
  const Name to = make_name(name);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&to.address), to.bytes) != 0) {
    const int error = errno;
    const Status status = error == EADDRINUSE ? LWMQ_E_ADDRESS
                          : error == EACCES   ? LWMQ_E_DENIED
                                              : LWMQ_E_SYSTEM;
    return fail_errno(status, error, "bind(%.*s)", shown_bytes(name), name.data());
  }
  if (listen(fd.get(), kBacklog) != 0) {
    return fail_call(LWMQ_E_SYSTEM, errno, "listen(%.*s)", shown_bytes(name), name.data());
  }
  *out_fd = std::move(fd);
  return LWMQ_OK;
}

Status connect_unix(std::string_view name, UniqueFd* out_fd) noexcept {
  UniqueFd fd;
  if (const Status status = make_socket(&fd); status != LWMQ_OK) return status;
  const Name to = make_name(name);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.address), to.bytes) != 0) {
    switch (errno) {
      case ECONNREFUSED:
      case ENOENT:
      case EINTR:
        return LWMQ_E_EMPTY;
      case EAGAIN:
        return LWMQ_E_FULL;
      case EACCES:
      case EPERM:
        return fail_errno(LWMQ_E_DENIED, errno, "connect(%.*s)", shown_bytes(name), name.data());
      default:
        return fail_errno(LWMQ_E_SYSTEM, errno, "connect(%.*s)", shown_bytes(name), name.data());
    }
  }
  *out_fd = std::move(fd);
  return LWMQ_OK;
}

Status accept_unix(int listener, UniqueFd* out_fd) noexcept {
  UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) {
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return LWMQ_E_EMPTY;
    return fail_call(LWMQ_E_SYSTEM, errno, "accept4");
  }
  *out_fd = std::move(fd);
  return LWMQ_OK;
}

Status peer_credentials(int socket, PeerCredentials* out_credentials) noexcept {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return fail_call(LWMQ_E_SYSTEM, errno, "getsockopt(SO_PEERCRED)");
  }
  out_credentials->pid = credentials.pid > 0 ? static_cast<std::uint32_t>(credentials.pid) : 0;
  out_credentials->uid = credentials.uid;
  out_credentials->same_user = credentials.uid == geteuid() && !is_unmapped(credentials.uid);
  return LWMQ_OK;
}

Status send_message(int socket, const void* data, std::size_t bytes, const int* fds,
                    std::size_t fd_count) noexcept {
  iovec piece{const_cast<void*>(data), bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (fd_count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
  }
  for (;;) {
    if (sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return LWMQ_OK;
    switch (errno) {
      case EINTR:
        continue;
      case EAGAIN:
      case ENOBUFS:
      case ETOOMANYREFS:  // descriptors of ours that nobody has taken yet
        return LWMQ_E_FULL;
      case EPIPE:
      case ECONNRESET:
      case ENOTCONN:
        return fail_errno(LWMQ_E_PEER_LOST, errno, "sendmsg");
      default:
        return fail_call(LWMQ_E_SYSTEM, errno, "sendmsg of %zu bytes and %zu descriptors", bytes, fd_count);
    }
  }
}

namespace {

// Whether `count` more descriptors, of which one message brings kFdsMax at most, could be taken now.
bool has_room_for_descriptors(int any, std::size_t count) noexcept {
  UniqueFd taken[kFdsMax];
  for (std::size_t i = 0; i < count; ++i) {
    taken[i] = UniqueFd(fcntl(any, F_DUPFD_CLOEXEC, 0));
    if (!taken[i]) return false;
  }
  return true;
}

}  // namespace

Status receive_message(int socket, void* data, std::size_t room, Received* out_received,
                       std::size_t awaited) noexcept {
  // A message whose descriptors find no room loses them for ever. So it stays where it is until there is
  // some.
  char first = 0;
  const ssize_t waiting = recv(socket, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT);
  if (waiting < 0 && errno == EAGAIN) return LWMQ_E_EMPTY;
  if (waiting > 0 && !has_room_for_descriptors(socket, awaited)) {
    return fail_errno(LWMQ_E_SYSTEM, EMFILE, "a peer's descriptors cannot be taken");
  }
  iovec piece{data, room};
  // Room for more than we accept, so that a surplus is seen and closed, not lost in the kernel.
  alignas(cmsghdr) char control[CMSG_SPACE(2 * kFdsMax * sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  // A peer that closes with something of ours unread resets the connection, which is told once, before what
  // it has said: a refusal must not be lost by that.
  bool was_reset = false;
  ssize_t got = 0;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(was_reset, true))));
  if (got < 0) {
    if (errno == EAGAIN) return LWMQ_E_EMPTY;
    if (errno == ECONNRESET || errno == ENOTCONN) return fail_errno(LWMQ_E_PEER_LOST, errno, "recvmsg");
    return fail_call(LWMQ_E_SYSTEM, errno, "recvmsg");
  }
  *out_received = Received{};
  out_received->bytes = static_cast<std::size_t>(got);
  bool surplus = (message.msg_flags & MSG_CTRUNC) != 0;
  std::size_t arrived = 0;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(header) + i * sizeof(int), sizeof number);
      UniqueFd fd(number);
      ++arrived;
      if (out_received->fd_count == kFdsMax) {
        surplus = true;
      } else {
        out_received->fds[out_received->fd_count++] = std::move(fd);
      }
    }
  }
  if (surplus || (message.msg_flags & MSG_TRUNC) != 0) {
    *out_received = Received{};
    if (surplus && arrived < kFdsMax) {  // another thread took the last ones meanwhile
      return fail_errno(LWMQ_E_SYSTEM, EMFILE, "a peer's descriptors could not be taken");
    }
    return fail(LWMQ_E_CORRUPT,
                "a control message is longer than %zu bytes or carries more than %zu descriptors", room,
                kFdsMax);
  }
  // A message of no bytes is none of ours; an end of file looks the same.
  if (got == 0) return fail(LWMQ_E_PEER_LOST, "the other end of the socket is closed");
  return LWMQ_OK;
}

bool is_hung_up(int socket) noexcept {
  pollfd item{socket, 0, 0};
  return poll(&item, 1, 0) == 1 && (item.revents & POLLHUP) != 0;
}

Status poll_socket(int socket, bool for_room, int timeout_ms) noexcept {
  pollfd item{socket, static_cast<short>(for_room ? POLLOUT : POLLIN), 0};
  const int ready = poll(&item, 1, timeout_ms);
  if (ready > 0) return LWMQ_OK;
  if (ready == 0) return LWMQ_E_TIMED_OUT;
  return errno == EINTR ? LWMQ_E_INTERRUPTED : fail_errno(LWMQ_E_SYSTEM, errno, "poll");
}

}  // namespace lwmq::os
