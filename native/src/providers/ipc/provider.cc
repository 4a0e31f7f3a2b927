// The provider table of ipc://; what stands behind each entry is in transport.h, listener.h and window.h.
#include "providers/ipc/address.h"
#include "providers/ipc/listener.h"
#include "providers/ipc/process.h"
#include "providers/ipc/transport.h"
#include "providers/ipc/window.h"

namespace lwmq::ipc {
namespace {

// The table's opaque handles are our classes.
Listener* of(lwmq_tli_listener* handle) noexcept { return reinterpret_cast<Listener*>(handle); }
Transport* of(lwmq_tli_transport* handle) noexcept { return reinterpret_cast<Transport*>(handle); }
Window* of(lwmq_tli_window* handle) noexcept { return reinterpret_cast<Window*>(handle); }
const Window* of(const lwmq_tli_window* handle) noexcept { return reinterpret_cast<const Window*>(handle); }
Listener** out(lwmq_tli_listener** handle) noexcept { return reinterpret_cast<Listener**>(handle); }
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
  if (!parsed.name.empty()) out_limits->capabilities |= LWMQ_IS_IN_NETWORK;
  return LWMQ_OK;
}

using T = lwmq_tli_transport*;

constexpr lwmq_tli_listener_table kListener = {
    .listen =
        [](const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out_listener) {
          return Listener::open(address, options, out(out_listener));
        },
    .accept = [](lwmq_tli_listener* listener,
                 lwmq_tli_transport** out_transport) { return of(listener)->accept(out(out_transport)); },
    .tend = [](lwmq_tli_listener* listener) { of(listener)->tend(); },
    .descriptor = [](lwmq_tli_listener* listener) -> std::int32_t { return of(listener)->fd(); },
    .address = nullptr,
    .close = [](lwmq_tli_listener* listener) { of(listener)->close(); },
};

constexpr lwmq_tli_transport_table kTransport = {
    .connect =
        [](const char* address, const lwmq_tli_options* options, lwmq_tli_transport** out_transport) {
          return Transport::connect(address, options, out(out_transport));
        },
    .proceed = [](T t) { return of(t)->proceed(); },
    .peer = [](T t, lwmq_tli_peer* out_peer) { of(t)->peer(out_peer); },
    .state = [](T t, lwmq_tli_figures* out_figures) { return of(t)->state(out_figures); },
    .acquire = [](T t, lwmq_tli_buffer* out_buffer) { return of(t)->acquire(out_buffer); },
    .show = [](T t, lwmq_tli_buffer* buffer, std::uint64_t bytes,
               std::uint32_t kind) { return of(t)->show(buffer, bytes, kind); },
    .ship = [](T t, lwmq_tli_buffer* buffer) { return of(t)->ship(buffer); },
    .abandon = [](T t, lwmq_tli_buffer* buffer) { of(t)->abandon(buffer); },
    .flush = nullptr,
    .land = [](T t, std::uint32_t limit, std::uint32_t how, lwmq_tli_extent* out_extents,
               lwmq_tli_landing* out_landing) { return of(t)->land(limit, how, out_extents, out_landing); },
    .release = [](T t, const lwmq_tli_landing* landing,
                  std::uint32_t count) { of(t)->release(*landing, count); },
    .wait = [](T t, std::uint32_t what, std::uint32_t timeout_ms) { return of(t)->wait(what, timeout_ms); },
    .arm = [](T t, std::uint32_t what) { return of(t)->arm(what); },
    .descriptor = [](T t) { return of(t)->descriptor(); },
    .close = [](T t, std::uint32_t lent, std::uint64_t unsent) { of(t)->close(lent, unsent); },
};

constexpr lwmq_tli_fast_table kFast = {
    .show_run =
        [](T t, lwmq_tli_buffer* buffer, const lwmq_bytes* frames, std::uint64_t count, std::uint32_t kind,
           std::uint64_t* out_bytes) { return of(t)->show_run(buffer, frames, count, kind, out_bytes); },
    .ship_only = [](T t, lwmq_tli_buffer* buffer, std::uint64_t bytes,
                    std::uint32_t kind) { return of(t)->ship_only(buffer, bytes, kind); },
    .release_last = [](T t, const lwmq_tli_landing* landing,
                       std::uint32_t count) { of(t)->release_last(*landing, count); },
};

constexpr lwmq_tli_memory_table kMemory = {
    .window_create = [](std::uint64_t bytes,
                        lwmq_tli_window** out_window) { return create_window(bytes, out(out_window)); },
    .window_export = [](T t, lwmq_tli_window* window) { return of(t)->export_window(of(window)); },
    .window_find =
        [](T t, const std::uint8_t id[16], std::uint32_t timeout_ms, lwmq_tli_window** out_window) {
          return of(t)->find_window(id, timeout_ms, out(out_window));
        },
    .window_info = [](const lwmq_tli_window* window,
                      lwmq_tli_window_info* out_info) { *out_info = of(window)->info(); },
    .window_owner_alive = [](const lwmq_tli_window* window) -> std::int32_t {
      return of(window)->owner_alive() ? 1 : 0;
    },
    .window_keep = [](lwmq_tli_window* window) { of(window)->keep(); },
    .window_release = [](lwmq_tli_window* window) { of(window)->release(); },
    .grant = nullptr,
    .revoke = nullptr,
    .register_memory = nullptr,
    .unregister_memory = nullptr,
    .push = nullptr,
    .reap = nullptr,
};

constexpr lwmq_tli_provider kIpcProvider = {
    .size = sizeof(lwmq_tli_provider),
    .version = LWMQ_TLI_VERSION,
    .name = "ipc",
    .settings = nullptr,
    .claim = [](const char* address) -> std::int32_t { return is_ours(address) ? 1 : 0; },
    .limits = limits,
    .service = run_service,
    .listener = &kListener,
    .transport = &kTransport,
    .fast = &kFast,
    .memory = &kMemory,
};

}  // namespace
}  // namespace lwmq::ipc

using lwmq::ipc::kIpcProvider;
LWMQ_TLI_REGISTER(kIpcProvider);
