// A stranger at an `ipc://` address: descriptors of every kind that it might send, and what an honest one
// would say.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "filters/filtered.h"
#include "input.h"
#include "os/identity.h"
#include "os/segment.h"
#include "os/thread.h"
#include "providers/ipc/handshake.h"
#include "raw_options.h"

namespace lwmq::fuzz {

// Two ends of a socket as the provider's are.
struct Sockets {
  Sockets() {
    int ends[2];
    constexpr int kType = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;
    require(socketpair(AF_UNIX, kType, 0, ends) == 0, "a pair of sockets");
    ours = os::UniqueFd(ends[0]);
    theirs = os::UniqueFd(ends[1]);
  }
  os::UniqueFd ours, theirs;
};

// Descriptors that a stranger might send. Made once; each input gets duplicates.
struct Things {
  Things() {
    const lwmq_tli_provider* provider = nullptr;
    require(filters::find("ipc://any", &provider) == LWMQ_OK, "ipc is linked");
    pthread_t thread{};
    os::start_thread(
        "lwmq-service", [](void* table) { static_cast<const lwmq_tli_provider*>(table)->service(); },
        const_cast<lwmq_tli_provider*>(provider), &thread);
    pthread_detach(thread);
    require(ipc::wait_until_held() == LWMQ_OK, "the service thread has begun");
    require(ipc::make_offer(raw_options(), &offer) == LWMQ_OK, "there is memory");
    require(os::create_segment("fuzz-page", ipc::kProcessPageBytes, &page) == LWMQ_OK, "there is memory");
    unsealed = os::UniqueFd(memfd_create("fuzz-unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    event = os::UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    null = os::UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC));
    require(ftruncate(unsealed.get(), static_cast<off_t>(offer.side.memory.bytes())) == 0, "there is memory");
  }
  // Lent.
  [[nodiscard]] int pick(std::uint8_t which) const noexcept {
    const int all[] = {ipc::own_page_fd(), offer.side.fd.get(), event.get(),
                       page.fd.get(),      unsealed.get(),      null.get()};
    return all[which % std::size(all)];
  }

  // What send_hello really sends, received.
  [[nodiscard]] ipc::AnyMessage hello(const ipc::Address& address) const {
    const Sockets line;
    ipc::AnyMessage message{};
    os::Received received;
    require(ipc::send_hello(line.theirs.get(), address, raw_options(), offer) == LWMQ_OK, "there is room");
    require(os::receive_message(line.ours.get(), &message, sizeof message, &received) == LWMQ_OK &&
                received.bytes == sizeof(ipc::Hello),
            "a hello comes as it was sent");
    return message;
  }

  // At work, with a side of its own beside the peer's that `parts` has.
  [[nodiscard]] ipc::Transport* transport_of(ipc::TransportParts parts) const {
    os::Segment own;
    require(os::create_segment("fuzz-side", offer.side.memory.bytes(), &own) == LWMQ_OK, "there is memory");
    parts.own_side = std::move(own.memory);
    ipc::Transport* transport = nullptr;
    require(ipc::Transport::create(std::move(parts), &transport) == LWMQ_OK, "there is memory");
    return transport;
  }

  ipc::Offer offer;
  os::Segment page;  // of the right size, and its content is the fuzzer's
  os::UniqueFd unsealed, event, null;
};

}  // namespace lwmq::fuzz
