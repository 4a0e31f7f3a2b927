// Posting: straight into the transport's buffer where the pump is free and nothing waits, else into the
// queue.
#include <algorithm>
#include <cstdio>

#include "codec/encoder.h"
#include "conversation/conversation.h"
#include "os/deadline.h"
#include "os/identity.h"
#include "os/membarrier.h"

namespace lwmq::conversation {

using queue::Pushed;

namespace {

constexpr std::uint64_t kTurnBytes = 64 * kKiB;  // of many messages, before other posters have their turn
constexpr std::uint64_t kRunMessages = 64;       // before the peer is woken, if it sleeps

std::uint64_t payload_of(const Message& message) noexcept {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < message.frame_count(); ++i) bytes += message.frames()[i].bytes;
  return bytes;
}

}  // namespace

// ---- Refusing ---------------------------------------------------------------------------------------

Status Conversation::refuse_phase() const noexcept {
  if (os::forked())
    return fail(LWMQ_E_CLOSED, "forked: this channel belongs to the parent process (%s)",
                settings_.address.c_str());
  if (is_created())
    return fail(LWMQ_E_INVALID, "the channel is not open yet (%s)", settings_.address.c_str());
  if (phase_.load() != Phase::kClosed && for_one_peer_ && attached_.load() == nullptr) {
    return fail(LWMQ_E_CLOSED,
                "its client has gone, and the channel was accepted for that one: close it (%s)",
                settings_.address.c_str());
  }
  return fail(LWMQ_E_CLOSED, "the channel was closed (%s)", settings_.address.c_str());
}

Status Conversation::refuse(bool raw) const noexcept {
  if (raw == settings_.raw || phase_.load() != Phase::kOpen || os::forked()) return refuse_phase();
  return fail(LWMQ_E_INVALID,
              settings_.raw ? "a raw channel has buffers, not messages (%s)" : "not a raw channel (%s)",
              settings_.address.c_str());
}

Status Conversation::too_big(std::uint64_t encoded_bytes, std::uint64_t payload_bytes) const noexcept {
  if (encoded_bytes == payload_bytes) {
    return fail(LWMQ_E_TOO_BIG, "message of %" PRIu64 " bytes does not fit a buffer of %" PRIu64 " (%s)",
                payload_bytes, settings_.transport.buffer_bytes, settings_.address.c_str());
  }
  return fail(LWMQ_E_TOO_BIG,
              "message of %" PRIu64 " bytes (%" PRIu64
              " with the headers of its frames) does not fit a buffer of %" PRIu64 " (%s)",
              payload_bytes, encoded_bytes, settings_.transport.buffer_bytes, settings_.address.c_str());
}

Status Conversation::no_memory() const noexcept {
  return fail(LWMQ_E_NO_MEMORY, "no memory to queue a message (%s)", settings_.address.c_str());
}

// What a queue did not take, for another reason than that it is full.
Status Conversation::refuse_push(Pushed why) const noexcept {
  if (why == Pushed::kNoMemory) return no_memory();
  return fail(LWMQ_E_INVALID,
              "two threads post to one mono_unbounded send queue at once: it is for one thread; take "
              "multi_unbounded (%s)",
              settings_.address.c_str());
}

Status Conversation::refuse_posting() const noexcept {
  return is_created() && !os::forked() ? LWMQ_OK : refuse_phase();
}

Status Conversation::admit(const CountedQueue* queue, Message& message, std::uint64_t tag) const noexcept {
  if (erases()) [[unlikely]]
    message.erase_when_destroyed();
  const codec::Encoding encoding = codec::measure(message);
  if (encoding.bytes > settings_.transport.buffer_bytes) [[unlikely]]
    return too_big(encoding.bytes, payload_of(message));
  if (tag != 0 && !queue->is_tagged()) [[unlikely]] {
    return fail(LWMQ_E_INVALID,
                "tag %" PRIu64 " for a send queue without tags (kind %u); take a tagged kind, or tag 0 (%s)",
                tag, queue->kind(), settings_.address.c_str());
  }
  return LWMQ_OK;
}

// ---- One message ------------------------------------------------------------------------------------

// Without the pump: somebody else holds it.
[[gnu::always_inline]] inline Status Conversation::enqueue(CountedQueue* queue, Message* message,
                                                           std::uint64_t tag, bool may_discard) noexcept {
  Message* gone = nullptr;
  const Pushed pushed = queue->push(message, tag, may_discard, &gone);
  if (pushed == Pushed::kFull) [[unlikely]]
    return LWMQ_E_FULL;
  if (pushed != Pushed::kTaken) [[unlikely]]
    return refuse_push(pushed);
  kick(queue);
  if (gone != nullptr) [[unlikely]]
    Message::destroy(gone);
  if (phase_.load(std::memory_order_relaxed) == Phase::kClosed && gone != message) [[unlikely]]
    return withdraw(queue, message) ? refuse_phase() : LWMQ_OK;  // sync: last-post
  return LWMQ_OK;
}

// LWMQ_E_FULL comes only without `may_discard`, where something would have to be discarded.
[[gnu::always_inline]] inline Status Conversation::try_post(CountedQueue* queue, Message* message,
                                                            std::uint64_t tag, bool may_discard) noexcept {
  Status status = check_posting();
  if (status == LWMQ_OK) status = admit(queue, *message, tag);
  if (status != LWMQ_OK) [[unlikely]]
    return status;
  if (!pump_.try_take()) return enqueue(queue, message, tag, may_discard);
  return post_with_pump(queue, message, tag, may_discard);
}

Status Conversation::post(CountedQueue* queue, Message* message, std::uint64_t tag) noexcept {
  return try_post(queue, message, tag, true);
}

// With the pump in hand, which it gives away.
Status Conversation::post_with_pump(CountedQueue* queue, Message* message, std::uint64_t tag,
                                    bool may_discard) noexcept {
  if (queue->empty() && sender_.put(message) == Sent::kAll) [[likely]] {
    const bool passed = sender_.passes();
    queue->count_direct(1);
    release_pump();
    note_activity();
    if (!passed) Message::destroy(message);
    return LWMQ_OK;
  }
  return push_with_pump(queue, message, tag, may_discard);
}

// The same, where it cannot go out at once.
Status Conversation::push_with_pump(CountedQueue* queue, Message* message, std::uint64_t tag,
                                    bool may_discard) noexcept {
  if (phase_.load(std::memory_order_relaxed) == Phase::kClosed) {  // since check_posting; seen with the pump
    release_pump();
    return refuse_phase();
  }
  Message* gone = nullptr;
  const Pushed pushed = queue->push(message, tag, may_discard, &gone);
  if (pushed == Pushed::kNoMemory || pushed == Pushed::kCrowded) {
    release_pump();
    return refuse_push(pushed);
  }
  scheduler_.note_pushed(queue);
  pump_and_release();
  if (gone != nullptr) Message::destroy(gone);
  return pushed == Pushed::kFull ? LWMQ_E_FULL : LWMQ_OK;
}

Status Conversation::post_bytes(CountedQueue* queue, const void* data, std::uint64_t bytes) noexcept {
  if (bytes > settings_.transport.buffer_bytes) [[unlikely]]
    return too_big(bytes, bytes);
  if (const Status status = check_posting(); status != LWMQ_OK) [[unlikely]]
    return status;
  const bool has_pump = pump_.try_take();
  const bool goes_out = has_pump && queue->empty() && sender_.put(data, bytes) == Sent::kAll;
  if (!goes_out) [[unlikely]]
    return post_copy(queue, data, bytes, has_pump);
  queue->count_direct(1);
  release_pump();
  note_activity();
  return LWMQ_OK;
}

// What post_bytes does where the bytes cannot go out at once.
[[gnu::noinline]] Status Conversation::post_copy(CountedQueue* queue, const void* data, std::uint64_t bytes,
                                                 bool has_pump) noexcept {
  Message* message = Message::copy_of(data, bytes);
  if (message == nullptr) {
    if (has_pump) release_pump();
    return fail(LWMQ_E_NO_MEMORY, "no memory for a message of %" PRIu64 " bytes", bytes);
  }
  if (erases()) [[unlikely]]
    message->erase_when_destroyed();
  const Status status = has_pump ? push_with_pump(queue, message, 0, true) : enqueue(queue, message, 0, true);
  if (status != LWMQ_OK) Message::destroy(message);
  return status;
}

// Of a channel that was closed while we posted: takes our message back. False: close has dropped it, and
// counted it. What else is there belongs to other posters, who look for theirs.
bool Conversation::withdraw(CountedQueue* queue, Message* message) noexcept {
  take_pump();
  while (Message* one = queue->drop()) {
    one->next = withdrawn_;
    withdrawn_ = one;
  }
  Message** place = &withdrawn_;
  while (*place != nullptr && *place != message) place = &(*place)->next;
  const bool found = *place != nullptr;
  if (found) {
    *place = message->next;
    message->next = nullptr;
  }
  pump_.release();
  return found;
}

// ---- Waiting for room -------------------------------------------------------------------------------

// Until `attempt` answers something else than LWMQ_E_FULL: that, or LWMQ_E_TIMED_OUT; LWMQ_E_FULL where it
// was not to wait.
template <typename Attempt>
Status Conversation::when_there_is_room(CountedQueue* queue, std::uint32_t timeout_ms,
                                        Attempt&& attempt) noexcept {
  if (timeout_ms == 0) return attempt();
  if (!queue->is_bounded()) {
    return fail(
        LWMQ_E_INVALID,
        "a timeout of %u ms for an unbounded send queue (kind %u): it always has room, post with 0 (%s)",
        timeout_ms, queue->kind(), settings_.address.c_str());
  }
  const std::int64_t deadline = os::deadline_of(timeout_ms);
  const Shared::Inside inside(shared_);
  queue->begin_wait();
  Status status = LWMQ_E_FULL;
  for (;;) {
    const std::uint32_t seen = queue->room().load(std::memory_order_acquire);
    status = attempt();
    if (status != LWMQ_E_FULL) break;
    status = os::wait_for_change(seen, deadline, queue->room());
    if (status != LWMQ_OK) break;
  }
  queue->end_wait();
  return status;
}

Status Conversation::post_wait(CountedQueue* queue, Message* message, std::uint64_t tag,
                               std::uint32_t timeout_ms, bool or_discard) noexcept {
  if (timeout_ms == 0) return try_post(queue, message, tag, or_discard);
  const Status status =
      when_there_is_room(queue, timeout_ms, [&] { return try_post(queue, message, tag, false); });
  if (status != LWMQ_E_TIMED_OUT || !or_discard) return status;
  return try_post(queue, message, tag, true);  // the rule of its kind applies
}

Status Conversation::wait_room(CountedQueue* queue, std::uint32_t timeout_ms) noexcept {
  return when_there_is_room(queue, timeout_ms, [&] {
    const Status status = check_posting();
    const bool full = queue->is_bounded() && queue->counts().queued >= queue->capacity();
    return status == LWMQ_OK && full ? LWMQ_E_FULL : status;
  });
}

void Conversation::wake_posters() noexcept {
  std::atomic_thread_fence(
      std::memory_order_seq_cst);  // who counts as waiting from here on sees the new phase
  scheduler_.for_each([](SendQueue* queue) { queue->announce_room(); });
}

// ---- Many messages ----------------------------------------------------------------------------------

// What `source` answers of message i: put, it and some that follow, straight into the buffer: how many; sent,
// what becomes of it then; make, as the queue will take it, or null; queued and refused, what becomes of it
// then.
template <typename Source>
Status Conversation::post_all(CountedQueue* queue, Source&& source, std::uint64_t* out_posted) noexcept {
  *out_posted = 0;
  Status status = check_posting();
  if (status != LWMQ_OK) return status;
  std::uint64_t& posted = *out_posted;
  while (posted < source.count) {
    if (phase_.load(std::memory_order_relaxed) != Phase::kOpen || !pump_.try_take()) break;
    Completions completions;
    const std::uint64_t end = sender_.bytes() + kTurnBytes;
    bool put = true;
    while (posted < source.count && sender_.bytes() < end) {
      const std::uint64_t some = queue->empty() ? source.put(posted, sender_) : 0;
      put = some > 0;
      if (!put) break;
      queue->count_direct(some);
      for (const std::uint64_t next = posted + some; posted < next; ++posted)
        source.sent(posted, sender_.passes(), completions);
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
    if (erases()) message->erase_when_destroyed();
    Message* gone = nullptr;
    if (const Pushed pushed = queue->push(message, 0, true, &gone); pushed != Pushed::kTaken) {
      source.refused(posted, message);
      status = refuse_push(pushed);
      break;
    }
    source.queued(posted);
    if (gone != nullptr) Message::destroy(gone);
  }
  kick(queue);
  // Closed meanwhile: what close did not find and count, nobody will ship.
  return phase_.load(std::memory_order_relaxed) == Phase::kClosed ? refuse_phase() : status;
}

Status Conversation::admit_all(const lwmq_bytes* frames, std::uint64_t count) const noexcept {
  for (std::uint64_t i = 0; i < count; ++i) {
    if (frames[i].bytes > settings_.transport.buffer_bytes) {
      return fail(LWMQ_E_TOO_BIG,
                  "message %" PRIu64 " of %" PRIu64 ", of %" PRIu64
                  " bytes, does not fit a buffer of %" PRIu64 "; none was posted (%s)",
                  i, count, frames[i].bytes, settings_.transport.buffer_bytes, settings_.address.c_str());
    }
    if (frames[i].data == nullptr && frames[i].bytes > 0) {
      return fail(LWMQ_E_INVALID,
                  "message %" PRIu64 " of %" PRIu64 " has %" PRIu64 " bytes at NULL; none was posted (%s)", i,
                  count, frames[i].bytes, settings_.address.c_str());
    }
  }
  return LWMQ_OK;
}

Status Conversation::post_many(CountedQueue* queue, const lwmq_bytes* frames, std::uint64_t count,
                               std::uint64_t* out_posted) noexcept {
  *out_posted = 0;
  if (const Status status = admit_all(frames, count); status != LWMQ_OK) return status;
  struct Frames {
    const lwmq_bytes* frames;
    std::uint64_t count;
    std::uint64_t put(std::uint64_t i, Sender& sender) const {
      const std::uint64_t run = sender.put_run(&frames[i], std::min(count - i, kRunMessages));
      return run > 0 ? run : sender.put(frames[i].data, frames[i].bytes) == Sent::kAll;
    }
    Message* make(std::uint64_t i) const { return Message::copy_of(frames[i].data, frames[i].bytes); }
    void sent(std::uint64_t, bool, Completions&) const {}
    void queued(std::uint64_t) const {}
    void refused(std::uint64_t, Message* message) const { Message::destroy(message); }
  };
  return post_all(queue, Frames{frames, count}, out_posted);
}

Status Conversation::admit_all(const CountedQueue* queue, Message* const* messages,
                               std::uint64_t count) const noexcept {
  for (std::uint64_t i = 0; i < count; ++i) {
    if (messages[i] == nullptr) {
      return fail(LWMQ_E_INVALID, "message %" PRIu64 " of %" PRIu64 " is NULL; none was posted (%s)", i,
                  count, settings_.address.c_str());
    }
    if (const Status status = admit(queue, *messages[i], 0); status != LWMQ_OK) {
      char which[80];
      std::snprintf(which, sizeof which, "message %" PRIu64 " of %" PRIu64 ", none was posted", i, count);
      add_context(which);
      return status;
    }
  }
  return LWMQ_OK;
}

Status Conversation::post_messages(CountedQueue* queue, Message** messages, std::uint64_t count,
                                   std::uint64_t* out_posted) noexcept {
  *out_posted = 0;
  if (const Status status = admit_all(queue, messages, count); status != LWMQ_OK) return status;
  struct Handles {
    Message** messages;
    std::uint64_t count;
    std::uint64_t put(std::uint64_t i, Sender& sender) const {
      return sender.put(messages[i]) == Sent::kAll ? 1 : 0;
    }
    Message* make(std::uint64_t i) const { return messages[i]; }
    void sent(std::uint64_t i, bool passed, Completions& completions) const {
      if (!passed) completions.add(messages[i]);
      messages[i] = nullptr;
    }
    void queued(std::uint64_t i) const { messages[i] = nullptr; }
    void refused(std::uint64_t, Message*) const {}
  };
  return post_all(queue, Handles{messages, count}, out_posted);
}

}  // namespace lwmq::conversation
