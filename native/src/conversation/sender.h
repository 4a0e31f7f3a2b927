// The sending half of a conversation: collect -> encode -> ship.
//
// Used by the holder of the pump. Only the counters are also read by other threads, for statistics. A
// transport buffer stays open while messages keep coming: each message is visible to the peer as soon as it
// is encoded. The buffer is shipped when the next message finds no room in it, or when the queues stay empty.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/copy.h"
#include "base/failure.h"
#include "base/status.h"
#include "codec/encoder.h"
#include "conversation/completions.h"
#include "lwmq/lwmq_tli.h"
#include "scheduler/scheduler.h"

namespace lwmq::conversation {

// Why the sender stopped.
enum class Sent {
  kAll,      // nothing is left to send
  kSome,     // the limit was reached
  kNoRoom,   // no buffer is free until the peer releases one
  kNoPeer,   // no peer is connected
  kPeerGone  // the transport refuses: the peer closed or was lost
};

class Sender {
 public:
  // `passes`: the peer is in this process, and messages are handed over as they are.
  void attach(const lwmq_tli_provider* provider, lwmq_tli_transport* transport, bool passes) noexcept;
  // Forgets the transport and the open buffer.
  void detach() noexcept {
    transport_ = nullptr;
    leave_buffer();
  }

  // Sends one frame, straight from the application's memory. kAll: it is visible to the peer.
  [[gnu::always_inline]] Sent put(const void* data, std::uint64_t bytes) noexcept {
    if (const Sent room = make_room(bytes); room != Sent::kAll) [[unlikely]]
      return room;
    copy_bytes(buffer_.next, data, bytes);
    return show(bytes, wire::ExtentKind::kOneFrame, bytes);
  }
  // Sends up to `count` frames and returns how many. 0: put says why.
  std::uint64_t put_run(const lwmq_bytes* frames, std::uint64_t count) noexcept;
  // Sends one message, which stays the caller's. With kAll and passes() it belongs to the peer.
  Sent put(Message* message) noexcept;
  [[nodiscard]] bool passes() const noexcept { return passes_; }
  // Sends what the queues hold, until about `bytes_max` bytes are sent.
  Sent pump(scheduler::Scheduler& scheduler, std::uint64_t bytes_max, Completions& completions) noexcept;
  // Nothing more is shown for now: the transport sends what it has.
  void flush() noexcept {
    if (flush_ != nullptr && transport_ != nullptr) [[unlikely]]
      flush_(transport_);
  }
  // Ships the open buffer, if there is one, because the queues stay empty.
  void ship_idle() noexcept;
  // Sends the last extent that the peer gets, if there is room for it, and ships.
  void say_goodbye(std::uint64_t messages_received) noexcept;
  // Messages shown to the peer that is attached.
  [[nodiscard]] std::uint64_t messages_to_peer() const noexcept { return messages() - messages_before_; }

  [[nodiscard]] lwmq_tli_transport* transport() const noexcept { return transport_; }

  // How often in a row the transport has refused a message for another reason than the end of its peer; and
  // the last refusal, with its text.
  [[nodiscard]] std::uint32_t refusals() const noexcept { return refusals_; }
  Status refuse() const noexcept { return refusal_.tell(); }

  // Any thread. Hints.
  [[nodiscard]] bool has_open_buffer() const noexcept { return open_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t messages() const noexcept { return read(messages_); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return read(bytes_); }
  [[nodiscard]] std::uint64_t shipped_full() const noexcept { return read(shipped_full_); }
  [[nodiscard]] std::uint64_t shipped_idle() const noexcept { return read(shipped_idle_); }
  [[nodiscard]] std::uint64_t messages_passed() const noexcept { return read(messages_passed_); }
  // Raw buffers do not go through put.
  void count_raw(std::uint64_t bytes) noexcept;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static std::uint64_t read(const Counter& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
  }
  // Only the holder of the pump writes, so a plain store is enough.
  static void add(Counter& counter, std::uint64_t amount) noexcept {
    counter.store(read(counter) + amount, std::memory_order_relaxed);
  }

  // Opens a buffer if the open one has no room for an extent of `bytes`.
  Sent make_room(std::uint64_t bytes) noexcept {
    if (buffer_.room >= bytes && buffer_.room > 0) [[likely]]
      return Sent::kAll;
    return open_buffer();
  }
  void leave_buffer() noexcept {
    open_.store(false, std::memory_order_relaxed);
    buffer_.room = 0;
  }
  Sent open_buffer() noexcept;
  Status ship() noexcept;
  Sent note_refusal(Status status) noexcept;
  Sent show(std::uint64_t bytes, wire::ExtentKind kind, std::uint64_t counted) noexcept {
    const Status status = tli_->show(transport_, &buffer_, bytes, static_cast<std::uint32_t>(kind));
    if (status != LWMQ_OK) [[unlikely]]
      return note_refusal(status);
    refusals_ = 0;
    add(messages_, 1);
    add(bytes_, counted);
    return Sent::kAll;
  }
  Sent write(const Message& message, const codec::Encoding& encoding) noexcept;
  Sent pass(Message* message) noexcept;

  const lwmq_tli_transport_table* tli_ = nullptr;
  decltype(lwmq_tli_fast_table::show_run) show_run_ = nullptr;
  decltype(lwmq_tli_transport_table::flush) flush_ = nullptr;
  lwmq_tli_transport* transport_ = nullptr;
  bool passes_ = false;
  std::uint64_t messages_before_ = 0;  // messages_ when the peer was attached
  lwmq_tli_buffer buffer_{};           // valid while open_; else it has no room
  std::atomic<bool> open_{false};      // written by the holder of the pump
  std::uint32_t refusals_ = 0;
  Failure refusal_;
  Counter messages_{0};
  Counter messages_passed_{0};
  Counter bytes_{0};
  Counter shipped_full_{0};
  Counter shipped_idle_{0};
};

}  // namespace lwmq::conversation
