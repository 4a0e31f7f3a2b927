// How a receive waits, and where it puts what it takes. There is one way in, Conversation::take: what has
// landed already, then what comes while a thread looks before it sleeps, then the next extent with its waits,
// and what lies behind it.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "conversation/arrivals.h"
#include "conversation/loan.h"
#include "conversation/receiver.h"
#include "message/message.h"

namespace lwmq::conversation {

// What a receive that finds nothing does for those who poll.
enum class WhenEmpty : std::uint8_t {
  kArm,    // they will hear of what comes
  kLook,   // nothing, where a look is enough to see that: the caller looks again soon
  kLeave,  // nothing: the caller arms all transports of the channel
};

struct How {
  std::uint32_t timeout_ms = 0;  // for the first alone
  WhenEmpty when_empty = WhenEmpty::kArm;
};

// Used with the landing side in hand. Each kind has these two beside what is virtual:
//   take_run    what has landed and needs no more than its place here: whether there was any; next knows more
//   take_soon   the same, for who would wait: looks as long as a wait does before it sleeps
class Into {
 public:
  // Of a channel whose buffers the application handles itself.
  [[nodiscard]] virtual bool is_raw() const noexcept { return false; }
  // More would be taken.
  [[nodiscard]] virtual bool has_room() const noexcept = 0;
  // One or more, as Receiver::next. Of what has landed and could not be decoded *out_landed says the sender:
  // LWMQ_E_NO_MEMORY: it comes next once more; LWMQ_E_CORRUPT: it is back.
  virtual Status take_next(Receiver& receiver, Landed* out_landed, std::unique_ptr<Report>* out_report) = 0;

 protected:
  ~Into() = default;
};

// Messages by their handles.
class Messages final : public Into {
 public:
  Messages(Message** out_messages, std::uint32_t limit) noexcept : out_(out_messages), limit_(limit) {}

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint32_t left() const noexcept { return limit_ - count_; }
  [[nodiscard]] Message** next() noexcept { return out_ + count_; }
  void add(Message* message) noexcept { out_[count_++] = message; }

  bool take_run(Receiver& receiver) noexcept {
    const std::uint32_t taken = receiver.take_run(left(), next());
    count_ += taken;
    return taken > 0;
  }
  bool take_soon(Receiver& receiver) noexcept {
    if (!receiver.take_soon(next())) return false;
    ++count_;
    if (has_room()) take_run(receiver);
    return true;
  }
  [[nodiscard]] bool has_room() const noexcept override { return count_ < limit_; }
  Status take_next(Receiver& receiver, Landed* out_landed, std::unique_ptr<Report>* out_report) override {
    // What comes behind a wait says nothing of whether we chase the peer: no run of it.
    if (count_ > 0 && take_run(receiver)) return LWMQ_OK;
    const Status status = receiver.next_message(next(), out_landed, out_report);
    if (status == LWMQ_OK) ++count_;
    return status;
  }

 private:
  Message** const out_;
  const std::uint32_t limit_;
  std::uint32_t count_ = 0;
};

// What can be lent as it lies; what cannot, by its handle.
class Lent final : public Into {
 public:
  explicit Lent(Loan& loan) noexcept : loan_(loan) {}

  bool take_run(Receiver& receiver) noexcept { return receiver.lend(loan_); }
  bool take_soon(Receiver& receiver) noexcept { return receiver.lend_soon(loan_); }
  [[nodiscard]] bool has_room() const noexcept override { return loan_.left() > 0 && !loan_.has_runs(); }
  Status take_next(Receiver& receiver, Landed* out_landed, std::unique_ptr<Report>* out_report) override {
    if (receiver.lend(loan_)) return LWMQ_OK;
    const Status status = receiver.next_message(loan_.next_message(), out_landed, out_report);
    if (status == LWMQ_OK) loan_.note_messages(1);
    return status;
  }

 private:
  Loan& loan_;
};

// One extent, which the application gives back itself.
class Buffer final : public Into {
 public:
  // Longer than any look for a large buffer before a sleep.
  static constexpr std::uint32_t kAwaitedMinMs = 5;

  explicit Buffer(How how) noexcept : is_awaited_(how.timeout_ms >= kAwaitedMinMs) {}
  [[nodiscard]] const Landed& landed() const noexcept { return landed_; }

  static bool take_run(Receiver& /*receiver*/) noexcept { return false; }
  bool take_soon(Receiver& receiver) noexcept { return is_awaited_ && receiver.next_soon(&landed_); }
  [[nodiscard]] bool is_raw() const noexcept override { return true; }
  [[nodiscard]] bool has_room() const noexcept override { return false; }
  Status take_next(Receiver& receiver, Landed* /*out_landed*/, std::unique_ptr<Report>* out_report) override {
    return receiver.next(&landed_, out_report);
  }

 private:
  const bool is_awaited_;
  Landed landed_;
};

}  // namespace lwmq::conversation
