// One stream behind an endpoint: its clients, its log, and the parts that decide what becomes of their
// messages.
//
//   log/log.h   the batches, by partition and number, and what keeps each of them
//   pool.h      the windows of one writer: what readers are shown, and how blocks go back
//   jobs.h      producers: who may commit, and when the stream has ended
//   readers.h   what each reader is handed, and what may leave the log
//   writers.h   what writers and drivers of jobs declare, publish and commit
//   watch.h     readers that keep a writer waiting
//
// This file hands each message to its part, and tells the others of a stream what they must hear of.
//
// One thread at a time serves a stream, under its mutex: the endpoint's, or that of a client in this process
// which has just sent something, and needs no other thread to see it done. While clients serve, the
// endpoint's thread naps: peers then find no sleeper to wake, and no third thread asks for one of two cores.
// A client that is going to sleep hands over.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "service/service_thread.h"
#include "stats/page.h"
#include "stream/endpoint/client.h"
#include "stream/endpoint/jobs.h"
#include "stream/endpoint/readers.h"
#include "stream/endpoint/watch.h"
#include "stream/endpoint/writers.h"
#include "stream/log/log.h"

namespace lwmq::stream {

// What the streams of one endpoint and its thread share.
struct Common {
  explicit Common(service::Served* endpoint) noexcept : served(endpoint) {}
  // Makes the thread look at everything soon. Any thread.
  void ring() noexcept;

  service::Served* const served;
  // Links were armed or disarmed, which may have drained what has rung for others: look at everything.
  std::atomic<bool> look_at_all{false};
  // Whoever waits until streams are at rest.
  std::mutex mutex;
  std::condition_variable rested;
  std::uint32_t restless = 0;  // streams that have something unread, or a producer
  std::uint32_t users = 0;     // in this process, of all streams
};

class Stream {
 public:
  // `by_this_process`: it made the stream, and keeps it alive; else a client of another process did.
  Stream(const std::string& endpoint, std::string name, bool by_this_process, Common* common);
  ~Stream();

  // ---- For clients of this process

  // Serves once, if nobody else does. After a client has sent, and while it waits.
  void pump();
  // The client that pumped is going to sleep: the endpoint's thread takes over at once.
  void hand_over() noexcept;
  // A client that has written goes: its pool, the one with this ledger, inherits windows (Pool::inherit).
  void inherit(const Window& ledger, const std::string& place, std::vector<Window> windows);
  // With the name.
  [[nodiscard]] const std::string& address() const noexcept { return id_.address; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  // ---- For the endpoint

  void add(std::unique_ptr<Client> client);
  // Serves what has come so far, without waiting for more; `restless` is right then. False: nothing has come
  // since the stream fell asleep.
  bool catch_up();
  // With the common mutex.
  [[nodiscard]] bool is_at_rest() const noexcept { return at_rest_; }
  // Why it is not; empty: it is.
  [[nodiscard]] std::string what_is_left();

  // For the endpoint's thread.
  // One round. service::kNever: the stream has fallen asleep. 0: it is awake. Else: when it will be.
  std::int64_t serve();
  // Whether the stream is awake; where it is asleep, whether something has come for it.
  bool look(std::int64_t now_ns);
  // When a sleeping stream must be looked at, whether something comes or not.
  [[nodiscard]] std::int64_t alarm_ns() const noexcept { return alarm_ns_; }
  // Nobody uses it, and nothing of it is kept for anybody.
  [[nodiscard]] bool is_unused();
  bool is_listed = false;  // among those that are served

  std::uint32_t users = 0;  // in this process; under the common mutex
  const bool made_here;

 private:
  bool poll();
  bool poll_client(Client& c);
  Status handle(Client& c, wire::StreamKind kind, const std::string& bytes);
  void spread_news();
  void leave(Client& c, Status why);
  void forget_left();
  [[nodiscard]] bool has_rung() noexcept;  // while it is asleep
  bool fall_asleep();
  void wake_up();
  void note_restless();
  void note_rest();
  void note_figures() noexcept;
  [[nodiscard]] std::string unfinished() const;
  [[nodiscard]] wire::State state() const;

  const std::string name_;
  const StreamId id_;
  Common& common_;

  std::mutex mutex_;  // guards all below but the last block
  Clients clients_;
  News news_;
  Log log_{&news_};
  Jobs jobs_{&log_, &news_};
  Readers readers_{&id_, &clients_, &log_, &jobs_, &news_};
  Writers writers_{&id_, &clients_, &log_, &jobs_, &readers_, &news_};
  Watch watch_{&id_, &clients_, &log_, &readers_, &news_};
  bool reader_left_ = false;                   // what only it held up must go
  bool restless_noted_ = false;                // whoever waits for rest knows
  const std::shared_ptr<stats::Entry> entry_;  // what other processes see of the stream

  // Asleep: every link is armed. Napping: clients of this process serve.
  bool asleep_ = false;
  std::atomic<bool> napping_{false};
  std::int64_t nap_until_ns_ = 0;
  std::int64_t alarm_ns_ = 0;      // the thread's own
  std::uint32_t idle_rounds_ = 0;  // since something came
  std::uint64_t pumped_ = 0;       // how often clients have served
  std::uint64_t pumped_seen_ = 0;  // the thread's own

  // Under the common mutex.
  bool at_rest_ = true;
};

}  // namespace lwmq::stream
