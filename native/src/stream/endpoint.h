// An endpoint serves one stream at one address: it holds the log, decides which commits count, and introduces
// readers to writers.
//
// Batches do not pass through it. A writer publishes where a batch lies in its window. The endpoint numbers
// the batch and tells the readers, which map the window and read there. Three parties decide together when a
// block is written again:
//
//   ledger       the endpoint's page for one writer conversation (a *pool* of windows): ledger[slot] = lap
//                once the log has dropped the batch. It drops only batches that no reader still has to move
//                past.
//   lease page   a reader's page for one pool: page[slot] = lap while the application holds the batch. The
//                reader writes it before it says that it has moved past, so before the endpoint can drop.
//   writer       reuses a block when the ledger shows its lap and no living reader's page does.
//
// So the loss of the endpoint ends no lease: a ledger that nobody writes any more frees nothing.
//
// One thread at a time serves, under pump_mutex_. This is the endpoint's own thread, or the thread of a
// client in this process that has just sent something: the sender does the work itself and needs no hand-over
// to see it done. While a client serves, the own thread naps: peers then find no sleeper to wake, and two
// cores suffice, because no third thread wants one. A client that is going to sleep hands over.
#pragma once

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "stats/page.h"
#include "stream/link.h"
#include "stream/log.h"

namespace lwmq::stream {

struct Conversation;
struct ReaderSession;

// A page of one 32-bit lap for each slot of a pool.
using LapPage = std::atomic<std::uint32_t>*;
inline constexpr std::uint64_t kLapPageBytes = std::uint64_t{kWindowSlotsMax} * 4;
// The last slot of a lease page says that its reader has let go of everything.
inline constexpr std::uint32_t kFinishedSlot = kWindowSlotsMax - 1;

// The windows of one writer conversation. Lives as long as a batch of it is in the log.
struct Pool {
  std::uint64_t number = 0;
  const lwmq_tli_provider* provider = nullptr;
  Conversation* conversation = nullptr;   // null when the writer's side has gone
  std::vector<lwmq_tli_window*> windows;  // kept
  std::vector<wire::Window> announcements;
  lwmq_tli_window* ledger_window = nullptr;
  LapPage ledger = nullptr;
  std::uint64_t window_bytes = 0;
  // What the writer has to hear of before it may hear of drops: see Endpoint::introduce.
  std::deque<std::pair<lwmq_tli_window*, wire::Lease>> introductions;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> held_drops;  // slot, lap
  bool wants_room = false;
  bool drops_unheard = false;  // the ledger has changed since the writer was last told to look
  std::uint64_t wanted_bytes = 0;
  // Readers that keep the writer waiting: see endpoint_watch.cc.
  std::uint32_t stall_ms = kStallMs;
  std::uint32_t expel_after_ms = 0;  // 0: never
  std::int64_t waits_since_ns = 0;   // for room, or to be read to its end; 0: it does not wait
  bool held_up_told = false;
  std::uint32_t sharers = 1;  // readers that hold different batches of it
  struct Quarantined {
    std::uint32_t lap = 0;
    std::uint32_t readers = 0;  // expelled ones that may still look at the block
    bool dropped = false;       // by the log
  };
  std::map<std::uint32_t, Quarantined> quarantine;  // by slot

  [[nodiscard]] bool is_behind() const noexcept;

  ~Pool();
};

struct Producer {
  std::string name;  // of its job, or where its process is
  bool open = true;
  bool end_counted = false;      // its end counts for `writers`
  std::uint64_t visible = 0;     // batches that readers could see
  std::uint64_t unconsumed = 0;  // of these, not yet read by as many readers as the stream asks for
  std::string loss;              // what went with readers that had not finished; empty: nothing
};

// One attempt of a task that has committed.
struct Winner {
  std::uint64_t attempt = 0;
  wire::TaskResult result{};
  std::vector<Entry> staged;  // delivery = job: waits for the job
};

struct Job {
  std::shared_ptr<Producer> producer;
  std::uint32_t delivery = 0;
  std::uint32_t tasks_expected = 0;  // 0: a driver says when it is over
  bool over = false;
  std::map<std::pair<std::uint64_t, std::uint32_t>, Winner> winners;  // by epoch and task
};

class Endpoint {
 public:
  // Binds `address` (without options) and starts serving. LWMQ_E_ADDRESS: somebody else does.
  static Status start(const lwmq_tli_provider* provider, const std::string& address,
                      std::shared_ptr<Endpoint>* out_endpoint);
  ~Endpoint();

  // Waits at most timeout_ms until every producer has ended and everything that can be read was read.
  // LWMQ_E_TIMED_OUT with a text: what is still there.
  Status drain(std::uint32_t timeout_ms);
  // Ends service at once; conversations see an orderly close. Joins the thread.
  void stop();

  // Serves once, if nobody else is at it. For a client of this process, after it has sent and while it waits.
  void pump();
  // The client that pumped is going to sleep: the own thread takes over at once.
  void hand_over();

  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  Endpoint(const lwmq_tli_provider* provider, std::string address, lwmq_tli_listener* listener, int stop_fd);

  struct Unfinished {
    std::uint64_t batches = 0;
    std::uint32_t readers_needed = 1;  // by each batch
    std::uint32_t producers = 0;
    std::uint32_t readers = 0;
    std::uint64_t reader_pid = 0, writer_pid = 0;  // of one of each
    bool end_unread = false;                       // of an empty stream
    bool unsent = false;                           // messages that a client has no room for

    [[nodiscard]] bool is_nothing() const noexcept;
    [[nodiscard]] std::string text() const;
  };

  // -- The thread
  void serve();
  bool poll_once(bool look_for_clients);
  bool serve_conversation(Conversation& conversation);
  void arm_and_sleep(std::unique_lock<std::mutex>& lock);
  bool disarm();
  void nap();
  void forget_dead();
  void note_idle_state();
  [[nodiscard]] Unfinished unfinished() const;
  void note_busy();
  void note_figures() noexcept;

  // -- Messages
  Status handle(Conversation& c, wire::StreamKind kind, const std::string& bytes);
  Status open_writer(Conversation& c, const std::string& bytes);
  Status open_job(Conversation& c, const std::string& bytes);
  Status open_reader(Conversation& c, const std::string& bytes);
  Status add_window(Conversation& c, const std::string& bytes);
  Status publish(Conversation& c, const std::string& bytes);
  Status consumed(Conversation& c, const std::string& bytes);
  Status lease(Conversation& c, const std::string& bytes);
  Status want_room(Conversation& c, const std::string& bytes);
  void make_room(Pool& pool);
  Status close_writer(Conversation& c);
  Status abort_writer(Conversation& c, const std::string& bytes);
  Status commit_task(Conversation& c);
  Status commit_job(Conversation& c, const std::string& bytes);
  Status close_job(Conversation& c, bool aborted, const std::string& reason);
  std::string forsake(Conversation& c, const std::string& who);
  void tell_of_lost_reader(Conversation& c, const std::string& who, const std::string& end);
  Status settle(Conversation& c, const std::string& bytes);
  void leave(Conversation& c, Status why);

  // -- The stream
  Status declare(const wire::OpenProducer& letter);
  Status refuse(Conversation& c, Status status, const char* text);
  wire::Opened opened() const;
  wire::Server served_by() const;
  std::shared_ptr<Job> find_job(const std::string& id) const;
  void append(Entry entry, std::uint32_t partition, std::uint64_t* out_seq);
  void drop_block(const Entry& entry);
  void give_back(Pool& pool, std::uint32_t slot, std::uint32_t lap);
  void introduce(Conversation& writer);
  void store_drop(Pool& pool, std::uint32_t slot, std::uint32_t lap);
  void tell_room(Pool& pool);
  void drop_staged(std::vector<Entry>& staged);
  void end_producer(const std::shared_ptr<Producer>& producer);
  void abort_producer(const std::shared_ptr<Producer>& producer, Status status, const std::string& reason);
  void show_staged(Winner& winner);
  void finish_job(const std::string& id, Job& job);
  void retire_job(const std::string& id, Job& job);

  // -- Readers
  void advance_all();
  void advance(Conversation& c);
  bool hand_out(Conversation& c, std::uint32_t partition, std::uint64_t seq, Entry& entry);
  void finish_if_done(Conversation& c);
  void fail_reader(Conversation& c, Status status, const std::string& text);
  void fail_for_released(Conversation& c, const std::string& text);
  void declare_to(Conversation& c);
  [[nodiscard]] std::uint32_t count_sharers(std::uint64_t pool) const;
  void acknowledge(std::uint32_t partition, std::uint64_t seq, std::uint32_t name);
  [[nodiscard]] bool is_needed(std::uint32_t partition, std::uint64_t seq) const;
  [[nodiscard]] bool is_satisfied(const Entry& entry) const;
  void release_if_free(std::uint32_t partition, std::uint64_t seq);
  void remove(std::uint32_t partition, std::uint64_t seq, bool evicted);
  void sweep();
  void count_consumed(Entry& entry, std::uint32_t name);
  static void note_taken(ReaderSession& reader, const Entry& entry);
  bool stop_awaiting(const Entry& entry) noexcept;
  void report_drained();
  [[nodiscard]] std::uint32_t readers_open() const;

  // -- Readers that keep writers waiting
  void begin_to_wait(Pool& pool);
  void watch_soon(std::int64_t now_ns) noexcept;
  void watch_at(std::int64_t at_ns) noexcept;
  void watch_readers();
  bool watch_readers_of(Conversation& writer, std::int64_t now_ns);
  [[nodiscard]] std::uint64_t oldest_awaiting(const ReaderSession& reader, const Pool& pool);
  void expel(Conversation& c, Conversation& writer, std::int64_t silent_ns);
  void forgo_acknowledgement();
  void end_quarantine(ReaderSession& reader);

  [[nodiscard]] bool has_ended(std::uint32_t writers) const;
  [[nodiscard]] bool end_is_news() const;
  void note_end_read(const ReaderSession& reader);
  [[nodiscard]] bool is_late(const ReaderSession& reader) const;
  [[nodiscard]] std::uint32_t name_number(const std::string& name);
  [[nodiscard]] wire::State state() const;
  void answer_describes();

  const lwmq_tli_provider* provider_;
  const std::string address_;
  lwmq_tli_listener* listener_;
  const int stop_fd_;
  std::atomic<bool> stopping_{false};
  pthread_t thread_{};
  bool has_thread_ = false;

  std::mutex pump_mutex_;                   // guards all below but the last block
  bool armed_ = false;                      // the own thread sleeps at the listener's descriptor
  std::uint64_t pumped_ = 0;                // how often clients have served
  std::uint64_t pumped_seen_ = 0;           // the own thread's
  std::atomic<std::uint32_t> nap_word_{0};  // changed to end a nap
  std::atomic<bool> napping_{false};
  bool busy_noted_ = false;  // drain() knows that its answer is old

  std::vector<std::unique_ptr<Conversation>> conversations_;

  // The stream
  std::string generation_;  // 16 random bytes
  bool declared_ = false;
  std::string schema_;
  std::uint32_t retain_ = 0;
  std::uint32_t readers_needed_ = 1;
  std::vector<PartitionLog> logs_;
  std::uint64_t arrivals_ = 0;
  std::uint32_t producers_open_ = 0;
  std::uint32_t producers_ended_ = 0;
  std::set<std::uint32_t> end_read_by_;  // of an empty stream: reader names that were told of its end
  // Where a producer ended without ending its stream: it gave up (LWMQ_E_ABORTED), or is lost. Or where it
  // ended, and some of it is gone (LWMQ_E_DATA_LOSS).
  struct Abort {
    std::uint64_t arrival;
    Status status;
    std::string reason;
    std::optional<std::uint32_t> told_to = {};  // the first reader that has heard it, by name
  };
  [[nodiscard]] static bool is_news(const Abort& abort, const ReaderSession& reader, std::uint64_t oldest);
  std::vector<Abort> aborts_;
  std::map<std::string, std::shared_ptr<Job>> jobs_;
  std::vector<std::string> finished_jobs_;  // oldest first
  std::map<std::string, std::uint32_t> names_;
  std::map<std::uint32_t, std::vector<std::pair<std::uint32_t, std::uint64_t>>>
      unsettled_;  // name -> consumed
  std::uint64_t next_pool_ = 1;
  std::uint64_t kept_batches_ = 0, kept_bytes_ = 0;  // in the log
  std::uint64_t unread_batches_ = 0;                 // of these, nobody has moved past
  std::uint64_t awaited_batches_ = 0;                // of these, fewer readers have than the stream asks for
  std::uint64_t rows_ = 0, bytes_ = 0;               // that have arrived
  bool writers_wait_ = false;                        // some of them may
  std::int64_t watch_at_ns_ = 0;  // when to look who keeps them waiting; 0: not by ourselves
  std::uint64_t readers_expelled_ = 0;
  const std::shared_ptr<stats::Entry> entry_;  // what others see of it

  // What other threads may know: written by the thread, under the lock.
  mutable std::mutex idle_mutex_;
  std::condition_variable idle_changed_;
  bool idle_ = true;
};

}  // namespace lwmq::stream
