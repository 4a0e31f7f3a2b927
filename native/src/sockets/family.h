// What differs between the kinds of sockets: a provider of sockets has one family, and shares everything
// else.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq.h"

namespace lwmq::sockets {

class Door;
class Link;
struct Address;
struct Own;

// Where a socket is bound or connected.
struct Place {
  sockaddr_storage address{};
  socklen_t bytes = 0;

  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address); }
  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&address); }
};

inline constexpr std::uint32_t kLookMs = 1000;  // the net thread looks for answers of a socket that often

// What the kernel of the peer, or its device, has said about what is on its way to it.
enum class Answer { kNoneAwaited, kCame, kMissing };

struct Family {
  const char* scheme;         // with its "://"
  const char* secure_scheme;  // the same under TLS; null: there is none
  const char* form;           // how to write a host; the end of texts about wrong addresses
  const char* loopbacks;      // the hosts that serve this machine alone; for texts
  std::uint32_t port_max;
  bool takes_wait_all;  // MSG_WAITALL for a receive of any size
  // How long a peer may give no sign of life, unless the setting `silent` says otherwise. After that its host
  // or the network is gone. 0: our kernel reports the loss of a host by itself.
  std::uint32_t silent_s;

  // Moves the host from the front of `*rest` to `*out_host`. Returns null, or what is wrong with the host.
  const char* (*take_host)(std::string_view* rest, std::string* out_host);
  // Appends the places of the address. `may_wait`: a name server may be asked. LWMQ_E_EMPTY: nobody knows the
  // host, or only a name server does. LWMQ_E_TIMED_OUT: no name server has answered.
  Status (*resolve)(const Address& address, bool may_wait, std::vector<Place>* out_places);
  // The host that clients use for a listener at this address.
  std::string (*host_for_clients)(const Address& address);
  std::uint32_t (*port)(const Place& place);
  bool (*is_loopback)(const Place& place);
  // Host and port, for texts.
  std::string (*text)(const Place& place);
  // Fails with a text if the family knows what the error of a socket call means for this address. LWMQ_OK: it
  // means what it means for every family.
  Status (*explain)(const Address& address, int error);
  // Sets the options of a socket: a new one, an accepted one, or one whose peer may be silent for another
  // time. 0: for ever.
  void (*prepare)(int socket, std::uint32_t silent_s) = nullptr;
  // As the system call.
  int (*connect)(int socket, const Place& place) = nullptr;
  // Asked while bytes are sent. Null: our kernel reports the loss of a host by itself.
  Answer (*answer)(int socket) = nullptr;

  // A family whose connections are links (link.h) has these two in place of `prepare`, `connect` and
  // `answer`.
  // Begins to connect to `place`. LWMQ_E_EMPTY: no way leads there. LWMQ_E_UNSUPPORTED, LWMQ_E_NO_MEMORY.
  Status (*dial)(const Address& address, const Own& own, const Place& place,
                 std::unique_ptr<Link>* out_link) = nullptr;
  // Binds `place`, and listens there. LWMQ_E_ADDRESS, LWMQ_E_UNSUPPORTED, LWMQ_E_SYSTEM.
  Status (*serve)(const Address& address, const Own& own, const Place& place,
                  std::unique_ptr<Door>* out_door) = nullptr;
  // Fills in what the device of `place` lets this process register. Leaves it alone where that is not known.
  void (*fill_memory_limits)(const Address& address, const Place& place, lwmq_limits* out_limits) = nullptr;

  [[nodiscard]] constexpr bool has_links() const noexcept { return dial != nullptr; }
};

}  // namespace lwmq::sockets
