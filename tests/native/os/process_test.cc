// links: base os
// What becomes of a process of ours when it forks, and the threads it starts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>

#include "os/identity.h"
#include "os/membarrier.h"
#include "os/thread.h"
#include "os/unique_fd.h"

namespace lwmq::os {
namespace {

template <typename Body>
int in_child(Body&& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Identity, IsAnotherOneInAForkedChild) {
  const lwmq_identity before = identity();
  EXPECT_EQ(before.pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(std::strlen(before.boot_id), 36U);
  EXPECT_NE(before.netns, 0U);
  EXPECT_EQ(in_child([&] {
              const bool another =
                  std::memcmp(before.instance, identity().instance, sizeof before.instance) != 0 &&
                  identity().pid == static_cast<std::uint32_t>(getpid());
              return another ? 0 : 1;
            }),
            0);
}

TEST(Identity, AChildIsForkedOnlyIfItsParentHadBegunToUseTheLibrary) {
  // A fresh process, in which nobody has asked yet.
  EXPECT_EQ(in_child([] {
              const pid_t unused = fork();
              if (unused == 0) _exit(forked() ? 1 : 0);
              int status = 0;
              waitpid(unused, &status, 0);
              if (WEXITSTATUS(status) != 0 || forked()) return 1;
              const pid_t used = fork();
              if (used == 0) _exit(forked() ? 0 : 2);
              waitpid(used, &status, 0);
              return WEXITSTATUS(status);
            }),
            0);
}

TEST(UniqueFd, IsClosedInAForkedChildAndNeverTwice) {
  UniqueFd held(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(in_child([&] {
              if (fcntl(held.get(), F_GETFD) >= 0) return 1;
              const int successor = open("/dev/null", O_RDONLY);  // gets the same number
              if (successor != held.get()) return 2;
              held.reset();
              return fcntl(successor, F_GETFD) >= 0 ? 0 : 3;
            }),
            0);
  EXPECT_GE(fcntl(held.get(), F_GETFD), 0);
  const int number = held.get();
  held.reset();
  EXPECT_LT(fcntl(number, F_GETFD), 0);
}

TEST(Thread, HasItsNameAndBlocksEverySignal) {
  struct Seen {
    char name[16];
    sigset_t blocked;
  } seen{};
  pthread_t thread{};
  ASSERT_EQ(start_thread(
                "lwmq-test",
                [](void* context) {
                  auto* out = static_cast<Seen*>(context);
                  pthread_sigmask(SIG_SETMASK, nullptr, &out->blocked);
                },
                &seen, &thread),
            LWMQ_OK);
  pthread_join(thread, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD})
    EXPECT_EQ(sigismember(&seen.blocked, number), 1);
  sigset_t ours;
  pthread_sigmask(SIG_SETMASK, nullptr, &ours);
  EXPECT_EQ(sigismember(&ours, SIGINT), 0) << "our own mask is as before";
}

// Dekker's meeting: without the sleeper's heavy barrier both sides would now and then miss each other.
TEST(Membarrier, NeverLetsBothSidesMissEachOther) {
  std::atomic<int> item{0};
  std::atomic<int> waiting{0};
  std::atomic<int> turn{0};
  std::atomic<int> poster_saw{0};
  constexpr int kTurns = 3000;
  const bool registered = membarrier_available();
  struct Shared {
    std::atomic<int>*item, *waiting, *turn, *poster_saw;
    bool registered;
  } shared{&item, &waiting, &turn, &poster_saw, registered};
  pthread_t thread{};
  ASSERT_EQ(start_thread(
                "poster",
                [](void* context) {
                  const auto* s = static_cast<Shared*>(context);
                  for (int i = 1; i <= kTurns; ++i) {
                    while (s->turn->load(std::memory_order_acquire) != 2 * i - 1) {
                    }
                    s->item->store(i, std::memory_order_relaxed);
                    light_barrier(s->registered);
                    s->poster_saw->store(s->waiting->load(std::memory_order_relaxed) == i,
                                         std::memory_order_relaxed);
                    s->turn->store(2 * i, std::memory_order_release);
                  }
                },
                &shared, &thread),
            LWMQ_OK);
  for (int i = 1; i <= kTurns; ++i) {
    turn.store(2 * i - 1, std::memory_order_release);
    waiting.store(i, std::memory_order_relaxed);
    heavy_barrier();
    const bool sleeper_saw = item.load(std::memory_order_relaxed) == i;
    while (turn.load(std::memory_order_acquire) != 2 * i) {
    }
    ASSERT_TRUE(sleeper_saw || poster_saw.load(std::memory_order_relaxed) != 0) << "turn " << i;
  }
  pthread_join(thread, nullptr);
}

}  // namespace
}  // namespace lwmq::os
