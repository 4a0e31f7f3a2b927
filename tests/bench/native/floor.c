/* The floor: messages by hand through the rings of rings.h, looking without a pause. */
#include <immintrin.h>
#include <string.h>

#include "peer.h"
#include "rings.h"

enum { kRingBytes = 4 << 20 };

static rings rings_;

static void floor_open(const char* address, int server, size_t bytes) {
  rings_open(&rings_, address, server, bytes, kRingBytes);
}

static uint8_t* room(void) {
  uint8_t* at;
  while ((at = rings_room(&rings_)) == NULL) _mm_pause();
  return at;
}

static uint8_t* arrived(void) {
  uint8_t* at;
  while ((at = rings_arrived(&rings_)) == NULL) _mm_pause();
  return at;
}

static void floor_send(const void* data, size_t bytes) {
  memcpy(room(), data, bytes);
  rings_ship(&rings_);
}

static uint64_t floor_receive(size_t bytes) {
  const uint64_t sum = read_all(arrived(), bytes);
  rings_release(&rings_);
  return sum;
}

static void floor_close(void) { rings_close(&rings_); }

const peer kFloor = {"floor", floor_open, floor_send, floor_receive, floor_close};
