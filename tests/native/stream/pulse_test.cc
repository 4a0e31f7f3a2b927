// When an endpoint is asked whether it still answers: a table, without a clock.
#include "stream/client/pulse.h"

#include <gtest/gtest.h>

namespace lwmq::stream {
namespace {

constexpr std::int64_t kMs = 1'000'000;
using Due = Pulse::Due;

// Waits in slices, as Python does; what was due at last.
Due wait(Pulse& pulse, std::int64_t ms, std::uint32_t slice_ms = 200) {
  Due due = Due::kNothing;
  while (ms > 0 && due == Due::kNothing) {
    const std::uint32_t sleep_ms = pulse.sleep_ms(slice_ms);
    due = pulse.slept(sleep_ms, sleep_ms * kMs);
    ms -= sleep_ms;
  }
  return due;
}

TEST(Pulse, AsksAfterASilenceAndReportsAfterAnother) {
  Pulse pulse;
  EXPECT_EQ(wait(pulse, 4800), Due::kNothing);
  EXPECT_EQ(pulse.sleep_ms(LWMQ_FOREVER), 200u);  // the slices added up
  EXPECT_EQ(wait(pulse, 200), Due::kAsk);
  EXPECT_EQ(wait(pulse, 4800), Due::kNothing);
  EXPECT_EQ(wait(pulse, 200), Due::kStalled);
  EXPECT_EQ(pulse.silent_ms(), 10'000);
  EXPECT_EQ(wait(pulse, 4800), Due::kNothing);  // whoever calls again waits again
  EXPECT_TRUE(pulse.is_stalled());
  EXPECT_EQ(wait(pulse, 200), Due::kStalled);
}

TEST(Pulse, LetsAnIdleEndpointAloneForLongerAndLonger) {
  Pulse pulse;
  std::uint64_t answers = 0;
  for (const std::uint32_t pause_ms : {5000u, 10'000u, 20'000u, 40'000u, 80'000u, 80'000u}) {
    EXPECT_EQ(pulse.sleep_ms(LWMQ_FOREVER), pause_ms);
    EXPECT_EQ(wait(pulse, pause_ms, LWMQ_FOREVER), Due::kAsk);
    ++answers;
    pulse.hear(answers, answers);
  }
  pulse.hear(answers + 1, answers);  // a batch
  EXPECT_EQ(pulse.sleep_ms(LWMQ_FOREVER), 5000u);
}

TEST(Pulse, AWordBeginsTheWaitAnew) {
  Pulse pulse;
  wait(pulse, 4800);
  pulse.hear(1, 0);
  EXPECT_EQ(wait(pulse, 4800), Due::kNothing);
  EXPECT_EQ(wait(pulse, 200), Due::kAsk);
  pulse.hear(2, 0);  // no answer, but a word
  EXPECT_EQ(wait(pulse, 4800), Due::kNothing);
  EXPECT_EQ(wait(pulse, 200), Due::kAsk);
}

TEST(Pulse, DoesNotBlameTheEndpointWhenWeWereStopped) {
  Pulse pulse(100);
  EXPECT_EQ(pulse.slept(100, 60'000 * kMs), Due::kNothing);
  EXPECT_EQ(wait(pulse, 100), Due::kAsk);
  EXPECT_EQ(pulse.slept(100, 60'000 * kMs), Due::kNothing);
  EXPECT_EQ(wait(pulse, 100), Due::kStalled);
}

TEST(Pulse, NeverAsksWhereNothingIsToBeReported) {
  Pulse pulse(LWMQ_FOREVER);
  EXPECT_EQ(pulse.sleep_ms(LWMQ_FOREVER), LWMQ_FOREVER);
  EXPECT_EQ(pulse.slept(200, 3'600'000 * kMs), Due::kNothing);
}

}  // namespace
}  // namespace lwmq::stream
