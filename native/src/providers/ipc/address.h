// ipc://name[:port] and ipc:///directory/file: what they mean as a socket.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "lwmq/lwmq_tli.h"
#include "os/unique_fd.h"

namespace lwmq::ipc {

struct Address {
  std::string text;    // as given: for error texts
  std::string name;    // name[:port], what two sides compare; empty for a socket file
  std::string socket;  // begins with '/': a file; else a name in the abstract space, lwmq/<uid>/<hash>
};

bool is_ours(const char* address) noexcept;

// LWMQ_E_ADDRESS with the numbers that are wrong.
Status parse(const char* address, Address* out_address);

// Checks what a caller asks for, alone and without its peer.
Status check_options(const Address& address, const lwmq_tli_options* options) noexcept;

// LWMQ_E_ADDRESS: the directory of a socket file is not there, so nobody can serve the address; the text has
// the remedy. Asked when an address is opened, and not by a client that goes on trying: a directory may be
// made anew.
Status check_directory(const Address& address);

// LWMQ_E_ADDRESS: what lies there is a file, and no socket. A connection follows links; who binds replaces
// none.
Status check_place(const Address& address, bool follows_links);

// Which socket file is ours: its name may have become another's.
struct OwnFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;  // 0: none, as of an abstract name
};

// Binds and listens. LWMQ_E_ADDRESS: somebody else serves it. A socket file that nobody listens behind is
// replaced. Waits only for the kernel to clear away an owner that is dead already.
Status bind_address(const Address& address, os::UniqueFd* out_fd, OwnFile* out_file);

// Removes the socket file if it is still ours. The listener is open: so long the kernel gives the inode to no
// other file. Abstract names need nothing.
void unbind_address(const Address& address, const OwnFile& file) noexcept;

}  // namespace lwmq::ipc
