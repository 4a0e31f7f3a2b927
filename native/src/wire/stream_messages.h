// What a stream's endpoint and its writers, readers and jobs say to each other. One message is one extent;
// its kind is the extent's kind. Little-endian, packed as written here. A change here changes
// kProtocolVersion and the golden bytes.
//
// Two sorts:
//   records   of fixed size, sent as they lie: the ones on the path of a batch
//   letters   with texts and lists; `visit` names the fields once for both encoder and decoder
//
// client -> endpoint                       endpoint -> client
//   Join ─────────────────────────────────▶  Joined         (first: which stream; again while it is not
//   there) OpenWriter ───────────────────────────▶  Opened Window, Publish..., CloseWriter          Drained
//   (written batches not yet consumed) WantRoom                                 Room           (something was
//   released) CommitTask                               TaskCommitted OpenJob, CommitJob, AbortJob, CloseJob
//   Opened, JobCommitted OpenReader                               Opened, Declared, Window, Batch..., End |
//   Failed Lease, Consumed, AbandonReader                         (it leaves as if it had died) Describe,
//   Settle                         State, Settled
//                                            Lease          (to a writer: a reader's lease page)
//   Ping                                     Pong           (of whoever waits: is it answered?)
//                                            Expelled       (to a reader that kept a writer waiting)
//   Expelled                                                (the reader has heard it, and leases nothing new)
//                                            HeldUp         (to a writer that waits: for which reader)
//                                            ReaderLost     (to a writer: a reader has died before its end)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cursor.h"
#include "base/limits.h"

namespace lwmq::wire {

enum class StreamKind : std::uint32_t {
  kOpenWriter = 1,
  kOpenJob = 2,
  kOpenReader = 3,
  kOpened = 4,
  kDeclared = 5,
  kWindow = 6,
  kPublish = 7,
  kBatch = 8,
  kConsumed = 9,
  kLease = 10,
  kWantRoom = 11,
  kRoom = 12,
  kCloseWriter = 13,
  kDrained = 14,
  kAbortWriter = 15,
  kCommitTask = 16,
  kTaskCommitted = 17,
  kCommitJob = 18,
  kJobCommitted = 19,
  kAbortJob = 20,
  kCloseJob = 21,
  kAbandonReader = 22,
  kEnd = 23,
  kFailed = 24,
  kDescribe = 25,
  kState = 26,
  kSettle = 27,
  kSettled = 28,
  kPing = 29,
  kPong = 30,
  kExpelled = 31,
  kHeldUp = 32,
  kPart = 33,  // of kPartBytes: what the next message, of another kind, begins with
  kReaderLost = 34,
  kJoin = 35,
  kJoined = 36,
};

// A letter that is longer travels in parts, one behind the other, of which the last has the letter's kind.
inline constexpr std::uint64_t kPartBytes = 32 * kKiB;

// ---- Records ----------------------------------------------------------------------------------------

// A block of the writer's window becomes a batch.
struct Publish {
  std::uint32_t partition;
  std::uint32_t window;  // index of the segment, as announced by Window
  std::uint32_t slot;    // of the block, in ledger and lease pages
  std::uint32_t lap;     // how often the slot was used
  std::uint64_t offset;  // in the segment
  std::uint64_t bytes;
  std::uint64_t rows;
  std::uint64_t timestamp_ns;
  std::uint32_t flags;
  std::uint32_t sharers;  // to a reader: how many may hold different batches of the window; 0 is 1
};
static_assert(sizeof(Publish) == 56);

// The same batch on its way to a reader.
struct Batch {
  std::uint64_t seq;
  std::uint64_t pool;  // whose windows: the endpoint's number of the writer's conversation
  Publish block;
};
static_assert(sizeof(Batch) == 72);

struct Consumed {
  std::uint32_t partition;
  std::uint32_t reserved;
  std::uint64_t seq;
};
static_assert(sizeof(Consumed) == 16);

// Announces segment `index` of `pool` (0: the sender's own), after its export.
struct Window {
  std::uint64_t pool;
  std::uint32_t index;
  std::uint32_t pid;           // of the owner
  std::uint64_t window_bytes;  // the budget of the whole pool
  std::uint8_t id[16];
};
static_assert(sizeof(Window) == 40);

// A reader's lease page for the blocks of `pool`, after its export.
struct Lease {
  std::uint64_t pool;
  std::uint8_t id[16];
};
static_assert(sizeof(Lease) == 24);

struct WantRoom {
  std::uint64_t bytes;
};

// Answers CloseWriter, once at once and again when it has become 0.
struct Drained {
  std::uint64_t unconsumed;  // batches; 0: done
  std::uint32_t readers;     // open now
  std::uint32_t reserved;
};
static_assert(sizeof(Drained) == 16);

// ---- Letters ----------------------------------------------------------------------------------------

// The first message of a client. Everything behind it is for the stream that it has joined.
struct Join {
  std::uint32_t create = 0;  // 1: make the stream where it is not there
  std::string stream;        // empty: the stream without a name, else the only one there
  template <typename V>
  void visit(V& v) {
    v.number(create), v.text(stream, kStreamNameBytesMax);
  }
};

struct Joined {
  std::int32_t status = 0;  // LWMQ_E_EMPTY: the stream is not there; the client may ask again
  std::string stream;       // the name of the stream that was joined
  std::string text;         // of a failure; LWMQ_E_EMPTY: which streams are there
  template <typename V>
  void visit(V& v) {
    v.number(status), v.text(stream, kStreamNameBytesMax), v.text(text, kReasonBytesMax);
  }
};

struct OpenProducer {  // kOpenWriter, kOpenJob
  std::uint32_t partitions = 1, retain = 0, readers = 1, delivery = 0;
  std::uint32_t task = 0, job_tasks = 0;
  std::uint32_t stall_ms = 0, expel_after_ms = 0;  // of readers that keep it waiting; 0: never
  std::uint64_t attempt = 0, epoch = 0;
  std::uint64_t window_bytes = 0;
  std::string job;  // empty: a producer by itself
  std::string schema;

  template <typename V>
  void visit(V& v) {
    v.number(partitions), v.number(retain), v.number(readers), v.number(delivery), v.number(task),
        v.number(job_tasks), v.number(stall_ms), v.number(expel_after_ms);
    v.number(attempt), v.number(epoch), v.number(window_bytes);
    v.text(job, kNameBytesMax), v.text(schema, kSchemaBytesMax);
  }
};

struct RangeField {
  std::uint32_t partition = 0;
  std::uint64_t start = 0, end = 0;
  template <typename V>
  void visit(V& v) {
    v.number(partition), v.number(start), v.number(end);
  }
};

struct TaskNumber {
  std::uint32_t task = 0;
  template <typename V>
  void visit(V& v) {
    v.number(task);
  }
};

struct OpenReader {
  std::uint32_t acknowledge = 0, follow = 0, writers = 1, credit = 8;
  std::uint32_t named = 0;  // 1: another reader may go on under `name`; 0: it is made up
  std::uint64_t attempt = 0;
  std::string name;
  std::string task;                // empty: no attempt at anything
  std::string generation;          // empty or 16 bytes
  std::vector<RangeField> ranges;  // empty: all
  // What these tasks of `job` have committed in epoch `epoch`, and nothing else. Without a job: everything.
  std::string job;
  std::uint64_t epoch = 0;
  std::vector<TaskNumber> tasks;

  template <typename V>
  void visit(V& v) {
    v.number(acknowledge), v.number(follow), v.number(writers), v.number(credit), v.number(named);
    v.number(attempt);
    v.text(name, kNameBytesMax), v.text(task, kNameBytesMax), v.text(generation, 16);
    v.list(ranges, kRangesMax);
    v.text(job, kNameBytesMax), v.number(epoch), v.list(tasks, kTaskCommitsMax);
  }
};

// What else the process of an endpoint is to the stream, for the texts of those that lose it.
enum class Server : std::uint32_t { kEndpoint = 0, kReader = 1, kWriter = 2 };

struct Opened {
  std::int32_t status = 0;  // lwmq_status; not LWMQ_OK: the conversation is over
  std::uint32_t partitions = 0, retain = 0;
  std::uint32_t server = 0;  // wire::Server
  std::string text;
  std::string generation;  // 16 bytes
  std::string schema;      // for producers: what the stream was declared with
  std::string ledger;      // for writers: id of the endpoint's ledger page, 16 bytes

  template <typename V>
  void visit(V& v) {
    v.number(status), v.number(partitions), v.number(retain), v.number(server);
    v.text(text, kReasonBytesMax), v.text(generation, 16), v.text(schema, kSchemaBytesMax),
        v.text(ledger, 16);
  }
};

// The stream has a schema now. Also answers of one text: kFailed, kExpelled, kAbortWriter, kAbortJob, and
// kReaderLost, whose status is LWMQ_E_DATA_LOSS where batches of that writer went with the reader.
struct Text {
  std::int32_t status = 0;
  std::string text;
  template <typename V>
  void visit(V& v) {
    v.number(status), v.text(text, kSchemaBytesMax);
  }
};

struct TaskField {
  std::uint32_t task = 0, partition = 0;
  std::uint64_t attempt = 0, batches = 0;
  template <typename V>
  void visit(V& v) {
    v.number(task), v.number(partition), v.number(attempt), v.number(batches);
  }
};

// What the attempt that counts has written to one partition.
struct CommittedField {
  std::uint32_t partition = 0;
  std::uint64_t start = 0, end = 0;  // equal until the job commits, if it does so as a whole
  std::uint64_t batches = 0, rows = 0, bytes = 0;
  template <typename V>
  void visit(V& v) {
    v.number(partition), v.number(start), v.number(end), v.number(batches), v.number(rows), v.number(bytes);
  }
};

struct TaskCommitted {
  std::uint32_t won = 0;
  std::uint64_t attempt = 0;
  std::string instance;                // 16 bytes; empty: the job was over before any attempt committed
  std::vector<CommittedField> ranges;  // in the order of the partitions
  template <typename V>
  void visit(V& v) {
    v.number(won), v.number(attempt), v.text(instance, 16), v.list(ranges, kPartitionsMax);
  }
};

struct CommitJob {
  std::uint64_t epoch = 0;
  std::vector<TaskField> tasks;
  template <typename V>
  void visit(V& v) {
    v.number(epoch), v.list(tasks, kTaskCommitsMax);
  }
};

struct SlotField {
  std::uint32_t slot = 0;
  template <typename V>
  void visit(V& v) {
    v.number(slot);
  }
};

// A reader keeps this writer waiting. When it is expelled for that: the blocks that it may still look at.
struct HeldUp {
  std::uint32_t expelled = 0, pid = 0;
  std::string name;
  std::vector<SlotField> blocks;
  template <typename V>
  void visit(V& v) {
    v.number(expelled), v.number(pid), v.text(name, kNameBytesMax), v.list(blocks, kReaderCreditMax);
  }
};

struct Describe {
  std::uint32_t wait_declared = 0;
  template <typename V>
  void visit(V& v) {
    v.number(wait_declared);
  }
};

struct PartitionField {
  std::uint64_t first_seq = 0, unacked_seq = 0, next_seq = 0, rows = 0, bytes = 0;
  template <typename V>
  void visit(V& v) {
    v.number(first_seq), v.number(unacked_seq), v.number(next_seq), v.number(rows), v.number(bytes);
  }
};

struct State {
  std::uint32_t state = 0, retain = 0, readers = 0, producers_open = 0, readers_open = 0;
  std::uint32_t readers_stalled = 0, readers_expelled = 0, stalled_pid = 0;
  std::uint64_t netns = 0;
  std::uint32_t pid = 0, uid = 0;
  std::string generation, schema, host, boot_id, instance;
  std::vector<PartitionField> partitions;
  template <typename V>
  void visit(V& v) {
    v.number(state), v.number(retain), v.number(readers), v.number(producers_open), v.number(readers_open);
    v.number(readers_stalled), v.number(readers_expelled), v.number(stalled_pid);
    v.number(netns), v.number(pid), v.number(uid);
    v.text(generation, 16), v.text(schema, kSchemaBytesMax), v.text(host, 255), v.text(boot_id, 39);
    v.text(instance, 16), v.list(partitions, kPartitionsMax);
  }
};

struct Settle {
  std::uint32_t acknowledge = 0;
  std::string name;
  template <typename V>
  void visit(V& v) {
    v.number(acknowledge), v.text(name, kNameBytesMax);
  }
};

// ---- Encoder and decoder of letters ------------------------------------------------------------------

class LetterWriter {
 public:
  template <typename T>
  void number(T value) {
    out_.put(value);
  }
  void text(const std::string& value, std::uint64_t limit) {
    out_.put_text(std::string_view(value).substr(0, limit));
  }
  template <typename T>
  void list(std::vector<T>& values, std::uint64_t /*limit*/) {
    out_.put(static_cast<std::uint32_t>(values.size()));
    for (T& value : values) value.visit(*this);
  }
  [[nodiscard]] const std::string& bytes() const noexcept { return out_.bytes(); }

 private:
  ByteWriter out_;
};

class LetterReader {
 public:
  explicit LetterReader(const std::string& bytes) noexcept : in_(bytes.data(), bytes.size()) {}
  template <typename T>
  void number(T& value) {
    value = in_.take<T>();
  }
  void text(std::string& value, std::uint64_t limit) { value = in_.take_text(limit); }
  template <typename T>
  void list(std::vector<T>& values, std::uint64_t limit) {
    const auto count = in_.take<std::uint32_t>();
    if (count > limit) too_long_ = true;
    for (std::uint32_t i = 0; i < count && in_.ok() && !too_long_; ++i) values.emplace_back().visit(*this);
  }
  [[nodiscard]] bool ok() const noexcept { return in_.at_end() && !too_long_; }

 private:
  ByteReader in_;
  bool too_long_ = false;
};

template <typename Letter>
std::string encode(Letter letter) {
  LetterWriter writer;
  letter.visit(writer);
  return writer.bytes();
}

// False when the bytes are not exactly one such letter.
template <typename Letter>
[[nodiscard]] bool decode(const std::string& bytes, Letter* out_letter) {
  LetterReader reader(bytes);
  out_letter->visit(reader);
  return reader.ok();
}

}  // namespace lwmq::wire
