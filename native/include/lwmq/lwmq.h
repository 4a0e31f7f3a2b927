/* lwmq.h - the C interface of lwmq: messages between processes, and streams of Arrow record batches.
 *
 * The two halves can be used independently:
 *   channels   a conversation with one peer; messages consist of frames and are posted and received whole
 *   streams    named, typed, partitioned logs of record batches, read where the writer placed them
 *
 * Conventions, for every call below unless it says otherwise:
 *   Handles are opaque. One thread at a time uses a handle; different threads may use different handles. Using a
 *   destroyed or invalid handle ends the program with a visible text.
 *   Calls that may wait have a `timeout_ms`: 0 never waits, LWMQ_FOREVER has no limit. A signal handled by the
 *   waiting thread ends the wait with LWMQ_E_INTERRUPTED; nothing is lost, call again.
 *   Outputs come last, begin with `out_`, and are written only on LWMQ_OK.
 *   Structures that may grow begin with `size`, which the caller sets to sizeof. Fields beyond `size` take their
 *   default; so do fields that are zero. LWMQ_E_INVALID: `size` was not set.
 *   Ownership: `takes` (belongs to the callee from now on, also on failure unless stated otherwise), `lends` (must be
 *   given back), `keeps` (holds its own reference).
 *   Strings are UTF-8 and end with NUL. After a failure, lwmq_last_error() on the same thread says where, with which
 *   numbers, and what to do.
 *   In a forked child, every call on the parent's channels, listeners, selectors, routers and streams returns
 *   LWMQ_E_CLOSED. The child may read and destroy the parent's messages.
 */
#ifndef LWMQ_LWMQ_H
#define LWMQ_LWMQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* cffi also reads the declarations between the two marks. */
/* cdef: begin */

/* ---- Outcome --------------------------------------------------------------------------------- */

typedef enum lwmq_status {
  LWMQ_OK = 0,
  /* Answers: nothing is wrong. lwmq_last_error() is empty, unless the call is documented to set a text. */
  LWMQ_E_TIMED_OUT = 1,   /* the time is over; the call may be repeated */
  LWMQ_E_EMPTY = 2,       /* nothing there, and the call was not allowed to wait */
  LWMQ_E_FULL = 3,        /* no room, and the call was not allowed to wait */
  LWMQ_E_END = 4,         /* the stream has ended; all its batches were handed out */
  LWMQ_E_INTERRUPTED = 5, /* a signal arrived while waiting */
  /* Failures: lwmq_last_error() has the text. */
  LWMQ_E_INVALID = 10,      /* an argument that no caller should pass */
  LWMQ_E_ADDRESS = 11,      /* malformed address, unknown scheme, address in use */
  LWMQ_E_CLOSED = 12,       /* closed by us or by the peer, in order; or forked */
  LWMQ_E_PEER_LOST = 13,    /* the peer died or vanished */
  LWMQ_E_STALLED = 14,      /* the peer lives but does not answer; nothing is lost, the call may be repeated */
  LWMQ_E_TOO_BIG = 15,      /* larger than a buffer or a window can hold */
  LWMQ_E_SCHEMA = 16,       /* this producer's schema differs from the stream's, or a column declared not null has
                               nulls */
  LWMQ_E_ABORTED = 17,      /* the producer gave up after some of its batches were visible */
  LWMQ_E_DATA_LOSS = 18,    /* the batches asked for were released, or belong to an older generation; or this reader
                               kept a writer waiting and was expelled */
  LWMQ_E_CORRUPT = 19,      /* bytes from the peer that cannot be right */
  LWMQ_E_VERSION = 20,      /* the peer speaks another version of the protocol, or serves another purpose there */
  LWMQ_E_NO_MEMORY = 21,    /* our budget, the cgroup or the machine has no room */
  LWMQ_E_DENIED = 22,       /* the peer is another user; or the module has no signature by a trusted key */
  LWMQ_E_UNSUPPORTED = 23,  /* this provider or kernel cannot do that */
  LWMQ_E_SYSTEM = 24,       /* the kernel refused; the text has the call and errno */
  LWMQ_E_SUPERSEDED = 25,   /* another attempt of this task has what was asked for, and goes on: give way */
  LWMQ_E_HANDLER = 26       /* the peer failed to handle the request; the text says what failed, and why */
} lwmq_status;

/* The text of the last failure on this thread; valid until the thread's next call. Never NULL. */
const char *lwmq_last_error(void);
/* If the last failure reported the end of a peer: the number of that end among those of its channel, from 1 (see
   lwmq_channel_ends). Otherwise 0. */
uint64_t lwmq_last_end(void);
/* The name of a status, such as "LWMQ_E_TIMED_OUT". Static. */
const char *lwmq_status_name(int32_t status);
/* "major.minor.patch" of the library. Static. */
const char *lwmq_version(void);
/* The version of the wire and shared-memory formats; peers must agree on it. */
uint32_t lwmq_protocol_version(void);

/* ---- Who and where we are --------------------------------------------------------------------- */

typedef struct lwmq_identity {
  uint64_t size;
  char host[256];     /* host name */
  char boot_id[40];   /* of the running kernel */
  uint64_t netns;     /* inode of the network namespace; abstract socket names are per namespace */
  uint8_t instance[16]; /* random, new for each process that loads the library */
  uint32_t pid;
  uint32_t uid;
} lwmq_identity;

lwmq_status lwmq_identify(lwmq_identity *out_identity);

/* The name of a registered provider; NULL past the last. Static. */
const char *lwmq_provider_name(uint32_t index);

/* The same for filters: the name, and one line on what can be set. */
const char *lwmq_filter_name(uint32_t index);
const char *lwmq_filter_help(uint32_t index);

/* -- Modules: providers and filters from outside (lwmq_tli.h) --
   Before the first address is used, the library searches the folders of $LWMQ_MODULE_PATH, separated by colons, once.
   Every NAME.so there is loaded, in the order of names, if NAME.so.sig is a signature of its bytes and its name by a
   trusted key and has not expired. Otherwise the module is refused with a line on standard error, and everything else
   goes on. Trusted keys are in the file $LWMQ_MODULE_TRUST, else in /etc/lwmq/trusted_keys. Only the file's owner, who
   must be root or this user, may be able to write it. Its lines are `ed25519 KEY NAME`, where KEY is 64 hexadecimal
   digits; # begins a comment. Needs OpenSSL's libcrypto; without it every module is refused. */
typedef struct lwmq_module_view {
  uint64_t size;
  uint64_t expires_s;  /* when the signature expires, in seconds since 1970 */
  int32_t status;      /* lwmq_status: LWMQ_OK, or why the module is refused */
  uint32_t loaded;
  char path[512];
  char name[64];       /* the name that the module gives itself; set once it is loaded */
  char key[72];        /* key of the signature, hexadecimal; set even if the key is not trusted */
  char signer[64];     /* name of the key in the trust file */
  char text[512];      /* why the module is refused */
} lwmq_module_view;

/* The n-th module found, loaded or not. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_query_module(uint32_t index, lwmq_module_view *out_view);
/* Checks the module at `path` as if to load it, without loading it. `trust` NULL: the trust file named above. Returns
   LWMQ_OK, or the status in the view, with its text. LWMQ_E_DENIED: there is no signature, or it is of other bytes, by
   a key that is not trusted, or expired. LWMQ_E_CORRUPT: the signature or the trust file is malformed. */
lwmq_status lwmq_module_verify(const char *path, const char *trust, lwmq_module_view *out_view);
/* Writes `path`.sig with the secret key in the file `key`. The signature expires `expires_s` seconds after the start of
   1970. */
lwmq_status lwmq_module_sign(const char *path, const char *key, uint64_t expires_s);
/* Makes a key. Writes the secret half to the new file `key`, which only its owner may read, and the public half, as it
   appears in a trust file, to out_public. */
lwmq_status lwmq_module_make_key(const char *key, char out_public[72]);

/* What an address allows; can be asked before it is opened. Never waits. */
typedef struct lwmq_limits {
  uint64_t size;
  uint64_t buffer_bytes_max;
  uint64_t buffers_max; /* both directions together */
  uint64_t inline_bytes_max; /* largest frame that a message holds without an allocation */
  uint32_t frames_max;
  uint32_t capabilities; /* LWMQ_CAN_* */
  uint32_t loss_ms;      /* within this time a peer that has died is noticed; 0: it cannot die without us */
  uint32_t reserved;
} lwmq_limits;

enum {
  LWMQ_CAN_SEND = 1,
  LWMQ_CAN_RECEIVE = 2,
  LWMQ_CAN_MULTICAST = 4,
  LWMQ_CAN_SHARE_WINDOW = 8, /* memory reaches the peer without a copy */
  LWMQ_IS_RELIABLE = 16,
  LWMQ_IS_ORDERED = 32,
  LWMQ_CAN_ERASE = 64,      /* lwmq_channel_options.secure_erase */
  LWMQ_IS_IN_PROCESS = 128, /* both ends in one process: the posted message itself is handed over, without a copy */
  LWMQ_IS_ONE_WAY = 256     /* the side that serves posts, the side that connects receives; nothing comes back. Whatever
                               needs both directions is refused with LWMQ_E_UNSUPPORTED: receiving or a descriptor on
                               the serving side, send queues on the connecting side, the automatic role, further
                               transports of a channel. A close cannot know what was read */
};

lwmq_status lwmq_query_limits(const char *address, lwmq_limits *out_limits);

/* ---- Values and settings, as users write them ------------------------------------------------------ */

/* Kinds of values. Blanks around a value are ignored; units and words are case-insensitive. */
enum {
  LWMQ_VALUE_BYTES = 0,    /* 512, 64KiB, 4MiB, 1GiB (powers of 1024; 64k, 4m, 1g are the same), 64KB, 4MB, 1GB (powers
                              of 1000); 1.5MiB, if that is a whole number of bytes; at most 2^63 - 1 */
  LWMQ_VALUE_DURATION = 1, /* 100us, 100ms, 5s, 2m (2min), 1h, or a number of seconds; the value is in nanoseconds.
                              UINT64_MAX: `forever`, or more than 64 bits can hold */
  LWMQ_VALUE_COUNT = 2,    /* a whole number, at most 2^63 - 1 */
  LWMQ_VALUE_FLAG = 3,     /* 1: true, yes, 1; 0: false, no, 0 */
  LWMQ_VALUE_WORD = 4,     /* the position, from 0, among the allowed words */
  LWMQ_VALUE_NAME = 5      /* any text of 1 to 255 bytes; the value is their number */
};

/* Reads `text` as a value of `kind`. `words`: for LWMQ_VALUE_WORD the allowed words, as in "auto, server, client"; else
   NULL. Never waits. LWMQ_E_INVALID: the text says what is wrong with the value, what is allowed, and which word may be
   meant. The caller adds where the value stands. */
lwmq_status lwmq_read_value(uint32_t kind, const char *words, const char *text, uint64_t *out_value);
/* For a `text` that is none of `words` (as above): the position of the word that it may be a slip of; -1: none is
   near. */
int32_t lwmq_nearest_word(const char *text, const char *words);

/* What takes a setting from an address. */
enum {
  LWMQ_TAKEN_BY_TRANSPORT = 1, /* lwmq_channel_create, and each further transport of a channel */
  LWMQ_TAKEN_BY_CHANNEL = 2,   /* in Python: a channel as a whole */
  LWMQ_TAKEN_BY_LISTENER = 4,  /* in Python: a listener */
  LWMQ_TAKEN_BY_STREAM = 8,    /* in Python and Spark: writers, readers and endpoints */
  LWMQ_IN_ADDRESS_ALONE = 16   /* beside another of these: neither an environment variable nor a conf file sets it */
};

typedef struct lwmq_setting {
  uint64_t size;
  const char *key;   /* such as "buffer_bytes". Static */
  const char *words; /* for LWMQ_VALUE_WORD, in the order of their numbers in the structures below; else NULL. Static */
  uint64_t least, most;
  uint32_t kind;     /* LWMQ_VALUE_* */
  uint32_t taken_by; /* LWMQ_TAKEN_BY_*, a bit for each that takes it */
} lwmq_setting;

/* The n-th setting. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_query_setting(uint32_t index, lwmq_setting *out_setting);
/* Reads `text` as a value of the setting `key`. LWMQ_E_INVALID: as lwmq_read_value, or the number is out of bounds. */
lwmq_status lwmq_read_setting(const char *key, const char *text, uint64_t *out_value);

typedef struct lwmq_address_option {
  uint64_t size;
  const char *key;     /* static */
  const char *text;    /* of the value, inside the caller's address */
  uint64_t text_bytes;
  uint64_t value;
} lwmq_address_option;

/* The n-th option of an address such as `scheme://name?buffer_bytes=4MiB&retry=1s`, for what `taken_by` says.
   LWMQ_E_EMPTY past the last. LWMQ_E_ADDRESS: the text is no address, or has several; or an option is unknown, given
   twice, taken by something else, or has a wrong value. The text names the option, what is allowed, and what may be
   meant. */
lwmq_status lwmq_read_address_option(const char *address, uint32_t taken_by, uint32_t index,
                                     lwmq_address_option *out_option);

/* ---- Counters ------------------------------------------------------------------------------------ */

/* A counter is one line of the two tables below. The structures lwmq_statistics, lwmq_process_view and
   lwmq_entry_view, the statistics pages, lwmq_counter_at, and through them Java, Python, `lwmq top` and `lwmq export`
   are made from these lines.

     COUNTER(name, type, owners, help)

     name    of the field in the structures
     type    FLOW    a total whose rate is of interest, such as messages
             TOTAL   a total that should stay small, such as losses
             LEVEL   an amount as of now; amounts of several owners can be added up
             NUMBER  identifies something, such as a process; adding it up makes no sense
     owners  what has the counter: PROCESS, or the kinds of entries that do
     help    a sentence for people who see the counter in a tool

   A new counter goes to the end of its table, and no counter ever leaves its place: programs with different versions
   of this library find each other's counters by their places. */

/* Of a whole process, since it loaded the library. */
#define LWMQ_PROCESS_COUNTERS(COUNTER)                                                                               \
  COUNTER(window_bytes, LEVEL, PROCESS, "Bytes of shared memory that the process's own windows hold.")               \
  COUNTER(mapped_bytes, LEVEL, PROCESS, "Bytes of other processes' windows that are mapped here.")                   \
  COUNTER(batches_written, TOTAL, PROCESS, "Batches that the process has written.")                                  \
  COUNTER(batches_read, TOTAL, PROCESS, "Batches that the process has read.")                                        \
  COUNTER(bytes_written, TOTAL, PROCESS, "Bytes of the batches that the process has written.")                       \
  COUNTER(bytes_read, TOTAL, PROCESS, "Bytes of the batches that the process has read.")                             \
  COUNTER(bytes_copied, TOTAL, PROCESS, "Bytes of batches that the library copied while reading.")                   \
  COUNTER(batches_copied, TOTAL, PROCESS,                                                                            \
          "Batches copied because a reader held its share of a writer's window.")                                    \
  COUNTER(peers_lost, TOTAL, PROCESS, "Peers that died, vanished or did not answer.")                                \
  COUNTER(window_bytes_made, TOTAL, PROCESS,                                                                         \
          "Bytes of new windows that writers have made; warm ones that were kept from before do not count.")

/* Of one writer, reader, endpoint, channel, listener or send queue. */
#define LWMQ_ENTRY_COUNTERS(COUNTER)                                                                                 \
  COUNTER(partitions, LEVEL, WRITER | READER | ENDPOINT, "Partitions of the stream.")                                \
  COUNTER(batches, FLOW, WRITER | READER | ENDPOINT, "Batches written, read or served.")                             \
  COUNTER(rows, FLOW, WRITER | READER | ENDPOINT, "Rows of those batches.")                                          \
  COUNTER(bytes, FLOW, WRITER | READER | ENDPOINT, "Bytes of those batches.")                                        \
  COUNTER(window_bytes, LEVEL, WRITER, "Bytes of the writer's windows.")                                             \
  COUNTER(window_used_bytes, LEVEL, WRITER, "Bytes of blocks in those windows that are not free.")                   \
  COUNTER(unread_batches, LEVEL, WRITER | ENDPOINT,                                                                  \
          "Writer: batches in blocks that are not free yet. Endpoint: batches that no reader has moved past.")       \
  COUNTER(kept_batches, LEVEL, ENDPOINT, "Batches in the endpoint's log.")                                           \
  COUNTER(kept_bytes, LEVEL, ENDPOINT, "Bytes of the batches in the endpoint's log.")                                \
  COUNTER(leased_batches, LEVEL, READER, "Batches that the reader's application holds.")                             \
  COUNTER(leased_bytes, LEVEL, READER, "Bytes of the batches that the reader's application holds.")                  \
  COUNTER(readers, LEVEL, ENDPOINT, "Readers at the endpoint.")                                                      \
  COUNTER(writers, LEVEL, ENDPOINT, "Producers at the endpoint: writers and jobs.")                                  \
  COUNTER(peer_pid, NUMBER, WRITER | READER | CHANNEL,                                                               \
          "Waiting writer: the process that holds the room, or whose answer is awaited. Reader: the process "        \
          "that wrote its last batch. Channel: the peer's process.")                                                 \
  COUNTER(readers_stalled, LEVEL, ENDPOINT, "Readers that take nothing while a writer waits for them.")              \
  COUNTER(readers_expelled, TOTAL, ENDPOINT, "Readers that were shut out because they kept a writer waiting.")       \
  COUNTER(readers_lost, TOTAL, ENDPOINT, "Readers that died or failed before they had read everything.")             \
  COUNTER(stalled_pid, NUMBER, ENDPOINT, "The process of one of the stalled readers.")                               \
  COUNTER(messages_posted, FLOW, CHANNEL | QUEUE, "Messages that the application posted.")                           \
  COUNTER(messages_sent, FLOW, CHANNEL | QUEUE, "Messages shipped to the peer.")                                     \
  COUNTER(messages_received, FLOW, CHANNEL, "Messages that came from the peer.")                                     \
  COUNTER(bytes_sent, FLOW, CHANNEL, "Bytes shipped to the peer.")                                                   \
  COUNTER(bytes_received, FLOW, CHANNEL, "Bytes that came from the peer.")                                           \
  COUNTER(messages_queued, LEVEL, CHANNEL | QUEUE, "Messages that wait to be shipped.")                              \
  COUNTER(messages_lost, TOTAL, CHANNEL, "Messages shipped and not known to be read when a peer was lost.")          \
  COUNTER(receive_queued, LEVEL, CHANNEL, "Messages that wait to be received, unless the receive queue is mono.")    \
  COUNTER(messages_discarded, TOTAL, CHANNEL | QUEUE,                                                                \
          "Channel: messages discarded by the rule of its receive queue. Queue: discarded before they were shipped.") \
  COUNTER(messages_replaced, TOTAL, QUEUE, "Messages replaced by a later one with the same tag.")                    \
  COUNTER(duplicates_dropped, TOTAL, CHANNEL, "Messages that had come before over another of redundant transports.") \
  COUNTER(priority, NUMBER, QUEUE, "Priority of the queue.")                                                         \
  COUNTER(clients_accepted, FLOW, LISTENER, "Clients that were given a channel.")                                    \
  COUNTER(clients_waiting, LEVEL, LISTENER, "Clients that are connected and wait to be accepted.")                   \
  COUNTER(clients_refused, TOTAL, LISTENER | CHANNEL, "Clients that were refused.")

/* A counter as the field of a structure. */
#define LWMQ_COUNTER_FIELD(name, type, owners, help) uint64_t name;

/* Counters of this process since it loaded the library: LWMQ_PROCESS_COUNTERS. */
typedef struct lwmq_statistics {
  uint64_t size;
  LWMQ_PROCESS_COUNTERS(LWMQ_COUNTER_FIELD)
} lwmq_statistics;

lwmq_status lwmq_query_statistics(lwmq_statistics *out_statistics);

/* The largest amount of window memory that this process may hold; 0 restores the default (half of what the machine and
   our cgroups have free when first asked). */
lwmq_status lwmq_set_window_memory(uint64_t bytes_max);

/* Ties the library's threads, present and future, to these processors. A single processor becomes the ideal processor
   of all threads. `count` 0 lets the threads run wherever the main thread may. The library starts few threads, each
   once: lwmq-channels and lwmq-connect with the first channel, lwmq-calls with the first call-back, one for each
   provider that needs it, and one lwmq-endpoint for all endpoints. LWMQ_E_INVALID: a processor does not exist, or is
   not allowed for this process; then nothing has changed. */
lwmq_status lwmq_set_service_affinity(const uint32_t *processors, uint32_t count);

/* ---- What the processes of this machine do ------------------------------------------------------- */

/* Each process keeps counters of its writers, readers, endpoints and channels on a page that others can map. An
   observer finds the pages of all processes whose descriptors we may open (our own user's; root: everybody's) and
   copies their content. The observed processes do no work for this and do not notice it, even when they hang. */
typedef struct lwmq_observer lwmq_observer;

typedef struct lwmq_process_view {
  uint64_t size;
  uint32_t pid, uid;      /* as we see them */
  uint32_t page_version;  /* of its page */
  uint32_t known;         /* 0: its page has another version than ours, and nothing below is known */
  uint64_t entry_count;
  uint64_t unlisted;      /* writers, readers, endpoints and channels for which its page had no room */
  char library[16];
  LWMQ_PROCESS_COUNTERS(LWMQ_COUNTER_FIELD) /* as in lwmq_statistics */
} lwmq_process_view;

enum { LWMQ_ENTRY_WRITER = 1, LWMQ_ENTRY_READER = 2, LWMQ_ENTRY_ENDPOINT = 3, LWMQ_ENTRY_CHANNEL = 4,
       LWMQ_ENTRY_QUEUE = 5, LWMQ_ENTRY_LATENCY = 6, LWMQ_ENTRY_LISTENER = 7 };
enum {
  LWMQ_ENTRY_CONNECTED = 1,
  LWMQ_ENTRY_SERVER = 2,
  LWMQ_ENTRY_CLOSED = 4, /* a reader whose batches are still held; a writer that waits until it was read to its end;
                            times of a filter that was removed */
  LWMQ_ENTRY_STALLED = 8 /* a reader or writer: the endpoint that it waits for lives but does not answer */
};

/* One writer, reader, endpoint, channel, listener or send queue of a channel; or the times that a filter has measured
   since it was added (`latency`, once it has measured any). Fields that do not apply to the kind, or that the
   observed process's version of the library does not count, are 0. */
typedef struct lwmq_entry_view {
  uint64_t size;
  uint32_t kind;             /* LWMQ_ENTRY_WRITER ... */
  uint32_t flags;            /* LWMQ_ENTRY_CONNECTED ... */
  uint64_t opened_ns;        /* CLOCK_REALTIME */
  char address[160];         /* truncated if longer */
  char name[64];             /* of a reader, a job; channel of a listener: the number of its client; queue: its number
                                on the channel; latency: the filter with its settings */
  uint64_t waiting_ns;       /* how long it has been waiting: a writer for room, a reader for a batch */
  uint64_t unmoved_ns;       /* since a writer wrote, or a reader was lent, its last batch; 0: none yet */
  uint64_t took_ns;          /* latency: the sum of all its times */
  uint64_t took[32];         /* latency: element i counts times of at most 64 ns << i that are too long for i - 1; the
                                last element counts all longer times */
  LWMQ_ENTRY_COUNTERS(LWMQ_COUNTER_FIELD)
} lwmq_entry_view;

enum { LWMQ_COUNTER_FLOW = 1, LWMQ_COUNTER_TOTAL = 2, LWMQ_COUNTER_LEVEL = 3, LWMQ_COUNTER_NUMBER = 4 };

/* A line of the tables of counters, for programs that show every counter. */
typedef struct lwmq_counter {
  uint64_t size;
  const char *name; /* of the field in lwmq_process_view or lwmq_entry_view; lent for ever, as `help` */
  const char *help; /* a sentence */
  uint32_t type;    /* LWMQ_COUNTER_FLOW ... */
  uint32_t owners;  /* bit 0: a process has this counter; bit LWMQ_ENTRY_WRITER: a writer has it; and so on */
} lwmq_counter;

/* Describes the index-th counter: those of a process, then those of entries, each in the order of their fields.
   LWMQ_E_EMPTY past the last. */
lwmq_status lwmq_counter_at(uint32_t index, lwmq_counter *out_counter);

lwmq_status lwmq_observer_create(lwmq_observer **out_observer);
/* Looks: finds new processes, forgets those that have gone, copies all counters. Waits for nobody. */
lwmq_status lwmq_observer_look(lwmq_observer *observer, uint64_t *out_process_count);
/* What the last look has found; processes are in the order of their pids. LWMQ_E_INVALID past the last. */
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
  LWMQ_ROLE_CLIENT = 2  /* connects, and keeps trying in the background */
} lwmq_role;

/* ---- Messages ---------------------------------------------------------------------------------- */

typedef struct lwmq_message lwmq_message;

/* What the library tells the owner of an external frame: LWMQ_FRAME_ACQUIRE once, when the frame is appended;
   LWMQ_FRAME_RELEASE once, when the last message that shows it is gone. May be called on any thread, while the library
   holds no lock; a release caused by another release comes after it. The call-back may call the library, but must not
   destroy a channel. It should not wait: its thread may be the very one that has to ship, or to clear away, what the
   call-back would wait for. */
enum { LWMQ_FRAME_ACQUIRE = 0, LWMQ_FRAME_RELEASE = 1 };
typedef void (*lwmq_frame_callback)(void *context, int32_t event);

/* Each call below either does all that it says or changes nothing; none waits. Calls that may need memory can return
   LWMQ_E_NO_MEMORY. */

/* Makes an empty message. `frames_hint` reserves room. lwmq_message_destroy gives it back. */
lwmq_status lwmq_message_create(uint32_t frames_hint, lwmq_message **out_message);
/* Appends a copy of `bytes` bytes at `data`. Frames that together fit into lwmq_limits.inline_bytes_max lie in the
   message itself. LWMQ_E_TOO_BIG, here and below: the message has lwmq_limits.frames_max frames already. */
lwmq_status lwmq_message_append(lwmq_message *message, const void *data, uint64_t bytes);
/* Appends memory that outlives everything, without a copy. */
lwmq_status lwmq_message_append_static(lwmq_message *message, const void *data, uint64_t bytes);
/* Appends the caller's memory without a copy. On failure neither call-back is made. */
lwmq_status lwmq_message_append_external(lwmq_message *message, const void *data, uint64_t bytes,
                                         lwmq_frame_callback callback, void *context);
/* A second handle on the same frames, with its own lifetime. Frames appended to one handle do not show in the other. */
lwmq_status lwmq_message_reference(lwmq_message *message, lwmq_message **out_message);
uint32_t lwmq_message_frame_count(const lwmq_message *message);
/* Lends frame `index`; valid until the message is destroyed. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_message_frame(const lwmq_message *message, uint32_t index, const void **out_data,
                               uint64_t *out_bytes);

/* Timestamps say when a frame was made. They are ticks of 100 ns since 1601-01-01 00:00 UTC and travel with their
   frame; the source clock does not travel. */
typedef enum lwmq_timestamp_source {
  LWMQ_TIMESTAMP_NONE = 0,    /* removes the timestamp */
  LWMQ_TIMESTAMP_SYSTEM = 1,  /* now, as of the kernel's last tick: some milliseconds old, and cheap */
  LWMQ_TIMESTAMP_PRECISE = 2, /* now, to 100 ns */
  LWMQ_TIMESTAMP_EXPLICIT = 3 /* `ticks`, which must not be 0 */
} lwmq_timestamp_source;
#define LWMQ_TICKS_1970 116444736000000000

/* Gives frame `index` a timestamp; `ticks` is used only with EXPLICIT. LWMQ_E_INVALID: no such frame or source. */
lwmq_status lwmq_message_set_timestamp(lwmq_message *message, uint32_t index, int32_t source, uint64_t ticks);
/* The ticks of frame `index`; 0: it has no timestamp. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_message_timestamp(const lwmq_message *message, uint32_t index, uint64_t *out_ticks);
/* Takes the message. NULL is allowed. */
void lwmq_message_destroy(lwmq_message *message);

/* ---- Channels ---------------------------------------------------------------------------------- */

typedef struct lwmq_channel lwmq_channel;
typedef struct lwmq_send_queue lwmq_send_queue;

typedef struct lwmq_channel_options {
  uint64_t size;
  uint64_t buffer_bytes;    /* of each transport buffer; the largest message; default 64 KiB */
  uint32_t buffers_send;    /* default 32; their memory is used as needed: 8 MiB, or three buffers, under heavy traffic,
                               and more if the peer does not keep up */
  uint32_t buffers_receive; /* how many of the peer's buffers, at most; 0: as many as the peer makes */
  uint32_t retry_ms;        /* between attempts to connect; default 100 */
  uint32_t raw;             /* 1: direct buffer access instead of messages */
  uint32_t secure_erase;    /* 1: our memory is zeroed when its content is no longer needed; see below */
  uint32_t home_thread;     /* 1: made for the thread that creates it, which posts and receives without an atomic
                               operation; other threads may use it, too, and pay the cost of both */
  uint32_t receive_queue;   /* LWMQ_QUEUE_MONO_UNBOUNDED (default), _MULTI_UNBOUNDED, _BOUNDED_DISCARD_OLDEST or
                               _NEWEST */
  uint32_t reserved;
  uint64_t receive_capacity; /* messages; at least 1 for a bounded receive queue, 0 for every other */
} lwmq_channel_options;

/* secure_erase concerns memory of our own. A transport buffer is zeroed once the peer has released it: before it is
   used again or given up, and soon even on an idle side (the service thread checks less and less often, but at least
   every 0.4 s). Blocks and copied frames of messages posted to or received from the channel are zeroed when the last
   handle on them is gone. Not erased, because not ours: external and static frames; the peer's buffers (each side sets
   the option for its own); and buffers that the peer still holds when we close, which the kernel clears when the last
   mapping is gone. LWMQ_E_UNSUPPORTED from create: the provider cannot erase. */

/* Receive queues.
   mono             one thread receives at a time. Messages stay in the transport's buffers until they are received;
                    when the buffers are full, the peer's sends wait for that
   multi, bounded   any number of threads receive; each message goes to one of them. While nobody receives, the service
                    thread lands what comes: the peer's sends complete and count as read. What a close finds in the
                    queue is lost, and counts as lost at the peer
   bounded          a receive first lands what has come. A message that finds the queue full discards the oldest one in
                    it, or is discarded itself (newest); lwmq_channel_query counts these. If more than a thousand
                    messages have come at once, receives look again after some milliseconds */

/* Makes a channel on one transport at `address`, which may have options:
   `ipc://orders?buffer_bytes=4MiB&buffers=16&retry=250ms` (also buffers_send, buffers_receive). The structure `options`
   takes precedence over them. Nothing happens before lwmq_channel_open. LWMQ_E_ADDRESS: the address is malformed, has a
   scheme that no provider claims, or an invalid option. LWMQ_E_INVALID, with the numbers. LWMQ_E_UNSUPPORTED: the
   transport cannot erase. LWMQ_E_NO_MEMORY. */
lwmq_status lwmq_channel_create(const char *address, const lwmq_channel_options *options,
                                lwmq_channel **out_channel);

typedef struct lwmq_transport_options {
  uint64_t size;
  uint64_t buffer_bytes;    /* 0, or the channel's own: all transports of a channel have one size */
  uint32_t buffers_send, buffers_receive, retry_ms; /* as in lwmq_channel_options */
  uint32_t redundant;       /* 1: another way to the peer of the others, in case one fails. Set it for all or for
                               none */
} lwmq_transport_options;

/* Adds a further transport at `address`, before open and before the first post. Up to 64, of any scheme, the same
   scheme as often as wanted. The settings with which the channel was created (secure_erase, home_thread, the receive
   queue) apply to it, too, and so does LWMQ_E_UNSUPPORTED. Each message posted goes to the peer of each transport. It
   is encoded for each, and waits there if that peer is not connected yet; a slow or lost peer holds up no other. What
   comes over any transport is received from the one channel, in turns, in order per transport. When a peer ends, this
   is reported and the others go on. wait_connected waits for a peer on each transport; flush and close cover all of
   them. lwmq_channel_query sums over them; `connected` is 1 when all are. Two transports that lead to the same channel
   of the same process are refused: receive and wait_connected return LWMQ_E_INVALID, once, on both sides.
   LWMQ_E_INVALID: `options` contradict what the transports of the channel share.
   Redundant transports (both sides must say so) are several ways to one peer; any of them may fail. Each message goes
   every way with a number (24 bytes, 48 for a message of one frame). Duplicates are dropped and counted. Order is kept
   per send queue. LWMQ_E_UNSUPPORTED with a receive queue that is not mono. As long as one way to a peer is left, the
   end of another is not reported and loses nothing. wait_connected waits for one way, and `connected` is 1 when there
   is one; flush and close wait until one way has delivered everything. A way that is down for long fills its queues:
   bounded kinds limit how much of that is kept */
lwmq_status lwmq_channel_add_transport(lwmq_channel *channel, const char *address,
                                       const lwmq_transport_options *options);

/* Kinds of send queues. A channel and a priority may have any number and mix of them.
   mono       one thread posts at a time, without a lock, and without an atomic read-modify-write on the queue
   all others any number of threads post; the messages of each thread keep their order
   bounded    holds at most `capacity` messages that are not yet on their way. A post to a full queue discards the
              oldest message, or the posted one (discard newest), and returns LWMQ_OK; lwmq_send_queue_query counts
              these
   tagged     conflates: a post with a tag first removes the message of the same tag that is not yet on its way, and
              goes to the end. Tags are local; they are not sent. Tag 0 is no tag */
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

/* Time critical is strict: while its queues have messages, no other is served. Idle is served when all other queues are
   empty. The five priorities in between share by weights. Queues of one priority take turns, message by message. */
enum {
  LWMQ_PRIORITY_TIME_CRITICAL = 1,
  LWMQ_PRIORITY_HIGHEST = 2,
  LWMQ_PRIORITY_ABOVE_NORMAL = 3,
  LWMQ_PRIORITY_NORMAL = 4,
  LWMQ_PRIORITY_BELOW_NORMAL = 5,
  LWMQ_PRIORITY_LOWEST = 6,
  LWMQ_PRIORITY_IDLE = 7
};

/* Adds a queue, before or after open; any thread. The queue lives as long as the channel. LWMQ_E_INVALID has the
   numbers: no such kind or priority, a bounded kind without a capacity, another kind with one. */
lwmq_status lwmq_channel_add_send_queue(lwmq_channel *channel, const lwmq_send_queue_options *options,
                                        lwmq_send_queue **out_queue);
/* Sets how many messages each of the priorities HIGHEST to LOWEST may send in a round before the next has its turn.
   `count` is 5; each weight is 0 to 65,535; default 16, 8, 4, 2, 1. A priority of weight 0 is served when those with a
   weight are empty. Any thread; waits for a thread that is shipping. */
lwmq_status lwmq_channel_set_weights(lwmq_channel *channel, const uint32_t *weights, uint32_t count);
/* Moves the queue with all its messages to another priority. Any thread; waits for a thread that is shipping. */
lwmq_status lwmq_send_queue_set_priority(lwmq_send_queue *queue, uint32_t priority);
/* Binds or begins to connect; does not wait for a peer. In the automatic role it finds out whether somebody listens;
   this takes 0.2 s for each transport whose listening process is stopped. If one of several transports fails, all are
   closed. LWMQ_E_ADDRESS: somebody else has bound it. LWMQ_E_INVALID: open already, or no such role.
   LWMQ_E_UNSUPPORTED: a one-way transport cannot be used from this end. LWMQ_E_SYSTEM. */
lwmq_status lwmq_channel_open(lwmq_channel *channel, int32_t role);
/* Waits until a peer is there. LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED, LWMQ_E_CLOSED; also the status with which a
   receive reports a failure to connect. */
lwmq_status lwmq_channel_wait_connected(lwmq_channel *channel, uint32_t timeout_ms);
/* Posts `*message`, even before the channel is open. Never waits. One thread at a time posts to a mono queue, any
   number to all other kinds; messages of one thread keep their order.
   LWMQ_OK: takes the message and sets *message to NULL. Otherwise it is still the caller's: LWMQ_E_TOO_BIG,
   LWMQ_E_CLOSED, LWMQ_E_NO_MEMORY, LWMQ_E_INVALID (two threads at once on a mono queue, which is usually detected). */
lwmq_status lwmq_send_queue_post(lwmq_send_queue *queue, lwmq_message **message);
/* Posts one frame of `bytes` bytes, copied; the shortcut for small messages. */
lwmq_status lwmq_send_queue_post_bytes(lwmq_send_queue *queue, const void *data, uint64_t bytes);
/* As lwmq_send_queue_post, with a tag. LWMQ_E_INVALID: a tag other than 0 on a queue of no tagged kind. */
lwmq_status lwmq_send_queue_post_tagged(lwmq_send_queue *queue, uint64_t tag, lwmq_message **message);
/* As lwmq_send_queue_post_tagged, but waits at most timeout_ms until a bounded queue has room. If it then has none, the
   queue's discard rule applies with `or_discard` 1. With 0 nothing is discarded, and the call returns LWMQ_E_TIMED_OUT,
   or LWMQ_E_FULL if timeout_ms is 0. LWMQ_E_INVALID: a timeout other than 0 on an unbounded queue. LWMQ_E_UNSUPPORTED:
   the channel has several transports, unless the call discards without a wait. LWMQ_E_INTERRUPTED, LWMQ_E_CLOSED (from
   another thread) end the wait. After all of these the message is still the caller's. */
lwmq_status lwmq_send_queue_post_wait(lwmq_send_queue *queue, uint64_t tag, uint32_t timeout_ms,
                                      uint32_t or_discard, lwmq_message **message);
/* Waits until a bounded queue has room, without a message; for applications that wait on another thread than the one
   that posts. Another thread may post first. LWMQ_E_FULL: no room, and timeout_ms is 0. LWMQ_E_TIMED_OUT and the other
   statuses of lwmq_send_queue_post_wait. */
lwmq_status lwmq_send_queue_wait_room(lwmq_send_queue *queue, uint32_t timeout_ms);

typedef struct lwmq_bytes {
  const void *data;
  uint64_t bytes;
} lwmq_bytes;

/* Posts `count` messages of one frame each, copied, in order; cheaper than a call for each. Never waits. *out_posted is
   written on every outcome: the number posted, counted from the first. LWMQ_E_TOO_BIG: none was posted. LWMQ_E_CLOSED,
   from another thread: messages that were posted and had not left are gone. */
lwmq_status lwmq_send_queue_post_many(lwmq_send_queue *queue, const lwmq_bytes *frames, uint64_t count,
                                      uint64_t *out_posted);
/* The same for messages; none may appear twice. Those that were posted were taken and are NULL in the array. */
lwmq_status lwmq_send_queue_post_messages(lwmq_send_queue *queue, lwmq_message **messages, uint64_t count,
                                          uint64_t *out_posted);

/* Counters since the queue was made. While nobody posts or ships, `posted` is the sum of the four below it. For a
   channel with several transports these four are sums over the transports, but `posted` is not. */
typedef struct lwmq_send_queue_statistics {
  uint64_t size;
  uint32_t kind;
  uint32_t priority;
  uint64_t capacity;
  uint64_t posted;    /* posts that returned LWMQ_OK */
  uint64_t collected; /* on their way to a peer, or arrived */
  uint64_t discarded; /* by the rule of a bounded queue, or by a close */
  uint64_t replaced;  /* by a later post with the same tag */
  uint64_t queued;    /* now */
} lwmq_send_queue_statistics;

/* Any thread. After a close: the last figures, until destroy. */
lwmq_status lwmq_send_queue_query(const lwmq_send_queue *queue, lwmq_send_queue_statistics *out_statistics);
/* Receives the next message. lwmq_message_destroy gives it back, at any time. A message of 4 KiB and more lies where it
   landed and keeps one of the peer's buffers, as long as no more than half of these are kept so; other messages are
   copies.
   After the loss of the peer, messages that were committed come first, then once LWMQ_E_PEER_LOST, or LWMQ_E_CLOSED for
   a peer that closed in order; a new peer may follow. A peer that closed before it had shipped all that was posted
   counts as lost; the text says how much never came. A failure to connect that needs an intervention (LWMQ_E_VERSION,
   LWMQ_E_DENIED, LWMQ_E_INVALID, LWMQ_E_SYSTEM and the like) is returned repeatedly until an attempt succeeds.
   LWMQ_E_CORRUPT: the peer broke the protocol, and was dropped. LWMQ_E_NO_MEMORY: there is no memory for a message that
   has come; the message waits, and the next receive tries again. */
lwmq_status lwmq_channel_receive(lwmq_channel *channel, uint32_t timeout_ms, lwmq_message **out_message);
/* As lwmq_channel_receive, but takes all messages that have come, at most `limit`; waits only for the first.
   `out_messages` has room for `limit` pointers; *out_count is at least 1. The end of the peer's conversation is
   returned by a separate call, after all messages. */
lwmq_status lwmq_channel_receive_many(lwmq_channel *channel, uint32_t limit, uint32_t timeout_ms,
                                      lwmq_message **out_messages, uint32_t *out_count);

/* A message that is lent: its first frame (NULL and 0 if it has none), and its handle if it has one. If `message` is
   NULL, the bytes are the whole message and lie where the peer wrote them: copy any value before you check and use it.
   The handle belongs to the loan; lwmq_message_reference keeps the content beyond the loan. */
typedef struct lwmq_lent {
  const void *data;
  uint64_t bytes;
  lwmq_message *message;
} lwmq_lent;
/* For applications that look at a message and then receive the next. Small messages of one frame need neither a copy
   nor a handle. They count as read when they are given back, or when a receive waits for more. One thread at a time
   uses a loan; it may serve any number of channels, one after the other. Each lent message keeps a whole buffer from
   the peer: a thread that holds all of the peer's buffers and waits for more, other than by this loan, waits
   forever. */
typedef struct lwmq_loan lwmq_loan;
/* Makes a loan for up to `limit` messages at a time, at least 1. */
lwmq_status lwmq_loan_create(uint32_t limit, lwmq_loan **out_loan);
/* Gives back what `loan` holds, whatever the outcome, then receives like lwmq_channel_receive_many, except that the
   received messages belong to the loan until the next call with it. *out_lent shows *out_count messages, at least 1, or
   nothing on failure; more may have come than the loan takes at a time. The messages stay readable after the peer is
   lost and the channel is closed. */
lwmq_status lwmq_channel_receive_loan(lwmq_channel *channel, uint32_t timeout_ms, lwmq_loan *loan,
                                      const lwmq_lent **out_lent, uint32_t *out_count);
/* Gives back what is lent. Never waits. RELEASE call-backs may run in here, in the next receive, and in destroy. */
void lwmq_loan_give_back(lwmq_loan *loan);
/* Takes the loan, and gives back what it holds. */
void lwmq_loan_destroy(lwmq_loan *loan);

/* A descriptor for poll, epoll and the like. It is readable, unless nothing has come since a receive found nothing. So:
   poll for reading, then receive with a timeout of 0 until LWMQ_E_EMPTY, and poll again; what is not received keeps it
   readable. Each message, each report and the close of the channel make it readable; occasionally it is readable for no
   reason. While nothing comes, nobody wakes. Do not read from it. Lent until destroy. Any thread; may wait for a thread
   that receives. */
lwmq_status lwmq_channel_descriptor(lwmq_channel *channel, int32_t *out_descriptor);
/* Called, in order, with each message that has come, which the call-back owns; or with NULL and the status that a
   receive would have returned (the loss of the peer, the end of its conversation); lwmq_last_error has its text. After
   the channel's own close it is called once more, with LWMQ_E_CLOSED. For a channel that a listener gave, the end of
   its client is the last call. */
typedef void (*lwmq_on_message)(void *context, lwmq_status status, lwmq_message *message);
/* From now on `callback` receives, on a thread of the library that all channels share; while it runs, the calls of
   other channels wait. It may post to any channel and end its own calls; it must not destroy its channel. NULL ends the
   calls: when this function returns, none runs any more, except the one that called it. Replaces the channel's previous
   notice. LWMQ_E_INVALID: the channel is raw or not open. */
lwmq_status lwmq_channel_on_message(lwmq_channel *channel, lwmq_on_message callback, void *context);
/* From now on `signal` (SIGRTMIN to SIGRTMAX) is queued to this process with `value` when there is something to
   receive, and again when something comes after a receive with a timeout of 0 returned LWMQ_E_EMPTY; occasionally for
   no reason. 0 ends that, but a signal that is already queued is still delivered. Replaces the channel's previous
   notice. */
lwmq_status lwmq_channel_signal_on_message(lwmq_channel *channel, int32_t signal, void *value);
/* Waits until the queues are empty and everything was shipped: the peer has it, but need not have read it. Also waits
   for what others post meanwhile. LWMQ_E_TIMED_OUT, also with a timeout of 0: some messages still wait, for a peer or
   for room. LWMQ_E_CLOSED: another thread has closed the channel, and may have dropped messages. The loss of a peer is
   reported by a receive; messages that still wait then are for the next peer. */
lwmq_status lwmq_channel_flush(lwmq_channel *channel, uint32_t timeout_ms);

typedef struct lwmq_channel_statistics {
  uint64_t size;
  uint32_t connected; /* 0 or 1 */
  uint32_t is_server;
  uint64_t messages_posted, messages_shipped, messages_received;
  uint64_t messages_lost;      /* shipped, and not known to be read when the peer was lost */
  uint64_t buffers_shipped;
  uint64_t shipped_full, shipped_idle; /* why a buffer was closed: no room, or queues empty */
  uint64_t bytes_shipped, bytes_received;
  uint64_t peers_lost;
  uint32_t buffers_free; /* send buffers that are available at once */
  uint64_t messages_passed; /* of those shipped: handed unchanged to a peer in this process */
  uint64_t receive_queued;    /* in the receive queue now; 0 if it is mono */
  uint64_t receive_discarded; /* by the rule of a bounded receive queue; also counted as received */
  uint64_t duplicates_dropped; /* received before over another redundant transport; not counted as received */
  uint64_t clients_refused;    /* server: of another version, purpose or user, or with numbers that do not fit ours */
  uint64_t messages_unread; /* shipped to the present peers, and not known to be read yet */
} lwmq_channel_statistics;

/* Any thread. After a close: the last figures, until destroy. */
lwmq_status lwmq_channel_query(const lwmq_channel *channel, lwmq_channel_statistics *out_statistics);

typedef struct lwmq_peer {
  uint64_t size;
  uint32_t connected;   /* 0: it has gone, as far as somebody has noticed */
  uint32_t pid, uid;
  uint32_t number;      /* counts the peers that have come over this transport, from 1; 0: none has come */
  uint8_t instance[16]; /* of its process: as in lwmq_identity */
} lwmq_peer;

/* The present or last peer of transport `transport` of the channel; 0 is the first transport. Any thread. LWMQ_E_EMPTY:
   nobody has come yet. LWMQ_E_INVALID past the last. LWMQ_E_CLOSED after a close. */
lwmq_status lwmq_channel_peer(lwmq_channel *channel, uint32_t transport, lwmq_peer *out_peer);
/* How many peers have ended so far, over all transports of the channel, whether or not a receive has reported them. A
   request made after this count was read is not lost by an end whose number is the count or less. Any thread. Never
   waits. */
lwmq_status lwmq_channel_ends(const lwmq_channel *channel, uint64_t *out_ends);
/* Waits until a peer comes or goes, that is, until lwmq_channel_peer would return another `number` or `connected` than
   *peer has; then returns the same as lwmq_channel_peer. On entry *peer is what the caller knows, or has only its size
   set: then the call returns any peer that is there. A loop around it sees each coming and going, but only the last of
   those between two calls. Any number of threads. LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED. LWMQ_E_CLOSED: no further peer
   can come. A failure that keeps a peer away is reported by a receive. */
lwmq_status lwmq_channel_wait_peer(lwmq_channel *channel, uint32_t transport, uint32_t timeout_ms, lwmq_peer *peer);

/* -- Many clients at one address --
   A channel that serves has one client at a time; the next client is heard when that one has gone. A listener takes
   each client as it comes and gives each a channel of its own. With a selector, one thread serves all of them and the
   listener. Here each transport of a client is a separate client: what redundant transports carry arrives over each of
   them. */
typedef struct lwmq_listener lwmq_listener;

/* Binds `address`, which may have options as for a channel. `options` apply to each channel that the listener gives
   (NULL: defaults). Filters named in the address apply to each of these channels and form one list: adding or removing
   one at any channel adds or removes it at all of them, from their next look on. Failures as of lwmq_channel_create and
   lwmq_channel_open. Does not wait. */
lwmq_status lwmq_listener_open(const char *address, const lwmq_channel_options *options, lwmq_listener **out_listener);
/* The next client: a channel that belongs to the caller, is open and connected, and outlives the listener. It serves
   that client only. When the client has gone, what it sent can still be received, then its end is reported as that of
   any peer. From then on receives return LWMQ_E_CLOSED (posts do at once), and all that is left is to destroy the
   channel. What the client sends before it is accepted waits for it. 128 clients wait to be accepted, and perhaps 64
   more; further ones wait in their attempts to connect.
   Any thread, several at once. LWMQ_E_TIMED_OUT, LWMQ_E_EMPTY, LWMQ_E_INTERRUPTED. LWMQ_E_CLOSED, also from another
   thread. LWMQ_E_NO_MEMORY: this client was disconnected. */
lwmq_status lwmq_listener_accept(lwmq_listener *listener, uint32_t timeout_ms, lwmq_channel **out_channel);
/* For poll, epoll and the like: readable while a client waits to be accepted, and after the listener was closed. Do not
   read from it. Lent until destroy. Any thread. */
lwmq_status lwmq_listener_descriptor(const lwmq_listener *listener, int32_t *out_descriptor);
/* Its address without options, as it was bound: a provider that was left the choice, of a port, say, has made it.
   Filters stand before it as they did. Lent until destroy. Any thread. */
lwmq_status lwmq_listener_address(const lwmq_listener *listener, const char **out_address);

typedef struct lwmq_listener_statistics {
  uint64_t size;
  uint64_t accepted;
  uint64_t waiting;  /* connected and not accepted, now */
  uint64_t refused;  /* as clients_refused of a channel */
  char refusal[256]; /* why the last client was refused; truncated if longer */
} lwmq_listener_statistics;

/* Any thread. */
lwmq_status lwmq_listener_query(lwmq_listener *listener, lwmq_listener_statistics *out_statistics);
/* Frees the address, and disconnects clients that nobody has accepted. Channels that it gave live on. Any thread; ends
   the waits of others. Never waits for a client. LWMQ_E_CLOSED: it was closed before. */
lwmq_status lwmq_listener_close(lwmq_listener *listener);
/* Takes the listener, closed or not; waits until no thread is in accept any more. NULL is allowed. */
void lwmq_listener_destroy(lwmq_listener *listener);

/* -- Filters --
   A filter stands between a channel and its transport (the first, if there are several) and sees every extent both
   ways: trace, record, replay, loss, delay, reorder, corrupt, rate, latency, and those of modules. An address names
   filters in front of its scheme, nearest to the application first, each with its settings:
   `trace+loss=0.01,seed=7+ipc://orders`; `filters+ipc://orders` begins without any. A channel whose address names no
   filters cannot have any, and pays nothing for them. An extent that a filter drops is lost even on a reliable
   transport: nothing repairs it. It is counted here, and counts as not received in the peer's goodbye. */

#define LWMQ_FILTER_LAST 4294967295

typedef struct lwmq_filter_view {
  uint64_t size;
  char name[32];
  char settings[256]; /* truncated if longer */
  uint64_t seen, dropped, changed; /* extents, both ways, over all peers that came */
  uint64_t sourced;   /* extents of its own */
  uint64_t held;      /* now; plus one while it has extents of its own to come */
  uint64_t failed;    /* extents on which it could not do its work, such as for a full disk; and instances that could
                         not be made while extents passed, which then let everything pass */
  uint64_t timed;     /* extents whose time it has measured: see lwmq_channel_query_times */
} lwmq_filter_view;

/* Adds `filter`, such as "delay=5ms", at `place`: 0 is nearest to the application, LWMQ_FILTER_LAST nearest to the
   wire. Any thread; extents may pass meanwhile, and those that come after the call pass through the filter.
   LWMQ_E_INVALID: no such filter, place or setting. LWMQ_E_UNSUPPORTED: the address names no filters. LWMQ_E_SYSTEM,
   LWMQ_E_CORRUPT, LWMQ_E_VERSION: its file. */
lwmq_status lwmq_channel_add_filter(lwmq_channel *channel, const char *filter, uint32_t place);
/* Removes the filter at `place`. What it held lands now; a receive that already waits gets it within 0.25 s. */
lwmq_status lwmq_channel_remove_filter(lwmq_channel *channel, uint32_t place);
/* LWMQ_E_INVALID past the last. */
lwmq_status lwmq_channel_query_filter(const lwmq_channel *channel, uint32_t place, lwmq_filter_view *out_view);

/* A quantile of the times that the filter at `place` has measured (`latency`): the time within which the share `share`
   of them lies, from 0 to 1, accurate to 1.6 %. 0.5 is the median, 1 the longest time. LWMQ_E_EMPTY: it has measured
   none. Any thread. */
lwmq_status lwmq_channel_query_times(const lwmq_channel *channel, uint32_t place, double share, uint64_t *out_ns);

/* Closes. Waits at most linger_ms until the peer has read what was posted. (A message counts as read when it was
   destroyed there, or when its receiver waits for the next.) Otherwise as destroy does. Afterwards every call returns
   LWMQ_E_CLOSED, except destroy and the calls that give a raw buffer back. LWMQ_E_TIMED_OUT: the channel is closed, and
   the text has the number of messages dropped and of those not known to be read, including those of a former peer whose
   end no receive has reported. */
lwmq_status lwmq_channel_close(lwmq_channel *channel, uint32_t linger_ms);
/* Takes the channel and its queues; closes the channel without a linger if it is open. Waits for threads that are
   inside a call on it or inside its call-back. An attempt to connect ends at once; one to serve an address that a dying
   process still holds takes up to 2 s. Received messages live on. */
void lwmq_channel_destroy(lwmq_channel *channel);

/* Serves many channels by one thread, in turns: each channel that has something gives one message before any gives its
   next, however unequally they send (RFC 970). A channel that was silent joins the turns after 64 messages, or some
   64 KiB of them, for every 64 busy channels. One thread waits or receives at a time; any thread adds and removes. */
typedef struct lwmq_selector lwmq_selector;

lwmq_status lwmq_selector_create(lwmq_selector **out_selector);
/* A channel that is destroyed leaves every selector. LWMQ_E_INVALID: added before. */
lwmq_status lwmq_selector_add(lwmq_selector *selector, lwmq_channel *channel);
/* Waits while a message of the channel is being received; afterwards only the caller uses the channel. LWMQ_E_INVALID:
   not added. */
lwmq_status lwmq_selector_remove(lwmq_selector *selector, lwmq_channel *channel);
/* From now on a client that waits at the listener has its turn, too. Wait and receive then return LWMQ_OK with NULL as
   channel and message, repeatedly until the client was accepted or the listener removed; also after the listener was
   closed. A listener that is destroyed leaves every selector. LWMQ_E_INVALID: added before; not added. */
lwmq_status lwmq_selector_add_listener(lwmq_selector *selector, lwmq_listener *listener);
lwmq_status lwmq_selector_remove_listener(lwmq_selector *selector, lwmq_listener *listener);
/* The channel whose turn it is. Even so, a receive on it with a timeout of 0 occasionally returns LWMQ_E_EMPTY. */
lwmq_status lwmq_selector_wait(lwmq_selector *selector, uint32_t timeout_ms, lwmq_channel **out_channel);
/* The next message of the channel that the last call, a wait, has returned. While an application takes messages like
   this, the channel keeps its place in the turns, even if some calls find nothing: much cheaper than a separate
   receive. Does not wait. LWMQ_E_EMPTY: the channel has nothing now, or was removed since. Otherwise as
   lwmq_channel_receive. */
lwmq_status lwmq_selector_take(lwmq_selector *selector, lwmq_message **out_message);
/* Waits and receives one message. *out_channel is also written if that channel's receive failed (the loss of its peer,
   its close); it is NULL for LWMQ_E_TIMED_OUT, LWMQ_E_EMPTY and LWMQ_E_INTERRUPTED. */
lwmq_status lwmq_selector_receive(lwmq_selector *selector, uint32_t timeout_ms, lwmq_channel **out_channel,
                                  lwmq_message **out_message);
/* A descriptor for poll, epoll and event loops: readable while a channel of the selector may have something, or a
   client waits. Poll it only after a wait or receive with a timeout of 0 has returned LWMQ_E_EMPTY; before that, a
   channel may have a turn while the descriptor is not readable. Do not read from it. Lent until destroy. */
lwmq_status lwmq_selector_descriptor(lwmq_selector *selector, int32_t *out_fd);
/* Takes the selector; its channels live on. NULL is allowed. */
void lwmq_selector_destroy(lwmq_selector *selector);

/* A routing table: it decides by a message's own frames which send queues the message goes to. A route has a pattern
   for one frame (the first frame is the message's topic, the others are its headers), as in AMQP 0-9-1 topic exchanges:
   words between dots, where * stands for any one word and # for any number of words. A pattern has up to 32 words, a
   topic any number. A queue gets a message once, however many of its routes without a group match. Of the matching
   routes that name the same group, one gets the message, in turns; routes are passed over while their channel has no
   peer or their bounded queue is full. If no channel of the group has a peer, one of them keeps the message for its
   next peer. A queue of a channel with several transports cannot be in a group (LWMQ_E_UNSUPPORTED). Any thread. */
typedef struct lwmq_router lwmq_router;

lwmq_status lwmq_router_create(lwmq_router **out_router);
/* `group` NULL: the route is in no group. When the queue's channel is destroyed, its routes are removed.
   LWMQ_E_INVALID: a malformed pattern, or the route is there already. */
lwmq_status lwmq_router_add(lwmq_router *router, uint32_t frame, const char *pattern, const char *group,
                            lwmq_send_queue *queue);
/* LWMQ_E_INVALID: there is no such route. */
lwmq_status lwmq_router_remove(lwmq_router *router, uint32_t frame, const char *pattern, const char *group,
                               lwmq_send_queue *queue);
/* Removes every route to this queue. */
lwmq_status lwmq_router_forget(lwmq_router *router, const lwmq_send_queue *queue);
/* Posts a message to every queue that a route leads to, without a copy. Never waits. *out_queues is written on every
   outcome: how many queues have the message. The message is taken unless that is 0. LWMQ_E_EMPTY: no route matches.
   LWMQ_E_FULL: no queue of a group has room. LWMQ_E_TOO_BIG, LWMQ_E_CLOSED: from one of the queues; the others have the
   message. */
lwmq_status lwmq_router_post(lwmq_router *router, lwmq_message **message, uint32_t *out_queues);
/* Takes the router; its queues live on. NULL is allowed. */
void lwmq_router_destroy(lwmq_router *router);

/* Requests and their replies over a channel: thousands outstanding, each with its own time-out, in the format of
   Requests and Replies in Python and Java (WIRE.md). The library never repeats a request. A request may still be
   executed after its sender was told that the time is over or that the peer is lost. The object receives everything
   that comes over the channel; messages that are not replies are counted and dropped. Any thread; of the threads that
   wait, one receives for all. */
typedef struct lwmq_requests lwmq_requests;

typedef struct lwmq_requests_options {
  uint64_t size;
  lwmq_send_queue *queue;   /* of the channel, where requests are posted; NULL: an unbounded queue shared by all such
                               users of the channel */
  uint64_t outstanding_max; /* includes settled requests whose outcome nobody has fetched; default 2^20; some 100 bytes
                               each */
} lwmq_requests_options;

/* Before or after open. LWMQ_E_INVALID: the queue belongs to another channel, or the channel is raw.
   LWMQ_E_NO_MEMORY. */
lwmq_status lwmq_requests_create(lwmq_channel *channel, const lwmq_requests_options *options,
                                 lwmq_requests **out_requests);
/* Makes a message whose first frame is the head of a request; the caller appends the frames of the request itself. */
lwmq_status lwmq_requests_make(lwmq_requests *requests, lwmq_message **out_request);
/* Sends a request and goes on. Never waits for the peer, which may come later. Takes the message only on LWMQ_OK.
   *out_number identifies the outcome that lwmq_requests_next returns. timeout_ms: LWMQ_FOREVER waits as long as the
   peer lives. LWMQ_E_FULL: too many requests are outstanding. LWMQ_E_INVALID: the message is not from
   lwmq_requests_make, or is outstanding already. Otherwise as lwmq_send_queue_post. */
lwmq_status lwmq_requests_submit(lwmq_requests *requests, lwmq_message **request, uint32_t timeout_ms,
                                 uint64_t *out_number);
/* The next outcome of a submitted request. *out_number is the request's number, or 0 for outcomes that concern no
   request: LWMQ_E_EMPTY, LWMQ_E_TIMED_OUT (of this wait), LWMQ_E_INTERRUPTED, LWMQ_E_NO_MEMORY (nothing is lost), and
   any status of a receive that concerns no request, such as the end of a peer that had gone before all of them were
   made. For a request:
     LWMQ_OK            its reply: frame 0 of the message is the head, the frames from 1 on are the answer. The caller
                        destroys it
     LWMQ_E_HANDLER     the peer failed to handle it
     LWMQ_E_TIMED_OUT   its time is over; lwmq_last_error has a text. Reported up to 0.2 s late if a request that ends
                        before all others was submitted during this wait. A reply that comes later is dropped
     LWMQ_E_PEER_LOST, LWMQ_E_CLOSED and any other status of a receive: the peer is gone, or the channel closed */
lwmq_status lwmq_requests_next(lwmq_requests *requests, uint32_t timeout_ms, uint64_t *out_number,
                               lwmq_message **out_reply);
/* Sends a request and waits for its outcome, as listed above. If the request was posted, *request is NULL afterwards.
   After LWMQ_E_INTERRUPTED and LWMQ_E_NO_MEMORY the request is no longer outstanding. LWMQ_E_INVALID: also if the
   channel is not open yet, so that nobody could reply during this wait. */
lwmq_status lwmq_requests_request(lwmq_requests *requests, lwmq_message **request, uint32_t timeout_ms,
                                  lwmq_message **out_reply);
/* Gives the request up; no outcome is reported. LWMQ_E_EMPTY: it was never submitted, or its outcome was reported. */
lwmq_status lwmq_requests_cancel(lwmq_requests *requests, uint64_t number);
/* For applications that receive from the channel by other means, such as a selector, on the same thread: takes one of
   the channel's messages as if lwmq_requests_next had received it. Does not wait; lwmq_requests_next with a timeout of
   0 returns the outcome. */
lwmq_status lwmq_requests_file(lwmq_requests *requests, lwmq_message **message);
/* The same for the end of the peer: `failure` is the status of that receive, and lwmq_last_error must still have its
   text. Outstanding requests fail with it, except those made after that peer had gone. LWMQ_E_INVALID: `failure` is not
   a failure. */
lwmq_status lwmq_requests_lose(lwmq_requests *requests, lwmq_status failure);

/* `asked` is the sum of `outstanding` and the fields after it up to `given_up`. */
typedef struct lwmq_requests_statistics {
  uint64_t size;
  uint64_t asked;
  uint64_t outstanding;
  uint64_t answered;
  uint64_t failed;    /* LWMQ_E_HANDLER */
  uint64_t timed_out;
  uint64_t lost;      /* with the peer, or the channel */
  uint64_t given_up;  /* cancelled, interrupted, or not posted */
  uint64_t late;      /* dropped: replies to requests that were already settled */
  uint64_t foreign;   /* dropped: replies to another sender of requests */
  uint64_t malformed; /* dropped: no replies */
  uint32_t due_ms;    /* until the next time-out, for applications that sleep in poll; LWMQ_FOREVER: none */
} lwmq_requests_statistics;

lwmq_status lwmq_requests_query(lwmq_requests *requests, lwmq_requests_statistics *out_statistics);
/* Takes the requests once no thread is inside a call on them; the channel lives on. Outstanding requests are forgotten.
   NULL is allowed. */
void lwmq_requests_destroy(lwmq_requests *requests);

/* The answering side. Makes the beginning of a reply to a received message. The caller appends the frames of the answer
   and posts the reply to a queue of the channel that the request came over. LWMQ_E_CORRUPT: the message is not a
   request. */
lwmq_status lwmq_reply_make(const lwmq_message *request, lwmq_message **out_reply);
/* Makes a complete reply, to be posted, which the other side gets as LWMQ_E_HANDLER, with `kind` (such as the name of
   an exception's class) and `text`, both UTF-8; at most 1,000 bytes of each are sent. */
lwmq_status lwmq_reply_make_failure(const lwmq_message *request, const char *kind, const char *text,
                                    lwmq_message **out_reply);

/* Direct buffer access, on a channel made with raw = 1: get, fill, send; receive, dispose.
   Buffers arrive in the order sent. */
typedef struct lwmq_buffer {
  void *data;         /* must stay as lent; another address is refused with LWMQ_E_INVALID */
  uint64_t bytes;     /* get: the room; before send: set it to the bytes used; receive: the bytes that arrived */
  uint64_t token[4];  /* the library's */
} lwmq_buffer;

/* Lends a send buffer, to be given back through send or abandon. LWMQ_E_FULL: timeout_ms is 0, and no buffer is free or
   there is no peer; after a wait LWMQ_E_TIMED_OUT. LWMQ_E_INTERRUPTED, LWMQ_E_CLOSED, and the status with which a
   receive reports a failure to connect. One thread at a time gets and sends. */
lwmq_status lwmq_raw_get_buffer(lwmq_channel *channel, uint32_t timeout_ms, lwmq_buffer *out_buffer);
/* Takes the buffer, except on LWMQ_E_TOO_BIG, LWMQ_E_INVALID (it is none of those that were lent) and LWMQ_E_CLOSED.
   LWMQ_E_PEER_LOST: the peer that it was for has gone; it counts as lost. Never waits. */
lwmq_status lwmq_raw_send_buffer(lwmq_channel *channel, lwmq_buffer *buffer);
/* Takes a buffer back unsent, from any thread, even if its peer has gone or the channel is closed. Until then the
   buffer stays mapped and may be written to; if it is not given back before destroy, for the life of the process. */
lwmq_status lwmq_raw_abandon_buffer(lwmq_channel *channel, lwmq_buffer *buffer);
/* Lends the next buffer that has come, to be given back through dispose. One thread at a time. Returns the same
   statuses as lwmq_channel_receive. */
lwmq_status lwmq_raw_receive_buffer(lwmq_channel *channel, uint32_t timeout_ms, lwmq_buffer *out_buffer);
/* Takes a received buffer; in any order, from any thread, even after the close. Call it before destroy: buffers not
   disposed of by then stay mapped for the life of the process. */
lwmq_status lwmq_raw_dispose_buffer(lwmq_channel *channel, lwmq_buffer *buffer);

/* ---- Streams ------------------------------------------------------------------------------------ */

/* A stream has a name, an Arrow schema and partitions. A partition is a log of record batches with sequence numbers
   from 0. The library does not read Arrow. A schema is the bytes of an Arrow IPC stream that holds only its schema
   message. A batch is a block of bytes: the encapsulated IPC message of one record batch, or a whole small IPC stream
   (see the flags).

   An endpoint serves the streams at one address, at most 1024 of them. The name of a stream follows the address:
   `ipc://door?stream=prices`. It has 1 to 63 letters, digits, '.', '_' and '-'. One stream of each address may have no
   name. An address without a name means that stream; if there is none, it means the only stream there. If several
   are there, the call fails with LWMQ_E_ADDRESS, and the text lists their names.

   LWMQ_ROLE_AUTO makes a stream that is not there: at the endpoint that serves the address, in whichever process that
   is, or else at an endpoint that it makes in this process. LWMQ_ROLE_SERVER makes it in this process; LWMQ_E_ADDRESS:
   it is there, or another process serves the address. LWMQ_ROLE_CLIENT waits until the stream is there. A stream lives
   as long as a process that has made it uses it; one that was made at another process's endpoint lives until its last
   client has left and nothing of it is kept; the connection of a writer may be kept for 30 s for the next one. */

#define LWMQ_SEQ_EARLIEST 18446744073709551615ULL /* lowest retained and not acknowledged */
#define LWMQ_SEQ_LATEST 18446744073709551614ULL   /* the next one to be written */
#define LWMQ_SEQ_END 18446744073709551613ULL      /* as an end: until the stream ends */

typedef enum lwmq_retain {
  LWMQ_RETAIN_UNTIL_ACKED = 0, /* until `readers` distinct reader names have acknowledged it */
  LWMQ_RETAIN_ALL = 1,         /* until the endpoint closes */
  LWMQ_RETAIN_NONE = 2         /* until the readers present have passed it; writers wait for the first reader */
} lwmq_retain;

typedef enum lwmq_delivery {
  LWMQ_DELIVERY_LIVE = 0, /* batches are visible when published */
  LWMQ_DELIVERY_TASK = 1, /* when the writer has committed */
  LWMQ_DELIVERY_JOB = 2   /* when the job has committed */
} lwmq_delivery;

/* In these calls the address of a stream has no option but `stream` (LWMQ_E_ADDRESS). The options that Python and Spark
   read from it are fields of lwmq_writer_options and lwmq_reader_options. */

/* A stream of an endpoint in this process, kept alive independently of its writers and readers. LWMQ_E_ADDRESS: the
   stream is there, or another process serves the address.
   lwmq_writer_open and lwmq_reader_open make an endpoint themselves if their role requires it. */
typedef struct lwmq_endpoint lwmq_endpoint;
lwmq_status lwmq_endpoint_open(const char *address, lwmq_endpoint **out_endpoint);
/* Waits at most timeout_ms until producers have ended and as many readers as the stream asks for have read everything.
   The only user of the endpoint in this process waits for all streams there. Closes nothing, and may be repeated.
   LWMQ_E_TIMED_OUT: not yet; the text says what is missing. */
lwmq_status lwmq_endpoint_drain(lwmq_endpoint *endpoint, uint32_t timeout_ms);
/* Waits at most linger_ms like lwmq_endpoint_drain, then closes in any case. Takes the endpoint.
   LWMQ_E_TIMED_OUT: closed; the text says how many batches were not read. */
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
  uint8_t generation[16]; /* of the endpoint; offsets are void in another generation */
  uint32_t state;         /* LWMQ_STREAM_* */
  uint32_t retain;        /* lwmq_retain */
  uint32_t readers;       /* acknowledgements that a batch needs */
  uint32_t partition_count;
  uint32_t producers_open, readers_open;
  const void *schema; /* lent; NULL while undeclared */
  uint64_t schema_bytes;
  const lwmq_partition_state *partitions; /* lent; partition_count of them */
  lwmq_identity endpoint;                 /* where it runs */
  uint32_t readers_stalled;  /* readers that have taken nothing for long while a writer waits for them */
  uint32_t readers_expelled; /* so far */
  uint32_t stalled_pid;      /* process of one of the stalled readers; 0: there is none */
  uint32_t reserved;
  const char *address;       /* of the stream, with the name that it has; lent */
} lwmq_stream_state;

/* Asks the endpoint at `address` for the state of its stream. Waits until there is an endpoint and, with
   `wait_declared` 1, until the stream has a schema. Does not count as a reader and consumes nothing. LWMQ_E_TIMED_OUT
   has a text here: what the call waited for. lwmq_stream_state_destroy gives the state back. */
lwmq_status lwmq_stream_describe(const char *address, uint32_t wait_declared, uint32_t timeout_ms,
                                 lwmq_stream_state **out_state);
void lwmq_stream_state_destroy(lwmq_stream_state *state);

/* -- Writing -- */

typedef struct lwmq_writer lwmq_writer;

typedef struct lwmq_writer_options {
  uint64_t size;
  int32_t role;           /* lwmq_role */
  uint32_t partitions;    /* used if this writer is the first to declare the stream; default 1 */
  uint32_t retain;        /* likewise; lwmq_retain */
  uint32_t readers;       /* likewise; default 1 */
  uint32_t delivery;      /* lwmq_delivery */
  uint32_t timeout_ms;    /* for the endpoint to appear and answer; default 30,000 */
  uint64_t buffer_bytes;  /* the intended largest block; default 4 MiB. Larger blocks pass as long as they fit the
                             window */
  uint64_t window_bytes;  /* memory for batches that are not yet released; default 64 MiB or 16 times buffer_bytes,
                             whichever is more */
  uint64_t staging_bytes; /* beyond the window, for batches not yet committed; default 1 GiB */
  const char *job;        /* the job or query of which this writer is a task; NULL: the writer is itself a producer */
  uint32_t task;          /* with job: partition of the job; LWMQ_PARTITION_OF_TASK is task mod partitions */
  uint32_t job_tasks;     /* with job: if not 0, the job ends by itself when that many tasks have committed */
  uint64_t attempt;       /* with job: distinguishes the attempts of a task */
  uint64_t epoch;         /* with job: of a streaming query */
  uint32_t stall_ms;      /* how long the endpoint may be silent when asked for a sign of life; default 5,000.
                             LWMQ_FOREVER: the endpoint is not asked, and calls wait for it */
  uint32_t expel_after_ms; /* readers that take nothing for this long while the writer waits for them are expelled;
                              default, like LWMQ_FOREVER: never; the writer waits */
} lwmq_writer_options;

/* Peers that live but do not answer.
   Calls that wait for an endpoint (lwmq_writer_allocate, _commit, _close, lwmq_reader_schema, _next, lwmq_job_*) and
   have heard nothing for `stall` ask it for a sign of life; the pauses between such questions grow from `stall` to
   80 s. If no answer comes within `stall`, the call returns LWMQ_E_STALLED with a text that names the process. The
   handle stays as it is: calling again resumes the wait, and once the endpoint goes on, so does everything; nothing is
   lost or duplicated.
   A reader is *stalled* when it blocks a writer that waits for room, or for its end, and has taken nothing for `stall`.
   The writer waits for it, unless it sets `expel_after`: then the reader is expelled, and the stream goes on as if it
   had died. Batches that were handed to it and not consumed go to other readers. If the stream needs more
   acknowledgements than there are readers left, it needs one less. Memory that was shown to the reader, or that it
   leases, is not written again before the reader has heard of this, or died. Meanwhile this memory, up to the size of
   one window, does not count as part of the writer's window. The reader itself gets LWMQ_E_DATA_LOSS from its next
   call; the text says when and why. */

/* Opens a writer. Waits for the endpoint at most options->timeout_ms. The first producer declares the stream. For all
   others, lwmq_writer_schema returns what was declared, and the caller compares.
   LWMQ_E_NO_MEMORY, at once: options->window_bytes is more than this process may hold in windows.
   With `job` and LWMQ_DELIVERY_LIVE, batches of attempts that do not commit stay visible. */
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

/* Lends a block, to be given back through publish or discard. Waits for room: until readers have released enough, and
   the endpoint has taken what was published before.
   LWMQ_E_TOO_BIG: more than the window can ever hold. LWMQ_E_TIMED_OUT has a text here: who holds the room.
   LWMQ_E_NO_MEMORY, at once: the room is held by batches that this task itself has not committed, and staging_bytes are
   used up. LWMQ_E_STALLED: the endpoint does not answer. */
lwmq_status lwmq_writer_allocate(lwmq_writer *writer, uint64_t bytes, uint32_t timeout_ms,
                                 lwmq_block *out_block);
/* With a job, the partition of the stream that is the task's own: task mod partitions. */
#define LWMQ_PARTITION_OF_TASK 4294967295
/* Takes the block: its first `bytes` bytes are the next batch of `partition`. A task of a job may write to several
   partitions; they are committed together. Never waits. */
lwmq_status lwmq_writer_publish(lwmq_writer *writer, lwmq_block *block, uint32_t partition, uint64_t bytes,
                                uint64_t rows, uint32_t flags);
void lwmq_writer_discard(lwmq_writer *writer, lwmq_block *block);

/* For applications that have views of a block. Until the hold ends, a lent block stays mapped and nobody else writes to
   it, even after publish, discard, abort, close and destroy. A block that was neither published nor discarded by then
   goes back to its writer. LWMQ_E_INVALID: the block is not lent, or is held already. Never waits. */
typedef struct lwmq_hold lwmq_hold;
lwmq_status lwmq_writer_hold(lwmq_writer *writer, const lwmq_block *block, lwmq_hold **out_hold);
/* Takes the hold. Any thread, even after the writer has gone. Never waits. */
void lwmq_hold_end(lwmq_hold *hold);

enum {
  LWMQ_BATCH_IPC_MESSAGE = 0, /* the block is one encapsulated record batch message */
  LWMQ_BATCH_IPC_STREAM = 1   /* the block is a whole IPC stream: schema, dictionaries, one record batch */
};

/* How batches of one schema of fixed-width columns are written: the head of any such batch that has a row, and the
   places in it of the numbers that differ from batch to batch. All pointers are lent. */
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
  uint64_t bytes_max;     /* largest block that the call allocates */
  const char *const *not_null; /* per column: its name if it is declared not null, else NULL. NULL: no column is */
} lwmq_array_plan;

/* Allocates a block, copies a record batch into it, and publishes it: lwmq_writer_allocate, the copy and
   lwmq_writer_publish in one call. `array` is a `struct ArrowArray` of the Arrow C data interface: lent, not released.
   LWMQ_E_UNSUPPORTED, before anything was done: the plan does not cover the batch (no rows, columns of another kind,
   bits that begin within a byte), or it is larger than bytes_max. LWMQ_E_SCHEMA, likewise: a column declared not null
   has nulls; the text says which, and how many. Waits as lwmq_writer_allocate does. */
lwmq_status lwmq_writer_write_array(lwmq_writer *writer, const lwmq_array_plan *plan, const void *array,
                                    uint32_t partition, uint32_t timeout_ms);

/* Tells to which of `partitions` partitions each row goes: pmod(hash(keys), partitions) of Spark SQL. `array`, a
   `struct ArrowArray`, holds the key columns as a struct, and `schema`, a `struct ArrowSchema`, has their types. Takes
   both, also on failure. `out_ids` has room for one id per row. Any thread; never waits. LWMQ_E_UNSUPPORTED: a column
   cannot be a key; the text names it and its type. LWMQ_E_INVALID: no column, or a wrong number of partitions. */
lwmq_status lwmq_partition_ids(void *schema, void *array, uint32_t partitions, uint32_t *out_ids);

/* What a task has written to one partition of the stream. */
typedef struct lwmq_committed_range {
  uint32_t partition;
  uint32_t reserved;
  uint64_t start_seq, end_seq; /* of the first batch, and behind the last one. Equal until the job commits, with
                                  LWMQ_DELIVERY_JOB; with LWMQ_DELIVERY_LIVE, batches of others may lie between */
  uint64_t batches, rows, bytes;
} lwmq_committed_range;

/* Of the attempt that has won. */
typedef struct lwmq_commit_result {
  uint64_t size;
  uint32_t won;          /* 1: these batches count; 0: another attempt had committed, and these were dropped */
  uint32_t partition;    /* of the first range; without ranges, the task's own */
  uint64_t attempt;
  uint64_t start_seq, end_seq;   /* of the first range */
  uint64_t batches, rows, bytes; /* of all ranges */
  uint8_t instance[16];  /* of its process */
  const lwmq_committed_range *ranges; /* by partition; lent until the writer commits again or is destroyed */
  uint32_t range_count;
} lwmq_commit_result;

/* With a job: commits what this writer published. The first attempt of (job, epoch, task) to commit wins.
   LWMQ_E_TIMED_OUT, LWMQ_E_STALLED: no answer yet; committing again changes nothing and resumes the wait. */
lwmq_status lwmq_writer_commit(lwmq_writer *writer, uint32_t timeout_ms, lwmq_commit_result *out_result);
/* Gives up. Staged batches are dropped. The stream of a writer without a job ends for readers with LWMQ_E_ABORTED,
   after what was visible; `reason` reaches them. Closes the conversation; destroy must still follow. */
lwmq_status lwmq_writer_abort(lwmq_writer *writer, const char *reason);
/* Ends this producer. Waits at most linger_ms until everything it wrote was consumed. If it is the last user in this
   process of an endpoint that was bound here, it also waits until the other producers have ended and were consumed.
   LWMQ_E_TIMED_OUT: not yet; the text says how many batches wait for whom. LWMQ_E_STALLED: the endpoint does not
   answer. After either, call again, or destroy to give up. After LWMQ_OK every call but destroy returns
   LWMQ_E_CLOSED. */
lwmq_status lwmq_writer_close(lwmq_writer *writer, uint32_t linger_ms);
/* Takes the writer. Never waits. A writer that was not closed ends as by abort. Batches that were visible stay readable
   for as long as the endpoint lives. */
void lwmq_writer_destroy(lwmq_writer *writer);

typedef struct lwmq_writer_statistics {
  uint64_t size;
  uint64_t batches, rows, bytes;
  uint64_t wait_ns;       /* spent waiting for room */
  uint64_t window_bytes;  /* held by segments now */
  uint64_t unread_batches; /* published and not yet released by the endpoint */
  uint64_t readers_expelled; /* because they kept this writer waiting */
  uint64_t readers_lost;     /* died, or were abandoned, before they had read everything, since this writer came */
} lwmq_writer_statistics;
lwmq_status lwmq_writer_query(const lwmq_writer *writer, lwmq_writer_statistics *out_statistics);
/* What happened to the last of those readers: who it was, how it ended, how far it had come, what goes to the next
   reader. Writes at most `bytes` bytes including the NUL; longer texts are truncated. Never waits. LWMQ_E_EMPTY,
   without a text: no reader was lost since the last call. */
lwmq_status lwmq_writer_lost_reader(lwmq_writer *writer, char *out_text, uint64_t bytes);

/* -- A job: many writers that count as one producer -- */

typedef struct lwmq_job lwmq_job;

typedef struct lwmq_task_commit {
  uint32_t task;
  uint32_t partition; /* not looked at */
  uint64_t attempt;
  uint64_t batches;   /* of all its partitions */
} lwmq_task_commit;

/* Opens a producer named options->job, whose tasks are writers with the same `job`. Uses these options: role,
   partitions, retain, readers, delivery, timeout_ms, job, epoch, stall_ms. The loss of this handle's process aborts the
   job. */
lwmq_status lwmq_job_open(const char *address, const void *schema, uint64_t schema_bytes,
                          const lwmq_writer_options *options, lwmq_job **out_job);
lwmq_status lwmq_job_schema(const lwmq_job *job, const void **out_schema, uint64_t *out_bytes,
                            uint32_t *out_partitions);
/* Commits epoch `epoch`. The endpoint checks that it holds every commit listed; LWMQ_E_DATA_LOSS names the first one
   missing. Repeating a commit changes nothing. */
lwmq_status lwmq_job_commit(lwmq_job *job, uint64_t epoch, const lwmq_task_commit *tasks, uint32_t task_count,
                            uint32_t timeout_ms);
/* Drops what is staged. Readers get an error only if something of the job was visible. */
lwmq_status lwmq_job_abort(lwmq_job *job, const char *reason, uint32_t timeout_ms);
/* Ends the producer without a commit. Does not wait for readers. Takes the job. */
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
  LWMQ_ACK_SETTLED = 1   /* a batch is acknowledged when lwmq_stream_settle says so for this reader's name */
} lwmq_acknowledge;

typedef struct lwmq_reader_options {
  uint64_t size;
  int32_t role;
  uint32_t acknowledge;  /* lwmq_acknowledge */
  uint32_t follow;       /* 1: after the end of the stream, continue with its next producer */
  uint32_t writers;      /* the stream does not end before this many producers have come; default 1 */
  uint32_t timeout_ms;   /* for the endpoint to appear and answer; default 30,000 */
  uint32_t credit;       /* batches handed over ahead of their use; default 8 */
  const char *name;      /* acknowledgements count once per name and batch; NULL: a unique name */
  const uint8_t *generation; /* 16 bytes; LWMQ_E_DATA_LOSS if the endpoint has another generation; for a client,
                                LWMQ_E_CLOSED at once if there is no endpoint any more. Such a reader takes part in a
                                read that was planned: it never waits for the next producer of a stream that has ended.
                                NULL: any */
  const lwmq_range *ranges;  /* NULL: every partition, EARLIEST to END */
  uint32_t range_count;
  uint32_t keep_mapped;  /* 1: the writers' windows stay mapped 10 s longer, for the next reader of this process */
  uint32_t stall_ms;     /* as in lwmq_writer_options */
  const char *task;      /* the task of which this reader is an attempt, whatever name it reads under; NULL: none */
  uint64_t attempt;      /* with task: which attempt. An attempt that needs a batch which was released gets
                            LWMQ_E_SUPERSEDED while another attempt at the task reads, else LWMQ_E_DATA_LOSS */
  const char *job;       /* not NULL: reads what the tasks `tasks` of this job have committed with LWMQ_DELIVERY_TASK in
                            epoch `epoch`, of the partitions of `ranges`, and then ends. The numbers of the ranges are
                            not looked at. LWMQ_E_DATA_LOSS: one of the tasks has not committed at this endpoint */
  uint64_t epoch;
  const uint32_t *tasks; /* with job: task_count of them, up to 65,536 */
  uint32_t task_count;
  uint32_t reserved;
} lwmq_reader_options;

lwmq_status lwmq_reader_open(const char *address, const lwmq_reader_options *options,
                             lwmq_reader **out_reader);
/* Lends the schema; waits until a producer has declared it. Valid until close. */
lwmq_status lwmq_reader_schema(lwmq_reader *reader, uint32_t timeout_ms, const void **out_schema,
                               uint64_t *out_bytes);
/* Lends the next batch, in order of arrival across the reader's partitions. The call consumes the previously lent batch
   (which stays leased until released). LWMQ_E_END, LWMQ_E_ABORTED and LWMQ_E_DATA_LOSS come after everything that was
   visible, and so does LWMQ_E_PEER_LOST: a producer, or the process that serves the address, died or left without a
   word. After the loss of a producer a reader with `follow` goes on with the next one; after the loss of the endpoint
   no reader goes on; the text says which it was. LWMQ_E_STALLED: the endpoint lives but does not answer. An expelled
   reader gets LWMQ_E_DATA_LOSS at once. */
lwmq_status lwmq_reader_next(lwmq_reader *reader, uint32_t timeout_ms, lwmq_batch **out_batch);
/* Waits until lwmq_reader_next has something to return, and takes nothing; for applications that wait on one thread and
   read on another. This call, too, consumes the previously lent batch. LWMQ_E_TIMED_OUT, LWMQ_E_STALLED. */
lwmq_status lwmq_reader_wait(lwmq_reader *reader, uint32_t timeout_ms);
/* Marks the last lent batch as consumed, without asking for the next. Never waits. */
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
  const uint8_t *window_data; /* the mapped segment that holds the batch; shows where the bytes lie */
  uint64_t window_bytes;
} lwmq_batch_info;

lwmq_status lwmq_batch_query(const lwmq_batch *batch, lwmq_batch_info *out_info);
/* Ends the lease. Any thread, even after the reader was closed; never waits. */
void lwmq_batch_release(lwmq_batch *batch);

/* How batches that begin with the same bytes are cut into arrays: learned from one batch, used for all that follow.
   Only for columns of fixed width, whose positions follow from the head alone. */
typedef struct lwmq_array_layout lwmq_array_layout;

/* Learns from `array` (a `struct ArrowArray`, lent), which shows `batch`, was checked against it, and keeps it leased.
   `head` (lent) holds the prefix and metadata from which the array was made. It must be a copy, because the writer can
   still write to the batch. LWMQ_E_UNSUPPORTED: a buffer of the array lies outside the batch, a column has a
   dictionary, or types nest more than 64 deep. */
lwmq_status lwmq_array_layout_create(const void *array, const lwmq_batch_info *batch, const void *head,
                                     uint64_t head_bytes, lwmq_array_layout **out_layout);
/* Takes the layout. NULL is allowed. */
void lwmq_array_layout_destroy(lwmq_array_layout *layout);
/* Makes `out_array` (a `struct ArrowArray`) show the batch in place. LWMQ_OK: takes the batch; releasing the array
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

/* Ends the reader; batches not yet consumed stay for others. A reader that bound the address stays, at most linger_ms,
   until producers have ended and as many readers as the stream asks for have read everything. Takes the reader. Batches
   live on. */
lwmq_status lwmq_reader_close(lwmq_reader *reader, uint32_t linger_ms);
/* Ends the reader as its death would, for a reader that has failed. For a reader without a name: what it has taken of a
   producer that it has not read to the end is not acknowledged. What is still kept goes to the next reader; for what is
   gone, the producer and later readers get LWMQ_E_DATA_LOSS in place of the end. Takes the reader. Waits at most a
   second to report this. Batches live on. */
void lwmq_reader_abandon(lwmq_reader *reader);

/* For readers with LWMQ_ACK_SETTLED: acknowledges everything consumed under `name` (acknowledge = 1), or forgets it, so
   that it will be read again (0). LWMQ_E_CLOSED, at once: nobody serves the address any more. */
lwmq_status lwmq_stream_settle(const char *address, const char *name, uint32_t acknowledge,
                               uint32_t timeout_ms);

/* cdef: end */

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
