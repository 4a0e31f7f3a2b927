// Posting and pumping: from the application's message to the transport's buffer, by whoever is there.
#include <algorithm>

#include "channel/channel.h"
#include "channel/deadline.h"
#include "codec/encoder.h"
#include "os/futex.h"
#include "os/identity.h"
#include "os/membarrier.h"

namespace lwmq::channel {

using queue::Pushed;

namespace {

// What one post ships at most of what others have left behind, before it hands the rest to the service
// thread; and of its own, where it posts many, before others have their turn.
constexpr std::uint64_t kPumpBytes = 64 * kKiB;
constexpr std::uint32_t kPumpRounds = 4;
// The figure of queued messages is a walk over all queues: where they are many, it is taken now and then.
constexpr std::uint32_t kQueuesCounted = 16;
constexpr std::uint32_t kNotesSkipped = 64;

std::uint64_t payload_of(const Message& message) noexcept {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < message.frame_count(); ++i) bytes += message.frames()[i].bytes;
  return bytes;
}

}  // namespace

// ---- Refusing ---------------------------------------------------------------------------------------

Status Channel::refuse_phase() const noexcept {
  if (os::forked())
    return fail(LWMQ_E_CLOSED, "forked: this channel belongs to the parent process (%s)", address_.c_str());
  if (phase_.load() == Phase::kCreated)
    return fail(LWMQ_E_INVALID, "the channel is not open yet (%s)", address_.c_str());
  return fail(LWMQ_E_CLOSED, "the channel was closed (%s)", address_.c_str());
}

Status Channel::refuse(bool raw) const noexcept {
  if (raw == raw_ || phase_.load() != Phase::kOpen || os::forked()) return refuse_phase();
  return fail(LWMQ_E_INVALID,
              raw_ ? "a raw channel has buffers, not messages (%s)" : "not a raw channel (%s)",
              address_.c_str());
}

Status Channel::too_big(std::uint64_t encoded_bytes, std::uint64_t payload_bytes) const noexcept {
  if (encoded_bytes == payload_bytes) {
    return fail(LWMQ_E_TOO_BIG, "message of %" PRIu64 " bytes does not fit a buffer of %" PRIu64 " (%s)",
                payload_bytes, tli_options_.buffer_bytes, address_.c_str());
  }
  return fail(LWMQ_E_TOO_BIG,
              "message of %" PRIu64 " bytes (%" PRIu64
              " with the headers of its frames) does not fit a buffer of %" PRIu64 " (%s)",
              payload_bytes, encoded_bytes, tli_options_.buffer_bytes, address_.c_str());
}

Status Channel::no_memory() const noexcept {
  return fail(LWMQ_E_NO_MEMORY, "no memory to queue a message (%s)", address_.c_str());
}

// Before open, messages may be queued.
Status Channel::check_posting() const noexcept {
  const Phase phase = phase_.load(std::memory_order_relaxed);
  if (phase == Phase::kOpen && !os::forked()) [[likely]]
    return LWMQ_OK;
  return phase_.load() == Phase::kCreated && !os::forked() ? LWMQ_OK : refuse_phase();
}

Status Channel::check_message(const ChannelQueue* queue, const Message& message,
                              std::uint64_t tag) const noexcept {
  const codec::Encoding encoding = codec::measure(message);
  if (encoding.bytes > tli_options_.buffer_bytes) [[unlikely]]
    return too_big(encoding.bytes, payload_of(message));
  if (tag != 0 && !queue->is_tagged()) [[unlikely]] {
    return fail(LWMQ_E_INVALID,
                "tag %" PRIu64 " for a send queue without tags (kind %u); take a tagged kind, or tag 0 (%s)",
                tag, queue->kind(), address_.c_str());
  }
  return LWMQ_OK;
}

// ---- One message ------------------------------------------------------------------------------------

Status Channel::post(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept {
  Status status = check_posting();
  if (status == LWMQ_OK) status = check_message(queue, *message, tag);
  if (status != LWMQ_OK) [[unlikely]]
    return status;
  if (!pump_.try_take()) return enqueue(queue, message, tag);
  return post_with_pump(queue, message, tag, true);
}

// With the pump in hand, which it gives away. LWMQ_E_FULL comes only without `may_discard`.
Status Channel::post_with_pump(ChannelQueue* queue, Message* message, std::uint64_t tag,
                               bool may_discard) noexcept {
  if (queue->empty() && sender_.put(*message) == Sent::kAll) [[likely]] {
    queue->count_direct();
    release_pump();
    note_activity();
    Message::destroy(message);
    return LWMQ_OK;
  }
  if (phase_.load(std::memory_order_relaxed) == Phase::kClosed) {  // since check_posting; seen with the pump
    release_pump();
    return refuse_phase();
  }
  Message* gone = nullptr;
  const Pushed pushed = queue->push(message, tag, may_discard, &gone);
  if (pushed == Pushed::kNoMemory) {
    release_pump();
    return no_memory();
  }
  scheduler_.note_pushed(queue);
  pump_and_release();
  if (gone != nullptr) Message::destroy(gone);
  return pushed == Pushed::kFull ? LWMQ_E_FULL : LWMQ_OK;
}

Status Channel::post_bytes(ChannelQueue* queue, const void* data, std::uint64_t bytes) noexcept {
  if (bytes > tli_options_.buffer_bytes) [[unlikely]]
    return too_big(bytes, bytes);
  if (phase_.load(std::memory_order_relaxed) == Phase::kOpen && !os::forked() && pump_.try_take())
      [[likely]] {
    if (queue->empty() && sender_.put(data, bytes) == Sent::kAll) [[likely]] {
      queue->count_direct();
      release_pump();
      note_activity();
      return LWMQ_OK;
    }
    release_pump();
  }
  Message* message = Message::copy_of(data, bytes);
  if (message == nullptr)
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", bytes);
  const Status status = post(queue, message, 0);
  if (status != LWMQ_OK) Message::destroy(message);
  return status;
}

// Without the pump: somebody else holds it.
Status Channel::enqueue(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept {
  Message* gone = nullptr;
  if (queue->push(message, tag, true, &gone) != Pushed::kTaken) return no_memory();
  kick(queue);
  if (gone != nullptr) Message::destroy(gone);
  if (phase_.load(std::memory_order_relaxed) == Phase::kClosed && gone != message) [[unlikely]]
    return withdraw(queue, message) ? refuse_phase() : LWMQ_OK;  // sync: last-post
  return LWMQ_OK;
}

// A message was left behind: whoever holds the pump takes it, or we do. The queue is awake before we look at
// the pump, so that the last look of whoever gives it away finds it.
void Channel::kick(ChannelQueue* queue) noexcept {
  os::light_barrier(membarrier_);  // sync: left-behind, rest
  scheduler_.note_pushed(queue);
  if (pump_.is_served()) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // sync: left-behind
  if (!left_behind_.load(std::memory_order_relaxed)) {
    left_behind_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // sync: left-behind
  }
  if (pump_.is_free() && pump_.try_take()) pump_and_release();
}

// Of a channel that was closed while we posted: takes our message back. False: close has dropped it, and
// counted it.
bool Channel::withdraw(ChannelQueue* queue, Message* message) noexcept {
  take_pump();
  Message* first = nullptr;
  Message** end = &first;
  bool found = false;
  while (Message* one = queue->collect()) {
    if (one == message) {
      found = true;
      continue;
    }
    one->next = nullptr;
    *end = one;
    end = &one->next;
  }
  while (first != nullptr) {  // other posters look for theirs
    Message* one = first;
    first = one->next;
    Message* gone = nullptr;
    if (queue->push(one, 0, false, &gone) != Pushed::kTaken) Message::destroy(one);
  }
  pump_.release();
  return found;
}

// With the pump in hand, of a channel that was closed: how many messages there are no more.
std::uint64_t Channel::drop_queued(Completions& completions) noexcept {
  std::uint64_t dropped = 0;
  scheduler_.for_each([&](SendQueue* queue) {
    while (Message* message = queue->collect()) {
      completions.add(message);
      ++dropped;
    }
  });
  return dropped;
}

// ---- Waiting for room -------------------------------------------------------------------------------

Status Channel::post_wait(ChannelQueue* queue, Message* message, std::uint64_t tag, std::uint32_t timeout_ms,
                          bool or_discard) noexcept {
  if (timeout_ms == 0) return or_discard ? post(queue, message, tag) : try_post(queue, message, tag);
  if (!queue->is_bounded()) {
    return fail(
        LWMQ_E_INVALID,
        "a timeout of %u ms for an unbounded send queue (kind %u): it always has room, post with 0 (%s)",
        timeout_ms, queue->kind(), address_.c_str());
  }
  const std::int64_t deadline = deadline_of(timeout_ms);
  queue->begin_wait();
  Status status = LWMQ_E_FULL;
  for (;;) {
    const std::uint32_t seen = queue->room().load(std::memory_order_acquire);
    status = try_post(queue, message, tag);
    if (status != LWMQ_E_FULL) break;
    const std::uint32_t left = ms_left(deadline);
    if (left == 0) {
      status = or_discard ? post(queue, message, tag) : LWMQ_E_TIMED_OUT;  // the rule of its kind applies
      break;
    }
    const std::int64_t left_ns = left == LWMQ_FOREVER ? -1 : left * kMillisecond;
    if (os::futex_wait(queue->room(), seen, left_ns) == os::WaitResult::kInterrupted) {
      status = LWMQ_E_INTERRUPTED;
      break;
    }
  }
  queue->end_wait();
  return status;
}

// As post, but LWMQ_E_FULL where something would have to be discarded.
Status Channel::try_post(ChannelQueue* queue, Message* message, std::uint64_t tag) noexcept {
  Status status = check_posting();
  if (status == LWMQ_OK) status = check_message(queue, *message, tag);
  if (status != LWMQ_OK) return status;
  if (pump_.try_take()) return post_with_pump(queue, message, tag, false);
  Message* gone = nullptr;
  const Pushed pushed = queue->push(message, tag, false, &gone);
  if (pushed == Pushed::kFull) return LWMQ_E_FULL;
  if (pushed == Pushed::kNoMemory) return no_memory();
  kick(queue);
  if (gone != nullptr) Message::destroy(gone);
  if (phase_.load(std::memory_order_relaxed) == Phase::kClosed &&
      withdraw(queue, message))  // sync: last-post
    return refuse_phase();
  return LWMQ_OK;
}

void Channel::wake_posters() noexcept {
  scheduler_.for_each([](SendQueue* queue) { queue->announce_room(); });
}

// ---- Many messages ----------------------------------------------------------------------------------

// What `source` answers of message i: put, straight into the buffer; sent, what becomes of it then; make, as
// the queue will take it, or null; queued and refused, what becomes of it then.
template <typename Source>
Status Channel::post_all(ChannelQueue* queue, Source&& source, std::uint64_t* out_posted) noexcept {
  *out_posted = 0;
  Status status = check_posting();
  if (status != LWMQ_OK) return status;
  std::uint64_t& posted = *out_posted;
  while (posted < source.count) {
    if (phase_.load(std::memory_order_relaxed) != Phase::kOpen || !pump_.try_take()) break;
    Completions completions;
    const std::uint64_t end = sender_.bytes() + kPumpBytes;
    bool put = true;
    while (posted < source.count && sender_.bytes() < end) {
      put = queue->empty() && source.put(posted, sender_) == Sent::kAll;
      if (!put) break;
      queue->count_direct();
      source.sent(posted++, completions);
    }
    release_pump();
    note_activity();
    if (!put) break;
  }
  if (posted == source.count) return LWMQ_OK;
  // The rest is left behind, to be looked for once.
  for (; posted < source.count; ++posted) {
    Message* message = source.make(posted);
    if (message == nullptr) {
      status = no_memory();
      break;
    }
    Message* gone = nullptr;
    if (queue->push(message, 0, true, &gone) != Pushed::kTaken) {
      source.refused(posted, message);
      status = no_memory();
      break;
    }
    source.queued(posted);
    if (gone != nullptr) Message::destroy(gone);
  }
  kick(queue);
  // Closed meanwhile: what close did not find and count, nobody will ship.
  return phase_.load(std::memory_order_relaxed) == Phase::kClosed ? refuse_phase() : status;
}

Status Channel::post_many(ChannelQueue* queue, const lwmq_bytes* frames, std::uint64_t count,
                          std::uint64_t* out_posted) noexcept {
  *out_posted = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (frames[i].bytes > tli_options_.buffer_bytes) {
      return fail(LWMQ_E_TOO_BIG,
                  "message %" PRIu64 " of %" PRIu64 ", of %" PRIu64
                  " bytes, does not fit a buffer of %" PRIu64 "; none was posted (%s)",
                  i, count, frames[i].bytes, tli_options_.buffer_bytes, address_.c_str());
    }
    if (frames[i].data == nullptr && frames[i].bytes > 0) {
      return fail(LWMQ_E_INVALID,
                  "message %" PRIu64 " of %" PRIu64 " has %" PRIu64 " bytes at NULL; none was posted (%s)", i,
                  count, frames[i].bytes, address_.c_str());
    }
  }
  struct Frames {
    const lwmq_bytes* frames;
    std::uint64_t count;
    Sent put(std::uint64_t i, Sender& sender) const { return sender.put(frames[i].data, frames[i].bytes); }
    Message* make(std::uint64_t i) const { return Message::copy_of(frames[i].data, frames[i].bytes); }
    void sent(std::uint64_t, Completions&) const {}
    void queued(std::uint64_t) const {}
    void refused(std::uint64_t, Message* message) const { Message::destroy(message); }
  };
  return post_all(queue, Frames{frames, count}, out_posted);
}

Status Channel::post_messages(ChannelQueue* queue, Message** messages, std::uint64_t count,
                              std::uint64_t* out_posted) noexcept {
  *out_posted = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (messages[i] == nullptr) {
      return fail(LWMQ_E_INVALID, "message %" PRIu64 " of %" PRIu64 " is NULL; none was posted (%s)", i,
                  count, address_.c_str());
    }
    const Status status = check_message(queue, *messages[i], 0);
    if (status != LWMQ_OK) return status;
  }
  struct Messages {
    Message** messages;
    std::uint64_t count;
    Sent put(std::uint64_t i, Sender& sender) const { return sender.put(*messages[i]); }
    Message* make(std::uint64_t i) const { return messages[i]; }
    void sent(std::uint64_t i, Completions& completions) const {
      completions.add(messages[i]);
      messages[i] = nullptr;
    }
    void queued(std::uint64_t i) const { messages[i] = nullptr; }
    void refused(std::uint64_t, Message*) const {}
  };
  return post_all(queue, Messages{messages, count}, out_posted);
}

// ---- Pumping ----------------------------------------------------------------------------------------

// With the pump in hand: ships what the queues hold, about `bytes_max` bytes of it.
Sent Channel::pump(std::uint64_t bytes_max, Completions& completions) noexcept {
  if (left_behind_.load(std::memory_order_relaxed)) {
    left_behind_.store(false, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // sync: left-behind
  }
  const Sent sent = sender_.pump(scheduler_, bytes_max, completions);
  // Where nobody is connected the next peer's attach looks by itself; a peer that is gone may be a false
  // alarm.
  if (sent != Sent::kAll && sent != Sent::kNoPeer) left_behind_.store(true, std::memory_order_relaxed);
  return sent;
}

// With the pump in hand: ships what the queues hold, up to a limit, and gives the pump away.
void Channel::pump_and_release() noexcept {
  for (std::uint32_t round = 0; round < kPumpRounds; ++round) {
    {
      Completions completions;
      const Sent sent = pump(kPumpBytes, completions);
      if (sent == Sent::kSome || sent == Sent::kNoRoom) break;
      const bool look = release_word();
      // Where nobody is connected, what is queued goes out when a peer is attached.
      if (sent == Sent::kNoPeer && !look) return note_queued();
      if (sent == Sent::kPeerGone) return note_peer_gone();
    }
    // What another thread pushed while it saw the pump taken.
    if (!left_behind_.load(std::memory_order_relaxed) || !pump_.try_take()) return note_activity();
  }
  pump_.hand_over();
  ServiceThread::attending().request(&attend_);
}

// Gives the pump away, with the barrier that must follow. True: it had been served, and somebody has to
// look at the queues once more.
bool Channel::release_word() noexcept {
  const bool served = pump_.is_adopted();
  pump_.release();
  if (served) {
    os::heavy_barrier();  // sync: left-behind
    left_behind_.store(true, std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // sync: left-behind
  return served;
}

// With the pump in hand, from try_take. As the one poster of the one queue nobody else can have pushed, so
// there is nothing to look for.
void Channel::release_pump() noexcept {
  if (scheduler_.has_several_posters()) [[unlikely]]
    return release_and_look();
  pump_.release();
}

// With the pump in hand, as anybody.
void Channel::release_and_look() noexcept {
  release_word();
  if (left_behind_.load(std::memory_order_relaxed) && pump_.try_take()) pump_and_release();
}

// While nobody is connected the service threads sleep.
void Channel::note_queued() noexcept {
  if (scheduler_.queue_count() > kQueuesCounted &&
      notes_skipped_.fetch_add(1, std::memory_order_relaxed) % kNotesSkipped != 0)
    return;
  stats::set(entry_->messages_queued, scheduler_.message_count());
  note_queues();
}

// Any thread: a queue is never taken away.
void Channel::note_queues() noexcept {
  scheduler_.for_each([](const SendQueue* queue) {
    stats::Entry& entry = *static_cast<const ChannelQueue*>(queue)->entry;
    const SendQueue::Counts counts = queue->counts();
    stats::set(entry.messages_posted, counts.posted);
    stats::set(entry.messages_queued, counts.queued);
    stats::set(entry.messages_sent, counts.collected);
  });
}

void Channel::take_pump() noexcept {
  while (!pump_.try_take() && !pump_.adopt()) sched_yield();
}

void Channel::begin_activity() noexcept {
  active_.store(true, std::memory_order_relaxed);
  ServiceThread::attending().request(&attend_);
}

void Channel::note_peer_gone() noexcept {
  if (peer_gone_.exchange(true, std::memory_order_acq_rel)) return;
  ServiceThread::attending().request(&attend_);
}

}  // namespace lwmq::channel
