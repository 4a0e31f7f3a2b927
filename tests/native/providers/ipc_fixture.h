// What the tests of ipc share: the provider, its service thread, and short words for common steps.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <string>

#include "base/status.h"
#include "filters/filtered.h"
#include "lwmq/lwmq_tli.h"
#include "os/clock.h"
#include "os/identity.h"
#include "os/thread.h"
#include "tli/registry.h"

namespace lwmq::testing {

inline const lwmq_tli_provider& ipc() {
  static const lwmq_tli_provider* table = [] {
    const lwmq_tli_provider* found = nullptr;
    EXPECT_EQ(filters::find("ipc://any", &found), LWMQ_OK) << last_error();
    static const volatile std::uint32_t never = 0;
    pthread_t thread{};
    EXPECT_EQ(os::start_thread(
                  "lwmq-service",
                  [](void* provider) { static_cast<const lwmq_tli_provider*>(provider)->service(&never); },
                  const_cast<lwmq_tli_provider*>(found), &thread),
              LWMQ_OK);
    pthread_detach(thread);
    return found;
  }();
  return *table;
}

// An address that no other run uses.
inline std::string fresh_address() {
  std::uint64_t number = 0;
  os::random_bytes(&number, sizeof number);
  return "ipc://test/" + std::to_string(number);
}

inline lwmq_tli_options options(std::uint64_t buffer_bytes = 4096, std::uint32_t buffers = 4) {
  lwmq_tli_options o{};
  o.size = sizeof o;
  o.buffer_bytes = buffer_bytes;
  o.buffers_send = buffers;
  o.purpose = LWMQ_TLI_FOR_RAW;
  return o;
}

inline std::uint32_t free_buffers_of(lwmq_tli_transport* transport) {
  lwmq_tli_figures figures{};
  ipc().transport->state(transport, &figures);
  return figures.free_buffers;
}

inline lwmq_tli_listener* listen(const std::string& address, const lwmq_tli_options& o = options()) {
  lwmq_tli_listener* listener = nullptr;
  EXPECT_EQ(ipc().listener->listen(address.c_str(), &o, &listener), LWMQ_OK) << last_error();
  return listener;
}

inline constexpr std::int64_t kSecond = 1'000'000'000;

// Asks until the answer is not LWMQ_E_EMPTY, at most a minute.
template <typename Ask>
Status until_there(Ask&& ask) {
  const std::int64_t deadline = os::now_ns() + 60 * kSecond;
  for (;;) {
    const Status status = ask();
    if (status != LWMQ_E_EMPTY || os::now_ns() > deadline) return status;
    usleep(200);
  }
}

inline lwmq_tli_transport* accept(lwmq_tli_listener* listener) {
  lwmq_tli_transport* transport = nullptr;
  EXPECT_EQ(until_there([&] { return ipc().listener->accept(listener, &transport); }), LWMQ_OK)
      << last_error();
  return transport;
}

inline lwmq_tli_transport* connect(const std::string& address, const lwmq_tli_options& o = options()) {
  lwmq_tli_transport* transport = nullptr;
  EXPECT_EQ(until_there([&] { return lwmq::tli::connect(ipc(), address.c_str(), o, 60000, &transport); }),
            LWMQ_OK)
      << last_error();
  return transport;
}

// Sends one extent in a buffer of its own.
inline Status send(lwmq_tli_transport* transport, const std::string& bytes, std::uint32_t kind = 0) {
  lwmq_tli_buffer buffer{};
  for (;;) {
    const Status status = ipc().transport->acquire(transport, &buffer);
    if (status == LWMQ_OK) break;
    if (status != LWMQ_E_FULL) return status;
    const Status waited = ipc().transport->wait(transport, LWMQ_TLI_WAIT_ROOM, 60'000);
    if (waited != LWMQ_OK) return waited;
  }
  std::memcpy(buffer.next, bytes.data(), bytes.size());
  const Status status = ipc().transport->show(transport, &buffer, bytes.size(), kind);
  ipc().transport->ship(transport, &buffer);
  return status;
}

// Lands one extent, copies and releases it. Waits up to a minute.
inline Status receive(lwmq_tli_transport* transport, std::string* out_bytes) {
  lwmq_tli_extent extent{};
  for (;;) {
    const Status status = ipc().transport->land(transport, &extent);
    if (status == LWMQ_OK) break;
    if (status != LWMQ_E_EMPTY) return status;
    const Status waited = ipc().transport->wait(transport, LWMQ_TLI_WAIT_EXTENT, 60'000);
    if (waited != LWMQ_OK) return waited;
  }
  out_bytes->assign(reinterpret_cast<const char*>(extent.data), extent.bytes);
  ipc().transport->release(transport, &extent);
  return LWMQ_OK;
}

inline bool is_readable(int fd, int timeout_ms) {
  pollfd item{fd, POLLIN, 0};
  return poll(&item, 1, timeout_ms) == 1;
}

// Both ends of a conversation inside this process.
struct Pair {
  explicit Pair(const lwmq_tli_options& server_options = options(),
                const lwmq_tli_options& client_options = options())
      : address(fresh_address()), listener(listen(address, server_options)) {
    client = connect(address, client_options);
    server = accept(listener);
  }
  ~Pair() {
    if (client != nullptr) ipc().transport->close(client, 0, 0);
    if (server != nullptr) ipc().transport->close(server, 0, 0);
    if (listener != nullptr) ipc().listener->close(listener);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  std::string address;
  lwmq_tli_listener* listener;
  lwmq_tli_transport* client = nullptr;
  lwmq_tli_transport* server = nullptr;
};

}  // namespace lwmq::testing
