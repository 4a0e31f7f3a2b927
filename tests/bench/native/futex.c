/* The floor of a wake-up: a word and a payload per direction in shared memory, and a futex that the receiver
 * always sleeps on. One message at a time each way, which is what an exchange needs.
 *
 *   message   sender stores word (release)   ->  receiver loads word (acquire), asleep until it changes
 */
#include "peer.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPageBytes = 4096, kPayloadAt = 64 };

static uint8_t *memory_, *sending_, *receiving_;
static uint32_t sent_, received_;
static char path_[256];
static int server_;

static void futex_open(const char* address, int server, size_t bytes) {
  if (bytes > kPageBytes - kPayloadAt) die("a message of the futex floor is at most a page");
  server_ = server;
  snprintf(path_, sizeof(path_), "/dev/shm/%s", address);
  const int fd = open(path_, O_RDWR | (server ? O_CREAT | O_TRUNC : 0), 0600);
  if (fd < 0) die(path_);
  if (server && ftruncate(fd, 2 * kPageBytes) != 0) die("ftruncate");
  memory_ = mmap(NULL, 2 * kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory_ == MAP_FAILED) die("mmap");
  close(fd);
  sending_ = memory_ + (server ? kPageBytes : 0);
  receiving_ = memory_ + (server ? 0 : kPageBytes);
}

static void futex_send(const void* data, size_t bytes) {
  memcpy(sending_ + kPayloadAt, data, bytes);
  atomic_store_explicit((_Atomic uint32_t*)sending_, ++sent_, memory_order_release);
  syscall(SYS_futex, sending_, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint64_t futex_receive(size_t bytes) {
  ++received_;
  uint32_t seen;
  while ((seen = atomic_load_explicit((_Atomic uint32_t*)receiving_, memory_order_acquire)) != received_)
    syscall(SYS_futex, receiving_, FUTEX_WAIT, seen, NULL, NULL, 0);
  return read_all(receiving_ + kPayloadAt, bytes);
}

static void futex_close(void) {
  munmap(memory_, 2 * kPageBytes);
  if (server_) unlink(path_);
}

const peer kFutex = {
    .name = "futex",
    .open = futex_open,
    .send = futex_send,
    .receive = futex_receive,
    .close = futex_close,
};
