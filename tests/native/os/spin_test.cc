// How long a thread looks before it sleeps, in glances: seconds do not count here.
#include "os/spin.h"

#include <gtest/gtest.h>

namespace lwmq::os {
namespace {

constexpr std::int64_t kLongNs = 1'000'000'000;

bool never() { return false; }

TEST(Glances, AreFewerAndFewerWhereThePeerTakesItsTimeAndAllAgainWhereItIsQuick) {
  Glances glances;
  EXPECT_EQ(glances.glances(), kSpinGlances);
  std::uint32_t before = glances.glances();
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(glances.spin_until(never));
    glances.slept(kLongNs);
    EXPECT_LE(glances.glances(), before);
    before = glances.glances();
  }
  EXPECT_LT(before, kSpinGlances / 10);
  EXPECT_GT(before, 0u);
  glances.slept(1000);
  EXPECT_EQ(glances.glances(), kSpinGlances);
}

TEST(Glances, AreMoreForBuffersThatTakeLongerThanAWakeUpToFill) {
  Glances small;
  small.expect_buffers(4096);
  Glances large;
  large.expect_buffers(std::uint64_t{1} << 20);
  Glances endless;
  endless.expect_buffers(std::uint64_t{1} << 40);
  EXPECT_LT(small.glances(), kSpinGlances + 100);
  EXPECT_GT(large.glances(), 3 * kSpinGlances);
  EXPECT_LT(endless.glances(), 100 * kSpinGlances) << "there is a limit";
  for (int i = 0; i < 20; ++i) {
    large.slept(kLongNs);
    endless.slept(kLongNs);
  }
  EXPECT_LT(large.glances(), kSpinGlances / 10) << "a peer that takes longer is not waited for so";
  EXPECT_LT(endless.glances(), kSpinGlances / 10);
  large.slept(200'000);
  EXPECT_GT(large.glances(), 3 * kSpinGlances) << "which is short for a megabyte";
}

}  // namespace
}  // namespace lwmq::os
