// links: base os stats tli address filters lane modules store providers
// A peer that is killed: noticed, whatever it held; what it showed is landed first; its address is free at
// once. How soon it is noticed tests/bench says (deaths).
#include <sys/mman.h>

#include <thread>

#include "child.h"
#include "ipc_fixture.h"

namespace lwmq::testing {
namespace {

// Serves its address, streams numbers until it is killed.
LWMQ_CHILD_ROLE(StreamsForEver) {
  lwmq_tli_listener* listener = listen(Child::argument());
  Child::report("listening");
  lwmq_tli_transport* transport = accept(listener);
  for (std::uint64_t i = 0;; ++i) {
    if (send(transport, std::to_string(i)) != LWMQ_OK) return;
    if (i == 1000) Child::report("streaming");
  }
}

// rows: L34
TEST(IpcDeath, WhatAKilledPeerShowedIsLandedThenTheLossIsTold) {
  const std::string address = fresh_address();
  Child server("StreamsForEver", address);
  ASSERT_EQ(server.line(), "listening");
  lwmq_tli_transport* client = connect(address);
  std::string got;
  std::uint64_t next = 0;
  for (; next < 1500; ++next) {
    ASSERT_EQ(receive(client, &got), LWMQ_OK);
    ASSERT_EQ(got, std::to_string(next));
  }
  server.strike();
  Status status = LWMQ_OK;
  while ((status = receive(client, &got)) == LWMQ_OK) ASSERT_EQ(got, std::to_string(next++));
  EXPECT_EQ(status, LWMQ_E_PEER_LOST);
  EXPECT_NE(std::string(last_error()).find(std::to_string(server.pid())), std::string::npos) << last_error();
  EXPECT_EQ(ipc().transport->state(client, nullptr), LWMQ_TLI_LOST);
  lwmq_tli_buffer buffer{};
  EXPECT_EQ(ipc().transport->acquire(client, &buffer), LWMQ_E_PEER_LOST);
  ipc().transport->close(client, 0, 0);
}

// Holds much memory, so that its end takes the kernel long, and has forked, so that its sockets never close.
LWMQ_CHILD_ROLE(IsLargeAndHasForked) {
  lwmq_tli_listener* listener = listen(Child::argument());
  constexpr std::size_t kResident = std::size_t{512} << 20;
  void* memory =
      mmap(nullptr, kResident, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) return;
  Child::report("listening");
  lwmq_tli_transport* transport = accept(listener);
  const pid_t grandchild = fork();
  if (grandchild == 0) {
    for (;;) pause();
  }
  send(transport, std::to_string(grandchild));
  Child::hear();
}

TEST(IpcDeath, OfALargeProcessThatHasForkedIsNoticedAndItsAddressServedAgain) {
  const std::string address = fresh_address();
  Child server("IsLargeAndHasForked", address);
  ASSERT_EQ(server.line(), "listening");
  lwmq_tli_transport* client = connect(address);
  std::string grandchild;
  ASSERT_EQ(receive(client, &grandchild), LWMQ_OK);
  std::thread killer([&] {
    usleep(100'000);  // the waiting thread is asleep by then; awake it would be right as well
    server.strike();
  });
  std::string got;
  EXPECT_EQ(receive(client, &got), LWMQ_E_PEER_LOST);
  killer.join();
  ipc().transport->close(client, 0, 0);

  lwmq_tli_listener* listener = listen(address);
  EXPECT_NE(listener, nullptr);
  ::kill(std::stoi(grandchild), SIGKILL);
  ipc().listener->close(listener);
}

LWMQ_CHILD_ROLE(ConnectsAndStays) {
  lwmq_tli_transport* transport = connect(Child::argument());
  EXPECT_EQ(send(transport, "here"), LWMQ_OK);
  Child::report("connected");
  Child::hear();
}

TEST(IpcDeath, MakesTheListenerFdReadableForAnArmedTransport) {
  const std::string address = fresh_address();
  lwmq_tli_listener* listener = listen(address);
  Child client("ConnectsAndStays", address);
  lwmq_tli_transport* transport = accept(listener);
  ASSERT_EQ(client.line(), "connected");
  std::string got;
  lwmq_tli_extent extent{};
  ASSERT_EQ(receive(transport, &got), LWMQ_OK);
  ASSERT_EQ(ipc().transport->land(transport, &extent), LWMQ_E_EMPTY);
  ASSERT_EQ(ipc().transport->arm(transport, LWMQ_TLI_WAIT_EXTENT), 0);
  const int fd = ipc().listener->descriptor(listener);
  EXPECT_FALSE(is_readable(fd, 50));
  client.strike();
  EXPECT_TRUE(is_readable(fd, 60000));
  EXPECT_EQ(ipc().transport->state(transport, nullptr), LWMQ_TLI_LOST);
  ipc().transport->arm(transport, 0);
  EXPECT_EQ(ipc().transport->land(transport, &extent), LWMQ_E_PEER_LOST);
  // Whatever the kernel still has to say about the socket is taken by accept.
  client.wait();
  lwmq_tli_transport* none = nullptr;
  EXPECT_EQ(ipc().listener->accept(listener, &none), LWMQ_E_EMPTY);
  ipc().transport->arm(transport, 0);
  EXPECT_FALSE(is_readable(fd, 0));
  ipc().transport->close(transport, 0, 0);
  ipc().listener->close(listener);
}

// Two peers killed together: the kernel wakes one sleeper per word, and the one it wakes may be dying itself.
LWMQ_CHILD_ROLE(WaitsForItsPeer) {
  lwmq_tli_transport* transport = connect(Child::argument());
  Child::report("connected");
  ipc().transport->wait(transport, LWMQ_TLI_WAIT_EXTENT, LWMQ_FOREVER);
  Child::report(std::to_string(ipc().transport->state(transport, nullptr)));
  Child::hear();
}

LWMQ_CHILD_ROLE(AcceptsThreeAndIdles) {
  lwmq_tli_listener* listener = listen(Child::argument());
  Child::report("listening");
  for (int i = 0; i < 3; ++i) accept(listener);
  Child::report("complete");
  Child::hear();
}

TEST(IpcDeath, IsNoticedByTheSurvivorWhenSeveralDieTogether) {
  for (int round = 0; round < 10; ++round) {
    const std::string address = fresh_address();
    Child server("AcceptsThreeAndIdles", address);
    ASSERT_EQ(server.line(), "listening");
    Child first("WaitsForItsPeer", address);
    ASSERT_EQ(first.line(), "connected");
    Child second("WaitsForItsPeer", address);
    ASSERT_EQ(second.line(), "connected");
    Child survivor("WaitsForItsPeer", address);
    ASSERT_EQ(survivor.line(), "connected");
    ASSERT_EQ(server.line(), "complete");
    usleep(5000);
    first.strike();
    server.strike();
    second.strike();
    EXPECT_EQ(survivor.line(), std::to_string(LWMQ_TLI_LOST));
  }
}

// What is killed at a random moment has shown every extent whole or not at all.
// rows: L54
TEST(IpcDeath, AtAnyMomentLeavesNoHalfExtent) {
  for (int round = 0; round < 20; ++round) {
    const std::string address = fresh_address();
    Child server("StreamsForEver", address);
    ASSERT_EQ(server.line(), "listening");
    lwmq_tli_transport* client = connect(address);
    std::thread killer([&] {
      usleep(static_cast<useconds_t>(1000 + 777 * round));
      server.strike();
    });
    std::string got;
    std::uint64_t next = 0;
    Status status = LWMQ_OK;
    while ((status = receive(client, &got)) == LWMQ_OK) ASSERT_EQ(got, std::to_string(next++));
    EXPECT_EQ(status, LWMQ_E_PEER_LOST) << last_error();
    killer.join();
    ipc().transport->close(client, 0, 0);
    lwmq_tli_listener* listener = listen(address);
    ASSERT_NE(listener, nullptr) << "round " << round;
    ipc().listener->close(listener);
  }
}

}  // namespace
}  // namespace lwmq::testing
