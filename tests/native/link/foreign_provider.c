/* toy://anything - a provider as an outsider writes one: C11, and nothing but lwmq_tli.h.
 *
 * One listener, one pair of ends, one buffer in each direction, one thread. It is small on purpose and keeps
 * what the table promises as far as one thread can tell.
 */
#include <stdlib.h>
#include <string.h>

#include "lwmq/lwmq_tli.h"

#ifndef TOY_SCHEME /* as a module (sample_module.c) it may take the scheme of another one */
#define TOY_SCHEME "toy://"
#endif

enum { kRoom = 4096, kExtents = 64 };

struct shown {
  uint64_t offset, bytes;
  uint32_t kind;
};

struct lwmq_tli_transport {
  uint8_t bytes[kRoom]; /* what this end sends */
  struct shown extents[kExtents];
  uint32_t shown, landed, released; /* of our extents, by the peer */
  int lent, shipped, closed;
  lwmq_tli_transport* peer;
};

struct lwmq_tli_listener {
  lwmq_tli_transport* waiting;
};

static lwmq_tli_listener* the_listener;

static int32_t claim(const char* address) { return strncmp(address, TOY_SCHEME, strlen(TOY_SCHEME)) == 0; }

static lwmq_status limits(const char* address, lwmq_limits* out_limits) {
  if (address[strlen(TOY_SCHEME)] == '\0') return LWMQ_E_ADDRESS;
  out_limits->buffer_bytes_max = kRoom;
  out_limits->buffers_max = 2;
  out_limits->capabilities = LWMQ_CAN_SEND | LWMQ_CAN_RECEIVE | LWMQ_IS_RELIABLE | LWMQ_IS_ORDERED;
  return LWMQ_OK;
}

static lwmq_status listen(const char* address, const lwmq_tli_options* options,
                          lwmq_tli_listener** out_listener) {
  (void)address;
  (void)options;
  if (the_listener != NULL) return LWMQ_E_ADDRESS;
  the_listener = calloc(1, sizeof *the_listener);
  *out_listener = the_listener;
  return the_listener == NULL ? LWMQ_E_NO_MEMORY : LWMQ_OK;
}

static lwmq_status accept(lwmq_tli_listener* listener, lwmq_tli_transport** out_transport) {
  if (listener->waiting == NULL) return LWMQ_E_EMPTY;
  *out_transport = listener->waiting;
  listener->waiting = NULL;
  return LWMQ_OK;
}

static int32_t listener_fd(lwmq_tli_listener* listener) {
  (void)listener;
  return -1;
}

static void listener_close(lwmq_tli_listener* listener) {
  the_listener = NULL;
  free(listener);
}

static lwmq_status connect(const char* address, const lwmq_tli_options* options, uint32_t timeout_ms,
                           lwmq_tli_transport** out_transport) {
  (void)address;
  (void)options;
  (void)timeout_ms;
  if (the_listener == NULL) return LWMQ_E_EMPTY;
  lwmq_tli_transport* ends = calloc(2, sizeof *ends); /* for as long as the process lives: it is a toy */
  if (ends == NULL) return LWMQ_E_NO_MEMORY;
  ends[0].peer = &ends[1];
  ends[1].peer = &ends[0];
  the_listener->waiting = &ends[1];
  *out_transport = &ends[0];
  return LWMQ_OK;
}

static void peer(lwmq_tli_transport* transport, lwmq_tli_peer* out_peer) {
  (void)transport;
  memset(out_peer, 0, sizeof *out_peer);
  out_peer->buffer_bytes = kRoom;
  out_peer->buffers = 1;
}

static int32_t state(lwmq_tli_transport* transport) {
  return transport->peer->closed ? LWMQ_TLI_CLOSED : LWMQ_TLI_CONNECTED;
}

static uint32_t free_buffers(lwmq_tli_transport* transport) {
  if (transport->lent || (transport->shipped && transport->released < transport->shown)) return 0;
  return 1;
}

static lwmq_status acquire(lwmq_tli_transport* transport, lwmq_tli_buffer* out_buffer) {
  if (transport->peer->closed) return LWMQ_E_CLOSED;
  if (free_buffers(transport) == 0) return LWMQ_E_FULL;
  transport->lent = 1;
  transport->shipped = 0;
  transport->shown = transport->landed = transport->released = 0;
  out_buffer->next = transport->bytes;
  out_buffer->room = kRoom;
  return LWMQ_OK;
}

static lwmq_status show(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, uint64_t bytes,
                        uint32_t kind) {
  if (bytes > buffer->room || transport->shown == kExtents) return LWMQ_E_TOO_BIG;
  struct shown* extent = &transport->extents[transport->shown++];
  extent->offset = (uint64_t)(buffer->next - transport->bytes);
  extent->bytes = bytes;
  extent->kind = kind;
  const uint64_t end = (extent->offset + bytes + 7) / 8 * 8;
  buffer->next = transport->bytes + (end < kRoom ? end : 0);
  buffer->room = transport->shown < kExtents && end < kRoom ? kRoom - end : 0;
  return LWMQ_OK;
}

static lwmq_status ship(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) {
  transport->lent = 0;
  transport->shipped = 1;
  buffer->room = 0;
  return LWMQ_OK;
}

static void abandon(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) {
  transport->lent = 0;
  buffer->room = 0;
}

static uint64_t unread_extents(lwmq_tli_transport* transport) {
  return transport->shown - transport->released;
}

static lwmq_status land(lwmq_tli_transport* transport, lwmq_tli_extent* out_extent) {
  lwmq_tli_transport* from = transport->peer;
  if (from->landed == from->shown) return from->closed ? LWMQ_E_CLOSED : LWMQ_E_EMPTY;
  const struct shown* extent = &from->extents[from->landed++];
  out_extent->data = from->bytes + extent->offset;
  out_extent->bytes = extent->bytes;
  out_extent->kind = extent->kind;
  return LWMQ_OK;
}

static void release(lwmq_tli_transport* transport, lwmq_tli_extent* extent) {
  (void)extent;
  ++transport->peer->released;
}

static lwmq_status wait(lwmq_tli_transport* transport, uint32_t what, uint32_t timeout_ms) {
  (void)transport;
  (void)what;
  (void)timeout_ms;
  return LWMQ_OK; /* may return early: the caller looks again */
}

static int32_t arm(lwmq_tli_transport* transport, uint32_t what) {
  (void)transport;
  (void)what;
  return 1;
}

static void disarm(lwmq_tli_transport* transport) { (void)transport; }

static int32_t transport_fd(lwmq_tli_transport* transport) {
  (void)transport;
  return -1;
}

static void close(lwmq_tli_transport* transport) { transport->closed = 1; }

static const lwmq_tli_provider kToy = {
    .size = sizeof(lwmq_tli_provider),
    .version = LWMQ_TLI_VERSION,
    .name = "toy",
    .claim = claim,
    .limits = limits,
    .listen = listen,
    .accept = accept,
    .listener_fd = listener_fd,
    .listener_close = listener_close,
    .connect = connect,
    .peer = peer,
    .state = state,
    .acquire = acquire,
    .show = show,
    .ship = ship,
    .abandon = abandon,
    .free_buffers = free_buffers,
    .unread_extents = unread_extents,
    .land = land,
    .release = release,
    .wait = wait,
    .arm = arm,
    .disarm = disarm,
    .transport_fd = transport_fd,
    .close = close,
    .say_unsent = NULL,
};

LWMQ_TLI_REGISTER(kToy);
