// The conversation over one transport with one peer at a time: messages that are posted to any number of
// queues arrive whole and in order. A channel (channel/channel.h) owns one conversation per transport.
//
// The thread that posts also pumps: on an idle conversation it encodes straight into the transport's buffer.
// While another thread pumps, or no buffer is free, a post only enqueues. The thread that receives also
// lands. What must go on while the application does neither (to connect, to accept, to ship what waited for
// room, to retire a lost peer) is done by the service thread, which sleeps otherwise.
//
// A conversation has two halves, each owned by one thread at a time (ownership.h). A thread that needs both
// takes landing_ first:
//
//   pump_      sender_ and the consuming ends of the queues
//   landing_   receiver_
//   both       the transport itself: it is attached and retired with both in hand
//
// Where two threads meet otherwise:
//
//   left-behind  A poster that finds the pump taken pushes its message, sets left_behind_, and then (full
//                fence) looks whether the pump is free. The holder clears left_behind_, then (full fence)
//                looks at the queues, releases the pump, and then (full fence) looks at left_behind_. One of
//                the two sees the other. While the pump is served (ownership.h) the poster passes a light
//                barrier and sets nothing: the thread that releases such a pump passes a heavy barrier, then
//                looks again. A home thread leaves the price of the fences behind its release to the others
//   last-post    A poster pushes, then (one of those barriers) looks whether the conversation was closed, and
//                takes its message back. Close says that it closes, drops what is queued, passes a heavy
//                barrier, and drops once more
//   ended        The thread that retires the only peer clears attached_, then ends the phase where that is
//                open. A thread that reopens after a linger opens the phase, then looks at attached_. Both
//                are sequentially consistent: one of the two sees the other
//   activity     A thread that opens a buffer or lands then (light barrier) loads active_. The service thread
//                clears active_, then (heavy barrier) looks whether something is open or new
//   change       A thread that changes what others wait for adds to changes_ (release), then wakes them. A
//                waiter loads changes_ (acquire) before it looks, and sleeps on that value
//   caller       A thread that waits counts itself in Shared::callers, then looks at the phase. The channel's
//                destroy closes, then waits until nobody is counted. All of this is sequentially consistent
//                except the leave, which is a release. A thread that holds the landing side need not count
//                itself meanwhile: a close takes that first
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/cache_line.h"
#include "base/failure.h"
#include "base/status.h"
#include "conversation/descriptor.h"
#include "conversation/loan.h"
#include "conversation/ownership.h"
#include "conversation/receive_queue.h"
#include "conversation/receiver.h"
#include "conversation/sender.h"
#include "conversation/settings.h"
#include "conversation/shared.h"
#include "lwmq/lwmq.h"
#include "lwmq/lwmq_tli.h"
#include "os/identity.h"
#include "os/membarrier.h"
#include "scheduler/scheduler.h"
#include "service/service_thread.h"
#include "stats/page.h"

namespace lwmq::conversation {

class Conversation;

// A send queue and the conversation that it belongs to.
class ConversationQueue : public SendQueue {
 public:
  ConversationQueue(Conversation* owner, const lwmq_send_queue_options& options) noexcept
      : SendQueue(options.kind, priority_of(options), options.capacity), conversation(owner) {}
  virtual ~ConversationQueue() = default;

  static std::uint32_t priority_of(const lwmq_send_queue_options& options) noexcept {
    return options.priority != 0 ? options.priority : std::uint32_t{LWMQ_PRIORITY_NORMAL};
  }

  // The queue itself, or the sibling that has no further one.
  [[nodiscard]] ConversationQueue& last_sibling() noexcept {
    ConversationQueue* one = this;
    while (one->sibling != nullptr) one = one->sibling;
    return *one;
  }

  Conversation* const conversation;
  std::shared_ptr<stats::Entry> entry;  // what tools see of it; set before the scheduler knows the queue
  ConversationQueue* sibling =
      nullptr;  // the same queue of the channel's next transport; fixed at the first post
};

class Conversation {
 public:
  // Ended: the only peer has gone; what it left can be received.
  enum class Phase : std::uint32_t { kCreated, kOpen, kEnded, kClosing, kClosed };

  // `name`: on the statistics page. `place`: among the channel's conversations, from 0.
  Conversation(const Settings& settings, const char* name, Shared& shared, std::size_t place);
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;
  ~Conversation();

  // ---- Making. Before open:

  // The receive queue, the descriptor and the home thread are those of `first` from now on, which has a
  // descriptor and outlives this.
  void join(const Conversation& first) noexcept;
  // From now on received messages keep the numbers that they travel with.
  void keep_numbers() noexcept { receiver_.keep_numbers(); }
  Status open(std::int32_t role);
  // Opens with a peer, the only one that this conversation will ever have. Takes the transport, also on
  // failure.
  Status accept(lwmq_tli_transport* transport);

  // ---- Send queues. Any thread.

  Status check_queue(const lwmq_send_queue_options& options) const noexcept;
  // After check_queue. Keeps the queue until the conversation is destroyed.
  void add(std::unique_ptr<ConversationQueue> queue);
  // Changed with the pump in hand.
  [[nodiscard]] const std::vector<std::unique_ptr<ConversationQueue>>& queues() const noexcept {
    return queues_;
  }
  Status set_priority(ConversationQueue* queue, std::uint32_t priority) noexcept;
  Status set_weights(const std::uint32_t* weights, std::uint32_t count) noexcept;
  Status query_queue(const ConversationQueue* queue, lwmq_send_queue_statistics* out_statistics) const;

  // ---- Posting. One thread at a time where the queue is mono, else any thread. A message is taken on
  // LWMQ_OK only.

  Status post(ConversationQueue* queue, Message* message, std::uint64_t tag) noexcept;
  Status post_bytes(ConversationQueue* queue, const void* data, std::uint64_t bytes) noexcept;
  Status post_wait(ConversationQueue* queue, Message* message, std::uint64_t tag, std::uint32_t timeout_ms,
                   bool or_discard) noexcept;
  // Waits until a bounded queue has room. LWMQ_E_FULL, LWMQ_E_TIMED_OUT.
  Status wait_room(ConversationQueue* queue, std::uint32_t timeout_ms) noexcept;
  // The first *out_posted messages are taken, whatever the status.
  Status post_many(ConversationQueue* queue, const lwmq_bytes* frames, std::uint64_t count,
                   std::uint64_t* out_posted) noexcept;
  Status post_messages(ConversationQueue* queue, Message** messages, std::uint64_t count,
                       std::uint64_t* out_posted) noexcept;
  // Whether all of them may be posted; checked before the first one is.
  Status admit_all(const lwmq_bytes* frames, std::uint64_t count) const noexcept;
  Status admit_all(const ConversationQueue* queue, Message* const* messages,
                   std::uint64_t count) const noexcept;
  // Messages that were to be posted here, and could not.
  void count_lost(std::uint64_t messages) noexcept {
    messages_lost_.fetch_add(messages, std::memory_order_relaxed);
  }
  Status flush(std::uint32_t timeout_ms);

  // ---- Receiving

  // The next of the small messages that have landed together, if all that is left to do is to copy it. Null:
  // call receive.
  [[nodiscard, gnu::always_inline]] Message* receive_at_hand() noexcept {
    if (!is_open() || !receives_plainly_ || !receiver_.may_have_run() || !landing_.try_take()) return nullptr;
    Message* message = receiver_.take_at_hand();
    if (message != nullptr) [[likely]]
      note_activity();
    landing_.give_back();
    return message;
  }
  // 1 to `limit` messages; waits for the first one only.
  Status receive(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                 std::uint32_t* out_count);

  // The next small message, for a thread that looks at many channels in turn. A glance that finds nothing
  // does not arm the descriptor, as a receive does. kMore: only a receive with a timeout of 0 can say.
  enum class Glance { kMessage, kNothing, kMore };
  Glance glance(Message** out_message) noexcept;

  // The same as receive, into a loan that takes messages as they lie. Only where `lends`: the thread that
  // receives also lands, from one transport.
  Status receive(std::uint32_t timeout_ms, Loan& loan);
  [[nodiscard]] bool lends() const noexcept { return is_open() && receives_plainly_; }
  // Null: messages land when they are asked for.
  [[nodiscard]] ReceiveQueue* receive_queue() const noexcept { return queue_.get(); }
  // Lands what has come into the receive queue, for any thread that takes from it next.
  void land_now() noexcept;
  // Puts a failure to connect into the receive queue, if there is one that was not reported.
  void report_connect_failure();
  // The same as an answer.
  [[nodiscard]] Status connect_failure();
  [[nodiscard]] Status nobody_came();

  // Makes the descriptor at the first call. Lent until the conversation is destroyed.
  Status descriptor(std::int32_t* out_fd);
  // The channel's, after that; else null.
  [[nodiscard]] Descriptor* known_descriptor() const noexcept {
    return descriptor_.load(std::memory_order_acquire);
  }
  // After a drain of the descriptor: it will be readable when something comes. False: something is there.
  bool arm() noexcept;
  void ring() noexcept {
    if (Descriptor* descriptor = known_descriptor(); descriptor != nullptr) descriptor->ring();
  }
  // The service thread shall look at this conversation soon.
  void request_attention() noexcept { service::ServiceThread::attending().request(&attend_); }

  // ---- Buffers of a raw channel

  Status raw_get(std::uint32_t timeout_ms, lwmq_buffer* out_buffer);
  Status raw_send(lwmq_buffer* buffer);
  Status raw_abandon(lwmq_buffer* buffer);
  Status raw_receive(std::uint32_t timeout_ms, lwmq_buffer* out_buffer);
  Status raw_dispose(lwmq_buffer* buffer);

  // ---- State

  [[nodiscard]] Phase phase() const noexcept { return phase_.load(); }
  [[nodiscard]] bool was_opened() const noexcept { return phase() != Phase::kCreated; }
  // No message will ever come, except those that wait already.
  [[nodiscard]] bool is_over() const noexcept {
    return phase() == Phase::kClosed || phase() == Phase::kEnded;
  }
  // Accepted: it has never another peer.
  [[nodiscard]] bool is_for_one_peer() const noexcept { return for_one_peer_; }
  [[nodiscard]] bool has_peer() const noexcept {
    return attached_.load(std::memory_order_acquire) != nullptr;
  }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  // Once it listens: with the port that the system has chosen. Lent until close.
  [[nodiscard]] const char* bound_address() const noexcept;
  [[nodiscard]] const filters::FilteredOptions& options() const noexcept { return tli_options_; }
  [[nodiscard]] bool is_raw() const noexcept { return raw_; }
  [[nodiscard]] bool is_one_way() const noexcept { return one_way_; }
  // What it has sent is erased.
  [[nodiscard]] bool erases() const noexcept { return secure_erase_; }
  [[nodiscard]] std::uint64_t posted() const noexcept { return scheduler_.posted(); }
  [[nodiscard]] std::uint64_t queued() const noexcept { return scheduler_.message_count(); }

  [[gnu::always_inline]] Status check_open(bool raw) const noexcept {
    if (is_open() && raw == raw_) [[likely]]
      return LWMQ_OK;
    return refuse(raw);
  }
  // LWMQ_OK also after the only peer has gone. Looks once: between two looks the conversation may end, and
  // what was left would be passed over.
  Status check_open_or_ended(bool raw) const noexcept {
    const Phase phase = phase_.load(std::memory_order_acquire);
    const bool usable = phase == Phase::kOpen || phase == Phase::kEnded;
    return usable && raw == raw_ && !os::forked() ? LWMQ_OK : refuse(raw);
  }
  // Why the phase does not allow a call, with a text.
  Status refuse_phase() const noexcept;

  Status wait_connected(std::uint32_t timeout_ms);
  // LWMQ_E_CLOSED after a close.
  Status query(lwmq_channel_statistics* out_statistics);
  // See lwmq_channel_peer and lwmq_channel_wait_peer.
  Status peer(lwmq_peer* out_peer);
  Status wait_peer(std::uint32_t timeout_ms, lwmq_peer* peer);

  // ---- Filters

  // The filters that its address names. LWMQ_E_UNSUPPORTED: none.
  Status filters(filters::Filters** out_filters) const;
  [[nodiscard]] bool has_dropped() const noexcept;
  // What a filter held may land now: threads that wait for it look again.
  void note_filters_changed() noexcept {
    ring();
    request_attention();
  }

  // ---- The end

  // From here on posts and receives are refused, of a conversation that is open.
  void begin_close() noexcept;
  // Undoes begin_close, where a signal has ended the linger.
  void reopen() noexcept;
  // Waits until everything is shipped, and read by the peer. LWMQ_OK, LWMQ_E_TIMED_OUT, LWMQ_E_INTERRUPTED.
  Status wait_drained(std::int64_t deadline, bool also_read) noexcept;
  // The answer of a flush. Nothing is left, but perhaps because a close has dropped it.
  Status after_drain(Status status) const noexcept;
  // A peer has ended without having read everything, since forget_cuts.
  [[nodiscard]] bool was_cut() const noexcept { return cuts_.load(std::memory_order_relaxed) != cuts_seen_; }
  void forget_cuts() noexcept { cuts_seen_ = cuts_.load(std::memory_order_relaxed); }
  // `lingered_ms`: how long the channel has waited before.
  Status close(std::uint32_t linger_ms, std::uint32_t lingered_ms = 0);

 private:
  // How the service thread sees this.
  struct Attend final : service::Served {
    explicit Attend(Conversation* owner) noexcept : conversation(owner) {}
    std::int64_t serve(std::int64_t now_ns, bool alone) noexcept override {
      if (take_polled()) conversation->tend_listener();  // first: attend looks behind what this takes back
      const std::int64_t again = conversation->attend(now_ns, alone);
      conversation->note_figures();
      return std::min(again, conversation->attend_merge(now_ns));
    }
    Conversation* conversation;
  };

  // A transport that has ended, while the application still holds raw send buffers of it.
  struct Kept {
    lwmq_tli_transport* transport;
    std::uint32_t lent;
  };

  // conversation.cc
  Status start(std::int32_t role);
  Status check_priority(std::uint32_t priority) const noexcept;

  // post.cc
  [[nodiscard, gnu::always_inline]] bool is_open() const noexcept {
    return phase_.load(std::memory_order_acquire) == Phase::kOpen && os::still_ours();
  }
  Status refuse(bool raw) const noexcept;
  // LWMQ_E_UNSUPPORTED at the wrong end of a transport that carries one way.
  Status check_sends(std::int32_t role) const noexcept;
  Status check_receives() const noexcept;
  // Before a receive: open, of the kind asked for, and at the end that receives.
  Status check_receiving(bool raw) const noexcept {
    const Status status = check_open_or_ended(raw);
    return status == LWMQ_OK ? check_receives() : status;
  }
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
  Status admit(const ConversationQueue* queue, Message& message, std::uint64_t tag) const noexcept;
  Status post_with_pump(ConversationQueue* queue, Message* message, std::uint64_t tag,
                        bool may_discard) noexcept;
  Status push_with_pump(ConversationQueue* queue, Message* message, std::uint64_t tag,
                        bool may_discard) noexcept;
  Status post_copy(ConversationQueue* queue, const void* data, std::uint64_t bytes, bool has_pump) noexcept;
  template <typename Attempt>
  Status when_there_is_room(ConversationQueue* queue, std::uint32_t timeout_ms, Attempt&& attempt) noexcept;
  Status try_post(ConversationQueue* queue, Message* message, std::uint64_t tag, bool may_discard) noexcept;
  Status enqueue(ConversationQueue* queue, Message* message, std::uint64_t tag, bool may_discard) noexcept;
  template <typename Source>
  Status post_all(ConversationQueue* queue, Source&& source, std::uint64_t* out_posted) noexcept;
  // After a message was left behind: the holder of the pump takes it, or this thread does. The queue is awake
  // before the look at the pump, so that the holder's last look finds it.
  [[gnu::always_inline]] void kick(ConversationQueue* queue) noexcept {
    os::light_barrier(membarrier_);  // sync: left-behind, rest
    scheduler_.note_pushed(queue);
    if (!pump_.is_served()) [[unlikely]]
      kick_pump();
  }
  void kick_pump() noexcept;
  bool withdraw(ConversationQueue* queue, Message* message) noexcept;
  std::uint64_t drop_queued(Completions& completions) noexcept;
  void wake_posters() noexcept;

  // pump.cc
  Sent pump(std::uint64_t bytes_max, Completions& completions) noexcept;
  void pump_and_release() noexcept;
  void hand_pump_over() noexcept;
  bool release_word() noexcept;
  // With the pump in hand, from try_take. Where one thread posts to the one queue, nobody else can have
  // pushed meanwhile, so there is nothing to look for.
  [[gnu::always_inline]] void release_pump() noexcept {
    if (scheduler_.has_several_posters()) [[unlikely]]
      return release_and_look();
    sender_.flush();
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
  void note_unread(lwmq_tli_transport* transport) noexcept;

  // receive.cc
  Status receive_waiting(std::uint32_t timeout_ms, std::uint32_t limit, bool in_hand, Message** out_messages,
                         std::uint32_t* out_count);
  Status admit_waiting(bool in_hand, bool raw);
  Status receive_landed(std::uint32_t timeout_ms, bool in_hand, Landed* out_landed, Loan* loan = nullptr);
  Status receive_one(std::uint32_t timeout_ms, bool in_hand, Message** out_message, Loan* loan = nullptr);
  std::uint32_t receive_more(std::uint32_t limit, Message** out_messages);
  Status receive_waiting(std::uint32_t timeout_ms, bool in_hand, Loan& loan);
  // Ends a receive that has something. This is its last access: a destroy waits for the landing side.
  [[gnu::always_inline]] void leave_landing() noexcept {
    note_activity();
    landing_.release();
  }
  bool may_leave_empty() noexcept;
  void say_received() noexcept;
  bool arm_transport() noexcept;
  void poll_transport() noexcept;
  void poll_transport_no_more() noexcept;

  // receive_queued.cc
  Status receive_queued(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                        std::uint32_t* out_count);
  enum class Left { kNothing, kMore, kNoMemory };
  Left land_into_queue(std::uint64_t limit, bool stays, Completions& completions);
  bool may_leave_behind_leader() noexcept;
  void wake_follower() noexcept;
  std::uint32_t land_for(std::uint32_t limit, Message** out_messages, Completions& completions);
  std::int64_t land_for_nobody(std::int64_t now_ns);
  std::int64_t land_waiting(std::int64_t now_ns);
  void note_delivered() noexcept;

  // attend.cc
  void tend_listener() noexcept;
  std::int64_t attend(std::int64_t now_ns, bool alone) noexcept;
  std::int64_t attend_merge(std::int64_t now_ns) noexcept;
  std::int64_t connect(std::int64_t now_ns) noexcept;
  Status proceed(std::int64_t now_ns) noexcept;
  bool conclude_meeting(Status status) noexcept;
  void meet_now() noexcept;
  void give_up_meeting() noexcept;
  std::int64_t ship_waiting(std::int64_t now_ns, bool alone) noexcept;
  std::int64_t tidy(std::int64_t now_ns) noexcept;
  bool has_erased() noexcept;
  Status listen() noexcept;
  std::int64_t accept_next(std::int64_t now_ns) noexcept;
  bool attach(lwmq_tli_transport* transport) noexcept;
  bool retire() noexcept;
  void changed() noexcept;
  void announce() noexcept;
  void note_figures() noexcept;
  void set_connect_failure(Status status) noexcept;
  void set_broken(Status status) noexcept;
  Status said_broken() noexcept;
  std::uint64_t unsent_by(lwmq_tli_transport* transport) const noexcept;
  std::uint64_t count_unread(lwmq_tli_transport* transport) noexcept;
  void say_end_of_peer(Status status, lwmq_tli_transport* transport, std::uint64_t lost, std::uint64_t unsent,
                       Report& report) noexcept;

  // close.cc
  void end_without_peer() noexcept;
  enum class Drained { kYes, kNo, kUnknown, kInterrupted };
  Drained drain(bool also_read, std::uint32_t room_ms) noexcept;

  // raw.cc
  Status check_token(const lwmq_buffer* buffer, std::uint64_t kind) const noexcept;
  void keep_raw_lent(lwmq_tli_transport* transport);
  void lend_raw(const lwmq_tli_buffer& buffer, lwmq_tli_transport* transport,
                lwmq_buffer* out_buffer) noexcept;
  Status raw_get_waiting(std::uint32_t timeout_ms, lwmq_buffer* out_buffer);
  Status raw_receive_waiting(std::uint32_t timeout_ms, bool in_hand, Landed* out_landed);
  Status take_back(lwmq_buffer* buffer, lwmq_tli_buffer* out_buffer);
  Status take_back_late(lwmq_buffer* buffer, lwmq_tli_buffer* tli_buffer);
  void close_transport(lwmq_tli_transport* transport, std::uint64_t unsent) noexcept;

  // Fixed by the constructor, except where it says otherwise.
  Shared& shared_;
  const std::size_t place_;
  const std::string address_;
  const lwmq_tli_provider* const provider_;
  const lwmq_tli_transport_table& tli_;
  const lwmq_tli_listener_table& listener_tli_;
  const decltype(lwmq_tli_fast_table::ship_only) ship_only_;
  filters::FilteredOptions tli_options_;
  const std::uint32_t retry_ms_;  // as in settings.h, like those that follow
  const bool raw_;
  const bool one_way_;
  const bool passes_;
  const bool secure_erase_;
  bool for_one_peer_ = false;            // set by accept
  std::shared_ptr<ReceiveQueue> queue_;  // set by join; null: messages land when they are asked for
  const bool membarrier_;

  std::atomic<Phase> phase_{Phase::kCreated};  // written by open, accept and close; kEnded by retire
  std::int32_t role_ = LWMQ_ROLE_AUTO;
  bool receives_plainly_ = false;  // set by start: the thread that receives lands, from the only transport
  std::vector<std::unique_ptr<ConversationQueue>> queues_;  // written with the pump in hand

  alignas(kCacheLine) Ownership pump_;
  std::atomic<bool> left_behind_{false};  // written by posters and the holder of the pump
  std::atomic<std::uint32_t> notes_skipped_{0};
  scheduler::Scheduler scheduler_;
  Sender sender_;
  std::uint32_t raw_lent_ = 0;  // raw send buffers of the present transport that the application holds
  std::vector<Kept> raw_kept_;
  std::atomic<std::uint32_t> free_buffers_seen_{0};
  std::atomic<std::uint64_t> unread_seen_{0};
  Message* withdrawn_ = nullptr;  // what came into the queues behind the close

  alignas(kCacheLine) Ownership landing_;
  Receiver receiver_;
  std::unique_ptr<Descriptor> descriptor_owner_;
  std::uint64_t said_received_ = 0;  // how many messages the peer knows to have been received
  // Takes from a bounded receive queue that may come at flood_ns_ before more is landed.
  std::uint64_t takes_of_flood_ = 0;
  std::int64_t flood_ns_ = 0;
  std::atomic<bool> armed_{false};                // nothing was taken since the transport was armed
  int polled_fd_ = -1;                            // the attached transport's, while something polls it
  std::atomic<Descriptor*> descriptor_{nullptr};  // written once, under landing_

  alignas(kCacheLine) std::atomic<std::uint32_t> changes_{0};  // futex
  std::atomic<lwmq_tli_transport*> attached_{nullptr};         // written with both halves in hand
  std::atomic<bool> active_{false};          // the service thread looks again and again; see `activity`
  std::atomic<bool> peer_gone_{false};       // the service thread shall retire the transport
  std::atomic<std::uint32_t> followers_{0};  // threads that wait for what another thread lands
  std::atomic<std::uint32_t> leaves_{0};     // futex: a change, or the leader leaves
  std::atomic<bool> called_{false};          // a follower was woken, and it has not come yet
  std::atomic<bool> leader_waits_{false};    // in the transport, with the landing side in hand
  std::atomic<std::uint64_t> messages_lost_{0};
  std::atomic<std::uint64_t> peers_lost_{0};
  std::atomic<std::uint64_t> clients_refused_{0};
  std::atomic<std::uint64_t> cuts_{0};  // ends of peers that had not read everything
  std::uint64_t cuts_seen_ = 0;         // used by threads that flush or close

  // Used by the service thread, except where it says otherwise.
  Attend attend_{this};
  bool attending_ = false;  // the service threads know attend_; written by open and close
  std::atomic<lwmq_tli_listener*> listener_{nullptr};
  std::atomic<bool> is_server_{false};
  std::uint32_t quiet_looks_ = 0;
  std::uint64_t sent_seen_ = 0;
  std::uint64_t received_seen_ = 0;
  std::uint64_t taken_seen_ = 0;  // by the application, at looked_ns_
  std::int64_t looked_ns_ = 0;
  bool is_quick_ = false;  // the application was quick, in the tick before
  std::int64_t room_wait_ns_ = 0;

  const std::shared_ptr<stats::Entry> entry_;  // what tools see

  std::mutex connect_mutex_;               // guards the next four
  lwmq_tli_transport* meeting_ = nullptr;  // one that has begun to connect
  int meeting_fd_ = -1;                    // its descriptor, while the service thread watches that
  std::int64_t meeting_until_ns_ = 0;      // when it is given up
  std::int64_t next_meeting_ns_ = 0;       // before that no other one begins
  std::mutex failure_mutex_;               // guards the next four
  Failure failure_;                        // of the last attempt to connect or to listen
  Failure broken_;                         // the peer broke the protocol
  bool failure_told_ = false;              // where there are several transports, a failure is told once
  std::array<char, 256> awaited_{};        // what an attempt to connect waits for, or has missed
};

}  // namespace lwmq::conversation
