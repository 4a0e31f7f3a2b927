// links: base os
#include "os/futex.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "os/clock.h"

namespace lwmq::os {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(Futex, DoesNotSleepOnAWordThatHasChanged) {
  const std::atomic<std::uint32_t> word{2};
  EXPECT_EQ(futex_wait(word, 1, -1), WaitResult::kChanged);
  const std::atomic<std::uint32_t> other{1};
  const FutexWord words[] = {{&other, 1}, {&word, 1}};
  EXPECT_EQ(futex_wait_any(words, 2, -1), WaitResult::kChanged);
}

TEST(Futex, TimesOut) {
  const std::atomic<std::uint32_t> word{1};
  const FutexWord words[] = {{&word, 1}, {&word, 1}};
  const std::int64_t begin = now_ns();
  EXPECT_EQ(futex_wait(word, 1, 20 * kMs), WaitResult::kTimedOut);
  EXPECT_EQ(futex_wait_any(words, 2, 20 * kMs), WaitResult::kTimedOut);
  EXPECT_GE(now_ns() - begin, 40 * kMs);
}

TEST(Futex, AnyOfManyWordsWakesAnotherProcessThatHasThemReadOnly) {
  const int fd = memfd_create("futex-test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  auto* ours = static_cast<std::atomic<std::uint32_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  const auto* theirs =
      static_cast<const std::atomic<std::uint32_t>*>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0));
  const pid_t pid = fork();
  if (pid == 0) {
    FutexWord words[kFutexWordsMax];
    for (std::size_t i = 0; i < kFutexWordsMax; ++i) words[i] = {theirs + i, 0};
    while (theirs[100].load() == 0) futex_wait_any(words, kFutexWordsMax, -1);
    _exit(7);
  }
  usleep(30'000);
  ours[100].store(1);
  futex_wake_all(ours[100]);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  close(fd);
}

void on_signal(int /*number*/) {}

TEST(Futex, ReportsASignal) {
  struct sigaction action {};
  action.sa_handler = on_signal;  // no SA_RESTART
  sigaction(SIGUSR1, &action, nullptr);
  const std::atomic<std::uint32_t> word{1};
  const FutexWord words[] = {{&word, 1}, {&word, 1}};
  const pthread_t self = pthread_self();
  std::atomic<bool> done{false};
  std::thread signaller([&] {
    while (!done.load()) {
      usleep(5'000);
      pthread_kill(self, SIGUSR1);
    }
  });
  EXPECT_EQ(futex_wait(word, 1, -1), WaitResult::kInterrupted);
  EXPECT_EQ(futex_wait_any(words, 2, -1), WaitResult::kInterrupted);
  done.store(true);
  signaller.join();
}

}  // namespace
}  // namespace lwmq::os
