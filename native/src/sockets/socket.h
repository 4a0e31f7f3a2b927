// A connected socket, whose bytes go in clear or under TLS, or a link (link.h), which stands in for one. No
// call waits.
//
// Two engines read it. A thread that waits with epoll's sleeps in poll and then reads; with io_uring
// (engine=uring), it hands over the room for the bytes and sleeps until they are there, in one call.
// Everything else is the same in both: a gather that goes out is one sendmsg, and descriptors for others to
// poll are those of epoll. TLS reads its socket itself.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "os/tls.h"
#include "os/unique_fd.h"
#include "sockets/family.h"
#include "sockets/link.h"

namespace lwmq::sockets {

// What the settings of an address ask for its connections.
struct Wishes {
  bool uring = false;          // engine=uring: threads that wait receive by io_uring, where that may be
  std::uint32_t silent_s = 0;  // silent=..., or the default of the family; 0: for ever
};

class Socket {
 public:
  Socket() noexcept = default;
  explicit Socket(os::UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  explicit Socket(std::unique_ptr<Link> link) noexcept : link_(std::move(link)) {}

  [[nodiscard]] int fd() const noexcept { return link_ != nullptr ? link_->fd() : fd_.get(); }
  explicit operator bool() const noexcept { return link_ != nullptr || fd_; }
  [[nodiscard]] Link* link() const noexcept { return link_.get(); }  // null: a socket
  // Before somebody sleeps until fd is readable. True: fd may tell of nothing, although there is something.
  [[nodiscard]] bool arm() noexcept { return link_ != nullptr && link_->arm(); }
  void reset() noexcept {
    link_.reset();
    tls_.reset();
    fd_.reset();
  }

  // From now on under TLS, once shake_hands has said LWMQ_OK. `host`: as of os::Tls::make.
  Status encrypt(std::shared_ptr<const os::TlsCredentials> credentials, const char* host) noexcept {
    return os::Tls::make(std::move(credentials), fd(), host, &tls_);
  }
  [[nodiscard]] os::Tls* tls() const noexcept { return tls_.get(); }

  void wish(const Wishes& wishes) noexcept { wishes_ = wishes; }
  [[nodiscard]] const Wishes& wishes() const noexcept { return wishes_; }

  // As sendmsg and readv. Some of what was written may be unsent: write goes on with it, without pieces, too.
  ssize_t write(iovec* pieces, std::size_t count) noexcept {
    if (link_ != nullptr) return link_->write(pieces, count);
    if (tls_ != nullptr) return tls_->write(pieces, count);
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    return sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  [[nodiscard]] bool has_unsent() noexcept { return tls_ != nullptr && tls_->has_unsent(); }
  ssize_t read(const iovec* room, std::size_t count) noexcept {
    if (link_ != nullptr) return link_->read(room, count);
    if (tls_ != nullptr) return tls_->read(room, count, true);
    return readv(fd(), room, static_cast<int>(count));
  }
  // What has left the kernel and was not read yet.
  ssize_t read_rest(const iovec* room, std::size_t count) noexcept {
    return tls_ != nullptr ? tls_->read(room, count, false) : (errno = EAGAIN, -1);
  }
  // What has come and is of no use any more, in clear or encrypted.
  ssize_t read_to_drop(void* bytes, std::size_t size) noexcept {
    return link_ != nullptr ? read(bytes, size) : recv(fd(), bytes, size, MSG_DONTWAIT);
  }
  // Tells the other end that nothing follows. False: that is unsent in part, and has to be said again.
  bool finish() noexcept {
    if (link_ != nullptr) return link_->finish();
    if (tls_ != nullptr && !tls_->say_goodbye()) return false;
    shutdown(fd(), SHUT_WR);
    return true;
  }
  // Ends both directions, whatever is on its way.
  void shut() noexcept {
    if (link_ != nullptr) {
      link_->shut();
    } else {
      shutdown(fd(), SHUT_RDWR);
    }
  }
  // As write and read above, for bytes that are no pieces.
  ssize_t write(const void* bytes, std::size_t size) noexcept {
    iovec piece{const_cast<void*>(bytes), size};
    return write(&piece, 1);
  }
  ssize_t read(void* bytes, std::size_t size) noexcept {
    const iovec room{bytes, size};
    return read(&room, 1);
  }

 private:
  os::UniqueFd fd_;
  std::unique_ptr<os::Tls> tls_;  // null: in clear
  std::unique_ptr<Link> link_;    // null: a socket
  Wishes wishes_;
};

}  // namespace lwmq::sockets
