// links: base os stats queue tli address filters lane sockets modules store providers
// vsock:// where it differs from other sockets: addresses, and what kernels without it say. Everything else
// is in the tests of tcp, which run over vsock in the lab (tests/lab).
#include <gtest/gtest.h>
#include <linux/vm_sockets.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "conformance/providers.h"
#include "conformance/transport_pair.h"

// Behind the others: it has a namespace `testing` of its own.
#include "child.h"

namespace lwmq::testing {
namespace {

using calls::Tli;
using conformance::expect_said;
using conformance::fresh_name;
using conformance::options_of;
using conformance::provider_of;
using conformance::run_service;

Tli vsock() {
  const Tli tli = provider_of("vsock://1:1");
  run_service(tli);
  return tli;
}

bool has_loopback() {
  const int probe = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_vm local{};
  local.svm_family = AF_VSOCK;
  local.svm_cid = VMADDR_CID_LOCAL;
  local.svm_port = VMADDR_PORT_ANY;
  const bool has = bind(probe, reinterpret_cast<sockaddr*>(&local), sizeof local) == 0;
  close(probe);
  return has;
}

Status try_to_listen(const std::string& address, const lwmq_tli_options& options = options_of(2, 512)) {
  lwmq_tli_listener* listener = nullptr;
  const Status status = vsock().listen(address.c_str(), &options, &listener);
  if (listener != nullptr) vsock().listener_close(listener);
  return status;
}

TEST(VsockAddress, IsACidAPortAndAName) {
  lwmq_limits limits{};
  limits.size = sizeof limits;
  for (const char* good :
       {"vsock://1:1", "vsock://2:4294967294/a/b", "vsock://4294967294:0/name", "vsock://*:5"})
    EXPECT_EQ(vsock().limits(good, &limits), LWMQ_OK) << last_error();
  const std::pair<const char*, const char*> bad[] = {
      {"vsock://", "the CID is missing"},
      {"vsock://1", "the port is missing"},
      {"vsock://1:", "0 to 4294967294"},
      {"vsock://1:4294967295", "0 to 4294967294"},
      {"vsock://1:99999999999999999999999", "0 to 4294967294"},
      {"vsock://1:8x", "0 to 4294967294"},
      {"vsock://0:5", "a number of 1 to 4294967294"},
      {"vsock://4294967295:5", "a number of 1 to 4294967294"},
      {"vsock://99999999999999999999999:5", "a number of 1 to"},
      {"vsock://01:5", "a number of 1 to 4294967294"},
      {"vsock://localhost:5", "a number of 1 to 4294967294"},
      {"vsock://[::1]:5", "a number of 1 to 4294967294"},
      {"vsock://1:5/a b", "a blank"}};
  for (const auto& [address, why] : bad) {
    EXPECT_EQ(vsock().limits(address, &limits), LWMQ_E_ADDRESS) << address;
    expect_said(why);
    expect_said("write vsock://host:port or vsock://host:port/name, and as host a CID");
  }
}

TEST(VsockAddress, OfLoopbackIsNotThatOfAnotherHost) {
  const auto is_in_network = [](const char* address) {
    lwmq_limits limits{};
    limits.size = sizeof limits;
    EXPECT_EQ(vsock().limits(address, &limits), LWMQ_OK) << last_error();
    return (limits.capabilities & LWMQ_IS_IN_NETWORK) != 0;
  };
  EXPECT_TRUE(is_in_network("vsock://1:5"));
  for (const char* anywhere : {"vsock://2:5", "vsock://3:5", "vsock://*:5"})
    EXPECT_FALSE(is_in_network(anywhere));
}

TEST(VsockAddress, BeyondLoopbackWantsCredentialsOrAWord) {
  EXPECT_EQ(try_to_listen("vsock://*:0"), LWMQ_E_DENIED);
  expect_said("vsock:// has neither credentials nor encryption");
  expect_said("serve CID 1, take vsocks://, or say auth=none");
  auto options = options_of(2, 512);
  const lwmq_tli_setting open{"auth", "none"};
  options.settings_count = 1;
  options.settings = &open;
  EXPECT_EQ(try_to_listen("vsock://*:0", options), LWMQ_OK) << last_error();
}

TEST(VsockAddress, OfAnybodyTellsClientsTheCidAndThePort) {
  auto options = options_of(2, 512);
  const lwmq_tli_setting open{"auth", "none"};
  options.settings_count = 1;
  options.settings = &open;
  lwmq_tli_listener* listener = nullptr;
  ASSERT_EQ(vsock().listen("vsock://*:0/name", &options, &listener), LWMQ_OK) << last_error();
  const std::string bound = vsock().provider().listener->address(listener);
  EXPECT_EQ(bound.find('*'), std::string::npos) << bound;
  EXPECT_EQ(bound.find(":0/"), std::string::npos) << bound;
  EXPECT_NE(bound.find("/name"), std::string::npos) << bound;
  vsock().listener_close(listener);
}

TEST(VsockAddress, ThatLeadsNowhereSaysWhichModuleIsMissing) {
  EXPECT_EQ(try_to_listen("vsock://4294967294:0"), LWMQ_E_ADDRESS);
  expect_said("neither is nor reaches CID 4294967294");
  if (has_loopback()) GTEST_SKIP() << "this kernel has loopback";
  EXPECT_EQ(try_to_listen("vsock://1:0"), LWMQ_E_ADDRESS);
  expect_said("modprobe vsock_loopback");
  const auto options = options_of(2, 512);
  lwmq_tli_transport* client = nullptr;
  EXPECT_EQ(vsock().connect("vsock://1:5", &options, 60'000, &client), LWMQ_E_ADDRESS) << "at once";
  expect_said("modprobe vsock_loopback");
}

LWMQ_CHILD_ROLE(ServesAVsockPort) {
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  if (vsock().listen(Child::argument(), &options, &listener) == LWMQ_OK) Child::report("listening");
  Child::hear();
}

TEST(Vsock, APortBelongsToOneProcessAndHasManyNames) {
  if (!has_loopback()) GTEST_SKIP() << "this kernel has no vsock loopback";
  const std::string port = "vsock://1:" + free_port();
  Child other("ServesAVsockPort", port + "/one");
  ASSERT_EQ(other.line(), "listening");
  EXPECT_EQ(try_to_listen(port + "/two"), LWMQ_E_ADDRESS);
  expect_said("another process serves the port");
  other.kill();
  EXPECT_TRUE(eventually([&] { return try_to_listen(port + "/two") == LWMQ_OK; })) << last_error();
  const auto options = options_of(2, 512);
  lwmq_tli_listener *one = nullptr, *two = nullptr;
  ASSERT_EQ(vsock().listen((port + "/one").c_str(), &options, &one), LWMQ_OK) << last_error();
  ASSERT_EQ(vsock().listen((port + "/two").c_str(), &options, &two), LWMQ_OK) << last_error();
  EXPECT_EQ(try_to_listen(port + "/two"), LWMQ_E_ADDRESS);
  expect_said("is served already in this process");
  vsock().listener_close(one);
  vsock().listener_close(two);
}

}  // namespace
}  // namespace lwmq::testing
