// Threads with a channel each stand in nobody's way, one core is enough for two, and two copies of the
// library in one process are two worlds.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "least_of.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {
thread_local long t_locks = 0;
}

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto real =
      reinterpret_cast<int (*)(pthread_mutex_t*)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++t_locks;
  return real(mutex);
}
#endif

namespace lwmq::conformance {
namespace {

// The whole process on one core, until the end of the scope.
class OneCore {
 public:
  OneCore() {
    sched_getaffinity(0, sizeof before_, &before_);
    int core = 0;
    while (!CPU_ISSET(core, &before_)) ++core;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    set(one);
  }
  ~OneCore() { set(before_); }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  static void set(const cpu_set_t& cores) {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      sched_setaffinity(std::stoi(task.path().filename()), sizeof cores, &cores);
  }
  cpu_set_t before_{};
};

// How often the calling thread gave its core away to wait.
long waits() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

class OwnThreads : public testing::TestWithParam<Subject> {};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Else the next test would find none whatever is taken.
TEST_P(OwnThreads, TheLocksThatOpeningTakesAreCounted) {
  const long before = t_locks;
  const Meeting meeting(GetParam().fresh_address());
  EXPECT_GT(t_locks, before);
}

// So that they get done as much more as there are cores; how much, tests/bench says (cores).
// rows: K02 K52 Z19
TEST_P(OwnThreads, ThreadsWithAChannelEachTakeNoLock) {
  constexpr int kThreads = 4;
  constexpr int kExchanges = 20'000;
  const auto most_locks = [this] {
    std::vector<long> locks(kThreads);
    std::vector<std::thread> threads;
    for (long& taken : locks) {
      threads.emplace_back([&taken, this] {
        const Meeting meeting(GetParam().fresh_address());
        exchange(meeting, "there", 5, 1000);  // pools fill
        const long before = t_locks;
        exchange(meeting, "there", 5, kExchanges);
        taken = t_locks - before;
      });
    }
    for (auto& thread : threads) thread.join();
    return *std::max_element(locks.begin(), locks.end());
  };
  // Where a thread loses its core in the middle, the service thread may have to be asked.
  constexpr long kFew = kExchanges / 100;
  EXPECT_LE(least_of(5, kFew, most_locks), kFew);
}
#endif

// rows: K02
TEST_P(OwnThreads, ThreadsWithAChannelEachRunBesideEachOther) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int round = 0; round < 5; ++round) {
        const Meeting meeting(GetParam().fresh_address());
        exchange(meeting, "there", 5, 500);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

// rows: K05
TEST_P(OwnThreads, OneThreadOnOneCoreNeverGivesItAway) {
  const Meeting meeting(GetParam().fresh_address());
  const OneCore here;
  exchange(meeting, "there", 5, 1000);
  constexpr int kExchanges = 50'000;
  constexpr long kFew = kExchanges / 50;
  const long given = least_of(5, kFew, [&] {
    const long before = waits();
    exchange(meeting, "there", 5, kExchanges);
    return waits() - before;
  });
  EXPECT_LE(given, kFew);
}

// rows: K05
TEST_P(OwnThreads, TwoThreadsOnOneCoreGiveItAwayOnceForEachMessage) {
  const Meeting meeting(GetParam().fresh_address());
  const OneCore here;
  constexpr int kExchanges = 3000;
  const auto measure = [&meeting] {
    long waits_answering = 0;
    std::thread answering([&] {
      for (int i = 0; i < 2 * kExchanges; ++i) {
        if (i == kExchanges) waits_answering = -waits();
        lwmq_message* message = nullptr;
        ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, kLimitMs, &message), LWMQ_OK);
        ASSERT_EQ(lwmq_send_queue_post(meeting.server.queue, &message), LWMQ_OK);
      }
      waits_answering += waits();
    });
    const auto ask = [&meeting] {
      for (int i = 0; i < kExchanges; ++i) {
        ASSERT_EQ(meeting.client.post("there"), LWMQ_OK);
        ASSERT_EQ(meeting.client.receive_text(), "there");
      }
    };
    ask();
    const long before = waits();
    ask();
    const long waits_asking = waits() - before;
    answering.join();
    return waits_asking + waits_answering;
  };
  constexpr long kOnceEach = 2 * kExchanges * 6 / 5;
  EXPECT_LE(least_of(5, kOnceEach, measure), kOnceEach);
}

// Who waits takes the landing side again and again: who wants it once comes in between.
TEST_P(OwnThreads, ADescriptorIsMadeBesideAThreadThatWaitsOnTheSameCore) {
  for (int round = 0; round < 3; ++round) {
    const Meeting meeting(GetParam().fresh_address());
    const OneCore here;
    std::string got;
    std::thread waiting([&] { got = meeting.server.receive_text(LWMQ_FOREVER); });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it waits by now, most times
    std::int32_t fd = -1;
    EXPECT_EQ(lwmq_channel_descriptor(meeting.server.channel, &fd), LWMQ_OK) << lwmq_last_error();
    EXPECT_GE(fd, 0);
    EXPECT_EQ(meeting.client.post("still heard"), LWMQ_OK);
    waiting.join();
    EXPECT_EQ(got, "still heard");
  }
}

INSTANTIATE_TEST_SUITE_P(Loop, OwnThreads, testing::Values(kLoop), name_of);
INSTANTIATE_TEST_SUITE_P(Ipc, OwnThreads, testing::Values(kIpc), name_of);

// A second copy of the library, as two components of an application may bring it.
class SecondCopy {
 public:
  SecondCopy() {
    // We hold the first one ourselves, as an application that is linked with it.
    const auto library = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../liblwmq.so";
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(library_, nullptr) << dlerror();
  }

  template <typename Function>
  Function* find(Function*, const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

 private:
  void* library_ = nullptr;  // stays: its threads run to the end of the process
};
#define OF(copy, function) (copy).find(&function, #function)

// rows: Z18
TEST(TwoCopies, OfTheLibraryInOneProcessAreIsolatedAndMeetAsTwoProcessesDo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer knows each global once";
#endif
  const SecondCopy copy;
  ASSERT_NE(OF(copy, lwmq_channel_create), &lwmq_channel_create);
  const auto options = channel_options(1024, 4);

  // What is inside of one is not there for the other.
  const std::string inside = kLoop.fresh_address();
  const End here(inside, LWMQ_ROLE_SERVER, options);
  lwmq_channel* there = nullptr;
  ASSERT_EQ(OF(copy, lwmq_channel_create)(inside.c_str(), &options, &there), LWMQ_OK);
  ASSERT_EQ(OF(copy, lwmq_channel_open)(there, LWMQ_ROLE_CLIENT), LWMQ_OK);
  EXPECT_EQ(OF(copy, lwmq_channel_wait_connected)(there, 200), LWMQ_E_TIMED_OUT);
  EXPECT_EQ(OF(copy, lwmq_channel_close)(there, 0), LWMQ_OK);
  OF(copy, lwmq_channel_destroy)(there);

  // Over shared memory they are two like any others, and the end of the one is not the other's.
  const std::string between = kIpc.fresh_address();
  const End server(between, LWMQ_ROLE_SERVER, options);
  for (int round = 0; round < 3; ++round) {
    lwmq_send_queue* queue = nullptr;
    ASSERT_EQ(OF(copy, lwmq_channel_create)(between.c_str(), &options, &there), LWMQ_OK);
    ASSERT_EQ(OF(copy, lwmq_channel_add_send_queue)(there, nullptr, &queue), LWMQ_OK);
    ASSERT_EQ(OF(copy, lwmq_channel_open)(there, LWMQ_ROLE_CLIENT), LWMQ_OK);
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(OF(copy, lwmq_send_queue_post_bytes)(queue, "hello", 5), LWMQ_OK);
      ASSERT_EQ(server.receive_text(), "hello");
    }
    ASSERT_EQ(OF(copy, lwmq_channel_close)(there, kLimitMs), LWMQ_OK);
    OF(copy, lwmq_channel_destroy)(there);
    EXPECT_EQ(server.receive()[0], "LWMQ_E_CLOSED");
  }
}

}  // namespace
}  // namespace lwmq::conformance
