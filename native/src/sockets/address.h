// scheme://host:port[/name]: where it leads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "os/tls.h"
#include "sockets/family.h"
#include "sockets/socket.h"

namespace lwmq::sockets {

struct Address {
  const Family* family = nullptr;
  std::string text;        // as given: for error texts
  bool is_secure = false;  // under TLS
  std::string host;        // without brackets; "*": all of this machine's
  std::uint32_t port = 0;  // 0: the system chooses one
  std::string name;        // of the listener behind the port; may be empty
};

// LWMQ_E_ADDRESS with what is wrong.
Status parse(const Family& family, const char* address, Address* out_address);

// What the settings of an address ask for.
struct Own {
  bool is_open = false;  // auth=none: whoever reaches the port is served
  Wishes wishes;
  os::TlsFiles files;  // of the secure scheme; a family of links has a key alone
  std::string device;  // of a link: by name; empty: the first that reaches the place
};

// Checks what a caller asks for, alone and without its peer.
Status check_options(const Address& address, const lwmq_tli_options* options, Own* out_own) noexcept;

}  // namespace lwmq::sockets
