// links: base os
#include "os/robust_words.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "os/clock.h"
#include "os/futex.h"

namespace lwmq::os {
namespace {

constexpr std::size_t kWords = 1000;

RobustSlot* shared_slots() {
  return static_cast<RobustSlot*>(
      mmap(nullptr, kWords * sizeof(RobustSlot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}

void wait_until_held(const RobustSlot& slot) {
  while (!is_held(slot.word)) usleep(100);
}

TEST(RobustWords, EveryOneIsMarkedAndItsSleeperWokenWhenTheHolderIsKilled) {
  RobustSlot* slots = shared_slots();
  const pid_t pid = fork();
  if (pid == 0) {
    if (hold_robust_words(slots, kWords) != LWMQ_OK) _exit(1);
    for (;;) pause();
  }
  wait_until_held(slots[kWords - 1]);
  std::thread sleepers[3];
  const std::size_t indices[3] = {0, 500, kWords - 1};
  for (int i = 0; i < 3; ++i) {
    sleepers[i] = std::thread([slots, index = indices[i]] {
      const std::uint32_t held = slots[index].word.load();
      while (is_held(slots[index].word)) futex_wait(slots[index].word, held, -1);
    });
  }
  usleep(30'000);
  kill(pid, SIGKILL);
  for (auto& sleeper : sleepers) sleeper.join();
  for (std::size_t i = 0; i < kWords; ++i) EXPECT_FALSE(is_held(slots[i].word)) << i;
  waitpid(pid, nullptr, 0);
}

TEST(RobustWords, EndWithTheirThreadAndCanBeHeldAgain) {
  RobustSlot* slots = shared_slots();
  EXPECT_FALSE(is_held(slots[0].word)) << "before anybody holds it";
  for (int round = 0; round < 2; ++round) {
    std::thread holder([&] {
      EXPECT_EQ(hold_robust_words(slots, 3), LWMQ_OK);
      EXPECT_TRUE(is_held(slots[2].word));
      if (round == 0) drop_robust_words();
    });
    holder.join();
    EXPECT_FALSE(is_held(slots[2].word));
  }
}

}  // namespace
}  // namespace lwmq::os
