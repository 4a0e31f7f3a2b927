// Messages as a C program sees them: limits, sources of timestamps, arguments that cannot be right.
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "lwmq/lwmq.h"

namespace {

lwmq_message* made(const std::string& frame) {
  lwmq_message* message = nullptr;
  EXPECT_EQ(lwmq_message_create(0, &message), LWMQ_OK);
  EXPECT_EQ(lwmq_message_append(message, frame.data(), frame.size()), LWMQ_OK);
  return message;
}

std::uint64_t ticks_now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return LWMQ_TICKS_1970 + static_cast<std::uint64_t>(time.tv_sec) * 10'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec) / 100;
}

std::uint64_t stamped(lwmq_message* message, std::int32_t source, std::uint64_t ticks = 0) {
  EXPECT_EQ(lwmq_message_set_timestamp(message, 0, source, ticks), LWMQ_OK) << lwmq_last_error();
  std::uint64_t read = 0;
  EXPECT_EQ(lwmq_message_timestamp(message, 0, &read), LWMQ_OK);
  return read;
}

// rows: Z01 S05
TEST(MessageInC, LiesInItselfUpToTheInlineLimitThatCanBeAsked) {
  lwmq_limits limits{};
  limits.size = sizeof limits;
  ASSERT_EQ(lwmq_query_limits("loop://limits", &limits), LWMQ_OK);
  ASSERT_GT(limits.inline_bytes_max, 0u);
  for (const std::uint64_t bytes : {limits.inline_bytes_max, limits.inline_bytes_max + 1}) {
    lwmq_message* message = made(std::string(bytes, 'x'));
    const void* data = nullptr;
    std::uint64_t found = 0;
    ASSERT_EQ(lwmq_message_frame(message, 0, &data, &found), LWMQ_OK);
    const auto distance = static_cast<const char*>(data) - reinterpret_cast<const char*>(message);
    EXPECT_EQ(distance >= 0 && distance < 192, bytes <= limits.inline_bytes_max);
    lwmq_message_destroy(message);
  }
}

// rows: S07
TEST(MessageInC, TakesItsTimestampsFromThreeSources) {
  lwmq_message* message = made("frame");
  std::uint64_t ticks = 1;
  EXPECT_EQ(lwmq_message_timestamp(message, 0, &ticks), LWMQ_OK);
  EXPECT_EQ(ticks, 0u) << "none, as long as nobody asks for one";
  const std::uint64_t before = ticks_now(CLOCK_REALTIME_COARSE);
  const std::uint64_t system = stamped(message, LWMQ_TIMESTAMP_SYSTEM);
  EXPECT_GE(system, before);
  EXPECT_LE(system, ticks_now(CLOCK_REALTIME));
  const std::uint64_t begin = ticks_now(CLOCK_REALTIME);
  const std::uint64_t precise = stamped(message, LWMQ_TIMESTAMP_PRECISE);
  EXPECT_GE(precise, begin);
  EXPECT_LE(precise, ticks_now(CLOCK_REALTIME));
  EXPECT_EQ(stamped(message, LWMQ_TIMESTAMP_EXPLICIT, 42), 42u);
  EXPECT_EQ(stamped(message, LWMQ_TIMESTAMP_NONE, 42), 0u);
  lwmq_message_destroy(message);
}

// rows: S07
TEST(MessageInC, TellsMomentsLessThanAMicrosecondApart) {
  lwmq_message* message = made("frame");
  std::uint64_t smallest = UINT64_MAX;
  std::uint64_t last = stamped(message, LWMQ_TIMESTAMP_PRECISE);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t now = stamped(message, LWMQ_TIMESTAMP_PRECISE);
    ASSERT_GE(now, last);
    if (now > last) smallest = std::min(smallest, now - last);
    last = now;
  }
  EXPECT_LT(smallest, 10u) << "ticks of 100 ns";
  lwmq_message_destroy(message);
}

// rows: S07 S12
TEST(MessageInC, RefusesTimestampsThatAreNone) {
  lwmq_message* message = made("frame");
  const auto refused = [&](std::uint32_t index, std::int32_t source, std::uint64_t ticks) -> std::string {
    if (lwmq_message_set_timestamp(message, index, source, ticks) != LWMQ_E_INVALID) return "not refused";
    return lwmq_last_error();
  };
  EXPECT_EQ(refused(1, LWMQ_TIMESTAMP_PRECISE, 0), "frame 1 of a message of 1");
  EXPECT_EQ(refused(0, 9, 0), "there is no source 9 of timestamps; there are 0 (none) to 3 (explicit)");
  EXPECT_EQ(refused(0, LWMQ_TIMESTAMP_EXPLICIT, 0),
            "0 ticks are no timestamp: LWMQ_TIMESTAMP_NONE takes one away");
  std::uint64_t ticks = 0;
  EXPECT_EQ(lwmq_message_timestamp(message, 1, &ticks), LWMQ_E_INVALID);
  EXPECT_EQ(lwmq_message_timestamp(nullptr, 0, &ticks), LWMQ_E_INVALID);
  lwmq_message_destroy(message);
}

}  // namespace
