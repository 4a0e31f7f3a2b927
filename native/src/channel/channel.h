// What the application holds: its send queues, and one conversation for each transport.
//
//   posting     a message goes into the corresponding queue of each conversation, in the order posted, and is
//               encoded for each. A peer that is slow, absent or lost holds up no other
//   receiving   what any of them has, in turns; order is kept per transport. They share one descriptor, and
//               one receive queue if it is not mono
//   redundant   several ways to one peer: duplicates are dropped (merge.h). As long as one way is left, the
//               loss of another is not reported, and holds up neither a flush nor a close
//   the rest    applies to all of them
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/failure.h"
#include "base/handle_mark.h"
#include "base/status.h"
#include "conversation/conversation.h"
#include "conversation/settings.h"
#include "conversation/shared.h"
#include "conversation/take.h"
#include "lwmq/lwmq.h"
#include "reliability/merge.h"
#include "service/service_thread.h"

namespace lwmq::channel {

using conversation::Conversation;
using conversation::CountedQueue;
using conversation::How;
using conversation::Lent;
using conversation::Loan;
using conversation::Messages;
using conversation::Settings;
using conversation::Shared;

class Channel;

// A send queue and the channel that it belongs to, as one of its conversations collects from it.
class ChannelQueue : public CountedQueue {
 public:
  ChannelQueue(Channel& owner, Conversation& collector, const lwmq_send_queue_options& options) noexcept
      : CountedQueue(options.kind, options.priority, options.capacity),
        channel(&owner),
        conversation(&collector) {}
  Channel* const channel;
  Conversation* const conversation;
  std::unique_ptr<ChannelQueue> replica;  // of the next conversation; fixed before it is posted to
  std::unique_ptr<reliability::Numbering> numbering;  // the first's, where transports are redundant; likewise
  HandleMark mark;
};

class Channel {
 public:
  // LWMQ_E_ADDRESS, LWMQ_E_INVALID with the numbers.
  static Status create(const char* address, const lwmq_channel_options& given, Channel** out_channel);
  // One that is open and has its peer, the only one that it will ever have. Takes the transport, also on
  // failure. `client`: its number at a listener.
  static Status accept(const Settings& settings, lwmq_tli_transport* transport, std::uint64_t client,
                       Channel** out_channel);
  // Takes the channel; closes it without linger if that was not done.
  static void destroy(Channel* channel);

  // Before open. LWMQ_E_INVALID: what all transports of a channel share is not what this one says.
  Status add_transport(const char* address, const lwmq_transport_options& options);
  Status add_send_queue(const lwmq_send_queue_options& options, ChannelQueue** out_queue);
  // One for all that bring none of their own: it lives as long as the channel, which they need not.
  Status common_queue(ChannelQueue** out_queue);
  static Status set_priority(ChannelQueue* queue, std::uint32_t priority) noexcept;
  Status set_weights(const std::uint32_t* weights, std::uint32_t count) noexcept;
  // Sums, but what was posted.
  static Status query_queue(const ChannelQueue* queue, lwmq_send_queue_statistics* out_statistics);
  // Where one of several transports cannot be opened, none is, and the channel can only be destroyed.
  Status open(std::int32_t role);
  // Until each has a peer at one time; of redundant transports, until one has.
  Status wait_connected(std::uint32_t timeout_ms);
  // Any of them has one now.
  [[nodiscard]] bool has_peer() const noexcept;

  static Status post(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept {
    if (queue->replica == nullptr) [[likely]]
      return queue->conversation->post(queue, message, tag);
    return post_to_each(queue, message, tag);
  }
  // LWMQ_E_UNSUPPORTED where there are several: each has room of its own, and a message that waits for one of
  // them would reach the others before, or be discarded there.
  static Status post_wait(ChannelQueue* queue, Message* message, std::uint64_t tag, std::uint32_t timeout_ms,
                          bool or_discard) noexcept;
  static Status wait_room(ChannelQueue* queue, std::uint32_t timeout_ms) noexcept;
  static Status post_many(ChannelQueue* queue, const lwmq_bytes* frames, std::uint64_t count,
                          std::uint64_t* out_posted) noexcept;
  static Status post_messages(ChannelQueue* queue, Message** messages, std::uint64_t count,
                              std::uint64_t* out_posted) noexcept;
  static Status post_bytes(ChannelQueue* queue, const void* data, std::uint64_t bytes) noexcept {
    if (queue->replica == nullptr) [[likely]]
      return queue->conversation->post_bytes(queue, data, bytes);
    return post_copy_to_each(queue, data, bytes);
  }
  Status flush(std::uint32_t timeout_ms);

  // As Conversation's.
  [[nodiscard, gnu::always_inline]] Message* take_at_hand() noexcept { return first_.take_at_hand(); }
  // One or more, as many as `into` has room for; waits for the first alone.
  Status take(How how, Messages& into) {
    if (more_.empty()) [[likely]]
      return first_.take(how, into);
    return take_from_several(how, into);
  }
  // Gives back what `loan` has, first.
  Status take(How how, Loan& loan) {
    loan.give_back();
    if (first_.takes_plainly()) [[likely]] {
      Lent lent(loan);
      return first_.take(how, lent);
    }
    Messages messages(loan.next_message(), loan.left());
    const Status status = take(how, messages);
    loan.note_messages(messages.count());
    return status;
  }
  // Whoever receives lands, from the one transport: a look in vain costs little.
  [[nodiscard]] bool takes_plainly() const noexcept { return first_.takes_plainly(); }

  // Makes it at the first call. Lent until destroy.
  Status descriptor(std::int32_t* out_fd) { return first_.descriptor(out_fd); }
  // What receives for it (notice.h), if anything.
  struct NoticeSlot {
    std::mutex mutex;  // guards the other
    std::unique_ptr<service::Served> notice;
  };
  [[nodiscard]] NoticeSlot& notice_slot() noexcept { return notice_slot_; }

  Status query(lwmq_channel_statistics* out_statistics);
  Status peer(std::uint32_t transport, lwmq_peer* out_peer);
  Status wait_peer(std::uint32_t transport, std::uint32_t timeout_ms, lwmq_peer* peer);
  // How many peers have ended, over all transports.
  [[nodiscard]] std::uint64_t ends() const noexcept { return shared_.ends.load(std::memory_order_relaxed); }
  Status close(std::uint32_t linger_ms);

  [[nodiscard]] const std::string& address() const noexcept { return first_.address(); }
  // The one that the channel was made with: its address, its filters, and the direct access to its buffers.
  [[nodiscard]] Conversation& first() noexcept { return first_; }
  [[nodiscard]] const Conversation& first() const noexcept { return first_; }
  // For a call that waits.
  [[nodiscard]] Shared& shared() noexcept { return shared_; }

  // False of memory that was a channel: for checks of what an application hands in.
  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

 private:
  // What is told of one of redundant ways behind what the others have.
  struct Way {
    Failure end;
    std::uint64_t cuts_seen = 0;  // by whoever flushes or closes
  };

  // `name`: on the statistics page.
  Channel(const Settings& settings, const char* name)
      : shared_(settings), first_(settings, shared_, 0, name) {
    shared_.peers.add_place(settings.address);
  }
  static Status make(const Settings& settings, std::uint64_t client, Channel** out_channel);

  // Transport `transport` of a channel. LWMQ_E_INVALID.
  Status find(std::uint32_t transport, Conversation** out_conversation);
  template <typename Call>
  void each(Call&& call) {
    call(first_);
    for (auto& one : more_) call(*one);
  }
  // Up to the first that fails.
  template <typename Call>
  Status all(Call&& call) {
    Status status = call(first_);
    for (std::size_t i = 0; i < more_.size() && status == LWMQ_OK; ++i) status = call(*more_[i]);
    return status;
  }
  [[nodiscard]] std::size_t count() const noexcept { return 1 + more_.size(); }
  Conversation& at(std::size_t place) noexcept { return place == 0 ? first_ : *more_[place - 1]; }
  [[nodiscard]] bool is_redundant() const noexcept { return merge_ != nullptr; }

  Status check_further(const char* address, const lwmq_transport_options& options) const;
  static Status post_to_each(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept;
  static Status post_copy_to_each(ChannelQueue* queue, const void* data, std::uint64_t bytes) noexcept;
  static Status refuse_to_wait(const ChannelQueue& queue) noexcept;
  static Status lay_to_each(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept;
  Status wait_drained(std::int64_t deadline, bool also_read) noexcept;
  static bool has_none(const Conversation& conversation, Status status) noexcept;
  Status take_from_several(How how, Messages& into);
  Status look_in_turns(Messages& into);
  enum class Pulled { kSomething, kNothingYet, kNoMore };
  Pulled pull(std::size_t place, std::int64_t now_ns, Messages& into, bool* out_short);
  Status look_merged(Messages& into, std::int64_t* out_until);
  Status take_queued(How how, Messages& into);
  bool arm_all();

  Shared shared_;
  std::vector<std::unique_ptr<ChannelQueue>> queues_;
  std::atomic<ChannelQueue*> common_queue_{nullptr};  // one of them; written once
  Conversation first_;
  std::vector<std::unique_ptr<Conversation>> more_;  // fixed from open on
  HandleMark mark_;
  std::mutex queues_mutex_;           // guards queues_
  std::atomic<std::size_t> turn_{0};  // for whoever receives
  std::int64_t lingered_ns_ = 0;      // in closes that a signal has ended
  NoticeSlot notice_slot_;

  // Where transports are redundant.
  std::unique_ptr<reliability::Merge> merge_;
  std::vector<Way> ways_;  // by place; `end` with the merge's lock
};

}  // namespace lwmq::channel
