// A channel with several transports: each transport is a channel of its own, with its queues, its pump and
// its peer. This class makes one conversation of them.
//
//   posting     a message goes into the corresponding queue of each, in the order posted, encoded for each. A
//               peer that is slow, absent or lost holds up no other
//   receiving   what any of them has, in turns; order is kept per transport. They share one descriptor, and
//               one receive queue if it is not mono
//   redundant   several ways to one peer: duplicates are dropped (merge.h). As long as one way is left, the
//               loss of another is not reported, and holds up neither a flush nor a close
//   the rest    applies to all of them
//
// The first transport is the channel that the application holds (the head). Every function here also takes a
// channel of one transport, and passes the call on.
#pragma once

#include "channel/channel.h"

namespace lwmq::channel {

class TransportGroup {
 public:
  // Before open. LWMQ_E_INVALID: what all transports of a channel share is not what this one says.
  static Status add_transport(Channel* head, const char* address, const lwmq_transport_options& options);
  static Status add_send_queue(Channel* head, const lwmq_send_queue_options& options,
                               ChannelQueue** out_queue);
  // One for all that bring none of their own: it lives as long as the channel, which they need not.
  static Status common_queue(Channel* head, ChannelQueue** out_queue);
  static Status set_priority(ChannelQueue* queue, std::uint32_t priority) noexcept;
  static Status set_weights(Channel* head, const std::uint32_t* weights, std::uint32_t count) noexcept;
  // Sums, but what was posted.
  static Status query_queue(const ChannelQueue* queue, lwmq_send_queue_statistics* out_statistics);
  // Where one cannot be opened, none is, and the channel can only be destroyed.
  static Status open(Channel* head, std::int32_t role);
  // Until each has a peer.
  static Status wait_connected(Channel* head, std::uint32_t timeout_ms);
  // Any of them has one now.
  [[nodiscard]] static bool has_peer(const Channel& head) noexcept;

  static Status post(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept {
    if (queue->replica == nullptr) [[likely]]
      return queue->channel->post(queue, message, tag);
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
      return queue->channel->post_bytes(queue, data, bytes);
    return post_copy_to_each(queue, data, bytes);
  }
  static Status flush(Channel* head, std::uint32_t timeout_ms);

  // One or more, as many as `into` has room for; waits for the first alone.
  static Status take(Channel* head, How how, Messages& into) {
    if (head->more_.empty()) [[likely]]
      return head->take(how, into);
    if (head->redundant_) return take_merged(head, how, into);
    return head->queue_ != nullptr ? take_queued(head, how, into) : take_in_turns(head, how, into);
  }
  // Gives back what `loan` has, first.
  static Status take(Channel* head, How how, Loan& loan) {
    loan.give_back();
    if (head->takes_plainly()) [[likely]] {
      Lent lent(loan);
      return head->take(how, lent);
    }
    Messages messages(loan.next_message(), loan.left());
    const Status status = take(head, how, messages);
    loan.note_messages(messages.count());
    return status;
  }

  static Status query(Channel* head, lwmq_channel_statistics* out_statistics);
  static Status peer(Channel* head, std::uint32_t transport, lwmq_peer* out_peer);
  static Status wait_peer(Channel* head, std::uint32_t transport, std::uint32_t timeout_ms, lwmq_peer* peer);
  static Status close(Channel* head, std::uint32_t linger_ms);
  static void destroy(Channel* head);

 private:
  // Transport `transport` of a channel. LWMQ_E_INVALID.
  static Status find(Channel* head, std::uint32_t transport, Channel** out_channel);
  template <typename Call>
  static void each(Channel* head, Call&& call) {
    call(*head);
    for (Channel* channel : head->more_) call(*channel);
  }
  // Up to the first that fails.
  template <typename Call>
  static Status all(Channel* head, Call&& call) {
    Status status = call(*head);
    for (Channel* channel : head->more_) {
      if (status != LWMQ_OK) break;
      status = call(*channel);
    }
    return status;
  }
  static Channel* at(Channel* head, std::size_t place) noexcept {
    return place == 0 ? head : head->more_[place - 1];
  }
  static void begin_redundancy(Channel* head);
  static Status wait_for_a_way(Channel* head, std::int64_t deadline);
  static Status post_to_each(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept;
  static Status post_copy_to_each(ChannelQueue* queue, const void* data, std::uint64_t bytes) noexcept;
  static Status refuse_to_wait(const ChannelQueue& queue) noexcept;
  static Status lay_to_each(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept;
  static Status wait_drained(Channel* head, std::int64_t deadline, bool also_read) noexcept;
  static bool has_none(const Channel& channel, Status status) noexcept;
  static Status take_in_turns(Channel* head, How how, Messages& into);
  enum class Pulled { kSomething, kNothingYet, kNoMore };
  static Pulled pull(Channel* head, std::size_t place, std::int64_t now_ns, Messages& into, bool* out_short);
  static Status take_merged(Channel* head, How how, Messages& into);
  static Status take_queued(Channel* head, How how, Messages& into);
  static bool arm_all(Channel* head);
};

}  // namespace lwmq::channel
