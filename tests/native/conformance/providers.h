// The providers that the conformance suites run over: one line each, at the end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "socket_place.h"

namespace lwmq::conformance {

struct Subject {
  const char* name;
  // The address of a place that no other test uses, in this process or another.
  std::string (*fresh_address)();
  // One that the provider claims and must refuse.
  const char* malformed;
  // What was received is known to the sender a moment later, and not at once.
  bool is_far = false;
};

inline void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }

inline std::string fresh_name() {
  static std::atomic<unsigned> count{0};
  return "conformance-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

// What texts show of an address: all but its options.
inline std::string place_of(const std::string& address) { return address.substr(0, address.find('?')); }

inline std::string name_of(const testing::TestParamInfo<Subject>& info) { return info.param.name; }

inline const Subject kLoop{"loop", [] { return "loop://" + fresh_name(); }, "loop://"};
inline const Subject kIpc{"ipc", [] { return "ipc://" + fresh_name(); }, "ipc://"};
inline const Subject kTraceLoop{"trace_loop", [] { return "trace=/dev/null+loop://" + fresh_name(); },
                                "trace=/dev/null+loop://"};
inline const Subject kTraceIpc{"trace_ipc",
                               [] { return "trace=/dev/null+trace=/dev/null+ipc://" + fresh_name(); },
                               "trace=/dev/null+ipc://"};
inline const Subject kStubDatagram{"stub_datagram", [] { return "stub://" + fresh_name(); }, "stub://"};
inline const Subject kHidden{"hidden_tables", [] { return "hidden://" + fresh_name(); }, "hidden://"};
// Ports of this process that were free; names tell their listeners apart.
inline std::string tcp_port() {
  static const std::string port = free_port();
  return port;
}
inline std::string tcps_port() {
  static const std::string port = free_port();
  return port;
}
// A new file that only its owner may read; removed when the process ends.
inline std::string secret_file(const std::string& text) {
  struct Files {
    std::vector<std::string> paths;
    ~Files() {
      for (const auto& path : paths) unlink(path.c_str());
    }
  };
  static Files files;
  std::string path = "/tmp/lwmq-test-secret-" + std::string(6, 'X');  // as mkstemp wants it
  const int file = mkstemp(path.data());
  EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(file);
  files.paths.push_back(path);
  return path;
}
inline std::string key_file() {
  static const std::string path = secret_file("tests:00112233445566778899aabbccddeeff\n");
  return path;
}
inline const Subject kTcp{"tcp",
                          [] { return plain_host() + tcp_port() + "/" + fresh_name() + plain_settings(); },
                          over_rdma()    ? "rdma://localhost"
                          : over_vsock() ? "vsock://1"
                                         : "tcp://127.0.0.1",
                          true};
inline const Subject kTcpByUring{"tcp_by_uring", [] { return kTcp.fresh_address() + "?engine=uring"; },
                                 kTcp.malformed, true};
inline const Subject kTcps{
    "tcps", [] { return secure_host() + tcps_port() + "/" + fresh_name() + "?psk=" + key_file(); },
    over_vsock() ? "vsocks://1" : "tcps://127.0.0.1", true};
inline const Subject kToy{"toy", [] { return "toy://" + fresh_name(); }, "toy://"};  // native/samples/module

}  // namespace lwmq::conformance

#define LWMQ_OVER_ALL_PROVIDERS(Suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(Loop, Suite, testing::Values(lwmq::conformance::kLoop),             \
                           lwmq::conformance::name_of);                                        \
  INSTANTIATE_TEST_SUITE_P(Ipc, Suite, testing::Values(lwmq::conformance::kIpc),               \
                           lwmq::conformance::name_of);                                        \
  INSTANTIATE_TEST_SUITE_P(TraceLoop, Suite, testing::Values(lwmq::conformance::kTraceLoop),   \
                           lwmq::conformance::name_of);                                        \
  INSTANTIATE_TEST_SUITE_P(TraceIpc, Suite, testing::Values(lwmq::conformance::kTraceIpc),     \
                           lwmq::conformance::name_of);                                        \
  INSTANTIATE_TEST_SUITE_P(Stub, Suite, testing::Values(lwmq::conformance::kStubDatagram),     \
                           lwmq::conformance::name_of);                                        \
  INSTANTIATE_TEST_SUITE_P(HiddenTables, Suite, testing::Values(lwmq::conformance::kHidden),   \
                           lwmq::conformance::name_of);                                        \
  INSTANTIATE_TEST_SUITE_P(Tcp, Suite, testing::Values(lwmq::conformance::kTcp),               \
                           lwmq::conformance::name_of);                                        \
  INSTANTIATE_TEST_SUITE_P(TcpByUring, Suite, testing::Values(lwmq::conformance::kTcpByUring), \
                           lwmq::conformance::name_of);                                        \
  INSTANTIATE_TEST_SUITE_P(Tcps, Suite, testing::Values(lwmq::conformance::kTcps),             \
                           lwmq::conformance::name_of);                                        \
  INSTANTIATE_TEST_SUITE_P(Toy, Suite, testing::Values(lwmq::conformance::kToy), lwmq::conformance::name_of)
