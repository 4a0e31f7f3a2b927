// The provider tables of a family of sockets; what stands behind each entry is in transport.h and port.h.
#pragma once

#include <cstring>
#include <vector>

#include "sockets/address.h"
#include "sockets/net.h"
#include "sockets/port.h"
#include "sockets/transport.h"

namespace lwmq::sockets {
namespace provider {

using T = lwmq_tli_transport*;

inline Listener* of(lwmq_tli_listener* handle) noexcept { return reinterpret_cast<Listener*>(handle); }
inline Transport* of(T handle) noexcept { return reinterpret_cast<Transport*>(handle); }

template <const Family& kFamily>
lwmq_status limits(const char* address, lwmq_limits* out_limits) {
  Address parsed;
  if (const Status status = parse(kFamily, address, &parsed); status != LWMQ_OK) return status;
  out_limits->buffer_bytes_max = kBufferBytesMax;
  out_limits->buffers_max = kBuffersMax;
  out_limits->capabilities =
      LWMQ_CAN_SEND | LWMQ_CAN_RECEIVE | LWMQ_IS_RELIABLE | LWMQ_IS_ORDERED | LWMQ_CAN_ERASE;
  out_limits->loss_ms = kFamily.silent_s * 1000;
  std::vector<Place> places;
  if (kFamily.resolve(parsed, false, &places) != LWMQ_OK) return LWMQ_OK;
  if (kFamily.is_loopback(places.front())) out_limits->capabilities |= LWMQ_IS_IN_NETWORK;
  if (kFamily.fill_memory_limits != nullptr) kFamily.fill_memory_limits(parsed, places.front(), out_limits);
  return LWMQ_OK;
}

template <const Family& kFamily>
inline constexpr lwmq_tli_listener_table kListener = {
    .listen =
        [](const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out_listener) {
          return Listener::open(kFamily, address, options, reinterpret_cast<Listener**>(out_listener));
        },
    .accept =
        [](lwmq_tli_listener* listener, T* out_transport) {
          return of(listener)->accept(reinterpret_cast<Transport**>(out_transport));
        },
    .tend = nullptr,
    .descriptor = [](lwmq_tli_listener* listener) -> std::int32_t { return of(listener)->descriptor(); },
    .address = [](lwmq_tli_listener* listener) { return of(listener)->text(); },
    .close = [](lwmq_tli_listener* listener) { of(listener)->close(); },
};

template <const Family& kFamily>
inline constexpr lwmq_tli_transport_table kTransport = {
    .connect =
        [](const char* address, const lwmq_tli_options* options, T* out_transport) {
          return Transport::connect(kFamily, address, options, reinterpret_cast<Transport**>(out_transport));
        },
    .proceed = [](T t) { return of(t)->proceed(); },
    .peer = [](T t, lwmq_tli_peer* out_peer) { of(t)->peer(out_peer); },
    .state = [](T t, lwmq_tli_figures* out_figures) { return of(t)->state(out_figures); },
    .acquire = [](T t, lwmq_tli_buffer* out_buffer) { return of(t)->acquire(out_buffer); },
    .show = [](T t, lwmq_tli_buffer* buffer, std::uint64_t bytes,
               std::uint32_t kind) { return of(t)->show(buffer, bytes, kind); },
    .ship = [](T t, lwmq_tli_buffer* buffer) { return of(t)->ship(buffer); },
    .abandon = [](T t, lwmq_tli_buffer* buffer) { of(t)->abandon(buffer); },
    .flush = [](T t) { of(t)->flush(); },
    .land = [](T t, std::uint32_t limit, std::uint32_t how, lwmq_tli_extent* out_extents,
               lwmq_tli_landing* out_landing) { return of(t)->land(limit, how, out_extents, out_landing); },
    .release = [](T t, const lwmq_tli_landing* landing,
                  std::uint32_t count) { of(t)->release(*landing, count); },
    .wait = [](T t, std::uint32_t what, std::uint32_t timeout_ms) { return of(t)->wait(what, timeout_ms); },
    .arm = [](T t, std::uint32_t what) { return of(t)->arm(what); },
    .descriptor = [](T t) { return of(t)->descriptor(); },
    .close = [](T t, std::uint32_t lent, std::uint64_t unsent) { of(t)->close(lent, unsent); },
};

inline constexpr lwmq_tli_fast_table kFast = {
    .show_run = [](T t, lwmq_tli_buffer* buffer, const lwmq_bytes* frames, std::uint64_t count,
                   std::uint32_t kind, std::uint64_t* out_bytes) -> std::uint64_t {
      return of(t)->show_run(buffer, frames, count, kind, out_bytes);
    },
    .ship_only = nullptr,
    .release_last = [](T t, const lwmq_tli_landing* landing,
                       std::uint32_t count) { of(t)->release_last(*landing, count); },
};

inline lwmq_status register_memory(T transport, const void* memory, std::uint64_t bytes) {
  return of(transport)->register_memory(memory, bytes);
}
inline void unregister_memory(T transport, const void* memory) { of(transport)->unregister_memory(memory); }

template <const Family& kFamily>
inline constexpr lwmq_tli_memory_table kMemory = {
    .window_create = nullptr,
    .window_export = nullptr,
    .window_find = nullptr,
    .window_info = nullptr,
    .window_owner_alive = nullptr,
    .window_keep = nullptr,
    .window_release = nullptr,
    .grant = [](T t, void* memory, std::uint64_t bytes,
                lwmq_tli_grant* out_grant) { return of(t)->grant(memory, bytes, out_grant); },
    .revoke = [](T t, const lwmq_tli_grant* grant) { of(t)->revoke(*grant); },
    .register_memory = kFamily.has_links() ? register_memory : nullptr,
    .unregister_memory = kFamily.has_links() ? unregister_memory : nullptr,
    .push = [](T t, const lwmq_tli_grant* grant, std::uint64_t offset, const lwmq_bytes* pieces,
               std::uint32_t count,
               std::uint64_t token) { return of(t)->push(*grant, offset, pieces, count, token); },
    .reap = [](T t, std::uint32_t limit,
               std::uint64_t* out_tokens) { return of(t)->reap(limit, out_tokens); },
};

inline void serve() { Net::instance().run(); }

inline bool is_of(const char* address, const char* scheme) noexcept {
  return std::strncmp(address, scheme, std::strlen(scheme)) == 0;
}

}  // namespace provider

// The provider of `kFamily` in clear, or under TLS.
template <const Family& kFamily, bool kIsSecure>
constexpr lwmq_tli_provider provider_of(const char* name, const char* const* settings) noexcept {
  return {
      .size = sizeof(lwmq_tli_provider),
      .version = LWMQ_TLI_VERSION,
      .name = name,
      .settings = settings,
      .claim = [](const char* address) -> std::int32_t {
        return provider::is_of(address, kIsSecure ? kFamily.secure_scheme : kFamily.scheme) ? 1 : 0;
      },
      .limits = provider::limits<kFamily>,
      .service = provider::serve,
      .listener = &provider::kListener<kFamily>,
      .transport = &provider::kTransport<kFamily>,
      .fast = &provider::kFast,
      .memory = &provider::kMemory<kFamily>,
  };
}

}  // namespace lwmq::sockets
