// Requests and their replies over a channel: thousands outstanding, each with a time-out of its own.
//
// No thread of ours: who waits for an outcome receives, whatever comes, and files it; of several who wait one
// does, and the others sleep until he has looked. What was asked is found by its number,
// in a table, and by its time, in a heap; both grow before a request is posted, so that what comes back needs
// no memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/handle_mark.h"
#include "base/status.h"
#include "channel/channel.h"
#include "conversation/completions.h"
#include "lwmq/lwmq.h"
#include "message/message.h"
#include "patterns/live_objects.h"
#include "wire/request_head.h"

namespace lwmq::patterns {

using channel::Channel;
using channel::ChannelQueue;
using conversation::Completions;
using conversation::Shared;

class Requests {
 public:
  // LWMQ_E_INVALID: the queue is another channel's, or the channel is raw. LWMQ_E_NO_MEMORY.
  static Status create(Channel* channel, ChannelQueue* queue, std::uint64_t outstanding_max,
                       Requests** out_requests);
  ~Requests();
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;
  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

  // Any thread, all of them.
  // A message that has the next number and no frame of the application yet.
  Status make(Message** out_message) noexcept;
  // Takes the message on LWMQ_OK. LWMQ_E_FULL: as many are outstanding as may be.
  Status submit(Message* message, std::uint32_t timeout_ms, std::uint64_t* out_number) noexcept;
  // The same, and waits for this one's outcome; *out_taken: the message was posted.
  Status ask(Message* message, std::uint32_t timeout_ms, bool* out_taken, Message** out_reply) noexcept;
  // The next outcome of one that nobody else waits for: its status, its number and, on LWMQ_OK, its reply.
  // With number 0: of the wait, or what a receive has answered that concerns none.
  Status next(std::uint32_t timeout_ms, std::uint64_t* out_number, Message** out_reply) noexcept;
  // Takes a message that somebody else has received from the channel.
  void file(Message* message) noexcept;
  // What is outstanding fails, as a receive elsewhere has: its text is last_error.
  void lose(Status status) noexcept;
  // LWMQ_E_EMPTY: it is not outstanding.
  Status cancel(std::uint64_t number) noexcept;
  void query(lwmq_requests_statistics* out_statistics) noexcept;

  // The channel is about to be destroyed: of every Requests on it.
  static void forget_everywhere(const Channel* channel) {
    LiveObject<Requests>::for_each([channel](Requests& requests) { requests.forget(channel); });
  }

  // The beginning of an answer to `request`: a message with its head. LWMQ_E_CORRUPT: it is no request.
  static Status begin_answer(const Message& request, wire::RequestKind kind, Message** out_answer) noexcept;
  static Status make_failure(const Message& request, const char* kind, const char* text,
                             Message** out_answer) noexcept;

 private:
  // What the end of a peer says to all that it leaves unanswered.
  struct Ending {
    std::uint64_t users = 0;
    Status status = LWMQ_OK;
    char text[640] = "";

    // With the last failure of this thread. Null: no memory.
    static Ending* of(Status status) noexcept;
  };
  struct Pending {
    std::uint64_t number = 0;
    std::int64_t due_ns = 0;
    std::uint32_t timeout_ms = 0;
    bool is_awaited = false;  // by a call of its own
    bool is_settled = false;
    Message* reply = nullptr;       // or a failure:
    bool is_failure = false;        // as its head said once; the peer may write there still
    Ending* ending = nullptr;       // else, where it is settled, its time is over
    Pending* next = nullptr;        // of its place in the table, and then of the settled
    std::uint64_t place = 0;        // in the heap
    std::uint64_t ends_before = 0;  // of peers, when it was asked: their reports may be received later
  };

  Requests(Channel* channel, ChannelQueue* queue, std::uint64_t outstanding_max);

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
  bool cancel_settled(std::uint64_t number, Completions& dropped) noexcept;
  void expire() noexcept;
  void file_with_mutex(Message* message, Completions& dropped) noexcept;
  bool fail_all(Status status) noexcept;
  Status receive_some(std::unique_lock<std::mutex>& lock, std::uint32_t timeout_ms, bool is_asking) noexcept;
  Status follow(std::unique_lock<std::mutex>& lock, std::uint32_t timeout_ms) noexcept;
  void tell_followers() noexcept;
  Pending* pop_settled() noexcept;
  void drop(Pending* pending, Completions& dropped) noexcept;

  // LWMQ_OK: the channel stays until the post is over, and `out_inside` gone.
  Status enlist(const Message& message, std::uint32_t timeout_ms, Pending** out_awaited,
                std::uint64_t* out_number, std::optional<Shared::Inside>* out_inside) noexcept;
  Status post(Message* message, std::uint64_t number, Pending* awaited) noexcept;
  Status wait(Pending* own, std::uint32_t timeout_ms, Pending** out_pending) noexcept;
  Status tell(Pending* pending, Message** out_reply) noexcept;
  void forget(const Channel* channel) noexcept;

  const std::uint64_t asker_;
  const std::uint64_t outstanding_max_;
  ChannelQueue* const queue_;
  const std::string address_;

  std::atomic<std::uint32_t> looks_{0};  // written under the mutex: a receiver has looked
  std::mutex mutex_;                     // guards what follows
  std::uint32_t followers_ = 0;          // who sleep until the next look
  Channel* channel_;                     // null: it was destroyed
  bool is_receiving_ = false;
  std::uint64_t made_ = 0;
  std::uint64_t held_ = 0;      // outstanding, and settled ones that nobody was told of
  std::uint64_t capacity_ = 0;  // of the table and of the heap; a power of two
  std::unique_ptr<Pending*[]> table_;
  std::unique_ptr<Pending*[]> heap_;
  std::uint64_t on_heap_ = 0;  // those that are outstanding
  Pending* first_settled_ = nullptr;
  Pending* last_settled_ = nullptr;
  lwmq_requests_statistics counts_{};
  HandleMark mark_;
  LiveObject<Requests> live_{this};  // last: whoever finds us there finds us whole
};

}  // namespace lwmq::patterns
