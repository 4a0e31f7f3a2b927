// links: base os stats tli
// What the two ends of a lane owe each other where no transport is around them.
#include "tli/record_lane.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace lwmq::tli {
namespace {

// A waker that was late by a whole sleep: it shows something that the sleeper has taken long ago, sees the
// announcement of the next sleep, and rings for it. It is the only ring that this sleep will get.
TEST(RecordLane, ASleepEndsByTheRingForItHoweverEarlyThatComes) {
  const auto ours = std::make_unique<SideHeader>();
  const auto theirs = std::make_unique<SideHeader>();
  const Sides sleeping{reinterpret_cast<std::uint8_t*>(ours.get()),
                       reinterpret_cast<std::uint8_t*>(theirs.get())};
  const Sides waking{reinterpret_cast<std::uint8_t*>(theirs.get()),
                     reinterpret_cast<std::uint8_t*>(ours.get())};
  std::atomic<bool> over{false};
  std::thread late([&] {
    Waker waker;
    waker.init(waking);
    while (!over) {
      if (ours->waiting_extent.load() != 0) waker.extent_shown();
    }
  });
  int timed_out = 0;
  for (int round = 0; round < 1000 && timed_out == 0; ++round) {
    const os::WaitResult result = sleep_until_rung(sleeping, ours->waiting_extent, nullptr, nullptr, 0,
                                                   1'000'000'000, [] { return false; });
    timed_out += result == os::WaitResult::kTimedOut ? 1 : 0;
  }
  over = true;
  late.join();
  EXPECT_EQ(timed_out, 0);
}

}  // namespace
}  // namespace lwmq::tli
