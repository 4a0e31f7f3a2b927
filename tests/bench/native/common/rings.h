/* Two rings in shared memory, one each way, by hand: marks and payload, nothing else. One writer, one reader,
 * no discovery, no crash safety. What the floors are made of.
 *
 * Each ring has slots with the ready mark inside each slot.
 *
 *   slot-full   writer stores mark (release)   ->  reader loads mark (acquire)
 *   slot-free   reader stores head (release)   ->  writer loads head (acquire), only when the ring looks full
 */
#ifndef LWMQ_BENCH_RINGS_H
#define LWMQ_BENCH_RINGS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ring {
  _Alignas(64) _Atomic uint64_t head; /* written by the reader */
  _Alignas(64) uint8_t slots[];
} ring;

typedef struct rings {
  uint8_t* memory;
  ring *sending, *receiving;
  size_t slot_bytes, slot_count, ring_bytes;
  uint64_t sent, received, head_seen;
  char path[256];
  int server;
} rings;

/* Slots for messages of `bytes` bytes, as many as fit `room` bytes, at least two; each way. The file of a
 * server is there when this returns, and is what a client looks for. */
void rings_open(rings* r, const char* address, int server, size_t bytes, size_t room);
void rings_close(rings* r);

static inline uint8_t* rings_slot(const rings* r, ring* way, uint64_t position) {
  return way->slots + position % r->slot_count * r->slot_bytes;
}
/* The mark of a slot has a line of its own, so that payloads stay aligned, but where both fit into one. */
static inline size_t rings_payload_at(const rings* r) { return r->slot_bytes == 64 ? 8 : 64; }

/* Where the next message is to be written; NULL: there is no room. */
static inline uint8_t* rings_room(rings* r) {
  if (r->sent - r->head_seen == r->slot_count) {
    r->head_seen = atomic_load_explicit(&r->sending->head, memory_order_acquire);
    if (r->sent - r->head_seen == r->slot_count) return NULL;
  }
  return rings_slot(r, r->sending, r->sent) + rings_payload_at(r);
}

/* After rings_room: the message is there. */
static inline void rings_ship(rings* r) {
  uint8_t* at = rings_slot(r, r->sending, r->sent);
  atomic_store_explicit((_Atomic uint64_t*)at, ++r->sent, memory_order_release);
}

/* The next message; NULL: nothing has come. */
static inline uint8_t* rings_arrived(rings* r) {
  uint8_t* at = rings_slot(r, r->receiving, r->received);
  if (atomic_load_explicit((_Atomic uint64_t*)at, memory_order_acquire) != r->received + 1) return NULL;
  return at + rings_payload_at(r);
}

/* After rings_arrived: its slot is free. */
static inline void rings_release(rings* r) {
  ++r->received;
  /* Freed in quarters of the ring: the line of `head` then moves rarely. */
  if (r->received % (r->slot_count < 4 ? 1 : r->slot_count / 4) == 0)
    atomic_store_explicit(&r->receiving->head, r->received, memory_order_release);
}

#endif
