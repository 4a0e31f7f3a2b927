#include "os/identity.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
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

// Where the kernel gives none: what it gave this process when it began, and the moment.
void mix_random(unsigned char* out, std::size_t bytes) noexcept {
  static std::atomic<std::uint64_t> calls{0};
  const auto* seed = reinterpret_cast<const unsigned char*>(getauxval(AT_RANDOM));  // 16 bytes
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::uint64_t state = static_cast<std::uint64_t>(now.tv_nsec) << 32U ^
                        static_cast<std::uint64_t>(now.tv_sec) ^ static_cast<std::uint64_t>(getpid()) << 20U ^
                        calls.fetch_add(1) << 52U;
  for (std::size_t i = 0; i < bytes; ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    out[i] = static_cast<unsigned char>(state >> 56U) ^ (seed != nullptr ? seed[i % 16] : 0U);
  }
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
    } else if (errno != EINTR) {  // a filter that does not know the call
      const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
      const ssize_t there = fd < 0 ? -1 : read(fd, out, bytes);
      if (fd >= 0) close(fd);
      if (there != static_cast<ssize_t>(bytes)) mix_random(out, bytes);
      return;
    }
  }
}

}  // namespace lwmq::os
