/* The floors: messages by hand through the rings of rings.h, with a pause between two looks; and
 * `floor-handed`, which moves the mark and the length of a message, and nothing of it. */
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

const peer kFloor = {
    .name = "floor",
    .open = floor_open,
    .send = floor_send,
    .receive = floor_receive,
    .close = floor_close,
};

/* ---- Built in place ------------------------------------------------------------------------------------ */

static void built_send(const void* data, size_t bytes) {
  build(room(), data, bytes);
  rings_ship(&rings_);
}

const peer kFloorBuilt = {
    .name = "floor-built",
    .open = floor_open,
    .send = built_send,
    .receive = floor_receive,
    .close = floor_close,
};

/* ---- In pieces ----------------------------------------------------------------------------------------- */

static void pieces_open(const char* address, int server, size_t bytes) {
  if (bytes % kPiece != 0) die("floor-pieces: whole pieces");
  rings_open(&rings_, address, server, kPiece, kPieceRing);
}

static void pieces_send(const void* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kPiece) floor_send((const uint8_t*)data + at, kPiece);
}

static uint64_t pieces_receive(size_t bytes) {
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes; at += kPiece) sum += floor_receive(kPiece);
  return sum;
}

const peer kFloorPieces = {
    .name = "floor-pieces",
    .open = pieces_open,
    .send = pieces_send,
    .receive = pieces_receive,
    .close = floor_close,
};

/* ---- Handed over ------------------------------------------------------------------------------------ */

static void handed_open(const char* address, int server, size_t bytes) {
  rings_open(&rings_, address, server, bytes, kHandedBuffers * (bytes + 64));
  for (size_t i = 0; i < rings_.slot_count; ++i)
    memset(rings_slot(&rings_, rings_.sending, i) + 64, 1, bytes);
}

/* Beside the mark, on its line. */
static uint64_t* length_of(uint8_t* payload) { return (uint64_t*)(payload - 64) + 1; }

static void handed_send(const void* data, size_t bytes) {
  *length_of(room()) = handed_bytes(data, bytes);
  rings_ship(&rings_);
}

static uint64_t handed_receive(size_t bytes) {
  (void)bytes;
  const uint64_t words = *length_of(arrived()) / 8;
  rings_release(&rings_);
  return words;
}

const peer kFloorHanded = {
    .name = "floor-handed",
    .open = handed_open,
    .send = handed_send,
    .receive = handed_receive,
    .close = floor_close,
    .untouched = 1,
};
