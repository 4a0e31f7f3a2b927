// Where the application posts. One of seven kinds, chosen when it is made; three structures below:
//
//   mono_unbounded                        SpscList    one producer thread, no lock, no read-modify-write
//   multi_unbounded                       MpscList    one compare-and-swap per post
//   multi_unbounded_tagged, bounded_*     RuledList   a mutex for some loads and stores
//
// The consumer is whoever holds the channel's pump. To collect a message it asks front how much room that
// needs, then claims it, and when it is encoded says done; a message of a RuledList may be replaced by
// another until it is claimed, and is out of everybody's reach from then on.
#pragma once

#include <atomic>
#include <cstdint>
#include <variant>

#include "codec/encoder.h"
#include "lwmq/lwmq.h"
#include "message/message.h"
#include "os/futex.h"
#include "queue/mpsc_list.h"
#include "queue/ruled_list.h"
#include "queue/spsc_list.h"

namespace lwmq {

class SendQueue {
 public:
  static constexpr std::uint32_t kKinds = 7;
  struct Counts {
    std::uint64_t posted, collected, discarded, replaced, queued;
  };

  // `capacity` is at least 1 where the kind is bounded, and 0 elsewhere.
  SendQueue(std::uint32_t kind, std::uint32_t priority, std::uint64_t capacity = 0) noexcept
      : kind_(kind), capacity_(capacity), priority_(priority) {
    if (kind == LWMQ_QUEUE_MULTI_UNBOUNDED) {
      list_.emplace<Multi>();
    } else if (kind != LWMQ_QUEUE_MONO_UNBOUNDED) {
      const bool newest =
          kind == LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST || kind == LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST_TAGGED;
      list_.emplace<Ruled>(is_bounded(kind)
                               ? newest ? queue::WhenFull::kDiscardNewest : queue::WhenFull::kDiscardOldest
                               : queue::WhenFull::kGrow,
                           capacity, is_tagged(kind));
    }
  }

  // When neither producers nor the pump are at work.
  ~SendQueue() {
    while (Message* message = collect()) Message::destroy(message);
  }

  static constexpr bool is_bounded(std::uint32_t kind) noexcept {
    return kind >= LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST && kind < kKinds;
  }
  static constexpr bool is_tagged(std::uint32_t kind) noexcept {
    return kind == LWMQ_QUEUE_MULTI_UNBOUNDED_TAGGED || kind == LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST_TAGGED ||
           kind == LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST_TAGGED;
  }
  [[nodiscard]] std::uint32_t kind() const noexcept { return kind_; }
  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool is_bounded() const noexcept { return is_bounded(kind_); }
  [[nodiscard]] bool is_tagged() const noexcept { return is_tagged(kind_); }
  [[nodiscard]] bool is_mono() const noexcept { return kind_ == LWMQ_QUEUE_MONO_UNBOUNDED; }
  // Written under the pump.
  [[nodiscard]] std::uint32_t priority() const noexcept { return priority_.load(std::memory_order_relaxed); }
  void set_priority(std::uint32_t priority) noexcept { priority_.store(priority, std::memory_order_relaxed); }

  // ---- Producers: one thread at a time where the kind is mono, else any.

  // kTaken: takes the message; what had to go for it, perhaps itself, is in *out_gone (else null), for the
  // caller to destroy when it holds no lock. kFull comes only without `may_discard`, kCrowded where the kind
  // is mono and another thread is in here: mostly. Otherwise the message is still the caller's.
  [[nodiscard, gnu::always_inline]] queue::Pushed push(Message* message, std::uint64_t tag, bool may_discard,
                                                       Message** out_gone) noexcept {
    *out_gone = nullptr;
    if (auto* mono = std::get_if<Mono>(&list_)) [[likely]] {
      if (pushing_.load(std::memory_order_relaxed)) [[unlikely]]
        return queue::Pushed::kCrowded;
      pushing_.store(true, std::memory_order_relaxed);
      const bool taken = mono->try_push(message);
      pushing_.store(false, std::memory_order_relaxed);
      return taken ? queue::Pushed::kTaken : queue::Pushed::kNoMemory;
    }
    return push_shared(message, tag, may_discard, out_gone);
  }

  // Waiting for room in a bounded queue: load room(), try to push, and sleep while room() is that value,
  // from before the last try until after the sleep counted as one who waits.
  [[nodiscard]] const std::atomic<std::uint32_t>& room() const noexcept { return room_; }
  void begin_wait() noexcept {
    waiting_.fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);  // before it looks at what announce_room tells of
  }
  void end_wait() noexcept { waiting_.fetch_sub(1, std::memory_order_relaxed); }
  // Any thread, after the change (under the list's mutex, or before a full fence): wakes whoever waits, to
  // look again.
  void announce_room() noexcept {
    if (waiting_.load(std::memory_order_relaxed) == 0) return;  // who comes later tries once more first
    room_.fetch_add(1, std::memory_order_release);
    os::futex_wake_all(room_, os::Sleepers::kOfThisProcess);
  }

  // ---- The pump.

  // How the next message will lie in a buffer; false when there is none.
  [[nodiscard]] bool front(codec::Encoding* out_encoding) noexcept {
    if (auto* ruled = std::get_if<Ruled>(&list_)) {
      return ruled->front([out_encoding](const Message* m) { *out_encoding = codec::measure(*m); });
    }
    const Message* message = front_of_unruled();
    if (message == nullptr) return false;
    *out_encoding = codec::measure(*message);
    return true;
  }
  // After front: the message, on its way; done or put_back follows. Null when it is another one by now and
  // needs more than `room`: ask front again. *encoding is what front said, and then what is true.
  [[nodiscard]] Message* claim(std::uint64_t room, codec::Encoding* encoding) noexcept {
    auto* ruled = std::get_if<Ruled>(&list_);
    if (ruled == nullptr) return front_of_unruled();
    return ruled->take([&](const Message* message) {
      *encoding = codec::measure(*message);
      return encoding->bytes <= room;
    });
  }
  void done() noexcept {
    if (auto* mono = std::get_if<Mono>(&list_)) {
      mono->pop();
    } else if (auto* multi = std::get_if<Multi>(&list_)) {
      multi->pop();
    } else if (is_bounded()) {
      announce_room();
    }
  }
  // The message did not leave: it is the next one again. What had to go for it is returned.
  [[nodiscard]] Message* put_back(Message* message) noexcept {
    auto* ruled = std::get_if<Ruled>(&list_);
    return ruled == nullptr ? nullptr : ruled->put_back(message);
  }
  // front, claim and done in one; null when there is none.
  [[nodiscard]] Message* collect() noexcept {
    codec::Encoding encoding;
    if (!front(&encoding)) return nullptr;
    Message* message = claim(UINT64_MAX, &encoding);
    if (auto* multi = std::get_if<Multi>(&list_)) {
      multi->pop();  // reads the link, which is the caller's afterwards
    } else {
      done();
    }
    return message;
  }
  // As collect, of a channel that was closed: nobody will ship it.
  [[nodiscard]] Message* drop() noexcept {
    Message* const message = collect();
    if (message != nullptr)
      dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return message;
  }
  // Messages that went past the queue, because it was empty.
  void count_direct(std::uint64_t messages) noexcept {
    direct_.store(direct_.load(std::memory_order_relaxed) + messages, std::memory_order_relaxed);
  }

  // ---- Any thread.

  // See the lists' own empty: exact for the pump as to what it has seen and the caller's own posts.
  [[nodiscard]] bool empty() const noexcept {
    if (const auto* mono = std::get_if<Mono>(&list_)) [[likely]]
      return mono->empty();
    return std::visit([](const auto& list) { return list.empty(); }, list_);
  }
  // Hints while others are at work.
  [[nodiscard]] std::uint64_t size() const noexcept {
    return std::visit([](const auto& list) { return list.size(); }, list_);
  }
  [[nodiscard]] std::uint64_t posted() const noexcept {
    return std::visit([](const auto& list) { return list.pushed(); }, list_) +
           direct_.load(std::memory_order_relaxed);
  }
  // posted is the sum of the others when nobody is at work.
  [[nodiscard]] Counts counts() const noexcept {
    const std::uint64_t direct = direct_.load(std::memory_order_relaxed);
    const std::uint64_t dropped =
        dropped_.load(std::memory_order_relaxed);  // what is popped is at least that
    if (const auto* ruled = std::get_if<Ruled>(&list_)) {
      const auto counts = ruled->counts();
      return {counts.pushed + direct, counts.popped + direct - dropped, counts.discarded + dropped,
              counts.replaced, counts.size};
    }
    const std::uint64_t queued = size();
    const std::uint64_t posted = this->posted();
    return {posted, posted - queued - dropped, dropped, 0, queued};
  }

  // ---- The scheduler's.
  SendQueue* older = nullptr;            // all queues; never changes after the queue was added
  SendQueue* next_in_group = nullptr;    // in the ring of its group; null where it is at rest
  SendQueue* before_in_group = nullptr;  // likewise
  SendQueue* next_activated = nullptr;   // from its activation until the pump has put it into the ring
  std::atomic<bool> is_active{true};     // in the ring, or on the way there

 private:
  using Mono = queue::SpscList<Message*>;
  using Multi = queue::MpscList<Message>;
  using Ruled = queue::RuledList<Message*>;

  // Of a queue that several may post into.
  [[gnu::noinline]] queue::Pushed push_shared(Message* message, std::uint64_t tag, bool may_discard,
                                              Message** out_gone) noexcept {
    if (auto* multi = std::get_if<Multi>(&list_)) {
      multi->push(message);
      return queue::Pushed::kTaken;
    }
    return std::get<Ruled>(list_).push(message, tag, may_discard, out_gone);
  }

  [[nodiscard]] Message* front_of_unruled() noexcept {
    if (auto* multi = std::get_if<Multi>(&list_)) return multi->front();
    Message** item = std::get<Mono>(list_).front();
    return item == nullptr ? nullptr : *item;
  }

  const std::uint32_t kind_;
  const std::uint64_t capacity_;
  std::atomic<std::uint32_t> priority_;
  std::atomic<std::uint32_t> room_{0};     // futex
  std::atomic<std::uint32_t> waiting_{0};  // producers that wait for room
  std::atomic<bool> pushing_{false};       // into a mono list: a guard that costs nothing, and sees most
  std::atomic<std::uint64_t> direct_{0};   // written under the pump
  std::atomic<std::uint64_t> dropped_{0};  // likewise
  std::variant<Mono, Multi, Ruled> list_;
};

}  // namespace lwmq
