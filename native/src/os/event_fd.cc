#include "os/event_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace lwmq::os {

Status create_event_fd(UniqueFd* out_fd) noexcept {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return fail_call(LWMQ_E_SYSTEM, errno, "eventfd");
  *out_fd = std::move(fd);
  return LWMQ_OK;
}

// Whether it waits is a flag of the open file, which whoever holds it can change: a peer, too. So we ask
// whether there is anything to wait for. For writing there is no call that never waits: a peer who fills the
// counter between our look and our write holds up one thread of ours until it empties it.
void ring_event_fd(int fd) noexcept {
  pollfd item{fd, POLLOUT, 0};
  if (poll(&item, 1, 0) != 1) return;  // full: readable already
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

void drain_event_fd(int fd) noexcept {
  std::uint64_t count = 0;
  iovec piece{&count, sizeof count};
  if (preadv2(fd, &piece, 1, -1, RWF_NOWAIT) >= 0 || errno == EAGAIN) return;
  pollfd item{fd, POLLIN, 0};  // kernels before 5.8, and filters that do not know the call
  if (poll(&item, 1, 0) != 1) return;
  [[maybe_unused]] const ssize_t got = read(fd, &count, sizeof count);
}

Status check_proc() noexcept {
  if (access("/proc/self/fd", F_OK) == 0) return LWMQ_OK;
  return fail_errno(LWMQ_E_UNSUPPORTED, errno,
                    "/proc is not mounted here, by which the descriptors of peers are checked (mount -t proc "
                    "proc /proc): /proc/self/fd");
}

bool is_event_fd(int fd) noexcept {
  char path[64];
  char target[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(path, target, sizeof target - 1);
  if (length <= 0) return false;
  target[length] = '\0';
  const int flags = fcntl(fd, F_GETFL);
  return std::strcmp(target, "anon_inode:[eventfd]") == 0 && flags >= 0 && (flags & O_NONBLOCK) != 0;
}

}  // namespace lwmq::os
