// Pumping: what the queues hold goes out, by whoever is there; and nothing is left behind when he leaves.
#include "conversation/conversation.h"
#include "os/membarrier.h"

namespace lwmq::conversation {

namespace {

// What one post ships at most of what others have left behind, before it hands the rest to the service
// thread.
constexpr std::uint64_t kPumpBytes = 64 * kKiB;
constexpr std::uint32_t kPumpRounds = 4;
// The figure of queued messages is a walk over all queues: where they are many, it is taken now and then.
constexpr std::uint32_t kQueuesCounted = 16;
constexpr std::uint32_t kNotesSkipped = 64;

}  // namespace

// Of a pump that nobody serves.
void Conversation::kick_pump() noexcept {
  const auto barrier = [this] {  // a guest pays for the home thread, too
    if (pump_.has_home() && !pump_.is_home()) {
      os::heavy_barrier_within();
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  };
  barrier();  // sync: left-behind
  if (!left_behind_.load(std::memory_order_relaxed)) {
    left_behind_.store(true, std::memory_order_relaxed);
    barrier();  // sync: left-behind
  }
  if (pump_.may_be_free() && pump_.try_take()) pump_and_release();
}

// With the pump in hand: ships what the queues hold, about `bytes_max` bytes of it.
Sent Conversation::pump(std::uint64_t bytes_max, Completions& completions) noexcept {
  if (left_behind_.load(std::memory_order_relaxed)) {
    left_behind_.store(false, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // sync: left-behind
  }
  const Sent sent = sender_.pump(scheduler_, bytes_max, completions);
  if (sent == Sent::kNoRoom) free_buffers_seen_.store(0, std::memory_order_relaxed);
  // Where nobody is connected the next peer's attach looks by itself; a peer that is gone may be a false
  // alarm.
  if (sent != Sent::kAll && sent != Sent::kNoPeer) left_behind_.store(true, std::memory_order_relaxed);
  return sent;
}

// With the pump in hand: ships what the queues hold, up to a limit, and gives the pump away.
void Conversation::pump_and_release() noexcept {
  for (std::uint32_t round = 0; round < kPumpRounds; ++round) {
    {
      Completions completions;
      const Sent sent = pump(kPumpBytes, completions);
      if (sent == Sent::kSome || sent == Sent::kNoRoom) return hand_pump_over();
      const bool look = release_word();
      // Where nobody is connected, what is queued goes out when a peer is attached.
      if (sent == Sent::kNoPeer && !look) return note_queued();
      if (sent == Sent::kPeerGone) return note_peer_gone();
    }
    // What another thread pushed while it saw the pump taken.
    if (!left_behind_.load(std::memory_order_relaxed) || !pump_.try_take()) return note_activity();
  }
  hand_pump_over();
}

void Conversation::hand_pump_over() noexcept {
  pump_.hand_over();
  ask_service();
}

// Gives the pump away, with the barrier that must follow. True: it had been served, and somebody has to
// look at the queues once more.
bool Conversation::release_word() noexcept {
  const bool served = pump_.is_adopted();
  pump_.release();
  if (served) {
    os::heavy_barrier_within();  // sync: left-behind
    left_behind_.store(true, std::memory_order_relaxed);
  }
  const bool home = pump_.is_home();
  if (home && !served) {
    os::light_barrier(membarrier_);  // sync: left-behind
  } else if (served && !home && pump_.has_home()) {
    os::heavy_barrier_within();  // as in kick: home's own look may be on its way; sync: left-behind
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);  // sync: left-behind
  }
  return served;
}

// With the pump in hand, as anybody.
void Conversation::release_and_look() noexcept {
  release_word();
  if (left_behind_.load(std::memory_order_relaxed) && pump_.try_take()) pump_and_release();
}

// With the pump in hand, of a channel that was closed: how many messages there are no more.
std::uint64_t Conversation::drop_queued(Completions& completions) noexcept {
  std::uint64_t dropped = 0;
  scheduler_.for_each([&](SendQueue* queue) {
    while (Message* message = queue->drop()) {
      completions.add(message);
      ++dropped;
    }
  });
  // What a poster took out with its own, of others who saw the channel open: they do not look for it.
  while (Message* message = withdrawn_) {
    withdrawn_ = message->next;
    completions.add(message);
    ++dropped;
  }
  return dropped;
}

// While nobody is connected the service threads sleep.
void Conversation::note_queued() noexcept {
  if (scheduler_.queue_count() > kQueuesCounted &&
      notes_skipped_.fetch_add(1, std::memory_order_relaxed) % kNotesSkipped != 0)
    return;
  stats::set(entry_->messages_queued, scheduler_.message_count());
  note_queues();
}

// Any thread: a queue is never taken away.
void Conversation::note_queues() noexcept {
  scheduler_.for_each([](const SendQueue* queue) {
    stats::Entry& entry = *static_cast<const CountedQueue*>(queue)->entry;
    const SendQueue::Counts counts = queue->counts();
    stats::set(entry.messages_posted, counts.posted);
    stats::set(entry.messages_queued, counts.queued);
    stats::set(entry.messages_sent, counts.collected);
    stats::set(entry.messages_discarded, counts.discarded);
    stats::set(entry.messages_replaced, counts.replaced);
  });
}

void Conversation::take_pump() noexcept { pump_.take_before_others(); }

void Conversation::begin_activity() noexcept {
  active_.store(true, std::memory_order_relaxed);
  ask_service();
}

void Conversation::note_peer_gone() noexcept {
  if (peer_gone_.exchange(true, std::memory_order_acq_rel)) return;
  ask_service();
}

}  // namespace lwmq::conversation
