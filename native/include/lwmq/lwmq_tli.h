/* lwmq_tli.h - the transport layer interface: what a provider of an address scheme implements.
 *
 * A provider moves buffers of bytes between two processes. It knows nothing of messages, queues or Arrow. It is one
 * object file that fills in a table of tables:
 *
 *     provider     its name, which addresses are its own, what they allow, and its thread if it needs one
 *     listener     listen, accept, tend, descriptor, close
 *     transport    one conversation with one peer: connect, send, receive, wait, close. Every call is mandatory unless
 *                  its comment says that it may be NULL. These calls alone serve every feature of channels
 *     fast         shortcuts that exist for speed alone; NULL as a whole, or each of them
 *     memory       windows that both processes map, and memory of one that the other writes; NULL as a whole, or each half
 *
 *     static const lwmq_tli_provider kProvider = { sizeof(lwmq_tli_provider), LWMQ_TLI_VERSION, "mine", ... };
 *     LWMQ_TLI_REGISTER(kProvider);
 *
 * One direction of a transport, and its verbs:
 *
 *     sender     acquire -> write at buffer.next -> show -> (write -> show ...) -> ship, and flush after the last of many
 *     receiver   land -> read the extents -> release
 *
 *   A *buffer* is a piece of the sender's memory with room for `buffer_bytes`. Each show makes one *extent* of it visible.
 *   An extent arrives whole or not at all. Extents of one buffer arrive in the order in which they were shown, and buffers
 *   arrive in the order of their first show. Shipping closes a buffer. The receiver gives every landed extent back by
 *   release, in any order and from any thread. A buffer is free again when it was shipped, when it has landed to its end
 *   (the next land sees that), and when all its extents were released.
 *
 * Threads: one thread at a time sends on a transport (acquire, show, ship, abandon, flush, wait for room, figures), and one
 *   at a time receives (land, arm, wait for extents). The two may differ, and their waits may overlap. Any thread may call
 *   release, state without figures, peer, descriptor and the window calls. release, and abandon of a buffer that was lent
 *   when its transport closed, are also called after close. A listener is used by one thread at a time. connect is called
 *   by several threads at once.
 * Ownership: takes, lends, keeps as in lwmq.h. No call waits unless its comment says so.
 * One way (LWMQ_IS_ONE_WAY of limits): an accepted transport only sends, and one that has connected only receives. In the
 *   other direction acquire answers LWMQ_E_FULL and land answers LWMQ_E_EMPTY; nothing is unread.
 * Loss: when the peer dies, land first returns what the peer has shown, and then LWMQ_E_PEER_LOST, or LWMQ_E_CLOSED after an
 *   orderly close. acquire fails with the same status at once; what is shown into a buffer that was acquired before is lost.
 *   Once state says that the peer has gone, land no longer answers LWMQ_E_EMPTY: what is still on its way then is lost. A
 *   status that ends a transport is answered again by every later call.
 * Refusal: when acquire, show or ship fails otherwise while state says that the peer is there, the caller tries again every
 *   millisecond. A conversation that refuses for a tenth of a second ends with the text of the refusal. A failed show leaves
 *   the buffer as it was.
 */
#ifndef LWMQ_LWMQ_TLI_H
#define LWMQ_LWMQ_TLI_H

#include <stdarg.h>

#include "lwmq/lwmq.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LWMQ_TLI_VERSION 12u

/* What the library does for providers and filters. A module reaches it through its entry (LWMQ_TLI_MODULE). */

/* Sets the text of this thread's failure, as printf does, and returns `status`: one expression for an early return. The text
   says where, with which numbers, and what to do. Answers such as LWMQ_E_EMPTY have no text. Any thread. */
__attribute__((visibility("hidden"), format(printf, 2, 3))) lwmq_status lwmq_tli_fail(lwmq_status status,
                                                                                      const char *format, ...);
/* This process. Static memory. Any thread. */
__attribute__((visibility("hidden"))) const lwmq_identity *lwmq_tli_identity(void);

typedef struct lwmq_tli_listener lwmq_tli_listener;
typedef struct lwmq_tli_transport lwmq_tli_transport;
typedef struct lwmq_tli_window lwmq_tli_window;

/* A setting of the provider's own, such as a certificate, a device or an address to bind. */
typedef struct lwmq_tli_setting {
  const char *name;
  const char *value;
} lwmq_tli_setting;

typedef struct lwmq_tli_options {
  uint64_t size;
  uint64_t buffer_bytes;    /* of each of our send buffers */
  uint32_t buffers_send;    /* how many send buffers we make; the peer says how many it makes */
  uint32_t buffers_receive; /* how many buffers of the peer we accept at most; 0: any allowed number */
  uint32_t purpose;         /* what runs above the transport, LWMQ_TLI_FOR_*; the peer's must be the same: LWMQ_E_VERSION */
  uint32_t secure_erase;    /* 1: a send buffer is zeroed when acquire or state sees that it was released, when it is
                               abandoned, and when the transport ends as far as no peer can read it any more. Needs
                               LWMQ_CAN_ERASE */
  uint32_t channel;         /* a number of the conversation that this transport belongs to; the peer is told. 0: none */
  uint32_t settings_count;
  const lwmq_tli_setting *settings; /* lent for the call; names are those of the provider's `settings` */
  /* With LWMQ_IS_IN_PROCESS: called for each extent that was shown to us and never landed, once both ends have closed. The
     extent may hold the address of something that must be freed. NULL: nothing to do. */
  void (*drop)(const void *data, uint64_t bytes, uint32_t kind);
  /* For listen: a provider that can do without a descriptor calls this, on any thread, when its descriptor would become
     readable, perhaps before listen has returned. No call is under way once the listener's close has returned. It does not
     wait. The listener's descriptor is -1 then. NULL: the host wants a descriptor. */
  void (*ring)(void *context);
  void *ring_context;
} lwmq_tli_options;

enum { LWMQ_TLI_FOR_MESSAGES = 1, LWMQ_TLI_FOR_RAW = 2, LWMQ_TLI_FOR_STREAM = 3 };

typedef struct lwmq_tli_peer {
  uint8_t instance[16];
  uint32_t pid, uid;     /* of a process of this host; pid 0: the peer is on another host, or its process is not known */
  uint64_t buffer_bytes; /* of the peer's send buffers: the size of its largest extent */
  uint32_t buffers;      /* how many send buffers the peer has */
  uint32_t drops;        /* with LWMQ_IS_IN_PROCESS: 1 if the peer gave `drop`, so that it may be shown addresses */
  uint32_t channel;      /* of the peer's options */
  char name[108];        /* the peer in the provider's words, for texts: "process 4711", "10.0.0.7:40212" */
} lwmq_tli_peer;

/* A send buffer in the hands of the sender. The provider updates `next` and `room` at each show. It gets `next` and `token`
   back as they are; the host may lower `room`. */
typedef struct lwmq_tli_buffer {
  uint8_t *next;     /* where the next extent goes: 64-byte aligned at first, 8-byte aligned later */
  uint64_t room;     /* the size of the largest next extent; 0: the buffer is full */
  uint64_t token[2]; /* the provider's own */
} lwmq_tli_buffer;

typedef struct lwmq_tli_extent {
  const uint8_t *data; /* the peer may write here at any time: copy what you follow before you check it */
  uint64_t bytes;
  uint32_t kind;       /* what the sender said at show: 0 to LWMQ_TLI_KIND_MAX */
  uint32_t reserved;
} lwmq_tli_extent;

/* Extents of one buffer that have landed together. They are released one by one or many at once. */
typedef struct lwmq_tli_landing {
  uint64_t token;  /* the provider's own */
  uint32_t buffer; /* the number of their buffer, below the peer's `buffers` */
  uint32_t count;  /* how many extents have landed */
} lwmq_tli_landing;

#define LWMQ_TLI_KIND_MAX 63u

/* How to land. SOON: the caller waits next if nothing is there. land may look for as long as a wait does before it sleeps;
   the wait that follows then sleeps at once. LARGE, beside SOON: the caller expects one extent that fills a buffer. */
enum { LWMQ_TLI_LAND_NOW = 0, LWMQ_TLI_LAND_SOON = 1, LWMQ_TLI_LAND_LARGE = 2 };

/* What to wait for. HOLDING, beside EXTENT: the caller has landed extents that its own user has not received. */
enum { LWMQ_TLI_WAIT_EXTENT = 1, LWMQ_TLI_WAIT_ROOM = 2, LWMQ_TLI_WAIT_HOLDING = 4 };

enum {
  LWMQ_TLI_CONNECTED = 0,
  LWMQ_TLI_CLOSED = 1, /* the peer has closed in order */
  LWMQ_TLI_LOST = 2    /* the peer died, vanished or broke the protocol */
};

/* What a sender can know of its peer. */
typedef struct lwmq_tli_figures {
  uint64_t unread_extents; /* shown and neither released by the peer nor passed by a wait of it: what is lost if it dies now */
  uint64_t unsent;         /* once the peer has closed: how many messages it gave up before it showed them */
  uint32_t free_buffers;   /* how many acquires would succeed now */
  uint32_t reserved;
} lwmq_tli_figures;

/* Memory that a peer can reach. Made by its owner, who alone writes it; peers map it read-only. */
typedef struct lwmq_tli_window_info {
  uint8_t id[16];     /* random; never used again */
  uint8_t *base;      /* owner: writable; others: writing there is a fault */
  uint64_t bytes;
  uint32_t owned;     /* 1: made by this process */
  uint32_t owner_pid;
  uint8_t owner[16];  /* instance of the process that made it */
} lwmq_tli_window_info;

typedef struct lwmq_tli_listener_table {
  /* Binds. LWMQ_E_ADDRESS: another listener serves the address. */
  lwmq_status (*listen)(const char *address, const lwmq_tli_options *options, lwmq_tli_listener **out_listener);
  /* The next peer that has connected and passed the handshake. LWMQ_E_EMPTY: none now. Any other failure: one peer was
     refused, for the reason in the text; the next call says more. A peer that is slow or wrong in its handshake is dropped
     without holding up others. */
  lwmq_status (*accept)(lwmq_tli_listener *listener, lwmq_tli_transport **out_transport);
  /* For a host that accepts nobody for now, called when the descriptor is readable or has rung: lets go of clients that have
     given up, so that what they hold does not pile up. NULL: a client that gives up leaves nothing behind. */
  void (*tend)(lwmq_tli_listener *listener);
  /* A descriptor that polls readable when accept has something to do, or when an accepted and armed transport has something
     (see arm). Lent. Level-triggered; accept, tend and arm drain it. -1: see ring of the options. */
  int32_t (*descriptor)(lwmq_tli_listener *listener);
  /* The address under which others reach the listener, where it differs from the one it was asked for: the port that the
     system chose. Lent until close. NULL: the address is the one asked for. */
  const char *(*address)(lwmq_tli_listener *listener);
  /* Takes the listener; its transports live on. The address can be served again at once. */
  void (*close)(lwmq_tli_listener *listener);
} lwmq_tli_listener_table;

typedef struct lwmq_tli_transport_table {
  /* Begins to connect. LWMQ_E_EMPTY: nobody listens now; try again later. Until proceed has said that the transport is
     connected, the only other calls on it are descriptor and close, which gives up. Where proceed is NULL, the transport is
     connected when connect returns. */
  lwmq_status (*connect)(const char *address, const lwmq_tli_options *options, lwmq_tli_transport **out_transport);
  /* Takes the next steps of connecting. LWMQ_OK: connected. LWMQ_E_FULL: not yet; come back when the descriptor is readable,
     and after 100 ms in any case. LWMQ_E_EMPTY: nobody listens any more. Both may have a text, which says what is awaited or
     missed. Any other failure: refused, for the reason in the text. After a failure the transport can only be closed. */
  lwmq_status (*proceed)(lwmq_tli_transport *transport);

  /* Who the other end is; the answer stays the same when that end has gone. */
  void (*peer)(lwmq_tli_transport *transport, lwmq_tli_peer *out_peer);
  /* LWMQ_TLI_CONNECTED, CLOSED or LOST. With `out_figures`, on the sending thread: also collects the buffers that the peer
     has released, and counts. */
  int32_t (*state)(lwmq_tli_transport *transport, lwmq_tli_figures *out_figures);

  /* Lends a free send buffer. LWMQ_E_FULL: none is free. */
  lwmq_status (*acquire)(lwmq_tli_transport *transport, lwmq_tli_buffer *out_buffer);
  /* Makes the `bytes` bytes at buffer->next visible as one extent of `kind`. LWMQ_E_TOO_BIG: more than its room. */
  lwmq_status (*show)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer, uint64_t bytes, uint32_t kind);
  /* Takes the buffer, also on failure: nothing more will be shown in it, and perhaps nothing was. */
  lwmq_status (*ship)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer);
  /* Takes a buffer of which nothing was shown. A buffer that is neither shipped nor abandoned goes with close, unless it
     stays lent. */
  void (*abandon)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer);
  /* Nothing more is shown for now: what was shown and still lies here goes to the peer. Until then a provider may keep it, to
     send many extents with one system call. NULL: show has sent it. */
  void (*flush)(lwmq_tli_transport *transport);

  /* Lends the next extents: 1 to `limit` of one buffer, in order. `how` is LWMQ_TLI_LAND_*. An extent of 4 KiB or more ends
     them. LWMQ_E_EMPTY: none now. LWMQ_E_CORRUPT: the peer broke the protocol. Any other failure ends the conversation, too. */
  lwmq_status (*land)(lwmq_tli_transport *transport, uint32_t limit, uint32_t how, lwmq_tli_extent *out_extents,
                      lwmq_tli_landing *out_landing);
  /* Takes back `count` extents of a landing. Any thread. */
  void (*release)(lwmq_tli_transport *transport, const lwmq_tli_landing *landing, uint32_t count);

  /* Waits until land (LWMQ_TLI_WAIT_EXTENT) or acquire (LWMQ_TLI_WAIT_ROOM) may succeed, until the state changes, or until
     the time is over. It looks for a while and then sleeps without any wake-up. It may, seldom, return LWMQ_OK early: the
     caller comes again at once. With a time of 0 it only looks. When a wait for extents finds none, everything that has
     landed may count as read in the peer's figures, unless HOLDING is set. LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED. */
  lwmq_status (*wait)(lwmq_tli_transport *transport, uint32_t what, uint32_t timeout_ms);
  /* Asks that the transport's descriptor becomes readable at the next extent (LWMQ_TLI_WAIT_EXTENT), at the next room
     (LWMQ_TLI_WAIT_ROOM, after an acquire that found none) and, in any case, at a change of state. Called on the landing
     thread; with room, on the sending thread too. 1: something is there already, and land or acquire finds it. 0: armed, and
     what has landed counts as in a wait. -1: not possible now for want of descriptors; the caller looks again after a while.
     A wait for extents disarms; a wait for room does not. `what` 0 disarms. */
  int32_t (*arm)(lwmq_tli_transport *transport, uint32_t what);
  /* The transport's descriptor: level-triggered; arm drains it. Lent until close. An accepted transport shares its listener's
     until this is called first, and has one of its own from then on. -1: there is none, for the reason in the text; the
     caller then polls by time. Any thread. */
  int32_t (*descriptor)(lwmq_tli_transport *transport);

  /* Takes the transport and tells the peer that this is the end in order. What was shown stays readable for the peer. Landed
     extents that were not released stay mapped until they are. `lent` buffers that were acquired, and of which nothing was
     shown, stay their user's: each comes back by abandon, from any thread, one at a time. `unsent` messages were given up
     before they were shown: the peer finds the number in its figures. */
  void (*close)(lwmq_tli_transport *transport, uint32_t lent, uint64_t unsent);
} lwmq_tli_transport_table;

/* Shortcuts. Each names the benchmark of tests/bench that loses 5 % or more without it. */
typedef struct lwmq_tli_fast_table {
  /* Copies up to `count` frames to buffer->next and shows each as an extent of `kind`. Returns how many, of *out_bytes
     together; fewer where there is no room, or where the first would be late. 0: show says why. NULL: show each.
     Benchmark: native, messages per second, 64 B, lwmq-lent and lwmq-many. */
  uint64_t (*show_run)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer, const lwmq_bytes *frames,
                       uint64_t count, uint32_t kind, uint64_t *out_bytes);
  /* Shows the only extent of a buffer and ships it. Takes the buffer, also on failure. NULL: show, then ship.
     Benchmark: handed, hand-over of 64 KB. */
  lwmq_status (*ship_only)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer, uint64_t bytes, uint32_t kind);
  /* Takes back `count` extents of the landing that landed last, on the landing thread and before its next land, even one that
     finds nothing. Needs no atomic operation. NULL: release.
     Benchmark: native, one-way latency, 64 B, lwmq. */
  void (*release_last)(lwmq_tli_transport *transport, const lwmq_tli_landing *landing, uint32_t count);
} lwmq_tli_fast_table;

/* Memory of ours that the peer may write, by what it needs to know of it. The owner's provider fills it in; it travels to the
   peer as it is; the peer's provider reads it. */
typedef struct lwmq_tli_grant {
  uint64_t bytes;
  uint8_t key[56]; /* the provider's own */
} lwmq_tli_grant;

typedef struct lwmq_tli_memory_table {
  /* -- Windows: memory that both processes map. All NULL without LWMQ_CAN_SHARE_WINDOW -- */

  /* Makes a window of our own, zeroed and not yet touched. LWMQ_E_NO_MEMORY with the numbers of the limit it met. */
  lwmq_status (*window_create)(uint64_t bytes, lwmq_tli_window **out_window);
  /* Shows a window to the peer: our own, or one that its owner has shown to us. Exporting twice is harmless. LWMQ_E_FULL: the
     peer has not yet looked for what it was shown before. */
  lwmq_status (*window_export)(lwmq_tli_transport *transport, lwmq_tli_window *window);
  /* Maps and keeps the window with this id that was shown to us over `transport`. Waits for it to arrive. */
  lwmq_status (*window_find)(lwmq_tli_transport *transport, const uint8_t id[16], uint32_t timeout_ms,
                             lwmq_tli_window **out_window);
  void (*window_info)(const lwmq_tli_window *window, lwmq_tli_window_info *out_info);
  /* 1 while the process that made it lives. A plain load where nothing has changed. */
  int32_t (*window_owner_alive)(const lwmq_tli_window *window);
  void (*window_keep)(lwmq_tli_window *window);
  /* The last release unmaps. Any thread. */
  void (*window_release)(lwmq_tli_window *window);

  /* -- Remote memory: one process writes memory of the other. All NULL where that cannot be -- */

  /* Lets the peer write `bytes` bytes at `memory`, which stays ours, until it is revoked or the transport has ended.
     LWMQ_E_NO_MEMORY with the numbers of the limit it met. */
  lwmq_status (*grant)(lwmq_tli_transport *transport, void *memory, uint64_t bytes, lwmq_tli_grant *out_grant);
  /* Ends a grant. When it returns, the peer can write there no more. */
  void (*revoke)(lwmq_tli_transport *transport, const lwmq_tli_grant *grant);
  /* Prepares memory of ours to be pushed from, and ends that: registration, where a device needs it. NULL: nothing to do. */
  lwmq_status (*register_memory)(lwmq_tli_transport *transport, const void *memory, uint64_t bytes);
  void (*unregister_memory)(lwmq_tli_transport *transport, const void *memory);
  /* Writes the pieces, one after the other, at `offset` of the memory that the peer has granted. They are there before the
     peer lands anything that is shown later. The pieces are lent until reap answers `token`; a piece is in registered memory.
     Pieces may be written in any order among themselves. LWMQ_E_FULL: too many are under way. On the sending thread. */
  lwmq_status (*push)(lwmq_tli_transport *transport, const lwmq_tli_grant *grant, uint64_t offset,
                      const lwmq_bytes *pieces, uint32_t count, uint64_t token);
  /* Tokens of up to `limit` pushes that need their pieces no more. On the sending thread. */
  uint32_t (*reap)(lwmq_tli_transport *transport, uint32_t limit, uint64_t *out_tokens);
} lwmq_tli_memory_table;

typedef struct lwmq_tli_provider {
  uint32_t size;    /* sizeof(lwmq_tli_provider) */
  uint32_t version; /* LWMQ_TLI_VERSION */
  const char *name; /* for listings; not used to match addresses */
  const char *const *settings; /* names of the settings that it takes, NULL behind the last; NULL: none */

  /* 1 if `address` is of this provider's scheme, whether well-formed or not. */
  int32_t (*claim)(const char *address);
  /* Checks the address and says what it allows. LWMQ_E_ADDRESS with a text. */
  lwmq_status (*limits)(const char *address, lwmq_limits *out_limits);
  /* Called once in a process, on a thread of its own, when the provider is first used; it runs until the process ends. It
     does what must go on while no thread of the application is in a call. NULL: nothing. */
  void (*service)(void);

  const lwmq_tli_listener_table *listener;
  const lwmq_tli_transport_table *transport;
  const lwmq_tli_fast_table *fast;     /* NULL: none */
  const lwmq_tli_memory_table *memory; /* NULL: none */
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
