// The providers that the conformance suites run over: one line each, at the end.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <ostream>
#include <string>

namespace lwmq::conformance {

struct Subject {
  const char* name;
  // The address of a place that no other test uses, in this process or another.
  std::string (*fresh_address)();
  // One that the provider claims and must refuse.
  const char* malformed;
  // What one end has sent, the other does not have at once: what must be so over memory need not be here.
  bool is_late = false;

  // How often a test does what waits for the other end each time.
  [[nodiscard]] int rounds(int usual) const { return is_late ? usual / 10 : usual; }
};

inline void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.name; }

inline std::string fresh_name() {
  static std::atomic<unsigned> count{0};
  return "conformance-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

inline std::string name_of(const testing::TestParamInfo<Subject>& info) { return info.param.name; }

inline const Subject kLoop{"loop", [] { return "loop://" + fresh_name(); }, "loop://"};
inline const Subject kIpc{"ipc", [] { return "ipc://" + fresh_name(); }, "ipc://"};
inline const Subject kTraceLoop{"trace_loop", [] { return "trace=/dev/null+loop://" + fresh_name(); },
                                "trace=/dev/null+loop://"};
inline const Subject kTraceIpc{"trace_ipc",
                               [] { return "trace=/dev/null+trace=/dev/null+ipc://" + fresh_name(); },
                               "trace=/dev/null+ipc://"};
inline const Subject kStubDatagram{"stub_datagram", [] { return "stub://" + fresh_name(); }, "stub://"};
inline const Subject kHidden{"hidden", [] { return "hidden://" + fresh_name(); }, "hidden://"};
inline const Subject kFar{"far", [] { return "far://" + fresh_name(); }, "far://"};
inline const Subject kFarLate{"far_late", [] { return "far://" + fresh_name() + "@1"; }, "far://late@", true};
inline const Subject kToy{"toy", [] { return "toy://" + fresh_name(); }, "toy://"};  // native/samples/module

}  // namespace lwmq::conformance

// For suites in which only what a filter changes could differ: loop and ipc, one of them behind filters, and
// those that are unlike them.
#define LWMQ_OVER_PROVIDERS(Suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(Loop, Suite, testing::Values(lwmq::conformance::kLoop),         \
                           lwmq::conformance::name_of);                                    \
  INSTANTIATE_TEST_SUITE_P(Ipc, Suite, testing::Values(lwmq::conformance::kIpc),           \
                           lwmq::conformance::name_of);                                    \
  INSTANTIATE_TEST_SUITE_P(TraceIpc, Suite, testing::Values(lwmq::conformance::kTraceIpc), \
                           lwmq::conformance::name_of);                                    \
  INSTANTIATE_TEST_SUITE_P(Stub, Suite, testing::Values(lwmq::conformance::kStubDatagram), \
                           lwmq::conformance::name_of);                                    \
  INSTANTIATE_TEST_SUITE_P(Toy, Suite, testing::Values(lwmq::conformance::kToy), lwmq::conformance::name_of)

// Beside those, for suites in which the longer way of a call, or a peer that shares no page, could differ.
#define LWMQ_OVER_MANDATORY_TABLES(Suite)                                              \
  INSTANTIATE_TEST_SUITE_P(Hidden, Suite, testing::Values(lwmq::conformance::kHidden), \
                           lwmq::conformance::name_of);                                \
  INSTANTIATE_TEST_SUITE_P(Far, Suite, testing::Values(lwmq::conformance::kFar), lwmq::conformance::name_of)

// For suites about transports, channels and requests themselves.
#define LWMQ_OVER_ALL_PROVIDERS(Suite)                                                       \
  LWMQ_OVER_PROVIDERS(Suite);                                                                \
  LWMQ_OVER_MANDATORY_TABLES(Suite);                                                         \
  INSTANTIATE_TEST_SUITE_P(TraceLoop, Suite, testing::Values(lwmq::conformance::kTraceLoop), \
                           lwmq::conformance::name_of);                                      \
  INSTANTIATE_TEST_SUITE_P(FarLate, Suite, testing::Values(lwmq::conformance::kFarLate),     \
                           lwmq::conformance::name_of)
