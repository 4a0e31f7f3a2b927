#include "os/event_fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace lwmq::os {

Status create_event_fd(UniqueFd* out_fd) noexcept {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return fail_errno(LWMQ_E_SYSTEM, errno, "eventfd");
  *out_fd = std::move(fd);
  return LWMQ_OK;
}

void ring_event_fd(int fd) noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

void drain_event_fd(int fd) noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd, &count, sizeof count);
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
