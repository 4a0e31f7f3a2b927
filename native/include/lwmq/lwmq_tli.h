/* lwmq_tli.h - the transport layer interface: what a provider of a scheme implements.
 *
 * A provider moves buffers of bytes between two processes and, if the hardware can, lends windows of memory.
 * It knows nothing of messages, queues or Arrow. A provider is one object file:
 *
 *     static const lwmq_tli_provider kProvider = { sizeof(lwmq_tli_provider), LWMQ_TLI_VERSION, "mine", ... };
 *     LWMQ_TLI_REGISTER(kProvider);
 *
 * It fills in up to six tables:
 *
 *     provider    name, claim, limits, service      what it is
 *     listener    listen ... close                  who serves an address
 *     attempt     begin, advance ... cancel         how a peer is reached, in steps that wait for nothing
 *     transport   peer ... close                    one conversation: all that channels need
 *     fast        shortcuts for speed alone         optional, as is each of its calls
 *     memory      windows; pin, grant ... reap      optional: memory that a peer can reach: reads, or writes
 *
 * One direction of a transport, and its verbs:
 *
 *     sender     acquire ─▶ write at buffer.next ─▶ show ─▶ (write ─▶ show ... ─▶ flush) ─▶ ship
 *     receiver   land ─▶ read the extent ─▶ release
 *
 *   A *buffer* is a piece of the sender's memory with room for `buffer_bytes`. An *extent* is what one show makes
 *   visible: it arrives whole or not at all, and in the order shown within a buffer. Buffers arrive in the order of
 *   their first show; shipping closes a buffer. The receiver releases every landed extent, in any order, from any
 *   thread. A buffer is free again when it was shipped, landed to its end (the next land notices that), and all its
 *   extents were released.
 *
 * Threads: on a transport, one thread at a time sends (acquire, show, flush, ship, abandon, push, reap, state with
 *   figures, wait for room or to reap) and one receives (land, arm, wait for extents). The two may be different threads,
 *   and their waits may overlap. release, peer, descriptor, state without figures, pin, unpin, grant, revoke, and the
 *   calls for windows: any thread. release, and abandon of buffers that stay lent, are allowed even after close.
 *   listen, and the calls on one listener or one attempt: one thread at a time. begin, and the calls on different
 *   attempts: several threads at once.
 * Ownership: takes, lends, keeps as in lwmq.h.
 * One way (LWMQ_IS_ONE_WAY of limits): an accepted transport sends, a connected transport receives. In the other
 *   direction acquire and push return LWMQ_E_FULL, land returns LWMQ_E_EMPTY, and unread_extents is 0 (state).
 * Loss: when the peer dies, land first returns what was shown, then LWMQ_E_PEER_LOST; after an orderly close of the
 *   peer, LWMQ_E_CLOSED instead. acquire fails with the same status at once; what is shown in a buffer that was
 *   acquired before is lost. Once state says that the peer has gone, land no longer returns LWMQ_E_EMPTY: what is still
 *   on its way then is lost. A status that ends a transport is returned again on every call.
 * Refusal: if acquire, show or ship fails with another status while state says that the peer is there, the library
 *   tries again every millisecond; after a tenth of a second the failure ends the conversation with its text. After a
 *   failed show the buffer is as it was before.
 */
#ifndef LWMQ_LWMQ_TLI_H
#define LWMQ_LWMQ_TLI_H

#include <stdarg.h>

#include "lwmq/lwmq.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LWMQ_TLI_VERSION 12u

/* What the library does for providers and filters; a module gets it through its entry (LWMQ_TLI_MODULE). */

/* Sets the text of this thread's failure, as printf does, and returns `status`: one expression for an early return. The
   text says where, with which numbers, and what to do. Answers (LWMQ_E_EMPTY and the like) have no text. Any thread. */
__attribute__((visibility("hidden"), format(printf, 2, 3))) lwmq_status lwmq_tli_fail(lwmq_status status,
                                                                                      const char *format, ...);
/* This process. Static. Any thread. */
__attribute__((visibility("hidden"))) const lwmq_identity *lwmq_tli_identity(void);

typedef struct lwmq_tli_listener lwmq_tli_listener;
typedef struct lwmq_tli_attempt lwmq_tli_attempt;
typedef struct lwmq_tli_transport lwmq_tli_transport;
typedef struct lwmq_tli_window lwmq_tli_window;
typedef struct lwmq_tli_region lwmq_tli_region;

/* What an address says for one of its provider's settings. */
typedef struct lwmq_tli_value {
  const char *text; /* as it stands in the address; NULL: nothing is said */
  uint64_t value;   /* as lwmq_read_setting reads it */
} lwmq_tli_value;

typedef struct lwmq_tli_options {
  uint64_t size;
  uint64_t buffer_bytes;    /* of our send buffers */
  uint32_t buffers_send;    /* how many we make; the peer says how many it makes */
  uint32_t buffers_receive; /* how many of the peer's buffers we map at most; 0: any allowed number */
  uint32_t purpose;         /* what runs above: LWMQ_TLI_FOR_*. LWMQ_E_VERSION if the peer's purpose is different */
  uint32_t secure_erase;    /* 1: send buffers are zeroed when acquire or state sees that they were released, when they
                               are abandoned, and when the transport ends, unless a peer can still read them; with
                               LWMQ_CAN_ERASE */
  uint32_t channel;         /* which of our conversations uses this transport; 0: not said. The peer is told. A listener
                               that says one serves one conversation: a provider may leave all but a few of those who
                               come without an answer while it lasts, so that they keep what they have */
  /* With LWMQ_IS_IN_PROCESS: called, when both ends have closed, for each extent that was shown to us and never landed;
     it may be the address of something. NULL: nothing to do. */
  void (*drop)(const void *data, uint64_t bytes, uint32_t kind);
  /* For a listener. A provider that supports it calls this instead of making its descriptor readable, which is then
     -1. Called on any thread, perhaps before listen has returned, until the listener's close, after which no call
     may be under way any more. The call does not wait. NULL: the provider uses a descriptor. */
  void (*ring)(void *context);
  void *ring_context;
  const lwmq_tli_value *values; /* one for each of the provider's `settings`, in their order. Lent for the call. NULL:
                                   nothing is said */
} lwmq_tli_options;

enum { LWMQ_TLI_FOR_MESSAGES = 1, LWMQ_TLI_FOR_RAW = 2, LWMQ_TLI_FOR_STREAM = 3 };

typedef struct lwmq_tli_peer {
  uint8_t instance[16];
  char name[64];         /* for error messages, as in "process 4711"; ends in 0 */
  uint32_t pid, uid;     /* 0 where the peer is on another host: they mean nothing here */
  uint64_t buffer_bytes; /* of the peer's send buffers: its largest extent */
  uint32_t buffers;
  uint32_t drops;        /* with LWMQ_IS_IN_PROCESS: 1 if it set `drop`, and may be shown addresses */
  uint32_t channel;      /* from its options; 0: not said */
  uint32_t reserved;
} lwmq_tli_peer;

/* How a transport stands, beside its state. */
typedef struct lwmq_tli_figures {
  uint32_t free_buffers;   /* how many send buffers acquire would lend now */
  uint32_t reserved;
  uint64_t unread_extents; /* that were shown, and that the peer has neither released nor waited behind: what is lost if
                              it dies now */
  uint64_t unsent;         /* once the peer has closed: what its close said that it gave up */
} lwmq_tli_figures;

/* A send buffer in the hands of the sender. The provider updates `next` and `room` at each show. The sender passes
   `next` and `token` back unchanged; `room` may differ. */
typedef struct lwmq_tli_buffer {
  uint8_t *next;     /* where the next extent goes; 64-byte aligned at first, 8-byte aligned later */
  uint64_t room;     /* the largest next extent; 0: full */
  uint64_t token[2]; /* the provider's */
} lwmq_tli_buffer;

typedef struct lwmq_tli_extent {
  const uint8_t *data; /* the peer may be hostile: copy any value before you check and use it */
  uint64_t bytes;
  uint32_t kind;       /* what the sender said at show: 0 .. LWMQ_TLI_KIND_MAX */
  uint32_t reserved;
  uint64_t token[2];   /* the provider's; the first is the number of its buffer, less than the peer's `buffers` */
} lwmq_tli_extent;

/* One of several extents that landed together. */
typedef struct lwmq_tli_piece {
  const uint8_t *data; /* as of an extent */
  uint32_t bytes;
  uint32_t kind;
} lwmq_tli_piece;

#define LWMQ_TLI_KIND_MAX 127u
#define LWMQ_TLI_KIND_FILTERED 64u /* a bit for filters: what sends through them has kinds below */

/* HOLDING, together with EXTENT: the caller has landed some extents that nobody has received. STATE: what every wait
   ends with, for a caller that wants nothing else. REAP: of a provider that has reap. */
enum {
  LWMQ_TLI_WAIT_EXTENT = 1,
  LWMQ_TLI_WAIT_ROOM = 2,
  LWMQ_TLI_WAIT_HOLDING = 4,
  LWMQ_TLI_WAIT_STATE = 8,
  LWMQ_TLI_WAIT_REAP = 16
};

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

/* What memory is pinned for; both may be. PUSH: pushes are made from it; it may be memory that we can only read. GRANT:
   grants are made of it. */
enum { LWMQ_TLI_PIN_PUSH = 1, LWMQ_TLI_PIN_GRANT = 2 };

/* Leave to write into a piece of our memory. The peer can use it and nobody else; it is opaque to both. */
typedef struct lwmq_tli_grant {
  uint8_t bytes[32];
} lwmq_tli_grant;

#define LWMQ_TLI_PUSH_PIECES_MAX 16u /* of one push */

/* ---- The tables -------------------------------------------------------------------------------- */

typedef struct lwmq_tli_listener_table {
  /* Binds. LWMQ_E_ADDRESS: somebody else serves it. Never waits. */
  lwmq_status (*listen)(const char *address, const lwmq_tli_options *options, lwmq_tli_listener **out_listener);
  /* The next peer that has connected and passed the handshake. LWMQ_E_EMPTY: none now. Any failure: a peer was refused
     and counted, and the text says why; call again for the next one. Never waits. A peer that is slow or wrong in its
     handshake is dropped without holding up others. */
  lwmq_status (*accept)(lwmq_tli_listener *listener, lwmq_tli_transport **out_transport);
  /* For a host that accepts nobody for now; called when the descriptor has become readable or `ring` was called. Lets
     go of peers that have given up, so that what they hold does not pile up. Never waits. NULL: peers that give up leave
     nothing behind. */
  void (*tend)(lwmq_tli_listener *listener);
  /* A descriptor that is readable when accept has something to do, or when an accepted and armed transport has
     something (see arm, and the transport's descriptor). Lent. Level-triggered; accept, tend and an arm for nothing
     drain it. Whoever polls it must call accept or tend when it is readable: that is how accepted transports hear that
     their peer has hung up. -1: see `ring` in the options. */
  int32_t (*descriptor)(lwmq_tli_listener *listener);
  /* Where it can be reached, lent until close: as peers on this host would say it, with the port where it was 0, say.
     NULL: where listen was asked to. */
  const char *(*address)(lwmq_tli_listener *listener);
  /* Takes the listener; its transports live on. The address can be served again at once. Never waits. */
  void (*close)(lwmq_tli_listener *listener);
} lwmq_tli_listener_table;

/* One attempt to connect, by whoever has patience for it: the caller decides when it has taken too long. */
typedef struct lwmq_tli_attempt_table {
  /* LWMQ_E_EMPTY: nobody listens now (try again later). Never waits. */
  lwmq_status (*begin)(const char *address, const lwmq_tli_options *options, lwmq_tli_attempt **out_attempt);
  /* Takes the attempt as far as it goes; first called right behind begin. LWMQ_OK: connected. LWMQ_E_TIMED_OUT: not yet;
     call again when the descriptor is readable. LWMQ_E_EMPTY: nobody listens any more. Every answer but
     LWMQ_E_TIMED_OUT takes the attempt. Never waits. */
  lwmq_status (*advance)(lwmq_tli_attempt *attempt, lwmq_tli_transport **out_transport);
  /* Readable when advance has something to do, of this attempt alone. Level-triggered. Lent until the attempt is taken, and the same from the
     first on that there is. -1: none yet; call advance again, at first after a millisecond. */
  int32_t (*descriptor)(lwmq_tli_attempt *attempt);
  /* Takes the attempt; the listener goes on. Never waits. */
  void (*cancel)(lwmq_tli_attempt *attempt);
} lwmq_tli_attempt_table;

typedef struct lwmq_tli_transport_table {
  /* Who is at the other end; unchanged after that end has gone. Never waits. Any thread. */
  void (*peer)(lwmq_tli_transport *transport, lwmq_tli_peer *out_peer);
  /* LWMQ_TLI_CONNECTED, _CLOSED or _LOST. Never waits. A loss is noticed within the time that `limits` says. Not NULL,
     out_figures is filled in; what the peer has released is collected for it. */
  int32_t (*state)(lwmq_tli_transport *transport, lwmq_tli_figures *out_figures);

  /* Lends a free send buffer. LWMQ_E_FULL: none. Never waits. */
  lwmq_status (*acquire)(lwmq_tli_transport *transport, lwmq_tli_buffer *out_buffer);
  /* Makes the `bytes` bytes at buffer->next visible as one extent of `kind`. LWMQ_E_TOO_BIG: more than its room. Never
     waits. */
  lwmq_status (*show)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer, uint64_t bytes, uint32_t kind);
  /* That is all for now: what was shown goes out. A provider that pays for each time that it sends may keep shown
     extents back until then. Never waits. NULL: show keeps nothing back. */
  void (*flush)(lwmq_tli_transport *transport);
  /* Takes the buffer, also on failure: nothing more will be shown in it, and perhaps nothing was. Flushes. Never
     waits. */
  lwmq_status (*ship)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer);
  /* Takes a buffer in which nothing was shown. A buffer that is neither shipped nor abandoned goes with close, except
     as said there. */
  void (*abandon)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer);

  /* Lends the next extent. LWMQ_E_EMPTY: none now. LWMQ_E_CORRUPT: the peer broke the protocol. Any other failure ends
     the conversation, too. Never waits. */
  lwmq_status (*land)(lwmq_tli_transport *transport, lwmq_tli_extent *out_extent);
  /* Takes a landed extent. Any thread. Never waits. */
  void (*release)(lwmq_tli_transport *transport, lwmq_tli_extent *extent);

  /* Waits until land (LWMQ_TLI_WAIT_EXTENT) or acquire (LWMQ_TLI_WAIT_ROOM) may succeed, reap has something
     (LWMQ_TLI_WAIT_REAP), the state changed, or the time is over. Spins for a while, then sleeps without any wake-up.
     It may occasionally return LWMQ_OK early; the caller comes again at once. With a timeout of 0 it only looks. When
     a wait for extents finds none, the peer's unread_extents may count all that have landed as read, except with
     LWMQ_TLI_WAIT_HOLDING. LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED. */
  lwmq_status (*wait)(lwmq_tli_transport *transport, uint32_t what, uint32_t timeout_ms);
  /* Arms the transport's descriptor: it becomes readable at the next extent (LWMQ_TLI_WAIT_EXTENT), at the next room
     (LWMQ_TLI_WAIT_ROOM; after an acquire has found none), when reap has something (LWMQ_TLI_WAIT_REAP) or, in any
     case, at a change of state. Called by the landing thread, which with room or reap must be the sending thread, too.
     Returns 1: something is there already, look again (land, acquire or reap must find it, or the caller looks
     forever); 0: armed, and what has landed counts as in a wait; -1: not possible now, for want of descriptors; a caller
     that polls looks again after a while. A wait for extents disarms it; a wait for room does not. With what = 0 it
     disarms, and answers 0. */
  int32_t (*arm)(lwmq_tli_transport *transport, uint32_t what);
  /* The transport's descriptor: level-triggered; arm drains it. Lent until close. An accepted transport uses its
     listener's descriptor until this is first called, and its own from then on. -1: none, with a text; a caller that
     polls then asks without a pause. Any thread. */
  int32_t (*descriptor)(lwmq_tli_transport *transport);

  /* Takes the transport, and tells the peer that this is an orderly end. What was shown stays readable for the peer;
     landed extents stay mapped until they are released. `unsent`, which the peer finds among its figures, says how much
     the user had for it and gives up without showing it. `lent` buffers that were acquired, and in which nothing was
     shown, still belong to their user and stay mapped: each comes back by abandon, from any thread, one at a time, and
     not during close. Grants end and regions are unpinned with it, as revoke and unpin do it. Nothing reads the pieces
     of a push any more: one that reap has not returned and that has not gone out by now is given up, with all that was
     shown behind it, and the peer finds a loss. Never waits. */
  void (*close)(lwmq_tli_transport *transport, uint32_t lent, uint64_t unsent);
} lwmq_tli_transport_table;

/* Shortcuts. Each does what calls of the transport table do, for less; NULL: those are used instead. Each is here for
   a figure of tests/bench that is worse without it: over ipc, on an Intel Xeon, median of 4 to 6 runs. */
typedef struct lwmq_tli_fast_table {
  /* Copies up to `count` frames to buffer->next and shows each as an extent of `kind`. Returns how many were shown;
     *out_bytes is their total size. Fewer if there is no room, or if the first would be late. 0: show says why. Never
     waits. [8 B, posted together and read where they landed: 220 M/s, without 113] */
  uint64_t (*show_run)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer, const lwmq_bytes *frames,
                       uint64_t count, uint32_t kind, uint64_t *out_bytes);
  /* Shows the only extent of a buffer in which nothing was shown before, and ships it. Takes the buffer, also on
     failure. Never waits. [hand-over of a finished buffer of 64 KB: 177 ns, without 269] */
  lwmq_status (*ship_only)(lwmq_tli_transport *transport, lwmq_tli_buffer *buffer, uint64_t bytes, uint32_t kind);
  /* Takes `count` extents of one land_run, with its token. Any thread. Never waits. With land_run. */
  void (*release_run)(lwmq_tli_transport *transport, const uint64_t token[2], uint32_t count);
  /* Takes the extent that landed last, or `count` extents of the last land_run, with their token. Called on the landing
     thread, before the next land of any kind, even one that finds nothing; as no other thread can interfere, it costs
     no atomic operation. With land_run, at least. [8 B, one call for each: 30 M/s without land_run, 22 without both] */
  void (*release_last)(lwmq_tli_transport *transport, const uint64_t token[2], uint32_t count);
  /* Lends up to `limit` further extents, each of less than `bytes_below` bytes and less than 4 GiB, if they are there
     and can be released together. Some 4 KiB of them at once are enough, contiguous in memory if possible. *out_token
     is the token of each of them. 0: land says more. Never waits. [8 B, one call for each: 73 M/s, without 30] */
  uint32_t (*land_run)(lwmq_tli_transport *transport, uint64_t bytes_below, uint32_t limit, uint64_t out_token[2],
                       lwmq_tli_piece *out_pieces);
  /* As land_run with a limit of 1, for a caller that waits next: looks for as long as a wait for extents does before it
     sleeps; that wait then sleeps at once. 0: there was none in that time, or land says more. Never sleeps. With
     land_run. [64 B, read where they landed: 213 ns, without 246] */
  uint32_t (*land_soon)(lwmq_tli_transport *transport, uint64_t bytes_below, uint64_t out_token[2],
                        lwmq_tli_piece *out_piece);
  /* As land, for a caller that waits next, looking as long as land_soon does. 0: there was none in that time, or land
     says more. Never sleeps. [finished buffers of 64 KB handed over: 21.1 M/s, without 18.8] */
  uint32_t (*land_awaited)(lwmq_tli_transport *transport, lwmq_tli_extent *out_extent);
} lwmq_tli_fast_table;

/* Memory that a peer can reach. Two groups of calls, of which a provider has one or both; of each all or none. */
typedef struct lwmq_tli_memory_table {
  /* Windows, with LWMQ_CAN_SHARE_WINDOW: the peer maps memory of ours, and reads it. */

  /* Makes a window of our own, zeroed, not yet touched. LWMQ_E_NO_MEMORY, with the numbers of the limit it met. */
  lwmq_status (*create)(uint64_t bytes, lwmq_tli_window **out_window);
  /* Shows a window to the peer: our own, or one that its owner has shown to us. Exporting twice is harmless. Never
     waits. LWMQ_E_FULL: the peer has not yet looked at what it was shown before. */
  lwmq_status (*export_to)(lwmq_tli_transport *transport, lwmq_tli_window *window);
  /* Maps and returns the window with this id, which was shown to us over `transport`; keeps it. Waits for it to
     arrive. */
  lwmq_status (*find)(lwmq_tli_transport *transport, const uint8_t id[16], uint32_t timeout_ms,
                      lwmq_tli_window **out_window);
  void (*info)(const lwmq_tli_window *window, lwmq_tli_window_info *out_info);
  /* 1 while the process that made the window lives. Never waits; a plain load if nothing changed. */
  int32_t (*owner_alive)(const lwmq_tli_window *window);
  void (*keep)(lwmq_tli_window *window);
  /* The last release unmaps. Any thread. */
  void (*release)(lwmq_tli_window *window);

  /* Grants: the peer writes into memory of ours, and nobody here takes part.
   *
   *     the end that grants   pin ─▶ grant ─▶ (tell the peer) ─▶ land what says that a push is there ─▶ revoke ─▶ unpin
   *     the end that pushes   pin ─▶ push ─▶ show what says so ─▶ flush ─▶ reap ─▶ unpin
   *
   * A push comes before what is shown behind it: when an extent lands, the bytes of each push that was made before its
   * show are in place. They may be there earlier than extents that were shown before them. Pushes have no order among
   * themselves, and until such an extent has landed the peer cannot know how much of one is there. */

  /* Makes `bytes` bytes at `base` ready for `uses` (LWMQ_TLI_PIN_*) on this transport. The memory is the caller's, who
     keeps it mapped until unpin or close. Over a socket this costs next to nothing. Where hardware has to be told, it
     may cost milliseconds and count against a limit, so who uses memory again leaves it pinned. LWMQ_E_NO_MEMORY, with
     the numbers of the limit it met. LWMQ_E_UNSUPPORTED: this kind of memory cannot be used so; a copy of it elsewhere
     may be. The status that ended the transport. Any thread. Waits for the kernel, never for the peer. */
  lwmq_status (*pin)(lwmq_tli_transport *transport, void *base, uint64_t bytes, uint32_t uses,
                     lwmq_tli_region **out_region);
  /* Takes a region of which every grant was revoked and every push reaped, before the close of its transport. Any
     thread. Waits for the kernel, never for the peer. */
  void (*unpin)(lwmq_tli_region *region);

  /* Lets the peer write to the `bytes` bytes at `offset` of a region that is pinned for it, until revoke or the end of
     the transport. The caller sends *out_grant to the peer, in a message of its own. LWMQ_E_FULL: there are as many as
     can be. LWMQ_E_TOO_BIG: beyond the region. LWMQ_E_INVALID: it is pinned for pushes alone. LWMQ_E_NO_MEMORY. Any
     thread. Never waits. */
  lwmq_status (*grant)(lwmq_tli_transport *transport, lwmq_tli_region *region, uint64_t offset, uint64_t bytes,
                       lwmq_tli_grant *out_grant);
  /* Takes the leave back. Once it has returned, nothing more of the peer lands there, not even the rest of what has
     landed in part. A peer that pushes on without knowing pushes nowhere; where the hardware takes that for an error it
     costs the transport, so whoever wants to keep that asks the peer to stop first. Revoking again is harmless. Any
     thread. Waits for the hardware or a thread that is storing just now, never for the peer. */
  void (*revoke)(lwmq_tli_transport *transport, const lwmq_tli_grant *grant);

  /* Sends the bytes of the `count` pieces, at most LWMQ_TLI_PUSH_PIECES_MAX, one behind the other, to `offset` of what
     the peer has granted. Each piece lies in a region that is pinned for pushes. The pieces stay as they are until reap
     returns `token`; the array and the grant are the caller's again at once. It goes out with flush or ship at the
     latest. LWMQ_E_FULL: too many are on their way; reap first. LWMQ_E_TOO_BIG: beyond the grant. LWMQ_E_INVALID: no
     grant, too many pieces, or one that is not pinned. LWMQ_E_NO_MEMORY. The status that ended the transport. After a
     failure the token does not come back. The sending thread. Never waits. */
  lwmq_status (*push)(lwmq_tli_transport *transport, const lwmq_tli_grant *grant, uint64_t offset,
                      const lwmq_bytes *pieces, uint32_t count, uint64_t token);
  /* Returns how many tokens, of up to `limit` pushes, it has stored, the oldest first: those pieces are no longer read.
     That says nothing of whether the bytes have arrived. Once state says that the peer has gone, the tokens of all
     pushes come back. The sending thread. Never waits. */
  uint32_t (*reap)(lwmq_tli_transport *transport, uint64_t *out_tokens, uint32_t limit);
} lwmq_tli_memory_table;

typedef struct lwmq_tli_provider {
  uint32_t size;    /* sizeof(lwmq_tli_provider) */
  uint32_t version; /* LWMQ_TLI_VERSION */
  const char *name; /* for listings; not used to match addresses */

  /* Returns 1 if `address` has this provider's scheme, whether well-formed or not. Never waits. */
  int32_t (*claim)(const char *address);
  /* Checks the address and returns what it allows. LWMQ_E_ADDRESS with a text. Never waits. */
  lwmq_status (*limits)(const char *address, lwmq_limits *out_limits);

  /* What its addresses may say behind `?`, beside what all of them may: ends with an entry whose `key` is NULL. The
     library refuses unknown keys and values that are out of bounds, and finds slips. `taken_by` is
     LWMQ_TAKEN_BY_TRANSPORT | LWMQ_TAKEN_BY_CHANNEL | LWMQ_TAKEN_BY_LISTENER. A key that all addresses have keeps its
     meaning. Addresses show in texts and logs: credentials are named by the path of a file. NULL: nothing. */
  const lwmq_setting *settings;

  const lwmq_tli_listener_table *listener;
  const lwmq_tli_attempt_table *attempt;
  const lwmq_tli_transport_table *transport;
  const lwmq_tli_fast_table *fast;     /* NULL: no shortcuts */
  const lwmq_tli_memory_table *memory; /* NULL: peers reach no memory */

  /* Runs on a thread of its own, from the first channel, listener or stream over this provider until the process ends.
     It witnesses deaths, and does whatever else must go on while no thread of the application is in a call. Once it has
     returned, it is not called again. `stop` and service_wake are for hosts that end it earlier: `stop` is set, then
     service_wake is called. NULL: nothing to do. */
  void (*service)(const volatile uint32_t *stop);
  void (*service_wake)(void);
} lwmq_tli_provider;

/* ---- Filters ----------------------------------------------------------------------------------
 *
 * A filter stands between the user of a transport and the provider, and sees every extent on its way. Providers and
 * channels know nothing of it. An address names filters in front of its scheme, nearest to the application first:
 *
 *     trace+loss=0.01,seed=7+ipc://orders
 *
 * Sent extents pass through the filters from left to right when they are shown, landing extents from right to left. A
 * filter is one object file, registered by LWMQ_TLI_REGISTER_FILTER. Each transport has its own instance of the filter
 * for each way; one thread at a time calls an instance. An instance ends when its filter is removed, or when the last
 * message that has landed over the transport is destroyed, on that thread. */

enum { LWMQ_TLI_SENDING = 1, LWMQ_TLI_LANDING = 2 };

/* An extent on its way. */
typedef struct lwmq_tli_passing {
  uint8_t *data;   /* only filters that rewrite may write here: the memory may be a peer's, which may write to it now */
  uint64_t bytes;  /* a filter may make it less; sending: a filter that rewrites may make it more, up to room */
  uint64_t room;   /* sending: how many bytes may stand at data; landing: 0 */
  uint64_t now_ns; /* CLOCK_MONOTONIC */
  uint32_t kind;   /* what the sender said at show; a filter may change it */
  uint32_t way;    /* LWMQ_TLI_SENDING or LWMQ_TLI_LANDING */
} lwmq_tli_passing;

/* What becomes of the extent; all 0: it passes. */
typedef struct lwmq_tli_verdict {
  uint64_t hold_ns;  /* landing: the extent goes on after this time, later ones behind it. sending: it goes on, and then
                        nothing is acquired for this time */
  uint64_t took_ns;  /* a time that the filter has measured, for its histogram; 0: none */
  uint32_t drop;     /* 1: the extent ends here; counted */
  uint32_t behind;   /* landing: this many later extents overtake it, or fewer once hold_ns is over */
  uint32_t changed;  /* 1: the filter has changed bytes, kind or content; counted. Else changes of bytes and kind are
                        ignored */
  uint32_t failed;   /* 1: the filter could not do its work on the extent; counted */
} lwmq_tli_verdict;

typedef struct lwmq_tli_filter {
  uint32_t size;    /* sizeof(lwmq_tli_filter) */
  uint32_t version; /* LWMQ_TLI_VERSION */
  const char *name; /* as in addresses: a-z, 0-9, _ */
  const char *help; /* its settings, in a line */
  uint32_t ways;    /* LWMQ_TLI_SENDING | LWMQ_TLI_LANDING: where it can work */
  uint32_t rewrites; /* the ways on which it writes to what passes; landing extents are copied for it */

  /* Makes an instance for one way. `settings` is the text after the name and its `=` in the address, "" if there is
     none. `way` 0: checks the settings and makes nothing. May leave *out_filter NULL: nothing to do on this way.
     LWMQ_E_INVALID. May wait for a disk. */
  lwmq_status (*create)(const char *settings, uint32_t way, void **out_filter);
  /* Looks at an extent and says what becomes of it; the verdict is all 0 before the call. Never waits for a peer. */
  void (*see)(void *filter, lwmq_tli_passing *passing, lwmq_tli_verdict *out_verdict);
  /* NULL, or provides an extent of the filter's own that lands next. 1: it has filled in data, bytes and kind, lent
     until its next call. 0: none now; `*out_in_ns` says after what time there may be one (UINT64_MAX: never again).
     Landing only; after the peer has gone, at most a million more. */
  int32_t (*source)(void *filter, lwmq_tli_passing *out_passing, uint64_t *out_in_ns);
  void (*destroy)(void *filter);
} lwmq_tli_filter;

/* Registers a filter at link time: an entry of ELF section `lwmq_tli_filter`. */
#define LWMQ_TLI_REGISTER_FILTER(filter)                                                         \
  __attribute__((section("lwmq_tli_filter"), used, retain)) static const lwmq_tli_filter *const  \
      lwmq_tli_entry_##filter = &(filter)

/* ---- Modules ----------------------------------------------------------------------------------
 *
 * A module is a shared object with its own providers and filters, in a folder of $LWMQ_MODULE_PATH. It takes precedence
 * over what is built in. It uses LWMQ_TLI_MODULE(name) once, and is loaded only if it has a signature
 * (lwmq_module_sign) and its tables are complete. What it registers must remain valid: modules are never unloaded. It
 * is not linked with any part of the library, which may be a shared object, or a part of the program or of a JVM's. */

/* What lwmq_tli_fail and lwmq_tli_identity call in a module. Later versions append. */
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

/* Exports the content of this shared object's sections under the one name that the library looks for, and defines what
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
