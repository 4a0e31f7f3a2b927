// One address, many clients: each that comes is given a channel of its own.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "conformance/channel_fixture.h"
#include "conformance/interrupting.h"
#include "conformance/providers.h"
#include "conformance/transport_group.h"

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

struct Listening {
  lwmq_listener* listener = nullptr;

  explicit Listening(const std::string& address,
                     const lwmq_channel_options& options = channel_options(1024, 8)) {
    EXPECT_EQ(lwmq_listener_open(address.c_str(), &options, &listener), LWMQ_OK) << lwmq_last_error();
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() { lwmq_listener_destroy(listener); }

  // With a send queue, but where it is raw.
  [[nodiscard]] End accept(bool raw = false) const {
    End end;
    EXPECT_EQ(lwmq_listener_accept(listener, kLimitMs, &end.channel), LWMQ_OK) << lwmq_last_error();
    if (!raw) {
      EXPECT_EQ(lwmq_channel_add_send_queue(end.channel, nullptr, &end.queue), LWMQ_OK) << lwmq_last_error();
    }
    return end;
  }
  [[nodiscard]] lwmq_status try_accept(std::uint32_t timeout_ms = 0) const {
    lwmq_channel* channel = nullptr;
    const lwmq_status status = lwmq_listener_accept(listener, timeout_ms, &channel);
    EXPECT_EQ(channel != nullptr, status == LWMQ_OK);
    lwmq_channel_destroy(channel);
    return status;
  }
  [[nodiscard]] lwmq_listener_statistics statistics() const {
    lwmq_listener_statistics statistics{};
    statistics.size = sizeof statistics;
    EXPECT_EQ(lwmq_listener_query(listener, &statistics), LWMQ_OK) << lwmq_last_error();
    return statistics;
  }
  [[nodiscard]] bool is_readable(int timeout_ms) const {
    pollfd item{-1, POLLIN, 0};
    EXPECT_EQ(lwmq_listener_descriptor(listener, &item.fd), LWMQ_OK);
    return poll(&item, 1, timeout_ms) == 1;
  }
};

lwmq_peer peer_of(const End& end) {
  lwmq_peer peer{};
  peer.size = sizeof peer;
  EXPECT_EQ(lwmq_channel_peer(end.channel, 0, &peer), LWMQ_OK) << lwmq_last_error();
  return peer;
}

class ListenerOver : public testing::TestWithParam<Subject> {
 protected:
  std::string fresh() const { return GetParam().fresh_address(); }
};

TEST_P(ListenerOver, GivesEachClientAChannelOfItsOwn) {
  const std::string address = fresh();
  const Listening listening(address);
  EXPECT_EQ(listening.try_accept(), LWMQ_E_EMPTY);
  EXPECT_STREQ(lwmq_last_error(), "");
  EXPECT_EQ(listening.try_accept(5), LWMQ_E_TIMED_OUT);
  constexpr int kClients = 5;
  std::vector<End> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(address, LWMQ_ROLE_CLIENT);
    ASSERT_EQ(clients.back().post("client " + std::to_string(i)), LWMQ_OK);
  }
  std::map<std::string, End> accepted;
  for (int i = 0; i < kClients; ++i) {
    End end = listening.accept();
    const std::string said = end.receive_text();  // what was sent before it was accepted
    accepted[said] = std::move(end);
  }
  ASSERT_EQ(accepted.size(), kClients);
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, end] : accepted) ASSERT_EQ(end.post("to " + name), LWMQ_OK);
    for (int i = 0; i < kClients; ++i) {
      EXPECT_EQ(clients[i].receive_text(), "to client " + std::to_string(i));
      ASSERT_EQ(clients[i].post("again"), LWMQ_OK);
    }
    for (const auto& [name, end] : accepted) EXPECT_EQ(end.receive_text(), "again");
  }
  EXPECT_EQ(listening.statistics().accepted, kClients);
  EXPECT_EQ(listening.statistics().waiting, 0u);
  EXPECT_TRUE(accepted.begin()->second.statistics().is_server);
  // A channel of the listener is one like others: it may have call-backs, descriptors, further queues.
  lwmq_send_queue* urgent = nullptr;
  lwmq_send_queue_options options{};
  options.size = sizeof options;
  options.priority = LWMQ_PRIORITY_TIME_CRITICAL;
  EXPECT_EQ(lwmq_channel_add_send_queue(accepted["client 0"].channel, &options, &urgent), LWMQ_OK);
}

TEST_P(ListenerOver, SaysWhoTheClientIs) {
  const std::string address = fresh();
  const Listening listening(address);
  End client(address, LWMQ_ROLE_CLIENT);
  const End server = listening.accept();
  lwmq_identity self{};
  self.size = sizeof self;
  ASSERT_EQ(lwmq_identify(&self), LWMQ_OK);
  ASSERT_EQ(client.wait_connected(), LWMQ_OK);
  const bool is_far = GetParam().name == kFar.name;  // on another host, numbers of processes mean nothing
  for (const End* end : {static_cast<const End*>(&client), &server}) {
    const lwmq_peer peer = peer_of(*end);
    EXPECT_EQ(peer.connected, 1u);
    EXPECT_EQ(peer.pid, is_far ? 0 : self.pid);
    EXPECT_EQ(peer.uid, is_far ? 0 : self.uid);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(peer.instance), 16),
              std::string(reinterpret_cast<const char*>(self.instance), 16));
  }
  lwmq_peer peer{};
  peer.size = sizeof peer;
  EXPECT_EQ(lwmq_channel_peer(server.channel, 1, &peer), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("there is no transport 1"), std::string::npos);
  client.destroy();
  EXPECT_EQ(server.receive_text(), "<LWMQ_E_CLOSED>");
  EXPECT_EQ(peer_of(server).connected, 0u);
  EXPECT_EQ(peer_of(server).pid, is_far ? 0 : self.pid) << "who it was";
  const End lonely(fresh(), LWMQ_ROLE_SERVER);
  EXPECT_EQ(lwmq_channel_peer(lonely.channel, 0, &peer), LWMQ_E_EMPTY);
}

TEST_P(ListenerOver, GivesAChannelForOneClientAlone) {
  const std::string address = fresh();
  const Listening listening(address);
  for (const std::uint32_t receive_queue : {LWMQ_QUEUE_MONO_UNBOUNDED, LWMQ_QUEUE_MULTI_UNBOUNDED}) {
    const std::string place = fresh();
    lwmq_channel_options options = channel_options(1024, 8);
    options.receive_queue = receive_queue;
    const Listening its(place, options);
    End first(place, LWMQ_ROLE_CLIENT);
    const End server = its.accept();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(first.post("left behind"), LWMQ_OK);
    ASSERT_EQ(server.post("to the first"), LWMQ_OK);
    EXPECT_EQ(first.receive_text(), "to the first");
    ASSERT_EQ(first.wait_connected(), LWMQ_OK);
    first.close(0);
    const End second(place, LWMQ_ROLE_CLIENT);
    ASSERT_EQ(second.post("the second's"), LWMQ_OK);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(server.receive_text(), "left behind");
    const Frames end = server.receive();
    ASSERT_EQ(end.size(), 3u);
    EXPECT_EQ(end[0], "LWMQ_E_CLOSED");
    EXPECT_NE(end[2].find("has closed"), std::string::npos) << end[2];
    for (const std::uint32_t timeout_ms : {50u, 0u, static_cast<std::uint32_t>(LWMQ_FOREVER)}) {
      const Frames after = server.receive(timeout_ms);
      ASSERT_EQ(after[0], "LWMQ_E_CLOSED");
      EXPECT_NE(after[2].find("its client has gone"), std::string::npos) << after[2];
    }
    EXPECT_EQ(server.post("to nobody"), LWMQ_E_CLOSED);
    EXPECT_NE(std::string(lwmq_last_error()).find("its client has gone"), std::string::npos);
    EXPECT_EQ(server.wait_connected(), LWMQ_E_CLOSED);
    EXPECT_EQ(lwmq_channel_flush(server.channel, 60000), LWMQ_E_CLOSED);
    EXPECT_EQ(lwmq_channel_open(server.channel, LWMQ_ROLE_AUTO), LWMQ_E_CLOSED);
    EXPECT_EQ(lwmq_channel_open(server.channel, LWMQ_ROLE_SERVER), LWMQ_E_CLOSED);
    EXPECT_EQ(server.statistics().messages_received, 3u);
    EXPECT_EQ(server.statistics().connected, 0u);
    EXPECT_EQ(server.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(server.receive(0)[0], "LWMQ_E_CLOSED");
    EXPECT_EQ(its.accept().receive_text(), "the second's");
  }
}

TEST_P(ListenerOver, ClosesAtOnceWhatItsClientHasLeft) {
  const std::string address = fresh();
  const Listening listening(address, channel_options(256, 2));
  for (const bool in_linger : {false, true}) {
    End client(address, LWMQ_ROLE_CLIENT, channel_options(256, 2));
    const End server = listening.accept();
    lwmq_send_queue_options options{};
    options.size = sizeof options;
    options.kind = LWMQ_QUEUE_BOUNDED_DISCARD_NEWEST;
    options.capacity = 4;
    lwmq_send_queue* bounded = nullptr;
    ASSERT_EQ(lwmq_channel_add_send_queue(server.channel, &options, &bounded), LWMQ_OK);
    lwmq_status waited = LWMQ_OK;
    std::uint64_t taken = 0;
    while (waited == LWMQ_OK) {  // until nothing goes any more
      lwmq_message* message = make_message({std::string(200, 'x')});
      waited = lwmq_send_queue_post_wait(bounded, 0, 200, 0, &message);
      lwmq_message_destroy(message);
      taken += waited == LWMQ_OK;
    }
    ASSERT_EQ(waited, LWMQ_E_TIMED_OUT);
    EXPECT_GE(taken, 4u);
    std::thread leaves([&client] {
      std::this_thread::sleep_for(50ms);
      client.destroy();
    });
    if (!in_linger) {
      lwmq_message* message = make_message({"waits for room"});
      // Who neither receives nor posts does not look whether the client is there: the wait looks for us.
      const lwmq_status status = lwmq_send_queue_post_wait(bounded, 0, kLimitMs, 0, &message);
      EXPECT_EQ(status, LWMQ_E_CLOSED) << lwmq_status_name(status);
      lwmq_message_destroy(message);
    }
    EXPECT_EQ(server.close(LWMQ_FOREVER), LWMQ_E_TIMED_OUT) << "some of it was never read";
    // Where a client goes that has landed something, and nobody received it, there may be room for one more.
    const std::string text = lwmq_last_error();
    unsigned long dropped = 0, unread = 0;
    ASSERT_EQ(std::sscanf(text.c_str() + std::min(text.find(';'), text.size() - 1),
                          "; %lu messages were dropped before they were shipped, and %lu were shipped",
                          &dropped, &unread),
              2)
        << text;
    EXPECT_GE(dropped, 3u) << text;
    EXPECT_LE(dropped, options.capacity) << text;
    EXPECT_EQ(dropped + unread, taken) << text;
    leaves.join();
  }
}

TEST_P(ListenerOver, EndsWhereASignalHasEndedTheLinger) {
  const std::string address = fresh();
  const Listening listening(address, channel_options(256, 2));
  End client(address, LWMQ_ROLE_CLIENT, channel_options(256, 2));
  const End server = listening.accept();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(server.post(std::string(200, 'x')), LWMQ_OK);
  {
    const Interrupting interrupting;
    ASSERT_EQ(server.close(LWMQ_FOREVER), LWMQ_E_INTERRUPTED);
  }
  EXPECT_EQ(server.post("still open"), LWMQ_OK);
  client.destroy();
  EXPECT_EQ(server.receive(kLimitMs)[0], "LWMQ_E_CLOSED");
  EXPECT_EQ(server.post("to nobody"), LWMQ_E_CLOSED);
  EXPECT_EQ(server.close(LWMQ_FOREVER), LWMQ_E_TIMED_OUT);
}

TEST_P(ListenerOver, WakesWhoWaitsForAClientThatGoes) {
  const std::string address = fresh();
  const Listening listening(address);
  for (int i = 0; i < 3; ++i) {
    End client(address, LWMQ_ROLE_CLIENT);
    const End server = listening.accept();
    std::thread leaves([&client] {
      std::this_thread::sleep_for(20ms);
      client.destroy();
    });
    EXPECT_EQ(server.receive_text(LWMQ_FOREVER), "<LWMQ_E_CLOSED>");
    EXPECT_EQ(server.receive_text(LWMQ_FOREVER), "<LWMQ_E_CLOSED>");
    leaves.join();
  }
}

TEST_P(ListenerOver, IsReadableWhileAClientWaits) {
  const std::string address = fresh();
  const Listening listening(address);
  EXPECT_FALSE(listening.is_readable(0));
  const End one(address, LWMQ_ROLE_CLIENT);
  const End other(address, LWMQ_ROLE_CLIENT);
  std::vector<End> servers;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(listening.is_readable(kLimitMs));
    servers.push_back(listening.accept());
  }
  EXPECT_FALSE(listening.is_readable(0));
  ASSERT_EQ(lwmq_listener_close(listening.listener), LWMQ_OK);
  EXPECT_TRUE(listening.is_readable(0));
  EXPECT_EQ(listening.try_accept(), LWMQ_E_CLOSED);
  EXPECT_EQ(lwmq_listener_close(listening.listener), LWMQ_E_CLOSED);
}

TEST_P(ListenerOver, IsClosedFromAnotherThread) {
  const Listening listening(fresh());
  std::vector<std::thread> waiting;
  std::atomic<int> closed{0};
  for (int i = 0; i < 3; ++i) {
    waiting.emplace_back([&] { closed += listening.try_accept(LWMQ_FOREVER) == LWMQ_E_CLOSED; });
  }
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(lwmq_listener_close(listening.listener), LWMQ_OK);
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(closed, 3);
}

TEST_P(ListenerOver, LeavesItsChannelsAndFreesTheAddress) {
  const std::string address = fresh();
  End client(address, LWMQ_ROLE_CLIENT);
  End unheard;
  End server;
  {
    const Listening listening(address);
    const lwmq_channel_options options = channel_options(1024, 8);
    lwmq_listener* second = nullptr;
    EXPECT_EQ(lwmq_listener_open(address.c_str(), &options, &second), LWMQ_E_ADDRESS);
    server = listening.accept();
    unheard = End(address, LWMQ_ROLE_CLIENT);
    ASSERT_EQ(unheard.post("nobody accepts me"), LWMQ_OK);
    ASSERT_EQ(unheard.wait_connected(), LWMQ_OK);
    EXPECT_TRUE(listening.is_readable(kLimitMs));
    EXPECT_EQ(listening.statistics().waiting, 1u);
  }
  const Frames parted = unheard.receive();
  ASSERT_EQ(parted[0], "LWMQ_E_CLOSED");
  EXPECT_NE(parted[2].find("1 messages were shipped to it and not seen read"), std::string::npos)
      << parted[2];
  unheard.destroy();
  ASSERT_EQ(client.post("still there"), LWMQ_OK);
  EXPECT_EQ(server.receive_text(), "still there");
  const End next(address, LWMQ_ROLE_SERVER);  // a channel of the ordinary kind
  const End its(address, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(its.post("to the next"), LWMQ_OK);
  EXPECT_EQ(next.receive_text(), "to the next");
  ASSERT_EQ(server.post("and back"), LWMQ_OK);
  EXPECT_EQ(client.receive_text(), "and back");
  client.destroy();
  EXPECT_EQ(server.receive_text(), "<LWMQ_E_CLOSED>") << "heard without the listener";
}

TEST_P(ListenerOver, StandsACrowd) {
  const std::string address = fresh();
  const Listening listening(address);
  constexpr int kClients = 300;  // more than may wait to be accepted
  std::vector<End> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(address, LWMQ_ROLE_CLIENT, channel_options(256, 2));
    ASSERT_EQ(clients.back().post(std::to_string(i)), LWMQ_OK);
  }
  EXPECT_TRUE(eventually([&] { return listening.statistics().waiting == kClientsWaitingMax; }));
  std::this_thread::sleep_for(50ms);  // in which the others go on trying
  const auto connected = std::count_if(clients.begin(), clients.end(), [](const End& client) {
    return lwmq_channel_wait_connected(client.channel, 0) == LWMQ_OK;
  });
  const bool has_bound = GetParam().name != kToy.name;
  EXPECT_LE(connected, has_bound ? kClientsWaitingMax + 64 : kClients);
  EXPECT_EQ(listening.statistics().waiting, kClientsWaitingMax);
  std::map<std::string, End> servers;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < kClients; i += 3) {
        End end = listening.accept();
        const std::string text = end.receive_text();
        EXPECT_EQ(end.post(text), LWMQ_OK);
        const std::lock_guard lock(mutex);
        servers[text] = std::move(end);
      }
    });
  }
  for (int i = 0; i < kClients; ++i) EXPECT_EQ(clients[i].receive_text(), std::to_string(i));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(servers.size(), kClients);
  for (const auto& [name, end] : servers) EXPECT_EQ(end.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
}

TEST_P(ListenerOver, IsServedWithItsClientsByOneThread) {
  const std::string address = fresh();
  const Listening listening(address);
  lwmq_selector* selector = nullptr;
  ASSERT_EQ(lwmq_selector_create(&selector), LWMQ_OK);
  EXPECT_EQ(lwmq_selector_remove_listener(selector, listening.listener), LWMQ_E_INVALID);
  ASSERT_EQ(lwmq_selector_add_listener(selector, listening.listener), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_selector_add_listener(selector, listening.listener), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("this listener was added"), std::string::npos);
  constexpr int kClients = 20;
  constexpr int kQuestions = 50;
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&address] {
      const End client(address, LWMQ_ROLE_CLIENT);
      for (int question = 0; question < kQuestions; ++question) {
        ASSERT_EQ(client.post(std::to_string(question)), LWMQ_OK);
        EXPECT_EQ(client.receive_text(), "answer to " + std::to_string(question));
      }
    });
  }
  std::map<lwmq_channel*, End> servers;
  int came = 0;
  int gone = 0;
  int answered = 0;
  while (gone < kClients) {
    lwmq_channel* channel = nullptr;
    lwmq_message* message = nullptr;
    const lwmq_status status = lwmq_selector_receive(selector, kLimitMs, &channel, &message);
    ASSERT_TRUE(status == LWMQ_OK || status == LWMQ_E_CLOSED) << lwmq_status_name(status);
    if (status != LWMQ_OK) {
      gone += static_cast<int>(servers.erase(channel));
    } else if (channel == nullptr) {
      ASSERT_EQ(message, nullptr);
      End server = listening.accept();
      ASSERT_EQ(lwmq_selector_add(selector, server.channel), LWMQ_OK) << lwmq_last_error();
      servers[server.channel] = std::move(server);
      ++came;
    } else {
      ASSERT_EQ(servers[channel].post("answer to " + frames_of(message)[0]), LWMQ_OK);
      lwmq_message_destroy(message);
      ++answered;
    }
  }
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(came, kClients);
  EXPECT_EQ(answered, kClients * kQuestions);
  lwmq_channel* nobody = nullptr;
  EXPECT_EQ(lwmq_selector_wait(selector, 0, &nobody), LWMQ_E_EMPTY);
  ASSERT_EQ(lwmq_listener_close(listening.listener), LWMQ_OK);
  EXPECT_EQ(lwmq_selector_wait(selector, kLimitMs, &nobody), LWMQ_OK) << "closed";
  EXPECT_EQ(nobody, nullptr);
  lwmq_message* message = nullptr;
  EXPECT_EQ(lwmq_selector_take(selector, &message), LWMQ_E_EMPTY);
  EXPECT_EQ(lwmq_selector_remove_listener(selector, listening.listener), LWMQ_OK);
  EXPECT_EQ(lwmq_selector_wait(selector, 0, &nobody), LWMQ_E_EMPTY);
  {
    const Listening next(fresh());
    ASSERT_EQ(lwmq_selector_add_listener(selector, next.listener), LWMQ_OK);
    ASSERT_EQ(lwmq_listener_close(next.listener), LWMQ_OK);
  }
  EXPECT_EQ(lwmq_selector_wait(selector, 0, &nobody), LWMQ_E_EMPTY) << "gone with the listener";
  lwmq_selector_destroy(selector);
}

TEST_P(ListenerOver, TellsACallBackTheEndOnce) {
  const std::string address = fresh();
  const Listening listening(address);
  End client(address, LWMQ_ROLE_CLIENT);
  const End server = listening.accept();
  struct Told {
    std::atomic<int> messages{0};
    std::atomic<int> ends{0};
  } told;
  const auto tell = [](void* context, lwmq_status status, lwmq_message* message) {
    auto* mine = static_cast<Told*>(context);
    (status == LWMQ_OK ? mine->messages : mine->ends) += 1;
    lwmq_message_destroy(message);
  };
  ASSERT_EQ(lwmq_channel_on_message(server.channel, tell, &told), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(client.post("one"), LWMQ_OK);
  ASSERT_EQ(client.post("two"), LWMQ_OK);
  EXPECT_EQ(client.close(kLimitMs), LWMQ_OK) << lwmq_last_error();
  client.destroy();
  EXPECT_TRUE(eventually([&] { return told.ends != 0; }));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(told.messages, 2);
  EXPECT_EQ(told.ends, 1);
}

TEST_P(ListenerOver, CallsBackWithWhatAClientHasLeft) {
  const std::string address = fresh();
  const Listening listening(address);
  End client(address, LWMQ_ROLE_CLIENT);
  const End server = listening.accept();
  ASSERT_EQ(client.post("left behind"), LWMQ_OK);
  ASSERT_EQ(lwmq_channel_flush(client.channel, kLimitMs), LWMQ_OK);
  client.destroy();
  EXPECT_TRUE(eventually([&] { return server.statistics().connected == 0; }));
  struct Told {
    std::atomic<int> messages{0}, ends{0};
  } told;
  const auto tell = [](void* context, lwmq_status status, lwmq_message* message) {
    auto* mine = static_cast<Told*>(context);
    (status == LWMQ_OK ? mine->messages : mine->ends) += 1;
    lwmq_message_destroy(message);
  };
  ASSERT_EQ(lwmq_channel_on_message(server.channel, tell, &told), LWMQ_OK) << lwmq_last_error();
  EXPECT_TRUE(eventually([&] { return told.ends != 0; }));
  EXPECT_EQ(told.messages, 1);
  EXPECT_EQ(told.ends, 1);
}

TEST_P(ListenerOver, IsDestroyedWhileOthersWaitInIt) {
  for (int round = 0; round < 5; ++round) {
    auto listening = std::make_unique<Listening>(fresh());
    std::vector<std::thread> waiting;
    std::atomic<int> inside{0};
    for (int i = 0; i < 3; ++i) {
      waiting.emplace_back([&inside, listener = listening->listener] {
        ++inside;
        lwmq_channel* channel = nullptr;
        EXPECT_EQ(lwmq_listener_accept(listener, LWMQ_FOREVER, &channel), LWMQ_E_CLOSED);
      });
    }
    while (inside < 3) std::this_thread::yield();
    std::this_thread::sleep_for(5ms);  // they are in the call by now
    listening.reset();
    for (std::thread& thread : waiting) thread.join();
  }
}

TEST_P(ListenerOver, ServesRawChannelsAndHomeThreads) {
  for (const bool raw : {false, true}) {
    const std::string address = fresh();
    lwmq_channel_options options = channel_options(1024, 4, raw);
    options.home_thread = 1;
    const Listening listening(address, options);
    End client(address, LWMQ_ROLE_CLIENT, channel_options(1024, 4, raw));
    const End server = listening.accept(raw);
    if (!raw) {
      ASSERT_EQ(server.post("from home"), LWMQ_OK);
      EXPECT_EQ(client.receive_text(), "from home");
      continue;
    }
    lwmq_buffer buffer{};
    ASSERT_EQ(lwmq_raw_get_buffer(server.channel, kLimitMs, &buffer), LWMQ_OK) << lwmq_last_error();
    lwmq_buffer held{};
    ASSERT_EQ(lwmq_raw_get_buffer(server.channel, kLimitMs, &held), LWMQ_OK) << lwmq_last_error();
    std::memcpy(buffer.data, "raw", 3);
    buffer.bytes = 3;
    ASSERT_EQ(lwmq_raw_send_buffer(server.channel, &buffer), LWMQ_OK);
    lwmq_buffer came{};
    ASSERT_EQ(lwmq_raw_receive_buffer(client.channel, kLimitMs, &came), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(std::string(static_cast<const char*>(came.data), came.bytes), "raw");
    ASSERT_EQ(lwmq_raw_dispose_buffer(client.channel, &came), LWMQ_OK);
    client.destroy();
    EXPECT_EQ(lwmq_raw_receive_buffer(server.channel, kLimitMs, &came), LWMQ_E_CLOSED);
    EXPECT_EQ(lwmq_raw_get_buffer(server.channel, LWMQ_FOREVER, &buffer), LWMQ_E_CLOSED);
    EXPECT_EQ(lwmq_raw_send_buffer(server.channel, &held), LWMQ_E_PEER_LOST) << "it was for the client";
  }
}

TEST_P(ListenerOver, TakesSeveralTransportsOfOneClientAsSeveral) {
  const std::string address = fresh();
  const Listening listening(address);
  End client = end_at_both({address, address}, LWMQ_ROLE_CLIENT, false);
  const End one = listening.accept();
  const End other = listening.accept();
  ASSERT_EQ(client.post("to both"), LWMQ_OK);
  EXPECT_EQ(one.receive_text(), "to both");
  EXPECT_EQ(other.receive_text(), "to both");
}

// Not over the stub, whose hub has one transport to all of its members.
TEST_P(ListenerOver, CountsWhomItRefusesAndSaysWhy) {
  const std::string address = GetParam().fresh_address();
  const Listening listening(address);
  const End raw(address, LWMQ_ROLE_CLIENT, channel_options(1024, 8, true));
  EXPECT_EQ(lwmq_channel_wait_connected(raw.channel, kLimitMs), LWMQ_E_VERSION);
  EXPECT_TRUE(eventually([&] { return listening.statistics().refused >= 1; }));
  EXPECT_EQ(listening.statistics().accepted, 0u);
  const std::string why = listening.statistics().refusal;
  EXPECT_NE(why.find("the client is there for"), std::string::npos) << why;
  const End client(address, LWMQ_ROLE_CLIENT);
  EXPECT_EQ(listening.try_accept(kLimitMs), LWMQ_OK);
}

INSTANTIATE_TEST_SUITE_P(Providers, ListenerOver,
                         testing::Values(kLoop, kIpc, kTraceIpc, kToy, kHidden, kFar), name_of);

TEST(Listener, IsRefusedWithTheNumbers) {
  lwmq_listener* listener = nullptr;
  lwmq_channel_options options = channel_options(1, 8);
  EXPECT_EQ(lwmq_listener_open(kIpc.fresh_address().c_str(), &options, &listener), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("buffers of 1 bytes"), std::string::npos);
  EXPECT_EQ(lwmq_listener_open("nowhere://x", nullptr, &listener), LWMQ_E_ADDRESS);
  EXPECT_EQ(lwmq_listener_open("ipc://x?wrong=1", nullptr, &listener), LWMQ_E_ADDRESS);
  EXPECT_EQ(lwmq_listener_open(nullptr, nullptr, &listener), LWMQ_E_INVALID);
  EXPECT_EQ(listener, nullptr);
  lwmq_listener_destroy(nullptr);
}

}  // namespace
}  // namespace lwmq::conformance
