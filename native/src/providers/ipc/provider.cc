// The tables of ipc://; what stands behind each entry is in listener.h, connect.h, transport.h and window.h.
#include "providers/ipc/address.h"
#include "providers/ipc/connect.h"
#include "providers/ipc/listener.h"
#include "providers/ipc/process.h"
#include "providers/ipc/transport.h"
#include "providers/ipc/window.h"

namespace lwmq::ipc {
namespace {

using L = lwmq_tli_listener*;
using A = lwmq_tli_attempt*;
using T = lwmq_tli_transport*;
using W = lwmq_tli_window*;

// The tables' opaque handles are our classes.
Listener* of(lwmq_tli_listener* handle) noexcept { return reinterpret_cast<Listener*>(handle); }
Attempt* of(lwmq_tli_attempt* handle) noexcept { return reinterpret_cast<Attempt*>(handle); }
Transport* of(lwmq_tli_transport* handle) noexcept { return reinterpret_cast<Transport*>(handle); }
Window* of(lwmq_tli_window* handle) noexcept { return reinterpret_cast<Window*>(handle); }
const Window* of(const lwmq_tli_window* handle) noexcept { return reinterpret_cast<const Window*>(handle); }
Listener** out(lwmq_tli_listener** handle) noexcept { return reinterpret_cast<Listener**>(handle); }
Attempt** out(lwmq_tli_attempt** handle) noexcept { return reinterpret_cast<Attempt**>(handle); }
Transport** out(lwmq_tli_transport** handle) noexcept { return reinterpret_cast<Transport**>(handle); }
Window** out(lwmq_tli_window** handle) noexcept { return reinterpret_cast<Window**>(handle); }

lwmq_status limits(const char* address, lwmq_limits* out_limits) {
  Address parsed;
  if (const Status status = parse(address, &parsed); status != LWMQ_OK) return status;
  if (const Status status = check_directory(parsed); status != LWMQ_OK) return status;
  out_limits->buffer_bytes_max = kBufferBytesMax;
  out_limits->buffers_max = kBuffersMax;
  out_limits->capabilities = LWMQ_CAN_SEND | LWMQ_CAN_RECEIVE | LWMQ_CAN_SHARE_WINDOW | LWMQ_IS_RELIABLE |
                             LWMQ_IS_ORDERED | LWMQ_CAN_ERASE;
  out_limits->loss_ms = kLossMs;
  return LWMQ_OK;
}

constexpr lwmq_tli_listener_table kListener = {
    .listen =
        [](const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out_listener) {
          return Listener::open(address, options, out(out_listener));
        },
    .accept = [](L l, T* out_transport) { return of(l)->accept(out(out_transport)); },
    .tend = [](L l) { of(l)->tend(); },
    .descriptor = [](L l) -> std::int32_t { return of(l)->fd(); },
    .address = nullptr,
    .close = [](L l) { of(l)->close(); },
};

constexpr lwmq_tli_attempt_table kAttempt = {
    .begin = [](const char* address, const lwmq_tli_options* options,
                A* out_attempt) { return Attempt::begin(address, options, out(out_attempt)); },
    .advance = [](A a, T* out_transport) { return of(a)->advance(out(out_transport)); },
    .descriptor = [](A a) -> std::int32_t { return of(a)->fd(); },
    .cancel = [](A a) { of(a)->cancel(); },
};

constexpr lwmq_tli_transport_table kTransport = {
    .peer = [](T t, lwmq_tli_peer* out_peer) { of(t)->peer(out_peer); },
    .state = [](T t, lwmq_tli_figures* out_figures) { return of(t)->state(out_figures); },
    .acquire = [](T t, lwmq_tli_buffer* out_buffer) { return of(t)->acquire(out_buffer); },
    .show = [](T t, lwmq_tli_buffer* buffer, std::uint64_t bytes,
               std::uint32_t kind) { return of(t)->show(buffer, bytes, kind); },
    .flush = nullptr,
    .ship = [](T t, lwmq_tli_buffer* buffer) { return of(t)->ship(buffer); },
    .abandon = [](T t, lwmq_tli_buffer* buffer) { of(t)->abandon(buffer); },
    .land = [](T t, lwmq_tli_extent* out_extent) { return of(t)->land(out_extent); },
    .release = [](T t, lwmq_tli_extent* extent) { of(t)->release(extent->token, 1); },
    .wait = [](T t, std::uint32_t what, std::uint32_t timeout_ms) { return of(t)->wait(what, timeout_ms); },
    .arm = [](T t, std::uint32_t what) { return of(t)->arm(what); },
    .descriptor = [](T t) { return of(t)->fd(); },
    .close = [](T t, std::uint32_t lent, std::uint64_t unsent) { of(t)->close(lent, unsent); },
};

constexpr lwmq_tli_fast_table kFast = {
    .show_run =
        [](T t, lwmq_tli_buffer* buffer, const lwmq_bytes* frames, std::uint64_t count, std::uint32_t kind,
           std::uint64_t* out_bytes) { return of(t)->show_run(buffer, frames, count, kind, out_bytes); },
    .ship_only = [](T t, lwmq_tli_buffer* buffer, std::uint64_t bytes,
                    std::uint32_t kind) { return of(t)->ship_only(buffer, bytes, kind); },
    .release_run = [](T t, const std::uint64_t token[2],
                      std::uint32_t count) { of(t)->release(token, count); },
    .release_last = [](T t, const std::uint64_t token[2],
                       std::uint32_t count) { of(t)->release_last(token, count); },
    .land_run =
        [](T t, std::uint64_t bytes_below, std::uint32_t limit, std::uint64_t out_token[2],
           lwmq_tli_piece* out_pieces) { return of(t)->land_run(bytes_below, limit, out_token, out_pieces); },
    .land_soon = [](T t, std::uint64_t bytes_below, std::uint64_t out_token[2], lwmq_tli_piece* out_piece)
        -> std::uint32_t { return of(t)->land_soon(bytes_below, out_token, out_piece) ? 1 : 0; },
    .land_awaited = [](T t, lwmq_tli_extent* out_extent) -> std::uint32_t {
      return of(t)->land_awaited(out_extent) ? 1 : 0;
    },
};

constexpr lwmq_tli_memory_table kMemory = {
    .create = [](std::uint64_t bytes, W* out_window) { return create_window(bytes, out(out_window)); },
    .export_to = [](T t, W window) { return of(t)->export_window(of(window)); },
    .find = [](T t, const std::uint8_t id[16], std::uint32_t timeout_ms,
               W* out_window) { return of(t)->find_window(id, timeout_ms, out(out_window)); },
    .info = [](const lwmq_tli_window* window,
               lwmq_tli_window_info* out_info) { *out_info = of(window)->info(); },
    .owner_alive = [](const lwmq_tli_window* window) -> std::int32_t {
      return of(window)->owner_alive() ? 1 : 0;
    },
    .keep = [](W window) { of(window)->keep(); },
    .release = [](W window) { of(window)->release(); },
    .pin = nullptr,
    .unpin = nullptr,
    .grant = nullptr,
    .revoke = nullptr,
    .push = nullptr,
    .reap = nullptr,
};

constexpr lwmq_tli_provider kIpcProvider = {
    .size = sizeof(lwmq_tli_provider),
    .version = LWMQ_TLI_VERSION,
    .name = "ipc",
    .claim = [](const char* address) -> std::int32_t { return is_ours(address) ? 1 : 0; },
    .limits = limits,
    .settings = nullptr,
    .listener = &kListener,
    .attempt = &kAttempt,
    .transport = &kTransport,
    .fast = &kFast,
    .memory = &kMemory,
    .service = run_service,
    .service_wake = wake_service,
};

}  // namespace
}  // namespace lwmq::ipc

using lwmq::ipc::kIpcProvider;
LWMQ_TLI_REGISTER(kIpcProvider);
