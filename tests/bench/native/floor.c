/* The floor: marks and payload in shared memory, nothing else. One writer, one reader, no discovery, no crash
 * safety.
 *
 * Each direction is a ring of slots with the ready mark inside each slot.
 *
 *   slot-full   writer stores mark (release)   ->  reader loads mark (acquire)
 *   slot-free   reader stores head (release)   ->  writer loads head (acquire), only when the ring looks full
 */
#include "peer.h"

#include <fcntl.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kRingBytes = 4 << 20, kRings = 2 };

typedef struct ring {
  _Alignas(64) _Atomic uint64_t head; /* written by the reader */
  _Alignas(64) uint8_t slots[];
} ring;

static uint8_t* memory_;
static ring *sending_, *receiving_;
static size_t slot_bytes_, slot_count_, ring_bytes_;
static uint64_t sent_, received_, head_seen_;
static char path_[256];
static int server_;

static void floor_open(const char* address, int server, size_t bytes) {
  slot_bytes_ = (64 + bytes + 63) / 64 * 64; /* the mark has a line of its own: payloads stay aligned */
  if (bytes <= 56) slot_bytes_ = 64;
  slot_count_ = kRingBytes / slot_bytes_ < 2 ? 2 : kRingBytes / slot_bytes_;
  ring_bytes_ = (sizeof(ring) + slot_bytes_ * slot_count_ + 4095) / 4096 * 4096;
  server_ = server;
  snprintf(path_, sizeof(path_), "/dev/shm/%s", address);
  const int fd = open(path_, O_RDWR | (server ? O_CREAT | O_TRUNC : 0), 0600);
  if (fd < 0) die(path_);
  if (server && ftruncate(fd, (off_t)(kRings * ring_bytes_)) != 0) die("ftruncate");
  memory_ = mmap(NULL, kRings * ring_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (memory_ == MAP_FAILED) die("mmap");
  close(fd);
  sending_ = (ring*)(memory_ + (server ? ring_bytes_ : 0));
  receiving_ = (ring*)(memory_ + (server ? 0 : ring_bytes_));
}

static uint8_t* slot(ring* r, uint64_t position) { return r->slots + position % slot_count_ * slot_bytes_; }
static size_t payload_at(void) { return slot_bytes_ == 64 ? 8 : 64; }

static void floor_send(const void* data, size_t bytes) {
  while (sent_ - head_seen_ == slot_count_) {
    head_seen_ = atomic_load_explicit(&sending_->head, memory_order_acquire);
    _mm_pause();
  }
  uint8_t* at = slot(sending_, sent_);
  memcpy(at + payload_at(), data, bytes);
  atomic_store_explicit((_Atomic uint64_t*)at, ++sent_, memory_order_release);
}

static uint64_t floor_receive(size_t bytes) {
  uint8_t* at = slot(receiving_, received_);
  while (atomic_load_explicit((_Atomic uint64_t*)at, memory_order_acquire) != received_ + 1) _mm_pause();
  const uint64_t sum = read_all(at + payload_at(), bytes);
  ++received_;
  /* Freed in quarters of the ring: the line of `head` then moves rarely. */
  if (received_ % (slot_count_ < 4 ? 1 : slot_count_ / 4) == 0)
    atomic_store_explicit(&receiving_->head, received_, memory_order_release);
  return sum;
}

static void floor_close(void) {
  munmap(memory_, kRings * ring_bytes_);
  if (server_) unlink(path_);
}

const peer kFloor = {"floor", floor_open, floor_send, floor_receive, floor_close};
