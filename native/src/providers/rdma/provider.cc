// rdma://host:port[/name]: reliable connected queue pairs over InfiniBand, RoCE or iWARP.
#include "sockets/provider.h"

#include <netinet/in.h>

#include <cerrno>
#include <memory>

#include "providers/rdma/connection.h"
#include "providers/rdma/devices.h"
#include "providers/rdma/verbs.h"
#include "sockets/ip.h"
#include "sockets/link.h"

namespace lwmq::rdma {
namespace {

using sockets::Address;
using sockets::Family;
using sockets::Own;
using sockets::Place;

constexpr int kBacklog = 1024;

class Listening final : public sockets::Door {
 public:
  static Status open(const Address& address, const Own& own, const Place& place,
                     std::unique_ptr<Door>* out_door) {
    const Verbs* verbs = nullptr;
    if (const Status status = open_verbs(&verbs); status != LWMQ_OK) return status;
    std::unique_ptr<Listening> made(new Listening(*verbs));
    made->is_local_ = sockets::ip::is_loopback(place);
    Place at = place;
    if (made->is_local_ || !own.device.empty()) {
      Place device;
      if (const Status status = find_device(address, own, &device); status != LWMQ_OK) return status;
      at = with_port(device, sockets::ip::port_of(place));
    }
    const char* text = address.text.c_str();
    made->channel_ = verbs->rdma_create_event_channel();
    if (made->channel_ == nullptr ||
        verbs->rdma_create_id(made->channel_, &made->id_, nullptr, RDMA_PS_TCP) != 0)
      return fail_call(LWMQ_E_SYSTEM, errno, "%s: rdma_create_id", text);
    do_not_block(made->channel_->fd);
    if (verbs->rdma_bind_addr(made->id_, at.get()) != 0 || verbs->rdma_listen(made->id_, kBacklog) != 0) {
      if (errno == EADDRINUSE) return fail(LWMQ_E_ADDRESS, "%s: another process serves the port", text);
      if (errno == EADDRNOTAVAIL || errno == ENODEV)
        return fail(LWMQ_E_ADDRESS,
                    "%s: no RDMA device of this machine has the address; `rdma link` lists them", text);
      return fail_call(errno == EACCES ? LWMQ_E_DENIED : LWMQ_E_SYSTEM, errno, "%s: rdma_listen", text);
    }
    made->place_ = with_port(place, ntohs(made->id_->route.addr.src_sin.sin_port));
    *out_door = std::move(made);
    return LWMQ_OK;
  }

  ~Listening() override {
    if (id_ != nullptr) v_.rdma_destroy_id(id_);
    if (channel_ != nullptr) v_.rdma_destroy_event_channel(channel_);
  }

  [[nodiscard]] int fd() const noexcept override { return channel_->fd; }
  [[nodiscard]] const Place& place() const noexcept override { return place_; }

  Status accept(std::unique_ptr<sockets::Link>* out_link, Place* out_peer) override {
    rdma_cm_event* event = nullptr;
    while (v_.rdma_get_cm_event(channel_, &event) == 0) {
      rdma_cm_id* const id = event->id;
      const bool is_client = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
      const bool can_ask = event->param.conn.initiator_depth > 0;
      v_.rdma_ack_cm_event(event);
      if (!is_client) continue;
      *out_peer = place_of(id->route.addr.dst_addr);
      if (is_local_ && !have_one_host(*out_peer, place_of(id->route.addr.src_addr))) {
        v_.rdma_reject(id, nullptr, 0);
        v_.rdma_destroy_id(id);
        return fail(LWMQ_E_DENIED, "the client is at %s, and localhost serves this machine alone",
                    sockets::ip::text_of(*out_peer).c_str());
      }
      return Connection::answer(v_, id, can_ask, out_link);
    }
    return LWMQ_E_EMPTY;
  }

 private:
  explicit Listening(const Verbs& verbs) noexcept : v_(verbs) {}

  const Verbs& v_;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  Place place_;            // as it was asked for, with the port that was chosen
  bool is_local_ = false;  // localhost was asked for
};

constexpr Family kFamily = {
    .scheme = "rdma://",
    .secure_scheme = nullptr,
    .form = sockets::ip::kForm,
    .loopbacks = "localhost",
    .port_max = sockets::ip::kPortMax,
    .takes_wait_all = false,
    .silent_s = 45,
    .take_host = sockets::ip::take_host,
    .resolve = sockets::ip::resolve,
    .host_for_clients = sockets::ip::host_for_clients,
    .port = sockets::ip::port_of,
    .is_loopback = sockets::ip::is_loopback,
    .text = sockets::ip::text_of,
    .explain = [](const Address&, int) -> Status { return LWMQ_OK; },
    .dial = Connection::dial,
    .serve = Listening::open,
    .fill_memory_limits = fill_limits,
};

constexpr const char* kSettings[] = {"auth", "psk", "device", "silent", nullptr};
constexpr lwmq_tli_provider kRdmaProvider = sockets::provider_of<kFamily, false>("rdma", kSettings);

}  // namespace
}  // namespace lwmq::rdma

using lwmq::rdma::kRdmaProvider;
LWMQ_TLI_REGISTER(kRdmaProvider);
