#include "os/identity.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lwmq::os {

constinit std::atomic<Use> use{Use::kNone};

namespace {

lwmq_identity self{};

void read_boot_id(char (&out)[40]) noexcept {
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t got = read(fd, out, sizeof(out) - 1);
  close(fd);
  out[got > 0 ? got : 0] = '\0';
  out[std::strcspn(out, "\n")] = '\0';
}

void become_this_process() noexcept {
  random_bytes(self.instance, sizeof(self.instance));
  self.pid = static_cast<std::uint32_t>(getpid());
  self.uid = static_cast<std::uint32_t>(geteuid());  // what SO_PEERCRED shows of us
}

// Runs in the child of every fork: system calls and plain stores only.
void after_fork_in_child() noexcept {
  become_this_process();
  if (use.load(std::memory_order_relaxed) != Use::kNone) use.store(Use::kForked, std::memory_order_relaxed);
}

// At load, not at first use: the fork handler must be in place before anybody can fork.
__attribute__((constructor)) void identify() noexcept {
  self.size = sizeof(self);
  gethostname(self.host, sizeof(self.host) - 1);
  read_boot_id(self.boot_id);
  struct stat status {};
  if (stat("/proc/self/ns/net", &status) == 0) self.netns = status.st_ino;
  become_this_process();
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
}

}  // namespace

const lwmq_identity& identity() noexcept { return self; }

void random_bytes(void* data, std::size_t bytes) noexcept {
  auto* out = static_cast<unsigned char*>(data);
  while (bytes > 0) {
    const ssize_t got = getrandom(out, bytes, 0);
    if (got > 0) {
      out += got;
      bytes -= static_cast<std::size_t>(got);
    } else if (errno != EINTR) {
      std::memset(out, 0, bytes);  // no kernel since 3.17 comes here
      return;
    }
  }
}

}  // namespace lwmq::os
