// links: base os stats queue tli address filters lane modules store providers
// Two processes that share no page (far://): what a kill leaves behind on either side, and what a liar can do
// through a mirror.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <random>

#include "base/limits.h"
#include "conformance/far_wire.h"
#include "conformance/providers.h"
#include "conformance/transport_pair.h"
#include "lane/mirror.h"
#include "os/identity.h"
#include "os/unique_fd.h"
#include "providers/child.h"
#include "seed.h"
#include "tli/registry.h"

namespace lwmq::conformance {
namespace {

using lwmq::testing::Child;

const lwmq_tli_provider& far() {
  const lwmq_tli_provider& provider = provider_of("far://any");
  run_service(provider);
  return provider;
}
const lwmq_tli_transport_table& table() { return *far().transport; }

constexpr std::uint64_t kBufferBytes = 4096;
constexpr std::uint32_t kBuffers = 4;

lwmq_tli_listener* listen(const std::string& address) {
  const auto options = options_of(kBuffers, kBufferBytes);
  lwmq_tli_listener* listener = nullptr;
  EXPECT_EQ(far().listener->listen(address.c_str(), &options, &listener), LWMQ_OK) << last_error();
  return listener;
}

lwmq_tli_transport* accept(lwmq_tli_listener* listener) {
  lwmq_tli_transport* transport = nullptr;
  EXPECT_TRUE(eventually([&] { return far().listener->accept(listener, &transport) == LWMQ_OK; }));
  return transport;
}

lwmq_tli_transport* connect(const std::string& address) {
  lwmq_tli_transport* transport = nullptr;
  EXPECT_EQ(tli::connect(far(), address.c_str(), options_of(kBuffers, kBufferBytes), 60000, &transport),
            LWMQ_OK)
      << last_error();
  return transport;
}

// The next extent as text, or the failure's name.
std::string receive(lwmq_tli_transport* transport) {
  lwmq_tli_extent extent{};
  for (;;) {
    const Status status = table().land(transport, &extent);
    if (status == LWMQ_OK) break;
    if (status != LWMQ_E_EMPTY) return status_name(status);
    if (table().wait(transport, LWMQ_TLI_WAIT_EXTENT, 60000) == LWMQ_E_TIMED_OUT) return "nothing";
  }
  std::string text(reinterpret_cast<const char*>(extent.data), extent.bytes);
  table().release(transport, &extent);
  return text;
}

// A buffer, waited for. False: the peer has gone.
bool acquire(lwmq_tli_transport* transport, lwmq_tli_buffer* out_buffer) {
  for (;;) {
    const Status status = table().acquire(transport, out_buffer);
    if (status != LWMQ_E_FULL) return status == LWMQ_OK;
    table().wait(transport, LWMQ_TLI_WAIT_ROOM, 60000);
  }
}

// ---- Kills

// Serves its address and streams numbers, several to a buffer, until it is killed.
LWMQ_CHILD_ROLE(StreamsForEver) {
  lwmq_tli_listener* listener = listen(Child::argument());
  Child::report("listening");
  lwmq_tli_transport* transport = accept(listener);
  lwmq_tli_buffer buffer{};
  for (std::uint64_t i = 0;; ++i) {
    const std::string text = std::to_string(i);
    if (buffer.room < text.size()) {
      if (i > 0) table().ship(transport, &buffer);
      if (!acquire(transport, &buffer)) return;
    }
    std::memcpy(buffer.next, text.data(), text.size());
    if (table().show(transport, &buffer, text.size(), 0) != LWMQ_OK) return;
    if (i % 7 == 0) table().flush(transport);
  }
}

// rows: L34
TEST(Far, WhatAKilledPeerSentIsLandedThenTheLossIsTold) {
  const std::string address = kFar.fresh_address();
  Child server("StreamsForEver", address);
  ASSERT_EQ(server.line(), "listening");
  lwmq_tli_transport* client = connect(address);
  std::uint64_t next = 0;
  for (; next < 20000; ++next) ASSERT_EQ(receive(client), std::to_string(next));
  server.strike();
  std::string got;
  while ((got = receive(client)) == std::to_string(next)) ++next;
  EXPECT_EQ(got, "LWMQ_E_PEER_LOST");
  EXPECT_EQ(table().state(client, nullptr), LWMQ_TLI_LOST);
  lwmq_tli_buffer buffer{};
  EXPECT_EQ(table().acquire(client, &buffer), LWMQ_E_PEER_LOST);
  table().close(client, 0, 0);
}

// Takes what it hears to land, and holds it.
LWMQ_CHILD_ROLE(ReadsThreeAndHoldsTwo) {
  lwmq_tli_listener* listener = listen(Child::argument());
  Child::report("listening");
  lwmq_tli_transport* transport = accept(listener);
  EXPECT_EQ(receive(transport), "0");
  lwmq_tli_extent extent{};
  for (int i = 0; i < 2; ++i) {
    while (table().land(transport, &extent) == LWMQ_E_EMPTY)
      table().wait(transport, LWMQ_TLI_WAIT_EXTENT, 60000);
  }
  table().wait(transport, LWMQ_TLI_WAIT_EXTENT | LWMQ_TLI_WAIT_HOLDING, 0);
  Child::report("holds");
  for (;;) pause();
}

// rows: L34
TEST(Far, CountsWhatAKilledPeerHeld) {
  const std::string address = kFar.fresh_address();
  Child server("ReadsThreeAndHoldsTwo", address);
  ASSERT_EQ(server.line(), "listening");
  lwmq_tli_transport* client = connect(address);
  lwmq_tli_buffer buffer{};
  ASSERT_TRUE(acquire(client, &buffer));
  for (const char* text : {"0", "1", "2", "3"}) {
    buffer.next[0] = static_cast<std::uint8_t>(text[0]);
    ASSERT_EQ(table().show(client, &buffer, 1, 0), LWMQ_OK);
  }
  table().ship(client, &buffer);
  ASSERT_EQ(server.line(), "holds");
  EXPECT_TRUE(eventually([&] { return unread_extents_of(table(), client) == 3; }));
  server.kill();
  EXPECT_TRUE(eventually([&] { return table().state(client, nullptr) == LWMQ_TLI_LOST; }));
  EXPECT_EQ(unread_extents_of(table(), client), 3u);
  table().close(client, 0, 0);
}

// Serves its address, and ships an extent that no socket holds at once.
lwmq_tli_transport* send_much() {
  const auto options = options_of(1, 32 << 20);
  lwmq_tli_listener* listener = nullptr;
  EXPECT_EQ(far().listener->listen(Child::argument(), &options, &listener), LWMQ_OK);
  Child::report("listening");
  lwmq_tli_transport* transport = accept(listener);
  lwmq_tli_buffer buffer{};
  EXPECT_TRUE(acquire(transport, &buffer));
  std::memset(buffer.next, 'm', 32 << 20);
  table().show(transport, &buffer, 32 << 20, 0);
  table().ship(transport, &buffer);
  return transport;
}

LWMQ_CHILD_ROLE(SendsMuchAtOnce) {
  send_much();
  Child::report("on its way");
  for (;;) pause();
}

// rows: L34
TEST(Far, AnExtentOfWhichAPartHasComeIsLostWithItsSender) {
  const std::string address = kFar.fresh_address();
  Child server("SendsMuchAtOnce", address);
  ASSERT_EQ(server.line(), "listening");
  lwmq_tli_transport* client = connect(address);
  ASSERT_EQ(server.line(), "on its way");
  ASSERT_TRUE(server.stop());
  EXPECT_EQ(table().wait(client, LWMQ_TLI_WAIT_EXTENT, 0), LWMQ_E_TIMED_OUT) << "it is not whole";
  server.kill();
  EXPECT_EQ(receive(client), "LWMQ_E_PEER_LOST");
  table().close(client, 0, 0);
}

// A process that closes at once what it has sent: the service sees to it that all gets out.
LWMQ_CHILD_ROLE(SendsMuchAndCloses) {
  table().close(send_much(), 0, 5);
  Child::report("closed");
  Child::hear();
}

TEST(Far, AllThatWasShownArrivesBehindACloseThatDidNotWaitForIt) {
  const std::string address = kFar.fresh_address();
  Child server("SendsMuchAndCloses", address);
  ASSERT_EQ(server.line(), "listening");
  lwmq_tli_transport* client = connect(address);
  ASSERT_EQ(server.line(), "closed");
  EXPECT_EQ(receive(client), std::string(32 << 20, 'm'));
  EXPECT_EQ(receive(client), "LWMQ_E_CLOSED");
  EXPECT_EQ(figures_of(table(), client).unsent, 5u);
  table().close(client, 0, 0);
  server.say('.');
}

// ---- Pushes

const lwmq_tli_memory_table& memory() { return *far().memory; }

// Two transports that have met.
struct Met {
  explicit Met(const std::string& suffix = "") : address(kFar.fresh_address() + suffix) {
    listener = listen(address);
    std::thread connecting([&] { client = connect(address); });
    served = accept(listener);
    connecting.join();
  }
  ~Met() {
    if (client != nullptr) table().close(client, 0, 0);
    if (served != nullptr) table().close(served, 0, 0);
    far().listener->close(listener);
  }
  const std::string address;
  lwmq_tli_listener* listener;
  lwmq_tli_transport* served = nullptr;
  lwmq_tli_transport* client = nullptr;
};

lwmq_tli_region* pin(lwmq_tli_transport* transport, const std::string& bytes, std::uint32_t uses) {
  lwmq_tli_region* region = nullptr;
  EXPECT_EQ(memory().pin(transport, const_cast<char*>(bytes.data()), bytes.size(), uses, &region), LWMQ_OK)
      << last_error();
  return region;
}

// All of it.
lwmq_tli_grant grant(lwmq_tli_transport* transport, std::string& bytes) {
  lwmq_tli_grant made{};
  EXPECT_EQ(memory().grant(transport, pin(transport, bytes, LWMQ_TLI_PIN_GRANT), 0, bytes.size(), &made),
            LWMQ_OK)
      << last_error();
  return made;
}

Status push(lwmq_tli_transport* transport, const lwmq_tli_grant& to, std::uint64_t offset,
            const std::string& bytes, std::uint64_t token) {
  const lwmq_bytes piece{bytes.data(), bytes.size()};
  return memory().push(transport, &to, offset, &piece, 1, token);
}

// Alone in its buffer.
void send(lwmq_tli_transport* transport, const std::string& text) {
  lwmq_tli_buffer buffer{};
  ASSERT_TRUE(acquire(transport, &buffer));
  std::memcpy(buffer.next, text.data(), text.size());
  ASSERT_EQ(table().show(transport, &buffer, text.size(), 0), LWMQ_OK) << last_error();
  ASSERT_EQ(table().ship(transport, &buffer), LWMQ_OK);
}

// The next token, waited for.
std::uint64_t reap(lwmq_tli_transport* transport) {
  std::uint64_t token = UINT64_MAX;
  EXPECT_TRUE(eventually([&] {
    if (memory().reap(transport, &token, 1) == 1) return true;
    table().wait(transport, LWMQ_TLI_WAIT_REAP, 1000);
    return false;
  }));
  return token;
}

// rows: L16
TEST(FarPush, IsThereWithWhatIsShownBehindIt) {
  Met met;
  std::string landing(1 << 20, '.');
  const std::string source = std::string(400000, 'a') + std::string(300000, 'b');
  const lwmq_tli_grant to = grant(met.served, landing);
  lwmq_tli_region* const region = pin(met.client, source, LWMQ_TLI_PIN_PUSH);
  const lwmq_bytes pieces[] = {{source.data() + 400000, 300000}, {source.data(), 400000}};
  ASSERT_EQ(memory().push(met.client, &to, 1000, pieces, 2, 7), LWMQ_OK) << last_error();
  std::thread sending([&] { send(met.client, "it is there"); });
  EXPECT_EQ(receive(met.served), "it is there");
  sending.join();
  EXPECT_TRUE(landing == std::string(1000, '.') + std::string(300000, 'b') + std::string(400000, 'a') +
                             std::string((1 << 20) - 701000, '.'));
  EXPECT_EQ(reap(met.client), 7u);
  memory().unpin(region);
}

// What goes out late is read late.
TEST(FarPush, KeepsItsPiecesUntilTheyAreReaped) {
  Met met("@500");
  std::string landing(8, '.');
  std::string source = "too soon";
  const lwmq_tli_grant to = grant(met.served, landing);
  pin(met.client, source, LWMQ_TLI_PIN_PUSH);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(push(met.client, to, 0, source, 7), LWMQ_OK) << last_error();
  table().flush(met.client);
  std::uint64_t token = 0;
  EXPECT_EQ(memory().reap(met.client, &token, 1), 0u);
  source.replace(0, 8, "in time!");  // which no host may do
  EXPECT_EQ(table().wait(met.client, LWMQ_TLI_WAIT_REAP, 60000), LWMQ_OK);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
  EXPECT_EQ(memory().reap(met.client, &token, 1), 1u);
  EXPECT_EQ(token, 7u);
  send(met.client, "told");
  EXPECT_EQ(receive(met.served), "told");
  EXPECT_EQ(landing, "in time!");
}

TEST(FarPush, MakesTheDescriptorReadableWhenItCanBeReaped) {
  Met met("@500");
  std::string landing(8, '.');
  const std::string source = "8 bytes!";
  const lwmq_tli_grant to = grant(met.served, landing);
  pin(met.client, source, LWMQ_TLI_PIN_PUSH);
  const auto is_readable = [&](int timeout_ms) {
    pollfd at{table().descriptor(met.client), POLLIN, 0};
    return poll(&at, 1, timeout_ms) == 1;
  };
  ASSERT_EQ(push(met.client, to, 0, source, 7), LWMQ_OK);
  table().flush(met.client);
  ASSERT_EQ(table().arm(met.client, LWMQ_TLI_WAIT_REAP), 0);
  EXPECT_FALSE(is_readable(0));
  EXPECT_TRUE(is_readable(60000));
  EXPECT_EQ(table().arm(met.client, LWMQ_TLI_WAIT_REAP), 1);
  EXPECT_EQ(reap(met.client), 7u);
  EXPECT_EQ(table().arm(met.client, LWMQ_TLI_WAIT_REAP), 0);
  EXPECT_FALSE(is_readable(0));
}

// The receiving thread sleeps at the socket, and the one that reaps behind it.
TEST(FarPush, IsReapedBesideAThreadThatWaitsForExtents) {
  Met met("@20");
  std::string landing(8, '.');
  const std::string source = "8 bytes!";
  const lwmq_tli_grant to = grant(met.served, landing);
  pin(met.client, source, LWMQ_TLI_PIN_PUSH);
  std::string got;
  std::thread receiving([&] { got = receive(met.client); });
  for (std::uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(push(met.client, to, 0, source, i), LWMQ_OK);
    table().flush(met.client);
    EXPECT_EQ(table().wait(met.client, LWMQ_TLI_WAIT_REAP, 60000), LWMQ_OK);
    EXPECT_EQ(reap(met.client), i);
  }
  send(met.served, "over");
  receiving.join();
  EXPECT_EQ(got, "over");
}

TEST(FarPush, NeedsWhatIsPinnedForIt) {
  Met met;
  std::string landing(8, '.');
  const std::string source = "8 bytes!";
  const lwmq_tli_grant to = grant(met.served, landing);
  EXPECT_EQ(push(met.client, to, 0, source, 0), LWMQ_E_INVALID) << "pinned nowhere";
  lwmq_tli_region* const wrong = pin(met.client, source, LWMQ_TLI_PIN_GRANT);
  EXPECT_EQ(push(met.client, to, 0, source, 0), LWMQ_E_INVALID) << "pinned for grants";
  lwmq_tli_region* const right = pin(met.client, source, LWMQ_TLI_PIN_PUSH);
  EXPECT_EQ(push(met.client, to, 0, source, 0), LWMQ_OK) << last_error();
  EXPECT_EQ(push(met.client, to, 1, source, 0), LWMQ_E_TOO_BIG);
  lwmq_tli_grant none{};
  EXPECT_EQ(memory().grant(met.client, right, 0, 8, &none), LWMQ_E_INVALID) << "pinned for pushes";
  EXPECT_EQ(memory().grant(met.client, wrong, 1, 8, &none), LWMQ_E_TOO_BIG);
  table().flush(met.client);
  EXPECT_EQ(reap(met.client), 0u);
  memory().unpin(right);
  EXPECT_EQ(push(met.client, to, 0, source, 0), LWMQ_E_INVALID) << "no more";
}

TEST(FarPush, GoesNowhereOnceItsGrantIsRevoked) {
  Met met;
  std::string landing(8, '.');
  const std::string source = "8 bytes!";
  const lwmq_tli_grant to = grant(met.served, landing);
  pin(met.client, source, LWMQ_TLI_PIN_PUSH);
  ASSERT_EQ(push(met.client, to, 0, source, 1), LWMQ_OK);
  send(met.client, "one");
  EXPECT_EQ(receive(met.served), "one");
  EXPECT_EQ(landing, source);
  memory().revoke(met.served, &to);
  landing.assign(8, '-');
  ASSERT_EQ(push(met.client, to, 0, source, 2), LWMQ_OK) << "the peer cannot know";
  send(met.client, "two");
  EXPECT_EQ(receive(met.served), "two");
  EXPECT_EQ(landing, "--------");
  EXPECT_EQ(reap(met.client), 1u);
  EXPECT_EQ(reap(met.client), 2u);
}

// More than the socket holds, to a peer that reads nothing.
TEST(FarPush, ThatHasNotGoneOutIsGivenUpByAClose) {
  Met met;
  std::string landing(32 << 20, '.');
  std::string source(32 << 20, 'p');
  const lwmq_tli_grant to = grant(met.served, landing);
  pin(met.client, source, LWMQ_TLI_PIN_PUSH);
  ASSERT_EQ(push(met.client, to, 0, source, 1), LWMQ_OK);
  send(met.client, "behind it");
  table().close(std::exchange(met.client, nullptr), 0, 0);
  source.assign(source.size(), 'q');  // ours again
  EXPECT_EQ(receive(met.served), "LWMQ_E_PEER_LOST");
  EXPECT_EQ(landing.find('q'), std::string::npos);
}

TEST(FarPush, ThatHasGoneOutDoesNotHinderAnOrderlyClose) {
  Met met;
  std::string landing(8, '.');
  const std::string source = "8 bytes!";
  const lwmq_tli_grant to = grant(met.served, landing);
  pin(met.client, source, LWMQ_TLI_PIN_PUSH);
  ASSERT_EQ(push(met.client, to, 0, source, 1), LWMQ_OK);
  send(met.client, "behind it");
  table().close(std::exchange(met.client, nullptr), 0, 0);
  EXPECT_EQ(receive(met.served), "behind it");
  EXPECT_EQ(receive(met.served), "LWMQ_E_CLOSED");
  EXPECT_EQ(landing, source);
}

// What a filter drops is the extent that tells of the push.
TEST(FarPush, PassesFiltersUnseen) {
  const std::string address = "loss=1,way=send+" + kFar.fresh_address();
  const lwmq_tli_provider& filtered = provider_of(address);
  far();
  const auto options = options_of(kBuffers, kBufferBytes);
  lwmq_tli_listener* listener = nullptr;
  ASSERT_EQ(filtered.listener->listen(address.c_str(), &options, &listener), LWMQ_OK) << last_error();
  lwmq_tli_transport* client = nullptr;
  std::thread connecting([&] {
    EXPECT_EQ(tli::connect(filtered, address.c_str(), options, 60000, &client), LWMQ_OK) << last_error();
  });
  lwmq_tli_transport* served = nullptr;
  EXPECT_TRUE(eventually([&] { return filtered.listener->accept(listener, &served) == LWMQ_OK; }));
  connecting.join();
  std::string landing(8, '.');
  const std::string source = "8 bytes!";
  const lwmq_tli_memory_table& calls = *filtered.memory;
  lwmq_tli_region* region = nullptr;
  lwmq_tli_region* source_region = nullptr;
  lwmq_tli_grant to{};
  ASSERT_EQ(calls.pin(served, landing.data(), 8, LWMQ_TLI_PIN_GRANT, &region), LWMQ_OK);
  ASSERT_EQ(calls.grant(served, region, 0, 8, &to), LWMQ_OK);
  ASSERT_EQ(calls.pin(client, const_cast<char*>(source.data()), 8, LWMQ_TLI_PIN_PUSH, &source_region),
            LWMQ_OK);
  const lwmq_bytes piece{source.data(), 8};
  ASSERT_EQ(calls.push(client, &to, 0, &piece, 1, 7), LWMQ_OK) << last_error();
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(filtered.transport->acquire(client, &buffer), LWMQ_OK);
  ASSERT_EQ(filtered.transport->show(client, &buffer, 5, 0), LWMQ_OK);
  filtered.transport->ship(client, &buffer);
  std::uint64_t token = 0;
  EXPECT_EQ(filtered.transport->wait(client, LWMQ_TLI_WAIT_REAP, 60000), LWMQ_OK);
  EXPECT_EQ(calls.reap(client, &token, 1), 1u);
  EXPECT_EQ(token, 7u);
  calls.unpin(source_region);
  filtered.transport->close(client, 0, 0);
  while (filtered.transport->wait(served, LWMQ_TLI_WAIT_EXTENT, 60000) != LWMQ_OK) {
  }
  lwmq_tli_extent extent{};
  EXPECT_EQ(filtered.transport->land(served, &extent), LWMQ_E_CLOSED) << "the extent is lost";
  EXPECT_EQ(landing, source);
  calls.revoke(served, &to);
  calls.unpin(region);
  filtered.transport->close(served, 0, 0);
  filtered.listener->close(listener);
}

// Grants what it has, and says what has come there; stops reading when it is told so.
LWMQ_CHILD_ROLE(Grants) {
  lwmq_tli_listener* listener = listen(Child::argument());
  Child::report("listening");
  lwmq_tli_transport* transport = accept(listener);
  std::string landing(32 << 20, '.');
  const lwmq_tli_grant to = grant(transport, landing);
  send(transport, std::string(reinterpret_cast<const char*>(to.bytes), sizeof to.bytes));
  for (;;) {
    const std::string offset = receive(transport);
    if (offset == "stop") break;
    if (offset.starts_with("LWMQ_E_")) return;  // the test is over
    send(transport, landing.substr(std::stoull(offset), 8));
  }
  Child::report("stopped");
  for (;;) pause();
}

struct Granted {
  Granted() {
    EXPECT_EQ(server.line(), "listening");
    client = connect(address);
    const std::string bytes = receive(client);
    EXPECT_EQ(bytes.size(), sizeof to.bytes);
    std::memcpy(to.bytes, bytes.data(), sizeof to.bytes);
  }
  ~Granted() { table().close(client, 0, 0); }
  const std::string address = kFar.fresh_address();
  Child server{"Grants", address};
  lwmq_tli_transport* client = nullptr;
  lwmq_tli_grant to{};
};

TEST(FarPush, ReachesTheMemoryOfAnotherProcess) {
  Granted other;
  const std::string source = "abcdefghijklmnopqrstuvwxyz";
  pin(other.client, source, LWMQ_TLI_PIN_PUSH);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const lwmq_bytes piece{source.data() + i % 18, 8};
    ASSERT_EQ(memory().push(other.client, &other.to, i * 8, &piece, 1, i), LWMQ_OK) << last_error();
    send(other.client, std::to_string(i * 8));
    ASSERT_EQ(receive(other.client), source.substr(i % 18, 8));
    ASSERT_EQ(reap(other.client), i);
  }
}

// rows: L34
TEST(FarPush, ComesBackWhenItsPeerIsKilled) {
  Granted other;
  const std::string source(1 << 20, 'p');
  pin(other.client, source, LWMQ_TLI_PIN_PUSH);
  send(other.client, "stop");
  ASSERT_EQ(other.server.line(), "stopped");
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(push(other.client, other.to, i << 20, source, i), LWMQ_OK) << last_error();
    table().flush(other.client);
  }
  std::uint64_t tokens[30];
  EXPECT_LT(memory().reap(other.client, tokens, 1), 20u);
  other.server.kill();
  while (table().state(other.client, nullptr) == LWMQ_TLI_CONNECTED)
    table().wait(other.client, LWMQ_TLI_WAIT_STATE, 60000);
  const std::uint32_t rest = memory().reap(other.client, tokens, 30);
  ASSERT_GE(rest, 19u);
  EXPECT_EQ(tokens[rest - 1], 19u);
  EXPECT_EQ(memory().reap(other.client, tokens, 30), 0u);
  EXPECT_EQ(push(other.client, other.to, 0, source, 0), LWMQ_E_PEER_LOST);
}

// ---- Liars

// A client whose every byte the test chooses.
class Liar {
 public:
  explicit Liar(const std::string& address) {
    const std::string name =
        "lwmq-far-" + std::to_string(geteuid()) + "-" + address.substr(std::string("far://").size());
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path + 1, name.data(), name.size());
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&at),
                        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
              0);
    hello.magic = far::kMagic;
    hello.version = kProtocolVersion;
    hello.purpose = LWMQ_TLI_FOR_RAW;
    hello.buffer_bytes = kBufferBytes;
    hello.buffers = kBuffers;
  }
  void send(const void* data, std::size_t bytes) {
    EXPECT_EQ(::send(socket_.get(), data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  void say_hello() { send(&hello, sizeof hello); }
  // Through the handshake.
  lwmq_tli_transport* meet(lwmq_tli_listener* listener) {
    say_hello();
    send(&far::kMet, sizeof far::kMet);
    return accept(listener);
  }
  void send_range(lane::RangeKind kind, std::uint64_t offset, std::uint64_t word,
                  const std::string& bytes = "") {
    const lane::RangeHead head{offset | static_cast<std::uint64_t>(kind) << 48, word, bytes.size()};
    send(&head, sizeof head);
    send(bytes.data(), bytes.size());
  }
  // Buffer `buffer` is the next one, in lap 1.
  void open(std::uint64_t buffer) {
    send_range(lane::RangeKind::kWords, lane::SideLayout::kOrderOffset + orders_ * 16,
               (orders_ + 1) << 32 | 1 << 16 | (buffer + 1), std::string(8, '\0'));
    ++orders_;
  }
  static std::uint64_t place_in(std::uint64_t buffer) {
    return side.data_offset + buffer * side.stride + lane::SideLayout::kFirstWord;
  }
  static std::uint64_t word_of(std::uint64_t length, std::uint64_t kind, std::uint64_t lap) {
    return length | kind << 40 | lap << 48;
  }
  void hang_up() { socket_.reset(); }

  static inline const lane::SideLayout side = lane::SideLayout::of(kBuffers, kBufferBytes);
  far::Hello hello{};

 private:
  os::UniqueFd socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint64_t orders_ = 0;
};

class FarLiar : public ::testing::Test {
 protected:
  void TearDown() override {
    if (served_ != nullptr) table().close(served_, 0, 0);
    // Whatever has happened: the next one is served.
    lwmq_tli_transport* client = nullptr;
    std::thread connecting([&] { client = connect(address_); });
    lwmq_tli_transport* served = accept(listener_);
    connecting.join();
    lwmq_tli_buffer buffer{};
    ASSERT_TRUE(acquire(client, &buffer));
    buffer.next[0] = 'x';
    ASSERT_EQ(table().show(client, &buffer, 1, 0), LWMQ_OK);
    table().ship(client, &buffer);
    EXPECT_EQ(receive(served), "x");
    table().close(client, 0, 0);
    table().close(served, 0, 0);
    far().listener->close(listener_);
  }
  void expect_breach(const std::string& said) {
    EXPECT_EQ(receive(served_), "LWMQ_E_CORRUPT");
    EXPECT_NE(std::string(last_error()).find(said), std::string::npos) << last_error();
    EXPECT_EQ(table().state(served_, nullptr), LWMQ_TLI_LOST);
    lwmq_tli_buffer buffer{};
    EXPECT_EQ(table().acquire(served_, &buffer), LWMQ_E_CORRUPT);
    EXPECT_EQ(receive(served_), "LWMQ_E_CORRUPT") << "and again";
  }
  // Of accept, once the liar's hello is there.
  void expect_refusal(Status status, const std::string& said) {
    lwmq_tli_transport* transport = nullptr;
    Status got = LWMQ_E_EMPTY;
    ASSERT_TRUE(eventually([&] {
      got = far().listener->accept(listener_, &transport);
      return got != LWMQ_E_EMPTY;
    }));
    EXPECT_EQ(got, status);
    EXPECT_NE(std::string(last_error()).find(said), std::string::npos) << last_error();
  }

  const std::string address_ = kFar.fresh_address();
  lwmq_tli_listener* const listener_ = listen(address_);
  lwmq_tli_transport* served_ = nullptr;
};

TEST_F(FarLiar, SaysNothing) {
  const Liar silent(address_);
  lwmq_tli_transport* none = nullptr;
  EXPECT_EQ(far().listener->accept(listener_, &none), LWMQ_E_EMPTY);
}

TEST_F(FarLiar, SpeaksAnotherProtocol) {
  Liar liar(address_);
  liar.hello.magic = 0x20544547;
  liar.say_hello();
  expect_refusal(LWMQ_E_CORRUPT, "0x20544547");
}

TEST_F(FarLiar, IsOfAnotherVersion) {
  Liar liar(address_);
  liar.hello.version = kProtocolVersion + 1;
  liar.say_hello();
  expect_refusal(LWMQ_E_VERSION, std::to_string(kProtocolVersion + 1));
}

TEST_F(FarLiar, HasMoreBuffersThanThereCanBe) {
  Liar liar(address_);
  liar.hello.buffers = UINT32_MAX;
  liar.say_hello();
  expect_refusal(LWMQ_E_CORRUPT, std::to_string(UINT32_MAX));
}

TEST_F(FarLiar, EndsTheHandshakeWithSomethingElse) {
  Liar liar(address_);
  liar.say_hello();
  const std::uint32_t other = 0x12345678;
  liar.send(&other, sizeof other);
  expect_refusal(LWMQ_E_CORRUPT, "0x12345678");
}

TEST_F(FarLiar, SendsARangeOutsideOfItsSide) {
  Liar liar(address_);
  served_ = liar.meet(listener_);
  liar.send_range(lane::RangeKind::kWords, Liar::side.bytes, 1);
  expect_breach(std::to_string(Liar::side.bytes));
}

TEST_F(FarLiar, ShowsAnExtentThatIsLongerThanItsBuffer) {
  Liar liar(address_);
  served_ = liar.meet(listener_);
  liar.send_range(lane::RangeKind::kWords, Liar::place_in(0), Liar::word_of(1 << 20, 1, 1));
  liar.open(0);
  expect_breach(std::to_string(1 << 20));
}

TEST_F(FarLiar, OpensABufferThatDoesNotExist) {
  Liar liar(address_);
  served_ = liar.meet(listener_);
  liar.open(kBuffers + 7);
  expect_breach(std::to_string(kBuffers + 7));
}

TEST_F(FarLiar, OpensABufferThatIsStillInOurHands) {
  Liar liar(address_);
  served_ = liar.meet(listener_);
  liar.send_range(lane::RangeKind::kExtents, Liar::place_in(0), Liar::word_of(8, 1, 1), "8 bytes!");
  liar.send_range(lane::RangeKind::kWords, Liar::place_in(0) + 16, Liar::word_of(0, 255, 1));
  liar.open(0);
  liar.open(0);
  lwmq_tli_extent held{};
  ASSERT_TRUE(eventually([&] { return table().land(served_, &held) == LWMQ_OK; }));
  expect_breach("still in our hands");
  table().release(served_, &held);
}

TEST_F(FarLiar, PushesToWhatItWasNotGranted) {
  Liar liar(address_);
  served_ = liar.meet(listener_);
  std::string landing(8, '.');
  grant(served_, landing);
  liar.send_range(lane::RangeKind::kPush, 0, 2 << 16, "8 bytes!");
  expect_breach("never had");
  EXPECT_EQ(landing, "........");
}

TEST_F(FarLiar, PushesBeyondWhatItWasGranted) {
  Liar liar(address_);
  served_ = liar.meet(listener_);
  std::string landing(8, '.');
  grant(served_, landing);
  liar.send_range(lane::RangeKind::kPush, 1, 1 << 16, "8 bytes!");
  expect_breach("8 bytes to offset 1 of a grant of 8");
  EXPECT_EQ(landing, "........");
}

TEST_F(FarLiar, HangsUpInTheMiddleOfAPush) {
  Liar liar(address_);
  served_ = liar.meet(listener_);
  std::string landing(8, '.');
  grant(served_, landing);
  const lane::RangeHead head{std::uint64_t{4} << 48, 1 << 16, 8};
  liar.send(&head, sizeof head);
  liar.send("half", 4);
  liar.hang_up();
  EXPECT_EQ(receive(served_), "LWMQ_E_PEER_LOST");
  EXPECT_EQ(landing, "half....");
}

TEST_F(FarLiar, HangsUpInTheMiddleOfARange) {
  Liar liar(address_);
  served_ = liar.meet(listener_);
  const lane::RangeHead head{Liar::place_in(0) | std::uint64_t{1} << 48, Liar::word_of(8, 1, 1), 8};
  liar.send(&head, sizeof head);
  liar.send("half", 4);
  liar.hang_up();
  EXPECT_EQ(receive(served_), "LWMQ_E_PEER_LOST");
}

// Gives back what it never had, and says that it has read more than there was.
TEST_F(FarLiar, CountsWrong) {
  Liar liar(address_);
  served_ = liar.meet(listener_);
  for (std::uint64_t i = 0; i < kBuffers; ++i)
    liar.send_range(lane::RangeKind::kLap, lane::SideLayout::kReleasedOffset + i * 4, i % 3);
  liar.send_range(lane::RangeKind::kWords, offsetof(lane::SideHeader, released_landing), UINT64_MAX);
  for (int round = 0; round < 100; ++round) {
    lwmq_tli_buffer buffer{};
    if (table().acquire(served_, &buffer) != LWMQ_OK) continue;
    std::memset(buffer.next, 'x', 64);
    ASSERT_EQ(table().show(served_, &buffer, 64, 0), LWMQ_OK);
    table().ship(served_, &buffer);
    EXPECT_LE(unread_extents_of(table(), served_), 100u);
  }
  EXPECT_EQ(table().state(served_, nullptr), LWMQ_TLI_CONNECTED);
}

TEST_F(FarLiar, SendsAnything) {
  std::mt19937_64 random(seed_of_this_run());
  for (int round = 0; round < 50; ++round) {
    Liar liar(address_);
    lwmq_tli_transport* served = liar.meet(listener_);
    for (int i = 0; i < 20; ++i) {
      liar.send_range(
          static_cast<lane::RangeKind>(1 + random() % 4), random() % (Liar::side.bytes / 8) * 8,
          random() % 2 == 0 ? random() : Liar::word_of(random() % 5000, random() % 256, random() % 3),
          std::string(random() % 8 * 8, static_cast<char>(random())));
      if (random() % 4 == 0) liar.open(random() % (kBuffers + 1));
    }
    liar.hang_up();
    std::string got;
    for (int i = 0; i < 10000 && got.rfind("LWMQ_E_", 0) != 0; ++i) got = receive(served);
    EXPECT_TRUE(got == "LWMQ_E_CORRUPT" || got == "LWMQ_E_PEER_LOST" || got == "LWMQ_E_CLOSED") << got;
    table().close(served, 0, 0);
  }
}

}  // namespace
}  // namespace lwmq::conformance
