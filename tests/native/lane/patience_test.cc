// What a wait does before it sleeps: seconds do not count here, but how often it asks.
#include "lane/patience.h"

#include <gtest/gtest.h>

namespace lwmq::lane {
namespace {

constexpr std::uint32_t kLongMs = 1000;

class PatienceTest : public testing::Test {
 protected:
  PatienceTest() {
    lwmq_tli_options own{};
    own.purpose = LWMQ_TLI_FOR_MESSAGES;
    patience_.init(own, 4, 65536);
  }
  // How often a wait that finds nothing asks whether it is ready.
  int asks_of_look(std::uint32_t what, std::uint32_t timeout_ms) {
    int asks = 0;
    const auto never = [&] { return ++asks < 0; };
    EXPECT_FALSE(patience_.look(what, timeout_ms, never, [] { return false; }));
    return asks;
  }

  Patience patience_;
};

TEST_F(PatienceTest, LooksOnceWhereNobodyWaits) { EXPECT_EQ(asks_of_look(LWMQ_TLI_WAIT_EXTENT, 0), 1); }

TEST_F(PatienceTest, LooksLongBeforeItSleeps) {
  EXPECT_EQ(asks_of_look(LWMQ_TLI_WAIT_EXTENT, kLongMs), 1 + static_cast<int>(os::kSpinGlances));
  EXPECT_EQ(asks_of_look(LWMQ_TLI_WAIT_ROOM, kLongMs), 1 + static_cast<int>(os::kSpinGlances));
}

TEST_F(PatienceTest, LooksNotAgainWhereItHasLooked) {
  patience_.look_for_extent(
      1, true, [] { return false; }, [] { return false; });
  EXPECT_EQ(asks_of_look(LWMQ_TLI_WAIT_ROOM, kLongMs), 1 + static_cast<int>(os::kSpinGlances));
  EXPECT_EQ(asks_of_look(LWMQ_TLI_WAIT_EXTENT, kLongMs), 1);
  EXPECT_EQ(asks_of_look(LWMQ_TLI_WAIT_EXTENT, kLongMs), 1 + static_cast<int>(os::kSpinGlances));
}

TEST_F(PatienceTest, LooksLessWhereTheLastSleepWasLong) {
  patience_.slept(LWMQ_TLI_WAIT_EXTENT, 1'000'000'000);
  EXPECT_EQ(asks_of_look(LWMQ_TLI_WAIT_EXTENT, kLongMs), 1 + static_cast<int>(os::kSpinGlances / 2));
  EXPECT_EQ(asks_of_look(LWMQ_TLI_WAIT_ROOM, kLongMs), 1 + static_cast<int>(os::kSpinGlances));
}

}  // namespace
}  // namespace lwmq::lane
