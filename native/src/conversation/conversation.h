// A conversation over one transport, with one peer at a time: messages posted to any number of queues arrive
// whole and in order.
//
// A thread that posts to an idle channel does the sending itself: it encodes straight into the transport's
// buffer. While another thread does that, or no buffer is free, a post only enqueues. Likewise a thread that
// receives lands what has come. Work that must go on while the application does neither (connect, accept,
// ship what waited for room, retire a lost peer) is done by the service thread, which otherwise sleeps.
//
// Two halves, each owned by one thread at a time (see ownership.h); a thread that needs both takes landing_
// first:
//
//   pump_      sender_, the consuming ends of the queues
//   landing_   receiver_
//   both       the transport itself: it is attached and retired with both in hand
//
// Beside these, threads meet at these points:
//
//   left-behind  a poster that finds the pump taken pushes its message, sets left_behind_, then (full fence)
//                looks whether the pump is free; the holder clears left_behind_, then (full fence) looks at
//                the queues, releases the pump, then (full fence) looks at left_behind_: one of the two
//                sees the other. While the pump is served (ownership.h) the poster passes a light barrier
//                and sets nothing: the thread that releases such a pump passes a heavy barrier, then looks
//                again. A home thread leaves the cost of the fences after its release to the others
//   last-post    a poster pushes, then (one of those barriers) looks whether the channel was closed, and
//                takes its message back; close says so, drops what is queued, then (heavy barrier) once more
//   ended        the thread that retires the only peer clears attached_, then ends the phase if it is open; a
//                thread that reopens after a linger opens the phase, then looks at attached_ (both
//                sequentially consistent): one of the two sees the other
//   activity     a thread that opens a buffer or lands then (light barrier) loads active_; the service thread
//                clears active_, then (heavy barrier) looks whether there is something open or new
//
// Those where the conversations of one channel meet are in shared.h.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/cache_line.h"
#include "base/failure.h"
#include "base/status.h"
#include "conversation/ownership.h"
#include "conversation/receiver.h"
#include "conversation/sender.h"
#include "conversation/settings.h"
#include "conversation/shared.h"
#include "conversation/take.h"
#include "lwmq/lwmq.h"
#include "lwmq/lwmq_tli.h"
#include "os/identity.h"
#include "os/membarrier.h"
#include "scheduler/scheduler.h"
#include "service/service_thread.h"
#include "stats/page.h"

namespace lwmq::conversation {

// A send queue, and what others see of it.
struct CountedQueue : SendQueue {
  using SendQueue::SendQueue;
  std::shared_ptr<stats::Entry> entry;  // set when it is added
};

class Conversation {
 public:
  // The place `place` among those of `shared`. `name`: on the statistics page.
  Conversation(const Settings& settings, Shared& shared, std::size_t place, const char* name);
  ~Conversation();

  // ---- Before open.
  // The home thread of another one of its channel.
  void share_home(const Conversation& other) noexcept;
  // Numbers of messages stay on them.
  void keep_numbers() noexcept { receiver_.keep_numbers(); }
  // Whether a queue of that kind may be added.
  Status check_adding(const lwmq_send_queue_options& options) const noexcept;
  // Makes what others will see of it, one queue at a time; memory may be short.
  void prepare(CountedQueue& queue) const;
  // Which lives as long as we.
  void add(CountedQueue& queue) noexcept;
  Status open(std::int32_t role);
  // In place of open: with its peer, the only one that it will ever have. Takes the transport on LWMQ_OK.
  Status accept(lwmq_tli_transport* transport);

  // ---- Any thread.
  Status set_priority(CountedQueue* queue, std::uint32_t priority) noexcept;
  Status set_weights(const std::uint32_t* weights, std::uint32_t count) noexcept;

  // The queue's own thread where it is mono, else any. What is given as a message is taken on LWMQ_OK alone.
  Status post(CountedQueue* queue, Message* message, std::uint64_t tag) noexcept;
  Status post_bytes(CountedQueue* queue, const void* data, std::uint64_t bytes) noexcept;
  Status post_wait(CountedQueue* queue, Message* message, std::uint64_t tag, std::uint32_t timeout_ms,
                   bool or_discard) noexcept;
  // Until a bounded queue has room. LWMQ_E_FULL, LWMQ_E_TIMED_OUT.
  Status wait_room(CountedQueue* queue, std::uint32_t timeout_ms) noexcept;
  // *out_posted are taken, whatever the status.
  Status post_many(CountedQueue* queue, const lwmq_bytes* frames, std::uint64_t count,
                   std::uint64_t* out_posted) noexcept;
  Status post_messages(CountedQueue* queue, Message** messages, std::uint64_t count,
                       std::uint64_t* out_posted) noexcept;
  // All of them, before the first is posted.
  Status admit_all(const lwmq_bytes* frames, std::uint64_t count) const noexcept;
  Status admit_all(const CountedQueue* queue, Message* const* messages, std::uint64_t count) const noexcept;
  // Until all is out, and read by the peer. LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED.
  Status wait_drained(std::int64_t deadline, bool also_read) noexcept;
  // What a flush answers behind that: nothing was left, but perhaps because a close has dropped it.
  Status after_drain(Status status) const noexcept;
  [[nodiscard]] std::uint64_t posted() const noexcept { return scheduler_.posted(); }
  [[nodiscard]] bool has_queued() const noexcept { return scheduler_.message_count() > 0; }

  // The next of the small messages that have landed together, where there is no more to do than to copy it;
  // else null, and receive knows.
  [[nodiscard, gnu::always_inline]] Message* take_at_hand() noexcept {
    if (!is_open() || !receives_plainly_ || !receiver_.may_have_run() || !landing_.try_take()) return nullptr;
    Message* message = receiver_.take_at_hand();
    if (message != nullptr) [[likely]]
      note_activity();
    landing_.give_back();
    return message;
  }
  // One or more, as many as `into` has room for; waits for the first alone.
  Status take(How how, Messages& into);
  // Where takes_plainly.
  Status take(How how, Lent& into);
  // Whoever receives lands, from one transport.
  [[nodiscard]] bool takes_plainly() const noexcept { return is_open() && receives_plainly_; }

  // Of one that has a receive queue: lands what has come, for whoever takes next. Returns when to look again.
  std::int64_t land_waiting(std::int64_t now_ns);
  // Behind a drain of the descriptor: false: something is there.
  bool arm() noexcept;
  // The last failure to connect, until an attempt succeeds; of several conversations once, because the others
  // go on. The second puts it into the receive queue.
  [[nodiscard]] Status connect_failure();
  void report_connect_failure();

  // Makes it at the first call. Lent until destroy.
  Status descriptor(std::int32_t* out_fd);

  Status raw_get(std::uint32_t timeout_ms, lwmq_buffer* out_buffer);
  Status raw_send(lwmq_buffer* buffer);
  Status raw_abandon(lwmq_buffer* buffer);
  Status raw_receive(std::uint32_t timeout_ms, lwmq_buffer* out_buffer);
  Status raw_dispose(lwmq_buffer* buffer);

  // To what others of its channel have added; the first place sets what is no sum. Notices a peer that is
  // gone.
  Status add_figures(lwmq_channel_statistics* sums, bool* out_connected);
  // See lwmq_channel_peer.
  Status peer(lwmq_peer* out_peer);
  Status wait_peer(std::uint32_t timeout_ms, lwmq_peer* peer);

  // Of an open one: posts and receives are refused from here on.
  void begin_close() noexcept;
  // After begin_close: until all is out and read, where it was open. As wait_drained.
  Status linger(std::int64_t deadline) noexcept {
    return is_closing() ? wait_drained(deadline, true) : LWMQ_E_TIMED_OUT;
  }
  // After begin_close, where a signal has ended the linger.
  void reopen() noexcept;
  // After lingers of `waited_ms`. `has_ended`: not because that time was over. LWMQ_E_TIMED_OUT, with what
  // was lost.
  Status close(bool has_ended, std::int64_t waited_ms);

  // The filters that its address names. LWMQ_E_UNSUPPORTED: none.
  Status filters(filters::Filters** out_filters) const;
  // Whether they have dropped something.
  [[nodiscard]] bool has_dropped() const noexcept;
  // What a filter held may land now: those who wait for it look again.
  void note_filters_changed() noexcept {
    shared_.ring();
    ask_service();
  }
  // The service thread looks.
  void ask_service() noexcept { service::ServiceThread::attending().request(&attend_); }

  [[nodiscard]] const std::string& address() const noexcept { return settings_.address; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  // What it has sent is erased.
  [[nodiscard]] bool erases() const noexcept { return settings_.transport.secure_erase != 0; }
  // Nobody will ever be heard again, beyond what waits already.
  [[nodiscard]] bool is_over() const noexcept {
    return phase_.load() == Phase::kClosed || phase_.load() == Phase::kEnded;
  }
  // It had, has or waits for no other one.
  [[nodiscard]] bool is_for_one_peer() const noexcept { return for_one_peer_; }
  [[nodiscard]] bool is_closing() const noexcept { return phase_.load() == Phase::kClosing; }

  [[nodiscard]] bool is_created() const noexcept { return phase_.load() == Phase::kCreated; }
  [[nodiscard]] bool is_closed() const noexcept { return phase_.load() == Phase::kClosed; }
  [[nodiscard, gnu::always_inline]] bool is_open() const noexcept {
    return phase_.load(std::memory_order_acquire) == Phase::kOpen && os::still_ours();
  }
  // Neither closed nor about to be.
  [[nodiscard]] bool is_usable() const noexcept { return phase_.load() < Phase::kClosing && !os::forked(); }
  [[gnu::always_inline]] Status check_open(bool raw) const noexcept {
    if (is_open() && raw == settings_.raw) [[likely]]
      return LWMQ_OK;
    return refuse(raw);
  }
  // One look: between two it may end, and what was left would be passed over.
  Status check_open_or_ended(bool raw) const noexcept {
    const Phase phase = phase_.load(std::memory_order_acquire);
    const bool usable = phase == Phase::kOpen || phase == Phase::kEnded;
    return usable && raw == settings_.raw && !os::forked() ? LWMQ_OK : refuse(raw);
  }
  Status refuse_phase() const noexcept;
  [[nodiscard]] bool has_peer() const noexcept {
    return attached_.load(std::memory_order_acquire) != nullptr;
  }
  // How many peers have ended that had not read everything.
  [[nodiscard]] std::uint64_t cuts() const noexcept { return cuts_.load(std::memory_order_relaxed); }
  // A message for it that it has never had.
  void count_lost() noexcept { messages_lost_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // Ended: the only peer has gone; what it left can be received.
  enum class Phase : std::uint32_t { kCreated, kOpen, kEnded, kClosing, kClosed };

  // The two faces that the service threads see.
  struct Attend final : service::Served {
    explicit Attend(Conversation* owner) noexcept : self(owner) {}
    std::int64_t serve(std::int64_t now_ns, bool alone) noexcept override {
      if (take_polled()) self->tend_listener();  // first: what it takes back is looked at behind it
      const std::int64_t again = self->attend(now_ns, alone);
      self->note_figures();
      return std::min(again, self->shared_.ring_when_due(now_ns));
    }
    Conversation* self;
  };
  struct Connect final : service::Served {
    explicit Connect(Conversation* owner) noexcept : self(owner) {}
    std::int64_t serve(std::int64_t now_ns, bool /*alone*/) noexcept override {
      return self->connect(now_ns);
    }
    Conversation* self;
  };

  // A transport that has ended, with raw send buffers of it that the application still holds.
  struct Kept {
    lwmq_tli_transport* transport;
    std::uint32_t lent;
  };

  // conversation.cc
  Status start(std::int32_t role);
  Status check_priority(std::uint32_t priority) const noexcept;

  // post.cc
  Status refuse(bool raw) const noexcept;
  // LWMQ_E_UNSUPPORTED at the wrong end of a transport that carries one way.
  Status check_sends(std::int32_t role) const noexcept;
  Status check_receives() const noexcept {
    return !settings_.one_way || role_ != LWMQ_ROLE_SERVER ? LWMQ_OK : refuse_to_receive();
  }
  Status refuse_to_receive() const noexcept;
  // Before a receive: open, of the kind asked for, and at the end that receives.
  Status check_receiving(bool raw) const noexcept {
    const Status status = check_open_or_ended(raw);
    return status == LWMQ_OK ? check_receives() : status;
  }
  // One of several ways to a peer.
  [[nodiscard]] bool is_redundant() const noexcept { return shared_.merge != nullptr; }
  Status too_big(std::uint64_t encoded_bytes, std::uint64_t payload_bytes) const noexcept;
  Status no_memory() const noexcept;
  Status refuse_push(queue::Pushed why) const noexcept;
  // Before open, messages may be queued.
  [[gnu::always_inline]] Status check_posting() const noexcept {
    if (is_open()) [[likely]]
      return LWMQ_OK;
    return refuse_posting();
  }
  Status refuse_posting() const noexcept;
  Status admit(const CountedQueue* queue, Message& message, std::uint64_t tag) const noexcept;
  Status post_with_pump(CountedQueue* queue, Message* message, std::uint64_t tag, bool may_discard) noexcept;
  Status push_with_pump(CountedQueue* queue, Message* message, std::uint64_t tag, bool may_discard) noexcept;
  Status post_copy(CountedQueue* queue, const void* data, std::uint64_t bytes, bool has_pump) noexcept;
  template <typename Attempt>
  Status when_there_is_room(CountedQueue* queue, std::uint32_t timeout_ms, Attempt&& attempt) noexcept;
  Status try_post(CountedQueue* queue, Message* message, std::uint64_t tag, bool may_discard) noexcept;
  Status enqueue(CountedQueue* queue, Message* message, std::uint64_t tag, bool may_discard) noexcept;
  template <typename Source>
  Status post_all(CountedQueue* queue, Source&& source, std::uint64_t* out_posted) noexcept;
  // A message was left behind: whoever holds the pump takes it, or we do. The queue is awake before we look
  // at the pump, so that the last look of whoever gives it away finds it.
  [[gnu::always_inline]] void kick(CountedQueue* queue) noexcept {
    os::light_barrier(membarrier_);  // sync: left-behind, rest
    scheduler_.note_pushed(queue);
    if (!pump_.is_served()) [[unlikely]]
      kick_pump();
  }
  void kick_pump() noexcept;
  bool withdraw(CountedQueue* queue, Message* message) noexcept;
  std::uint64_t drop_queued(Completions& completions) noexcept;
  void wake_posters() noexcept;
  Sent pump(std::uint64_t bytes_max, Completions& completions) noexcept;
  void pump_and_release() noexcept;
  void hand_pump_over() noexcept;
  bool release_word() noexcept;
  // With the pump in hand, from try_take. As the one poster of the one queue nobody else can have pushed, so
  // there is nothing to look for.
  [[gnu::always_inline]] void release_pump() noexcept {
    if (scheduler_.has_several_posters()) [[unlikely]]
      return release_and_look();
    pump_.give_back();
  }
  void release_and_look() noexcept;
  void take_pump() noexcept;
  void note_queued() noexcept;
  void note_queues() noexcept;
  [[gnu::always_inline]] void note_activity() noexcept {
    os::light_barrier(membarrier_);  // sync: activity
    if (!active_.load(std::memory_order_relaxed)) [[unlikely]]
      begin_activity();
  }
  void begin_activity() noexcept;
  void note_peer_gone() noexcept;
  std::int32_t note_unread(lwmq_tli_transport* transport) noexcept;

  // receive.cc
  Status take(How how, Buffer& into);
  template <typename Kind>
  Status take_landed(How how, Kind& into);
  Status take_waiting(How how, bool in_hand, Into& into);
  Status take_first(How how, bool in_hand, Into& into);
  void take_more(Into& into);
  // Behind what was received: the last touch, for a destroy that waits for us waits for the landing side.
  [[gnu::always_inline]] void leave_landing() noexcept {
    note_activity();
    landing_.release();
  }
  bool may_leave_empty(WhenEmpty when_empty) noexcept;
  bool sees_nothing() noexcept;
  void say_received() noexcept;
  bool arm_transport() noexcept;
  void poll_transport() noexcept;
  void poll_transport_no_more() noexcept;

  // queued.cc
  Status take_queued(How how, Messages& into);
  enum class Left { kNothing, kMore, kNoMemory };
  Left land_into_queue(std::uint64_t limit, bool stays, Completions& completions);
  bool may_leave_behind_leader() noexcept;
  void wake_follower() noexcept;
  void land_for(Messages& into, Completions& completions);
  std::int64_t land_for_nobody(std::int64_t now_ns);
  void note_delivered() noexcept;

  // service.cc
  void tend_listener() noexcept;
  std::int64_t attend(std::int64_t now_ns, bool alone) noexcept;
  std::int64_t connect(std::int64_t now_ns) noexcept;
  std::int64_t watch_attempt(std::int64_t now_ns) noexcept;
  void unwatch_attempt() noexcept;
  void cancel_attempt() noexcept;
  void settle_role() noexcept;
  std::int64_t ship_waiting(std::int64_t now_ns, bool alone) noexcept;
  std::int64_t tidy(std::int64_t now_ns) noexcept;
  bool has_erased() noexcept;
  Status listen() noexcept;
  std::int64_t accept_next(std::int64_t now_ns) noexcept;
  bool attach(lwmq_tli_transport* transport) noexcept;
  bool retire() noexcept;
  void note_figures() noexcept;
  void set_connect_failure(Status status) noexcept;
  void set_broken() noexcept;
  bool note_corrupt(const Landed& landed) noexcept;
  Status said_broken() noexcept;
  [[nodiscard]] std::uint64_t count_unread(std::uint64_t unread_extents) const noexcept;
  void say_end_of_peer(Status status, lwmq_tli_transport* transport, std::uint64_t lost, std::uint64_t unsent,
                       Report& report) noexcept;

  // close.cc
  void end_without_peer() noexcept;
  enum class Drained { kYes, kNo, kUnknown, kInterrupted };
  Drained drain(bool also_read, std::uint32_t room_ms) noexcept;

  // raw.cc
  Status check_token(const lwmq_buffer* buffer, std::uint64_t kind) const noexcept;
  void keep_raw_lent(lwmq_tli_transport* transport);
  [[nodiscard]] std::uint32_t raw_lent_of(const lwmq_tli_transport* transport) const noexcept;
  void lend_raw(const lwmq_tli_buffer& buffer, lwmq_tli_transport* transport,
                lwmq_buffer* out_buffer) noexcept;
  Status raw_get_waiting(std::uint32_t timeout_ms, lwmq_buffer* out_buffer);
  Status take_back(lwmq_buffer* buffer, lwmq_tli_buffer* out_buffer);
  Status take_back_late(lwmq_buffer* buffer, lwmq_tli_buffer* tli_buffer);
  void close_transport(lwmq_tli_transport* transport, std::uint64_t unsent) noexcept;

  // Fixed from the beginning.
  Shared& shared_;
  const std::size_t place_;  // among the conversations of its channel, from 0
  const Settings settings_;
  const lwmq_tli_provider* const provider_;    // of settings_
  const lwmq_tli_transport_table* const tli_;  // of it
  bool for_one_peer_ = false;                  // accepted: nobody follows it
  const bool membarrier_;

  std::atomic<Phase> phase_{Phase::kCreated};  // written by open, accept and close; kEnded by retire
  std::int32_t role_ = LWMQ_ROLE_AUTO;
  bool receives_plainly_ = false;  // written by open: whoever receives lands, from one transport

  alignas(kCacheLine) Ownership pump_;
  std::atomic<bool> left_behind_{false};  // written by posters and the holder of the pump
  std::atomic<std::uint32_t> notes_skipped_{0};
  scheduler::Scheduler scheduler_;
  Sender sender_;
  std::uint32_t raw_lent_ = 0;  // raw send buffers in the application's hands, of the present transport
  std::vector<Kept> raw_kept_;
  std::atomic<std::uint32_t> free_buffers_seen_{0};
  std::atomic<std::uint64_t> unread_seen_{0};
  Message* withdrawn_ = nullptr;  // what came into the queues behind the close

  alignas(kCacheLine) Ownership landing_;
  Receiver receiver_;
  ReceiveQueue* const queue_;         // of shared_
  std::uint64_t said_received_ = 0;   // of its messages
  std::uint64_t takes_of_flood_ = 0;  // from a bounded receive queue, before more is landed, at that time:
  std::int64_t flood_ns_ = 0;
  Failure untold_;                  // of a message of an earlier peer: the next take's
  std::atomic<bool> armed_{false};  // nothing was taken since the transport was armed
  int polled_fd_ = -1;              // of the transport that is attached, behind the descriptor

  // Written with both halves in hand.
  alignas(kCacheLine) std::atomic<lwmq_tli_transport*> attached_{nullptr};
  std::atomic<bool> active_{false};     // the service thread ticks for us; see `activity`
  std::atomic<bool> peer_gone_{false};  // the service thread shall retire the transport
  std::atomic<std::uint64_t> messages_lost_{0};
  std::atomic<std::uint64_t> peers_lost_{0};
  std::atomic<std::uint64_t> clients_refused_{0};
  std::atomic<std::uint64_t> cuts_{0};  // ends of peers that had not read everything

  // The service threads' own.
  Attend attend_{this};
  Connect connect_{this};
  std::atomic<std::uint64_t> lost_before_close_{0};
  bool attending_ = false;  // added to the service threads
  std::atomic<lwmq_tli_listener*> listener_{nullptr};
  std::atomic<bool> is_server_{false};
  std::uint32_t quiet_looks_ = 0;
  std::uint64_t sent_seen_ = 0;
  std::uint64_t received_seen_ = 0;
  std::uint64_t taken_seen_ = 0;  // by the application, at looked_ns_
  std::int64_t looked_ns_ = 0;
  bool is_quick_ = false;  // it was, in the tick before
  std::int64_t room_wait_ns_ = 0;

  const std::shared_ptr<stats::Entry> entry_;  // what others see of it

  std::mutex connect_mutex_;             // guards the next two
  lwmq_tli_attempt* attempt_ = nullptr;  // under way; neither a peer nor a listener is there meanwhile
  std::int64_t attempt_began_ns_ = 0;
  std::mutex failure_mutex_;
  Failure failure_;            // of the last attempt to connect or to listen
  Failure broken_;             // the peer broke the protocol; guarded by failure_mutex_
  bool failure_told_ = false;  // of several conversations: one that fails is reported once
};

}  // namespace lwmq::conversation
