// Hearing of messages: by call-back and by signal, beside the call that waits and the descriptor that is
// polled.
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "conformance/channel_fixture.h"
#include "conformance/interrupting.h"
#include "conformance/providers.h"

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

using Texts = std::vector<std::string>;

// What a call-back has heard, in order: frames, or the name of a status.
class Heard {
 public:
  static void hear(void* self, lwmq_status status, lwmq_message* message) {
    auto* heard = static_cast<Heard*>(self);
    std::string text = lwmq_status_name(status);
    if (status == LWMQ_OK) text = frames_of(message).at(0);
    lwmq_message_destroy(message);
    {
      const std::lock_guard lock(heard->mutex_);
      heard->all_.push_back(text);
    }
    heard->more_.notify_all();
  }
  // Waits until so many have come, and takes them.
  Texts next(std::size_t count) {
    std::unique_lock lock(mutex_);
    more_.wait_for(lock, std::chrono::milliseconds(kLimitMs), [&] { return all_.size() >= count; });
    return std::exchange(all_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  Texts all_;
};

Texts numbered(int count) {
  Texts texts;
  for (int i = 0; i < count; ++i) texts.push_back("message " + std::to_string(i));
  return texts;
}

// Where call-backs have run: on which threads, and on which processors those may run.
class Places {
 public:
  static void note(void* self, lwmq_status, lwmq_message* message) {
    auto* places = static_cast<Places*>(self);
    lwmq_message_destroy(message);
    cpu_set_t may;
    sched_getaffinity(0, sizeof may, &may);
    const std::lock_guard lock(places->mutex_);
    places->threads_.insert(pthread_self());
    places->most_processors_ = std::max(places->most_processors_, CPU_COUNT(&may));
    ++places->count_;
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  std::size_t threads() const { return threads_.size(); }
  int most_processors() const { return most_processors_; }

 private:
  std::mutex mutex_;
  std::set<pthread_t> threads_;
  int most_processors_ = 0;
  int count_ = 0;
};

// What works for channels is one thread of the library for all of them, on the processor that it was given:
// none of them moves, whoever posts, and from wherever.
// rows: Z20
TEST(Notices, OfAllChannelsComeOnOneThreadThatStaysOnItsProcessor) {
  constexpr int kChannels = 8;
  constexpr int kEach = 200;
  cpu_set_t may;
  sched_getaffinity(0, sizeof may, &may);
  std::uint32_t last = 0;
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &may)) last = core;
  }
  ASSERT_EQ(lwmq_set_service_affinity(&last, 1), LWMQ_OK) << lwmq_last_error();
  Places places;
  {
    std::vector<std::unique_ptr<Meeting>> meetings;
    for (int i = 0; i < kChannels; ++i) {
      const Subject& subject = i % 2 == 0 ? kLoop : kIpc;
      meetings.push_back(std::make_unique<Meeting>(subject.fresh_address(), channel_options(1024, 4)));
      ASSERT_EQ(lwmq_channel_on_message(meetings.back()->server.channel, Places::note, &places), LWMQ_OK);
    }
    std::vector<std::thread> posting;
    for (int i = 0; i < kChannels; ++i) {
      posting.emplace_back([&, i] {
        for (int n = 0; n < kEach; ++n) EXPECT_EQ(meetings[i]->client.post("somewhere"), LWMQ_OK);
      });
    }
    for (auto& thread : posting) thread.join();
    EXPECT_TRUE(eventually([&] { return places.count() == kChannels * kEach; }));
    for (const auto& meeting : meetings)
      EXPECT_EQ(lwmq_channel_on_message(meeting->server.channel, nullptr, nullptr), LWMQ_OK);
  }
  EXPECT_EQ(places.threads(), 1u);
  EXPECT_EQ(places.most_processors(), 1);
  EXPECT_EQ(lwmq_set_service_affinity(nullptr, 0), LWMQ_OK) << "wherever the process may run";
}

class NoticesOver : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    address_ = GetParam().fresh_address();
    server_ = End(address_, LWMQ_ROLE_SERVER);
    client_ = End(address_, LWMQ_ROLE_CLIENT);
    ASSERT_EQ(server_.wait_connected(), LWMQ_OK);
    ASSERT_EQ(client_.wait_connected(), LWMQ_OK);
  }
  void post_all(const Texts& texts) const {
    for (const auto& text : texts) ASSERT_EQ(client_.post(text), LWMQ_OK) << lwmq_last_error();
  }

  std::string address_;
  End server_, client_;
};

// rows: K11
TEST_P(NoticesOver, ACallBackGetsEveryMessageInOrderAndWhatEndsTheConversation) {
  Heard heard;
  post_all({"before"});
  ASSERT_EQ(lwmq_channel_on_message(server_.channel, Heard::hear, &heard), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(heard.next(1), Texts{"before"});
  const auto texts = numbered(3000);
  post_all(texts);
  EXPECT_TRUE(heard.next(3000) == texts);
  client_.close(kLimitMs);
  EXPECT_EQ(heard.next(1), Texts{"LWMQ_E_CLOSED"});
  client_ = End(address_, LWMQ_ROLE_CLIENT);  // the next peer
  ASSERT_EQ(client_.wait_connected(), LWMQ_OK);
  post_all({"again"});
  EXPECT_EQ(heard.next(1), Texts{"again"});
  server_.close(0);
  EXPECT_EQ(heard.next(1), Texts{"LWMQ_E_CLOSED"});
  server_.destroy();
  EXPECT_EQ(heard.next(0), Texts{}) << "called behind the last";
}

// All call-backs run on one thread: no channel has it for longer than its slice, of messages or of time.
// rows: K24
TEST_P(NoticesOver, AChannelWithMuchToSayLetsTheOthersHaveTheirTurn) {
  struct Busy {
    std::chrono::milliseconds takes;
    std::atomic<bool> holds{true};
    std::atomic<int> calls{0};
    std::atomic<int> calls_when_other_came{-1};
  };
  const auto count = [](void* context, lwmq_status, lwmq_message* message) {
    auto* self = static_cast<Busy*>(context);
    while (self->holds) std::this_thread::yield();
    std::this_thread::sleep_for(self->takes);
    ++self->calls;
    lwmq_message_destroy(message);
  };
  const auto note = [](void* context, lwmq_status, lwmq_message* message) {
    auto* self = static_cast<Busy*>(context);
    self->calls_when_other_came = self->calls.load();
    lwmq_message_destroy(message);
  };
  const Meeting other(GetParam().fresh_address());
  const auto calls_before_the_other = [&](int much, std::chrono::milliseconds takes) {
    Busy busy{takes};
    EXPECT_EQ(lwmq_channel_on_message(other.server.channel, note, &busy), LWMQ_OK);
    EXPECT_EQ(lwmq_channel_on_message(server_.channel, count, &busy), LWMQ_OK);
    post_all(numbered(much));
    const std::uint64_t shipped = other.client.statistics().messages_shipped;
    EXPECT_EQ(other.client.post("just one"), LWMQ_OK);
    EXPECT_TRUE(eventually([&] { return other.client.statistics().messages_shipped == shipped + 1; }));
    busy.holds = false;
    EXPECT_TRUE(eventually([&] { return busy.calls == much && busy.calls_when_other_came >= 0; }));
    for (lwmq_channel* heard : {server_.channel, other.server.channel})  // before what they call
      EXPECT_EQ(lwmq_channel_on_message(heard, nullptr, nullptr), LWMQ_OK);
    return busy.calls_when_other_came.load();
  };
  EXPECT_LE(calls_before_the_other(3000, 0ms), 200);
  EXPECT_LE(calls_before_the_other(200, 5ms), 4);
}

// One thread of the application's, asleep in poll(2), drives both ends of many channels.
// rows: K22 K21
TEST_P(NoticesOver, OneThreadThatPollsDrivesManyChannels) {
  constexpr std::size_t kPairs = 20;
  constexpr int kRounds = 50;
  std::vector<std::unique_ptr<Meeting>> meetings;
  std::vector<pollfd> descriptors;  // of servers, then of clients
  for (std::size_t i = 0; i < kPairs; ++i)
    meetings.push_back(std::make_unique<Meeting>(GetParam().fresh_address()));
  const auto end_at = [&](std::size_t place) -> End& {
    return place < kPairs ? meetings[place]->server : meetings[place - kPairs]->client;
  };
  for (std::size_t place = 0; place < 2 * kPairs; ++place) {
    std::int32_t fd = -1;
    ASSERT_EQ(lwmq_channel_descriptor(end_at(place).channel, &fd), LWMQ_OK) << lwmq_last_error();
    descriptors.push_back({fd, POLLIN, 0});
  }
  for (const auto& meeting : meetings) ASSERT_EQ(meeting->client.post("1"), LWMQ_OK);
  std::size_t finished = 0;
  while (finished < kPairs) {
    ASSERT_GT(poll(descriptors.data(), descriptors.size(), static_cast<int>(kLimitMs)), 0);
    for (std::size_t place = 0; place < descriptors.size(); ++place) {
      if (descriptors[place].revents == 0) continue;
      for (Frames frames = end_at(place).receive(0); frames.size() == 1; frames = end_at(place).receive(0)) {
        const int round = std::stoi(frames[0]);
        if (round == kRounds) {
          ++finished;
        } else {
          ASSERT_EQ(end_at(place).post(std::to_string(round + 1)), LWMQ_OK);  // there and back
        }
      }
    }
  }
}

TEST_P(NoticesOver, ACallBackMayPostAndEndItsOwnCalls) {
  struct Echo {
    End* end;
    std::atomic<int> calls{0};
  } echo{&server_};
  const auto answer = [](void* context, lwmq_status status, lwmq_message* message) {
    auto* self = static_cast<Echo*>(context);
    ASSERT_EQ(status, LWMQ_OK);
    const int calls = ++self->calls;  // before the answer lets the test go on
    ASSERT_EQ(lwmq_send_queue_post(self->end->queue, &message), LWMQ_OK);
    if (calls < 3) return;
    EXPECT_EQ(lwmq_channel_on_message(self->end->channel, Heard::hear, nullptr), LWMQ_E_INVALID);
    EXPECT_EQ(lwmq_channel_on_message(self->end->channel, nullptr, nullptr), LWMQ_OK);
  };
  ASSERT_EQ(lwmq_channel_on_message(server_.channel, answer, &echo), LWMQ_OK);
  post_all(numbered(5));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client_.receive_text(), "message " + std::to_string(i));
  EXPECT_EQ(server_.receive_text(), "message 3") << "what no call-back has got, a receive gets";
  EXPECT_EQ(server_.receive_text(), "message 4");
  EXPECT_EQ(echo.calls, 3);
  Heard heard;
  ASSERT_EQ(lwmq_channel_on_message(server_.channel, Heard::hear, &heard), LWMQ_OK);
  post_all({"once more"});
  EXPECT_EQ(heard.next(1), Texts{"once more"});
  server_.destroy();  // before what it calls
}

// A receive would answer it again and again; the channel may connect after all.
TEST_P(NoticesOver, ACallBackHearsOfARefusalThatLastsAFewTimesAtMost) {
  struct Refusals {
    std::atomic<int> calls{0};
    std::atomic<lwmq_status> status{LWMQ_OK};
    Heard heard;
  } refusals;
  const auto hear = [](void* context, lwmq_status status, lwmq_message* message) {
    auto* mine = static_cast<Refusals*>(context);
    if (status == LWMQ_OK) return Heard::hear(&mine->heard, status, message);
    ++mine->calls;
    mine->status = status;
  };
  const std::string address = GetParam().fresh_address();
  End raw(address, LWMQ_ROLE_SERVER, channel_options(1024, 4, true));
  End client(address, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(lwmq_channel_on_message(client.channel, hear, &refusals), LWMQ_OK) << lwmq_last_error();
  ASSERT_TRUE(eventually([&] { return refusals.calls > 0; }));
  EXPECT_GE(refusals.status, LWMQ_E_INVALID);
  std::this_thread::sleep_for(300ms);
  EXPECT_LE(refusals.calls, 5);
  raw.destroy();
  const End server(address, LWMQ_ROLE_SERVER);
  ASSERT_EQ(server.post("after all"), LWMQ_OK);
  EXPECT_EQ(refusals.heard.next(1), Texts{"after all"});
  client.destroy();  // before what it calls
}

// What the client has not read the server lingers for.
// rows: S04
TEST_P(NoticesOver, ACallBackHearsOnWhereASignalHasEndedTheClose) {
  Heard heard;
  ASSERT_EQ(lwmq_channel_on_message(server_.channel, Heard::hear, &heard), LWMQ_OK) << lwmq_last_error();
  post_all({"before"});
  EXPECT_EQ(heard.next(1), Texts{"before"});
  ASSERT_EQ(server_.post("not read"), LWMQ_OK);
  {
    const Interrupting interrupting;
    ASSERT_EQ(server_.close(kLimitMs), LWMQ_E_INTERRUPTED);
  }
  post_all({"after"});
  EXPECT_EQ(heard.next(1), Texts{"after"});
  EXPECT_EQ(client_.receive_text(), "not read");
  EXPECT_EQ(client_.receive_text(0), "<LWMQ_E_EMPTY>") << "and its buffer goes back";
  EXPECT_EQ(server_.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(heard.next(1), Texts{"LWMQ_E_CLOSED"});
  server_.destroy();
}

TEST_P(NoticesOver, WhenTheCallsHaveEndedNoneRuns) {
  struct Slow {
    std::atomic<bool> runs{false}, over{false};
  } slow;
  const auto wait = [](void* context, lwmq_status, lwmq_message* message) {
    auto* self = static_cast<Slow*>(context);
    self->runs = true;
    std::this_thread::sleep_for(50ms);
    lwmq_message_destroy(message);
    EXPECT_FALSE(self->over);
    self->runs = false;
  };
  ASSERT_EQ(lwmq_channel_on_message(server_.channel, wait, &slow), LWMQ_OK);
  post_all(numbered(4));
  while (!slow.runs) std::this_thread::yield();
  ASSERT_EQ(lwmq_channel_on_message(server_.channel, nullptr, nullptr), LWMQ_OK);
  slow.over = true;
  EXPECT_FALSE(slow.runs);
  ASSERT_EQ(lwmq_channel_on_message(server_.channel, nullptr, nullptr), LWMQ_OK) << "twice is once";
}

// rows: K11 K23
TEST_P(NoticesOver, ARealTimeSignalSaysThatThereIsSomething) {
  sigset_t wanted, before;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGRTMIN + 3);
  // Blocked before the channel's threads: those of the library block every signal anyway.
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &wanted, &before), 0);
  int value = 0;
  ASSERT_EQ(lwmq_channel_signal_on_message(server_.channel, SIGRTMIN + 3, &value), LWMQ_OK);
  const timespec limit{60, 0};
  Texts received;
  const auto take_all = [&] {
    for (;;) {
      const Frames frames = server_.receive(0);
      if (frames.size() != 1) return;
      received.push_back(frames[0]);
    }
  };
  take_all();
  const auto texts = numbered(300);
  std::thread poster([&] {
    for (const auto& text : texts) {
      ASSERT_EQ(client_.post(text), LWMQ_OK);
      if (text.back() == '0') std::this_thread::sleep_for(1ms);
    }
  });
  while (received.size() < texts.size()) {
    siginfo_t info{};
    ASSERT_EQ(sigtimedwait(&wanted, &info, &limit), SIGRTMIN + 3) << received.size();
    EXPECT_EQ(info.si_value.sival_ptr, &value);
    take_all();
  }
  poster.join();
  EXPECT_EQ(received, texts);
  ASSERT_EQ(lwmq_channel_signal_on_message(server_.channel, 0, nullptr), LWMQ_OK);
  const timespec none{0, 0};
  while (sigtimedwait(&wanted, nullptr, &none) > 0) {
  }
  post_all({"silent"});
  EXPECT_EQ(server_.receive_text(), "silent");
  const timespec moment{0, 20'000'000};
  EXPECT_EQ(sigtimedwait(&wanted, nullptr, &moment), -1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_P(NoticesOver, WhatCannotBeIsRefused) {
  EXPECT_EQ(lwmq_channel_signal_on_message(server_.channel, SIGTERM, nullptr), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("signal 15 is no real-time signal"), std::string::npos)
      << lwmq_last_error();
  End raw;
  raw.create(GetParam().fresh_address(), channel_options(1024, 4, true));
  EXPECT_EQ(lwmq_channel_on_message(raw.channel, Heard::hear, nullptr), LWMQ_E_INVALID);
  server_.close(0);
  EXPECT_EQ(lwmq_channel_on_message(server_.channel, Heard::hear, nullptr), LWMQ_E_CLOSED);
}

LWMQ_OVER_PROVIDERS(NoticesOver);

}  // namespace
}  // namespace lwmq::conformance
