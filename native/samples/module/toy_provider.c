/* toy://name - a provider as an outsider writes one: C11, POSIX threads, and nothing of ours but lwmq_tli.h.
 *
 * Both ends are in one process, and one mutex guards everything. That makes it slow, and short enough to be
 * read before one writes a provider for a device: it keeps what the tables of lwmq_tli.h promise, and the
 * conformance suite runs over it. Its calls wait for nothing but the mutex, except `wait`.
 *
 *   An end owns its send buffers. Each knows its extents and how far the peer is with them: released <=
 * landed <= shown. Buffers of which something was shown stand in the end's queue, in the order of their first
 * show; the peer lands from the one in front, until that is shipped and landed to its end.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "lwmq/lwmq_tli.h"

#ifndef TOY_SCHEME /* a module may take the scheme of what is built in */
#define TOY_SCHEME "toy://"
#endif

#define NAME_BYTES_MAX 100u
#define BUFFERS_MAX 1024u
#define BUFFER_BYTES_MAX (1u << 24)
#define EXTENTS_MAX 256u /* in one buffer */

/* toy://name?label=blue: what an end is called in the texts of its peer. The library checks the value. */
#define LABEL_BYTES_MAX 31u
static const lwmq_setting settings[] = {
    {sizeof(lwmq_setting), "label", NULL, 1, LABEL_BYTES_MAX, LWMQ_VALUE_NAME,
     LWMQ_TAKEN_BY_TRANSPORT | LWMQ_TAKEN_BY_CHANNEL | LWMQ_TAKEN_BY_LISTENER},
    {.key = NULL},
};

struct extent {
  uint64_t at, bytes;
  uint32_t kind;
};

struct buffer {
  uint8_t* memory;
  int is_lent;   /* the sender writes to it */
  int is_queued; /* something of it was shown, and it is not landed to its end */
  uint32_t shown, landed, released;
  struct extent extents[EXTENTS_MAX];
};

/* A descriptor of a listener, which the ends that it has accepted use until they have one of their own. */
struct bell {
  int fd;
  uint32_t users;
};

struct lwmq_tli_transport {
  lwmq_tli_transport* peer;
  lwmq_tli_options options;
  char label[LABEL_BYTES_MAX + 1];
  struct buffer* buffers;
  uint32_t* queue; /* a ring of options.buffers_send indices */
  uint32_t queue_begin, queue_length;
  uint64_t held; /* extents of the peer's that our user has, and what it keeps */
  uint32_t kept; /* of our buffers, behind the close */
  uint64_t unsent;
  int is_closed, is_armed;
  int wants_room;                         /* its last acquire has found none */
  struct bell *own_bell, *listeners_bell; /* NULL where there is none */
  lwmq_tli_transport* next;               /* of those that a listener has not yet given out */
};

struct lwmq_tli_listener {
  char address[sizeof TOY_SCHEME + NAME_BYTES_MAX];
  lwmq_tli_options options;
  char label[LABEL_BYTES_MAX + 1];
  struct bell* bell;
  lwmq_tli_transport* waiting; /* oldest first */
  uint32_t refused;            /* clients of which accept has still to tell */
  lwmq_tli_listener* next;
};

struct lwmq_tli_attempt {
  char address[sizeof TOY_SCHEME + NAME_BYTES_MAX];
  lwmq_tli_options options;
  char label[LABEL_BYTES_MAX + 1];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed; /* some extent, some room, some end of an end */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static lwmq_tli_listener* listeners;

/* ---- Address and limits --------------------------------------------------------------------- */

static int32_t claim(const char* address) { return strncmp(address, TOY_SCHEME, strlen(TOY_SCHEME)) == 0; }

static lwmq_status limits(const char* address, lwmq_limits* out_limits) {
  const size_t bytes = strlen(address) - strlen(TOY_SCHEME);
  if (bytes == 0 || bytes > NAME_BYTES_MAX)
    return lwmq_tli_fail(LWMQ_E_ADDRESS, "%s: a name of 1 to %u bytes stands behind " TOY_SCHEME ", not %zu",
                         address, NAME_BYTES_MAX, bytes);
  out_limits->buffer_bytes_max = BUFFER_BYTES_MAX;
  out_limits->buffers_max = BUFFERS_MAX;
  out_limits->capabilities = LWMQ_CAN_SEND | LWMQ_CAN_RECEIVE | LWMQ_IS_RELIABLE | LWMQ_IS_ORDERED;
  return LWMQ_OK;
}

/* The values of `options` are lent for the call. */
static void copy_label(const lwmq_tli_options* options, char* label) {
  const char* said = options->values != NULL ? options->values[0].text : NULL;
  snprintf(label, LABEL_BYTES_MAX + 1, "%s", said != NULL ? said : "");
}

static lwmq_status check(const char* address, const lwmq_tli_options* options) {
  lwmq_limits unused = {.size = sizeof unused};
  const lwmq_status status = limits(address, &unused);
  if (status != LWMQ_OK) return status;
  if (options->buffers_send == 0 || options->buffers_send > BUFFERS_MAX || options->buffer_bytes == 0 ||
      options->buffer_bytes > BUFFER_BYTES_MAX)
    return lwmq_tli_fail(LWMQ_E_INVALID, "%s: %u buffers of %llu bytes; 1 to %u of 1 to %u are possible",
                         address, options->buffers_send, (unsigned long long)options->buffer_bytes,
                         BUFFERS_MAX, BUFFER_BYTES_MAX);
  return LWMQ_OK;
}

/* ---- Bells ---------------------------------------------------------------------------------- */

static struct bell* make_bell(void) {
  struct bell* bell = calloc(1, sizeof *bell);
  if (bell == NULL) return NULL;
  bell->users = 1;
  bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (bell->fd >= 0) return bell;
  free(bell);
  return NULL;
}

static void ring(const struct bell* bell) {
  const uint64_t one = 1;
  const ssize_t written = write(bell->fd, &one, sizeof one);
  (void)written; /* refused where it has rung too often to count: it is readable */
}

static void drain(const struct bell* bell) {
  uint64_t count;
  const ssize_t got = read(bell->fd, &count, sizeof count);
  (void)got; /* refused where it has not rung */
}

static void leave_bell(struct bell* bell) {
  if (bell == NULL || --bell->users != 0) return;
  close(bell->fd);
  free(bell);
}

static struct bell* bell_of(const lwmq_tli_transport* end) {
  return end->own_bell != NULL ? end->own_bell : end->listeners_bell;
}

/* Something has changed for this end: wakes its threads, and whoever polls for it. */
static void tell(const lwmq_tli_transport* end) {
  pthread_cond_broadcast(&changed);
  if (end->is_armed && bell_of(end) != NULL) ring(bell_of(end));
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static void destroy_end(lwmq_tli_transport* end) {
  if (end == NULL) return;
  for (uint32_t i = 0; end->buffers != NULL && i < end->options.buffers_send; ++i)
    free(end->buffers[i].memory);
  leave_bell(end->own_bell);
  leave_bell(end->listeners_bell);
  free(end->buffers);
  free(end->queue);
  free(end);
}

static lwmq_tli_transport* make_end(const lwmq_tli_options* options, const char* label) {
  lwmq_tli_transport* end = calloc(1, sizeof *end);
  if (end == NULL) return NULL;
  end->options = *options;
  strcpy(end->label, label);
  end->queue = calloc(options->buffers_send, sizeof *end->queue);
  end->buffers = calloc(options->buffers_send, sizeof *end->buffers);
  int is_whole = end->queue != NULL && end->buffers != NULL;
  for (uint32_t i = 0; is_whole && i < options->buffers_send; ++i) {
    end->buffers[i].memory = aligned_alloc(64, (options->buffer_bytes + 63) / 64 * 64);
    is_whole = end->buffers[i].memory != NULL;
  }
  if (is_whole) return end;
  destroy_end(end);
  return NULL;
}

/* Nobody can reach either end any more, nor what has landed of it: both go. */
static void destroy_if_over(lwmq_tli_transport* end) {
  lwmq_tli_transport* peer = end->peer;
  if (!end->is_closed || !peer->is_closed || end->held != 0 || peer->held != 0) return;
  destroy_end(end);
  destroy_end(peer);
}

static void close_end(lwmq_tli_transport* end, uint32_t lent, uint64_t unsent) {
  end->kept = lent;
  end->held += lent;
  end->unsent = unsent;
  end->is_closed = 1;
  tell(end->peer);
  destroy_if_over(end);
}

static void close_transport(lwmq_tli_transport* transport, uint32_t lent, uint64_t unsent) {
  pthread_mutex_lock(&mutex);
  close_end(transport, lent, unsent);
  pthread_mutex_unlock(&mutex);
}

static int is_free(const struct buffer* buffer);

static int32_t state(lwmq_tli_transport* transport, lwmq_tli_figures* out_figures) {
  pthread_mutex_lock(&mutex);
  const int32_t found = transport->peer->is_closed ? LWMQ_TLI_CLOSED : LWMQ_TLI_CONNECTED;
  if (out_figures != NULL) {
    memset(out_figures, 0, sizeof *out_figures);
    out_figures->unsent = transport->peer->unsent;
    for (uint32_t i = 0; i < transport->options.buffers_send; ++i) {
      const struct buffer* buffer = &transport->buffers[i];
      out_figures->free_buffers += is_free(buffer) ? 1 : 0;
      out_figures->unread_extents += buffer->shown - buffer->released;
    }
  }
  pthread_mutex_unlock(&mutex);
  return found;
}

static void peer(lwmq_tli_transport* transport, lwmq_tli_peer* out_peer) {
  pthread_mutex_lock(&mutex);
  const lwmq_tli_transport* other = transport->peer;
  memset(out_peer, 0, sizeof *out_peer);
  memcpy(out_peer->instance, lwmq_tli_identity()->instance, sizeof out_peer->instance); /* the same process */
  out_peer->pid = lwmq_tli_identity()->pid;
  const char* label = other->label;
  snprintf(out_peer->name, sizeof out_peer->name, "%s%sprocess %u", label, *label != 0 ? " of " : "",
           out_peer->pid);
  out_peer->uid = lwmq_tli_identity()->uid;
  out_peer->buffer_bytes = other->options.buffer_bytes;
  out_peer->buffers = other->options.buffers_send;
  out_peer->channel = other->options.channel;
  pthread_mutex_unlock(&mutex);
}

static lwmq_status has_closed(void) {
  return lwmq_tli_fail(LWMQ_E_CLOSED, TOY_SCHEME ": the other end has closed");
}

/* ---- Meeting -------------------------------------------------------------------------------- */

static void make_changed(void) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&changed, &attributes);
  pthread_condattr_destroy(&attributes);
}

/* Where the listener of this address stands, or would stand. */
static lwmq_tli_listener** place_of(const char* address) {
  lwmq_tli_listener** place = &listeners;
  while (*place != NULL && strcmp((*place)->address, address) != 0) place = &(*place)->next;
  return place;
}

static lwmq_status listen_at(const char* address, const lwmq_tli_options* options,
                             lwmq_tli_listener** out_listener) {
  const lwmq_status status = check(address, options);
  if (status != LWMQ_OK) return status;
  pthread_once(&once, make_changed);
  lwmq_tli_listener* made = calloc(1, sizeof *made);
  struct bell* bell = make_bell();
  if (made == NULL || bell == NULL) {
    leave_bell(bell);
    free(made);
    return lwmq_tli_fail(LWMQ_E_SYSTEM, "%s: no memory or no descriptor for a listener", address);
  }
  strcpy(made->address, address);
  made->options = *options;
  copy_label(options, made->label);
  made->bell = bell;
  pthread_mutex_lock(&mutex);
  lwmq_tli_listener** place = place_of(address);
  const int is_served = *place != NULL;
  if (!is_served) *place = made;
  pthread_mutex_unlock(&mutex);
  if (is_served) {
    leave_bell(bell);
    free(made);
    return lwmq_tli_fail(LWMQ_E_ADDRESS, "%s is served already in this process", address);
  }
  *out_listener = made;
  return LWMQ_OK;
}

static lwmq_status accept_next(lwmq_tli_listener* listener, lwmq_tli_transport** out_transport) {
  pthread_mutex_lock(&mutex);
  drain(listener->bell);
  const int has_refused = listener->refused != 0;
  lwmq_tli_transport* first = has_refused ? NULL : listener->waiting;
  if (has_refused) --listener->refused;
  if (first != NULL) listener->waiting = first->next;
  if (listener->waiting != NULL || listener->refused != 0) ring(listener->bell);
  pthread_mutex_unlock(&mutex);
  if (has_refused)
    return lwmq_tli_fail(LWMQ_E_VERSION, "%s: the client is there for something else", listener->address);
  *out_transport = first;
  return first == NULL ? LWMQ_E_EMPTY : LWMQ_OK;
}

static int32_t listener_descriptor(lwmq_tli_listener* listener) { return listener->bell->fd; }

static void close_listener(lwmq_tli_listener* listener) {
  pthread_mutex_lock(&mutex);
  *place_of(listener->address) = listener->next;
  while (listener->waiting != NULL) {
    lwmq_tli_transport* unheard = listener->waiting;
    listener->waiting = unheard->next;
    close_end(unheard, 0, 0);
  }
  leave_bell(listener->bell);
  pthread_mutex_unlock(&mutex);
  free(listener);
}

/* Makes both ends and leaves one with the listener. Under the mutex. */
static lwmq_status meet(lwmq_tli_listener* listener, const lwmq_tli_options* options, const char* label,
                        lwmq_tli_transport** out_transport) {
  if (listener->options.purpose != options->purpose) {
    ++listener->refused;
    ring(listener->bell);
    return lwmq_tli_fail(LWMQ_E_VERSION, "%s: the client is there for %u, the listener for %u",
                         listener->address, options->purpose, listener->options.purpose);
  }
  lwmq_tli_transport* ours = make_end(options, label);
  lwmq_tli_transport* theirs = make_end(&listener->options, listener->label);
  if (ours == NULL || theirs == NULL) {
    destroy_end(ours);
    destroy_end(theirs);
    return lwmq_tli_fail(LWMQ_E_NO_MEMORY, "%s: no memory for %u and %u buffers", listener->address,
                         options->buffers_send, listener->options.buffers_send);
  }
  ours->peer = theirs;
  theirs->peer = ours;
  theirs->listeners_bell = listener->bell;
  ++listener->bell->users;
  lwmq_tli_transport** last = &listener->waiting;
  while (*last != NULL) last = &(*last)->next;
  *last = theirs;
  ring(listener->bell);
  *out_transport = ours;
  return LWMQ_OK;
}

static lwmq_status begin(const char* address, const lwmq_tli_options* options,
                         lwmq_tli_attempt** out_attempt) {
  const lwmq_status status = check(address, options);
  if (status != LWMQ_OK) return status;
  lwmq_tli_attempt* made = malloc(sizeof *made);
  if (made == NULL) return lwmq_tli_fail(LWMQ_E_NO_MEMORY, "%s: no memory for an attempt", address);
  snprintf(made->address, sizeof made->address, "%s", address);
  made->options = *options;
  copy_label(options, made->label);
  *out_attempt = made;
  return LWMQ_OK;
}

static void cancel(lwmq_tli_attempt* attempt) { free(attempt); }

/* There is nobody to wait for: the first step is the last. */
static lwmq_status advance(lwmq_tli_attempt* attempt, lwmq_tli_transport** out_transport) {
  pthread_mutex_lock(&mutex);
  lwmq_tli_listener* listener = *place_of(attempt->address);
  const lwmq_status status =
      listener == NULL ? LWMQ_E_EMPTY : meet(listener, &attempt->options, attempt->label, out_transport);
  pthread_mutex_unlock(&mutex);
  cancel(attempt);
  return status;
}

static int32_t descriptor_of_attempt(lwmq_tli_attempt* attempt) {
  (void)attempt;
  return -1;
}

/* ---- Sending: the caller of what has no lock of its own has the mutex ------------------------ */

static int is_free(const struct buffer* buffer) {
  return !buffer->is_lent && !buffer->is_queued && buffer->released == buffer->shown;
}

static struct buffer* find_free(const lwmq_tli_transport* end) {
  for (uint32_t i = 0; i < end->options.buffers_send; ++i) {
    if (is_free(&end->buffers[i])) return &end->buffers[i];
  }
  return NULL;
}

static struct buffer* buffer_of(const lwmq_tli_transport* end, const lwmq_tli_buffer* lent) {
  return &end->buffers[lent->token[0]];
}

static lwmq_status acquire(lwmq_tli_transport* transport, lwmq_tli_buffer* out_buffer) {
  pthread_mutex_lock(&mutex);
  const int is_over = transport->peer->is_closed;
  struct buffer* found = is_over ? NULL : find_free(transport);
  transport->wants_room = found == NULL;
  if (found != NULL) {
    found->is_lent = 1;
    found->shown = found->landed = found->released = 0;
    out_buffer->token[0] = (uint64_t)(found - transport->buffers);
    out_buffer->next = found->memory;
    out_buffer->room = transport->options.buffer_bytes;
  }
  pthread_mutex_unlock(&mutex);
  if (is_over) return has_closed();
  return found == NULL ? LWMQ_E_FULL : LWMQ_OK;
}

static void put_in_queue(lwmq_tli_transport* end, uint64_t index) {
  end->queue[(end->queue_begin + end->queue_length++) % end->options.buffers_send] = (uint32_t)index;
  end->buffers[index].is_queued = 1;
}

static lwmq_status show(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, uint64_t bytes,
                        uint32_t kind) {
  if (bytes > buffer->room || kind > LWMQ_TLI_KIND_MAX)
    return lwmq_tli_fail(
        LWMQ_E_TOO_BIG, TOY_SCHEME ": an extent of %llu bytes and kind %u; %llu and %u are possible",
        (unsigned long long)bytes, kind, (unsigned long long)buffer->room, LWMQ_TLI_KIND_MAX);
  const uint64_t room = transport->options.buffer_bytes;
  pthread_mutex_lock(&mutex);
  struct buffer* into = buffer_of(transport, buffer);
  if (transport->peer->is_closed || into->shown == EXTENTS_MAX) {
    const int is_over = transport->peer->is_closed;
    pthread_mutex_unlock(&mutex);
    return is_over ? has_closed()
                   : lwmq_tli_fail(LWMQ_E_TOO_BIG, TOY_SCHEME ": %u extents fill a buffer", EXTENTS_MAX);
  }
  const uint64_t at = (uint64_t)(buffer->next - into->memory);
  into->extents[into->shown++] = (struct extent){at, bytes, kind};
  if (!into->is_queued) put_in_queue(transport, buffer->token[0]);
  const uint64_t end = (at + bytes + 7) / 8 * 8;
  buffer->next = into->memory + (end < room ? end : 0);
  buffer->room = end < room && into->shown < EXTENTS_MAX ? room - end : 0;
  tell(transport->peer);
  pthread_mutex_unlock(&mutex);
  return LWMQ_OK;
}

/* What is shipped and landed to its end makes way for the next. */
static void leave_queue(lwmq_tli_transport* end) {
  while (end->queue_length > 0) {
    struct buffer* front = &end->buffers[end->queue[end->queue_begin]];
    if (front->is_lent || front->landed < front->shown) return;
    front->is_queued = 0;
    end->queue_begin = (end->queue_begin + 1) % end->options.buffers_send;
    --end->queue_length;
  }
}

static void take_back(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) {
  pthread_mutex_lock(&mutex);
  buffer_of(transport, buffer)->is_lent = 0;
  leave_queue(transport);
  tell(transport->peer); /* the next buffer may have extents already */
  if (transport->kept > 0) {
    --transport->kept;
    --transport->held;
    destroy_if_over(transport);
  }
  pthread_mutex_unlock(&mutex);
  buffer->room = 0;
}

static lwmq_status ship(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) {
  take_back(transport, buffer);
  return LWMQ_OK;
}

static void abandon(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) { take_back(transport, buffer); }

/* ---- Receiving ------------------------------------------------------------------------------ */

/* The buffer of the peer's with the next extent, or NULL. */
static struct buffer* find_extent(const lwmq_tli_transport* end) {
  const lwmq_tli_transport* from = end->peer;
  if (from->queue_length == 0) return NULL;
  struct buffer* front = &from->buffers[from->queue[from->queue_begin]];
  return front->landed < front->shown ? front : NULL;
}

static lwmq_status land(lwmq_tli_transport* transport, lwmq_tli_extent* out_extent) {
  pthread_mutex_lock(&mutex);
  lwmq_tli_transport* from = transport->peer;
  struct buffer* buffer = find_extent(transport);
  const int is_over = from->is_closed;
  if (buffer != NULL) {
    const struct extent* extent = &buffer->extents[buffer->landed++];
    out_extent->data = buffer->memory + extent->at;
    out_extent->bytes = extent->bytes;
    out_extent->kind = extent->kind;
    out_extent->token[0] = (uint64_t)(buffer - from->buffers);
    ++transport->held;
    leave_queue(from);
  }
  pthread_mutex_unlock(&mutex);
  if (buffer != NULL) return LWMQ_OK;
  return is_over ? has_closed() : LWMQ_E_EMPTY;
}

static void release(lwmq_tli_transport* transport, lwmq_tli_extent* extent) {
  pthread_mutex_lock(&mutex);
  lwmq_tli_transport* from = transport->peer;
  struct buffer* buffer = &from->buffers[extent->token[0]];
  ++buffer->released;
  --transport->held;
  if (is_free(buffer)) tell(from);
  destroy_if_over(transport);
  pthread_mutex_unlock(&mutex);
}

/* ---- Waiting -------------------------------------------------------------------------------- */

static int is_ready(const lwmq_tli_transport* end, uint32_t what) {
  return ((what & LWMQ_TLI_WAIT_EXTENT) != 0 && find_extent(end) != NULL) ||
         ((what & LWMQ_TLI_WAIT_ROOM) != 0 && find_free(end) != NULL) || end->peer->is_closed;
}

static lwmq_status wait_for(lwmq_tli_transport* transport, uint32_t what, uint32_t timeout_ms) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += timeout_ms / 1000;
  until.tv_nsec += timeout_ms % 1000 * 1000000l;
  if (until.tv_nsec >= 1000000000l) {
    until.tv_nsec -= 1000000000l;
    ++until.tv_sec;
  }
  int result = 0;
  pthread_mutex_lock(&mutex);
  while (!is_ready(transport, what) && result != ETIMEDOUT) {
    result = timeout_ms == LWMQ_FOREVER ? pthread_cond_wait(&changed, &mutex)
                                        : pthread_cond_timedwait(&changed, &mutex, &until);
  }
  const int is = is_ready(transport, what);
  pthread_mutex_unlock(&mutex);
  return is ? LWMQ_OK : LWMQ_E_TIMED_OUT;
}

/* Room counts where somebody has asked for it in vain: else it is nearly always there. Of a bell that others
   use, too, the rings stay until an arm for nothing, after which whoever polls it looks at all of them. */
static int32_t arm(lwmq_tli_transport* transport, uint32_t what) {
  pthread_mutex_lock(&mutex);
  struct bell* bell = what == 0 ? bell_of(transport) : transport->own_bell;
  if (bell != NULL) drain(bell);
  transport->is_armed = what != 0;
  if (!transport->wants_room) what &= ~(uint32_t)LWMQ_TLI_WAIT_ROOM;
  const int32_t is = transport->is_armed && is_ready(transport, what);
  pthread_mutex_unlock(&mutex);
  return is;
}

static int32_t descriptor(lwmq_tli_transport* transport) {
  pthread_mutex_lock(&mutex);
  if (transport->own_bell == NULL) transport->own_bell = make_bell();
  const int32_t fd = transport->own_bell == NULL ? -1 : transport->own_bell->fd;
  pthread_mutex_unlock(&mutex);
  if (fd < 0) lwmq_tli_fail(LWMQ_E_SYSTEM, TOY_SCHEME ": no descriptor: %s", strerror(errno));
  return fd;
}

static const lwmq_tli_listener_table listener_table = {
    .listen = listen_at,
    .accept = accept_next,
    .tend = NULL, /* who gives up leaves nothing */
    .descriptor = listener_descriptor,
    .address = NULL,
    .close = close_listener,
};

static const lwmq_tli_attempt_table attempt_table = {
    .begin = begin,
    .advance = advance,
    .descriptor = descriptor_of_attempt,
    .cancel = cancel,
};

static const lwmq_tli_transport_table transport_table = {
    .peer = peer,
    .state = state,
    .acquire = acquire,
    .show = show,
    .flush = NULL,
    .ship = ship,
    .abandon = abandon,
    .land = land,
    .release = release,
    .wait = wait_for,
    .arm = arm,
    .descriptor = descriptor,
    .close = close_transport,
};

static const lwmq_tli_provider toy = {
    .size = sizeof(lwmq_tli_provider),
    .version = LWMQ_TLI_VERSION,
    .name = "toy",
    .claim = claim,
    .limits = limits,
    .settings = settings,
    .listener = &listener_table,
    .attempt = &attempt_table,
    .transport = &transport_table,
};

LWMQ_TLI_REGISTER(toy);
