// Requests and their replies, through lwmq.h.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "golden.h"

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

struct Asker {
  lwmq_requests* requests = nullptr;

  explicit Asker(const End& end, std::uint64_t outstanding_max = 0) {
    lwmq_requests_options options{};
    options.size = sizeof options;
    options.outstanding_max = outstanding_max;
    EXPECT_EQ(lwmq_requests_create(end.channel, &options, &requests), LWMQ_OK) << lwmq_last_error();
  }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  ~Asker() { lwmq_requests_destroy(requests); }

  [[nodiscard]] lwmq_message* make(const std::string& what) const {
    lwmq_message* message = nullptr;
    EXPECT_EQ(lwmq_requests_make(requests, &message), LWMQ_OK);
    EXPECT_EQ(lwmq_message_append(message, what.data(), what.size()), LWMQ_OK);
    return message;
  }
  std::uint64_t submit(const std::string& what, std::uint32_t timeout_ms = LWMQ_FOREVER) const {
    lwmq_message* message = make(what);
    std::uint64_t number = 0;
    EXPECT_EQ(lwmq_requests_submit(requests, &message, timeout_ms, &number), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(message, nullptr);
    return number;
  }
  // The answer; the name of the status where there is none.
  [[nodiscard]] std::string ask(const std::string& what, std::uint32_t timeout_ms = kLimitMs) const {
    lwmq_message* message = make(what);
    lwmq_message* reply = nullptr;
    const lwmq_status status = lwmq_requests_request(requests, &message, timeout_ms, &reply);
    EXPECT_EQ(message, nullptr);
    return text_of(status, reply);
  }
  std::pair<std::uint64_t, std::string> next(std::uint32_t timeout_ms = kLimitMs) const {
    std::uint64_t number = 0;
    lwmq_message* reply = nullptr;
    const lwmq_status status = lwmq_requests_next(requests, timeout_ms, &number, &reply);
    return {number, text_of(status, reply)};
  }
  [[nodiscard]] lwmq_requests_statistics statistics() const {
    lwmq_requests_statistics statistics{};
    statistics.size = sizeof statistics;
    EXPECT_EQ(lwmq_requests_query(requests, &statistics), LWMQ_OK);
    return statistics;
  }

  static std::string text_of(lwmq_status status, lwmq_message* reply) {
    if (status != LWMQ_OK) return std::string("<") + lwmq_status_name(status) + ">";
    const Frames frames = frames_of(reply);
    lwmq_message_destroy(reply);
    return frames.size() == 2 ? frames[1] : "<" + std::to_string(frames.size()) + " frames>";
  }
};

std::uint64_t sum_of(const lwmq_requests_statistics& s) {
  return s.outstanding + s.answered + s.failed + s.timed_out + s.lost + s.given_up;
}

// Answers what the other side asks until that has gone: "fail" with a failure, "hush" not at all, else with
// the text twice.
void serve(const End& end) {
  for (;;) {
    lwmq_message* request = nullptr;
    const lwmq_status status = lwmq_channel_receive(end.channel, kLimitMs, &request);
    if (status != LWMQ_OK) return;
    const std::string what = frames_of(request).at(1);
    lwmq_message* reply = nullptr;
    if (what == "fail") {
      EXPECT_EQ(lwmq_reply_make_failure(request, "ValueError", "no such thing", &reply), LWMQ_OK);
    } else if (what != "hush") {
      EXPECT_EQ(lwmq_reply_make(request, &reply), LWMQ_OK);
      EXPECT_EQ(lwmq_message_append(reply, (what + what).data(), 2 * what.size()), LWMQ_OK);
    }
    lwmq_message_destroy(request);
    if (reply == nullptr) continue;
    EXPECT_EQ(lwmq_send_queue_post(end.queue, &reply), LWMQ_OK) << lwmq_last_error();
  }
}

class Asking : public testing::TestWithParam<Subject> {
 protected:
  const std::string address_ = GetParam().fresh_address();
  End server_{address_, LWMQ_ROLE_SERVER, channel_options(1408, 8)};
  End client_{address_, LWMQ_ROLE_CLIENT, channel_options(1408, 8)};
  std::thread serving_;

  void SetUp() override { ASSERT_EQ(client_.wait_connected(), LWMQ_OK) << lwmq_last_error(); }
  void begin_serving() {
    serving_ = std::thread([this] { serve(server_); });
  }
  void TearDown() override {
    client_.destroy();
    if (serving_.joinable()) serving_.join();
  }
};
LWMQ_OVER_ALL_PROVIDERS(Asking);

// rows: L55 L56
TEST_P(Asking, ThousandsAreOutstandingAndEachHearsOfItsOwn) {
  const Asker asker(client_);
  std::map<std::uint64_t, std::string> expected;
  for (int i = 0; i < 3000; ++i) expected[asker.submit(std::to_string(i))] = std::to_string(i);
  EXPECT_EQ(expected.size(), 3000u);
  EXPECT_EQ(asker.statistics().outstanding, 3000u);
  begin_serving();
  while (!expected.empty()) {
    const auto [number, answer] = asker.next();
    const std::string what = expected[number];
    ASSERT_EQ(answer, what + what);
    expected.erase(number);
  }
  EXPECT_EQ(asker.next(0), std::make_pair(std::uint64_t{0}, std::string("<LWMQ_E_EMPTY>")));
  EXPECT_STREQ(lwmq_last_error(), "");
  EXPECT_EQ(asker.statistics().answered, 3000u);
}

TEST_P(Asking, WhoIsAskedMayFailOrSayNothing) {
  begin_serving();
  const Asker asker(client_);
  EXPECT_EQ(asker.ask("ha"), "haha");
  EXPECT_EQ(asker.ask("fail"), "<LWMQ_E_HANDLER>");
  EXPECT_EQ(std::string(lwmq_last_error()),
            "the peer's handler failed: ValueError: no such thing (" + address_ + ")");
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(asker.ask("hush", 50), "<LWMQ_E_TIMED_OUT>");
  EXPECT_GE(std::chrono::steady_clock::now() - begun, 50ms);
  EXPECT_EQ(std::string(lwmq_last_error()), "no reply to request 3 within 50 ms (" + address_ + ")");
  EXPECT_EQ(asker.ask("ho"), "hoho");
  const auto seen = asker.statistics();
  EXPECT_EQ(seen.answered, 2u);
  EXPECT_EQ(seen.failed, 1u);
  EXPECT_EQ(seen.timed_out, 1u);
  EXPECT_EQ(sum_of(seen), seen.asked);
}

// Each at its time, whatever the order in which they were asked; and what comes later is late.
TEST_P(Asking, TimesAreOverInTheirOrder) {
  const Asker asker(client_);
  std::vector<std::uint32_t> times = {180, 20, 100, 60, 140};
  using Instant = std::chrono::steady_clock::time_point;
  std::map<std::uint64_t, std::pair<Instant, Instant>> due;  // not before, and not after
  for (const std::uint32_t time : times) {
    const Instant before = std::chrono::steady_clock::now() + std::chrono::milliseconds(time);
    const std::uint64_t number = asker.submit("hush", time);
    due[number] = {before, std::chrono::steady_clock::now() + std::chrono::milliseconds(time)};
  }
  EXPECT_LE(asker.statistics().due_ms, 20u);
  const std::uint64_t patient = asker.submit("late", LWMQ_FOREVER);
  std::vector<std::uint64_t> over;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto [number, answer] = asker.next();
    EXPECT_EQ(answer, "<LWMQ_E_TIMED_OUT>");
    EXPECT_NE(std::string(lwmq_last_error()).find("no reply to request"), std::string::npos);
    ASSERT_EQ(due.count(number), 1u);
    over.push_back(number);
  }
  EXPECT_EQ(std::set(over.begin(), over.end()).size(), times.size()) << "each once";
  // They are asked at 40 ms from each other, unless this thread did not run for as long.
  constexpr auto kExact = 10ms;
  for (std::size_t i = 0; i < over.size(); ++i) {
    for (std::size_t later = i + 1; later < over.size(); ++later)
      EXPECT_LE(due[over[i]].first, due[over[later]].second + kExact) << i << ", " << later;
  }
  EXPECT_EQ(asker.statistics().due_ms, LWMQ_FOREVER);
  EXPECT_EQ(lwmq_requests_cancel(asker.requests, patient), LWMQ_OK);
  EXPECT_EQ(lwmq_requests_cancel(asker.requests, patient), LWMQ_E_EMPTY);
  begin_serving();
  EXPECT_EQ(asker.ask("ha"), "haha");
  EXPECT_EQ(asker.statistics().late, 1u) << "the five are hushed, the sixth was given up";
  EXPECT_EQ(asker.statistics().given_up, 1u);
}

TEST_P(Asking, ThePeersEndFailsWhatIsOutstanding) {
  const Asker asker(client_);
  std::set<std::uint64_t> asked;
  for (int i = 0; i < 10; ++i) asked.insert(asker.submit("hush"));
  server_.destroy();
  while (!asked.empty()) {
    const auto [number, answer] = asker.next();
    EXPECT_EQ(answer, "<LWMQ_E_CLOSED>");
    EXPECT_NE(std::string(lwmq_last_error()).find("has closed"), std::string::npos) << lwmq_last_error();
    ASSERT_EQ(asked.erase(number), 1u);
  }
  EXPECT_EQ(asker.next(0).second, "<LWMQ_E_EMPTY>");
  // Its successor is asked.
  const std::uint64_t waits = asker.submit("ha");
  server_ = End(address_, LWMQ_ROLE_SERVER, channel_options(1408, 8));
  begin_serving();
  EXPECT_EQ(asker.next(), std::make_pair(waits, std::string("haha")));
  EXPECT_EQ(asker.statistics().lost, 10u);
}

// Who asks a server that is there does not hear of the end of the one before.
TEST_P(Asking, TheEndOfAPeerFailsNothingThatWasAskedLater) {
  const auto wait_for_server = [this](std::uint32_t number) {
    lwmq_peer peer{};
    peer.size = sizeof peer;
    while (lwmq_channel_peer(client_.channel, 0, &peer) == LWMQ_OK &&
           (peer.number < number || peer.connected == 0))
      std::this_thread::sleep_for(1ms);
  };
  const Asker asker(client_);
  begin_serving();
  EXPECT_EQ(asker.ask("a"), "aa");
  for (std::uint32_t servers = 2; servers <= 4; ++servers) {
    const bool had_asked = servers != 2;
    std::uint64_t unanswered = 0;
    if (had_asked) unanswered = asker.submit("hush");
    server_.close(0);
    serving_.join();
    server_.destroy();
    server_ = End(address_, LWMQ_ROLE_SERVER, channel_options(1408, 8));
    begin_serving();
    wait_for_server(servers);
    if (servers == 4) {
      const std::uint64_t number = asker.submit("b");
      EXPECT_EQ(asker.next(), std::make_pair(unanswered, std::string("<LWMQ_E_CLOSED>")));
      EXPECT_EQ(asker.next(), std::make_pair(number, std::string("bb")));
      continue;
    }
    EXPECT_EQ(asker.ask("b"), "bb");
    if (had_asked) {
      EXPECT_EQ(asker.next(), std::make_pair(unanswered, std::string("<LWMQ_E_CLOSED>")));
    }
  }
  EXPECT_EQ(asker.statistics().late, 0u);
  EXPECT_EQ(asker.statistics().lost, 2u);
}

// Where `bytes` lie in memory that we share and may write, their byte `at` becomes `value`; so often.
int overwrite_in_shared_memory(const std::string& bytes, std::size_t at, char value) {
  int found = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " rw-s", &begin, &end) != 2 ||
        line.find(" rw-s ") == std::string::npos)
      continue;
    const std::string_view memory(reinterpret_cast<const char*>(begin), end - begin);
    for (std::size_t place = memory.find(bytes); place != std::string_view::npos;
         place = memory.find(bytes, place + 1), ++found)
      const_cast<char*>(memory.data())[place + at] = value;
  }
  return found;
}

// The peer can write into a large reply as long as it lies in its memory.
TEST(RequestsOverIpc, AReplyIsWhatItsHeadSaidOnce) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "reads all that it shares, beside threads that write there";
#endif
  const std::string address = kIpc.fresh_address();
  const Meeting meeting(address, channel_options(32 << 10, 16));
  const End& server = meeting.server;
  const End& client = meeting.client;
  const Asker asker(client);
  const std::uint64_t number = asker.submit("x");
  lwmq_message* request = nullptr;
  ASSERT_EQ(lwmq_channel_receive(server.channel, kLimitMs, &request), LWMQ_OK);
  lwmq_message* reply = nullptr;
  ASSERT_EQ(lwmq_reply_make(request, &reply), LWMQ_OK);
  const std::string large(20'000, 'y');
  ASSERT_EQ(lwmq_message_append(reply, large.data(), large.size()), LWMQ_OK);
  ASSERT_EQ(lwmq_send_queue_post(server.queue, &reply), LWMQ_OK);
  lwmq_message_destroy(request);
  ASSERT_EQ(lwmq_channel_receive(client.channel, kLimitMs, &reply), LWMQ_OK);
  std::string head = frames_of(reply).at(0);
  ASSERT_EQ(lwmq_requests_file(asker.requests, &reply), LWMQ_OK);
  ASSERT_EQ(overwrite_in_shared_memory(head, 5, 3), 1) << "the kind, as the server may";
  EXPECT_EQ(asker.next(), std::make_pair(number, large));
}

// What was settled, and then cancelled, counts no more.
TEST_P(Asking, WhatIsCancelledMakesRoom) {
  const Asker asker(client_, 4);
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < 4; ++i) numbers.push_back(asker.submit("hush"));
  lwmq_channel_receive(client_.channel, 0, nullptr);  // sets an error, for the text of the end
  ASSERT_EQ(lwmq_requests_lose(asker.requests, LWMQ_E_PEER_LOST), LWMQ_OK);
  for (const int i : {1, 3, 0, 2}) {
    EXPECT_EQ(lwmq_requests_cancel(asker.requests, numbers[i]), LWMQ_OK);
    EXPECT_EQ(lwmq_requests_cancel(asker.requests, numbers[i]), LWMQ_E_EMPTY);
  }
  begin_serving();
  for (int i = 0; i < 4; ++i) numbers[i] = asker.submit("a");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(asker.next(), std::make_pair(numbers[i], std::string("aa")));
}

TEST_P(Asking, OurOwnEndFailsItToo) {
  const Asker asker(client_);
  const std::uint64_t number = asker.submit("hush");
  ASSERT_EQ(client_.close(0), LWMQ_E_TIMED_OUT);
  EXPECT_EQ(asker.next(), std::make_pair(number, std::string("<LWMQ_E_CLOSED>")));
  EXPECT_EQ(asker.next().second, "<LWMQ_E_CLOSED>") << "and no wait without an end";
  lwmq_message* message = asker.make("more");
  std::uint64_t none = 0;
  EXPECT_EQ(lwmq_requests_submit(asker.requests, &message, 10, &none), LWMQ_E_CLOSED);
  EXPECT_NE(message, nullptr);
  client_.destroy();
  EXPECT_EQ(lwmq_requests_submit(asker.requests, &message, 10, &none), LWMQ_E_CLOSED);
  lwmq_message_destroy(message);
  EXPECT_EQ(asker.statistics().given_up, 1u);
}

TEST_P(Asking, RefusesWhatIsNoneOfItsRequests) {
  const Asker asker(client_, 2);
  const Asker other(client_);
  lwmq_message* message = make_message({"no head"});
  std::uint64_t number = 0;
  EXPECT_EQ(lwmq_requests_submit(asker.requests, &message, 10, &number), LWMQ_E_INVALID);
  lwmq_message_destroy(message);
  message = other.make("of another");
  EXPECT_EQ(lwmq_requests_submit(asker.requests, &message, 10, &number), LWMQ_E_INVALID);
  lwmq_message_destroy(message);
  message = asker.make("twice");
  lwmq_message* again = nullptr;
  ASSERT_EQ(lwmq_message_reference(message, &again), LWMQ_OK);
  ASSERT_EQ(lwmq_requests_submit(asker.requests, &message, LWMQ_FOREVER, &number), LWMQ_OK);
  EXPECT_EQ(lwmq_requests_submit(asker.requests, &again, LWMQ_FOREVER, &number), LWMQ_E_INVALID);
  lwmq_message_destroy(again);
  asker.submit("as many as may be");
  message = asker.make("one too many");
  EXPECT_EQ(lwmq_requests_submit(asker.requests, &message, 10, &number), LWMQ_E_FULL);
  lwmq_message_destroy(message);
  message = make_message({"no head"});
  EXPECT_EQ(lwmq_reply_make(message, &again), LWMQ_E_CORRUPT);
  lwmq_message_destroy(message);
}

// What is no reply, or another one's, is counted and dropped.
TEST_P(Asking, DropsWhatIsNoReply) {
  const Asker asker(client_);
  const Asker other(client_);
  const std::uint64_t number = asker.submit("x");
  lwmq_message* request = nullptr;
  ASSERT_EQ(lwmq_channel_receive(server_.channel, kLimitMs, &request), LWMQ_OK);
  ASSERT_EQ(server_.post("stray"), LWMQ_OK);
  std::string head = frames_of(request).at(0);
  head[5] = 3;
  ASSERT_EQ(server_.post(Frames{head, "a failure", "of", "too many frames"}), LWMQ_OK);
  ASSERT_EQ(server_.post(Frames{head, std::string(1001, 'x'), "too long"}), LWMQ_OK);
  head[5] = 2, head[8] ^= 1;
  ASSERT_EQ(server_.post(Frames{head, "foreign"}), LWMQ_OK);
  lwmq_message* reply = nullptr;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(lwmq_reply_make(request, &reply), LWMQ_OK);
    ASSERT_EQ(lwmq_message_append(reply, "y", 1), LWMQ_OK);
    ASSERT_EQ(lwmq_send_queue_post(server_.queue, &reply), LWMQ_OK);
  }
  lwmq_message_destroy(request);
  EXPECT_EQ(asker.next(), std::make_pair(number, std::string("y")));
  while (asker.statistics().late == 0) ASSERT_EQ(asker.next(0).second, "<LWMQ_E_EMPTY>");
  EXPECT_EQ(asker.statistics().malformed, 3u);
  EXPECT_EQ(asker.statistics().foreign, 1u);
}

// Some wait for their own, some for any; one of them receives for all.
TEST_P(Asking, ComesAndGoesWithoutLeavingAQueueBehindEachTime) {
  begin_serving();
  const auto ask = [this] {
    const Asker asker(client_);
    EXPECT_EQ(asker.ask("x"), "xx");
  };
  ask();
  const std::uint64_t before = seen_of_this_process().entry_count;
  for (int i = 0; i < 100; ++i) ask();
  EXPECT_EQ(seen_of_this_process().entry_count, before);
}

TEST_P(Asking, AnyThreadAsks) {
  begin_serving();
  const Asker asker(client_);
  const int each = GetParam().rounds(300);
  std::atomic<int> submitted{0}, told{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        const std::string what = std::to_string(t * 1000 + i);
        EXPECT_EQ(asker.ask(what), what + what);
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < each; ++i) asker.submit("any"), ++submitted;
  });
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (told < each) {
        const auto [number, answer] = asker.next(20);
        if (number == 0) continue;
        EXPECT_EQ(answer, "anyany");
        ++told;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(told, each);
  EXPECT_EQ(asker.statistics().answered, 4u * static_cast<unsigned>(each));
  EXPECT_EQ(asker.statistics().outstanding, 0u);
}

// By a selector, which receives for several.
TEST_P(Asking, WhatAnotherReceivesIsFiled) {
  begin_serving();
  const Asker asker(client_);
  const std::uint64_t number = asker.submit("ha");
  lwmq_selector* selector = nullptr;
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  ASSERT_EQ(lwmq_selector_add(selector, client_.channel), LWMQ_OK);
  lwmq_channel* from = nullptr;
  lwmq_message* message = nullptr;
  ASSERT_EQ(lwmq_selector_receive(selector, kLimitMs, &from, &message), LWMQ_OK);
  ASSERT_EQ(lwmq_requests_file(asker.requests, &message), LWMQ_OK);
  EXPECT_EQ(message, nullptr);
  EXPECT_EQ(asker.next(0), std::make_pair(number, std::string("haha")));
  const std::uint64_t unanswered = asker.submit("hush");
  EXPECT_EQ(lwmq_requests_lose(asker.requests, LWMQ_E_TIMED_OUT), LWMQ_E_INVALID);
  while (server_.statistics().messages_received < 2) std::this_thread::sleep_for(1ms);
  ASSERT_EQ(lwmq_channel_close(server_.channel, kLimitMs), LWMQ_OK) << "its reply was received";
  const lwmq_status end = lwmq_selector_receive(selector, kLimitMs, &from, &message);
  EXPECT_EQ(end, LWMQ_E_CLOSED);
  ASSERT_EQ(lwmq_requests_lose(asker.requests, end), LWMQ_OK);
  EXPECT_EQ(asker.next(0), std::make_pair(unanswered, std::string("<LWMQ_E_CLOSED>")));
  EXPECT_NE(std::string(lwmq_last_error()).find("has closed"), std::string::npos) << lwmq_last_error();
  lwmq_selector_destroy(selector);
}

// Who is told of a request may be quicker than who has submitted it; what fails is told once.
TEST_P(Asking, NumbersAreTrueHoweverSoonTheyAreTold) {
  const Asker asker(client_);
  constexpr int kEach = 3000;
  std::mutex mutex;
  std::multiset<std::uint64_t> told, submitted;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        const std::uint64_t number = asker.submit("hush", static_cast<std::uint32_t>(i % 2));
        const std::lock_guard lock(mutex);
        submitted.insert(number);
      }
    });
    threads.emplace_back([&] {
      for (;;) {
        const auto [number, answer] = asker.next(10);
        const std::lock_guard lock(mutex);
        if (number != 0) told.insert(number);
        if (told.size() == 2 * kEach) return;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(told, submitted);
}

void nothing(int) {}

// One receives, the other one sleeps until that has looked: a signal ends the wait of either.
TEST_P(Asking, ASignalEndsTheWaitOfOneThatDoesNotReceive) {
  const std::string name = GetParam().name;
  if (name == "stub_datagram" || name == "toy") GTEST_SKIP() << "its waits hear no signal";
  struct sigaction action {
  }, before{};
  action.sa_handler = nothing;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  const Asker asker(client_);
  std::atomic<int> interrupted{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (asker.next(LWMQ_FOREVER).second != "<LWMQ_E_INTERRUPTED>") continue;
      ++interrupted;
    });
  }
  while (interrupted < 2) {
    for (auto& thread : threads) pthread_kill(thread.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(5ms);
  }
  for (auto& thread : threads) thread.join();
  sigaction(SIGUSR1, &before, nullptr);
}

// What was replied to nobody any more is released when no lock of ours is held.
TEST(RequestsOverLoop, AReleaseMayAskTheRequests) {
  const std::string address = kLoop.fresh_address();
  const End server(address, LWMQ_ROLE_SERVER);
  const End client(address, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(client.wait_connected(), LWMQ_OK);
  const Asker asker(client);
  const std::uint64_t number = asker.submit("x");
  const std::uint64_t other = asker.submit("y");
  lwmq_message* request = nullptr;
  lwmq_message* reply = nullptr;
  ASSERT_EQ(lwmq_channel_receive(server.channel, kLimitMs, &request), LWMQ_OK);
  ASSERT_EQ(lwmq_reply_make(request, &reply), LWMQ_OK);
  static int released = 0;
  const auto callback = [](void* context, std::int32_t event) {
    if (event != LWMQ_FRAME_RELEASE) return;
    lwmq_requests_statistics statistics{};
    statistics.size = sizeof statistics;
    EXPECT_EQ(lwmq_requests_query(static_cast<lwmq_requests*>(context), &statistics), LWMQ_OK);
    ++released;
  };
  ASSERT_EQ(lwmq_message_append_external(reply, "text", 4, callback, asker.requests), LWMQ_OK);
  ASSERT_EQ(lwmq_send_queue_post(server.queue, &reply), LWMQ_OK);
  lwmq_message_destroy(request);
  ASSERT_EQ(lwmq_channel_receive(client.channel, kLimitMs, &reply), LWMQ_OK);
  ASSERT_EQ(lwmq_requests_file(asker.requests, &reply), LWMQ_OK);
  EXPECT_EQ(lwmq_requests_cancel(asker.requests, number), LWMQ_OK);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(lwmq_requests_cancel(asker.requests, other), LWMQ_OK);
}

TEST(RequestsOfAParent, AreLeftAloneInAForkedChild) {
  const std::string address = kLoop.fresh_address();
  const End end(address, LWMQ_ROLE_SERVER);
  const auto asker = std::make_unique<Asker>(end);
  std::atomic<bool> over{false};
  std::vector<std::thread> waiting;
  for (int t = 0; t < 2; ++t) {
    waiting.emplace_back([&] {
      while (!over) asker->next(20);
    });
  }
  std::this_thread::sleep_for(30ms);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::uint64_t number = 0;
    lwmq_message* reply = nullptr;
    const bool closed = lwmq_requests_next(asker->requests, 0, &number, &reply) == LWMQ_E_CLOSED;
    lwmq_requests_destroy(asker->requests);
    _exit(closed ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  over = true;
  for (auto& thread : waiting) thread.join();
}

// Two handles, two threads.
TEST(RequestsOfAChannelThatGoes, GoBesideIt) {
  for (int round = 0; round < 300; ++round) {
    End end(kLoop.fresh_address(), LWMQ_ROLE_SERVER);
    auto asker = std::make_unique<Asker>(end);
    for (int i = 0; i < 20; ++i) asker->submit("x");
    std::thread other([&] { end.destroy(); });
    asker.reset();
    other.join();
  }
}

// One waits for what comes next, another one asks, and the channel goes.
TEST(RequestsOfAChannelThatGoes, AreWaitedFor) {
  for (int round = 0; round < 100; ++round) {
    End end(kLoop.fresh_address(), LWMQ_ROLE_SERVER);
    const Asker asker(end);
    std::thread waiting([&] {
      while (asker.next().second != "<LWMQ_E_CLOSED>") continue;
      EXPECT_EQ(asker.next().second, "<LWMQ_E_CLOSED>");
    });
    std::thread asking([&] {
      for (lwmq_status status = LWMQ_OK; status == LWMQ_OK;) {
        lwmq_message* message = asker.make("x");
        std::uint64_t number = 0;
        status = lwmq_requests_submit(asker.requests, &message, 1, &number);
        lwmq_message_destroy(message);
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(37 * round));
    end.destroy();
    waiting.join();
    asking.join();
  }
}

// What was asked waits for the open, as any post does.
TEST(RequestsOfAChannelThatIsNotOpen, AreOutstandingUntilItIs) {
  const std::string address = kLoop.fresh_address();
  const End server(address, LWMQ_ROLE_SERVER);
  End client;
  client.create(address, channel_options(1408, 8));
  const Asker asker(client);
  const std::uint64_t number = asker.submit("early");
  EXPECT_EQ(asker.next(0), std::make_pair(std::uint64_t{0}, std::string("<LWMQ_E_INVALID>")));
  EXPECT_EQ(asker.statistics().outstanding, 1u);
  // Who would wait for the reply cannot, and asks nothing.
  lwmq_message* message = asker.make("not asked");
  lwmq_message* reply = nullptr;
  EXPECT_EQ(lwmq_requests_request(asker.requests, &message, LWMQ_FOREVER, &reply), LWMQ_E_INVALID);
  ASSERT_NE(message, nullptr);
  lwmq_message_destroy(message);
  EXPECT_EQ(asker.statistics().asked, 1u);
  ASSERT_EQ(lwmq_channel_open(client.channel, LWMQ_ROLE_CLIENT), LWMQ_OK) << lwmq_last_error();
  std::thread serving([&] { serve(server); });
  EXPECT_EQ(asker.next(), std::make_pair(number, std::string("earlyearly")));
  client.destroy();
  serving.join();
}

// Random submits, cancels, answers and ends of time against a list.
TEST_P(Asking, AgreesWithAList) {
  std::mt19937 random(11);
  begin_serving();
  const Asker asker(client_);
  std::map<std::uint64_t, std::string> outstanding;
  std::uint64_t told = 0;
  for (int step = 0; step < 4000; ++step) {
    const unsigned what = random() % 8;
    if (what < 4) {
      const bool hushed = random() % 3 == 0;
      const std::string text = hushed ? "hush" : std::to_string(step);
      const std::uint64_t number = asker.submit(text, hushed ? 1 + random() % 20 : LWMQ_FOREVER);
      EXPECT_TRUE(outstanding.emplace(number, hushed ? "<LWMQ_E_TIMED_OUT>" : text + text).second);
    } else if (what == 4 && !outstanding.empty()) {
      auto at = outstanding.lower_bound(random() % (outstanding.rbegin()->first + 1));
      if (at == outstanding.end()) at = outstanding.begin();
      ASSERT_EQ(lwmq_requests_cancel(asker.requests, at->first), LWMQ_OK) << "nobody was told of it";
      outstanding.erase(at);
    } else {
      const auto [number, answer] = asker.next(random() % 2);
      if (number == 0) continue;
      ASSERT_TRUE(outstanding.contains(number));
      EXPECT_EQ(answer, outstanding[number]);
      outstanding.erase(number);
      ++told;
    }
  }
  while (!outstanding.empty()) {
    const auto [number, answer] = asker.next();
    ASSERT_TRUE(outstanding.contains(number)) << answer;
    outstanding.erase(number);
  }
  EXPECT_GT(told, 500u);
  const auto seen = asker.statistics();
  EXPECT_EQ(sum_of(seen), seen.asked);
}

TEST(RequestHead, HasTheGoldenBytes) {
  const std::string address = kLoop.fresh_address();
  auto golden = testing_support::read_golden(LWMQ_SOURCE_ROOT "/tests/wire/request.hex");
  ASSERT_EQ(golden.size(), 3u);
  lwmq_message* request = make_message({golden["request"].bytes, "x"});
  lwmq_message* reply = nullptr;
  ASSERT_EQ(lwmq_reply_make(request, &reply), LWMQ_OK);
  EXPECT_EQ(frames_of(reply), Frames{golden["reply"].bytes});
  lwmq_message_destroy(reply);
  const std::string long_text = std::string(999, 'a') + "\xc3\xa4";  // an a umlaut across the limit
  ASSERT_EQ(lwmq_reply_make_failure(request, "Kind", long_text.c_str(), &reply), LWMQ_OK);
  EXPECT_EQ(frames_of(reply), (Frames{golden["failure"].bytes, "Kind", std::string(999, 'a')}));
  lwmq_message_destroy(reply);
  lwmq_message_destroy(request);
  const End end(address, LWMQ_ROLE_SERVER);
  const Asker asker(end);
  lwmq_message* made = asker.make("x");
  const std::string head = frames_of(made).at(0);
  EXPECT_EQ(head.substr(0, 8), golden["request"].bytes.substr(0, 8));
  EXPECT_EQ(head.substr(16), std::string("\1\0\0\0\0\0\0\0", 8));
  lwmq_message_destroy(made);
}

}  // namespace
}  // namespace lwmq::conformance
