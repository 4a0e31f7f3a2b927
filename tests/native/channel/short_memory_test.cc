// A receiver whose memory gives out: what has come waits until there is some, and nothing is lost.
// wraps: malloc aligned_alloc _ZN4lwmq7message5Slabs4takeEv _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _Znwm
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/transport_group.h"

namespace {

thread_local std::int64_t t_allocations_left = INT64_MAX;
thread_local int t_unrefusable = 0;  // allocations that would have ended the process
thread_local bool t_is_of_test = false;
thread_local bool t_throws = false;  // where a container has no memory; else that is counted
std::atomic<bool> library_threads_are_refused{false};  // every other time
thread_local unsigned t_asked = 0;

bool allocation_is_refused() {
  return t_is_of_test ? t_allocations_left-- <= 0 : library_threads_are_refused && ++t_asked % 2 == 0;
}

}  // namespace

extern "C" {
void* __real_malloc(std::size_t bytes);
void* __real_aligned_alloc(std::size_t alignment, std::size_t bytes);
void* __real__ZN4lwmq7message5Slabs4takeEv(void* slabs);
void* __real__ZnwmRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t& tag);
void* __real__ZnamRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t& tag);
void* __real__Znwm(std::size_t bytes);
void* __wrap_malloc(std::size_t bytes) { return allocation_is_refused() ? nullptr : __real_malloc(bytes); }
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return allocation_is_refused() ? nullptr : __real_aligned_alloc(alignment, bytes);
}
// message::Slabs::take
void* __wrap__ZN4lwmq7message5Slabs4takeEv(void* slabs) {
  return allocation_is_refused() ? nullptr : __real__ZN4lwmq7message5Slabs4takeEv(slabs);
}
void* __wrap__ZnwmRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t& tag) {
  return allocation_is_refused() ? nullptr : __real__ZnwmRKSt9nothrow_t(bytes, tag);
}
void* __wrap__ZnamRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t& tag) {
  return allocation_is_refused() ? nullptr : __real__ZnamRKSt9nothrow_t(bytes, tag);
}
void* __wrap__Znwm(std::size_t bytes) {
  if (t_throws && allocation_is_refused()) throw std::bad_alloc();
  if (t_allocations_left <= 0) ++t_unrefusable;
  return __real__Znwm(bytes);
}
}

namespace lwmq::conformance {
namespace {

// A test that fails in between leaves no shortage to the next one.
struct NobodyIsRefusedBehind {
  ~NobodyIsRefusedBehind() { library_threads_are_refused = false; }
};

constexpr int kMessages = 400;
constexpr std::uint64_t kBuffer = 16384;

// What every message of the test looks like: small ones, copies with memory of their own, and such as stay
// where they landed; every seventh of two frames.
Frames frames_of_message(int i) {
  static constexpr std::size_t kBytes[] = {8, 40, 700, 6000, 90, 12000};
  std::string text = std::to_string(i) + ":";
  text.resize(std::max(text.size(), kBytes[i % 6]), static_cast<char>('a' + i % 26));
  return i % 7 == 0 ? Frames{text, "tail"} : Frames{text};
}

struct Taken {
  std::vector<Frames> messages;
  int refusals = 0;
  lwmq_status end = LWMQ_OK;
};

// One receive of some form; what it gave is appended.
lwmq_status receive_some(const End& end, unsigned form, lwmq_loan* loan, std::uint32_t timeout_ms,
                         std::vector<lwmq_message*>& kept, Taken& taken) {
  lwmq_message* messages[5] = {};
  std::uint32_t count = 0;
  if (form == 2) {
    const lwmq_lent* lent = nullptr;
    const lwmq_status status = lwmq_channel_receive_loan(end.channel, timeout_ms, loan, &lent, &count);
    t_allocations_left = INT64_MAX;
    for (std::uint32_t i = 0; i < count && status == LWMQ_OK; ++i) {
      taken.messages.push_back(lent[i].message != nullptr
                                   ? frames_of(lent[i].message)
                                   : Frames{{static_cast<const char*>(lent[i].data), lent[i].bytes}});
    }
    return status;
  }
  const lwmq_status status = form == 1
                                 ? lwmq_channel_receive_many(end.channel, 5, timeout_ms, messages, &count)
                                 : lwmq_channel_receive(end.channel, timeout_ms, &messages[0]);
  t_allocations_left = INT64_MAX;
  if (form == 0 && status == LWMQ_OK) count = 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    taken.messages.push_back(frames_of(messages[i]));
    kept.push_back(messages[i]);  // the pool of the thread stays empty
  }
  return status;
}

// Receives until the end of the peer, with memory for none to two allocations in most calls.
Taken receive_all(const End& end, unsigned form, unsigned seed) {
  Taken taken;
  std::mt19937 random(seed);
  std::vector<lwmq_message*> kept;
  lwmq_loan* loan = nullptr;
  EXPECT_EQ(lwmq_loan_create(5, &loan), LWMQ_OK);
  while (taken.end == LWMQ_OK) {
    const bool is_short = random() % 4 != 0;
    if (is_short) t_allocations_left = random() % 3;
    const lwmq_status status = receive_some(end, form, loan, is_short ? 20 : kLimitMs, kept, taken);
    if (status == LWMQ_E_NO_MEMORY) ++taken.refusals;
    if (status != LWMQ_OK && status != LWMQ_E_NO_MEMORY && status != LWMQ_E_TIMED_OUT) taken.end = status;
  }
  for (lwmq_message* message : kept) lwmq_message_destroy(message);
  lwmq_loan_destroy(loan);
  return taken;
}

void expect_all(const Taken& taken, const End& server) {
  ASSERT_EQ(taken.messages.size(), kMessages);
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(taken.messages[i], frames_of_message(i)) << "message " << i;
  EXPECT_EQ(taken.end, LWMQ_E_CLOSED);
  EXPECT_EQ(server.statistics().messages_received, kMessages);
}

class ShortOfMemory : public testing::TestWithParam<std::tuple<unsigned, std::uint32_t, bool>> {};

// rows: S05 L34
TEST_P(ShortOfMemory, AReceiverLosesNothing) {
  const auto [form, receive_queue, also_elsewhere] = GetParam();
  t_is_of_test = true;
  for (const Subject* each : {&kLoop, &kIpc}) {
    const Subject& subject = *each;
    SCOPED_TRACE(subject.name);
    const std::string address = subject.fresh_address();
    lwmq_channel_options options = channel_options(kBuffer, 16);
    options.receive_queue = receive_queue;
    const End server(address, LWMQ_ROLE_SERVER, options);
    Taken taken;
    const NobodyIsRefusedBehind end_of_shortage;
    // On a thread of its own, whose pool is empty.
    std::thread receiver([&] {
      t_is_of_test = true;
      taken = receive_all(server, form, 5);
      EXPECT_EQ(t_unrefusable, 0);
    });
    {
      const End client(address, LWMQ_ROLE_CLIENT, channel_options(kBuffer, 16));
      ASSERT_EQ(client.wait_connected(), LWMQ_OK) << lwmq_last_error();
      for (int i = 0; i < kMessages; ++i) {
        ASSERT_EQ(client.post(frames_of_message(i)), LWMQ_OK) << lwmq_last_error();
        library_threads_are_refused = also_elsewhere && i % 50 > 25;  // they land, and part from who has gone
        if (i % 40 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      library_threads_are_refused = also_elsewhere;
      EXPECT_EQ(client.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
    }
    receiver.join();
    expect_all(taken, server);
    // Over loop the messages themselves are passed; what was lent is recycled; a library's thread may have
    // made all that is in a queue.
    const bool needs_memory = each == &kIpc && form != 2 && receive_queue == LWMQ_QUEUE_MONO_UNBOUNDED;
    EXPECT_TRUE(taken.refusals > 0 || !needs_memory);
  }
}

// What a peer has left when it is gone may be more than there is room for: it waits, too.
TEST(ShortOfMemoryBehindThePeersEnd, NothingOfWhatItLeftIsLost) {
  t_is_of_test = true;
  const std::string address = kIpc.fresh_address();
  const End server(address, LWMQ_ROLE_SERVER, channel_options(kBuffer, 16));
  const NobodyIsRefusedBehind end_of_shortage;
  {
    const End client(address, LWMQ_ROLE_CLIENT, channel_options(kBuffer, 16));
    ASSERT_EQ(client.wait_connected(), LWMQ_OK);
    for (int i = 0; i < 200; ++i) ASSERT_EQ(client.post("small " + std::to_string(i)), LWMQ_OK);
    library_threads_are_refused = true;
    client.close(0);  // nobody has received anything
  }
  for (int i = 0; i < 200; ++i) ASSERT_EQ(server.receive_text(), "small " + std::to_string(i));
  EXPECT_EQ(server.receive_text(), "<LWMQ_E_CLOSED>");
}

// Where a server has no memory for one more transport, the client hears of it before it begins, and tries
// again: who was told that it is connected has its messages received.
TEST(ShortOfMemoryWhereOneConnects, NobodyBeginsInVain) {
  t_is_of_test = true;
  const std::string address = kIpc.fresh_address();
  const End server(address, LWMQ_ROLE_SERVER, channel_options(kBuffer, 16));
  const NobodyIsRefusedBehind end_of_shortage;
  for (int i = 0; i < 30; ++i) {
    SCOPED_TRACE(i);
    library_threads_are_refused = true;
    {
      const End client(address, LWMQ_ROLE_CLIENT, channel_options(kBuffer, 16));
      lwmq_status status = client.wait_connected();
      library_threads_are_refused = status != LWMQ_E_NO_MEMORY;  // until it is told
      while (status == LWMQ_E_NO_MEMORY) status = client.wait_connected();
      ASSERT_EQ(status, LWMQ_OK) << lwmq_last_error();
      ASSERT_EQ(client.post("here"), LWMQ_OK);
      client.close(0);
    }
    ASSERT_EQ(server.receive_text(), "here");
    ASSERT_EQ(server.receive_text(), "<LWMQ_E_CLOSED>");
  }
}

// One message of two ways, and no memory for it: said, and received when there is some.
TEST(ShortOfMemoryOverTwoWays, AReceiveSaysSo) {
  t_is_of_test = true;
  const std::string address = kIpc.fresh_address();
  lwmq_transport_options way{};
  way.size = sizeof way;
  way.redundant = 1;
  End ends[2];
  for (int i = 0; i < 2; ++i) {
    ends[i].create(address, channel_options(kBuffer, 16));
    ASSERT_EQ(lwmq_channel_add_transport(ends[i].channel, (address + "-b").c_str(), &way), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_open(ends[i].channel, i == 0 ? LWMQ_ROLE_SERVER : LWMQ_ROLE_CLIENT), LWMQ_OK);
  }
  ASSERT_EQ(ends[0].wait_connected(), LWMQ_OK);
  ASSERT_EQ(ends[1].post("over both"), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_flush(ends[1].channel, kLimitMs), LWMQ_OK);
  std::thread([&] {  // whose pool is empty
    t_is_of_test = true;
    lwmq_message* message = nullptr;
    t_allocations_left = 0;
    const lwmq_status status = lwmq_channel_receive(ends[0].channel, kLimitMs, &message);
    t_allocations_left = INT64_MAX;
    EXPECT_EQ(status, LWMQ_E_NO_MEMORY);
    EXPECT_EQ(ends[0].receive_text(), "over both");
    EXPECT_EQ(ends[0].receive_text(50), "<LWMQ_E_TIMED_OUT>");
  })
      .join();
}

// The same of the numbers: many queues, each of which the receiver has to remember.
TEST(ShortOfMemoryOverTwoWays, TheNumbersOfNewQueuesWait) {
  t_is_of_test = true;
  const std::string address = kIpc.fresh_address();
  lwmq_transport_options way{};
  way.size = sizeof way;
  way.redundant = 1;
  End ends[2];
  for (int i = 0; i < 2; ++i) {
    ends[i].create(address, channel_options(kBuffer, 16));
    ASSERT_EQ(lwmq_channel_add_transport(ends[i].channel, (address + "-b").c_str(), &way), LWMQ_OK);
    ASSERT_EQ(lwmq_channel_open(ends[i].channel, i == 0 ? LWMQ_ROLE_SERVER : LWMQ_ROLE_CLIENT), LWMQ_OK);
  }
  ASSERT_EQ(ends[0].wait_connected(), LWMQ_OK);
  constexpr int kQueues = 60;
  for (int i = 0; i < kQueues; ++i) {
    lwmq_send_queue* queue = nullptr;
    ASSERT_EQ(lwmq_channel_add_send_queue(ends[1].channel, nullptr, &queue), LWMQ_OK);
    ASSERT_EQ(lwmq_send_queue_post_bytes(queue, &i, sizeof i), LWMQ_OK);
  }
  ASSERT_EQ(lwmq_channel_flush(ends[1].channel, kLimitMs), LWMQ_OK);
  std::vector<lwmq_message*> kept;
  std::set<int> received;
  int refusals = 0;
  for (unsigned seed = 0; received.size() < kQueues && !HasFailure(); ++seed) {
    lwmq_message* message = nullptr;
    t_allocations_left = seed % 5;
    t_throws = true;
    const lwmq_status status = lwmq_channel_receive(ends[0].channel, 20, &message);
    t_throws = false;
    t_allocations_left = INT64_MAX;
    if (status == LWMQ_E_NO_MEMORY) ++refusals;
    if (status != LWMQ_OK) continue;
    int i = 0;
    const std::string bytes = frames_of(message).at(0);
    std::memcpy(&i, bytes.data(), sizeof i);
    EXPECT_TRUE(received.insert(i).second) << "once";
    kept.push_back(message);
  }
  EXPECT_GT(refusals, kQueues / 2);
  EXPECT_EQ(ends[0].receive_text(50), "<LWMQ_E_TIMED_OUT>");
  for (lwmq_message* message : kept) lwmq_message_destroy(message);
}

// Whatever is made: it is, or nothing is, and then it can be once there is memory.
TEST(ShortOfMemoryWhereSomethingIsMade, NothingEndsAndNothingIsHalfMade) {
  t_is_of_test = true;
  const std::string suffix = "-whose-name-is-longer-than-a-string-holds-inline";
  const std::string address = kIpc.fresh_address() + suffix;
  const Meeting meeting(kLoop.fresh_address() + suffix);
  lwmq_channel* const channel = meeting.server.channel;
  lwmq_send_queue* const queue = meeting.server.queue;
  lwmq_router* router = nullptr;
  lwmq_selector* selector = nullptr;
  lwmq_observer* observer = nullptr;
  ASSERT_EQ(lwmq_router_create(&router), LWMQ_OK);
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  ASSERT_EQ(lwmq_observer_create(&observer), LWMQ_OK);
  lwmq_channel_options options = channel_options(1024, 4);
  options.receive_queue = LWMQ_QUEUE_MULTI_UNBOUNDED;
  const char* const pattern = "orders.#.of-more-than-sixteen-letters.*.new";
  const std::string topic = "orders.a.b.of-more-than-sixteen-letters.c.new";
  struct Made {
    const char* what;
    std::function<lwmq_status()> make;
  };
  const std::string several_at[2] = {kIpc.fresh_address(), kLoop.fresh_address()};
  End several;
  several.create(several_at[0], channel_options(1024, 4));
  lwmq_send_queue* several_queues[3] = {several.queue};
  for (int i = 1; i < 3; ++i)
    ASSERT_EQ(lwmq_channel_add_send_queue(several.channel, nullptr, &several_queues[i]), LWMQ_OK);
  const std::vector<Made> all = {
      {"a further transport",
       [&] {
         lwmq_transport_options further{};
         further.size = sizeof further;
         further.redundant = 1;
         return lwmq_channel_add_transport(several.channel, several_at[1].c_str(), &further);
       }},
      {"a channel",
       [&] {
         lwmq_channel* made = nullptr;
         const lwmq_status status = lwmq_channel_create(address.c_str(), &options, &made);
         if (status == LWMQ_OK) lwmq_channel_destroy(made);
         return status;
       }},
      {"a send queue",
       [&] {
         lwmq_send_queue_options tagged{};
         tagged.size = sizeof tagged;
         tagged.kind = LWMQ_QUEUE_MULTI_UNBOUNDED_TAGGED;
         lwmq_send_queue* made = nullptr;
         return lwmq_channel_add_send_queue(channel, &tagged, &made);
       }},
      {"requests",
       [&] {
         lwmq_requests* made = nullptr;
         const lwmq_status status = lwmq_requests_create(channel, nullptr, &made);
         lwmq_requests_destroy(made);
         return status;
       }},
      {"a router",
       [&] {
         lwmq_router* made = nullptr;
         const lwmq_status status = lwmq_router_create(&made);
         lwmq_router_destroy(made);
         return status;
       }},
      {"a route", [&] { return lwmq_router_add(router, 0, pattern, "workers", queue); }},
      {"a post to a route",
       [&] {
         const std::int64_t left = std::exchange(t_allocations_left, INT64_MAX);
         lwmq_message* message = make_message({topic});
         t_allocations_left = left;
         std::uint32_t queues = 0;
         const lwmq_status status = lwmq_router_post(router, &message, &queues);
         EXPECT_EQ(queues, status == LWMQ_OK ? 1u : 0u);
         EXPECT_EQ(message == nullptr, status == LWMQ_OK);
         lwmq_message_destroy(message);
         return status;
       }},
      {"a selector",
       [&] {
         lwmq_selector* made = nullptr;
         const lwmq_status status = lwmq_selector_create(&made);
         lwmq_selector_destroy(made);
         return status;
       }},
      {"a member of a selector", [&] { return lwmq_selector_add(selector, channel); }},
      {"a look",
       [&] {
         std::uint64_t processes = 0;
         return lwmq_observer_look(observer, &processes);
       }},
  };
  for (const Made& made : all) {
    SCOPED_TRACE(made.what);
    lwmq_status status = LWMQ_E_NO_MEMORY;
    int allocations = 0;
    for (; status == LWMQ_E_NO_MEMORY && allocations < 2000; ++allocations) {
      t_allocations_left = allocations;
      t_throws = true;
      status = made.make();
      t_throws = false;
      t_allocations_left = INT64_MAX;
    }
    EXPECT_EQ(status, LWMQ_OK) << lwmq_last_error();
    EXPECT_GT(allocations, 1) << "none was refused";
  }
  ASSERT_EQ(lwmq_channel_open(several.channel, LWMQ_ROLE_SERVER), LWMQ_OK) << lwmq_last_error();
  End other = end_at_both(several_at, LWMQ_ROLE_CLIENT, true, channel_options(1024, 4));
  for (lwmq_send_queue* one : several_queues) ASSERT_EQ(lwmq_send_queue_post_bytes(one, "once", 4), LWMQ_OK);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(other.receive_text(), "once") << lwmq_last_error();
  EXPECT_EQ(other.receive_text(20), "<LWMQ_E_TIMED_OUT>");
  EXPECT_EQ(meeting.client.receive_text(), topic) << "posted once";
  EXPECT_EQ(meeting.client.receive_text(20), "<LWMQ_E_TIMED_OUT>");
  ASSERT_EQ(meeting.client.post("x"), LWMQ_OK);
  lwmq_channel* given = nullptr;
  lwmq_message* message = nullptr;
  EXPECT_EQ(lwmq_selector_receive(selector, kLimitMs, &given, &message), LWMQ_OK);
  lwmq_message_destroy(message);
  lwmq_observer_destroy(observer);
  lwmq_selector_destroy(selector);
  lwmq_router_destroy(router);
}

INSTANTIATE_TEST_SUITE_P(EveryFormAndQueue, ShortOfMemory,
                         testing::Combine(testing::Values(0u, 1u, 2u),
                                          testing::Values(LWMQ_QUEUE_MONO_UNBOUNDED,
                                                          LWMQ_QUEUE_MULTI_UNBOUNDED),
                                          testing::Bool()));

}  // namespace
}  // namespace lwmq::conformance
