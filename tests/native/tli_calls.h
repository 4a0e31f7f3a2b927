// The calls of a provider, as tests make them: extents land one by one, and connecting waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "tli/own_settings.h"
#include "tli/registry.h"

namespace lwmq::calls {

// An extent that landed alone.
struct Extent : lwmq_tli_extent {
  lwmq_tli_landing landing{};
};

class Tli {
 public:
  explicit Tli(const lwmq_tli_provider& provider) : provider_(&provider) {}

  [[nodiscard]] const lwmq_tli_provider& provider() const { return *provider_; }
  [[nodiscard]] bool shares_windows() const { return tli::shares_windows(*provider_); }
  Status limits(const char* address, lwmq_limits* out_limits) const {
    return provider_->limits(Asked(address, nullptr).place.c_str(), out_limits);
  }

  Status listen(const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out) const {
    const Asked asked(address, options);
    return provider_->listener->listen(asked.place.c_str(), asked.options, out);
  }
  Status accept(lwmq_tli_listener* listener, lwmq_tli_transport** out) const {
    return provider_->listener->accept(listener, out);
  }
  [[nodiscard]] bool tends() const { return provider_->listener->tend != nullptr; }
  void tend(lwmq_tli_listener* listener) const { provider_->listener->tend(listener); }
  [[nodiscard]] int listener_fd(lwmq_tli_listener* listener) const {
    return provider_->listener->descriptor(listener);
  }
  void listener_close(lwmq_tli_listener* listener) const { provider_->listener->close(listener); }

  Status connect(const char* address, const lwmq_tli_options* options, std::uint32_t timeout_ms,
                 lwmq_tli_transport** out) const {
    const Asked asked(address, options);
    return tli::connect(*provider_, asked.place.c_str(), *asked.options, timeout_ms, out);
  }
  void peer(lwmq_tli_transport* t, lwmq_tli_peer* out_peer) const { provider_->transport->peer(t, out_peer); }
  [[nodiscard]] std::int32_t state(lwmq_tli_transport* t) const {
    return provider_->transport->state(t, nullptr);
  }
  [[nodiscard]] lwmq_tli_figures figures(lwmq_tli_transport* t) const {
    lwmq_tli_figures figures{};
    provider_->transport->state(t, &figures);
    return figures;
  }
  [[nodiscard]] std::uint32_t free_buffers(lwmq_tli_transport* t) const { return figures(t).free_buffers; }
  [[nodiscard]] std::uint64_t unread_extents(lwmq_tli_transport* t) const {
    return figures(t).unread_extents;
  }

  Status acquire(lwmq_tli_transport* t, lwmq_tli_buffer* out_buffer) const {
    return provider_->transport->acquire(t, out_buffer);
  }
  Status show(lwmq_tli_transport* t, lwmq_tli_buffer* buffer, std::uint64_t bytes, std::uint32_t kind) const {
    const Status status = provider_->transport->show(t, buffer, bytes, kind);
    flush(t);
    return status;
  }
  // All of them, by the provider's shortcut where it has one.
  Status show_run(lwmq_tli_transport* t, lwmq_tli_buffer* buffer, const lwmq_bytes* frames,
                  std::uint64_t count, std::uint32_t kind) const {
    const auto* fast = provider_->fast;
    std::uint64_t shown = 0;
    std::uint64_t bytes = 0;
    if (fast != nullptr && fast->show_run != nullptr)
      shown = fast->show_run(t, buffer, frames, count, kind, &bytes);
    for (; shown < count; ++shown) {
      std::memcpy(buffer->next, frames[shown].data, frames[shown].bytes);
      const Status status = show(t, buffer, frames[shown].bytes, kind);
      if (status != LWMQ_OK) return status;
    }
    flush(t);
    return LWMQ_OK;
  }
  Status ship(lwmq_tli_transport* t, lwmq_tli_buffer* buffer) const {
    const Status status = provider_->transport->ship(t, buffer);
    flush(t);
    return status;
  }
  void flush(lwmq_tli_transport* t) const {
    if (provider_->transport->flush != nullptr) provider_->transport->flush(t);
  }
  void abandon(lwmq_tli_transport* t, lwmq_tli_buffer* buffer) const {
    provider_->transport->abandon(t, buffer);
  }

  Status land(lwmq_tli_transport* t, Extent* out_extent, std::uint32_t how = LWMQ_TLI_LAND_NOW) const {
    return provider_->transport->land(t, 1, how, out_extent, &out_extent->landing);
  }
  void release(lwmq_tli_transport* t, const Extent* extent) const {
    provider_->transport->release(t, &extent->landing, 1);
  }

  // By its shortcut, where the provider has one.
  void release_last(lwmq_tli_transport* t, const lwmq_tli_landing& landing, std::uint32_t count) const {
    const auto* fast = provider_->fast;
    const bool has = fast != nullptr && fast->release_last != nullptr;
    (has ? fast->release_last : provider_->transport->release)(t, &landing, count);
  }

  Status wait(lwmq_tli_transport* t, std::uint32_t what, std::uint32_t timeout_ms) const {
    return provider_->transport->wait(t, what, timeout_ms);
  }
  std::int32_t arm(lwmq_tli_transport* t, std::uint32_t what) const {
    return provider_->transport->arm(t, what);
  }
  void disarm(lwmq_tli_transport* t) const { provider_->transport->arm(t, 0); }
  [[nodiscard]] int transport_fd(lwmq_tli_transport* t) const { return provider_->transport->descriptor(t); }
  void close(lwmq_tli_transport* t, std::uint32_t lent = 0, std::uint64_t unsent = 0) const {
    provider_->transport->close(t, lent, unsent);
  }

  // Those of shared windows; only where shares_windows says so.
  Status window_create(std::uint64_t bytes, lwmq_tli_window** out) const {
    return provider_->memory->window_create(bytes, out);
  }
  Status window_export(lwmq_tli_transport* t, lwmq_tli_window* window) const {
    return provider_->memory->window_export(t, window);
  }
  Status window_find(lwmq_tli_transport* t, const std::uint8_t id[16], std::uint32_t timeout_ms,
                     lwmq_tli_window** out) const {
    return provider_->memory->window_find(t, id, timeout_ms, out);
  }
  void window_info(const lwmq_tli_window* window, lwmq_tli_window_info* out_info) const {
    provider_->memory->window_info(window, out_info);
  }
  [[nodiscard]] std::int32_t window_owner_alive(const lwmq_tli_window* window) const {
    return provider_->memory->window_owner_alive(window);
  }
  void window_keep(lwmq_tli_window* window) const { provider_->memory->window_keep(window); }
  void window_release(lwmq_tli_window* window) const { provider_->memory->window_release(window); }

 private:
  // `place?key=value&key=value`, whose settings are the provider's.
  struct Asked {
    std::string place;
    const lwmq_tli_options* options;
    tli::OwnSettings own;
    lwmq_tli_options with_own{};

    Asked(const std::string& address, const lwmq_tli_options* given)
        : place(address.substr(0, address.find('?'))), options(given) {
      if (given == nullptr || place.size() == address.size()) return;
      for (std::size_t at = place.size(), end = 0; at < address.size(); at = end) {
        end = std::min(address.find('&', at + 1), address.size());
        const std::size_t equals = address.find('=', at);
        own.add(address.substr(at + 1, equals - at - 1), address.substr(equals + 1, end - equals - 1));
      }
      with_own = *given;
      own.lend_to(&with_own);
      options = &with_own;
    }
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;
  };

  const lwmq_tli_provider* provider_;
};

}  // namespace lwmq::calls
