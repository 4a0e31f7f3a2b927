// What an application has received and only looks at, until it receives the next: small messages of one frame
// where they landed, without a handle each; every other message by its handle.
//
// Used by one thread at a time, as its channel's receive is. What is lent lies in the transports' buffers,
// which come back with the last look at them; transports keep what they need for that beyond their close.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/handle_mark.h"
#include "lwmq/lwmq.h"
#include "lwmq/lwmq_tli.h"
#include "message/message.h"

namespace lwmq::conversation {

class Loan {
 public:
  // Null when memory is short.
  [[nodiscard]] static Loan* create(std::uint32_t limit) noexcept;
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() { give_back(); }

  // Everything that is lent. RELEASE call-backs may run in here.
  void give_back() noexcept {
    for (std::uint32_t i = 0; i < runs_count_; ++i) runs_[i].give_back();
    count_ = runs_count_ = 0;
    if (messages_count_ > 0) [[unlikely]]
      destroy_messages();
  }

  [[nodiscard]] const lwmq_lent* entries() const noexcept { return entries_.get(); }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::uint32_t left() const noexcept { return limit_ - count_; }

  // Where the next entries go: `left` of them.
  [[nodiscard]] lwmq_lent* next_entry() noexcept { return &entries_[count_]; }
  [[nodiscard]] bool has_runs() const noexcept { return runs_count_ > 0; }
  [[nodiscard]] bool takes_runs() const noexcept { return left() > 0 && runs_count_ < runs_.size(); }
  // After takes_runs: the next `count` entries are written, and show that many extents of the run with
  // `token`, which are the loan's now.
  void add_run(const lwmq_tli_fast_table* fast, lwmq_tli_transport* transport, const std::uint64_t token[2],
               std::uint32_t count) noexcept {
    count_ += count;
    runs_[runs_count_++] = {fast, transport, {token[0], token[1]}, count};
  }

  // Room for handles of up to `left` messages; note_messages says how many are there, which are the loan's
  // now.
  [[nodiscard]] Message** next_message() noexcept { return &messages_[messages_count_]; }
  void note_messages(std::uint32_t count) noexcept;

  // False of memory that was a loan: for checks of what an application hands in.
  [[nodiscard]] bool is_alive() const noexcept { return mark_.is_alive(); }

 private:
  struct Run {
    const lwmq_tli_fast_table* fast;
    lwmq_tli_transport* transport;
    std::uint64_t token[2];
    std::uint32_t count;

    void give_back() noexcept;
  };
  // Runs at a time. More messages than they have, or more of them than `limit`, come with the next call.
  static constexpr std::size_t kRuns = 8;

  explicit Loan(std::uint32_t limit) noexcept : limit_(limit) {}
  void destroy_messages() noexcept;

  const std::uint32_t limit_;
  std::uint32_t count_ = 0;
  std::uint32_t messages_count_ = 0;
  std::uint32_t runs_count_ = 0;
  std::unique_ptr<lwmq_lent[]> entries_;
  std::unique_ptr<Message*[]> messages_;
  std::array<Run, kRuns> runs_{};
  HandleMark mark_;
};

}  // namespace lwmq::conversation
