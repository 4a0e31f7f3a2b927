/* lwmq.h - the C interface of lwmq: messages between processes, and streams of Arrow record batches.
 *
 * Two halves, usable apart:
 *   channels   a conversation with one peer; messages of frames, posted and received whole
 *   streams    named, typed, partitioned logs of record batches, read where the writer laid them
 *
 * Conventions, for every call below unless it says otherwise
 *   Handles are opaque. A handle is used by one thread at a time; different handles by different threads.
 *   What may wait has a `timeout_ms`: 0 never waits, LWMQ_FOREVER has no limit. A signal handled by the
 *   waiting thread ends the wait with LWMQ_E_INTERRUPTED; nothing is lost, call again.
 *   Outputs come last, begin with `out_` and are written on LWMQ_OK alone.
 *   Structures that may grow begin with `size`, set by the caller to sizeof; fields past it take their
 *   default, and a zero in a field means its default too. LWMQ_E_INVALID: a size that was not set.
 *   A handle that is used when it is gone, or that is none, ends the program with a text where it can be seen.
 *   Ownership: `takes` (the callee's from now on, also on failure unless said), `lends` (must come back),
 *   `keeps` (holds a reference of its own).
 *   Strings are UTF-8 and end with NUL. After a failure lwmq_last_error() of the same thread says where,
 *   with which numbers, and what to do. In a forked child every call on a channel, a listener, a selector, a router or a stream
 *   of the parent answers LWMQ_E_CLOSED; messages may be read and destroyed there.
 */
#ifndef LWMQ_LWMQ_H
#define LWMQ_LWMQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* The lines between the two marks are also the declarations that cffi reads. */
/* cdef: begin */

/* ---- Outcome --------------------------------------------------------------------------------- */

typedef enum lwmq_status {
  LWMQ_OK = 0,
  /* Answers: nothing is wrong. lwmq_last_error() is empty, but where the call says that it has a text. */
  LWMQ_E_TIMED_OUT = 1,   /* the time is over; the call may be repeated */
  LWMQ_E_EMPTY = 2,       /* nothing there, and the call was not to wait */
  LWMQ_E_FULL = 3,        /* no room, and the call was not to wait */
  LWMQ_E_END = 4,         /* the stream has ended; every batch of it was handed out */
  LWMQ_E_INTERRUPTED = 5, /* a signal arrived while waiting */
  /* Failures: lwmq_last_error() has the text. */
  LWMQ_E_INVALID = 10,      /* an argument that no caller should pass */
  LWMQ_E_ADDRESS = 11,      /* malformed address, unknown scheme, address in use */
  LWMQ_E_CLOSED = 12,       /* closed by us or by the peer, in order; or forked */
  LWMQ_E_PEER_LOST = 13,    /* the peer died or vanished */
  LWMQ_E_STALLED = 14,      /* the peer lives and does not answer; nothing is lost, the call may be repeated */
  LWMQ_E_TOO_BIG = 15,      /* larger than a buffer or a window can hold */
  LWMQ_E_SCHEMA = 16,       /* the schema of this producer is not the stream's, or nulls lie where that has none */
  LWMQ_E_ABORTED = 17,      /* the producer gave up after some of its batches were visible */
  LWMQ_E_DATA_LOSS = 18,    /* the batches asked for were released, or are of an older generation; or this reader
                               kept a writer waiting and was expelled */
  LWMQ_E_CORRUPT = 19,      /* bytes from the peer that cannot be right */
  LWMQ_E_VERSION = 20,      /* the peer speaks another version of the protocol, or serves another purpose there */
  LWMQ_E_NO_MEMORY = 21,    /* our budget, the cgroup or the machine has no room */
  LWMQ_E_DENIED = 22,       /* the peer is another user; the module is signed by nobody whom we trust */
  LWMQ_E_UNSUPPORTED = 23,  /* this provider or kernel cannot do that */
  LWMQ_E_SYSTEM = 24,       /* the kernel refused; the text has the call and errno */
  LWMQ_E_SUPERSEDED = 25,   /* another attempt of this task has what was asked for, and goes on: give way */
  LWMQ_E_HANDLER = 26       /* who was asked has failed; the text says what, and why */
} lwmq_status;

/* Text of the last failure on this thread; valid until the next call on it. Never NULL. */
const char *lwmq_last_error(void);
/* Where that failure told of the end of a peer: the number of this end among those of its channel, from 1 (see
   lwmq_channel_ends). Else 0. */
uint64_t lwmq_last_end(void);
/* Name of a status, such as "LWMQ_E_TIMED_OUT". Static. */
const char *lwmq_status_name(int32_t status);
/* "major.minor.patch" of the library. Static. */
const char *lwmq_version(void);
/* Version of the wire and shared-memory formats: peers must agree. */
uint32_t lwmq_protocol_version(void);

/* ---- Who and where we are --------------------------------------------------------------------- */

typedef struct lwmq_identity {
  uint64_t size;
  char host[256];     /* host name */
  char boot_id[40];   /* of the kernel that runs */
  uint64_t netns;     /* inode of the network namespace; abstract socket names live per namespace */
  uint8_t instance[16]; /* random, made anew for each process that loads the library */
  uint32_t pid;
  uint32_t uid;
} lwmq_identity;

lwmq_status lwmq_identify(lwmq_identity *out_identity);

/* Names of the registered providers, one per call; NULL after the last. Static. */
const char *lwmq_provider_name(uint32_t index);

/* Names of the registered filters, likewise, and what can be set of each, in a line. */
const char *lwmq_filter_name(uint32_t index);
const char *lwmq_filter_help(uint32_t index);

/* -- Modules: providers and filters from outside (lwmq_tli.h) --
   The folders of $LWMQ_MODULE_PATH, separated by colons, are looked through once, before the first address is used: every
   NAME.so there, in the order of names, is loaded if NAME.so.sig is a signature of its bytes and its name by a key that is
   trusted, which has not expired; else it is refused, with a line on standard error, and everything else goes on. Trusted
   keys are in the file $LWMQ_MODULE_TRUST, else /etc/lwmq/trusted_keys, which only its owner (root or this user) may be
   able to write: lines of `ed25519 KEY NAME`, KEY being 64 hexadecimal digits; # begins a comment. Needs OpenSSL's
   libcrypto; without it every module is refused. */
typedef struct lwmq_module_view {
  uint64_t size;
  uint64_t expires_s;  /* of the signature, since 1970 */
  int32_t status;      /* lwmq_status: LWMQ_OK, or why it is refused */
  uint32_t loaded;
  char path[512];
  char name[64];       /* that it gives itself; once loaded */
  char key[72];        /* of the signature, hexadecimal; also where it is not trusted */
  char signer[64];     /* name of the key in the trust file */
  char text[512];      /* why it is refused */
} lwmq_module_view;

/* The n-th module that was found, loaded or not. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_query_module(uint32_t index, lwmq_module_view *out_view);
/* Checks the module at `path` as if it were to be loaded, without loading it; `trust` NULL: the file named above.
   LWMQ_OK, or the status that the view has, with its text. LWMQ_E_DENIED: no signature, not of these bytes, of a key that
   is not trusted, or expired. LWMQ_E_CORRUPT: the signature or the trust file is malformed. */
lwmq_status lwmq_module_verify(const char *path, const char *trust, lwmq_module_view *out_view);
/* Writes `path`.sig with the secret key in the file `key`; it expires `expires_s` seconds after 1970 began. */
lwmq_status lwmq_module_sign(const char *path, const char *key, uint64_t expires_s);
/* Makes a key, writes its secret to the new file `key`, which only its owner may read, and its public half, as it
   stands in a trust file, to out_public. */
lwmq_status lwmq_module_make_key(const char *key, char out_public[72]);

/* Limits of what an address allows, before it is opened. Never waits. */
typedef struct lwmq_limits {
  uint64_t size;
  uint64_t buffer_bytes_max;
  uint64_t buffers_max; /* both directions together */
  uint64_t inline_bytes_max; /* largest frame that a message holds without an allocation */
  uint32_t frames_max;
  uint32_t capabilities; /* LWMQ_CAN_* */
} lwmq_limits;

enum {
  LWMQ_CAN_SEND = 1,
  LWMQ_CAN_RECEIVE = 2,
  LWMQ_CAN_MULTICAST = 4,
  LWMQ_CAN_SHARE_WINDOW = 8, /* memory reaches the peer without a copy */
  LWMQ_IS_RELIABLE = 16,
  LWMQ_IS_ORDERED = 32,
  LWMQ_CAN_ERASE = 64,      /* lwmq_channel_options.secure_erase */
  LWMQ_IS_IN_PROCESS = 128, /* both ends in one process: a posted message itself is handed over, nothing of it is copied */
  LWMQ_IS_ONE_WAY = 256     /* who serves posts, who connects receives, and nothing comes back. What needs both ways is
                               refused with LWMQ_E_UNSUPPORTED: receiving or a descriptor at the one end, send queues at the
                               other, the automatic role, further transports of a channel. A close cannot know what was read */
};

lwmq_status lwmq_query_limits(const char *address, lwmq_limits *out_limits);

/* ---- Values and settings, as users write them ------------------------------------------------------ */

/* Kinds of values. Blanks around a value are passed over; units and words are taken in any case. */
enum {
  LWMQ_VALUE_BYTES = 0,    /* 512, 64KiB, 4MiB, 1GiB (powers of 1024; 64k, 4m, 1g are the same), 64KB, 4MB, 1GB (powers
                              of 1000); 1.5MiB, where whole bytes come of it; at most 2^63 - 1 */
  LWMQ_VALUE_DURATION = 1, /* 100us, 100ms, 5s, 2m (2min), 1h, or a number of seconds: in nanoseconds; UINT64_MAX:
                              `forever`, or more than 64 bits hold */
  LWMQ_VALUE_COUNT = 2,    /* a whole number, at most 2^63 - 1 */
  LWMQ_VALUE_FLAG = 3,     /* 1: true, yes, 1; 0: false, no, 0 */
  LWMQ_VALUE_WORD = 4,     /* the place, from 0, among words that are allowed */
  LWMQ_VALUE_NAME = 5      /* any text of 1 to 255 bytes: their number */
};

/* Reads `text` as a value of `kind`. `words`: of LWMQ_VALUE_WORD those that are allowed, as in "auto, server, client"; else
   NULL. Never waits. LWMQ_E_INVALID: the text says what is wrong with the value, what is allowed, and which word may be
   meant; where the value stands is for the caller to say. */
lwmq_status lwmq_read_value(uint32_t kind, const char *words, const char *text, uint64_t *out_value);
/* The one of `words` (as above) that `text`, which is none of them, may be a slip of: its place; -1: nothing is near. */
int32_t lwmq_nearest_word(const char *text, const char *words);

/* What takes a setting from an address. */
enum {
  LWMQ_TAKEN_BY_TRANSPORT = 1, /* lwmq_channel_create, and each further transport of a channel */
  LWMQ_TAKEN_BY_CHANNEL = 2,   /* in Python: a channel as a whole */
  LWMQ_TAKEN_BY_LISTENER = 4,  /* likewise */
  LWMQ_TAKEN_BY_STREAM = 8     /* in Python and Spark: writers, readers and endpoints */
};

typedef struct lwmq_setting {
  uint64_t size;
  const char *key;   /* such as "buffer_bytes". Static */
  const char *words; /* of LWMQ_VALUE_WORD, in the order of their numbers in the structures below; else NULL. Static */
  uint64_t least, most;
  uint32_t kind;     /* LWMQ_VALUE_* */
  uint32_t taken_by; /* LWMQ_TAKEN_BY_*, of all that take it */
} lwmq_setting;

/* The n-th setting that there is. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_query_setting(uint32_t index, lwmq_setting *out_setting);
/* Reads `text` as a value of the setting `key`. LWMQ_E_INVALID: as lwmq_read_value, and for a number out of bounds. */
lwmq_status lwmq_read_setting(const char *key, const char *text, uint64_t *out_value);

typedef struct lwmq_address_option {
  uint64_t size;
  const char *key;     /* static */
  const char *text;    /* of the value, in the caller's address */
  uint64_t text_bytes;
  uint64_t value;
} lwmq_address_option;

/* The n-th option of an address such as `scheme://name?buffer_bytes=4MiB&retry=1s`, for what `taken_by` says.
   LWMQ_E_EMPTY behind the last. LWMQ_E_ADDRESS: no address, several in one text, or an option that is unknown, given twice,
   taken by something else, or has a wrong value; the text names the option, what is allowed, and what may be meant. */
lwmq_status lwmq_read_address_option(const char *address, uint32_t taken_by, uint32_t index,
                                     lwmq_address_option *out_option);

/* Counters of this process since it loaded the library. */
typedef struct lwmq_statistics {
  uint64_t size;
  uint64_t window_bytes;         /* memory now held in windows of our own */
  uint64_t mapped_bytes;         /* windows of peers now mapped here */
  uint64_t batches_written, batches_read;
  uint64_t bytes_written, bytes_read;
  uint64_t bytes_copied;         /* payload bytes that the library copied on the read side */
  uint64_t batches_copied;       /* because a reader held its part of a writer's window */
  uint64_t peers_lost;
} lwmq_statistics;

lwmq_status lwmq_query_statistics(lwmq_statistics *out_statistics);

/* The largest amount of window memory this process may hold; 0 restores the default (half of what the
   machine and our cgroups have free when first asked). */
lwmq_status lwmq_set_window_memory(uint64_t bytes_max);

/* Ties the threads of the library to these processors: those that run and those to come. One processor is the ideal
   one of them all. `count` 0 lets them run wherever the main thread may. They are few and started once: lwmq-channels and
   lwmq-connect with the first channel, lwmq-calls with the first call-back, one for each provider that needs it; and
   lwmq-endpoint, one for each endpoint. LWMQ_E_INVALID: one of the processors is not there, or not allowed for this
   process; nothing has changed then. */
lwmq_status lwmq_set_service_affinity(const uint32_t *processors, uint32_t count);

/* ---- What the processes of this machine do ------------------------------------------------------- */

/* Each process keeps figures of its writers, readers, endpoints and channels on a page that others can map. An
   observer finds the pages of all processes whose descriptors we may open (our own user's; root: everybody's), and
   copies what is there. The processes that are looked at do nothing for it and do not notice, also when they hang. */
typedef struct lwmq_observer lwmq_observer;

typedef struct lwmq_process_view {
  uint64_t size;
  uint32_t pid, uid;      /* as we see them */
  uint32_t page_version;  /* of its page */
  uint32_t known;         /* 0: its page has another version than ours, and nothing below is known */
  uint64_t entry_count;
  uint64_t unlisted;      /* writers, readers, endpoints and channels that found no place on its page */
  uint64_t window_bytes, mapped_bytes; /* from here to peers_lost: as in lwmq_statistics */
  uint64_t batches_written, batches_read;
  uint64_t bytes_written, bytes_read;
  uint64_t bytes_copied, batches_copied;
  uint64_t peers_lost;
  char library[16];
} lwmq_process_view;

enum { LWMQ_ENTRY_WRITER = 1, LWMQ_ENTRY_READER = 2, LWMQ_ENTRY_ENDPOINT = 3, LWMQ_ENTRY_CHANNEL = 4,
       LWMQ_ENTRY_QUEUE = 5, LWMQ_ENTRY_LATENCY = 6, LWMQ_ENTRY_LISTENER = 7 };
enum {
  LWMQ_ENTRY_CONNECTED = 1,
  LWMQ_ENTRY_SERVER = 2,
  LWMQ_ENTRY_CLOSED = 4, /* a reader whose batches are still held; a writer that waits to be read to its end; times of a
                            filter that was removed */
  LWMQ_ENTRY_STALLED = 8 /* a reader, a writer: the endpoint that it waits for lives and does not answer */
};

/* One writer, reader, endpoint, channel, listener or send queue of a channel; or the times that a filter has measured since
   it was added (`latency`, where it has measured any). What its kind does not have is 0. */
typedef struct lwmq_entry_view {
  uint64_t size;
  uint32_t kind;             /* LWMQ_ENTRY_WRITER ... */
  uint32_t flags;            /* LWMQ_ENTRY_CONNECTED ... */
  uint64_t opened_ns;        /* CLOCK_REALTIME */
  char address[160];         /* cut where longer */
  char name[64];             /* of a reader, a job; of a channel of a listener: the number of its client; of a queue: its
                                number on the channel; latency: the filter with its settings */
  uint64_t waiting_ns;       /* for so long it has been waiting: a writer for room, a reader for a batch */
  uint64_t unmoved_ns;       /* since a writer wrote, or a reader was lent, its last batch; 0: none yet */
  uint64_t partitions;
  uint64_t batches, rows, bytes; /* written or read; endpoint: arrived */
  uint64_t window_bytes, window_used_bytes; /* writer */
  uint64_t unread_batches;   /* writer: in blocks that are not free yet; endpoint: that no reader has moved past */
  uint64_t kept_batches, kept_bytes;     /* endpoint: in its log */
  uint64_t leased_batches, leased_bytes; /* reader: held by its application */
  uint64_t readers, writers; /* endpoint: attached now */
  uint64_t peer_pid;         /* writer that waits: who holds the room; reader: who wrote; channel: the peer */
  uint64_t messages_sent, messages_received;
  uint64_t bytes_sent, bytes_received;
  uint64_t messages_queued, messages_lost;
  uint64_t readers_stalled;  /* endpoint: that have taken nothing for long while a writer waits for them */
  uint64_t readers_expelled; /* endpoint: so far */
  uint64_t stalled_pid;      /* endpoint: process of one of the stalled */
  uint64_t messages_posted;  /* channel, queue */
  uint64_t messages_discarded; /* queue: dropped before they were shipped; channel: by the rule of its receive queue */
  uint64_t priority;         /* queue */
  uint64_t took_ns;          /* latency: all its times together */
  uint64_t took[32];         /* latency: how many times took 64 ns << i at most, and longer than those before; the last: how
                                many took longer still */
  uint64_t messages_replaced;  /* queue: by a later one of the same tag, before they were shipped */
  uint64_t receive_queued;     /* channel: in its receive queue, where that is not mono */
  uint64_t duplicates_dropped; /* channel: received before over another of redundant transports */
  uint64_t clients_accepted, clients_waiting; /* listener; waiting: connected and not accepted, now */
  uint64_t clients_refused;    /* listener, channel that serves */
} lwmq_entry_view;

lwmq_status lwmq_observer_create(lwmq_observer **out_observer);
/* Looks: finds who has come, forgets who has gone, copies everybody's figures. Waits for nobody. */
lwmq_status lwmq_observer_look(lwmq_observer *observer, uint64_t *out_process_count);
/* What the last look has found; the processes in the order of their pids. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_observer_process(const lwmq_observer *observer, uint64_t process, lwmq_process_view *out_view);
lwmq_status lwmq_observer_entry(const lwmq_observer *observer, uint64_t process, uint64_t entry,
                                lwmq_entry_view *out_view);
/* Takes the observer. NULL is allowed. */
void lwmq_observer_destroy(lwmq_observer *observer);

/* ---- Common constants -------------------------------------------------------------------------- */

enum { LWMQ_NO_WAIT = 0 };
#define LWMQ_FOREVER 4294967295

typedef enum lwmq_role {
  LWMQ_ROLE_AUTO = 0,   /* connects if somebody listens, binds otherwise */
  LWMQ_ROLE_SERVER = 1, /* binds; LWMQ_E_ADDRESS if somebody else has */
  LWMQ_ROLE_CLIENT = 2  /* connects, and goes on trying in the background */
} lwmq_role;

/* ---- Messages ---------------------------------------------------------------------------------- */

typedef struct lwmq_message lwmq_message;

/* What the library tells the owner of an external frame: LWMQ_FRAME_ACQUIRE once when the frame is appended,
   LWMQ_FRAME_RELEASE once when the last message that shows it is gone. On any thread, under no lock of ours; a release that
   another one causes comes behind it. It may call the library, but destroy no channel; it should not wait: the thread may
   be the one that ships or clears away for whoever it would wait for. */
enum { LWMQ_FRAME_ACQUIRE = 0, LWMQ_FRAME_RELEASE = 1 };
typedef void (*lwmq_frame_callback)(void *context, int32_t event);

/* Each call below does all that it says or changes nothing; none waits. LWMQ_E_NO_MEMORY from those that may need some. */

/* Makes an empty message. `frames_hint` reserves room. lwmq_message_destroy gives it back. */
lwmq_status lwmq_message_create(uint32_t frames_hint, lwmq_message **out_message);
/* Appends a copy of `bytes` bytes at `data`; frames up to lwmq_limits.inline_bytes_max, together, lie in the message
   itself. LWMQ_E_TOO_BIG, here and below: it has lwmq_limits.frames_max frames already. */
lwmq_status lwmq_message_append(lwmq_message *message, const void *data, uint64_t bytes);
/* Appends memory that outlives everything. No copy. */
lwmq_status lwmq_message_append_static(lwmq_message *message, const void *data, uint64_t bytes);
/* Appends memory of the caller's without a copy. On failure neither call-back is made. */
lwmq_status lwmq_message_append_external(lwmq_message *message, const void *data, uint64_t bytes,
                                         lwmq_frame_callback callback, void *context);
/* A second handle on the same frames, with a lifetime of its own. What is appended to one shows there alone. */
lwmq_status lwmq_message_reference(lwmq_message *message, lwmq_message **out_message);
uint32_t lwmq_message_frame_count(const lwmq_message *message);
/* Lends frame `index`; valid until the message is destroyed. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_message_frame(const lwmq_message *message, uint32_t index, const void **out_data,
                               uint64_t *out_bytes);

/* When a frame was made, if somebody wants it known. Timestamps are ticks of 100 ns since 1601-01-01 00:00 UTC and travel
   with their frame; which clock gave them does not. */
typedef enum lwmq_timestamp_source {
  LWMQ_TIMESTAMP_NONE = 0,    /* takes it away */
  LWMQ_TIMESTAMP_SYSTEM = 1,  /* now, as of the kernel's last tick: some milliseconds old, and cheap */
  LWMQ_TIMESTAMP_PRECISE = 2, /* now, to 100 ns */
  LWMQ_TIMESTAMP_EXPLICIT = 3 /* `ticks`, which are not 0 */
} lwmq_timestamp_source;
#define LWMQ_TICKS_1970 116444736000000000

/* Gives frame `index` a timestamp; `ticks` counts with EXPLICIT alone. LWMQ_E_INVALID: no such frame, no such source. */
lwmq_status lwmq_message_set_timestamp(lwmq_message *message, uint32_t index, int32_t source, uint64_t ticks);
/* The ticks of frame `index`; 0: it has none. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_message_timestamp(const lwmq_message *message, uint32_t index, uint64_t *out_ticks);
/* Takes the message. NULL is allowed. */
void lwmq_message_destroy(lwmq_message *message);

/* ---- Channels ---------------------------------------------------------------------------------- */

typedef struct lwmq_channel lwmq_channel;
typedef struct lwmq_send_queue lwmq_send_queue;

typedef struct lwmq_channel_options {
  uint64_t size;
  uint64_t buffer_bytes;    /* of each transport buffer; the largest message; default 64 KiB */
  uint32_t buffers_send;    /* default 32; their memory is used as it is needed: 8 MiB, or three of them, where much
                               flows, and more where the peer does not keep up */
  uint32_t buffers_receive; /* of the peer's, at most; 0: as many as it makes */
  uint32_t retry_ms;        /* between attempts to connect; default 100 */
  uint32_t raw;             /* 1: direct buffer access instead of messages */
  uint32_t secure_erase;    /* 1: our memory is zeroed when its content is no longer needed; see below */
  uint32_t home_thread;     /* 1: made for the thread that creates it, which posts and receives without an atomic operation;
                               other threads may, too, and pay for both */
  uint32_t receive_queue;   /* LWMQ_QUEUE_MONO_UNBOUNDED (default), _MULTI_UNBOUNDED, _BOUNDED_DISCARD_OLDEST or _NEWEST */
  uint32_t reserved;
  uint64_t receive_capacity; /* messages; at least 1 for a bounded receive queue, 0 for every other */
} lwmq_channel_options;

/* secure_erase, for what lies in memory of our own: a transport buffer is zeroed once the peer has released it, before it
   is used again or given up (soon, too, where we are idle: the service thread looks, more and more seldom, at least every
   0.4 s); so are the blocks and the copied frames of messages that were posted to or received from the channel, when the
   last handle on them is gone. Not ours to erase: external and static frames, the peer's buffers (the option is for each
   side), and buffers that the peer still holds when we close: the kernel clears them when the last mapping is gone.
   LWMQ_E_UNSUPPORTED from create: the provider cannot. */

/* Receive queues.
   mono      one thread receives at a time. Messages stay in the transport's buffers until they are received: a peer's
             sends wait for that when its buffers are full
   multi, bounded   any number of threads receive, each message goes to one of them. While nobody receives, the
             service thread lands what comes: sends of the peer complete, and count as read by it. What a close finds
             there is lost, and counts as lost at the peer
   bounded   a receive first lands what has come; what finds the queue full discards the oldest message in it, or is
             discarded itself (newest). lwmq_channel_query counts it. Where more than a thousand messages have come at
             once, receives look again after some milliseconds */

/* Makes a channel on one transport at `address`, behind which options may stand:
   `ipc://orders?buffer_bytes=4MiB&buffers=16&retry=250ms` (also buffers_send, buffers_receive); what `options` say
   comes first. Nothing happens before lwmq_channel_open. LWMQ_E_ADDRESS: malformed, of a scheme that nobody has, or with
   an option that is none. LWMQ_E_INVALID, with the numbers. LWMQ_E_UNSUPPORTED: the transport cannot erase.
   LWMQ_E_NO_MEMORY. */
lwmq_status lwmq_channel_create(const char *address, const lwmq_channel_options *options,
                                lwmq_channel **out_channel);

typedef struct lwmq_transport_options {
  uint64_t size;
  uint64_t buffer_bytes;    /* 0, or what the channel has: one size for all its transports */
  uint32_t buffers_send, buffers_receive, retry_ms; /* as in lwmq_channel_options */
  uint32_t redundant;       /* 1: a further way to the peer of the others, for when one fails. All of a channel, or none */
} lwmq_transport_options;

/* Adds a further transport at `address`, before open and before the first post; of any scheme, the same one as often
   as wanted, up to 64. What the channel was created with (secure_erase, home_thread, the receive queue) holds for it, too: so
   does LWMQ_E_UNSUPPORTED. Each message that is posted goes to the peer of each transport, encoded for each, and
   waits there for a peer that is not connected yet; one that is slow or lost holds up no other. What comes over any
   of them is received from the one channel, in turns; in order per transport; the end of a peer is reported and the
   others go on. wait_connected waits for a peer on each; flush and close are for all of them; lwmq_channel_query
   sums over them, `connected` is 1 when all are. Two transports that lead to the same channel of the same process
   are refused: receive and wait_connected answer LWMQ_E_INVALID, once, on both sides. LWMQ_E_INVALID: what the
   transports of a channel share is not what this one says.
   Redundant transports (said on both sides) are several ways to one peer, of which any may fail: each message goes
   every way, with a number (24 bytes, 48 where it has one frame), and what has come before is dropped, and counted; in
   order per send queue; LWMQ_E_UNSUPPORTED beside a receive queue that is not mono. As long as one way to a peer is left the end of another is no news and loses nothing.
   wait_connected waits for one way, `connected` is 1 when there is one; flush and close wait until one way has brought
   everything. A way that is down for long fills its queues: bounded kinds say how much of it is kept */
lwmq_status lwmq_channel_add_transport(lwmq_channel *channel, const char *address,
                                       const lwmq_transport_options *options);

/* Kinds of send queues. Any number and mix of them per channel and priority.
   mono       one thread posts at a time, without a lock, and without an atomic read-modify-write on the queue
   all others any number of threads post, each in its own order
   bounded    holds at most `capacity` messages that are not yet on their way. A post into a full one discards the
              oldest of them, or itself (discard newest), and answers LWMQ_OK: lwmq_send_queue_query counts it
   tagged     conflates: a post with a tag first removes the message of the same tag that is not yet on its way, and
              goes to the end. Tags stay here: they do not travel. Tag 0 is no tag */
enum {
  LWMQ_QUEUE_MONO_UNBOUNDED = 0,
  LWMQ_QUEUE_MULTI_UNBOUNDED = 1,
  LWMQ_QUEUE_MULTI_UNBOUNDED_TAGGED = 2,
  LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST = 3,
  LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST = 4,
  LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST_TAGGED = 5,
  LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST_TAGGED = 6
};

typedef struct lwmq_send_queue_options {
  uint64_t size;
  uint32_t kind;     /* LWMQ_QUEUE_* */
  uint32_t priority; /* LWMQ_PRIORITY_*; default NORMAL */
  uint64_t capacity; /* messages; at least 1 for a bounded kind, 0 for every other */
} lwmq_send_queue_options;

/* Time critical is strict: while such queues have messages, no other is served. Idle is served when every other
   queue is empty. The five between share by weights. Queues of one priority take turns, message by message. */
enum {
  LWMQ_PRIORITY_TIME_CRITICAL = 1,
  LWMQ_PRIORITY_HIGHEST = 2,
  LWMQ_PRIORITY_ABOVE_NORMAL = 3,
  LWMQ_PRIORITY_NORMAL = 4,
  LWMQ_PRIORITY_BELOW_NORMAL = 5,
  LWMQ_PRIORITY_LOWEST = 6,
  LWMQ_PRIORITY_IDLE = 7
};

/* Adds a queue, before or after open; any thread. It lives as long as the channel. LWMQ_E_INVALID has the numbers: no such kind
   or priority, a bounded kind without capacity, another kind with one. */
lwmq_status lwmq_channel_add_send_queue(lwmq_channel *channel, const lwmq_send_queue_options *options,
                                        lwmq_send_queue **out_queue);
/* Sets how many messages each of the priorities HIGHEST to LOWEST may send in a round before the next has its turn.
   `count` is 5; 0 to 65,535 each; default 16, 8, 4, 2, 1. A priority of weight 0 is served when those with a weight
   are empty. Any thread; waits for whoever ships just now. */
lwmq_status lwmq_channel_set_weights(lwmq_channel *channel, const uint32_t *weights, uint32_t count);
/* Moves the queue with all its messages to another priority. Any thread; waits for whoever ships just now. */
lwmq_status lwmq_send_queue_set_priority(lwmq_send_queue *queue, uint32_t priority);
/* Binds or begins to connect; does not wait for a peer to come. In the automatic role it finds out whether somebody
   listens: 0.2 s for each transport where who does is stopped. Where there are several transports and one fails, all are
   closed. LWMQ_E_ADDRESS: somebody else has bound it. LWMQ_E_INVALID: open already, or no such role. LWMQ_E_UNSUPPORTED:
   this end of a one-way transport. LWMQ_E_SYSTEM. */
lwmq_status lwmq_channel_open(lwmq_channel *channel, int32_t role);
/* Waits until a peer is there. LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED, LWMQ_E_CLOSED; also what a receive answers of a
   failure to connect. */
lwmq_status lwmq_channel_wait_connected(lwmq_channel *channel, uint32_t timeout_ms);
/* Posts `*message`, also before the channel is open. Never waits. Into a mono queue one thread posts at a time, into
   every other kind any number; messages of one thread keep their order.
   LWMQ_OK: takes the message and sets *message to NULL. Otherwise it is still the caller's: LWMQ_E_TOO_BIG,
   LWMQ_E_CLOSED, LWMQ_E_NO_MEMORY, LWMQ_E_INVALID (two threads at once on a mono queue, which mostly is seen). */
lwmq_status lwmq_send_queue_post(lwmq_send_queue *queue, lwmq_message **message);
/* Posts one frame of `bytes` bytes, copied; the short way for small messages. */
lwmq_status lwmq_send_queue_post_bytes(lwmq_send_queue *queue, const void *data, uint64_t bytes);
/* As lwmq_send_queue_post, with a tag. LWMQ_E_INVALID: a tag other than 0, and the queue is of no tagged kind. */
lwmq_status lwmq_send_queue_post_tagged(lwmq_send_queue *queue, uint64_t tag, lwmq_message **message);
/* As lwmq_send_queue_post_tagged, but waits at most timeout_ms until a bounded queue has room. Then, with `or_discard`
   1, its rule applies. With 0 nothing is discarded: LWMQ_E_TIMED_OUT, or LWMQ_E_FULL where it was not to wait.
   LWMQ_E_INVALID: a timeout other than 0, and the queue is unbounded. LWMQ_E_UNSUPPORTED: of a channel with several
   transports, but to discard without a wait. LWMQ_E_INTERRUPTED, LWMQ_E_CLOSED (from another
   thread) end the wait. The message is still the caller's after all of these. */
lwmq_status lwmq_send_queue_post_wait(lwmq_send_queue *queue, uint64_t tag, uint32_t timeout_ms,
                                      uint32_t or_discard, lwmq_message **message);
/* Waits until a bounded queue has room, without a message: for who may not post on the thread that waits. Another thread may
   post first. LWMQ_E_FULL: it has none, and it was not to wait; LWMQ_E_TIMED_OUT and the rest as of lwmq_send_queue_post_wait. */
lwmq_status lwmq_send_queue_wait_room(lwmq_send_queue *queue, uint32_t timeout_ms);

typedef struct lwmq_bytes {
  const void *data;
  uint64_t bytes;
} lwmq_bytes;

/* Posts `count` messages of one frame each, copied, in their order, for less than one call each. Never waits.
   *out_posted is written on every outcome: how many were posted, from the first on. LWMQ_E_TOO_BIG: none.
   LWMQ_E_CLOSED, from another thread: what was posted and had not left is gone. */
lwmq_status lwmq_send_queue_post_many(lwmq_send_queue *queue, const lwmq_bytes *frames, uint64_t count,
                                      uint64_t *out_posted);
/* Likewise, for messages, none of them twice. Those posted were taken and are NULL in the array. */
lwmq_status lwmq_send_queue_post_messages(lwmq_send_queue *queue, lwmq_message **messages, uint64_t count,
                                          uint64_t *out_posted);

/* Counters since the queue was made; `posted` is the sum of the four below it while nobody posts or ships. Of a channel
   with several transports the four are sums over them, `posted` is not. */
typedef struct lwmq_send_queue_statistics {
  uint64_t size;
  uint32_t kind;
  uint32_t priority;
  uint64_t capacity;
  uint64_t posted;    /* posts that were answered with LWMQ_OK */
  uint64_t collected; /* on their way to a peer, or arrived */
  uint64_t discarded; /* by the rule of a bounded queue, or by a close */
  uint64_t replaced;  /* by a later post with the same tag */
  uint64_t queued;    /* now */
} lwmq_send_queue_statistics;

/* Any thread; after a close the last figures, until destroy. */
lwmq_status lwmq_send_queue_query(const lwmq_send_queue *queue, lwmq_send_queue_statistics *out_statistics);
/* Receives the next message; lwmq_message_destroy gives it back, when the application likes: one of 4 KiB and more lies where
   it landed, and keeps a buffer of the peer's, while no more than half of those are kept so; others are copies.
   After the loss of the peer, what was committed comes first, then once LWMQ_E_PEER_LOST, or LWMQ_E_CLOSED for a peer that
   closed in order; a new peer may follow. A peer that closed before it had shipped all that was posted counts as lost: the
   text says how much never came. A failure to connect that somebody has to mend (LWMQ_E_VERSION, LWMQ_E_DENIED,
   LWMQ_E_INVALID, LWMQ_E_SYSTEM and the like) is answered again and again until an attempt succeeds; LWMQ_E_CORRUPT: the
   peer broke the protocol, and was dropped. LWMQ_E_NO_MEMORY: for a message that has come; it waits, and the next receive
   asks again. */
lwmq_status lwmq_channel_receive(lwmq_channel *channel, uint32_t timeout_ms, lwmq_message **out_message);
/* As lwmq_channel_receive, and takes what has come meanwhile, at most `limit` messages: waits for the first alone.
   `out_messages` has room for `limit` pointers; *out_count is at least 1. What ends the peer's conversation comes in
   a call of its own, behind every message. */
lwmq_status lwmq_channel_receive_many(lwmq_channel *channel, uint32_t limit, uint32_t timeout_ms,
                                      lwmq_message **out_messages, uint32_t *out_count);

/* A message that is lent: its first frame (NULL and 0 where it has none), and its handle where it has one. Where
   `message` is NULL the bytes are the whole message and lie where the peer has written them: copy what you follow before
   you check it. A handle is the loan's; lwmq_message_reference keeps what it shows beyond the loan. */
typedef struct lwmq_lent {
  const void *data;
  uint64_t bytes;
  lwmq_message *message;
} lwmq_lent;
/* What an application looks at and then receives the next. Small messages of one frame cost neither a copy nor a
   handle, and count as read when they are given back, or a receive waits for more. Used by one thread at a time; for any
   number of channels, one after the other. Any of them keeps a whole buffer from the peer: who holds all of its buffers, and
   waits for more of it otherwise than by this loan, waits for ever. */
typedef struct lwmq_loan lwmq_loan;
/* For up to `limit` messages at a time, at least 1. */
lwmq_status lwmq_loan_create(uint32_t limit, lwmq_loan **out_loan);
/* Gives back what `loan` has, whatever comes then, and receives as lwmq_channel_receive_many does, but for that: what was
   received is the loan's, until the next call with it. *out_lent shows *out_count messages, at least 1, or nothing on
   failure; there may be more than it takes at a time. They stay readable when the peer is lost and the channel closed. */
lwmq_status lwmq_channel_receive_loan(lwmq_channel *channel, uint32_t timeout_ms, lwmq_loan *loan,
                                      const lwmq_lent **out_lent, uint32_t *out_count);
/* What is lent. Never waits. RELEASE call-backs may run in here, in the next receive, and in destroy. */
void lwmq_loan_give_back(lwmq_loan *loan);
/* Takes the loan, and gives back what it has. */
void lwmq_loan_destroy(lwmq_loan *loan);

/* A descriptor for poll, epoll and the like: readable unless nothing has come since a receive answered that there is
   nothing. So: poll for reading, then receive with a timeout of 0 until LWMQ_E_EMPTY, and poll again; what is not
   received stays readable. Each message, each report and the close of the channel make it so; now and then it is so
   for nothing. Nobody wakes while nothing comes. Not to be read from; lent until destroy. Any thread; may wait for one
   that receives. */
lwmq_status lwmq_channel_descriptor(lwmq_channel *channel, int32_t *out_descriptor);
/* Called with each message that has come, in order, which it owns; or with NULL and what receive would have answered
   (the loss of the peer, the end of its conversation), whose text lwmq_last_error has. After the channel's own close
   it is called once more, with LWMQ_E_CLOSED; of a channel that a listener gave, the end of its client is the last. */
typedef void (*lwmq_on_message)(void *context, lwmq_status status, lwmq_message *message);
/* From now on `callback` receives, on a thread of the library that all channels share: while it runs, others wait. It
   may post, to any channel, and end its own calls; it must not destroy its channel. NULL ends them: when this returns
   none runs any more, but the one that asks. Ends what the channel was told before. LWMQ_E_INVALID: a raw channel,
   or one that is not open. */
lwmq_status lwmq_channel_on_message(lwmq_channel *channel, lwmq_on_message callback, void *context);
/* From now on `signal` (SIGRTMIN to SIGRTMAX) is queued to this process with `value` when there is something to receive,
   and again when something comes after a receive with a timeout of 0 answered LWMQ_E_EMPTY; now and then for nothing.
   0 ends that; a signal that is queued comes all the same. Ends what the channel was told before. */
lwmq_status lwmq_channel_signal_on_message(lwmq_channel *channel, int32_t signal, void *value);
/* Waits until the queues are empty and everything was shipped: the peer has it, and need not have read it. What others post
   meanwhile is waited for, too. LWMQ_E_TIMED_OUT: some of it waits still, for a peer or for room; also with a timeout of
   0. LWMQ_E_CLOSED: another thread has closed the channel, and may have dropped it. The loss of a peer is a receive's to
   say: what waits then is for the next one. */
lwmq_status lwmq_channel_flush(lwmq_channel *channel, uint32_t timeout_ms);

typedef struct lwmq_channel_statistics {
  uint64_t size;
  uint32_t connected; /* 0 or 1 */
  uint32_t is_server;
  uint64_t messages_posted, messages_shipped, messages_received;
  uint64_t messages_lost;      /* shipped and not seen read when the peer was lost */
  uint64_t buffers_shipped;
  uint64_t shipped_full, shipped_idle; /* why a buffer was closed: no room, or queues empty */
  uint64_t bytes_shipped, bytes_received;
  uint64_t peers_lost;
  uint32_t buffers_free; /* send buffers that can be had at once */
  uint64_t messages_passed; /* of those shipped: handed as they are to a peer in this process */
  uint64_t receive_queued;    /* in the receive queue now; 0 where it is mono */
  uint64_t receive_discarded; /* by the rule of a bounded receive queue; counted as received, too */
  uint64_t duplicates_dropped; /* received before over another of redundant transports; not counted as received */
  uint64_t clients_refused;    /* server: of another version, purpose or user, or with numbers that do not fit ours */
  uint64_t messages_unread; /* shipped to those who are there now, and not seen read yet */
} lwmq_channel_statistics;

/* Any thread; after a close the last figures, until destroy. */
lwmq_status lwmq_channel_query(const lwmq_channel *channel, lwmq_channel_statistics *out_statistics);

typedef struct lwmq_peer {
  uint64_t size;
  uint32_t connected;   /* 0: it has gone, as far as somebody has noticed */
  uint32_t pid, uid;
  uint32_t number;      /* of those that have come over this transport: 1 was the first; 0, nobody has come */
  uint8_t instance[16]; /* of its process: as in lwmq_identity */
} lwmq_peer;

/* Who is, or was last, at the other end of transport `transport` of the channel: 0 is the first. Any thread. LWMQ_E_EMPTY:
   nobody has come yet. LWMQ_E_INVALID past the last. LWMQ_E_CLOSED after a close. */
lwmq_status lwmq_channel_peer(lwmq_channel *channel, uint32_t transport, lwmq_peer *out_peer);
/* How many peers have ended by now, over all transports of the channel, whether a receive has told of them or not: what is asked
   when there are so many is not lost with an end of that number or a smaller one. Any thread. Never waits. */
lwmq_status lwmq_channel_ends(const lwmq_channel *channel, uint64_t *out_ends);
/* Waits until a peer comes or goes: until lwmq_channel_peer would answer another `number` or `connected` than *peer has, and
   answers as it. *peer is what was known, or only its size: then whoever is there. So a loop around it hears of every coming
   and going, but of those between two calls the last. Any number of threads. LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED;
   LWMQ_E_CLOSED: nobody comes any more. What keeps a peer away is a receive's to say. */
lwmq_status lwmq_channel_wait_peer(lwmq_channel *channel, uint32_t transport, uint32_t timeout_ms, lwmq_peer *peer);

/* -- Many clients at one address --
   A channel that serves has one client at a time; the next is heard when that has gone. A listener takes each client as it
   comes, and gives each a channel of its own. By a selector one thread serves all of them, and the listener. Each transport
   of a client is a client of its own here: what redundant ones bring comes over each. */
typedef struct lwmq_listener lwmq_listener;

/* Binds `address`, behind which options may stand as of a channel. `options` are those of each channel that it gives
   (NULL: defaults). Filters that the address names stand at each of them, and are one list: what is added at one, or
   removed, is so at all, from their next look on. Failures as of lwmq_channel_create and lwmq_channel_open. Does not wait. */
lwmq_status lwmq_listener_open(const char *address, const lwmq_channel_options *options, lwmq_listener **out_listener);
/* The next client: a channel of the caller's, open and connected, beyond the listener's end, too. It is for that client
   alone. When the client has gone, what it sent can still be received, then its end is reported as that of any peer, and
   from then on, as for posts at once, the answer is LWMQ_E_CLOSED; nothing is left but to destroy the channel. What the
   client sends before it is accepted waits for it. 128 clients wait to be accepted, and perhaps 64 more; others in their
   attempts to connect.
   Any thread, several at once. LWMQ_E_TIMED_OUT, LWMQ_E_EMPTY, LWMQ_E_INTERRUPTED; LWMQ_E_CLOSED, also from another thread;
   LWMQ_E_NO_MEMORY: this client was parted from. */
lwmq_status lwmq_listener_accept(lwmq_listener *listener, uint32_t timeout_ms, lwmq_channel **out_channel);
/* For poll, epoll and the like: readable while a client waits to be accepted, and when the listener was closed. Not to be
   read from; lent until destroy. Any thread. */
lwmq_status lwmq_listener_descriptor(const lwmq_listener *listener, int32_t *out_descriptor);

typedef struct lwmq_listener_statistics {
  uint64_t size;
  uint64_t accepted;
  uint64_t waiting;  /* connected and not accepted, now */
  uint64_t refused;  /* as clients_refused of a channel */
  char refusal[256]; /* why the last of these was refused; cut where longer */
} lwmq_listener_statistics;

/* Any thread. */
lwmq_status lwmq_listener_query(lwmq_listener *listener, lwmq_listener_statistics *out_statistics);
/* Frees the address, and parts from clients that nobody has accepted. Channels that it gave live on. Any thread; ends the
   waits of others. Never waits for a client. LWMQ_E_CLOSED: it was closed before. */
lwmq_status lwmq_listener_close(lwmq_listener *listener);
/* Takes the listener, closed or not; waits for whoever is in accept to leave. NULL is allowed. */
void lwmq_listener_destroy(lwmq_listener *listener);

/* -- Filters --
   A filter stands between a channel and its transport (of several: the first) and sees every extent both ways: trace, record, replay, loss, delay,
   reorder, corrupt, rate, latency, and those of modules. They stand in front of the scheme, the nearest to the application first,
   each with its settings: `trace+loss=0.01,seed=7+ipc://orders`; `filters+ipc://orders` begins without any. A channel
   whose address names none cannot have any, and pays nothing for them. What a filter drops is lost under a transport that
   is otherwise reliable: nobody repairs it; it is counted here, and by the peer's goodbye as not received. */

#define LWMQ_FILTER_LAST 4294967295

typedef struct lwmq_filter_view {
  uint64_t size;
  char name[32];
  char settings[256]; /* cut where longer */
  uint64_t seen, dropped, changed; /* extents, both ways, over all peers that came */
  uint64_t sourced;   /* of its own */
  uint64_t held;      /* now; one more while it has extents of its own to come */
  uint64_t failed;    /* extents on which it could not do its work, such as for a full disk; instances that could not be
                         made while extents passed, which then let everything pass */
  uint64_t timed;     /* extents whose time it has measured: see lwmq_channel_query_times */
} lwmq_filter_view;

/* Adds `filter`, such as "delay=5ms", at `place`: 0 is the nearest to the application, LWMQ_FILTER_LAST to the wire. From any
   thread, while extents pass: what comes after the call passes it. LWMQ_E_INVALID: no such filter, place or setting.
   LWMQ_E_UNSUPPORTED: the address names no filters. LWMQ_E_SYSTEM, LWMQ_E_CORRUPT, LWMQ_E_VERSION: its file. */
lwmq_status lwmq_channel_add_filter(lwmq_channel *channel, const char *filter, uint32_t place);
/* Removes the filter at `place`; what it held lands now, for a receive that waits already within 0.25 s. */
lwmq_status lwmq_channel_remove_filter(lwmq_channel *channel, uint32_t place);
/* LWMQ_E_INVALID past the last. */
lwmq_status lwmq_channel_query_filter(const lwmq_channel *channel, uint32_t place, lwmq_filter_view *out_view);

/* Of the times that the filter at `place` has measured (`latency`), the one within which `share` of them were, 0 to 1, to
   1.6 %: 0.5 is the median, 1 the longest. LWMQ_E_EMPTY: it has measured none. Any thread. */
lwmq_status lwmq_channel_query_times(const lwmq_channel *channel, uint32_t place, double share, uint64_t *out_ns);

/* Closes: waits at most linger_ms until what was posted has been read by the peer (a message counts as read when it was
   destroyed there, or when its receiver waits for the next), and as destroy does. Afterwards every call but
   destroy, and what gives a raw buffer back, answers LWMQ_E_CLOSED. LWMQ_E_TIMED_OUT: closed, and the text has the number
   of messages dropped, and of those not seen read, also by a former peer whose end nobody has received. */
lwmq_status lwmq_channel_close(lwmq_channel *channel, uint32_t linger_ms);
/* Takes the channel and its queues; closes it without a linger where that was not done. Waits for whoever waits in a
   call of it or is in its call-back, and for an attempt to connect that is under way, 0.25 s. Messages received live on. */
void lwmq_channel_destroy(lwmq_channel *channel);

/* Many channels by one thread, in turns: each that has something gives one message before any gives its next,
   however unequally they send (RFC 970); one that was silent joins them after 64 messages, or some 64 KiB of them,
   for every 64 channels that are busy. One thread waits or receives at a time; any thread adds and removes. */
typedef struct lwmq_selector lwmq_selector;

lwmq_status lwmq_selector_create(lwmq_selector **out_selector);
/* A channel that is destroyed is in no selector any more. LWMQ_E_INVALID: added before. */
lwmq_status lwmq_selector_add(lwmq_selector *selector, lwmq_channel *channel);
/* Waits while the channel's message is being received; then it is the caller's alone. LWMQ_E_INVALID: not added. */
lwmq_status lwmq_selector_remove(lwmq_selector *selector, lwmq_channel *channel);
/* From now on a client that waits at the listener has its turn, too: wait and receive answer LWMQ_OK with a channel, and a
   message, that are NULL, again and again until it was accepted, or the listener removed; also when it was closed. A
   listener that is destroyed is in no selector any more. LWMQ_E_INVALID: added before, not added. */
lwmq_status lwmq_selector_add_listener(lwmq_selector *selector, lwmq_listener *listener);
lwmq_status lwmq_selector_remove_listener(lwmq_selector *selector, lwmq_listener *listener);
/* The channel whose turn it is; a receive with a timeout of 0 answers LWMQ_E_EMPTY now and then all the same. */
lwmq_status lwmq_selector_wait(lwmq_selector *selector, uint32_t timeout_ms, lwmq_channel **out_channel);
/* The next message of the channel that the last call, a wait, has given. While it is asked like this it keeps its place
   in the turns, also for some looks in vain: much cheaper than a receive of its own. Does not wait. LWMQ_E_EMPTY: it
   has nothing now, or was removed since. Otherwise as lwmq_channel_receive. */
lwmq_status lwmq_selector_take(lwmq_selector *selector, lwmq_message **out_message);
/* Waits and receives one message. *out_channel is written also where that channel's receive has failed (the loss of
   its peer, its close), and NULL for LWMQ_E_TIMED_OUT, LWMQ_E_EMPTY, LWMQ_E_INTERRUPTED. */
lwmq_status lwmq_selector_receive(lwmq_selector *selector, uint32_t timeout_ms, lwmq_channel **out_channel,
                                  lwmq_message **out_message);
/* A descriptor for poll, epoll and event loops: readable while one of its channels may have something, or a client waits.
   Poll it behind a wait or a receive with a timeout of 0 that has answered LWMQ_E_EMPTY: before, somebody may have a turn
   without it. Lent until destroy; not to be read from. */
lwmq_status lwmq_selector_descriptor(lwmq_selector *selector, int32_t *out_fd);
/* Takes the selector; its channels live on. NULL is allowed. */
void lwmq_selector_destroy(lwmq_selector *selector);

/* A routing table: which send queues a message goes to, by what it says of itself. A route has a pattern for one frame
   (the first is the topic of a message, others are its headers), as of AMQP 0-9-1 topic exchanges: words between dots, of
   which * is any one and # any number; up to 32 words, a topic any number. A queue gets a message once, however many of its
   routes without a group match; of the routes that name the same group one gets it, in turns, passing over those whose channel has no peer
   now and over bounded queues that are full; where no channel of the group has a peer, one of them keeps it for its next
   peer. A queue of a channel with several transports is in no group (LWMQ_E_UNSUPPORTED). Any thread. */
typedef struct lwmq_router lwmq_router;

lwmq_status lwmq_router_create(lwmq_router **out_router);
/* `group` may be NULL: the route is alone. When the channel of the queue is destroyed, its routes go.
   LWMQ_E_INVALID: a malformed pattern, or a route that is there already. */
lwmq_status lwmq_router_add(lwmq_router *router, uint32_t frame, const char *pattern, const char *group,
                            lwmq_send_queue *queue);
/* LWMQ_E_INVALID: there is no such route. */
lwmq_status lwmq_router_remove(lwmq_router *router, uint32_t frame, const char *pattern, const char *group,
                               lwmq_send_queue *queue);
/* Every route to this queue. */
lwmq_status lwmq_router_forget(lwmq_router *router, const lwmq_send_queue *queue);
/* Posts a message to every queue that a route leads to; nothing is copied. Never waits. *out_queues is written on every
   outcome: how many have it. The message is taken unless that is 0. LWMQ_E_EMPTY: no route matches. LWMQ_E_FULL: no queue
   of a group has room. LWMQ_E_TOO_BIG, LWMQ_E_CLOSED: of one of the queues; the others have it. */
lwmq_status lwmq_router_post(lwmq_router *router, lwmq_message **message, uint32_t *out_queues);
/* Takes the router; its queues live on. NULL is allowed. */
void lwmq_router_destroy(lwmq_router *router);

/* Requests and their replies over a channel: thousands outstanding, each with a time-out of its own, in the format of
   Python's and Java's Requests and Replies (WIRE.md). Nothing is asked twice by itself; a request may be executed although
   its asker was told that the time is over, or the peer lost. Everything that comes over the channel is theirs: what is no
   reply is counted and dropped. Any thread; of those who wait one receives for all. */
typedef struct lwmq_requests lwmq_requests;

typedef struct lwmq_requests_options {
  uint64_t size;
  lwmq_send_queue *queue;   /* of the channel, where requests are posted; NULL: one for all such of the channel, unbounded */
  uint64_t outstanding_max; /* with those that nobody was told of yet; default 2^20; some 100 bytes each */
} lwmq_requests_options;

/* Before or after open. LWMQ_E_INVALID: the queue of another channel; a raw channel. LWMQ_E_NO_MEMORY. */
lwmq_status lwmq_requests_create(lwmq_channel *channel, const lwmq_requests_options *options,
                                 lwmq_requests **out_requests);
/* Makes a message whose first frame is the head of a request; the frames that the caller appends are what is asked. */
lwmq_status lwmq_requests_make(lwmq_requests *requests, lwmq_message **out_request);
/* Asks and goes on; never waits for the peer, who may come later. Takes the message on LWMQ_OK alone. *out_number is what
   lwmq_requests_next says with the outcome. timeout_ms: LWMQ_FOREVER waits as long as the peer lives. LWMQ_E_FULL: too many
   are outstanding. LWMQ_E_INVALID: no message of lwmq_requests_make, or outstanding already. Else as lwmq_send_queue_post. */
lwmq_status lwmq_requests_submit(lwmq_requests *requests, lwmq_message **request, uint32_t timeout_ms,
                                 uint64_t *out_number);
/* The next outcome of what was submitted; *out_number says whose, and is 0 where this concerns none: LWMQ_E_EMPTY,
   LWMQ_E_TIMED_OUT (of this wait), LWMQ_E_INTERRUPTED, LWMQ_E_NO_MEMORY (nothing is lost), and what a receive has answered
   that concerns none, such as the end of a peer that had gone before all of them were asked. Of a request:
     LWMQ_OK            its reply, a message whose frames from 1 on are the answer (0 is the head); the caller's to destroy
     LWMQ_E_HANDLER     the peer has failed at it
     LWMQ_E_TIMED_OUT   its time is over; lwmq_last_error has a text. Told up to 0.2 s late where a request that ends
                        before all others was submitted while this waits. A reply that comes later is dropped
     LWMQ_E_PEER_LOST, LWMQ_E_CLOSED and what else a receive answers: the peer is gone, or the channel closed */
lwmq_status lwmq_requests_next(lwmq_requests *requests, uint32_t timeout_ms, uint64_t *out_number,
                               lwmq_message **out_reply);
/* Asks, and waits for the outcome of this one, as said above. *request is NULL afterwards where it was posted. Behind
   LWMQ_E_INTERRUPTED and LWMQ_E_NO_MEMORY it is not outstanding any more. LWMQ_E_INVALID: also where the channel is not
   open yet, so that nobody could reply while this waits. */
lwmq_status lwmq_requests_request(lwmq_requests *requests, lwmq_message **request, uint32_t timeout_ms,
                                  lwmq_message **out_reply);
/* Gives up: nobody is told of it. LWMQ_E_EMPTY: it was never submitted, or its outcome was told. */
lwmq_status lwmq_requests_cancel(lwmq_requests *requests, uint64_t number);
/* For who receives from the channel by other means, such as a selector, on the same thread: takes a message of it, as if
   lwmq_requests_next had received it. Does not wait; lwmq_requests_next with 0 tells. */
lwmq_status lwmq_requests_file(lwmq_requests *requests, lwmq_message **message);
/* Likewise of the end of the peer: `failure` is what that receive has answered, and lwmq_last_error still has its text. What is
   outstanding fails with it, but for what was asked after that peer had gone. LWMQ_E_INVALID: it is no failure. */
lwmq_status lwmq_requests_lose(lwmq_requests *requests, lwmq_status failure);

/* `asked` is the sum of `outstanding` and what follows up to `given_up`. */
typedef struct lwmq_requests_statistics {
  uint64_t size;
  uint64_t asked;
  uint64_t outstanding;
  uint64_t answered;
  uint64_t failed;    /* LWMQ_E_HANDLER */
  uint64_t timed_out;
  uint64_t lost;      /* with the peer, or the channel */
  uint64_t given_up;  /* cancelled, interrupted, or not posted */
  uint64_t late;      /* dropped: replies to what was settled before */
  uint64_t foreign;   /* dropped: replies to another asker */
  uint64_t malformed; /* dropped: no replies */
  uint32_t due_ms;    /* until the next time-out, for who sleeps in poll; LWMQ_FOREVER: none */
} lwmq_requests_statistics;

lwmq_status lwmq_requests_query(lwmq_requests *requests, lwmq_requests_statistics *out_statistics);
/* Takes the requests, when nobody is in a call of them; the channel lives on. What is outstanding is forgotten. NULL is
   allowed. */
void lwmq_requests_destroy(lwmq_requests *requests);

/* The answering side. The beginning of a reply to a message that was received: the frames that the caller appends are the
   answer, and it is posted to a queue of the channel that the request came over. LWMQ_E_CORRUPT: it is no request. */
lwmq_status lwmq_reply_make(const lwmq_message *request, lwmq_message **out_reply);
/* A whole reply, to be posted: LWMQ_E_HANDLER there, with `kind` (such as the name of an exception's class) and `text`, UTF-8,
   of which 1,000 bytes each travel. */
lwmq_status lwmq_reply_make_failure(const lwmq_message *request, const char *kind, const char *text,
                                    lwmq_message **out_reply);

/* Direct buffer access, on a channel made with raw = 1: get, fill, send; receive, dispose.
   Buffers travel in the order sent. */
typedef struct lwmq_buffer {
  void *data;         /* stays what it was lent as: another one is refused with LWMQ_E_INVALID */
  uint64_t bytes;     /* room when obtained; set to what is used before send; what arrived on receive */
  uint64_t token[4];  /* the library's */
} lwmq_buffer;

/* Lends a send buffer; it comes back through send or abandon. LWMQ_E_FULL: none is free, or there is no peer, and it was
   not to wait; else LWMQ_E_TIMED_OUT. LWMQ_E_INTERRUPTED, LWMQ_E_CLOSED, and what a receive answers of a failure to
   connect. One thread at a time gets and sends. */
lwmq_status lwmq_raw_get_buffer(lwmq_channel *channel, uint32_t timeout_ms, lwmq_buffer *out_buffer);
/* Takes the buffer, but for LWMQ_E_TOO_BIG, LWMQ_E_INVALID (it is none of those that were lent) and LWMQ_E_CLOSED.
   LWMQ_E_PEER_LOST: whom it was for has gone; it counts as lost. Never waits. */
lwmq_status lwmq_raw_send_buffer(lwmq_channel *channel, lwmq_buffer *buffer);
/* Takes a buffer back unsent; also one whose peer has gone, and behind the close, from any thread. Until it comes back it
   stays mapped and may be written to: behind destroy, for the life of the process. */
lwmq_status lwmq_raw_abandon_buffer(lwmq_channel *channel, lwmq_buffer *buffer);
/* Lends the next buffer that has come; it goes back through dispose. One thread at a time. Answers as
   lwmq_channel_receive does. */
lwmq_status lwmq_raw_receive_buffer(lwmq_channel *channel, uint32_t timeout_ms, lwmq_buffer *out_buffer);
/* Takes a received buffer; in any order, from any thread, also behind the close. Before destroy: what was not disposed of
   then stays mapped for the life of the process. */
lwmq_status lwmq_raw_dispose_buffer(lwmq_channel *channel, lwmq_buffer *buffer);

/* ---- Streams ------------------------------------------------------------------------------------ */

/* A stream is a name (its address), an Arrow schema and partitions; a partition is a log of record batches
   with sequence numbers from 0. An endpoint serves one stream at one address. The library does not read
   Arrow: a schema is the bytes of an Arrow IPC stream that holds only its schema message, a batch is a
   block of bytes: the encapsulated IPC message of one record batch, or a whole small IPC stream (flag). */

#define LWMQ_SEQ_EARLIEST 18446744073709551615ULL /* lowest retained and not acknowledged */
#define LWMQ_SEQ_LATEST 18446744073709551614ULL   /* the next one to be written */
#define LWMQ_SEQ_END 18446744073709551613ULL      /* as an end: until the stream ends */

typedef enum lwmq_retain {
  LWMQ_RETAIN_UNTIL_ACKED = 0, /* until `readers` distinct reader names have acknowledged it */
  LWMQ_RETAIN_ALL = 1,         /* until the endpoint closes */
  LWMQ_RETAIN_NONE = 2         /* until the readers present have passed it; writers wait for the first */
} lwmq_retain;

typedef enum lwmq_delivery {
  LWMQ_DELIVERY_LIVE = 0, /* batches are visible when published */
  LWMQ_DELIVERY_TASK = 1, /* when the writer has committed */
  LWMQ_DELIVERY_JOB = 2   /* when the job has committed */
} lwmq_delivery;

/* The address of a stream has no options here (LWMQ_E_ADDRESS): what Python and Spark read there are members of
   lwmq_writer_options and lwmq_reader_options. */

/* An endpoint of its own, for a process that wants to keep a stream alive apart from its writers and
   readers. lwmq_writer_open and lwmq_reader_open make one by themselves where role says so. */
typedef struct lwmq_endpoint lwmq_endpoint;
lwmq_status lwmq_endpoint_open(const char *address, lwmq_endpoint **out_endpoint);
/* Waits at most timeout_ms until producers have ended and as many readers as the stream asks for have read everything.
   Closes nothing, and may be called again. LWMQ_E_TIMED_OUT: not yet; the text says what is missing. */
lwmq_status lwmq_endpoint_drain(lwmq_endpoint *endpoint, uint32_t timeout_ms);
/* Waits as lwmq_endpoint_drain does, at most linger_ms; then closes in any case. Takes the endpoint.
   LWMQ_E_TIMED_OUT: closed, the text says how many batches were not read. */
lwmq_status lwmq_endpoint_close(lwmq_endpoint *endpoint, uint32_t linger_ms);

typedef struct lwmq_partition_state {
  uint64_t first_seq;   /* lowest retained */
  uint64_t unacked_seq; /* lowest not acknowledged: where EARLIEST begins */
  uint64_t next_seq;    /* of the next batch to be written */
  uint64_t rows, bytes; /* from unacked_seq to next_seq */
} lwmq_partition_state;

enum {
  LWMQ_STREAM_UNDECLARED = 0, /* nobody has brought a schema yet */
  LWMQ_STREAM_OPEN = 1,       /* producers are open, or expected */
  LWMQ_STREAM_ENDED = 2,      /* the last open producer has ended; there is something to read, if only the end */
  LWMQ_STREAM_CONSUMED = 3    /* ended, and acknowledged to its end: only a new producer brings more */
};

typedef struct lwmq_stream_state {
  uint64_t size;
  uint8_t generation[16]; /* of the endpoint; offsets are void in another one */
  uint32_t state;         /* LWMQ_STREAM_* */
  uint32_t retain;        /* lwmq_retain */
  uint32_t readers;       /* acknowledgements that a batch needs */
  uint32_t partition_count;
  uint32_t producers_open, readers_open;
  const void *schema; /* lent; NULL while undeclared */
  uint64_t schema_bytes;
  const lwmq_partition_state *partitions; /* lent; partition_count of them */
  lwmq_identity endpoint;                 /* where it runs */
  uint32_t readers_stalled;  /* that have taken nothing for long while a writer waits for them */
  uint32_t readers_expelled; /* so far */
  uint32_t stalled_pid;      /* process of one of the stalled; 0: there is none */
} lwmq_stream_state;

/* Asks the endpoint at `address` for the state of its stream; waits until there is an endpoint and, when
   `wait_declared` is 1, until the stream has a schema. Is no reader and consumes nothing.
   LWMQ_E_TIMED_OUT has a text here: what was waited for. lwmq_stream_state_destroy gives it back. */
lwmq_status lwmq_stream_describe(const char *address, uint32_t wait_declared, uint32_t timeout_ms,
                                 lwmq_stream_state **out_state);
void lwmq_stream_state_destroy(lwmq_stream_state *state);

/* -- Writing -- */

typedef struct lwmq_writer lwmq_writer;

typedef struct lwmq_writer_options {
  uint64_t size;
  int32_t role;           /* lwmq_role */
  uint32_t partitions;    /* when this writer is the first to declare the stream; default 1 */
  uint32_t retain;        /* likewise; lwmq_retain */
  uint32_t readers;       /* likewise; default 1 */
  uint32_t delivery;      /* lwmq_delivery */
  uint32_t timeout_ms;    /* for the endpoint to appear and answer; default 30,000 */
  uint64_t buffer_bytes;  /* the largest block by intent; default 4 MiB. Larger ones pass while they fit the window */
  uint64_t window_bytes;  /* memory for batches that are not yet released; default 64 MiB, or 16 times
                             buffer_bytes where that is more */
  uint64_t staging_bytes; /* beyond the window, for batches not yet committed; default 1 GiB */
  const char *job;        /* the job or query this writer is a task of; NULL: it is a producer by itself */
  uint32_t task;          /* with job: partition of the job; appended to stream partition task mod partitions */
  uint32_t job_tasks;     /* with job: 0, or: the job ends by itself when that many tasks have committed */
  uint64_t attempt;       /* with job: distinguishes the attempts of a task */
  uint64_t epoch;         /* with job: of a streaming query */
  uint32_t stall_ms;      /* how long the endpoint, asked for a sign of life, may be silent; default 5,000. LWMQ_FOREVER:
                             it is not asked, and waited for */
  uint32_t expel_after_ms; /* readers that take nothing for so long while this writer waits for them are expelled;
                              default, as LWMQ_FOREVER: never, they are waited for */
} lwmq_writer_options;

/* Peers that live and do not answer.
   Whoever waits for an endpoint (lwmq_writer_allocate, _commit, _close, lwmq_reader_schema, _next, lwmq_job_*) and has
   heard nothing for `stall` asks it for a sign of life; the pauses between such questions grow from `stall` to 80 s. No
   answer within `stall`: LWMQ_E_STALLED, whose text names the process. The handle stays as it is: the same call again
   waits on, and once the endpoint goes on, everything does; nothing is lost or doubled.
   A reader is *stalled* when it has taken nothing for `stall` while a writer waits for room, or for its end, and the
   reader stands in the way. It is waited for, unless the writer says `expel_after`: then the stream goes on as if it had
   died. What it was handed and had not consumed goes to other readers, and where the stream needs more acknowledgements
   than there are readers left, it needs one less. The memory that it was shown or leases is not written again before it
   has heard, or died; meanwhile that memory counts no more as the writer's window, at most once the window. The reader
   itself gets LWMQ_E_DATA_LOSS from its next call, with a text that says when and why. */

/* Opens a writer. Waits for the endpoint at most options->timeout_ms. The first producer declares the stream;
   for every other one, lwmq_writer_schema returns what was declared and the caller compares.
   LWMQ_E_NO_MEMORY, at once: options->window_bytes is more than this process may hold in windows.
   With `job`, LWMQ_DELIVERY_LIVE batches of attempts that do not commit stay visible. */
lwmq_status lwmq_writer_open(const char *address, const void *schema, uint64_t schema_bytes,
                             const lwmq_writer_options *options, lwmq_writer **out_writer);
/* Lends the declared schema and the number of partitions; valid until close. */
lwmq_status lwmq_writer_schema(const lwmq_writer *writer, const void **out_schema, uint64_t *out_bytes,
                               uint32_t *out_partitions);

typedef struct lwmq_block {
  uint8_t *data;     /* 64-byte aligned, in the writer's own window; write to it as you like */
  uint64_t bytes;    /* at least what was asked for */
  uint64_t token[2]; /* the library's */
} lwmq_block;

/* Lends a block; it goes back through publish or discard. Waits for room: until readers have released enough, and the
   endpoint has taken what was published before.
   LWMQ_E_TOO_BIG: more than the window can ever hold. LWMQ_E_TIMED_OUT has a text here: who holds the room.
   LWMQ_E_NO_MEMORY, at once: the room is held by batches that this task itself has not committed, and staging_bytes are
   used up.
   LWMQ_E_STALLED: the endpoint does not answer. */
lwmq_status lwmq_writer_allocate(lwmq_writer *writer, uint64_t bytes, uint32_t timeout_ms,
                                 lwmq_block *out_block);
/* Takes the block: its first `bytes` bytes are the next batch of `partition` (ignored with a job). Never waits. */
lwmq_status lwmq_writer_publish(lwmq_writer *writer, lwmq_block *block, uint32_t partition, uint64_t bytes,
                                uint64_t rows, uint32_t flags);
void lwmq_writer_discard(lwmq_writer *writer, lwmq_block *block);

/* For applications that have views of a block. Until its hold ends, a lent block stays mapped, and nobody else writes to
   it: also behind publish, discard, abort, close and destroy. A block that was neither published nor discarded by then
   goes back to its writer. LWMQ_E_INVALID: the block is not lent, or is held already. Never waits. */
typedef struct lwmq_hold lwmq_hold;
lwmq_status lwmq_writer_hold(lwmq_writer *writer, const lwmq_block *block, lwmq_hold **out_hold);
/* Takes the hold. Any thread, also when the writer has gone. Never waits. */
void lwmq_hold_end(lwmq_hold *hold);

enum {
  LWMQ_BATCH_IPC_MESSAGE = 0, /* the block is one encapsulated record batch message */
  LWMQ_BATCH_IPC_STREAM = 1   /* the block is a whole IPC stream: schema, dictionaries, one record batch */
};

/* How batches of one schema of fixed-width columns are written: the head of any of them that has a row, and where the
   numbers lie in it that differ from batch to batch. All lent. */
typedef struct lwmq_array_plan {
  uint64_t size;
  const void *head;       /* prefix and metadata of a record batch message, padded to a multiple of 64 */
  uint64_t head_bytes;
  uint64_t rows_at;       /* int64: rows */
  uint64_t body_bytes_at; /* int64: bytes of the body */
  uint64_t nodes_at;      /* per column two int64: rows, nulls */
  uint64_t buffers_at;    /* per column four int64: offset and bytes of the bitmap, then of the values */
  const uint32_t *bits;   /* per column: the width of a value */
  uint32_t column_count;
  uint32_t reserved;
  uint64_t bytes_max;     /* of a block that this call allocates */
  const char *const *not_null; /* per column: its name, where it is declared not null, else NULL; NULL: none is */
} lwmq_array_plan;

/* Allocates a block, copies a record batch into it, and publishes it: lwmq_writer_allocate, lwmq_writer_publish and what
   is between them in one call. `array` is a `struct ArrowArray` of the Arrow C data interface: lent, not released.
   LWMQ_E_UNSUPPORTED, before anything was done: the batch is none that the plan covers (no rows, columns of another kind,
   bits that begin within a byte), or larger than bytes_max. LWMQ_E_SCHEMA, likewise: a column declared not null has
   nulls; the text says which, and how many. Waits as lwmq_writer_allocate does. */
lwmq_status lwmq_writer_write_array(lwmq_writer *writer, const lwmq_array_plan *plan, const void *array,
                                    uint32_t partition, uint32_t timeout_ms);

typedef struct lwmq_commit_result {
  uint64_t size;
  uint32_t won;          /* 1: these batches count; 0: another attempt had committed, ours were dropped */
  uint32_t partition;    /* of the stream */
  uint64_t attempt;      /* of the winner */
  uint64_t start_seq, end_seq; /* of the winner; equal with delivery = job until the job commits */
  uint64_t batches, rows, bytes;
  uint8_t instance[16];  /* of the winner's process */
} lwmq_commit_result;

/* With a job: commits what this writer published. The first attempt of (job, epoch, task) wins. LWMQ_E_TIMED_OUT,
   LWMQ_E_STALLED: not answered yet; committing again changes nothing and waits on. */
lwmq_status lwmq_writer_commit(lwmq_writer *writer, uint32_t timeout_ms, lwmq_commit_result *out_result);
/* Gives up: staged batches are dropped; a producer by itself ends its stream with LWMQ_E_ABORTED for readers,
   after what was visible. `reason` reaches them. Closes the conversation; destroy still follows. */
lwmq_status lwmq_writer_abort(lwmq_writer *writer, const char *reason);
/* Ends this producer. Waits at most linger_ms until everything it wrote was consumed and, where it is the last in
   this process to use an endpoint that was bound here, until the other producers have ended and were consumed, too.
   LWMQ_E_TIMED_OUT: not yet; the text says how many batches wait for whom; LWMQ_E_STALLED: the endpoint does not
   answer; call again, or destroy to give up.
   After LWMQ_OK every call but destroy answers LWMQ_E_CLOSED. */
lwmq_status lwmq_writer_close(lwmq_writer *writer, uint32_t linger_ms);
/* Takes the writer. Never waits. Not closed: ends as an abort. Batches that were visible stay readable for as
   long as the endpoint lives. */
void lwmq_writer_destroy(lwmq_writer *writer);

typedef struct lwmq_writer_statistics {
  uint64_t size;
  uint64_t batches, rows, bytes;
  uint64_t wait_ns;       /* spent waiting for room */
  uint64_t window_bytes;  /* held by segments now */
  uint64_t unread_batches; /* published and not yet released by the endpoint */
  uint64_t readers_expelled; /* because they kept this writer waiting */
  uint64_t readers_lost;     /* that died, or were abandoned, before they had read everything, since this writer came */
} lwmq_writer_statistics;
lwmq_status lwmq_writer_query(const lwmq_writer *writer, lwmq_writer_statistics *out_statistics);
/* What befell the last of those readers: who it was, how it ended, how far it had come, what goes to the next reader. At
   most `bytes` bytes with the NUL are written; longer texts are cut. Never waits. LWMQ_E_EMPTY, without a text: no reader
   was lost since the last call. */
lwmq_status lwmq_writer_lost_reader(lwmq_writer *writer, char *out_text, uint64_t bytes);

/* -- A job: many writers that count as one producer -- */

typedef struct lwmq_job lwmq_job;

typedef struct lwmq_task_commit {
  uint32_t task;
  uint32_t partition;
  uint64_t attempt;
  uint64_t batches;
} lwmq_task_commit;

/* Opens a producer named options->job whose tasks are writers with the same `job`; uses of the options:
   role, partitions, retain, readers, delivery, timeout_ms, job, epoch, stall_ms. Loss of this handle's process aborts the job. */
lwmq_status lwmq_job_open(const char *address, const void *schema, uint64_t schema_bytes,
                          const lwmq_writer_options *options, lwmq_job **out_job);
lwmq_status lwmq_job_schema(const lwmq_job *job, const void **out_schema, uint64_t *out_bytes,
                            uint32_t *out_partitions);
/* Commits epoch `epoch`. The endpoint checks that it holds every commit listed; LWMQ_E_DATA_LOSS names the first
   that it lacks. Repeating a commit changes nothing. */
lwmq_status lwmq_job_commit(lwmq_job *job, uint64_t epoch, const lwmq_task_commit *tasks, uint32_t task_count,
                            uint32_t timeout_ms);
/* Drops what is staged. Readers hear of it only if something of the job was visible. */
lwmq_status lwmq_job_abort(lwmq_job *job, const char *reason, uint32_t timeout_ms);
/* Ends the producer (commits nothing). Does not wait for readers. Takes the job. */
lwmq_status lwmq_job_close(lwmq_job *job);

/* -- Reading -- */

typedef struct lwmq_reader lwmq_reader;
typedef struct lwmq_batch lwmq_batch;

typedef struct lwmq_range {
  uint32_t partition;
  uint32_t reserved;
  uint64_t start; /* sequence number, or LWMQ_SEQ_EARLIEST, LWMQ_SEQ_LATEST */
  uint64_t end;   /* one past the last, or LWMQ_SEQ_END */
} lwmq_range;

typedef enum lwmq_acknowledge {
  LWMQ_ACK_CONSUMED = 0, /* a batch is acknowledged when the reader has moved past it */
  LWMQ_ACK_SETTLED = 1   /* when lwmq_stream_settle says so for this reader's name */
} lwmq_acknowledge;

typedef struct lwmq_reader_options {
  uint64_t size;
  int32_t role;
  uint32_t acknowledge;  /* lwmq_acknowledge */
  uint32_t follow;       /* 1: go on after the end of the stream, with its next producer */
  uint32_t writers;      /* the stream has not ended before that many producers have come; default 1 */
  uint32_t timeout_ms;   /* for the endpoint to appear and answer; default 30,000 */
  uint32_t credit;       /* batches handed over ahead of their use; default 8 */
  const char *name;      /* counts once per batch; NULL: a name of its own */
  const uint8_t *generation; /* 16 bytes; LWMQ_E_DATA_LOSS if the endpoint's is another, for a client LWMQ_E_CLOSED
                                at once if there is none any more. Such a reader takes part in a read that was
                                planned: it never waits for the next producer of a stream that has ended. NULL: any */
  const lwmq_range *ranges;  /* NULL: every partition, EARLIEST to END */
  uint32_t range_count;
  uint32_t keep_mapped;  /* 1: the writers' windows stay mapped 10 s longer, for the next reader of this process */
  uint32_t stall_ms;     /* as in lwmq_writer_options */
  const char *task;      /* what this reader is an attempt at, under whatever name it reads; NULL: nothing */
  uint64_t attempt;      /* with task: which one. An attempt that needs a batch which was released gets
                            LWMQ_E_SUPERSEDED while another attempt at the task reads, else LWMQ_E_DATA_LOSS */
} lwmq_reader_options;

lwmq_status lwmq_reader_open(const char *address, const lwmq_reader_options *options,
                             lwmq_reader **out_reader);
/* Lends the schema; waits until a producer has declared it. Valid until close. */
lwmq_status lwmq_reader_schema(lwmq_reader *reader, uint32_t timeout_ms, const void **out_schema,
                               uint64_t *out_bytes);
/* Lends the next batch in the order of arrival over the reader's partitions; what it lent before is consumed by this
   call (leased until released). LWMQ_E_END, LWMQ_E_ABORTED, LWMQ_E_DATA_LOSS come after everything that was visible, and
   so does LWMQ_E_PEER_LOST: a producer, or the process that serves the address, died or left without a word. After the
   end of a producer a reader with `follow` goes on with the next one, after that of the endpoint none does; the text says
   which. LWMQ_E_STALLED: the endpoint lives and does not answer. LWMQ_E_DATA_LOSS comes at once where this reader was expelled. */
lwmq_status lwmq_reader_next(lwmq_reader *reader, uint32_t timeout_ms, lwmq_batch **out_batch);
/* Waits until lwmq_reader_next has an answer, and takes nothing: for one thread that waits where another one reads. What
   next lent before is consumed by this call, too. LWMQ_E_TIMED_OUT, LWMQ_E_STALLED. */
lwmq_status lwmq_reader_wait(lwmq_reader *reader, uint32_t timeout_ms);
/* Marks what next lent last as consumed, without asking for more. Never waits. */
lwmq_status lwmq_reader_consume(lwmq_reader *reader);

typedef struct lwmq_batch_info {
  uint64_t size;
  const uint8_t *data; /* in the writer's window, read-only, 64-byte aligned; or a private copy */
  uint64_t bytes, rows;
  uint64_t seq;
  uint64_t timestamp_ns; /* when it was published, CLOCK_REALTIME */
  uint32_t partition;
  uint32_t flags;        /* LWMQ_BATCH_* */
  uint32_t copied;       /* 1: a private copy, because this reader held half of the window, which readers of
                           different partitions share */
  uint32_t writer_pid;
  const uint8_t *window_data; /* the mapped segment that holds the batch, for proofs of identity */
  uint64_t window_bytes;
} lwmq_batch_info;

lwmq_status lwmq_batch_query(const lwmq_batch *batch, lwmq_batch_info *out_info);
/* Ends the lease. From any thread, also after the reader was closed; never waits. */
void lwmq_batch_release(lwmq_batch *batch);

/* How batches that begin with the same bytes are cut into arrays: learned from one, used for all that follow. For columns
   of fixed width alone, of which nothing but the head says where they lie. */
typedef struct lwmq_array_layout lwmq_array_layout;

/* Learns from `array` (a `struct ArrowArray`, lent), which shows `batch`, was checked against it, and keeps it leased.
   `head` (lent): the prefix and metadata that the array was made from, a copy, for its writer can write to the batch
   still. LWMQ_E_UNSUPPORTED: a buffer lies elsewhere. */
lwmq_status lwmq_array_layout_create(const void *array, const lwmq_batch_info *batch, const void *head,
                                     uint64_t head_bytes, lwmq_array_layout **out_layout);
/* Takes the layout. NULL is allowed. */
void lwmq_array_layout_destroy(lwmq_array_layout *layout);
/* Makes `out_array` (a `struct ArrowArray`) show the batch where it lies. LWMQ_OK: takes the batch; releasing the array
   releases it, on any thread. LWMQ_E_EMPTY: the batch has another head, size or number of rows; it is still the
   caller's. Never waits. */
lwmq_status lwmq_batch_export(lwmq_batch *batch, const lwmq_array_layout *layout, void *out_array);

typedef struct lwmq_reader_statistics {
  uint64_t size;
  uint64_t batches, rows, bytes;
  uint64_t bytes_copied, batches_copied;
  uint64_t wait_ns;
  uint64_t leased_batches, leased_bytes;
  uint8_t generation[16];
} lwmq_reader_statistics;
lwmq_status lwmq_reader_query(const lwmq_reader *reader, lwmq_reader_statistics *out_statistics);

/* Ends the reader; batches not yet consumed stay for others. A reader that bound the address stays, at most
   linger_ms, until producers have ended and as many readers as the stream asks for have read everything. Takes the
   reader. Batches live on. */
lwmq_status lwmq_reader_close(lwmq_reader *reader, uint32_t linger_ms);
/* Ends the reader as its death would, for one that has failed: what a reader without a name has taken of a producer, and
   not finished, is not acknowledged. What is still kept goes to the next reader. What is gone is LWMQ_E_DATA_LOSS to the
   producer and to later readers, in place of the end. Takes the reader. Waits at most a second, to tell. Batches live on. */
void lwmq_reader_abandon(lwmq_reader *reader);

/* For readers with LWMQ_ACK_SETTLED: everything consumed under `name` is acknowledged (acknowledge = 1) or
   forgotten, so that it will be read again (0). LWMQ_E_CLOSED, at once: nobody serves the address any more. */
lwmq_status lwmq_stream_settle(const char *address, const char *name, uint32_t acknowledge,
                               uint32_t timeout_ms);

/* cdef: end */

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
