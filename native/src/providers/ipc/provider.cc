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
  return LWMQ_OK;
}

constexpr lwmq_tli_provider kIpcProvider = {
    .size = sizeof(lwmq_tli_provider),
    .version = LWMQ_TLI_VERSION,
    .name = "ipc",
    .claim = [](const char* address) -> std::int32_t { return is_ours(address) ? 1 : 0; },
    .limits = limits,
    .listen =
        [](const char* address, const lwmq_tli_options* options, lwmq_tli_listener** out_listener) {
          return Listener::open(address, options, out(out_listener));
        },
    .accept = [](lwmq_tli_listener* listener,
                 lwmq_tli_transport** out_transport) { return of(listener)->accept(out(out_transport)); },
    .tend = [](lwmq_tli_listener* listener) { of(listener)->tend(); },
    .listener_fd = [](lwmq_tli_listener* listener) -> std::int32_t { return of(listener)->fd(); },
    .listener_close = [](lwmq_tli_listener* listener) { of(listener)->close(); },
    .connect =
        [](const char* address, const lwmq_tli_options* options, std::uint32_t timeout_ms,
           lwmq_tli_transport** out_transport) {
          return connect(address, options, timeout_ms, out(out_transport));
        },
    .peer = [](lwmq_tli_transport* transport, lwmq_tli_peer* out_peer) { of(transport)->peer(out_peer); },
    .state = [](lwmq_tli_transport* transport) { return of(transport)->state(); },
    .acquire = [](lwmq_tli_transport* transport,
                  lwmq_tli_buffer* out_buffer) { return of(transport)->acquire(out_buffer); },
    .show = [](lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, std::uint64_t bytes,
               std::uint32_t kind) { return of(transport)->show(buffer, bytes, kind); },
    .show_run =
        [](lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, const lwmq_bytes* frames,
           std::uint64_t count, std::uint32_t kind, std::uint64_t* out_bytes) {
          return of(transport)->show_run(buffer, frames, count, kind, out_bytes);
        },
    .ship = [](lwmq_tli_transport* transport,
               lwmq_tli_buffer* buffer) { return of(transport)->ship(buffer); },
    .ship_only = [](lwmq_tli_transport* transport, lwmq_tli_buffer* buffer, std::uint64_t bytes,
                    std::uint32_t kind) { return of(transport)->ship_only(buffer, bytes, kind); },
    .abandon = [](lwmq_tli_transport* transport, lwmq_tli_buffer* buffer) { of(transport)->abandon(buffer); },
    .free_buffers = [](lwmq_tli_transport* transport) { return of(transport)->free_buffers(); },
    .unread_extents = [](lwmq_tli_transport* transport) { return of(transport)->unread_extents(); },
    .land = [](lwmq_tli_transport* transport,
               lwmq_tli_extent* out_extent) { return of(transport)->land(out_extent); },
    .release = [](lwmq_tli_transport* transport,
                  lwmq_tli_extent* extent) { of(transport)->release(extent->token, 1); },
    .release_run = [](lwmq_tli_transport* transport, const std::uint64_t token[2],
                      std::uint32_t count) { of(transport)->release(token, count); },
    .release_last = [](lwmq_tli_transport* transport, const std::uint64_t token[2],
                       std::uint32_t count) { of(transport)->release_last(token, count); },
    .land_run =
        [](lwmq_tli_transport* transport, std::uint64_t bytes_below, std::uint32_t limit,
           std::uint64_t out_token[2], lwmq_tli_piece* out_pieces) {
          return of(transport)->land_run(bytes_below, limit, out_token, out_pieces);
        },
    .land_soon = [](lwmq_tli_transport* transport, uint64_t bytes_below, uint64_t out_token[2],
                    lwmq_tli_piece* out_piece) -> uint32_t {
      return of(transport)->land_soon(bytes_below, out_token, out_piece) ? 1 : 0;
    },
    .land_awaited = [](lwmq_tli_transport* transport, lwmq_tli_extent* out_extent) -> uint32_t {
      return of(transport)->land_awaited(out_extent) ? 1 : 0;
    },
    .wait = [](lwmq_tli_transport* transport, std::uint32_t what,
               std::uint32_t timeout_ms) { return of(transport)->wait(what, timeout_ms); },
    .arm = [](lwmq_tli_transport* transport, std::uint32_t what) { return of(transport)->arm(what); },
    .disarm = [](lwmq_tli_transport* transport) { of(transport)->disarm(); },
    .transport_fd = [](lwmq_tli_transport* transport) { return of(transport)->fd(); },
    .close = [](lwmq_tli_transport* transport) { of(transport)->close(); },
    .keep_lent = [](lwmq_tli_transport* transport,
                    std::uint32_t buffers) { of(transport)->keep_lent(buffers); },
    .say_unsent = [](lwmq_tli_transport* transport,
                     std::uint64_t messages) { of(transport)->say_unsent(messages); },
    .window_create = [](std::uint64_t bytes,
                        lwmq_tli_window** out_window) { return create_window(bytes, out(out_window)); },
    .window_export = [](lwmq_tli_transport* transport,
                        lwmq_tli_window* window) { return of(transport)->export_window(of(window)); },
    .window_find =
        [](lwmq_tli_transport* transport, const std::uint8_t id[16], std::uint32_t timeout_ms,
           lwmq_tli_window** out_window) {
          return of(transport)->find_window(id, timeout_ms, out(out_window));
        },
    .window_info = [](const lwmq_tli_window* window,
                      lwmq_tli_window_info* out_info) { *out_info = of(window)->info(); },
    .window_owner_alive = [](const lwmq_tli_window* window) -> std::int32_t {
      return of(window)->owner_alive() ? 1 : 0;
    },
    .window_keep = [](lwmq_tli_window* window) { of(window)->keep(); },
    .window_release = [](lwmq_tli_window* window) { of(window)->release(); },
    .service = run_service,
    .service_wake = wake_service,
};

}  // namespace
}  // namespace lwmq::ipc

using lwmq::ipc::kIpcProvider;
LWMQ_TLI_REGISTER(kIpcProvider);
