/* lwmq_tli.h - the transport layer interface: what a provider of a scheme implements.
 *
 * A provider moves buffers of bytes between two processes and, where the hardware can, lends windows of memory.
 * It knows nothing of messages, queues or Arrow. A provider is one object file:
 *
 *     static const lwmq_tli_provider kProvider = { sizeof(lwmq_tli_provider), LWMQ_TLI_VERSION, "mine", ... };
 *     LWMQ_TLI_REGISTER(kProvider);
 *
 * One direction of a transport, and its verbs:
 *
 *     sender     acquire ─▶ write at buffer.next ─▶ show ─▶ (write ─▶ show ...) ─▶ ship
 *     receiver   land ─▶ read the extent ─▶ release
 *
 *   A *buffer* is a piece of the sender's memory with room for `buffer_bytes`. What one show makes visible is
 *   an *extent*: it arrives whole or not at all, in the order shown within a buffer. Buffers arrive in the order
 *   of their first show; shipping closes one. The receiver gives every landed extent back by release, in any
 *   order, from any thread. A buffer is free again when it was shipped, landed to its end (the next land sees
 *   that) and all its extents were released.
 *
 * Threads: one thread sends (acquire, show, ship, abandon, free_buffers, unread_extents, wait for room) and one receives
 *   (land, arm, wait for extents) on a transport at a time; the two may be different, and their waits may overlap. release,
 *   state, peer, transport_fd and window calls: any thread; release, and abandon of what was kept, also behind close.
 *   listen, listener_close and the calls of one listener: one thread at a time. connect: several at once.
 * Ownership: takes, lends, keeps as in lwmq.h.
 * One way (LWMQ_IS_ONE_WAY of limits): a transport that was accepted sends, one that has connected receives. Asked for
 *   the other, acquire and land answer LWMQ_E_FULL and LWMQ_E_EMPTY; unread_extents is 0.
 * Loss: when the peer dies, land first returns what was shown, then LWMQ_E_PEER_LOST; after an orderly close of
 *   the peer LWMQ_E_CLOSED in its place. acquire fails with the same status at once; what is shown into a buffer that was
 *   acquired before is lost. Once state says that the peer has gone, land answers LWMQ_E_EMPTY no more: what is still on its
 *   way then is lost. A status that ends a transport is answered again and again.
 * Refusal: another failure of acquire, show or ship, while state says that the peer is there, is tried again every
 *   millisecond, and ends the conversation with its text when that has gone on for a tenth of a second. A buffer is as it was
 *   before a show that has failed.
 */
#ifndef LWMQ_LWMQ_TLI_H
#define LWMQ_LWMQ_TLI_H

#include <stdarg.h>

#include "lwmq/lwmq.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LWMQ_TLI_VERSION 11u

/* What the library does for providers and filters; a module has it through its entry (LWMQ_TLI_MODULE). */

/* Sets the text of this thread's failure, as printf does, and answers `status`: one expression for an early return. The text
   says where, with which numbers, and what to do. Answers (LWMQ_E_EMPTY and the like) have none. Any thread. */
__attribute__((visibility("hidden"), format(printf, 2, 3))) lwmq_status lwmq_tli_fail(lwmq_status status,
                                                                                      const char *format, ...);
/* This process. Static. Any thread. */
__attribute__((visibility("hidden"))) const lwmq_identity *lwmq_tli_identity(void);

typedef struct lwmq_tli_listener lwmq_tli_listener;
typedef struct lwmq_tli_transport lwmq_tli_transport;
typedef struct lwmq_tli_window lwmq_tli_window;
typedef struct lwmq_tli_filters lwmq_tli_filters; /* the library's: the filters of one channel */

typedef struct lwmq_tli_options {
  uint64_t size;
  uint64_t buffer_bytes;    /* of our send buffers */
  uint32_t buffers_send;    /* how many we make; the peer says how many it makes */
  uint32_t buffers_receive; /* how many of the peer's we are ready to map at most; 0: any allowed number */
  uint32_t purpose;         /* what runs above, compared with the peer's: LWMQ_TLI_FOR_*; LWMQ_E_VERSION if different */
  uint32_t secure_erase;    /* 1: send buffers are zeroed when acquire or free_buffers sees that they were released, when
                               they are abandoned, and when the transport ends as far as no peer can read them any more;
                               with LWMQ_CAN_ERASE */
  uint32_t channel;         /* which of our conversations this is a transport of; 0: not said. The peer is told */
  lwmq_tli_filters *filters; /* not a provider's business: it passes over them */
  /* With LWMQ_IS_IN_PROCESS: called for each extent that was shown to us and never landed, when both ends have closed: it
     may be the address of something. NULL: nothing to do. */
  void (*drop)(const void *data, uint64_t bytes, uint32_t kind);
  /* Of a listener: a provider that can calls it, on any thread, when its descriptor would become readable, perhaps before
     listen has returned, until listener_close, when no call may be under way any more; it has none then: listener_fd is -1.
     It does not wait. NULL: a descriptor. */
  void (*ring)(void *context);
  void *ring_context;
} lwmq_tli_options;

enum { LWMQ_TLI_FOR_MESSAGES = 1, LWMQ_TLI_FOR_RAW = 2, LWMQ_TLI_FOR_STREAM = 3 };

typedef struct lwmq_tli_peer {
  uint8_t instance[16];
  uint32_t pid, uid;
  uint64_t buffer_bytes; /* of the peer's send buffers: its largest extent */
  uint32_t buffers;
  uint32_t drops;        /* with LWMQ_IS_IN_PROCESS: 1 where it gave `drop`, and may be shown addresses */
  uint32_t channel;      /* of its options; 0: not said */
  uint64_t unsent;       /* once it has closed: what it gave up before, as say_unsent had it */
} lwmq_tli_peer;

/* A send buffer in the hands of the sender. The provider updates `next` and `room` at each show; it gets `next` and `token`
   back as they are; `room` may be another one. */
typedef struct lwmq_tli_buffer {
  uint8_t *next;     /* where the next extent goes; 64-byte aligned at first, 8-byte aligned later */
  uint64_t room;     /* the largest next extent; 0: full */
  uint64_t token[2]; /* the provider's */
} lwmq_tli_buffer;

typedef struct lwmq_tli_extent {
  const uint8_t *data; /* the peer may be hostile: copy what you follow before you check it */
  uint64_t bytes;
  uint32_t kind;       /* what the sender said at show: 0 .. LWMQ_TLI_KIND_MAX */
  uint32_t reserved;
  uint64_t token[2];   /* the provider's; the first is the number of its buffer, below the peer's `buffers` */
} lwmq_tli_extent;

/* One of several extents that have landed together. */
typedef struct lwmq_tli_piece {
  const uint8_t *data; /* as of an extent */
  uint32_t bytes;
  uint32_t kind;
} lwmq_tli_piece;

#define LWMQ_TLI_KIND_MAX 63u

/* HOLDING, beside EXTENT: the caller has landed some that nobody has received. */
enum { LWMQ_TLI_WAIT_EXTENT = 1, LWMQ_TLI_WAIT_ROOM = 2, LWMQ_TLI_WAIT_HOLDING = 4 };

enum {
  LWMQ_TLI_CONNECTED = 0,
  LWMQ_TLI_CLOSED = 1, /* the peer closed in order */
  LWMQ_TLI_LOST = 2    /* the peer died, vanished or broke the protocol */
};

/* Memory that a peer can reach. Made by its owner, who alone writes it; peers map it read-only. */
typedef struct lwmq_tli_window_info {
  uint8_t id[16];     /* random; never used again */
  uint8_t *base;      /* owner: writable; others: writing there is a fault */
  uint64_t bytes;
  uint32_t owned;     /* 1: made by this process */
  uint32_t owner_pid;
  uint8_t owner[16];  /* instance of the process that made it */
} lwmq_tli_window_info;

typedef struct lwmq_tli_provider {
  uint32_t size;    /* sizeof(lwmq_tli_provider) */
  uint32_t version; /* LWMQ_TLI_VERSION */
  const char *name; /* for listings; not used to match addresses */

  /* 1 if `address` is this provider's scheme, whether well-formed or not. Never waits. */
  int32_t (*claim)(const char *address);
  /* Checks the address and says what it allows. LWMQ_E_ADDRESS with a text. Never waits. */
  lwmq_status (*limits)(const char *address, lwmq_limits *out_limits);

  /* Binds. LWMQ_E_ADDRESS: somebody else serves it. Never waits. */
  lwmq_status (*listen)(const char *address, const lwmq_tli_options *options, lwmq_tli_listener **out_listener);
  /* The next peer that has connected and passed the handshake. LWMQ_E_EMPTY: none now. Any failure: one was refused, with
     the text why, and is counted; the next call says more. Never waits; a peer that is slow or wrong in its handshake is
     dropped without holding up others. */
  lwmq_status (*accept)(lwmq_tli_listener *listener, lwmq_tli_transport **out_transport);
  /* For a host that accepts nobody for now, when listener_fd has become readable or it was rung: lets go of those who have
     given up, so that what they hold does not pile up. Never waits. NULL: who gives up leaves nothing. */
  void (*tend)(lwmq_tli_listener *listener);
  /* A descriptor that polls readable when accept has something to do, or when an accepted and armed transport
     has something (see arm, transport_fd). Lent. Level-triggered; accept, tend and disarm drain it. -1: see ring of
     the options. */
  int32_t (*listener_fd)(lwmq_tli_listener *listener);
  /* Takes the listener; its transports live on. The address can be served again at once. Never waits. */
  void (*listener_close)(lwmq_tli_listener *listener);

  /* One attempt to connect. LWMQ_E_EMPTY: nobody listens now (try again later). Waits at most timeout_ms for the handshake:
     LWMQ_E_TIMED_OUT, nobody has answered it. */
  lwmq_status (*connect)(const char *address, const lwmq_tli_options *options, uint32_t timeout_ms,
                         lwmq_tli_transport **out_transport);

  /* Who the other end is; it stays so when that is gone. Never waits. Any thread. */
  void (*peer)(lwmq_tli_transport *transport, lwmq_tli_peer *out_peer);
  /* LWMQ_TLI_*; never waits. Loss is noticed within 100 ms. */
  int32_t (*state)(lwmq_tli_transport *transport);

  /* Lends a free send buffer. LWMQ_E_FULL: none. Never waits. */
  lwmq_status (*acquire)(lwmq_tli_transport *transport, lwmq_tli_buffer *out_buffer);
  /* Makes the `bytes` bytes at buffer->next visible as one extent of `kind`. LWMQ_E_TOO_BIG: more than its room. Never
     waits. */
  lwmq_status (*show)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer, uint64_t bytes, uint32_t kind);
  /* Copies up to `count` frames to buffer->next and shows each as an extent of `kind`: how many, of *out_bytes together.
     Fewer where there is no room, or where the first would be late. 0: show says why. Never waits. NULL: show does as well. */
  uint64_t (*show_run)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer, const lwmq_bytes *frames,
                       uint64_t count, uint32_t kind, uint64_t *out_bytes);
  /* Takes the buffer, also on failure: nothing more will be shown in it, and perhaps nothing was. Never waits. */
  lwmq_status (*ship)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer);
  /* Shows the only extent of a buffer of which nothing was shown, and ships it. Takes the buffer, also on failure.
     Never waits. NULL: show and ship do as well. */
  lwmq_status (*ship_only)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer, uint64_t bytes, uint32_t kind);
  /* Takes a buffer of which nothing was shown. One that is neither shipped nor abandoned goes with close, but see
     keep_lent. */
  void (*abandon)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer);
  /* How many send buffers acquire would lend now; collects what the peer has released. */
  uint32_t (*free_buffers)(lwmq_tli_transport *transport);
  /* Extents shown and not yet released by the peer, nor waited behind: what is lost if it dies now. */
  uint64_t (*unread_extents)(lwmq_tli_transport *transport);

  /* Lends the next extent. LWMQ_E_EMPTY: none now. LWMQ_E_CORRUPT: the peer broke the protocol. Any other failure ends the
     conversation, too. Never waits. */
  lwmq_status (*land)(lwmq_tli_transport *transport, lwmq_tli_extent *out_extent);
  /* Takes a landed extent. Any thread. Never waits. */
  void (*release)(lwmq_tli_transport *transport, lwmq_tli_extent *extent);
  /* Takes `count` extents of one land_run, with its token. Any thread. Never waits. NULL where land_run is. */
  void (*release_run)(lwmq_tli_transport *transport, const uint64_t token[2], uint32_t count);
  /* Takes the extent that landed last, or `count` of the last land_run, with their token; before the next land of any
     kind, even one that finds nothing, and on the landing thread: what no other can meet costs no atomic operation.
     NULL: release does as well. */
  void (*release_last)(lwmq_tli_transport *transport, const uint64_t token[2], uint32_t count);
  /* Lends up to `limit` further extents of less than `bytes_below` bytes, and of less than 4 GiB, if they are there and
     can be released together; some 4 KiB of them at once are enough, one after the other in memory where that can be.
     *out_token is that of each of them. 0: land knows more. Never waits. NULL: land does as well; never without
     release_last. */
  uint32_t (*land_run)(lwmq_tli_transport *transport, uint64_t bytes_below, uint32_t limit, uint64_t out_token[2],
                       lwmq_tli_piece *out_pieces);
  /* As land_run with a limit of 1, for who waits next: looks as long as a wait for extents does before it sleeps, and that
     wait then sleeps at once. 0: there was none in that time, or land knows more. Never sleeps. NULL: wait and land do as
     well; never without land_run. */
  uint32_t (*land_soon)(lwmq_tli_transport *transport, uint64_t bytes_below, uint64_t out_token[2],
                        lwmq_tli_piece *out_piece);
  /* As land, for who waits next, with the looks of land_soon. 0: there was none in that time, or land knows more. Never
     sleeps. NULL: wait and land do as well. */
  uint32_t (*land_awaited)(lwmq_tli_transport *transport, lwmq_tli_extent *out_extent);

  /* Waits until land (LWMQ_TLI_WAIT_EXTENT) or acquire (LWMQ_TLI_WAIT_ROOM) may succeed, the state changed, or the
     time is over. Spins for a while, then sleeps without any wake-up. May, seldom, return early with LWMQ_OK: the caller
     comes again at once. With 0 it only looks. Where one for extents finds none, the peer's unread_extents may count all
     that have landed as read, but with LWMQ_TLI_WAIT_HOLDING. LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED. */
  lwmq_status (*wait)(lwmq_tli_transport *transport, uint32_t what, uint32_t timeout_ms);
  /* Asks that the transport's descriptor becomes readable at the next extent (LWMQ_TLI_WAIT_EXTENT), room
     (LWMQ_TLI_WAIT_ROOM; where an acquire has found none) or, in any case, change of state. On the landing thread;
     with room, on the sending thread too. 1: something is there already, look again (land or acquire must find it, or the
     caller looks for ever); 0: armed, and what has landed counts as in a wait; -1: not now, for want of descriptors: who
     polls looks again after a while. A wait for extents ends it; a wait for room does not. */
  int32_t (*arm)(lwmq_tli_transport *transport, uint32_t what);
  void (*disarm)(lwmq_tli_transport *transport);
  /* The transport's descriptor: level-triggered; arm and disarm drain it. Lent until close. An accepted transport has
     its listener's until this is called first, and one of its own from then on. -1: none, with a text; who polls then asks
     without a pause. Any thread. */
  int32_t (*transport_fd)(lwmq_tli_transport *transport);

  /* Takes the transport: tells the peer that this is the end in order. What was shown stays readable for the peer;
     landed extents that were not released stay mapped until they are. Never waits. */
  void (*close)(lwmq_tli_transport *transport);
  /* Before close, once: so many buffers that were acquired, and of which nothing was shown, are their user's still, and stay
     mapped behind it. From here on each comes back by abandon, from any thread, one at a time, and not beside close. */
  void (*keep_lent)(lwmq_tli_transport *transport, uint32_t buffers);
  /* Before close: so many messages its user had for the peer, and gives up without showing them. The peer finds the
     number behind our close. NULL: its peers never hear of it. */
  void (*say_unsent)(lwmq_tli_transport *transport, uint64_t messages);

  /* -- Windows; NULL together where the provider cannot share memory (no LWMQ_CAN_SHARE_WINDOW) -- */

  /* Makes a window of our own, zeroed, not yet touched. LWMQ_E_NO_MEMORY with the numbers of the limit it met. */
  lwmq_status (*window_create)(uint64_t bytes, lwmq_tli_window **out_window);
  /* Shows a window to the peer: our own, or one that was shown to us by its owner. Exporting twice is harmless.
     Never waits. LWMQ_E_FULL: the peer has not yet looked for what it was shown before. */
  lwmq_status (*window_export)(lwmq_tli_transport *transport, lwmq_tli_window *window);
  /* The window with this id, shown to us over `transport`, mapped; keeps it. Waits for it to arrive. */
  lwmq_status (*window_find)(lwmq_tli_transport *transport, const uint8_t id[16], uint32_t timeout_ms,
                             lwmq_tli_window **out_window);
  void (*window_info)(const lwmq_tli_window *window, lwmq_tli_window_info *out_info);
  /* 1 while the process that made it lives. Never waits; a plain load where nothing changed. */
  int32_t (*window_owner_alive)(const lwmq_tli_window *window);
  void (*window_keep)(lwmq_tli_window *window);
  /* The last release unmaps. Any thread. */
  void (*window_release)(lwmq_tli_window *window);

  /* Runs on a thread of its own from the first channel, listener or stream of any provider until the process ends: witnesses
     deaths, and whatever else must go on while the application is busy. Who returns is not called again. `stop` and
     service_wake are for hosts that end it before: it is set, and then service_wake is called. NULL: nothing to do. */
  void (*service)(const volatile uint32_t *stop);
  void (*service_wake)(void);
} lwmq_tli_provider;

/* ---- Filters ----------------------------------------------------------------------------------
 *
 * A filter stands between whoever uses a transport and the provider, and sees every extent on its way. Providers and
 * channels know nothing of it. An address names filters in front of its scheme, the nearest to the application first:
 *
 *     trace+loss=0.01,seed=7+ipc://orders
 *
 * What is sent passes them from left to right when it is shown, what lands from right to left. A filter is one object
 * file, registered by LWMQ_TLI_REGISTER_FILTER. Each transport has its own instance of it for each way, which one thread
 * at a time calls. An instance ends when its filter is removed, or when the last message that has landed over the transport
 * is destroyed, on that thread. */

enum { LWMQ_TLI_SENDING = 1, LWMQ_TLI_LANDING = 2 };

/* An extent on its way. */
typedef struct lwmq_tli_passing {
  uint8_t *data;   /* written by filters that rewrite, and by no other: it may be a peer's, who may write to it now */
  uint64_t bytes;  /* a filter may make it less; sending: one that rewrites may make it more, up to room */
  uint64_t room;   /* sending: so many bytes may stand at data; landing: 0 */
  uint64_t now_ns; /* CLOCK_MONOTONIC */
  uint32_t kind;   /* what the sender said at show; a filter may say something else */
  uint32_t way;    /* LWMQ_TLI_SENDING or LWMQ_TLI_LANDING */
} lwmq_tli_passing;

/* What becomes of it; all 0: it passes. */
typedef struct lwmq_tli_verdict {
  uint64_t hold_ns;  /* landing: it goes on after that time, later ones behind it. sending: it goes on, and then nothing
                        is acquired for that time */
  uint64_t took_ns;  /* a time that the filter has measured, for its histogram; 0: none */
  uint32_t drop;     /* 1: it ends here; counted */
  uint32_t behind;   /* landing: so many later ones overtake it, or fewer, when hold_ns is over */
  uint32_t changed;  /* 1: the filter has changed bytes, kind or what stands there; counted. Else none of it counts */
  uint32_t failed;   /* 1: the filter could not do its work on it; counted */
} lwmq_tli_verdict;

typedef struct lwmq_tli_filter {
  uint32_t size;    /* sizeof(lwmq_tli_filter) */
  uint32_t version; /* LWMQ_TLI_VERSION */
  const char *name; /* as in addresses: a-z, 0-9, _ */
  const char *help; /* its settings, in a line */
  uint32_t ways;    /* LWMQ_TLI_SENDING | LWMQ_TLI_LANDING: where it can work */
  uint32_t rewrites; /* on which ways it writes to what passes; what lands is copied for it */

  /* Makes an instance for one way; `settings` is what stands behind the name and its `=` in the address, "" for none.
     `way` 0: checks the settings and makes nothing. May leave *out_filter NULL: nothing to do on this way. LWMQ_E_INVALID.
     May wait for a disk. */
  lwmq_status (*create)(const char *settings, uint32_t way, void **out_filter);
  /* Looks at an extent and says what becomes of it; the verdict is all 0 before. Never waits for a peer. */
  void (*see)(void *filter, lwmq_tli_passing *passing, lwmq_tli_verdict *out_verdict);
  /* NULL, or an extent of the filter's own that lands next: 1, and it fills in data, bytes and kind, lent until its next
     call. 0: none now; `*out_in_ns` says in what time there may be one (UINT64_MAX: never again). Landing alone; when the
     peer has gone, a million more at most. */
  int32_t (*source)(void *filter, lwmq_tli_passing *out_passing, uint64_t *out_in_ns);
  void (*destroy)(void *filter);
} lwmq_tli_filter;

/* Registers a filter at link time: an entry of ELF section `lwmq_tli_filter`. */
#define LWMQ_TLI_REGISTER_FILTER(filter)                                                         \
  __attribute__((section("lwmq_tli_filter"), used, retain)) static const lwmq_tli_filter *const  \
      lwmq_tli_entry_##filter = &(filter)

/* ---- Modules ----------------------------------------------------------------------------------
 *
 * A module is a shared object with providers and filters of its own, in a folder of $LWMQ_MODULE_PATH. It comes before
 * what is built in. It says LWMQ_TLI_MODULE(name) once, and is loaded only with a signature (lwmq_module_sign), and if its
 * tables are complete. What it registers must stay: modules are never unloaded. It is linked with nothing of the library,
 * which may be a shared object, a part of the program or of a JVM's. */

/* What lwmq_tli_fail and lwmq_tli_identity of a module call. Later versions append. */
typedef struct lwmq_tli_host {
  uint32_t size;
  uint32_t version;
  lwmq_status (*fail)(lwmq_status status, const char *format, va_list arguments);
  const lwmq_identity *(*identity)(void);
} lwmq_tli_host;

typedef struct lwmq_tli_module {
  uint32_t size;    /* sizeof(lwmq_tli_module) */
  uint32_t version; /* LWMQ_TLI_VERSION */
  const char *name;
  const lwmq_tli_provider *const *providers, *const *providers_end; /* the section of this shared object */
  const lwmq_tli_filter *const *filters, *const *filters_end;
  const lwmq_tli_host **host; /* filled in before anything of the tables is called */
} lwmq_tli_module;

/* Exports what the sections of this shared object hold, under the one name that the library looks for, and defines what
   the library does for them. */
#ifdef __cplusplus
#define LWMQ_TLI_C extern "C"
#else
#define LWMQ_TLI_C extern
#endif
#define LWMQ_TLI_BOUND(type, bound) \
  LWMQ_TLI_C const type *const bound[] __attribute__((weak, visibility("hidden")))
#define LWMQ_TLI_MODULE(module_name)                                                             \
  LWMQ_TLI_BOUND(lwmq_tli_provider, __start_lwmq_tli);                                           \
  LWMQ_TLI_BOUND(lwmq_tli_provider, __stop_lwmq_tli);                                            \
  LWMQ_TLI_BOUND(lwmq_tli_filter, __start_lwmq_tli_filter);                                      \
  LWMQ_TLI_BOUND(lwmq_tli_filter, __stop_lwmq_tli_filter);                                       \
  static const lwmq_tli_host *lwmq_tli_module_host;                                              \
  lwmq_status lwmq_tli_fail(lwmq_status status, const char *format, ...) {                       \
    va_list arguments;                                                                           \
    va_start(arguments, format);                                                                 \
    status = lwmq_tli_module_host->fail(status, format, arguments);                              \
    va_end(arguments);                                                                           \
    return status;                                                                               \
  }                                                                                              \
  const lwmq_identity *lwmq_tli_identity(void) { return lwmq_tli_module_host->identity(); }      \
  LWMQ_TLI_C __attribute__((visibility("default"))) const lwmq_tli_module lwmq_tli_module_entry; \
  const lwmq_tli_module lwmq_tli_module_entry = {                                                \
      sizeof(lwmq_tli_module), LWMQ_TLI_VERSION, module_name, __start_lwmq_tli, __stop_lwmq_tli, \
      __start_lwmq_tli_filter, __stop_lwmq_tli_filter, &lwmq_tli_module_host}

/* Registers a provider at link time: an entry of ELF section `lwmq_tli`, found through the linker's own bounds. */
#define LWMQ_TLI_REGISTER(provider)                                                           \
  __attribute__((section("lwmq_tli"), used, retain)) static const lwmq_tli_provider *const    \
      lwmq_tli_entry_##provider = &(provider)

#ifdef __cplusplus
}
#endif
#endif
