// A peer that is killed while it sends without end, over any provider.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "conformance/transport_pair.h"

// Behind the others: it has a namespace `testing` of its own.
#include "child.h"

namespace lwmq::testing {

// Digits, and blanks up to `bytes` in all.
inline std::string text_of(std::uint64_t number, std::size_t bytes) {
  std::string text = std::to_string(number);
  if (text.size() < bytes) text.resize(bytes, ' ');
  return text;
}

// What a child does until it is killed: serves the address that is its argument, and sends numbers from 0 on,
// each as an extent with its text.
inline void send_numbers_for_ever(const calls::Tli& tli, std::size_t bytes) {
  const auto options = conformance::options_of(4, 4096);
  lwmq_tli_listener* listener = nullptr;
  if (tli.listen(Child::argument(), &options, &listener) != LWMQ_OK) return Child::report(last_error());
  Child::report("listening");
  lwmq_tli_transport* transport = nullptr;
  while (tli.accept(listener, &transport) != LWMQ_OK) usleep(1000);
  for (std::uint64_t i = 0;; ++i) {
    lwmq_tli_buffer buffer{};
    while (tli.acquire(transport, &buffer) == LWMQ_E_FULL) tli.wait(transport, LWMQ_TLI_WAIT_ROOM, 1000);
    const std::string text = text_of(i, bytes);
    std::memcpy(buffer.next, text.data(), text.size());
    if (tli.show(transport, &buffer, text.size(), 0) != LWMQ_OK) return;
    tli.ship(transport, &buffer);
  }
}

// Kills the child of `role`, which does that, once `enough` numbers have come: what it has shown lands in
// order, then the loss is told, and the address can be served again.
inline void expect_what_a_killed_peer_showed(const calls::Tli& tli, const std::string& role,
                                             const std::string& address, std::size_t bytes,
                                             std::uint64_t enough) {
  Child server(role, address);
  ASSERT_EQ(server.line(), "listening");
  const auto options = conformance::options_of(4, 4096);
  lwmq_tli_transport* client = nullptr;
  ASSERT_EQ(tli.connect(address.c_str(), &options, 60000, &client), LWMQ_OK) << last_error();
  std::uint64_t next = 0;
  const auto receive = [&] {
    for (;;) {
      calls::Extent extent;
      const Status status = tli.land(client, &extent);
      if (status == LWMQ_OK) {
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(extent.data), extent.bytes),
                  text_of(next++, bytes));
        tli.release(client, &extent);
      }
      if (status != LWMQ_E_EMPTY) return status;
      tli.wait(client, LWMQ_TLI_WAIT_EXTENT, 60'000);
    }
  };
  while (next < enough) ASSERT_EQ(receive(), LWMQ_OK) << last_error();
  server.strike();
  Status status = LWMQ_OK;
  while ((status = receive()) == LWMQ_OK) {
  }
  EXPECT_EQ(status, LWMQ_E_PEER_LOST);
  EXPECT_NE(std::string(last_error()).find("process " + std::to_string(server.pid())), std::string::npos)
      << last_error();
  EXPECT_EQ(tli.state(client), LWMQ_TLI_LOST);
  lwmq_tli_buffer buffer{};
  EXPECT_EQ(tli.acquire(client, &buffer), LWMQ_E_PEER_LOST);
  tli.close(client);
  lwmq_tli_listener* listener = nullptr;
  EXPECT_TRUE(eventually([&] { return tli.listen(address.c_str(), &options, &listener) == LWMQ_OK; }))
      << last_error();
  if (listener != nullptr) tli.listener_close(listener);
}

}  // namespace lwmq::testing
