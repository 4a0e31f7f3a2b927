// A reader that has caught up with a busy writer holds back.
//
// Behind a writer that does not pause, a reader that looks at once takes every cache line from it while the
// line is being written: each message then costs both a line that travels. A reader that leaves the writer
// alone for a moment finds a run of messages, whose lines travel once (a factor of
// three at 64 B). What is held back is late, so it is done only while it pays: a try when messages come in
// runs by themselves, longer while the runs grow, not at all once they are short; more than some 1.3 us
// behind a flood alone, and only where more has come by then. Who answers one message with one is never held.
//
// One thread at a time: the one that lands.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/limits.h"
#include "os/spin.h"

namespace lwmq::lane {

class Pace {
 public:
  // Messages or not, through a ring of that many bytes: whether the writer has room for what it sends while
  // we hold back. Not where its buffers are few, or handed over.
  void init(bool messages, std::uint64_t ring_bytes) noexcept {
    may_be_flooded_ = messages && ring_bytes >= kFloodBytesMin;
  }
  void landed(std::uint32_t count) noexcept { run_ += count; }

  // When nothing is there, or little again and again, before the wait for the next message: pauses up to some
  // 5 us, beyond the first 1.3 of them while `more` has come.
  template <typename More>
  void hold(More&& more) noexcept {
    const std::uint32_t run = run_;
    run_ = 0;
    if (pauses_ != 0) {
      follow(run);
    } else if (run >= kRunMin && ++runs_ >= runs_for_try_) {
      runs_ = 0;
      pauses_ = kPausesFirst;
    }
    for (std::uint32_t i = 0; i < pauses_; ++i) os::pause();
    for (std::uint32_t slice = 1; slice < slices_ && may_be_flooded_ && more(); ++slice) {
      for (std::uint32_t i = 0; i < kPausesMax; ++i) os::pause();
    }
  }

  static constexpr std::uint32_t kPausesMax = 100;
  static constexpr std::uint32_t kSlicesMax = 4;
  // How often it pauses now, and how many times that behind a flood, for tests.
  [[nodiscard]] std::uint32_t pauses() const noexcept { return pauses_; }
  [[nodiscard]] std::uint32_t slices() const noexcept { return slices_; }

 private:
  static constexpr std::uint32_t kRunMin = 2;   // messages between two times that nothing was there
  static constexpr std::uint32_t kRunPays = 4;  // more than whoever chases has landed when it holds back
  static constexpr std::uint32_t kRunGrows = 8;
  static constexpr std::uint32_t kRunFlood = 24;
  static constexpr std::uint64_t kFloodBytesMin = 256 * kKiB;  // some 5 us at 20 GB/s and more
  static constexpr std::uint32_t kPausesFirst = 20;
  static constexpr std::uint32_t kRunsFirst = 2;
  static constexpr std::uint32_t kRunsMax = 1024;

  void follow(std::uint32_t run) noexcept {
    slices_ = run >= kRunFlood && pauses_ == kPausesMax ? std::min(slices_ + 1, kSlicesMax) : 1;
    if (run < kRunPays) {
      pauses_ = 0;
      runs_for_try_ = std::min(runs_for_try_ * 2, kRunsMax);
      return;
    }
    runs_for_try_ = kRunsFirst;
    if (run >= kRunGrows) pauses_ = std::min(pauses_ * 2, kPausesMax);
  }

  bool may_be_flooded_ = false;
  std::uint32_t run_ = 0;
  std::uint32_t pauses_ = 0;
  std::uint32_t slices_ = 1;
  std::uint32_t runs_ = 0;
  std::uint32_t runs_for_try_ = kRunsFirst;
};

}  // namespace lwmq::lane
