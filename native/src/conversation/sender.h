// The sending half of a channel: collect -> encode -> ship.
//
// Everything here is for the holder of the channel's pump, but the counters, which it writes and statistics
// read. A transport buffer stays open while messages keep coming: each message is visible to the peer as
// soon as it is encoded, and the buffer is shipped when the next message finds no room in it, or when the
// queues stay empty.
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
  kAll,      // nothing is left
  kSome,     // the limit was reached
  kNoRoom,   // no buffer is free: the peer has to release one
  kNoPeer,   // nobody is connected
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

  // One frame, straight from the application's memory. kAll: it is out.
  [[gnu::always_inline]] Sent put(const void* data, std::uint64_t bytes) noexcept {
    if (const Sent room = make_room(bytes); room != Sent::kAll) [[unlikely]]
      return room;
    copy_bytes(buffer_.next, data, bytes);
    return flush(show(bytes, wire::ExtentKind::kOneFrame, bytes));
  }
  // Up to `count` of them: how many are out. 0: put says why.
  std::uint64_t put_run(const lwmq_bytes* frames, std::uint64_t count) noexcept;
  // One message, which stays the caller's, unless kAll and passes(): then it is the peer's already.
  Sent put(Message* message) noexcept;
  [[nodiscard]] bool passes() const noexcept { return passes_; }
  // What the queues hold, until about `bytes_max` bytes are out.
  Sent pump(scheduler::Scheduler& scheduler, std::uint64_t bytes_max, Completions& completions) noexcept;
  // Ships the buffer that is open, if one is: the queues stayed empty.
  void ship_idle() noexcept;
  // A whole buffer, filled by the application, as one extent; takes it.
  Status ship_raw(lwmq_tli_buffer* buffer, std::uint64_t bytes) noexcept;
  // The last thing that the peer hears, if there is room for it; ships.
  void say_goodbye(std::uint64_t messages_received) noexcept;
  // Messages shown to the peer that is attached.
  [[nodiscard]] std::uint64_t messages_to_peer() const noexcept { return messages() - messages_before_; }

  [[nodiscard]] lwmq_tli_transport* transport() const noexcept { return transport_; }

  // How often, one after the other, the transport has refused what it should take, for another reason than
  // that its peer has gone; and the last one, with its text.
  [[nodiscard]] std::uint32_t refusals() const noexcept { return refusals_; }
  Status refuse() const noexcept { return refusal_.tell(); }

  // Any thread; hints.
  [[nodiscard]] bool has_open_buffer() const noexcept { return open_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t messages() const noexcept { return read(messages_); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return read(bytes_); }
  [[nodiscard]] std::uint64_t shipped_full() const noexcept { return read(shipped_full_); }
  [[nodiscard]] std::uint64_t shipped_idle() const noexcept { return read(shipped_idle_); }
  [[nodiscard]] std::uint64_t messages_passed() const noexcept { return read(messages_passed_); }

 private:
  using Counter = std::atomic<std::uint64_t>;
  static std::uint64_t read(const Counter& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
  }
  // The holder of the pump is the only writer: no read-modify-write.
  static void add(Counter& counter, std::uint64_t amount) noexcept {
    counter.store(read(counter) + amount, std::memory_order_relaxed);
  }

  // Opens a buffer with room for an extent of `bytes` where the open one has none.
  Sent make_room(std::uint64_t bytes) noexcept {
    if (buffer_.room >= bytes && buffer_.room > 0) [[likely]]
      return Sent::kAll;
    return open_buffer();
  }
  // Behind the last of what is shown for now; passes on how that went.
  Sent flush(Sent sent) noexcept {
    if (flush_ != nullptr) [[unlikely]]
      flush_(transport_);
    return sent;
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
  Sent pump_some(scheduler::Scheduler& scheduler, std::uint64_t bytes_max, Completions& completions) noexcept;

  const lwmq_tli_transport_table* tli_ = nullptr;
  const lwmq_tli_fast_table* fast_ = nullptr;
  decltype(lwmq_tli_transport_table::flush) flush_ = nullptr;  // null: there is nothing to flush
  lwmq_tli_transport* transport_ = nullptr;
  bool passes_ = false;
  std::uint64_t messages_before_ = 0;  // what messages_ was when the peer was attached
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
