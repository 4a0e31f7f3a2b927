/* lwmq.h - the C interface of lwmq: messages between processes, and streams of Arrow record batches.
 *
 * The interface has two halves. Each can be used without the other.
 *   channels   A channel is a conversation with one peer. It carries messages made of frames. Each message
 *              is posted and received whole.
 *   streams    A stream is a named, typed, partitioned log of record batches. Readers read each batch where
 *              the writer laid it.
 *
 * The following holds for every call below unless the call says otherwise.
 *
 *   Handles     Handles are opaque. One thread at a time uses a handle; different threads may use different
 *               handles at the same time. Using a handle after it was destroyed, or a pointer that is no
 *               handle, ends the program with a text on standard error wherever the library can detect it.
 *   Waiting     A call that may wait has a `timeout_ms`. 0 never waits; LWMQ_FOREVER waits without a limit.
 *               A signal that the waiting thread handles ends the wait with LWMQ_E_INTERRUPTED. Nothing is
 *               lost; call again.
 *   Outputs     Output parameters come last, begin with `out_`, and are written only with LWMQ_OK.
 *   Structures  A structure that may grow begins with `size`, which the caller sets to sizeof the structure.
 *               Fields past `size` take their default. A field that is zero takes its default, too. The call
 *               returns LWMQ_E_INVALID if `size` was not set.
 *   Ownership   `takes`: the object belongs to the callee from now on, also on failure unless the call says
 *               otherwise. `lends`: the caller must give the object back. `keeps`: the callee holds a
 *               reference of its own.
 *   Strings     Strings are UTF-8 and end with NUL.
 *   Failures    After a failure, lwmq_last_error() on the same thread says where it happened, with which
 *               numbers, and what to do.
 *   Fork        In a forked child, every call on a channel, a listener, a selector, a router or a stream of
 *               the parent returns LWMQ_E_CLOSED. Messages can still be read and destroyed there.
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
  /* Answers. Nothing is wrong. lwmq_last_error() is empty, except where a call says that it leaves a text. */
  LWMQ_E_TIMED_OUT = 1,   /* the time is over; the call may be repeated */
  LWMQ_E_EMPTY = 2,       /* there is nothing, and the call was not to wait */
  LWMQ_E_FULL = 3,        /* there is no room, and the call was not to wait */
  LWMQ_E_END = 4,         /* the stream has ended, and every batch of it was handed out */
  LWMQ_E_INTERRUPTED = 5, /* a signal arrived during the wait */
  /* Failures. lwmq_last_error() has the text. */
  LWMQ_E_INVALID = 10,      /* an argument that no caller should pass */
  LWMQ_E_ADDRESS = 11,      /* a malformed address, an unknown scheme, or an address that is in use */
  LWMQ_E_CLOSED = 12,       /* this side or the peer has closed in order, or this process is a forked child */
  LWMQ_E_PEER_LOST = 13,    /* the peer died or vanished */
  LWMQ_E_STALLED = 14,      /* the peer lives but does not answer; nothing is lost, and the call may be repeated */
  LWMQ_E_TOO_BIG = 15,      /* larger than a buffer or a window can hold */
  LWMQ_E_SCHEMA = 16,       /* this producer's schema differs from the stream's, a column that is declared not null
                               holds nulls, or the stream does not have a column that a reader asks for */
  LWMQ_E_ABORTED = 17,      /* the producer gave up after some of its batches were visible */
  LWMQ_E_DATA_LOSS = 18,    /* the requested batches were released or belong to an older generation, or this
                               reader kept a writer waiting and was expelled */
  LWMQ_E_CORRUPT = 19,      /* bytes from the peer that cannot be right */
  LWMQ_E_VERSION = 20,      /* the peer speaks another protocol version, or serves another purpose at this address */
  LWMQ_E_NO_MEMORY = 21,    /* the library's budget, the cgroup or the machine has no room */
  LWMQ_E_DENIED = 22,       /* the peer is another user or has not proved itself; a file of credentials may not be read, or
                               others may read it; or no trusted key has signed the module */
  LWMQ_E_UNSUPPORTED = 23,  /* this provider or this kernel cannot do it */
  LWMQ_E_SYSTEM = 24,       /* the kernel refused; the text has the system call and errno */
  LWMQ_E_SUPERSEDED = 25,   /* another attempt of this task has the requested batches and goes on: give way */
  LWMQ_E_HANDLER = 26       /* the peer's handler failed on the request; the text says what happened and why */
} lwmq_status;

/* Returns the text of the last failure on this thread. Never NULL. Valid until the next call on this thread. */
const char *lwmq_last_error(void);
/* If the last failure on this thread reported the end of a peer: the number of that end among those of its
   channel, counted from 1 (see lwmq_channel_ends). Otherwise 0. */
uint64_t lwmq_last_end(void);
/* Returns the name of a status, such as "LWMQ_E_TIMED_OUT". Static. */
const char *lwmq_status_name(int32_t status);
/* Returns the library's version as "major.minor.patch". Static. */
const char *lwmq_version(void);
/* Returns the version of the wire and shared-memory formats. Both peers must have the same. */
uint32_t lwmq_protocol_version(void);

/* ---- This process and what is registered in it ------------------------------------------------- */

typedef struct lwmq_identity {
  uint64_t size;
  char host[256];     /* the host name */
  char boot_id[40];   /* identifies the running kernel */
  uint64_t netns;     /* inode of the network namespace; abstract socket names exist per namespace */
  uint8_t instance[16]; /* random, and new in each process that loads the library */
  uint32_t pid;
  uint32_t uid;
} lwmq_identity;

lwmq_status lwmq_identify(lwmq_identity *out_identity);

/* Gives this process a key for the listener `name`, such as `prices` in tcps://host:port/prices, in place of the one
   before. Addresses with that name that say no credentials use it at either end, and a client that proves itself with it
   reaches no other listener of the port. `key` is a line of a key file: `identity:key`, the key in hexadecimal. The two
   ends have the same line. The key stays in memory. LWMQ_E_INVALID: `key` is malformed; the text shows nothing of it. */
lwmq_status lwmq_set_key(const char *name, const char *key);

/* Returns the name of the index-th registered provider, or NULL past the last. Static. */
const char *lwmq_provider_name(uint32_t index);

/* The same for the registered filters: the name, and one line that lists its settings. */
const char *lwmq_filter_name(uint32_t index);
const char *lwmq_filter_help(uint32_t index);

/* -- Modules: providers and filters from outside (lwmq_tli.h) --
   The library searches the folders of $LWMQ_MODULE_PATH, which are separated by colons. It does so once,
   before it uses the first address. In each folder it goes through the files NAME.so in the order of their
   names. It loads a file if NAME.so.sig is a signature of the file's bytes and name that has not expired, made
   with a trusted key. It refuses every other file with a line on standard error and goes on.
   The trusted keys are in the file $LWMQ_MODULE_TRUST, or else in /etc/lwmq/trusted_keys. Only the file's
   owner, who must be root or this user, may be able to write to it. Each line is `ed25519 KEY NAME`; KEY has
   64 hexadecimal digits. `#` begins a comment.
   Signatures need OpenSSL's libcrypto. On a machine without it every module is refused. */
typedef struct lwmq_module_view {
  uint64_t size;
  uint64_t expires_s;  /* when the signature expires, in seconds since 1970 */
  int32_t status;      /* lwmq_status: LWMQ_OK, or why the module is refused */
  uint32_t loaded;
  char path[512];
  char name[64];       /* the name that the module gives itself; known once it is loaded */
  char key[72];        /* the key of the signature in hexadecimal digits, trusted or not */
  char signer[64];     /* the name of that key in the trust file */
  char text[512];      /* why the module is refused */
} lwmq_module_view;

/* Describes the index-th module that was found, loaded or not. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_query_module(uint32_t index, lwmq_module_view *out_view);
/* Checks the module at `path` as if it were to be loaded, but does not load it. `trust` names the trust file;
   NULL means the one described above. Returns the status that is also in the view.
   LWMQ_E_DENIED: there is no signature, it does not fit these bytes, its key is not trusted, or it has expired.
   LWMQ_E_CORRUPT: the signature or the trust file is malformed. */
lwmq_status lwmq_module_verify(const char *path, const char *trust, lwmq_module_view *out_view);
/* Writes the signature file `path`.sig with the secret key in the file `key`. The signature expires
   `expires_s` seconds after the beginning of 1970. */
lwmq_status lwmq_module_sign(const char *path, const char *key, uint64_t expires_s);
/* Makes a key. Writes the secret half to the new file `key`, which only its owner may read, and the public
   half, in the form of the trust file, to out_public. */
lwmq_status lwmq_module_make_key(const char *key, char out_public[72]);

/* What an address allows, before anything is opened there. Never waits. */
typedef struct lwmq_limits {
  uint64_t size;
  uint64_t buffer_bytes_max;
  uint64_t buffers_max; /* both directions together */
  uint64_t inline_bytes_max; /* the largest frame that a message holds without an allocation */
  uint32_t frames_max;
  uint32_t capabilities; /* LWMQ_CAN_* and LWMQ_IS_* */
  uint64_t registered_bytes_max; /* how many bytes this process may now register with the device of the address, beside
                                    those that it has registered; in pages. UINT64_MAX: no limit of the process. 0, with
                                    regions_max 0: nothing is registered, or the device is not known */
  uint64_t regions_max; /* how many regions of memory the device registers, for all processes together */
  uint32_t loss_ms; /* after what time a peer without a sign of life is lost at the latest, because its host or the
                       network is gone, unless the setting `silent` of the address says otherwise. 0: the kernel reports
                       it at once. The death of a process on a host that lives is reported at once in any case */
  uint32_t reserved;
} lwmq_limits;

enum {
  LWMQ_CAN_SEND = 1,
  LWMQ_CAN_RECEIVE = 2,
  LWMQ_CAN_MULTICAST = 4,
  LWMQ_CAN_SHARE_WINDOW = 8, /* memory reaches the peer without a copy */
  LWMQ_IS_RELIABLE = 16,
  LWMQ_IS_ORDERED = 32,
  LWMQ_CAN_ERASE = 64,      /* supports lwmq_channel_options.secure_erase */
  LWMQ_IS_IN_PROCESS = 128, /* both ends are in one process; a posted message itself is handed over, uncopied */
  LWMQ_IS_ONE_WAY = 256,    /* The server posts, the client receives, and nothing travels back. What needs both
                               directions is refused with LWMQ_E_UNSUPPORTED: receiving and a descriptor at the
                               server, send queues at the client, the automatic role, and further transports
                               beside this one. A close cannot know what was read. */
  LWMQ_IS_IN_NETWORK = 512  /* the address means something else in another network namespace (lwmq_identity.netns) */
};

lwmq_status lwmq_query_limits(const char *address, lwmq_limits *out_limits);
/* 1: a provider takes addresses of this scheme, whether this one is well-formed or not. 0: none does. Never waits. */
int32_t lwmq_has_provider(const char *address);

/* ---- Values and settings, as users write them ------------------------------------------------------ */

/* The kinds of values. Blanks around a value are ignored. Units and words may have any case. */
enum {
  LWMQ_VALUE_BYTES = 0,    /* 512, 64KiB, 4MiB, 1GiB (powers of 1024; 64k, 4m, 1g are the same), 64KB, 4MB, 1GB
                              (powers of 1000); 1.5MiB, if the result is whole bytes; at most 2^63 - 1 */
  LWMQ_VALUE_DURATION = 1, /* 100us, 100ms, 5s, 2m (or 2min), 1h, or a number of seconds. The result is in
                              nanoseconds. UINT64_MAX stands for `forever` and for whatever exceeds 64 bits. */
  LWMQ_VALUE_COUNT = 2,    /* a whole number, at most 2^63 - 1 */
  LWMQ_VALUE_FLAG = 3,     /* true, yes, 1 give 1; false, no, 0 give 0 */
  LWMQ_VALUE_WORD = 4,     /* one of the allowed words; gives its place among them, counted from 0 */
  LWMQ_VALUE_NAME = 5,     /* any text of 1 to 255 bytes; gives the number of its bytes */
  LWMQ_VALUE_TEXT = 6      /* any text of 1 to 4096 bytes, such as the path of a file; likewise */
};

/* Reads `text` as a value of `kind`. For LWMQ_VALUE_WORD, `words` lists the allowed words, as in
   "auto, server, client"; otherwise it is NULL. Never waits.
   LWMQ_E_INVALID: the text says what is wrong with the value, what is allowed, and which word may have been
   meant. It does not say where the value stands; that is left to the caller. */
lwmq_status lwmq_read_value(uint32_t kind, const char *words, const char *text, uint64_t *out_value);
/* Finds the word that may have been meant by `text`, which is none of `words` (written as above). Returns its
   place among them, or -1 if no word is near. */
int32_t lwmq_nearest_word(const char *text, const char *words);

/* Who takes a setting from an address. */
enum {
  LWMQ_TAKEN_BY_TRANSPORT = 1, /* lwmq_channel_create, and each further transport of a channel */
  LWMQ_TAKEN_BY_CHANNEL = 2,   /* in Python: a channel as a whole */
  LWMQ_TAKEN_BY_LISTENER = 4,  /* in Python: a listener */
  LWMQ_TAKEN_BY_STREAM = 8,    /* in Python and Spark: writers, readers and endpoints */
  LWMQ_IN_ADDRESS_ALONE = 16,  /* beside another of these: neither an environment variable nor a conf file sets it */
  LWMQ_TAKEN_BY_PROVIDER = 32  /* beside others: the provider of the address takes it, and not every provider does */
};

typedef struct lwmq_setting {
  uint64_t size;
  const char *key;   /* such as "buffer_bytes". Static */
  const char *words; /* for LWMQ_VALUE_WORD: the words, in the order of their numbers below; else NULL. Static */
  uint64_t least, most;
  uint32_t kind;     /* LWMQ_VALUE_* */
  uint32_t taken_by; /* LWMQ_TAKEN_BY_*, or'ed together */
} lwmq_setting;

/* Describes the index-th setting: first those of every address, then those of the providers that are built in. A
   module's provider may have further ones, which only addresses set. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_query_setting(uint32_t index, lwmq_setting *out_setting);
/* Reads `text` as a value of the setting `key`. Fails as lwmq_read_value does, and with LWMQ_E_INVALID for a
   number that is out of bounds. */
lwmq_status lwmq_read_setting(const char *key, const char *text, uint64_t *out_value);

typedef struct lwmq_address_option {
  uint64_t size;
  const char *key;     /* static */
  const char *text;    /* the value's text, in the caller's address */
  uint64_t text_bytes;
  uint64_t value;
} lwmq_address_option;

/* Reads the index-th option of an address such as `scheme://name?buffer_bytes=4MiB&retry=1s`, on behalf of
   `taken_by`.
   LWMQ_E_EMPTY: there are no more options.
   LWMQ_E_ADDRESS: this is no address, it is several addresses, or an option is unknown, given twice, meant for
   something else, or has a wrong value. The text names the option, what is allowed, and what may have been meant. */
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
  COUNTER(uring_connections, FLOW, PROCESS, "Connections of sockets that io_uring reads (engine=uring).")             \
  COUNTER(uring_refused, TOTAL, PROCESS,                                                                             \
          "Connections with engine=uring that epoll reads: the kernel refuses io_uring, or they have TLS.")

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
  COUNTER(readers_lost, TOTAL, ENDPOINT, "Readers that died before they had read everything.")                       \
  COUNTER(stalled_pid, NUMBER, ENDPOINT, "The process of one of the stalled readers.")                               \
  COUNTER(messages_posted, FLOW, CHANNEL | QUEUE, "Messages that the application posted.")                           \
  COUNTER(messages_sent, FLOW, CHANNEL | QUEUE, "Messages shipped to the peer.")                                     \
  COUNTER(messages_received, FLOW, CHANNEL, "Messages that came from the peer.")                                     \
  COUNTER(bytes_sent, FLOW, CHANNEL, "Bytes shipped to the peer.")                                                   \
  COUNTER(bytes_received, FLOW, CHANNEL | READER,                                                                    \
          "Channel: bytes that came from the peer. Reader: bytes of its batches that came over a network.")          \
  COUNTER(messages_queued, LEVEL, CHANNEL | QUEUE, "Messages that wait to be shipped.")                              \
  COUNTER(messages_lost, TOTAL, CHANNEL, "Messages shipped and not seen read when a peer was lost.")                 \
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

/* Sets how much window memory this process may hold at most. 0 restores the default: half of what the machine
   and the cgroups of this process had free when this was first asked. */
lwmq_status lwmq_set_window_memory(uint64_t bytes_max);

/* Restricts the library's threads, running and future ones, to these processors. With a single processor it is
   the preferred one of all threads. With `count` 0 the threads may run wherever the main thread may.
   The library starts few threads, each once: lwmq-channels with the first channel, lwmq-calls with the first
   call-back, one thread for each provider that needs one and is used, and one lwmq-endpoint for all endpoints.
   LWMQ_E_INVALID: a processor does not exist or is not allowed for this process. Nothing has changed then. */
lwmq_status lwmq_set_service_affinity(const uint32_t *processors, uint32_t count);

/* ---- What the processes of this machine do ------------------------------------------------------- */

/* Each process keeps figures of its writers, readers, endpoints and channels on a page that others can map. An
   observer finds the pages of all processes whose descriptors it may open: those of the same user, or for root
   those of everybody. It copies what is there. The observed processes do no work for this and do not notice it,
   so that a process that hangs can be observed, too. */
typedef struct lwmq_observer lwmq_observer;

typedef struct lwmq_process_view {
  uint64_t size;
  uint32_t pid, uid;      /* as this process sees them */
  uint32_t page_version;  /* of the process's page */
  uint32_t known;         /* 0: this library cannot read a page of that version; nothing below is known */
  uint64_t entry_count;
  uint64_t unlisted;      /* writers, readers, endpoints and channels that found no place on the page */
  char library[16];
  LWMQ_PROCESS_COUNTERS(LWMQ_COUNTER_FIELD) /* as in lwmq_statistics */
} lwmq_process_view;

enum { LWMQ_ENTRY_WRITER = 1, LWMQ_ENTRY_READER = 2, LWMQ_ENTRY_ENDPOINT = 3, LWMQ_ENTRY_CHANNEL = 4,
       LWMQ_ENTRY_QUEUE = 5, LWMQ_ENTRY_LATENCY = 6, LWMQ_ENTRY_LISTENER = 7 };
enum {
  LWMQ_ENTRY_CONNECTED = 1,
  LWMQ_ENTRY_SERVER = 2,
  LWMQ_ENTRY_CLOSED = 4, /* a closed reader whose batches are still held, a closing writer that waits until
                            everything is read, or the times of a filter that was removed */
  LWMQ_ENTRY_STALLED = 8 /* a reader or writer whose endpoint lives but does not answer */
};

/* One writer, reader, endpoint, channel, listener, or send queue of a channel; or the times that a `latency`
   filter has measured since it was added, once it has measured any. Fields that the entry's kind does not have,
   or that the observed process's version of the library does not count, are 0. */
typedef struct lwmq_entry_view {
  uint64_t size;
  uint32_t kind;             /* LWMQ_ENTRY_WRITER ... */
  uint32_t flags;            /* LWMQ_ENTRY_CONNECTED ... */
  uint64_t opened_ns;        /* CLOCK_REALTIME */
  char address[160];         /* cut if longer */
  char name[64];             /* reader, job: its name; channel of a listener: the number of its client; queue: its
                                number on the channel; latency: the filter with its settings */
  uint64_t waiting_ns;       /* how long a writer has been waiting for room, or a reader for a batch */
  uint64_t unmoved_ns;       /* time since the writer wrote, or the reader was lent, its last batch; 0: none yet */
  uint64_t took_ns;          /* latency: the sum of all times */
  uint64_t took[32];         /* latency: took[i] counts the times up to 64 ns << i that are longer than those
                                counted before; the last element counts all that took longer still */
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
/* Looks around: finds processes that have come, forgets those that have gone, and copies the figures of all.
   Waits for no process. */
lwmq_status lwmq_observer_look(lwmq_observer *observer, uint64_t *out_process_count);
/* Return what the last look found. Processes are in the order of their pids. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_observer_process(const lwmq_observer *observer, uint64_t process, lwmq_process_view *out_view);
lwmq_status lwmq_observer_entry(const lwmq_observer *observer, uint64_t process, uint64_t entry,
                                lwmq_entry_view *out_view);
/* Takes the observer. NULL is allowed. */
void lwmq_observer_destroy(lwmq_observer *observer);

/* ---- Common constants -------------------------------------------------------------------------- */

enum { LWMQ_NO_WAIT = 0 };
#define LWMQ_FOREVER 4294967295

typedef enum lwmq_role {
  LWMQ_ROLE_AUTO = 0,   /* connects if a server listens, binds otherwise */
  LWMQ_ROLE_SERVER = 1, /* binds; LWMQ_E_ADDRESS if the address is bound already */
  LWMQ_ROLE_CLIENT = 2  /* connects, and keeps trying in the background */
} lwmq_role;

/* ---- Messages ---------------------------------------------------------------------------------- */

typedef struct lwmq_message lwmq_message;

/* What the library tells the owner of an external frame. LWMQ_FRAME_ACQUIRE comes once, when the frame is
   appended. LWMQ_FRAME_RELEASE comes once, when the last message that shows the frame is gone.
   The call-back may run on any thread. The library holds no lock during the call. A release that another
   release causes runs after that one, not within it. The call-back may call the library, but it must not
   destroy a channel. It should not wait: its thread may be the very one that ships or cleans up. */
enum { LWMQ_FRAME_ACQUIRE = 0, LWMQ_FRAME_RELEASE = 1 };
typedef void (*lwmq_frame_callback)(void *context, int32_t event);

/* Each call below either does everything it says or changes nothing. None of them waits. Those that may need
   memory return LWMQ_E_NO_MEMORY if there is none. */

/* Makes an empty message. `frames_hint` reserves room. Give the message back with lwmq_message_destroy. */
lwmq_status lwmq_message_create(uint32_t frames_hint, lwmq_message **out_message);
/* Appends a copy of the `bytes` bytes at `data`. Frames of up to lwmq_limits.inline_bytes_max bytes together lie
   in the message itself. LWMQ_E_TOO_BIG, here and below: the message has lwmq_limits.frames_max frames already. */
lwmq_status lwmq_message_append(lwmq_message *message, const void *data, uint64_t bytes);
/* Appends memory that stays valid for the life of the process. Does not copy. */
lwmq_status lwmq_message_append_static(lwmq_message *message, const void *data, uint64_t bytes);
/* Appends memory of the caller's without a copy. If this fails, `callback` is never called. */
lwmq_status lwmq_message_append_external(lwmq_message *message, const void *data, uint64_t bytes,
                                         lwmq_frame_callback callback, void *context);
/* Makes a second handle on the same frames with a lifetime of its own. A frame that is appended to one handle
   does not show in the other. */
lwmq_status lwmq_message_reference(lwmq_message *message, lwmq_message **out_message);
uint32_t lwmq_message_frame_count(const lwmq_message *message);
/* Lends frame `index`; valid until the message is destroyed. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_message_frame(const lwmq_message *message, uint32_t index, const void **out_data,
                               uint64_t *out_bytes);

/* A frame may carry the time at which it was made. Timestamps are ticks of 100 ns since 1601-01-01 00:00 UTC.
   They travel with their frame; the clock that they came from does not. */
typedef enum lwmq_timestamp_source {
  LWMQ_TIMESTAMP_NONE = 0,    /* removes the timestamp */
  LWMQ_TIMESTAMP_SYSTEM = 1,  /* now, from the kernel's last tick: some milliseconds old, and cheap */
  LWMQ_TIMESTAMP_PRECISE = 2, /* now, to 100 ns */
  LWMQ_TIMESTAMP_EXPLICIT = 3 /* `ticks`, which must not be 0 */
} lwmq_timestamp_source;
#define LWMQ_TICKS_1970 116444736000000000

/* Gives frame `index` a timestamp. `ticks` matters only with LWMQ_TIMESTAMP_EXPLICIT.
   LWMQ_E_INVALID: there is no such frame or no such source. */
lwmq_status lwmq_message_set_timestamp(lwmq_message *message, uint32_t index, int32_t source, uint64_t ticks);
/* Returns the ticks of frame `index`, or 0 if it has none. LWMQ_E_INVALID past the last. */
lwmq_status lwmq_message_timestamp(const lwmq_message *message, uint32_t index, uint64_t *out_ticks);
/* Takes the message. NULL is allowed. */
void lwmq_message_destroy(lwmq_message *message);

/* ---- Channels ---------------------------------------------------------------------------------- */

typedef struct lwmq_channel lwmq_channel;
typedef struct lwmq_send_queue lwmq_send_queue;

typedef struct lwmq_channel_options {
  uint64_t size;
  uint64_t buffer_bytes;    /* size of each transport buffer, and so of the largest message; default 64 KiB */
  uint32_t buffers_send;    /* number of send buffers; default 32. Their memory is used only as it is needed: up to
                               8 MiB (or three buffers) while much flows, more if the peer falls behind */
  uint32_t buffers_receive; /* limits the number of the peer's buffers; 0: as many as the peer makes */
  uint32_t retry_ms;        /* pause between attempts to connect; default 100 */
  uint32_t raw;             /* 1: direct buffer access instead of messages */
  uint32_t secure_erase;    /* 1: memory is zeroed once its content is no longer needed; see below */
  uint32_t home_thread;     /* 1: the channel is made for the thread that creates it, which posts and receives
                               without an atomic operation. Other threads may use it, too; they pay for both */
  uint32_t receive_queue;   /* LWMQ_QUEUE_MONO_UNBOUNDED (default), _MULTI_UNBOUNDED, _BOUNDED_DISCARD_OLDEST or _NEWEST */
  uint32_t reserved;
  uint64_t receive_capacity; /* in messages; at least 1 for a bounded receive queue, 0 for every other */
} lwmq_channel_options;

/* secure_erase covers the memory that belongs to this side.
   A transport buffer is zeroed once the peer has released it, before it is used again or given up. On an idle
   channel the service thread does this: it looks at growing intervals, but at least every 0.4 s. The blocks and
   the copied frames of messages that were posted to or received from the channel are zeroed when the last
   handle on them is gone.
   It does not cover external and static frames, the peer's buffers (each side sets the option for itself), and
   buffers that the peer still holds when this side closes. The kernel clears those when the last mapping is gone.
   LWMQ_E_UNSUPPORTED from create: the provider cannot erase. */

/* Receive queues.
   mono      One thread receives at a time. Messages stay in the transport's buffers until they are received.
             When those buffers are full, the peer's sends wait.
   multi, bounded
             Any number of threads receive. Each message goes to one of them. While no thread receives, the service
             thread lands what arrives, so that the peer's sends complete; the peer counts such messages as read.
             A close discards what is still in the queue, and the peer counts it as lost.
   bounded   A receive first lands what has arrived. A message that finds the queue full discards the oldest
             message in it, or is itself discarded (newest). lwmq_channel_query counts these. If more than a
             thousand messages have arrived at once, receives look for more only some milliseconds later. */

/* Makes a channel with one transport at `address`. Options may follow the address, as in
   `ipc://orders?buffer_bytes=4MiB&buffers=16&retry=250ms` (also buffers_send and buffers_receive); what
   `options` says takes precedence. Nothing else happens before lwmq_channel_open.
   LWMQ_E_ADDRESS: the address is malformed, no provider has its scheme, or it has an option that does not exist.
   LWMQ_E_INVALID: a number is out of bounds; the text has both numbers.
   LWMQ_E_UNSUPPORTED: the transport cannot erase.
   LWMQ_E_NO_MEMORY. */
lwmq_status lwmq_channel_create(const char *address, const lwmq_channel_options *options,
                                lwmq_channel **out_channel);

typedef struct lwmq_transport_options {
  uint64_t size;
  uint64_t buffer_bytes;    /* 0, or the channel's: all transports of a channel have one size */
  uint32_t buffers_send, buffers_receive, retry_ms; /* as in lwmq_channel_options */
  uint32_t redundant;       /* 1: this is a further way to the same peer, for when another way fails. Either all
                               transports of a channel are redundant or none is */
} lwmq_transport_options;

/* Adds a further transport at `address`. Call this before the channel is opened and before the first post. The
   transport may have any scheme. A channel has at most 64 transports; several may have the same scheme.
   The options of the channel (secure_erase, home_thread, the receive queue) also apply to this transport.

   Sending: each message goes to the peer of every transport and is encoded once for each. It waits for a peer
   that is not connected yet. A transport that is slow or lost does not hold up the others.
   Receiving: the channel returns what any transport brings, in turns. The order is kept per transport. The end
   of one peer is reported, and the others go on.
   lwmq_channel_wait_connected waits for a peer on each transport. flush and close cover all of them.
   lwmq_channel_query sums over them; its `connected` is 1 when all are connected.
   Two transports that lead to the same channel of the same process are refused: receive and wait_connected
   return LWMQ_E_INVALID, once, on both sides.

   Redundant transports are several ways to one peer, of which any may fail. Both sides must ask for them. Each
   message goes every way with a number, which adds 24 bytes, or 48 if the message has one frame. The receiver drops
   and counts what has arrived before. The order is kept per send queue. While one way to the peer is left, the end of
   another is not reported and loses nothing. wait_connected waits for one way, and `connected` is 1 when
   there is one. flush and close wait until one way has brought everything. The queues of a way that is down for
   long fill up; bounded kinds limit how much of it is kept.

   LWMQ_E_INVALID: this transport differs in something that all transports of a channel share.
   LWMQ_E_UNSUPPORTED: the provider cannot do what the channel asks for, or the transport is redundant and the
   channel's receive queue is not mono. */
lwmq_status lwmq_channel_add_transport(lwmq_channel *channel, const char *address,
                                       const lwmq_transport_options *options);

/* The kinds of send queues. A channel may have any number and mix of them at each priority.
   mono       One thread posts at a time, without a lock and without an atomic read-modify-write on the queue.
   multi and bounded kinds
              Any number of threads post. The order of each thread's posts is kept.
   bounded    Holds at most `capacity` messages that are not on their way yet. A post into a full queue discards the
              oldest of them, or itself (discard newest), and returns LWMQ_OK. lwmq_send_queue_query counts these.
   tagged     Conflates. A post with a tag first removes the message of the same tag that is not on its way yet; the
              new message goes to the end of the queue. Tag 0 is no tag. Tags do not travel to the peer. */
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
  uint64_t capacity; /* in messages; at least 1 for a bounded kind, 0 for every other */
} lwmq_send_queue_options;

/* Time critical is strict: while a time-critical queue has messages, no other queue is served. Idle queues are
   served only when every other queue is empty. The five priorities between share by weight. Queues of the same
   priority take turns, message by message. */
enum {
  LWMQ_PRIORITY_TIME_CRITICAL = 1,
  LWMQ_PRIORITY_HIGHEST = 2,
  LWMQ_PRIORITY_ABOVE_NORMAL = 3,
  LWMQ_PRIORITY_NORMAL = 4,
  LWMQ_PRIORITY_BELOW_NORMAL = 5,
  LWMQ_PRIORITY_LOWEST = 6,
  LWMQ_PRIORITY_IDLE = 7
};

/* Adds a send queue before or after the channel is opened. Any thread may call this. The queue lives as long as
   the channel.
   LWMQ_E_INVALID: there is no such kind or priority, a bounded kind has no capacity, or another kind has one.
   The text has the numbers. */
lwmq_status lwmq_channel_add_send_queue(lwmq_channel *channel, const lwmq_send_queue_options *options,
                                        lwmq_send_queue **out_queue);
/* Sets how many messages each of the priorities HIGHEST to LOWEST may send in a round before the next one has its
   turn. `count` is 5; each weight is 0 to 65,535; the default is 16, 8, 4, 2, 1. A priority of weight 0 is served
   when those that have a weight are empty. Any thread may call this. It waits for the thread that is just
   shipping. */
lwmq_status lwmq_channel_set_weights(lwmq_channel *channel, const uint32_t *weights, uint32_t count);
/* Moves the queue, with all its messages, to another priority. Any thread may call this. It waits for the thread
   that is just shipping. */
lwmq_status lwmq_send_queue_set_priority(lwmq_send_queue *queue, uint32_t priority);
/* Binds the address or begins to connect. Does not wait for a peer to come. In the automatic role it finds out
   whether a server listens, which takes 0.2 s per transport if that server is stopped. If one of several
   transports fails, all are closed.
   LWMQ_E_ADDRESS: another process or channel has bound the address.
   LWMQ_E_INVALID: the channel is open already, or there is no such role.
   LWMQ_E_UNSUPPORTED: this end of a one-way transport cannot do what the channel asks for.
   LWMQ_E_SYSTEM. */
lwmq_status lwmq_channel_open(lwmq_channel *channel, int32_t role);
/* The address of transport `transport`, counted from 0; once the channel listens there, with the port that the system has
   chosen where the port was 0. Lent until the channel is closed. NULL past the last transport. */
const char *lwmq_channel_address(lwmq_channel *channel, uint32_t transport);
/* Waits until a peer is connected. Returns LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED, LWMQ_E_CLOSED, or what
   lwmq_channel_receive returns for a failure to connect. LWMQ_E_TIMED_OUT leaves a text here where more is known: what the
   attempt to connect waits for. */
lwmq_status lwmq_channel_wait_connected(lwmq_channel *channel, uint32_t timeout_ms);
/* Posts `*message`. The channel need not be open yet. Never waits. One thread at a time posts into a mono queue;
   any number of threads post into every other kind. Messages of one thread keep their order.
   LWMQ_OK: takes the message and sets *message to NULL. With any other status the message is still the caller's.
   LWMQ_E_TOO_BIG, LWMQ_E_CLOSED, LWMQ_E_NO_MEMORY.
   LWMQ_E_INVALID: two threads posted into a mono queue at once. The library notices this in most cases. */
lwmq_status lwmq_send_queue_post(lwmq_send_queue *queue, lwmq_message **message);
/* Posts a message of one frame that is a copy of `bytes` bytes. This is the short way for small messages. */
lwmq_status lwmq_send_queue_post_bytes(lwmq_send_queue *queue, const void *data, uint64_t bytes);
/* As lwmq_send_queue_post, with a tag. LWMQ_E_INVALID: the tag is not 0, but the queue's kind is not tagged. */
lwmq_status lwmq_send_queue_post_tagged(lwmq_send_queue *queue, uint64_t tag, lwmq_message **message);
/* As lwmq_send_queue_post_tagged, but first waits at most timeout_ms until a bounded queue has room. If there is
   none by then, `or_discard` decides. With 1, the discard rule of the queue applies. With 0, nothing is
   discarded, and the call returns LWMQ_E_TIMED_OUT, or LWMQ_E_FULL if timeout_ms is 0.
   LWMQ_E_INVALID: timeout_ms is not 0, but the queue is unbounded.
   LWMQ_E_UNSUPPORTED: the channel has several transports. It allows only `or_discard` 1 with timeout_ms 0.
   LWMQ_E_INTERRUPTED, LWMQ_E_CLOSED: a signal, or a close from another thread, has ended the wait.
   The message is still the caller's after all of these. */
lwmq_status lwmq_send_queue_post_wait(lwmq_send_queue *queue, uint64_t tag, uint32_t timeout_ms,
                                      uint32_t or_discard, lwmq_message **message);
/* Waits until a bounded queue has room, but posts nothing. This is for a program that must not post on the thread
   that waits. Another thread may take the room first.
   LWMQ_E_FULL: there is no room, and timeout_ms is 0. Otherwise fails as lwmq_send_queue_post_wait does. */
lwmq_status lwmq_send_queue_wait_room(lwmq_send_queue *queue, uint32_t timeout_ms);

typedef struct lwmq_bytes {
  const void *data;
  uint64_t bytes;
} lwmq_bytes;

/* Posts `count` messages of one copied frame each, in their order. This costs less than one call for each. Never
   waits. *out_posted is written with every status: the number of messages that were posted, from the first on.
   LWMQ_E_TOO_BIG: nothing was posted.
   LWMQ_E_CLOSED: another thread has closed the channel. Messages that were posted and had not left are gone. */
lwmq_status lwmq_send_queue_post_many(lwmq_send_queue *queue, const lwmq_bytes *frames, uint64_t count,
                                      uint64_t *out_posted);
/* The same for messages that exist already. No message may occur twice. Those that were posted are taken, and
   their places in the array are NULL. */
lwmq_status lwmq_send_queue_post_messages(lwmq_send_queue *queue, lwmq_message **messages, uint64_t count,
                                          uint64_t *out_posted);

/* Counters since the queue was made. While no thread posts or ships, `posted` is the sum of the four fields below
   it. On a channel with several transports those four are sums over the transports, and `posted` is not. */
typedef struct lwmq_send_queue_statistics {
  uint64_t size;
  uint32_t kind;
  uint32_t priority;
  uint64_t capacity;
  uint64_t posted;    /* posts that returned LWMQ_OK */
  uint64_t collected; /* on their way to a peer, or arrived */
  uint64_t discarded; /* by the rule of a bounded queue, or by a close */
  uint64_t replaced;  /* by a later post with the same tag */
  uint64_t queued;    /* waiting now */
} lwmq_send_queue_statistics;

/* Any thread may call this. After a close it returns the last figures, until destroy. */
lwmq_status lwmq_send_queue_query(const lwmq_send_queue *queue, lwmq_send_queue_statistics *out_statistics);
/* Receives the next message. The application gives it back with lwmq_message_destroy whenever it likes. A message
   of 4 KiB or more stays where it landed and keeps one of the peer's buffers, as long as no more than half of
   those buffers are kept in this way. All other messages are copies.

   After the loss of a peer the messages that it had committed come first. Then the call reports the end once. A
   new peer may follow.
   LWMQ_E_CLOSED: the peer closed in order.
   LWMQ_E_PEER_LOST: the peer died, or it closed before it had shipped everything that was posted. In that case the
   text says how many messages never came.
   LWMQ_E_CORRUPT: the peer broke the protocol and was dropped.
   LWMQ_E_NO_MEMORY: there is no memory for a message that has arrived. The message waits, and the next receive
   tries again.
   A failure to connect that a person has to mend (LWMQ_E_VERSION, LWMQ_E_DENIED, LWMQ_E_INVALID, LWMQ_E_SYSTEM and
   the like) is returned by every call until an attempt to connect succeeds. */
lwmq_status lwmq_channel_receive(lwmq_channel *channel, uint32_t timeout_ms, lwmq_message **out_message);
/* Receives as lwmq_channel_receive does, and also takes what has arrived meanwhile, at most `limit` messages. Only
   the first message is waited for. `out_messages` has room for `limit` pointers. *out_count is at least 1. The end
   of a conversation is reported by a call of its own, after every message. */
lwmq_status lwmq_channel_receive_many(lwmq_channel *channel, uint32_t limit, uint32_t timeout_ms,
                                      lwmq_message **out_messages, uint32_t *out_count);

/* A lent message: its first frame, which is NULL and 0 if the message has none, and its handle, if it has one.
   If `message` is NULL, the bytes are the whole message and lie where the peer has written them. The peer can
   still change them, so copy whatever you follow before you check it. A handle belongs to the loan;
   lwmq_message_reference keeps the frames beyond the loan. */
typedef struct lwmq_lent {
  const void *data;
  uint64_t bytes;
  lwmq_message *message;
} lwmq_lent;
/* A loan shows messages that the application looks at before it receives the next ones. Small messages of one
   frame then cost neither a copy nor a handle. They count as read when they are given back, or when a receive
   waits for more. One thread at a time uses a loan. It may serve any number of channels, one after the other.
   Each lent message keeps a whole buffer from the peer. A thread that holds all of the peer's buffers in loans,
   and waits for more by any means other than this loan, waits for ever. */
typedef struct lwmq_loan lwmq_loan;
/* Makes a loan for up to `limit` messages at a time, at least 1. */
lwmq_status lwmq_loan_create(uint32_t limit, lwmq_loan **out_loan);
/* First gives back what `loan` holds, whatever happens next. Then receives as lwmq_channel_receive_many does, with
   one difference: the messages belong to the loan until the next call with it. *out_lent shows *out_count messages,
   at least 1, or nothing on failure. More messages may have arrived than the loan takes at a time. Lent messages
   stay readable when the peer is lost and when the channel is closed. */
lwmq_status lwmq_channel_receive_loan(lwmq_channel *channel, uint32_t timeout_ms, lwmq_loan *loan,
                                      const lwmq_lent **out_lent, uint32_t *out_count);
/* Gives back what the loan holds. Never waits. RELEASE call-backs may run in this call, in the next receive, and in
   destroy. */
void lwmq_loan_give_back(lwmq_loan *loan);
/* Takes the loan and gives back what it holds. */
void lwmq_loan_destroy(lwmq_loan *loan);

/* Returns a descriptor for poll, epoll and the like. It is readable unless nothing has come since a receive found
   nothing. Use it like this: poll for reading; receive with timeout_ms 0 until LWMQ_E_EMPTY; poll again. It stays
   readable while something is left to receive. Each message, each report and the close of the channel make it
   readable. Now and then it is readable for nothing. While nothing comes, no thread wakes up.
   Do not read from it. It is lent until destroy. Any thread may call this; the call may wait for a thread that is
   receiving. */
lwmq_status lwmq_channel_descriptor(lwmq_channel *channel, int32_t *out_descriptor);
/* Called with each message that has come, in order; the call-back owns the message. For the loss of the peer or the
   end of its conversation it is called with NULL and the status that receive would have returned; lwmq_last_error
   has the text. After the channel itself is closed it is called once more, with LWMQ_E_CLOSED. On a channel that a
   listener gave, the end of the client is the last call. */
typedef void (*lwmq_on_message)(void *context, lwmq_status status, lwmq_message *message);
/* From now on `callback` receives. It runs on a thread of the library that all channels share, so that the others
   wait while it runs. It may post to any channel and may end its own calls. It must not destroy its channel.
   `callback` NULL ends the calls: when this returns, no call runs any more, except the one that made this request.
   This replaces an earlier call-back or signal of the channel.
   LWMQ_E_INVALID: the channel is raw or not open. */
lwmq_status lwmq_channel_on_message(lwmq_channel *channel, lwmq_on_message callback, void *context);
/* From now on `signal` (SIGRTMIN to SIGRTMAX) is queued to this process with `value` when there is something to
   receive. It is queued again when something comes after a receive with timeout_ms 0 has returned LWMQ_E_EMPTY, and
   now and then for nothing. `signal` 0 ends this; a signal that is queued already still arrives. This replaces an
   earlier call-back or signal of the channel. */
lwmq_status lwmq_channel_signal_on_message(lwmq_channel *channel, int32_t signal, void *value);
/* Waits until the send queues are empty and everything is shipped. The peer then has the messages, but need not have
   read them. Messages that other threads post meanwhile are waited for, too. The loss of a peer is reported by
   receive, not here: messages that still wait then are for the next peer.
   LWMQ_E_TIMED_OUT: some messages still wait for a peer or for room; this is also the answer with timeout_ms 0.
   LWMQ_E_CLOSED: another thread has closed the channel and may have dropped messages. */
lwmq_status lwmq_channel_flush(lwmq_channel *channel, uint32_t timeout_ms);

typedef struct lwmq_channel_statistics {
  uint64_t size;
  uint32_t connected; /* 0 or 1 */
  uint32_t is_server;
  uint64_t messages_posted, messages_shipped, messages_received;
  uint64_t messages_lost;      /* shipped, and not seen read when the peer was lost */
  uint64_t buffers_shipped;
  uint64_t shipped_full, shipped_idle; /* why a buffer was closed: it had no room, or the queues were empty */
  uint64_t bytes_shipped, bytes_received;
  uint64_t peers_lost;
  uint32_t buffers_free; /* send buffers that are available at once */
  uint64_t messages_passed; /* of those shipped: handed over as they are to a peer in this process */
  uint64_t receive_queued;    /* in the receive queue now; 0 if that is mono */
  uint64_t receive_discarded; /* by the rule of a bounded receive queue; also counted as received */
  uint64_t duplicates_dropped; /* received before over another redundant transport; not counted as received */
  uint64_t clients_refused;    /* server: clients of another version, purpose or user, or with numbers that do not
                                  fit this channel's */
  uint64_t messages_unread; /* shipped to the peers that are connected now, and not seen read yet */
} lwmq_channel_statistics;

/* Any thread may call this. After a close it returns the last figures, until destroy. */
lwmq_status lwmq_channel_query(const lwmq_channel *channel, lwmq_channel_statistics *out_statistics);

typedef struct lwmq_peer {
  uint64_t size;
  uint32_t connected;   /* 0: the peer has gone, as far as this side has noticed */
  uint32_t pid, uid;
  uint32_t number;      /* counts the peers that have come over this transport, from 1; 0: none has come */
  uint8_t instance[16]; /* of the peer's process: as in lwmq_identity */
} lwmq_peer;

/* Describes the present or last peer of transport `transport`, counted from 0. Any thread may call this.
   LWMQ_E_EMPTY: no peer has come yet. LWMQ_E_INVALID past the last. LWMQ_E_CLOSED after a close. */
lwmq_status lwmq_channel_peer(lwmq_channel *channel, uint32_t transport, lwmq_peer *out_peer);
/* Returns how many peers have ended so far, over all transports of the channel, whether a receive has reported them
   or not. Something that is asked while this number is N does not fail with the end of number N or of a smaller
   number: it was meant for a later peer. Any thread may call this. Never waits. */
lwmq_status lwmq_channel_ends(const lwmq_channel *channel, uint64_t *out_ends);
/* Waits until a peer comes or goes: until lwmq_channel_peer would return another `number` or `connected` than *peer
   has. Writes what lwmq_channel_peer returns. On entry *peer is what was known before, or has only its size set; then
   the call returns as soon as a peer is there. A loop around this call hears of every change; of several changes
   between two calls it hears only the last. Any number of threads may wait.
   LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED. LWMQ_E_CLOSED: no peer will come any more. What keeps a peer away is
   reported by receive, not here. */
lwmq_status lwmq_channel_wait_peer(lwmq_channel *channel, uint32_t transport, uint32_t timeout_ms, lwmq_peer *peer);

/* -- Many clients at one address --
   A channel that serves has one client at a time; the next client is heard when that one has gone. A listener takes
   each client as it comes and gives each a channel of its own. With a selector one thread serves all of these
   channels and the listener. Each transport of a client counts as a client of its own here, so redundant transports
   bring every message once over each. */
typedef struct lwmq_listener lwmq_listener;

/* Binds `address`, which may have options as for a channel. `options` are those of each channel that the listener
   gives; NULL means the defaults. Filters that the address names apply to each channel. They are one list: a filter
   that is added or removed at one channel is added or removed at all, from their next look on. Fails as
   lwmq_channel_create and lwmq_channel_open do. Does not wait. */
lwmq_status lwmq_listener_open(const char *address, const lwmq_channel_options *options, lwmq_listener **out_listener);
/* The address that was bound, with the port that the system has chosen where the port was 0. Lent until the listener is
   closed. */
const char *lwmq_listener_address(const lwmq_listener *listener);
/* Returns the next client's channel, open and connected. It belongs to the caller, outlives the listener, and serves
   this client alone. When the client has gone, what it sent can still be received. Then its end is reported as that
   of any peer. After that, receives return LWMQ_E_CLOSED, and posts do so as soon as the client has gone. The only
   thing left is to destroy the channel.
   What a client sends before it is accepted waits for it. Up to 128 clients wait to be accepted, and perhaps 64 more;
   further ones keep trying to connect.
   Any number of threads may call this at once.
   LWMQ_E_TIMED_OUT, LWMQ_E_EMPTY, LWMQ_E_INTERRUPTED. LWMQ_E_CLOSED: the listener was closed, perhaps by another
   thread. LWMQ_E_NO_MEMORY: the connection to this client was dropped. */
lwmq_status lwmq_listener_accept(lwmq_listener *listener, uint32_t timeout_ms, lwmq_channel **out_channel);
/* Returns a descriptor for poll, epoll and the like. It is readable while a client waits to be accepted, and when the
   listener was closed. Do not read from it. It is lent until destroy. Any thread may call this. */
lwmq_status lwmq_listener_descriptor(const lwmq_listener *listener, int32_t *out_descriptor);

typedef struct lwmq_listener_statistics {
  uint64_t size;
  uint64_t accepted;
  uint64_t waiting;  /* connected and not accepted yet */
  uint64_t refused;  /* as clients_refused of a channel */
  char refusal[256]; /* why the last of them was refused; cut if longer */
} lwmq_listener_statistics;

/* Any thread may call this. */
lwmq_status lwmq_listener_query(lwmq_listener *listener, lwmq_listener_statistics *out_statistics);
/* Frees the address and drops the clients that were not accepted. Channels that the listener gave live on. Any thread
   may call this; it ends the waits of others. Never waits for a client. LWMQ_E_CLOSED: it was closed before. */
lwmq_status lwmq_listener_close(lwmq_listener *listener);
/* Takes the listener, closed or not. Waits until every thread has left accept. NULL is allowed. */
void lwmq_listener_destroy(lwmq_listener *listener);

/* -- Filters --
   A filter stands between a channel and its transport and sees every extent in both directions. An extent is what a
   transport makes visible to the peer at once; on a channel it is one message. If the channel has several transports,
   filters stand at the first one. The built-in filters are trace, record, replay, loss, delay, reorder, corrupt, rate
   and latency; modules may bring others.
   Filters and their settings stand in front of the scheme, the one nearest to the application first:
   `trace+loss=0.01,seed=7+ipc://orders`. `filters+ipc://orders` begins with an empty list. A channel whose address
   names no filters cannot have any, and pays nothing for them.
   What a filter drops is lost, even under a transport that is otherwise reliable: nothing repairs it. The filter
   counts it. The sender counts it as lost when the peer's goodbye says how many messages were received. */

#define LWMQ_FILTER_LAST 4294967295

typedef struct lwmq_filter_view {
  uint64_t size;
  char name[32];
  char settings[256]; /* cut if longer */
  uint64_t seen, dropped, changed; /* extents, in both directions, over all peers that came */
  uint64_t sourced;   /* extents that the filter brought itself */
  uint64_t held;      /* extents held now, plus one while the filter still has extents of its own to bring */
  uint64_t failed;    /* extents on which the filter could not do its work, for example because a disk was full; and
                         instances that could not be made while extents passed, and so let everything pass */
  uint64_t timed;     /* extents whose time was measured; see lwmq_channel_query_times */
} lwmq_filter_view;

/* Adds `filter`, such as "delay=5ms", at `place`. 0 is nearest to the application, LWMQ_FILTER_LAST nearest to the
   wire. Any thread may call this while extents pass; what comes after the call passes the filter.
   LWMQ_E_INVALID: there is no such filter, place or setting. LWMQ_E_UNSUPPORTED: the address names no filters.
   LWMQ_E_SYSTEM, LWMQ_E_CORRUPT, LWMQ_E_VERSION: something is wrong with the filter's file. */
lwmq_status lwmq_channel_add_filter(lwmq_channel *channel, const char *filter, uint32_t place);
/* Removes the filter at `place`. What it held lands now. A receive that is waiting already sees it within 0.25 s. */
lwmq_status lwmq_channel_remove_filter(lwmq_channel *channel, uint32_t place);
/* LWMQ_E_INVALID past the last. */
lwmq_status lwmq_channel_query_filter(const lwmq_channel *channel, uint32_t place, lwmq_filter_view *out_view);

/* Returns a quantile of the times that the `latency` filter at `place` has measured: `share` of them, 0 to 1, took at
   most *out_ns. 0.5 gives the median, 1 the longest time. The result is accurate to 1.6 %. Any thread may call this.
   LWMQ_E_EMPTY: nothing was measured. */
lwmq_status lwmq_channel_query_times(const lwmq_channel *channel, uint32_t place, double share, uint64_t *out_ns);

/* Closes the channel. Waits at most linger_ms until the peer has read what was posted. Also waits as destroy does. A
   message counts as read when it was destroyed there, or when its receiver waits for the next one. Over a network the
   peer tells so a few milliseconds later. What was shipped reaches the peer after a close with any linger. Afterwards
   every call returns LWMQ_E_CLOSED, except destroy and the calls that give raw buffers back.
   LWMQ_E_TIMED_OUT: the channel is closed, but not everything was read. The text says how many messages were dropped
   and how many were not seen read, including those of a former peer whose end no receive has reported. */
lwmq_status lwmq_channel_close(lwmq_channel *channel, uint32_t linger_ms);
/* Takes the channel and its queues. If the channel is open, closes it without a linger. Waits for threads that wait
   in a call of the channel or run its call-back, and up to 0.25 s for an attempt to connect that is under way.
   Received messages live on. */
void lwmq_channel_destroy(lwmq_channel *channel);

/* A selector lets one thread serve many channels in turns. Each channel that has something gives one message before
   any gives its next, however unequally their peers send (fair queueing, RFC 970). A channel that was silent joins
   the turns after 64 messages, or some 64 KiB of them, for every 64 channels that are busy. One thread at a time
   waits or receives. Any thread adds and removes. */
typedef struct lwmq_selector lwmq_selector;

lwmq_status lwmq_selector_create(lwmq_selector **out_selector);
/* A channel leaves its selectors when it is destroyed. LWMQ_E_INVALID: the channel was added before. */
lwmq_status lwmq_selector_add(lwmq_selector *selector, lwmq_channel *channel);
/* Waits while a message of the channel is being received. After that the channel is the caller's alone.
   LWMQ_E_INVALID: the channel is not in the selector. */
lwmq_status lwmq_selector_remove(lwmq_selector *selector, lwmq_channel *channel);
/* From now on a client that waits at the listener has its turn, too. wait and receive then return LWMQ_OK with a
   channel and a message that are NULL, again and again, until the client was accepted or the listener removed. They
   do the same when the listener was closed. A listener leaves its selectors when it is destroyed.
   LWMQ_E_INVALID: the listener was added before, or is not in the selector. */
lwmq_status lwmq_selector_add_listener(lwmq_selector *selector, lwmq_listener *listener);
lwmq_status lwmq_selector_remove_listener(lwmq_selector *selector, lwmq_listener *listener);
/* Waits for the next channel whose turn it is. Now and then a receive from it with timeout_ms 0 still finds nothing
   (LWMQ_E_EMPTY). */
lwmq_status lwmq_selector_wait(lwmq_selector *selector, uint32_t timeout_ms, lwmq_channel **out_channel);
/* Receives the next message of the channel that the last lwmq_selector_wait returned. While it is asked in this way the
   channel keeps its place in the turns, even if some looks find nothing. That is much cheaper than
   lwmq_channel_receive. Does not wait.
   LWMQ_E_EMPTY: the channel has nothing now, or was removed since. Otherwise as lwmq_channel_receive. */
lwmq_status lwmq_selector_take(lwmq_selector *selector, lwmq_message **out_message);
/* Waits for and receives one message. *out_channel is also written when that channel's receive failed, because of the
   loss of its peer or its close. It is NULL with LWMQ_E_TIMED_OUT, LWMQ_E_EMPTY and LWMQ_E_INTERRUPTED. */
lwmq_status lwmq_selector_receive(lwmq_selector *selector, uint32_t timeout_ms, lwmq_channel **out_channel,
                                  lwmq_message **out_message);
/* Returns a descriptor for poll, epoll and event loops. It is readable while one of the channels may have something, or
   a client waits. Poll it only after a wait or receive with timeout_ms 0 has returned LWMQ_E_EMPTY; before that, a
   channel may have its turn although the descriptor is not readable. Lent until destroy. Do not read from it. */
lwmq_status lwmq_selector_descriptor(lwmq_selector *selector, int32_t *out_fd);
/* Takes the selector. Its channels live on. NULL is allowed. */
void lwmq_selector_destroy(lwmq_selector *selector);

/* A router is a table that decides to which send queues a message goes.
   A route consists of a frame number, a pattern for that frame, optionally a group, and a send queue. The first frame
   is the topic of a message; others are its headers. Patterns are those of AMQP 0-9-1 topic exchanges: words between
   dots, where `*` stands for any one word and `#` for any number of words. A pattern has up to 32 words, a topic any
   number.
   A queue gets a message once, however many of its routes without a group match. Of the routes that name the same
   group, one gets the message, in turns. A turn passes over bounded queues that are full and over queues whose
   channel has no peer now. If no channel of the group has a peer, one of them keeps the message for its next peer.
   A queue of a channel with several transports cannot be in a group (LWMQ_E_UNSUPPORTED). Any thread may call the
   functions below. */
typedef struct lwmq_router lwmq_router;

lwmq_status lwmq_router_create(lwmq_router **out_router);
/* Adds a route. `group` may be NULL: then the route stands alone. A route goes when the channel of its queue is
   destroyed. LWMQ_E_INVALID: the pattern is malformed, or the route exists already. */
lwmq_status lwmq_router_add(lwmq_router *router, uint32_t frame, const char *pattern, const char *group,
                            lwmq_send_queue *queue);
/* Removes a route. LWMQ_E_INVALID: there is no such route. */
lwmq_status lwmq_router_remove(lwmq_router *router, uint32_t frame, const char *pattern, const char *group,
                               lwmq_send_queue *queue);
/* Removes every route to this queue. */
lwmq_status lwmq_router_forget(lwmq_router *router, const lwmq_send_queue *queue);
/* Posts a message to every queue that a route leads to. Copies nothing. Never waits. *out_queues is written with every
   status: how many queues have the message. The message is taken unless that number is 0.
   LWMQ_E_EMPTY: no route matches. LWMQ_E_FULL: no queue of a group has room. LWMQ_E_TOO_BIG, LWMQ_E_CLOSED: one of the
   queues refused the message; the others have it. */
lwmq_status lwmq_router_post(lwmq_router *router, lwmq_message **message, uint32_t *out_queues);
/* Takes the router. Its queues live on. NULL is allowed. */
void lwmq_router_destroy(lwmq_router *router);

/* Requests and their replies over a channel. Thousands may be outstanding, each with a time-out of its own. The format
   is that of Python's and Java's Requests and Replies (WIRE.md).
   The library never asks twice by itself. A request may have been executed although the asker was told that its time
   is over or that the peer is lost. Everything that comes over the channel belongs to the requests object: what is not
   a reply is counted and dropped. Any thread may call the functions below. Of several waiting threads one receives for
   all. */
typedef struct lwmq_requests lwmq_requests;

typedef struct lwmq_requests_options {
  uint64_t size;
  lwmq_send_queue *queue;   /* a queue of the channel to which requests are posted; NULL: one unbounded queue that all
                               such objects of the channel share */
  uint64_t outstanding_max; /* includes those whose outcome was not fetched yet; default 2^20, some 200 bytes each */
  uint32_t keep_failures;   /* 1: LWMQ_E_HANDLER comes with a message as *out_reply, which the caller destroys. Its frames
                               1 and 2 are the kind and the text of the failure, UTF-8, at most 1,000 bytes each */
} lwmq_requests_options;

/* May be called before or after the channel is opened. LWMQ_E_INVALID: the queue belongs to another channel, or the
   channel is raw. LWMQ_E_NO_MEMORY. */
lwmq_status lwmq_requests_create(lwmq_channel *channel, const lwmq_requests_options *options,
                                 lwmq_requests **out_requests);
/* Makes a message whose first frame is the head of a request. The frames that the caller appends are the question. */
lwmq_status lwmq_requests_make(lwmq_requests *requests, lwmq_message **out_request);
/* Asks and goes on. Never waits for the peer, which may come later. Takes the message only with LWMQ_OK. *out_number
   is the number under which lwmq_requests_next reports the outcome. With timeout_ms LWMQ_FOREVER the request has as
   long as the peer lives.
   LWMQ_E_FULL: too many requests are outstanding. LWMQ_E_INVALID: the message is not from lwmq_requests_make, or is
   outstanding already. While something keeps the peer away that has to be mended, such as another version of the
   protocol, the status is that failure's. Otherwise as lwmq_send_queue_post. */
lwmq_status lwmq_requests_submit(lwmq_requests *requests, lwmq_message **request, uint32_t timeout_ms,
                                 uint64_t *out_number);
/* As lwmq_requests_submit, for a thread that calls lwmq_requests_wait next: a thread that sleeps in lwmq_requests_next
   is not woken to receive the reply. Without that call the reply may be received 10 ms late. */
lwmq_status lwmq_requests_begin(lwmq_requests *requests, lwmq_message **request, uint32_t timeout_ms,
                                uint64_t *out_number);
/* Waits for the next outcome of a submitted request. *out_number says which request it belongs to. The calling thread
   has no wake-ups while nothing happens. It leaves receiving to a thread that waits for a reply of its own
   (lwmq_requests_wait, lwmq_requests_request), so that such a reply wakes one thread and not two.
   With number 0 the status concerns no request: LWMQ_E_EMPTY, LWMQ_E_TIMED_OUT (of this wait), LWMQ_E_INTERRUPTED,
   LWMQ_E_NO_MEMORY (nothing is lost), or something else that a receive reported, such as the end of a peer that had
   gone before any of the outstanding requests were asked, or, once, what keeps the peer away.
   With another number:
     LWMQ_OK            the reply. Its frames from 1 on are the answer; frame 0 is the head. The caller destroys it
     LWMQ_E_HANDLER     the peer's handler has failed
     LWMQ_E_TIMED_OUT   the request's time is over; lwmq_last_error has a text. A reply that comes later is dropped
     LWMQ_E_PEER_LOST, LWMQ_E_CLOSED and other answers of a receive: the peer has gone, or the channel was closed */
lwmq_status lwmq_requests_next(lwmq_requests *requests, uint32_t timeout_ms, uint64_t *out_number,
                               lwmq_message **out_reply);
/* Waits for the outcome of one submitted request, instead of lwmq_requests_next. The outcomes are the same.
   LWMQ_E_EMPTY: there is no outcome to report here. Either timeout_ms passed first, and lwmq_requests_next reports the
   outcome unless this is called again; or it was reported already, the request was cancelled or never submitted, or
   another thread waits for it. After LWMQ_E_INTERRUPTED and LWMQ_E_NO_MEMORY the request is still outstanding. */
lwmq_status lwmq_requests_wait(lwmq_requests *requests, uint64_t number, uint32_t timeout_ms,
                               lwmq_message **out_reply);
/* Asks, and waits for the outcome of this request, which is as described above. *request is NULL afterwards if it was
   posted. After LWMQ_E_INTERRUPTED and LWMQ_E_NO_MEMORY the request is no longer outstanding.
   LWMQ_E_INVALID: also if the channel is not open yet, because then no reply could come during the wait. */
lwmq_status lwmq_requests_request(lwmq_requests *requests, lwmq_message **request, uint32_t timeout_ms,
                                  lwmq_message **out_reply);
/* Gives up a request. Its outcome will not be reported; a thread in lwmq_requests_wait for it returns LWMQ_E_EMPTY.
   LWMQ_E_EMPTY: it was never submitted, or its outcome was reported already. */
lwmq_status lwmq_requests_cancel(lwmq_requests *requests, uint64_t number);
/* For a program that receives from the channel by other means, such as a selector, on the same thread: hands over a
   message that it received, as if lwmq_requests_next had received it. Takes the message. Does not wait. Call
   lwmq_requests_next with timeout_ms 0 for the outcome. */
lwmq_status lwmq_requests_file(lwmq_requests *requests, lwmq_message **message);
/* For the same program: hands over the end of the peer. `failure` is what its receive returned, and lwmq_last_error
   still has that failure's text. Every outstanding request fails with it, except those that were asked after that
   peer had gone. LWMQ_E_INVALID: `failure` is no failure. */
lwmq_status lwmq_requests_lose(lwmq_requests *requests, lwmq_status failure);
/* Ends the requests. Every outstanding request fails with LWMQ_E_CLOSED, and so does every later call except query and
   destroy; lwmq_requests_next reports the outcomes that are left first. Waiting threads wake. Waits, at most 0.25 s,
   until no thread receives for the requests: from then on the messages of the channel are the application's again.
   A second call does nothing more. */
lwmq_status lwmq_requests_close(lwmq_requests *requests);

/* `asked` is the sum of `outstanding` and of the fields that follow it, up to `given_up`. */
typedef struct lwmq_requests_statistics {
  uint64_t size;
  uint64_t asked;
  uint64_t outstanding;
  uint64_t answered;
  uint64_t failed;    /* LWMQ_E_HANDLER */
  uint64_t timed_out;
  uint64_t lost;      /* with the peer, or with the channel */
  uint64_t given_up;  /* cancelled, interrupted, or not posted */
  uint64_t late;      /* dropped replies to requests that were settled before */
  uint64_t foreign;   /* dropped replies to another asker */
  uint64_t malformed; /* dropped messages that are no replies */
  uint32_t due_ms;    /* until the next time-out, for a program that sleeps in poll; LWMQ_FOREVER: there is none */
} lwmq_requests_statistics;

lwmq_status lwmq_requests_query(lwmq_requests *requests, lwmq_requests_statistics *out_statistics);
/* Takes the object. No thread may be in a call of it. Outstanding requests are forgotten. The channel lives on. NULL is
   allowed. */
void lwmq_requests_destroy(lwmq_requests *requests);

/* The answering side. Makes the beginning of a reply to a received request. The frames that the caller appends are the
   answer. Post it to a queue of the channel that the request came over. LWMQ_E_CORRUPT: the message is no request. */
lwmq_status lwmq_reply_make(const lwmq_message *request, lwmq_message **out_reply);
/* Makes a whole reply, ready to be posted, that fails the request with LWMQ_E_HANDLER. `kind`, such as the name of an
   exception's class, and `text` are UTF-8; 1,000 bytes of each travel. */
lwmq_status lwmq_reply_make_failure(const lwmq_message *request, const char *kind, const char *text,
                                    lwmq_message **out_reply);

/* Direct buffer access, on a channel made with raw = 1. The sender gets a buffer, fills it and sends it. The receiver
   receives it and disposes of it. Buffers travel in the order in which they are sent. */
typedef struct lwmq_buffer {
  void *data;         /* must stay what it was when it was lent; another pointer is refused with LWMQ_E_INVALID */
  uint64_t bytes;     /* after get: the room; set it to what is used before send. After receive: what has arrived */
  uint64_t token[4];  /* the library's */
} lwmq_buffer;

/* Lends a send buffer. Give it back with send or abandon. One thread at a time gets and sends.
   LWMQ_E_FULL: no buffer is free, or there is no peer, and timeout_ms is 0. Otherwise LWMQ_E_TIMED_OUT.
   LWMQ_E_INTERRUPTED, LWMQ_E_CLOSED, and what a receive returns for a failure to connect. */
lwmq_status lwmq_raw_get_buffer(lwmq_channel *channel, uint32_t timeout_ms, lwmq_buffer *out_buffer);
/* Takes the buffer, except with LWMQ_E_TOO_BIG, LWMQ_E_CLOSED and LWMQ_E_INVALID (this buffer was not lent).
   LWMQ_E_PEER_LOST: the peer that it was for has gone; the buffer counts as lost. Never waits. */
lwmq_status lwmq_raw_send_buffer(lwmq_channel *channel, lwmq_buffer *buffer);
/* Takes a buffer back unsent, even if its peer has gone, and even after the close. Any thread may call this. Until the
   buffer comes back it stays mapped and may be written to; after destroy, for the life of the process. */
lwmq_status lwmq_raw_abandon_buffer(lwmq_channel *channel, lwmq_buffer *buffer);
/* Lends the next buffer that has arrived. Give it back with dispose. One thread at a time receives. Returns what
   lwmq_channel_receive returns. */
lwmq_status lwmq_raw_receive_buffer(lwmq_channel *channel, uint32_t timeout_ms, lwmq_buffer *out_buffer);
/* Takes a received buffer, in any order, from any thread, even after the close. Dispose of all buffers before destroy:
   those that are left then stay mapped for the life of the process. */
lwmq_status lwmq_raw_dispose_buffer(lwmq_channel *channel, lwmq_buffer *buffer);

/* ---- Streams ------------------------------------------------------------------------------------ */

/* A stream has a name, an Arrow schema and a number of partitions. Each partition is a log of record batches with
   sequence numbers from 0.
   The library does not read Arrow. A schema is the bytes of an Arrow IPC stream that holds only the schema message. A
   batch is a block of bytes: either the encapsulated IPC message of one record batch, or a whole small IPC stream
   (see LWMQ_BATCH_IPC_STREAM).

   An endpoint serves the streams at one address, at most 1024 of them. The name of a stream stands behind the address:
   `ipc://door?stream=prices`. It has 1 to 63 letters, digits, '.', '_' and '-'. One stream of each address may have no
   name. An address without a name means that stream; if there is none, it means the only stream there. If several
   streams are there, the call fails with LWMQ_E_ADDRESS, and the text lists their names.

   Roles:
   LWMQ_ROLE_AUTO    Joins the stream, and makes it if it is not there: at the endpoint that serves the address, in
                     whichever process that is, or else at an endpoint that it makes in this process.
   LWMQ_ROLE_SERVER  Makes the stream in this process. LWMQ_E_ADDRESS: another process serves the address, or the stream
                     is already there.
   LWMQ_ROLE_CLIENT  Waits until the stream is there.

   An endpoint lives as long as its own process uses one of the streams there. The last user of a stream waits, for as
   long as it lingers, until the stream was read to its end. A stream that another process has made at the endpoint lives
   until nobody uses it and nothing of it is kept. The last user of the endpoint waits for such streams, too. */

#define LWMQ_SEQ_EARLIEST 18446744073709551615ULL /* the lowest batch that is retained and not acknowledged */
#define LWMQ_SEQ_LATEST 18446744073709551614ULL   /* the next batch that will be written */
#define LWMQ_SEQ_END 18446744073709551613ULL      /* as the end of a range: until the stream ends */

typedef enum lwmq_retain {
  LWMQ_RETAIN_UNTIL_ACKED = 0, /* keep a batch until `readers` distinct reader names have acknowledged it */
  LWMQ_RETAIN_ALL = 1,         /* until the endpoint closes */
  LWMQ_RETAIN_NONE = 2         /* until the readers present have passed it; writers wait for the first reader */
} lwmq_retain;

typedef enum lwmq_delivery {
  LWMQ_DELIVERY_LIVE = 0, /* batches are visible when they are published */
  LWMQ_DELIVERY_TASK = 1, /* when their writer has committed */
  LWMQ_DELIVERY_JOB = 2   /* when the job has committed */
} lwmq_delivery;

/* The calls below refuse every option but `stream` in the address of a stream (LWMQ_E_ADDRESS). What Python and Spark
   read from there are members of lwmq_writer_options and lwmq_reader_options. */

/* An endpoint that stands alone, for a process that keeps a stream alive apart from its writers and readers.
   lwmq_writer_open and lwmq_reader_open make one themselves if their role says so. */
typedef struct lwmq_endpoint lwmq_endpoint;
lwmq_status lwmq_endpoint_open(const char *address, lwmq_endpoint **out_endpoint);

/* Serves the endpoint's streams also at `address`, until the endpoint is closed. The address is of a network, such as
   tcps:// or vsocks://. Clients at all addresses of the endpoint share the streams; those of the same host and network
   namespace use shared memory.
   LWMQ_E_ADDRESS: another process serves it. LWMQ_E_UNSUPPORTED: the address is of no network. */
lwmq_status lwmq_endpoint_listen(lwmq_endpoint *endpoint, const char *address);

/* The address that it was opened at, with the port that the system has chosen where the port was 0. Lent until the
   endpoint is closed. */
const char *lwmq_endpoint_address(const lwmq_endpoint *endpoint);
/* Waits at most timeout_ms until the producers have ended and as many readers as the stream asks for have read
   everything. If this is the only use of the endpoint in its process, waits for all streams there. Closes nothing. May
   be called again. LWMQ_E_TIMED_OUT: not yet; the text says what is missing. */
lwmq_status lwmq_endpoint_drain(lwmq_endpoint *endpoint, uint32_t timeout_ms);
/* Waits at most linger_ms, as lwmq_endpoint_drain does. Then closes the endpoint in any case. Takes it.
   LWMQ_E_TIMED_OUT: the endpoint is closed; the text says how many batches were not read. */
lwmq_status lwmq_endpoint_close(lwmq_endpoint *endpoint, uint32_t linger_ms);

typedef struct lwmq_partition_state {
  uint64_t first_seq;   /* the lowest retained */
  uint64_t unacked_seq; /* the lowest not acknowledged; this is where LWMQ_SEQ_EARLIEST begins */
  uint64_t next_seq;    /* of the next batch that will be written */
  uint64_t rows, bytes; /* from unacked_seq to next_seq */
} lwmq_partition_state;

enum {
  LWMQ_STREAM_UNDECLARED = 0, /* no producer has brought a schema yet */
  LWMQ_STREAM_OPEN = 1,       /* producers are open, or expected */
  LWMQ_STREAM_ENDED = 2,      /* the last open producer has ended; there is something to read, if only the end */
  LWMQ_STREAM_CONSUMED = 3    /* ended, and acknowledged to its end; only a new producer brings more */
};

typedef struct lwmq_stream_state {
  uint64_t size;
  uint8_t generation[16]; /* of the endpoint; sequence numbers of one generation mean nothing in another */
  uint32_t state;         /* LWMQ_STREAM_* */
  uint32_t retain;        /* lwmq_retain */
  uint32_t readers;       /* the acknowledgements that a batch needs */
  uint32_t partition_count;
  uint32_t producers_open, readers_open;
  const void *schema; /* lent; NULL while undeclared */
  uint64_t schema_bytes;
  const lwmq_partition_state *partitions; /* lent; partition_count of them */
  lwmq_identity endpoint;                 /* where the endpoint runs */
  uint32_t readers_stalled;  /* readers that have taken nothing for long while a writer waits for them */
  uint32_t readers_expelled; /* so far */
  uint32_t stalled_pid;      /* the process of one of the stalled readers; 0: there is none */
  const char *address;       /* lent; the address of the stream, with its name if it has one */
  const char *addresses;     /* lent; all addresses at which the endpoint serves the stream, as they are bound, one a line */
} lwmq_stream_state;

/* Asks the endpoint at `address` for the state of its stream, and consumes nothing. Waits until there is an endpoint and,
   if `wait_declared` is 1, until the stream has a schema. If it is 2, LWMQ_E_EMPTY says at once that nobody serves the
   address. Give the state back with lwmq_stream_state_destroy. LWMQ_E_TIMED_OUT leaves a text: what was waited for. */
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
  uint64_t buffer_bytes;  /* the intended size of the largest block; default 4 MiB. Larger blocks pass as long as
                             they fit the window */
  uint64_t window_bytes;  /* memory for batches that are not released yet; default 64 MiB, or 16 times buffer_bytes
                             if that is more */
  uint64_t staging_bytes; /* memory beyond the window for batches that are not committed yet; default 1 GiB */
  const char *job;        /* the job or query of which this writer is a task; NULL: it is a producer by itself */
  uint32_t task;          /* with job: the partition of the job. Its own partition of the stream is task mod
                             partitions */
  uint32_t job_tasks;     /* with job: if not 0, the job ends by itself when that many tasks have committed */
  uint64_t attempt;       /* with job: distinguishes the attempts of a task */
  uint64_t epoch;         /* with job: the epoch of a streaming query */
  uint32_t stall_ms;      /* how long the endpoint may stay silent after it was asked for a sign of life; default
                             5,000. LWMQ_FOREVER: it is never asked, only waited for */
  uint32_t expel_after_ms; /* readers that take nothing for so long while this writer waits for them are expelled.
                              By default, as with LWMQ_FOREVER, they are waited for and never expelled */
} lwmq_writer_options;

/* Peers that live but do not answer.
   An endpoint: lwmq_writer_allocate, _commit and _close, lwmq_reader_schema and _next, and lwmq_job_* wait for the
   endpoint. If it was silent for `stall`, the waiting side asks it for a sign of life. The pauses between such
   questions grow from `stall` to 80 s. If no answer comes within `stall`, the call returns LWMQ_E_STALLED; the text
   names the process. The handle is unchanged. The same call waits on, and once the endpoint goes on, everything
   continues; nothing is lost or doubled.
   A reader is *stalled* when a writer waits for room, or for its end, the reader stands in the way, and the reader has
   taken nothing for `stall`. The writer waits for it, unless it set `expel_after`. With `expel_after` the stream goes
   on after that time as if the reader had died. What the reader was handed and had not consumed goes to other readers.
   If the stream needs more acknowledgements than there are readers left, it needs one less. The memory that the reader
   was shown or leases is not written again before the reader has heard of this, or has died. Meanwhile that memory no
   longer counts as the writer's window, up to the size of one window. The reader gets LWMQ_E_DATA_LOSS from its next
   call; the text says when it was expelled and why. */

/* Opens a writer. Waits at most options->timeout_ms for the endpoint. The first producer declares the stream. Every
   other producer gets the declared schema from lwmq_writer_schema and compares it itself. With `job` and
   LWMQ_DELIVERY_LIVE, batches of attempts that do not commit stay visible.
   The metadata of the declared schema may say more of the stream:
     lwmq.bounds          names of top-level fields, each on a line. The library puts the least and the greatest value of
                          each behind every batch, where readers with filters look. The fields hold numbers of up to 64
                          bits, dates, times, texts or binaries, else LWMQ_E_SCHEMA. A batch that is compressed has none
     lwmq.partition_key   the name of one. A row lies in the partition that lwmq_partition_ids chooses by its value. The
                          bindings hold to that; whoever writes blocks of his own has to do so himself
   LWMQ_E_NO_MEMORY, at once: options->window_bytes is more than this process may hold in windows. */
lwmq_status lwmq_writer_open(const char *address, const void *schema, uint64_t schema_bytes,
                             const lwmq_writer_options *options, lwmq_writer **out_writer);
/* Lends the declared schema and the number of partitions; valid until close. */
lwmq_status lwmq_writer_schema(const lwmq_writer *writer, const void **out_schema, uint64_t *out_bytes,
                               uint32_t *out_partitions);

typedef struct lwmq_block {
  uint8_t *data;     /* 64-byte aligned, in the writer's own window; write to it as you like */
  uint64_t bytes;    /* at least as many as requested */
  uint64_t token[2]; /* the library's */
} lwmq_block;

/* Lends a block. Give it back with publish or discard. Waits for room: until readers have released enough, and until
   the endpoint has taken what was published before.
   LWMQ_E_TOO_BIG: more than the window can ever hold.
   LWMQ_E_TIMED_OUT leaves a text here: which process holds the room.
   LWMQ_E_NO_MEMORY, at once: this task's own uncommitted batches hold the room, and staging_bytes are used up.
   LWMQ_E_STALLED: the endpoint does not answer. */
lwmq_status lwmq_writer_allocate(lwmq_writer *writer, uint64_t bytes, uint32_t timeout_ms,
                                 lwmq_block *out_block);
/* With a job, the partition of the stream that is the task's own: task mod partitions. */
#define LWMQ_PARTITION_OF_TASK 4294967295
/* Takes the block. Its first `bytes` bytes are the next batch of `partition`. A task of a job may write to several
   partitions; they are committed together. Never waits. */
lwmq_status lwmq_writer_publish(lwmq_writer *writer, lwmq_block *block, uint32_t partition, uint64_t bytes,
                                uint64_t rows, uint32_t flags);
/* Takes the block unpublished. */
void lwmq_writer_discard(lwmq_writer *writer, lwmq_block *block);

enum {
  LWMQ_BATCH_IPC_MESSAGE = 0, /* the block is one encapsulated record batch message */
  LWMQ_BATCH_IPC_STREAM = 1   /* the block is a whole IPC stream: schema, dictionaries, one record batch */
};

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
  uint64_t start_seq, end_seq; /* of the first range */
  uint64_t batches, rows, bytes; /* of all ranges */
  uint8_t instance[16];  /* of its process */
  const lwmq_committed_range *ranges; /* by partition; lent until the writer commits again or is destroyed */
  uint32_t range_count;
} lwmq_commit_result;

/* With a job: commits what this writer published. The first attempt of (job, epoch, task) wins.
   LWMQ_E_TIMED_OUT, LWMQ_E_STALLED: there is no answer yet. Committing again changes nothing and waits on. */
lwmq_status lwmq_writer_commit(lwmq_writer *writer, uint32_t timeout_ms, lwmq_commit_result *out_result);
/* Gives up. Staged batches are dropped. If the writer is a producer by itself, its stream ends for readers with
   LWMQ_E_ABORTED, after what was visible. `reason` reaches them. Closes the conversation; call destroy afterwards. */
lwmq_status lwmq_writer_abort(lwmq_writer *writer, const char *reason);
/* Ends this producer. Waits at most linger_ms until everything it wrote was consumed. If the writer is the last user in
   this process of an endpoint that was bound here, the wait also covers the other producers: until they have ended and
   their batches were consumed.
   LWMQ_E_TIMED_OUT: not yet; the text says how many batches wait and for which reader.
   LWMQ_E_STALLED: the endpoint does not answer.
   In both cases call again, or destroy the writer to give up. After LWMQ_OK every call but destroy returns
   LWMQ_E_CLOSED. */
lwmq_status lwmq_writer_close(lwmq_writer *writer, uint32_t linger_ms);
/* The address that the writer was opened at, with the port that the system has chosen where the port was 0. Lent until the
   writer is closed or aborted. */
const char *lwmq_writer_address(const lwmq_writer *writer);
/* Takes the writer. Never waits. A writer that was not closed ends as by an abort. Batches that were visible stay
   readable as long as the endpoint lives. */
void lwmq_writer_destroy(lwmq_writer *writer);

typedef struct lwmq_writer_statistics {
  uint64_t size;
  uint64_t batches, rows, bytes;
  uint64_t wait_ns;       /* time spent waiting for room */
  uint64_t window_bytes;  /* held by segments now */
  uint64_t unread_batches; /* published, and not yet released by the endpoint */
  uint64_t readers_expelled; /* because they kept this writer waiting */
  uint64_t readers_lost;     /* readers that died, since this writer came, before they had read everything; 0 if another
                                process serves the address */
} lwmq_writer_statistics;
lwmq_status lwmq_writer_query(const lwmq_writer *writer, lwmq_writer_statistics *out_statistics);
/* Describes the last reader that was lost: which process it was, how it ended, how far it had come, and what goes to
   the next reader. Writes at most `bytes` bytes including the NUL; a longer text is cut. Never waits.
   LWMQ_E_EMPTY, without a text: no reader was lost since the last call. */
lwmq_status lwmq_writer_lost_reader(lwmq_writer *writer, char *out_text, uint64_t bytes);

/* -- A job: many writers that count as one producer -- */

typedef struct lwmq_job lwmq_job;

typedef struct lwmq_task_commit {
  uint32_t task;
  uint32_t partition; /* not looked at */
  uint64_t attempt;
  uint64_t batches;   /* of all its partitions */
} lwmq_task_commit;

/* Opens a producer named options->job. Its tasks are writers with the same `job`. The options that count are role,
   partitions, retain, readers, delivery, timeout_ms, job, epoch and stall_ms. If the process of this handle is lost,
   the job is aborted. */
lwmq_status lwmq_job_open(const char *address, const void *schema, uint64_t schema_bytes,
                          const lwmq_writer_options *options, lwmq_job **out_job);
lwmq_status lwmq_job_schema(const lwmq_job *job, const void **out_schema, uint64_t *out_bytes,
                            uint32_t *out_partitions);
/* Commits epoch `epoch`. The endpoint checks that it holds every listed commit. Repeating a commit changes nothing.
   LWMQ_E_DATA_LOSS: the endpoint lacks a commit; the text names the first one. */
lwmq_status lwmq_job_commit(lwmq_job *job, uint64_t epoch, const lwmq_task_commit *tasks, uint32_t task_count,
                            uint32_t timeout_ms);
/* Drops what is staged. Readers hear of it only if something of the job was visible. */
lwmq_status lwmq_job_abort(lwmq_job *job, const char *reason, uint32_t timeout_ms);
/* Ends the producer. Commits nothing and does not wait for readers. Takes the job. */
lwmq_status lwmq_job_close(lwmq_job *job);

/* -- Reading -- */

typedef struct lwmq_reader lwmq_reader;
typedef struct lwmq_batch lwmq_batch;

typedef struct lwmq_range {
  uint32_t partition;
  uint32_t reserved;
  uint64_t start; /* a sequence number, or LWMQ_SEQ_EARLIEST, LWMQ_SEQ_LATEST */
  uint64_t end;   /* one past the last, or LWMQ_SEQ_END */
} lwmq_range;

typedef enum lwmq_acknowledge {
  LWMQ_ACK_CONSUMED = 0, /* a batch is acknowledged when the reader has moved past it */
  LWMQ_ACK_SETTLED = 1   /* a batch is acknowledged when lwmq_stream_settle says so for this reader's name */
} lwmq_acknowledge;

/* How the values of a column compare with that of a filter. The last two compare with nothing. */
typedef enum lwmq_comparison {
  LWMQ_EQUAL = 1,
  LWMQ_LESS = 2,
  LWMQ_LESS_OR_EQUAL = 3,
  LWMQ_GREATER = 4,
  LWMQ_GREATER_OR_EQUAL = 5,
  LWMQ_IS_NULL = 6,
  LWMQ_IS_NOT_NULL = 7
} lwmq_comparison;

typedef enum lwmq_literal_kind {
  LWMQ_LITERAL_NONE = 0,
  LWMQ_LITERAL_INTEGER = 1,     /* of integers and floating point; of times of a day and durations, in their own units */
  LWMQ_LITERAL_REAL = 2,        /* of floating point; NaN is greater than everything else */
  LWMQ_LITERAL_BYTES = 3,       /* of texts and binaries, whose bytes compare as unsigned numbers */
  LWMQ_LITERAL_DAYS = 4,        /* of dates: since 1970 */
  LWMQ_LITERAL_MICROSECONDS = 5 /* of timestamps: since 1970 in UTC, or in no time zone */
} lwmq_literal_kind;

typedef struct lwmq_filter {
  const char *column;   /* the name of a top-level field */
  int32_t comparison;   /* lwmq_comparison */
  int32_t literal_kind; /* lwmq_literal_kind: which of the following is the value */
  int64_t integer;      /* also days and microseconds */
  double real;
  const void *bytes;
  uint64_t byte_count;
} lwmq_filter;

typedef struct lwmq_reader_options {
  uint64_t size;
  int32_t role;
  uint32_t acknowledge;  /* lwmq_acknowledge */
  uint32_t follow;       /* 1: after the end of the stream, go on with its next producer */
  uint32_t writers;      /* the stream has not ended before that many producers have come; default 1 */
  uint32_t timeout_ms;   /* for the endpoint to appear and answer; default 30,000 */
  uint32_t credit;       /* batches that the endpoint hands over ahead of their use; default 8, over a network 64 */
  const char *name;      /* acknowledgements count once per name and batch; NULL: a name of its own */
  const uint8_t *generation; /* 16 bytes, or NULL for any generation. Opening fails with LWMQ_E_DATA_LOSS if the
                                endpoint's generation is another one, and for a client with LWMQ_E_CLOSED, at once, if
                                there is no endpoint any more. A reader that names a generation takes part in a read
                                that was planned: it never waits for the next producer of a stream that has ended */
  const lwmq_range *ranges;  /* NULL: every partition, from LWMQ_SEQ_EARLIEST to LWMQ_SEQ_END */
  uint32_t range_count;
  uint32_t keep_mapped;  /* 1: the writers' windows stay mapped 10 s longer, for the next reader of this process */
  uint32_t stall_ms;     /* as in lwmq_writer_options */
  const char *task;      /* the task of which this reader is an attempt, whatever its name; NULL: none */
  uint64_t attempt;      /* with task: the number of the attempt. An attempt that needs a released batch gets
                            LWMQ_E_SUPERSEDED while another attempt of the task reads, else LWMQ_E_DATA_LOSS */
  const char *const *columns; /* names of the top-level fields that the application looks at; NULL: all. Over a network
                                 the bytes of other columns do not travel, and what lies in their place in a batch means
                                 nothing. LWMQ_E_SCHEMA, from lwmq_reader_schema and _next, if the stream does not have
                                 exactly one field of each name */
  uint32_t column_count;      /* 0, with columns: the number of rows alone */
  uint32_t filter_count;
  const lwmq_filter *filters; /* NULL: none. The reader moves past each batch whose bounds (see lwmq_writer_open) show that
                                 no row matches all of them, as if the application had consumed it. Other batches come with
                                 all of their rows, also those that do not match. LWMQ_E_SCHEMA, from lwmq_reader_schema and
                                 _next, if the stream does not have exactly one field of the name, or the field holds no
                                 values that compare with the filter's */
} lwmq_reader_options;

lwmq_status lwmq_reader_open(const char *address, const lwmq_reader_options *options,
                             lwmq_reader **out_reader);
/* As lwmq_writer_address. Lent until the reader is closed. */
const char *lwmq_reader_address(const lwmq_reader *reader);
/* Lends the schema; valid until close. Waits until a producer has declared it. */
lwmq_status lwmq_reader_schema(lwmq_reader *reader, uint32_t timeout_ms, const void **out_schema,
                               uint64_t *out_bytes);
/* Lends the next batch, in the order of arrival over the reader's partitions. The batch that the previous call lent is
   consumed by this call; it stays leased until it is released.
   LWMQ_E_END, LWMQ_E_ABORTED, LWMQ_E_DATA_LOSS, LWMQ_E_PEER_LOST: these come after everything that was visible.
   LWMQ_E_PEER_LOST means that a producer, or the process that serves the address, died or left without a word; the text
   says which. After the loss of a producer a reader with `follow` goes on with the next one. After the loss of the
   endpoint no reader goes on.
   LWMQ_E_DATA_LOSS comes at once if this reader was expelled.
   LWMQ_E_STALLED: the endpoint lives but does not answer. */
lwmq_status lwmq_reader_next(lwmq_reader *reader, uint32_t timeout_ms, lwmq_batch **out_batch);
/* Waits until lwmq_reader_next has an answer, but takes nothing. This is for a program in which one thread waits and
   another one reads. The batch that was lent before is consumed by this call, too. LWMQ_E_TIMED_OUT, LWMQ_E_STALLED. */
lwmq_status lwmq_reader_wait(lwmq_reader *reader, uint32_t timeout_ms);
/* Marks the batch that was lent last as consumed, without asking for more. Never waits. */
lwmq_status lwmq_reader_consume(lwmq_reader *reader);

typedef struct lwmq_batch_info {
  uint64_t size;
  const uint8_t *data; /* 64-byte aligned; in the writer's window and read-only, or a private copy */
  uint64_t bytes, rows;
  uint64_t seq;
  uint64_t timestamp_ns; /* when it was published, CLOCK_REALTIME */
  uint32_t partition;
  uint32_t flags;        /* LWMQ_BATCH_* */
  uint32_t copied;       /* 1: a private copy, because this reader held half of the window. Readers of different
                            partitions share that half */
  uint32_t writer_pid;
  const uint8_t *window_data; /* the mapped segment that holds the batch, as a proof of identity */
  uint64_t window_bytes;
} lwmq_batch_info;

lwmq_status lwmq_batch_query(const lwmq_batch *batch, lwmq_batch_info *out_info);
/* Ends the lease. Any thread may call this, even after the reader was closed. Never waits. */
void lwmq_batch_release(lwmq_batch *batch);

typedef struct lwmq_reader_statistics {
  uint64_t size;
  uint64_t batches, rows, bytes;
  uint64_t bytes_copied, batches_copied;
  uint64_t wait_ns;
  uint64_t leased_batches, leased_bytes;
  uint8_t generation[16];
  uint64_t bytes_received; /* of the batches and columns that came over a network */
  uint64_t batches_skipped, rows_skipped; /* by the filters; not among the others */
} lwmq_reader_statistics;
lwmq_status lwmq_reader_query(const lwmq_reader *reader, lwmq_reader_statistics *out_statistics);

/* Ends the reader. Takes it. Batches that it has not consumed stay for other readers; batches that it was lent live on.
   A reader that bound the address stays, at most linger_ms, until the producers have ended and as many readers as the
   stream asks for have read everything. */
lwmq_status lwmq_reader_close(lwmq_reader *reader, uint32_t linger_ms);

/* For readers with LWMQ_ACK_SETTLED. With acknowledge 1, everything consumed under `name` is acknowledged. With 0 it is
   forgotten, so that it will be read again. LWMQ_E_CLOSED, at once: no endpoint serves the address any more. */
lwmq_status lwmq_stream_settle(const char *address, const char *name, uint32_t acknowledge,
                               uint32_t timeout_ms);

/* cdef: end */

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
