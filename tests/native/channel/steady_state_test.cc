// What a channel that is under way costs: no allocation, few system calls, no wake-ups, no thread hand-over.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "least_of.h"
#include "scheduler/send_queue.h"

// Counts what this executable asks the heap for. A sanitizer brings its own heap, which must not be replaced.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LWMQ_HEAP_IS_COUNTED 0
#else
#define LWMQ_HEAP_IS_COUNTED 1
static std::atomic<std::uint64_t> g_allocations{0};
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void* malloc(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

#if LWMQ_HEAP_IS_COUNTED
// How often that asks the heap. What grows only because a thread lost its core has grown then: the next
// window has it.
template <typename Work>
std::uint64_t allocations_of(Work&& work) {
  return least_of(3, std::uint64_t{0}, [&] {
    const std::uint64_t before = g_allocations;
    work();
    return g_allocations - before;
  });
}

// More than the buffers hold, both ways: the queues get their chunks. Later a thread that loses its core in
// the middle of shipping makes the next post wait in its queue, and the first one to wait there would pay for
// a chunk.
void pass_through_the_queues(const Meeting& meeting, const char* data, std::uint64_t bytes) {
  constexpr int kBurst = 20000;
  const auto burst = [&](lwmq_send_queue* queue, lwmq_channel* receiver) {
    for (int i = 0; i < kBurst; ++i) ASSERT_EQ(lwmq_send_queue_post_bytes(queue, data, bytes), LWMQ_OK);
    for (int i = 0; i < kBurst; ++i) {
      lwmq_message* message = nullptr;
      ASSERT_EQ(lwmq_channel_receive(receiver, kLimitMs, &message), LWMQ_OK);
      lwmq_message_destroy(message);
    }
  };
  burst(meeting.client.queue, meeting.server.channel);
  burst(meeting.server.queue, meeting.client.channel);
}

// rows: Z01 Z04
TEST(SteadyState, AllocatesNothingForAMillionSmallMessages) {
  for (const Subject& subject : {kLoop, kIpc}) {
    const Meeting meeting(subject.fresh_address(), channel_options(65536, 8));
    const std::string content(100, 'x');
    pass_through_the_queues(meeting, content.data(), content.size());
    exchange(meeting, content.data(), content.size(), 10000);  // pools fill
    // A million messages made, posted, received, destroyed.
    EXPECT_EQ(allocations_of([&] { exchange(meeting, content.data(), content.size(), 250000); }), 0u)
        << subject.name;
  }
}

// rows: Z04
TEST(SteadyState, AllocatesNothingForAMillionMessagesOfAnyQueue) {
  constexpr std::uint32_t kSendKinds = SendQueue::kKinds, kReceiveKinds = 4;
  constexpr std::uint64_t kEach = 1'000'000 / (kSendKinds * kReceiveKinds) + 1;
  const std::uint32_t receive_kinds[kReceiveKinds] = {LWMQ_QUEUE_MONO_UNBOUNDED, LWMQ_QUEUE_MULTI_UNBOUNDED,
                                                      LWMQ_QUEUE_BOUNDED_DISCARD_OLDEST,
                                                      LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST};
  for (const Subject& subject : {kLoop, kIpc}) {
    for (const std::uint32_t receive_kind : receive_kinds) {
      auto options = channel_options(65536, 8);
      options.receive_queue = receive_kind;
      options.receive_capacity = SendQueue::is_bounded(receive_kind) ? 100 : 0;
      const Meeting meeting(subject.fresh_address(), options);
      for (std::uint32_t kind = 0; kind < kSendKinds; ++kind) {
        lwmq_send_queue_options queue_options{};
        queue_options.size = sizeof queue_options;
        queue_options.kind = kind;
        queue_options.capacity = SendQueue::is_bounded(kind) ? 100 : 0;
        lwmq_send_queue* queue = nullptr;
        ASSERT_EQ(lwmq_channel_add_send_queue(meeting.client.channel, &queue_options, &queue), LWMQ_OK);
        const auto pass = [&](std::uint64_t count) {
          for (std::uint64_t i = 0; i < count; ++i) {
            lwmq_message* message = nullptr;
            ASSERT_EQ(lwmq_message_create(1, &message), LWMQ_OK);
            ASSERT_EQ(lwmq_message_append(message, &i, sizeof i), LWMQ_OK);
            const std::uint64_t tag = SendQueue::is_tagged(kind) ? 1 + i % 5 : 0;
            ASSERT_EQ(lwmq_send_queue_post_tagged(queue, tag, &message), LWMQ_OK);
            ASSERT_EQ(lwmq_channel_receive(meeting.server.channel, kLimitMs, &message), LWMQ_OK);
            lwmq_message_destroy(message);
          }
        };
        pass(3000);  // pools fill
        EXPECT_EQ(allocations_of([&] { pass(kEach); }), 0u)
            << subject.name << ", send queue " << kind << ", receive queue " << receive_kind;
      }
    }
  }
}

// rows: Z04
TEST(SteadyState, AllocatesNothingForLargeMessagesThatAreReadWhereTheyLie) {
  for (const Subject& subject : {kLoop, kIpc}) {
    const Meeting meeting(subject.fresh_address(), channel_options(65536, 8));
    const std::string content(60000, 'x');
    exchange(meeting, content.data(), content.size(), 100);
    EXPECT_EQ(allocations_of([&] { exchange(meeting, content.data(), content.size(), 2000); }), 0u)
        << subject.name;
  }
}
#endif

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
// rows: Z04
TEST(SteadyState, AllocatesNothingForWhatIsLent) {
  const Meeting meeting(kIpc.fresh_address(), channel_options(65536, 8));
  lwmq_loan* loan = nullptr;
  ASSERT_EQ(lwmq_loan_create(64, &loan), LWMQ_OK);
  const std::string content(64, 'x');
  const std::vector<lwmq_bytes> frames(100, lwmq_bytes{content.data(), content.size()});
  const auto round = [&] {
    std::uint64_t posted = 0;
    ASSERT_EQ(lwmq_send_queue_post_many(meeting.client.queue, frames.data(), frames.size(), &posted),
              LWMQ_OK);
    for (std::uint32_t received = 0, count = 0; received < frames.size(); received += count) {
      const lwmq_lent* lent = nullptr;
      ASSERT_EQ(lwmq_channel_receive_loan(meeting.server.channel, kLimitMs, loan, &lent, &count), LWMQ_OK);
    }
  };
  for (int i = 0; i < 1000; ++i) round();
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < 1000; ++i) round();
            }),
            0u);
  lwmq_loan_destroy(loan);
}
#endif

// How often the threads of this process but the calling one have gone to sleep so far.
long switches_of_other_threads() {
  long sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(syscall(SYS_gettid))) continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("voluntary_ctxt_switches", 0) == 0)
        sum += std::stol(line.substr(line.find_first_of("0123456789")));
    }
  }
  return sum;
}

std::chrono::nanoseconds processor_time() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// What the idle process takes in that time, where it is `enough` at the third time at the latest.
std::chrono::nanoseconds processor_time_of(std::chrono::seconds idle, std::chrono::nanoseconds enough) {
  return least_of(3, enough, [&] {
    const auto before = processor_time();
    std::this_thread::sleep_for(idle);
    return processor_time() - before;
  });
}

// rows: S08
TEST(SteadyState, CostsLittleWhileItRetriesToConnect) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer costs more than the attempts";
#endif
  auto options = channel_options(1024, 2);
  options.retry_ms = 100;
  const End client(kIpc.fresh_address(), LWMQ_ROLE_CLIENT, options);
  ASSERT_EQ(client.post("for whoever comes"), LWMQ_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  // Thirty attempts; 5 ms on a quiet machine, several times that where each of them finds cold caches.
  EXPECT_LE(processor_time_of(std::chrono::seconds(3), 300ms), 300ms) << "a tenth of a core";
}

// rows: L56 K17
TEST(SteadyState, CostsLittleWhileThePeerReadsNothing) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer costs more than the looks";
#endif
  const Meeting meeting(kIpc.fresh_address(), channel_options(256, 2));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(meeting.client.post(std::string(200, 'x')), LWMQ_OK);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  // 5 ms on a quiet machine, 38 on one that compiles beside.
  EXPECT_LE(processor_time_of(std::chrono::seconds(2), 400ms), 400ms) << "a fifth of a core";
}

// rows: L30 K17
TEST(SteadyState, SleepsWithoutAnyWakeUpWhileItIsConnectedAndIdle) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has a thread of its own that wakes up";
#endif
  const Meeting meeting(kIpc.fresh_address());
  exchange(meeting, "warm", 4, 100);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // what follows an activity is over
  const long switches = least_of(3, 0L, [] {
    const long before = switches_of_other_threads();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return switches_of_other_threads() - before;
  });
  EXPECT_EQ(switches, 0) << "threads of the library woke up";
}

// rows: K17
TEST(SteadyState, SleepsWithoutAnyWakeUpWhileALoanWaitsInSlices) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer has a thread of its own that wakes up";
#endif
  const Meeting meeting(kIpc.fresh_address());
  exchange(meeting, "warm", 4, 100);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  lwmq_loan* loan = nullptr;
  ASSERT_EQ(lwmq_loan_create(16, &loan), LWMQ_OK);
  const lwmq_lent* lent = nullptr;
  std::uint32_t count = 0;
  const long switches = least_of(3, 0L, [&] {
    const long before = switches_of_other_threads();
    for (int i = 0; i < 10; ++i)
      EXPECT_EQ(lwmq_channel_receive_loan(meeting.server.channel, 100, loan, &lent, &count),
                LWMQ_E_TIMED_OUT);
    return switches_of_other_threads() - before;
  });
  EXPECT_EQ(switches, 0) << "threads of the library woke up";
  lwmq_loan_destroy(loan);
}

}  // namespace
}  // namespace lwmq::conformance
