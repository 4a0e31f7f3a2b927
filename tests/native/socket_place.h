// Where tests of sockets meet: at loopback over TCP, or over vsock if LWMQ_TEST_VSOCK is in the environment,
// or over RDMA at the host that LWMQ_TEST_RDMA names. Only the address changes.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/vm_sockets.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace lwmq {

inline bool over_vsock() {
  static const bool is_asked_for = std::getenv("LWMQ_TEST_VSOCK") != nullptr;
  return is_asked_for;
}
// Empty: not over RDMA.
inline std::string rdma_host() {
  const char* host = std::getenv("LWMQ_TEST_RDMA");
  return host != nullptr ? host : "";
}
inline bool over_rdma() { return !rdma_host().empty(); }
inline std::string plain_scheme() { return over_rdma() ? "rdma://" : over_vsock() ? "vsock://" : "tcp://"; }
// What stands behind an address: its settings.
inline std::string plain_settings() { return over_rdma() ? "?auth=none" : ""; }
inline std::string secure_scheme() { return over_vsock() ? "vsocks://" : "tcps://"; }
inline std::string loopback() { return over_rdma() ? rdma_host() : over_vsock() ? "1" : "127.0.0.1"; }
// What stands before the port.
inline std::string plain_host() { return plain_scheme() + loopback() + ":"; }
inline std::string secure_host() { return secure_scheme() + loopback() + ":"; }

// A port that nobody serves.
inline std::string free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof any;
  bind(probe, reinterpret_cast<sockaddr*>(&any), sizeof any);
  getsockname(probe, reinterpret_cast<sockaddr*>(&any), &bytes);
  close(probe);
  return std::to_string(ntohs(any.sin_port));
}

// A new socket after `call` (connect or bind) to that port.
inline int socket_after(int (*call)(int, const sockaddr*, socklen_t), const std::string& port) {
  sockaddr_in tcp{};
  tcp.sin_family = AF_INET;
  tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  tcp.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  sockaddr_vm vsock{};
  vsock.svm_family = AF_VSOCK;
  vsock.svm_cid = VMADDR_CID_LOCAL;
  vsock.svm_port = static_cast<unsigned>(std::stoi(port));
  const int made = socket(over_vsock() ? AF_VSOCK : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int called = over_vsock() ? call(made, reinterpret_cast<sockaddr*>(&vsock), sizeof vsock)
                                  : call(made, reinterpret_cast<sockaddr*>(&tcp), sizeof tcp);
  EXPECT_EQ(called, 0) << std::strerror(errno);
  return made;
}

}  // namespace lwmq
