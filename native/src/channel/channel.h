// A channel: what an application posts to and receives from. It owns one conversation per transport.
//
//   posting     Each send queue has a sibling in every conversation. A message goes into all of them, and is
//               encoded for each transport in the order of the posts. A peer that is slow, absent or lost
//               holds up no other peer
//   receiving   A receive takes what any conversation has, in turns; order is kept per transport. The
//               conversations share one descriptor, and one receive queue where that is not mono
//   redundant   Several transports to one peer: a message that comes twice is dropped (reliability/merge.h).
//               As long as one way is left, the loss of another is not reported, and holds up neither a flush
//               nor a close
//
// The first conversation lies in the channel itself. A channel with one transport passes each call on to it,
// at the price of one test. The first conversation opens first and closes last, so its phase is the
// channel's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "base/handle_mark.h"
#include "base/status.h"
#include "channel/observers.h"
#include "conversation/conversation.h"
#include "conversation/loan.h"
#include "conversation/settings.h"
#include "conversation/shared.h"
#include "lwmq/lwmq.h"
#include "message/message.h"
#include "reliability/merge.h"

namespace lwmq::channel {

using conversation::Conversation;
using conversation::ConversationQueue;
using conversation::Loan;

// A send queue of a channel, which is the queue of its first conversation. One thread posts at a time where
// its kind is mono, else any thread. A message is taken on LWMQ_OK only.
class ChannelQueue final : public ConversationQueue {
 public:
  ChannelQueue(Channel* owner, Conversation* first, const lwmq_send_queue_options& options) noexcept
      : ConversationQueue(first, options), channel(owner) {}

  Status post(Message* message, std::uint64_t tag) noexcept {
    if (sibling == nullptr) [[likely]]
      return conversation->post(this, message, tag);
    return post_to_each(message, tag);
  }
  Status post_bytes(const void* data, std::uint64_t bytes) noexcept {
    if (sibling == nullptr) [[likely]]
      return conversation->post_bytes(this, data, bytes);
    return post_copy_to_each(data, bytes);
  }
  // LWMQ_E_UNSUPPORTED where there are several transports: a message that waits for room in one queue would
  // reach the other peers earlier, or be discarded there.
  Status post_wait(Message* message, std::uint64_t tag, std::uint32_t timeout_ms, bool or_discard) noexcept;
  Status wait_room(std::uint32_t timeout_ms) noexcept;
  // The first *out_posted messages are taken, whatever the status.
  Status post_many(const lwmq_bytes* frames, std::uint64_t count, std::uint64_t* out_posted) noexcept;
  Status post_messages(Message** messages, std::uint64_t count, std::uint64_t* out_posted) noexcept;
  Status set_priority(std::uint32_t priority) noexcept;
  // Sums over all transports, except `posted`.
  Status query(lwmq_send_queue_statistics* out_statistics) const;

  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

  Channel* const channel;
  // Where transports are redundant; fixed at the first post.
  std::unique_ptr<reliability::Numbering> numbering;

 private:
  Status post_to_each(Message* message, std::uint64_t tag) noexcept;
  Status post_unnumbered(Message* message, std::uint64_t tag) noexcept;
  Status post_copy_to_each(const void* data, std::uint64_t bytes) noexcept;
  Status refuse_to_wait() const noexcept;

  HandleMark mark_;
};

class Channel {
 public:
  using Phase = Conversation::Phase;
  using Glance = Conversation::Glance;

  // LWMQ_E_ADDRESS, LWMQ_E_INVALID with the numbers.
  static Status create(const char* address, const lwmq_channel_options& given, Channel** out_channel);
  // A channel that is open and has its peer, the only one that it will ever have. `client`: its number at the
  // listener. Takes the transport, also on failure.
  static Status accept(const conversation::Settings& settings, lwmq_tli_transport* transport,
                       std::uint64_t client, Channel** out_channel);
  // Takes the channel; closes it without linger if that was not done.
  static void destroy(Channel* channel);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // ---- Making

  // Before open. LWMQ_E_INVALID: what all transports of a channel share is not what this one says.
  Status add_transport(const char* address, const lwmq_transport_options& options);
  Status add_send_queue(const lwmq_send_queue_options& options, ChannelQueue** out_queue);
  // One queue for everything that brings none of its own. It lives as long as the channel.
  Status common_queue(ChannelQueue** out_queue);
  Status set_weights(const std::uint32_t* weights, std::uint32_t count) noexcept;
  // If one transport cannot be opened, none is, and the channel can only be destroyed.
  Status open(std::int32_t role);

  // ---- Receiving

  [[nodiscard, gnu::always_inline]] Message* receive_at_hand() noexcept { return first_.receive_at_hand(); }
  // 1 to `limit` messages; waits for the first one only.
  Status receive(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                 std::uint32_t* out_count) {
    if (!shared_.several) [[likely]]
      return first_.receive(timeout_ms, limit, out_messages, out_count);
    return receive_from_several(timeout_ms, limit, out_messages, out_count);
  }
  // Gives back what `loan` holds, first. 1 to as many messages as it takes; waits for the first one only.
  Status receive(std::uint32_t timeout_ms, Loan& loan) {
    loan.give_back();
    if (first_.lends()) [[likely]]
      return first_.receive(timeout_ms, loan);
    std::uint32_t count = 0;
    const Status status = receive(timeout_ms, loan.left(), loan.next_message(), &count);
    if (status == LWMQ_OK) loan.note_messages(count);
    return status;
  }
  Glance glance(Message** out_message) noexcept { return first_.glance(out_message); }
  // Makes the descriptor at the first call. Lent until destroy.
  Status descriptor(std::int32_t* out_fd) { return first_.descriptor(out_fd); }

  // ---- State. Any thread.

  // The conversation over the first transport. A raw channel has no other one.
  [[nodiscard]] Conversation& first() noexcept { return first_; }
  [[nodiscard]] const Conversation& first() const noexcept { return first_; }
  [[nodiscard]] const std::string& address() const noexcept { return first_.address(); }
  // A transport has a peer now.
  [[nodiscard]] bool has_peer() const noexcept;
  // How many peers have ended, over all transports.
  [[nodiscard]] std::uint64_t ends() const noexcept { return shared_.ends.load(std::memory_order_relaxed); }
  // Waits until each transport has a peer; where they are redundant, until one has.
  Status wait_connected(std::uint32_t timeout_ms);
  Status query(lwmq_channel_statistics* out_statistics);
  // Of transport number `transport`. LWMQ_E_INVALID: there is none.
  Status peer(std::uint32_t transport, lwmq_peer* out_peer);
  // Null past the last transport.
  const char* bound_address(std::uint32_t transport);
  Status wait_peer(std::uint32_t transport, std::uint32_t timeout_ms, lwmq_peer* peer);

  // Around a call that waits: destroy waits until that call has left.
  class Inside : public conversation::Inside {
   public:
    explicit Inside(Channel& channel) noexcept : conversation::Inside(channel.shared_) {}
  };
  // Where the object that serves a call-back or a signal is kept.
  [[nodiscard]] AttachmentSlot& notice() noexcept { return notice_; }

  // False of memory that was a channel: for checks of what an application hands in.
  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

  // ---- The end

  Status flush(std::uint32_t timeout_ms);
  Status close(std::uint32_t linger_ms);

 private:
  Channel(const conversation::Settings& settings, const char* name);
  ~Channel() = default;
  static Status make(const conversation::Settings& settings, std::uint64_t client, Channel** out_channel);

  // Conversation number `place`.
  [[nodiscard]] Conversation& at(std::size_t place) noexcept {
    return place == 0 ? first_ : *more_[place - 1];
  }
  [[nodiscard]] std::size_t count() const noexcept { return 1 + more_.size(); }
  template <typename Call>
  void each(Call&& call) {
    for (std::size_t place = 0; place < count(); ++place) call(at(place));
  }
  // Up to the first one that fails.
  template <typename Call>
  Status all(Call&& call) {
    Status status = LWMQ_OK;
    for (std::size_t place = 0; place < count() && status == LWMQ_OK; ++place) status = call(at(place));
    return status;
  }
  Status find(std::uint32_t transport, Conversation** out_conversation);

  // channel.cc
  Status check_transport(const char* address, const lwmq_transport_options& options) const;
  void add_siblings(Conversation& conversation);
  void prepare_redundancy();
  Status wait_for_a_way(std::int64_t deadline);

  // receive.cc
  Status receive_from_several(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                              std::uint32_t* out_count);
  Status receive_in_turns(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                          std::uint32_t* out_count);
  enum class Pulled { kSomething, kNothingYet, kNoMore };
  Pulled pull(std::size_t place, std::int64_t now_ns, Message** out_unnumbered, bool* out_short);
  Status receive_merged(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
                        std::uint32_t* out_count);
  Status take(std::uint32_t timeout_ms, std::uint32_t limit, Message** out_messages,
              std::uint32_t* out_count);
  bool arm_all() noexcept;

  // close.cc
  Status wait_drained(std::int64_t deadline, bool also_read) noexcept;

  conversation::Shared shared_;
  Conversation first_;
  std::vector<std::unique_ptr<Conversation>> more_;  // added to before open
  // Where transports are redundant: an end that a receive from this one has answered, and that is told when
  // nothing else is left to receive. Guarded by shared_.merge->receiving.
  std::vector<Failure> way_ends_;
  std::atomic<std::size_t> turn_{0};                  // the conversation that a receive asks first
  std::atomic<ChannelQueue*> common_queue_{nullptr};  // written once
  AttachmentSlot notice_;
  HandleMark mark_;
};

}  // namespace lwmq::channel
