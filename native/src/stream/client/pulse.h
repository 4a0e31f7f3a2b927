// Does an endpoint that lives still answer? Asked only while somebody waits for it, and seldom.
//
//   waiting ── a pause without a word ──▶ asked ── `stall` without a word ──▶ stalled, once for each `stall`
//      ▲                                    │                                    │
//      └────────── any word of the endpoint ┴────────────────────────────────────┘
//
// The pause is `stall` at first and doubles with each answer that is nothing but an answer, so that an idle
// reader of an idle stream costs next to nothing. What counts is the time spent waiting since the last word,
// over as many calls as a caller cuts his wait into. A sleep that took much longer than it was to take does
// not count: it was we who were stopped. Knows no clock and no transport; tests/native/stream/pulse_test.cc
// calls it as a table.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/limits.h"
#include "lwmq/lwmq.h"

namespace lwmq::stream {

class Pulse {
 public:
  enum class Due : std::uint8_t { kNothing, kAsk, kStalled };

  // LWMQ_FOREVER: never asks, and waits on.
  explicit Pulse(std::uint32_t stall_ms = kStallMs) noexcept : stall_ms_(stall_ms), pause_ms_(stall_ms) {}

  [[nodiscard]] std::uint32_t stall_ms() const noexcept { return stall_ms_; }

  // How many messages have come since the conversation began, and how many of them were only answers.
  void hear(std::uint64_t messages, std::uint64_t answers) noexcept {
    if (messages == messages_) return;
    const bool only_answered = messages - messages_ == answers - answers_;
    pause_ms_ = only_answered ? std::max(stall_ms_, std::min(2 * pause_ms_, kPulsePauseMsMax)) : stall_ms_;
    messages_ = messages;
    answers_ = answers;
    asked_ = stalled_ = false;
    waited_ns_ = silent_ns_ = 0;
  }

  // How long the next sleep may be.
  [[nodiscard]] std::uint32_t sleep_ms(std::uint32_t timeout_ms) const noexcept {
    if (stall_ms_ == LWMQ_FOREVER) return timeout_ms;
    const std::int64_t left = std::max<std::int64_t>(0, limit_ns() - waited_ns_);
    return static_cast<std::uint32_t>(std::min<std::int64_t>(timeout_ms, (left + 999'999) / 1'000'000));
  }

  // After a sleep that was to take `sleep_ms` and took `took_ns`, without a word: what is due now.
  Due slept(std::uint32_t sleep_ms, std::int64_t took_ns) noexcept {
    if (stall_ms_ == LWMQ_FOREVER || took_ns > std::int64_t{sleep_ms} * 1'000'000 + kOversleptNs)
      return Due::kNothing;
    waited_ns_ += took_ns;
    silent_ns_ += took_ns;
    if (waited_ns_ < limit_ns()) return Due::kNothing;
    waited_ns_ = 0;
    stalled_ = asked_;
    if (stalled_) return Due::kStalled;
    asked_ = true;
    return Due::kAsk;
  }

  // True from the report to the next word.
  [[nodiscard]] bool is_stalled() const noexcept { return stalled_; }
  // For how long we have waited since the last word.
  [[nodiscard]] std::int64_t silent_ms() const noexcept { return silent_ns_ / 1'000'000; }

 private:
  static constexpr std::int64_t kOversleptNs = 1'000'000'000;

  [[nodiscard]] std::int64_t limit_ns() const noexcept {
    return std::int64_t{asked_ ? stall_ms_ : pause_ms_} * 1'000'000;
  }

  std::uint32_t stall_ms_;
  std::uint32_t pause_ms_;  // before the next question
  bool asked_ = false;      // and no word since
  bool stalled_ = false;
  std::int64_t waited_ns_ = 0;  // since the last word, or since we asked
  std::int64_t silent_ns_ = 0;  // since the last word
  std::uint64_t messages_ = 0, answers_ = 0;
};

}  // namespace lwmq::stream
