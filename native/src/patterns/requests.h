// Requests and their replies over a channel: thousands outstanding, each with a time-out of its own.
//
// An outstanding request is found by its number, in a table, and by its due time, in a heap. Both grow before
// the request is posted, so that a reply needs no memory.
//
// There is no thread for this. The threads that wait for outcomes receive, one at a time, and file what
// comes:
//
//   asker      waits for one reply, in ask or wait. It receives itself, which costs one thread switch per
//              reply, if no thread attends or if its request is the only outstanding one. Else it follows: it
//              sleeps on the futex of its request until that is settled, or until it has to receive.
//   attendant  waits in next for any outcome. Further threads in next sleep until it leaves. It sleeps in
//              poll, on the descriptor of the channel and on a bell of its own, so that it has no wake-ups
//              and other threads can receive or wake it at any time. While an asker receives, and for
//              kApartNs after that, because the next asker may come soon, it does not look at the channel.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/failure.h"
#include "base/handle_mark.h"
#include "base/status.h"
#include "channel/channel.h"
#include "conversation/completions.h"
#include "lwmq/lwmq.h"
#include "message/message.h"
#include "os/unique_fd.h"
#include "patterns/live_objects.h"
#include "wire/request_head.h"

namespace lwmq::patterns {

using channel::Channel;
using channel::ChannelQueue;
using conversation::Completions;

class Requests {
 public:
  // LWMQ_E_INVALID: the queue belongs to another channel, or the channel is raw. LWMQ_E_NO_MEMORY.
  static Status create(Channel* channel, ChannelQueue* queue, std::uint64_t outstanding_max,
                       bool keeps_failures, Requests** out_requests);
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

  // Any thread, all of them.
  // A message that has the next number and no frame of the application yet.
  Status make(Message** out_message) noexcept;
  // Takes the message on LWMQ_OK. LWMQ_E_FULL: as many are outstanding as may be. `will_wait`: the caller
  // calls wait next, so the attendant is not woken.
  Status submit(Message* message, std::uint32_t timeout_ms, bool will_wait,
                std::uint64_t* out_number) noexcept;
  // The outcome of a request that was submitted, instead of next. LWMQ_E_EMPTY: it was not settled within
  // `timeout_ms`, or its outcome is told elsewhere.
  Status wait(std::uint64_t number, std::uint32_t timeout_ms, Message** out_reply) noexcept;
  // Submits, and waits for the outcome. *out_taken: the message was posted.
  Status ask(Message* message, std::uint32_t timeout_ms, bool* out_taken, Message** out_reply) noexcept;
  // The next outcome of a request that no thread waits for: its status, its number and, on LWMQ_OK, its
  // reply. With number 0: the status of the wait, or what a receive has answered that concerns no request.
  Status next(std::uint32_t timeout_ms, std::uint64_t* out_number, Message** out_reply) noexcept;
  // Takes a message that the application has received from the channel.
  void file(Message* message) noexcept;
  // All outstanding requests fail, because a receive of the application has failed. The text is last_error.
  void lose(Status status) noexcept;
  // LWMQ_E_EMPTY: there is no such request outstanding.
  Status cancel(std::uint64_t number) noexcept;
  void query(lwmq_requests_statistics* out_statistics) noexcept;
  // All outstanding requests fail, and so does every later call. Afterwards no thread receives for them.
  void close() noexcept;

  // The channel is about to be destroyed: all requests on it fail.
  static void forget_everywhere(const Channel* channel) {
    LiveObject<Requests>::for_each([channel](Requests& requests) { requests.forget(channel); });
  }

  // Begins an answer to `request`: a message with its head. LWMQ_E_CORRUPT: it is no request.
  static Status begin_answer(const Message& request, wire::RequestKind kind, Message** out_answer) noexcept;
  static Status make_failure(const Message& request, const char* kind, const char* text,
                             Message** out_answer) noexcept;

 private:
  // The failure of all requests that the end of a peer leaves unanswered.
  struct Ending {
    std::uint64_t users = 0;
    Status status = LWMQ_OK;
    char text[640] = "";

    // Keeps the last failure of this thread. Null: no memory.
    static Ending* of(Status status) noexcept;
  };
  struct Pending {
    std::uint64_t number = 0;
    std::int64_t due_ns = 0;
    std::uint32_t timeout_ms = 0;
    bool is_awaited = false;  // by an asker, which alone is told of the outcome
    bool is_settled = false;
    bool is_cancelled = false;           // while it was awaited
    std::atomic<std::uint32_t> word{0};  // futex of its asker; changed under the mutex
    Pending* next_asker = nullptr;       // in the list of those that follow
    Message* reply = nullptr;            // the reply, or the peer's failure
    bool is_failure = false;        // what the head said when it was read: the peer may still write there
    Ending* ending = nullptr;       // else; if settled with neither, it has timed out
    Pending* next = nullptr;        // in its place in the table, then in the list of the settled
    std::uint64_t place = 0;        // in the heap
    std::uint64_t ends_before = 0;  // ends of peers when it was asked, which may be reported later
  };

  Requests(Channel* channel, ChannelQueue* queue, std::uint64_t outstanding_max, bool keeps_failures);

  // With the mutex.
  [[nodiscard]] bool reserve() noexcept;
  Pending** find(std::uint64_t number) noexcept;
  void put_on_heap(Pending* pending) noexcept;
  void take_off_heap(Pending* pending) noexcept;
  void sift_up(std::uint64_t place) noexcept;
  void sift_down(std::uint64_t place) noexcept;
  void set_place(std::uint64_t place, Pending* pending) noexcept;
  Pending* take_out(std::uint64_t number) noexcept;
  void settle(Pending* pending) noexcept;
  Pending* take_settled(std::uint64_t number) noexcept;
  void expire() noexcept;
  void file_with_mutex(Message* message, Completions& dropped) noexcept;
  bool fail_all(Status status) noexcept;
  Status check_open() const noexcept;
  std::int64_t due_ns() const noexcept;
  void ring() noexcept;
  void call_attendant() noexcept;
  void wake_one_asker() noexcept;
  void wake_others() noexcept;
  Status receive_some(std::unique_lock<std::mutex>& lock, std::uint32_t timeout_ms, bool is_asking) noexcept;
  Status follow(std::unique_lock<std::mutex>& lock, Pending* own, std::uint32_t timeout_ms) noexcept;
  Status sleep_beside(std::unique_lock<std::mutex>& lock, std::uint32_t timeout_ms) noexcept;
  Status sleep_at_bell(std::unique_lock<std::mutex>& lock, std::int64_t deadline, bool listens) noexcept;
  Status attend(std::unique_lock<std::mutex>& lock, std::int64_t deadline) noexcept;
  Status await(std::unique_lock<std::mutex>& lock, Pending* own, std::uint32_t timeout_ms) noexcept;
  Pending* pop_settled() noexcept;
  void drop(Pending* pending, Completions& dropped) noexcept;

  // LWMQ_OK: the channel is not destroyed until `out_inside` has ended.
  Status enlist(const Message& message, std::uint32_t timeout_ms, bool will_wait, Pending** out_awaited,
                std::uint64_t* out_number, std::optional<Channel::Inside>* out_inside) noexcept;
  Status post(Message* message, std::uint64_t number, Pending* awaited) noexcept;
  Status check_peer() noexcept;
  void make_bell() noexcept;
  Status tell(Pending* pending, Message** out_reply) noexcept;
  void forget(const Channel* channel) noexcept;

  const std::uint64_t asker_;
  const std::uint64_t outstanding_max_;
  const bool keeps_failures_;  // the caller gets the message of a failure, too
  ChannelQueue* const queue_;
  const std::string address_;

  // Something may keep the peer away until somebody mends it, such as another version of the protocol. A
  // channel reports that to one receiver, which may have come before this object, so every asker checks it.
  std::atomic<bool> may_be_kept_away_{true};
  std::atomic<std::uint32_t> looks_{0};  // futex of the threads in sleep_beside; written under the mutex
  std::mutex mutex_;                     // guards what follows
  std::uint32_t sleepers_ = 0;           // threads in sleep_beside
  Channel* channel_;                     // null: the channel was destroyed
  Failure closed_;                       // what every call answers after close
  bool is_receiving_ = false;            // a thread is in a receive of the channel
  Status kept_away_by_ = LWMQ_OK;        // what the last receive has answered for that reason
  Pending* askers_ = nullptr;            // those that follow
  bool is_attended_ = false;             // there is an attendant
  // The attendant's own.
  os::UniqueFd bell_;                 // its event; none: it could not be made
  int channel_fd_ = -1;               // the descriptor of the channel, likewise
  bool sleeps_ = false;               // it sleeps at the bell, which was not rung
  bool listens_ = false;              // and at the channel
  std::int64_t sleeps_until_ns_ = 0;  // when its sleep ends
  std::int64_t apart_until_ns_ = 0;   // until then it leaves the channel to askers
  std::uint64_t leads_ = 0;           // how often an asker has begun to receive
  std::uint64_t leads_seen_ = 0;      // leads_ when the attendant looked last
  std::int64_t look_ns_ = 0;          // how long it sleeps until it looks again
  std::uint64_t made_ = 0;
  std::uint64_t held_ = 0;      // outstanding requests, and settled ones whose outcome was not told
  std::uint64_t capacity_ = 0;  // of the table and of the heap; a power of two
  std::unique_ptr<Pending*[]> table_;
  std::unique_ptr<Pending*[]> heap_;
  std::uint64_t on_heap_ = 0;  // outstanding requests
  Pending* first_settled_ = nullptr;
  Pending* last_settled_ = nullptr;
  lwmq_requests_statistics counts_{};
  HandleMark mark_;
  LiveObject<Requests> live_{this};  // last: an object on the list is complete
};

}  // namespace lwmq::patterns
