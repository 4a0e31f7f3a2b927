// Two ends of one transport, met in one process: what most tests of a provider begin with.
// The provider's service runs (run_service) before its first use.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "eventually.h"
#include "filters/filtered.h"
#include "lwmq/lwmq_tli.h"
#include "tli/registry.h"
#include "tli/tables.h"

namespace lwmq::conformance {

inline const lwmq_tli_provider& provider_of(const std::string& address) {
  const lwmq_tli_provider* provider = nullptr;
  if (filters::find(address.c_str(), &provider) != LWMQ_OK) {
    ADD_FAILURE() << last_error();
    std::abort();
  }
  return *provider;
}

// Deaths and the like are witnessed on a thread that somebody above the provider runs. It never ends.
inline void run_service(const lwmq_tli_provider& provider) {
  static std::vector<void (*)(const volatile std::uint32_t*)> running;  // a filtered provider shares it
  if (provider.service == nullptr) return;
  for (const auto known : running) {
    if (known == provider.service) return;
  }
  running.push_back(provider.service);
  std::thread([&provider] {
    static const volatile std::uint32_t kNeverStop = 0;
    provider.service(&kNeverStop);
  }).detach();
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

inline lwmq_tli_figures figures_of(const lwmq_tli_transport_table& tli, lwmq_tli_transport* transport) {
  lwmq_tli_figures figures{};
  tli.state(transport, &figures);
  return figures;
}
inline std::uint32_t free_buffers_of(const lwmq_tli_transport_table& tli, lwmq_tli_transport* transport) {
  return figures_of(tli, transport).free_buffers;
}
inline std::uint64_t unread_extents_of(const lwmq_tli_transport_table& tli, lwmq_tli_transport* transport) {
  return figures_of(tli, transport).unread_extents;
}

// `listener` has accepted `served`, which `client` has connected to.
struct Pair {
  const lwmq_tli_provider& provider;
  const lwmq_tli_transport_table& tli;
  const lwmq_tli_fast_table& fast;
  const std::shared_ptr<lwmq::filters::Filters>
      filters;  // of both ends; null: each has those that the address names
  std::string address;
  lwmq_tli_listener* listener = nullptr;
  lwmq_tli_transport* served = nullptr;
  lwmq_tli_transport* client = nullptr;

  Pair(const std::string& at, const lwmq_tli_options& options,
       std::shared_ptr<lwmq::filters::Filters> filters_of_both = nullptr)
      : provider(provider_of(at)),
        tli(*provider.transport),
        fast(lwmq::tli::fast_of(provider)),
        filters(std::move(filters_of_both)),
        address(at) {
    EXPECT_EQ(lwmq::filters::listen(provider, address.c_str(), options, filters, &listener), LWMQ_OK)
        << last_error();
    meet(options, &served, &client);
  }
  Pair(const std::string& at, std::uint32_t buffers, std::uint64_t buffer_bytes)
      : Pair(at, options_of(buffers, buffer_bytes)) {}
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  ~Pair() {
    close(&client);
    close(&served);
    if (listener != nullptr) provider.listener->close(listener);
  }

  // A handshake may need both sides at once.
  void meet(const lwmq_tli_options& options, lwmq_tli_transport** out_served,
            lwmq_tli_transport** out_client) {
    Status connected = LWMQ_E_EMPTY;
    std::string text;
    std::thread connecting([&] {
      lwmq_tli_attempt* attempt = nullptr;
      connected = lwmq::filters::begin(provider, address.c_str(), options, filters, &attempt);
      const auto is_over = [&] {
        connected = provider.attempt->advance(attempt, out_client);
        return connected != LWMQ_E_TIMED_OUT;
      };
      if (connected == LWMQ_OK && !eventually(is_over)) provider.attempt->cancel(attempt);
      text = last_error();
    });
    EXPECT_TRUE(eventually([&] { return provider.listener->accept(listener, out_served) == LWMQ_OK; }));
    connecting.join();
    EXPECT_EQ(connected, LWMQ_OK) << text;
  }

  void close(lwmq_tli_transport** transport) const {
    if (*transport != nullptr) tli.close(*transport, 0, 0);
    *transport = nullptr;
  }

  // The next extent, waited for.
  Status land(lwmq_tli_transport* transport, lwmq_tli_extent* out_extent) const {
    for (int i = 0; i < 600; ++i) {
      const Status status = tli.land(transport, out_extent);
      if (status != LWMQ_E_EMPTY) return status;
      tli.wait(transport, LWMQ_TLI_WAIT_EXTENT, 100);
    }
    return LWMQ_E_TIMED_OUT;
  }

  // Lands, copies and releases; "" with a failure where nothing came.
  std::string land_text(lwmq_tli_transport* transport) const {
    lwmq_tli_extent extent{};
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
