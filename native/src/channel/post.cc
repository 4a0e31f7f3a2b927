// Posting to a channel with several transports.
#include <cinttypes>
#include <mutex>

#include "channel/channel.h"
#include "message/external.h"
#include "os/identity.h"

namespace lwmq::channel {

Status ChannelQueue::post_to_each(Message* message, std::uint64_t tag) noexcept {
  if (numbering == nullptr) return post_unnumbered(message, tag);
  if (os::forked()) return conversation->refuse_phase();  // a thread of the parent may hold the lock for ever
  const message::HeldReleases held;
  const std::lock_guard lock(numbering->mutex);
  Status status = message->put_number(numbering->next);
  if (status != LWMQ_OK) return status;
  status = post_unnumbered(message, tag);
  if (status == LWMQ_OK) {
    ++numbering->next.place;
  } else {
    message->take_number();  // the caller's again, as it was
  }
  return status;
}

Status ChannelQueue::post_unnumbered(Message* message, std::uint64_t tag) noexcept {
  Message* references = nullptr;  // made first: a message reaches every transport, or none
  const auto drop = [&references] {
    while (references != nullptr) {
      Message* next = references->next;
      Message::destroy(references);
      references = next;
    }
  };
  for (ConversationQueue* one = sibling; one != nullptr; one = one->sibling) {
    Message* reference = message->reference();
    if (reference == nullptr) {
      drop();
      return fail(LWMQ_E_NO_MEMORY, "no memory for a message (%s)", conversation->address().c_str());
    }
    reference->next = references;
    references = reference;
  }
  const Status status = conversation->post(this, message, tag);
  if (status != LWMQ_OK) {
    drop();
    return status;
  }
  for (ConversationQueue* one = sibling; one != nullptr; one = one->sibling) {
    Message* reference = references;
    references = reference->next;
    reference->next = nullptr;
    if (one->conversation->post(one, reference, tag) == LWMQ_OK) continue;
    Message::destroy(reference);  // memory is short, or the channel was closed just now
    one->conversation->count_lost(1);
  }
  return LWMQ_OK;
}

Status ChannelQueue::post_copy_to_each(const void* data, std::uint64_t bytes) noexcept {
  Message* message = Message::copy_of(data, bytes);
  if (message == nullptr)
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", bytes);
  const Status status = post_to_each(message, 0);
  if (status != LWMQ_OK) Message::destroy(message);
  return status;
}

Status ChannelQueue::post_wait(Message* message, std::uint64_t tag, std::uint32_t timeout_ms,
                               bool or_discard) noexcept {
  if (sibling == nullptr) [[likely]]
    return conversation->post_wait(this, message, tag, timeout_ms, or_discard);
  if (timeout_ms == 0 && or_discard) return post_to_each(message, tag);
  return refuse_to_wait();
}

Status ChannelQueue::wait_room(std::uint32_t timeout_ms) noexcept {
  return sibling == nullptr ? conversation->wait_room(this, timeout_ms) : refuse_to_wait();
}

Status ChannelQueue::refuse_to_wait() const noexcept {
  return fail(
      LWMQ_E_UNSUPPORTED,
      "a message for several transports cannot wait for room: each has a queue of its own; post without "
      "a timeout, and the rule of the queue applies to each (%s)",
      conversation->address().c_str());
}

Status ChannelQueue::post_many(const lwmq_bytes* frames, std::uint64_t count,
                               std::uint64_t* out_posted) noexcept {
  if (sibling == nullptr) [[likely]]
    return conversation->post_many(this, frames, count, out_posted);
  *out_posted = 0;
  Status status = conversation->admit_all(frames, count);
  for (; *out_posted < count && status == LWMQ_OK; *out_posted += status == LWMQ_OK)
    status = post_copy_to_each(frames[*out_posted].data, frames[*out_posted].bytes);
  return status;
}

Status ChannelQueue::post_messages(Message** messages, std::uint64_t count,
                                   std::uint64_t* out_posted) noexcept {
  if (sibling == nullptr) [[likely]]
    return conversation->post_messages(this, messages, count, out_posted);
  *out_posted = 0;
  Status status = conversation->admit_all(this, messages, count);
  for (; *out_posted < count && status == LWMQ_OK; *out_posted += status == LWMQ_OK) {
    Message*& message = messages[*out_posted];
    status = post_to_each(message, 0);
    if (status == LWMQ_OK) message = nullptr;
  }
  return status;
}

Status ChannelQueue::set_priority(std::uint32_t priority) noexcept {
  Status status = LWMQ_OK;
  for (ConversationQueue* one = this; one != nullptr && status == LWMQ_OK; one = one->sibling)
    status = one->conversation->set_priority(one, priority);
  return status;
}

Status ChannelQueue::query(lwmq_send_queue_statistics* out_statistics) const {
  Status status = conversation->query_queue(this, out_statistics);
  for (const ConversationQueue* queue = sibling; queue != nullptr && status == LWMQ_OK;
       queue = queue->sibling) {
    lwmq_send_queue_statistics one{};
    status = queue->conversation->query_queue(queue, &one);
    out_statistics->collected += one.collected;
    out_statistics->discarded += one.discarded;
    out_statistics->replaced += one.replaced;
    out_statistics->queued += one.queued;
  }
  return status;
}

}  // namespace lwmq::channel
