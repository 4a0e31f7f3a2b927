// Two ends of one transport, met in one process: what most tests of a provider begin with.
// The provider's service runs (run_service) before its first use.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "eventually.h"
#include "filters/filtered.h"
#include "lwmq/lwmq_tli.h"
#include "tli_calls.h"

namespace lwmq::conformance {

using calls::Extent;
using calls::Tli;

inline Tli provider_of(const std::string& address) {
  const lwmq_tli_provider* provider = nullptr;
  if (filters::find(address.c_str(), &provider) != LWMQ_OK) {
    ADD_FAILURE() << last_error();
    std::abort();
  }
  return Tli(*provider);
}

// Of the text of this thread's last failure.
inline void expect_said(const std::string& part) {
  EXPECT_NE(std::string(last_error()).find(part), std::string::npos) << last_error();
}

// Deaths and the like are witnessed on a thread that somebody above the provider runs. It never ends.
inline void run_service(const Tli& tli) {
  static std::vector<void (*)()> running;  // a filtered provider shares it
  const auto service = tli.provider().service;
  if (service == nullptr || std::count(running.begin(), running.end(), service) > 0) return;
  running.push_back(service);
  std::thread(service).detach();
}

inline lwmq_tli_options options_of(std::uint32_t buffers, std::uint64_t buffer_bytes,
                                   std::uint32_t purpose = LWMQ_TLI_FOR_RAW) {
  lwmq_tli_options options{};
  options.size = sizeof options;
  options.buffers_send = buffers;
  options.buffer_bytes = buffer_bytes;
  options.purpose = purpose;
  return options;
}

// `listener` has accepted `served`, which `client` has connected to.
struct Pair {
  Tli tli;
  std::string address;
  lwmq_tli_listener* listener = nullptr;
  lwmq_tli_transport* served = nullptr;
  lwmq_tli_transport* client = nullptr;

  Pair(const std::string& at, const lwmq_tli_options& options) : tli(provider_of(at)), address(at) {
    EXPECT_EQ(tli.listen(address.c_str(), &options, &listener), LWMQ_OK) << last_error();
    meet(options, &served, &client);
  }
  Pair(const std::string& at, std::uint32_t buffers, std::uint64_t buffer_bytes)
      : Pair(at, options_of(buffers, buffer_bytes)) {}
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    close(&client);
    close(&served);
    if (listener != nullptr) tli.listener_close(listener);
  }

  // A handshake may need both sides at once.
  void meet(const lwmq_tli_options& options, lwmq_tli_transport** out_served,
            lwmq_tli_transport** out_client) {
    Status connected = LWMQ_E_EMPTY;
    std::string text;
    std::thread connecting([&] {
      connected = tli.connect(address.c_str(), &options, 60000, out_client);
      text = last_error();
    });
    EXPECT_TRUE(eventually([&] { return tli.accept(listener, out_served) == LWMQ_OK; }));
    connecting.join();
    EXPECT_EQ(connected, LWMQ_OK) << text;
  }

  void close(lwmq_tli_transport** transport) const {
    if (*transport != nullptr) tli.close(*transport);
    *transport = nullptr;
  }

  // The next extent, waited for.
  Status land(lwmq_tli_transport* transport, Extent* out_extent) const {
    for (int i = 0; i < 600; ++i) {
      const Status status = tli.land(transport, out_extent);
      if (status != LWMQ_E_EMPTY) return status;
      tli.wait(transport, LWMQ_TLI_WAIT_EXTENT, 100);
    }
    return LWMQ_E_TIMED_OUT;
  }

  // Lands, copies and releases; "" with a failure where nothing came.
  std::string land_text(lwmq_tli_transport* transport) const {
    Extent extent;
    const Status status = land(transport, &extent);
    if (status != LWMQ_OK) return std::string("<") + status_name(status) + ">";
    std::string text(reinterpret_cast<const char*>(extent.data), extent.bytes);
    tli.release(transport, &extent);
    return text;
  }

  // One buffer with one extent.
  Status send(lwmq_tli_transport* transport, const std::string& text, std::uint32_t kind = 0) const {
    lwmq_tli_buffer buffer{};
    const Status status = tli.acquire(transport, &buffer);
    return status != LWMQ_OK ? status : fill(transport, &buffer, text, kind);
  }
  Status fill(lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, const std::string& text,
              std::uint32_t kind = 0) const {
    std::memcpy(buffer->next, text.data(), text.size());
    const Status status = tli.show(transport, buffer, text.size(), kind);
    const Status shipped = tli.ship(transport, buffer);
    return status != LWMQ_OK ? status : shipped;
  }
};

}  // namespace lwmq::conformance
