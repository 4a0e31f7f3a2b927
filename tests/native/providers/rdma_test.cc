// links: base os stats queue tli address filters lane sockets modules store providers
// rdma:// where it differs from sockets: what it asks of a device, memory that the peer writes, keys, limits.
// The conformance suite runs over it in the lab (tests/lab). Tests that need a device are skipped where there
// is none: LWMQ_TEST_RDMA names the host of one, and LWMQ_TEST_RDMA_TOO that of another.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/providers.h"
#include "conformance/transport_pair.h"

// Behind the others: it has a namespace `testing` of its own.
#include "child.h"
#include "killed_peer.h"
#include "providers/rdma/counters.h"
#include "providers/rdma/verbs.h"

namespace lwmq::testing {
namespace {

using calls::Extent;
using calls::Tli;
using conformance::expect_said;
using conformance::fresh_name;
using conformance::key_file;
using conformance::options_of;
using conformance::Pair;
using conformance::provider_of;
using conformance::run_service;
using conformance::secret_file;

#define NEEDS_A_DEVICE() \
  if (!over_rdma()) GTEST_SKIP() << "LWMQ_TEST_RDMA names no host with an RDMA device"

Tli rdma() {
  const Tli tli = provider_of("rdma://localhost:1");
  run_service(tli);
  return tli;
}

std::string fresh(const std::string& settings = "?auth=none", const std::string& host = rdma_host()) {
  rdma();
  static std::map<std::string, std::string> ports;  // by host: a port of "localhost" is one of a device, too
  std::string& port = ports[host];
  if (port.empty()) port = free_port();
  return "rdma://" + host + ":" + port + "/" + fresh_name() + settings;
}

std::uint64_t now(const std::atomic<std::uint64_t>& counter) { return counter.load(); }

// Brings a message from the client to the served end.
void expect_carried(const Pair& pair, const std::string& text) {
  EXPECT_EQ(pair.send(pair.client, text), LWMQ_OK);
  pair.tli.flush(pair.client);
  EXPECT_EQ(pair.land_text(pair.served), text);
}

// ---- Addresses

// rows: M07
TEST(RdmaAddress, IsAHostAPortAndAName) {
  lwmq_limits limits{};
  limits.size = sizeof limits;
  for (const char* good : {"rdma://10.0.0.7:5555", "rdma://[fe80::2:c903:1:1e5d]:1/a",
                           "rdma://localhost:0/b/c", "rdma://ib0.cluster:18515"})
    EXPECT_EQ(rdma().limits(good, &limits), LWMQ_OK) << last_error();
  const std::pair<const char*, const char*> bad[] = {{"rdma://", "the host is missing"},
                                                     {"rdma://10.0.0.7", "the port is missing"},
                                                     {"rdma://10.0.0.7:65536", "0 to 65535"},
                                                     {"rdma://[fe80::z]:5", "no IPv6 number"},
                                                     {"rdma://a b:5", "characters other than"}};
  for (const auto& [address, why] : bad) {
    EXPECT_EQ(rdma().limits(address, &limits), LWMQ_E_ADDRESS) << address;
    expect_said(why);
  }
}

TEST(RdmaAddress, SaysWhatIsMissingWhereThereIsNoDevice) {
  if (over_rdma()) GTEST_SKIP() << "there is a device";
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  const Status status = rdma().listen("rdma://localhost:0/x", &options, &listener);
  if (listener != nullptr) {
    rdma().listener_close(listener);
    GTEST_SKIP() << "this machine has a device";
  }
  EXPECT_TRUE(status == LWMQ_E_ADDRESS || status == LWMQ_E_UNSUPPORTED || status == LWMQ_E_SYSTEM) << status;
  EXPECT_NE(std::string(last_error()), "");
}

TEST(RdmaAddress, IsServedBeyondThisMachineWithCredentialsAlone) {
  NEEDS_A_DEVICE();
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  EXPECT_EQ(rdma().listen(fresh("", "*").c_str(), &options, &listener), LWMQ_E_DENIED);
  expect_said("give psk=FILE");
}

TEST(RdmaAddress, LocalhostIsTheFirstDeviceOrTheOneThatIsNamed) {
  NEEDS_A_DEVICE();
  Pair pair(fresh("", "localhost"), 2, 512);
  expect_carried(pair, "near");
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  const std::string other = "rdma://localhost:" + free_port() + "/x?device=none0";
  EXPECT_EQ(rdma().listen(other.c_str(), &options, &listener), LWMQ_E_ADDRESS);
  expect_said("device=none0; there are ");
}

// ---- What a device is asked for

LWMQ_CHILD_ROLE(LandsOverRdmaForEver) {
  const Tli tli = rdma();
  const auto options = options_of(8, 64 * 1024);
  lwmq_tli_listener* listener = nullptr;
  if (tli.listen(Child::argument(), &options, &listener) != LWMQ_OK) return Child::report(last_error());
  Child::report("listening");
  lwmq_tli_transport* transport = nullptr;
  while (tli.accept(listener, &transport) != LWMQ_OK) usleep(1000);
  for (Extent extent;;) {
    const Status status = tli.land(transport, &extent);
    if (status == LWMQ_OK) {
      if (extent.data[0] != 'x' || extent.data[extent.bytes - 1] != 'x') return;
      tli.release(transport, &extent);
    } else if (status != LWMQ_E_EMPTY) {
      return;
    } else {
      tli.wait(transport, LWMQ_TLI_WAIT_EXTENT, 1000);
    }
  }
}

// rows: L03 M08 M09
TEST(Rdma, AMessageIsAWriteAndASendAndNoCopyAndNoRegistration) {
  NEEDS_A_DEVICE();
  constexpr std::uint64_t kBytes = 64 * 1024, kMessages = 512, kWarm = 64;
  const std::string address = fresh();
  Child receiver("LandsOverRdmaForEver", address);
  ASSERT_EQ(receiver.line(), "listening");
  const Tli tli = rdma();
  const auto options = options_of(8, kBytes);
  lwmq_tli_transport* client = nullptr;
  ASSERT_EQ(tli.connect(address.c_str(), &options, 60'000, &client), LWMQ_OK) << last_error();
  const rdma::Counters& counters = rdma::counters();
  std::uint64_t writes = 0, sends = 0, signalled = 0, registrations = 0;
  for (std::uint64_t i = 0; i < kMessages + kWarm; ++i) {
    if (i == kWarm) {
      writes = now(counters.writes), sends = now(counters.sends);
      signalled = now(counters.signalled), registrations = now(counters.registrations);
    }
    lwmq_tli_buffer buffer{};
    Status status = LWMQ_OK;
    while ((status = tli.acquire(client, &buffer)) == LWMQ_E_FULL) tli.wait(client, LWMQ_TLI_WAIT_ROOM, 1000);
    ASSERT_EQ(status, LWMQ_OK) << last_error();
    std::memset(buffer.next, 'x', kBytes);
    ASSERT_EQ(tli.show(client, &buffer, kBytes, 0), LWMQ_OK);
    ASSERT_EQ(tli.ship(client, &buffer), LWMQ_OK);
    tli.flush(client);
  }
  EXPECT_TRUE(eventually([&] { return tli.figures(client).unread_extents == 0; }));
  const std::uint64_t written = now(counters.writes) - writes, sent = now(counters.sends) - sends;
  EXPECT_LE(written, kMessages + 8);
  EXPECT_LE(sent, kMessages + 8 + kMessages / 16) << "and a note now and then that tells what was taken";
  EXPECT_LE(now(counters.signalled) - signalled, (written + sent) / 16 + 2);
  EXPECT_EQ(now(counters.registrations), registrations);
  EXPECT_EQ(now(counters.copied_bytes), 0u);
  tli.close(client);
}

TEST(Rdma, AnIdleConnectionWakesNobody) {
  NEEDS_A_DEVICE();
  Pair pair(fresh(), 4, 4096);
  expect_carried(pair, "first");
  pair.tli.wait(pair.client, LWMQ_TLI_WAIT_EXTENT, 500);  // what is on its way has come
  const std::uint64_t before = now(rdma::counters().wake_ups), asked = now(rdma::counters().asks);
  std::thread waiting([&] { pair.tli.wait(pair.served, LWMQ_TLI_WAIT_EXTENT, 10'000); });
  EXPECT_EQ(pair.tli.wait(pair.client, LWMQ_TLI_WAIT_EXTENT, 10'000), LWMQ_E_TIMED_OUT);
  waiting.join();
  EXPECT_EQ(now(rdma::counters().wake_ups), before);
  EXPECT_EQ(now(rdma::counters().asks), asked);
}

// The objects of all RDMA devices of this machine, as the kernel counts them.
std::string device_objects() {
  std::string text;
  FILE* const output = popen("rdma resource show", "r");
  for (int c = 0; output != nullptr && (c = std::fgetc(output)) != EOF;) text += static_cast<char>(c);
  if (output != nullptr) pclose(output);
  return text;
}

// Makes so many connections, `at_once` of them together. A process opens a device once, with its first one.
void expect_no_object_left(int connections, int at_once) {
  expect_carried(Pair(fresh(), 2, 4096), "first");
  EXPECT_TRUE(eventually([] { return now(rdma::counters().regions) == 0; })) << now(rdma::counters().regions);
  const std::string before = device_objects();
  for (int i = 0; i < connections; i += at_once) {
    std::vector<std::unique_ptr<Pair>> pairs;
    for (int k = 0; k < at_once; ++k) pairs.push_back(std::make_unique<Pair>(fresh(), 2, 4096));
    for (const auto& pair : pairs) expect_carried(*pair, "x");
    EXPECT_GT(now(rdma::counters().regions), 0u);
  }
  EXPECT_TRUE(eventually([] { return now(rdma::counters().regions) == 0; })) << now(rdma::counters().regions);
  EXPECT_TRUE(eventually([&] { return device_objects() == before; })) << before << device_objects();
}

TEST(Rdma, RegionsGoWithTheirConnections) {
  NEEDS_A_DEVICE();
  expect_no_object_left(40, 1);
}

TEST(Rdma, AThousandConnectionsLeaveNothing) {
  NEEDS_A_DEVICE();
  expect_no_object_left(1000, 1);
}

TEST(Rdma, AHundredConnectionsAtOnceLeaveNothing) {
  NEEDS_A_DEVICE();
  expect_no_object_left(200, 100);
}

// rows: L25
TEST(Rdma, TwoDevicesCarryTrafficAtOnce) {
  NEEDS_A_DEVICE();
  const char* const other = std::getenv("LWMQ_TEST_RDMA_TOO");
  if (other == nullptr) GTEST_SKIP() << "LWMQ_TEST_RDMA_TOO names no host of another device";
  Pair one(fresh(), 4, 4096), two(fresh("?auth=none", other), 4, 4096);
  for (int i = 0; i < 200; ++i) {
    for (Pair* pair : {&one, &two}) {
      const std::string text = std::string(1000, 'a') + std::to_string(i);
      EXPECT_TRUE(eventually([&] { return pair->send(pair->client, text) == LWMQ_OK; })) << last_error();
      pair->tli.flush(pair->client);
    }
    for (Pair* pair : {&one, &two})
      EXPECT_EQ(pair->land_text(pair->served), std::string(1000, 'a') + std::to_string(i));
  }
}

// ---- Memory that the peer writes

TEST(Rdma, APushIsThereBeforeWhatIsShownLater) {
  NEEDS_A_DEVICE();
  Pair pair(fresh(), 4, 4096);
  const auto& memory = *pair.tli.provider().memory;
  constexpr std::uint64_t kBytes = 4 << 20;
  std::vector<std::uint8_t> landing(kBytes + 8), from(kBytes);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 7 + i / 999);
  lwmq_tli_grant grant{};
  ASSERT_EQ(memory.grant(pair.served, landing.data(), kBytes + 8, &grant), LWMQ_OK);
  for (const bool is_known : {true, false}) {
    const std::uint64_t copied = now(rdma::counters().copied_bytes);
    if (is_known) {
      ASSERT_EQ(memory.register_memory(pair.client, from.data(), kBytes), LWMQ_OK) << last_error();
    } else {
      memory.unregister_memory(pair.client, from.data());
    }
    std::fill(landing.begin(), landing.end(), std::uint8_t{0});
    const lwmq_bytes pieces[] = {{from.data(), 100}, {from.data() + 100, kBytes - 100}};
    ASSERT_EQ(memory.push(pair.client, &grant, 8, pieces, 2, 70), LWMQ_OK) << last_error();
    EXPECT_EQ(pair.send(pair.client, "pushed"), LWMQ_OK);
    pair.tli.flush(pair.client);
    EXPECT_EQ(pair.land_text(pair.served), "pushed");
    EXPECT_EQ(std::memcmp(landing.data() + 8, from.data(), kBytes), 0);
    EXPECT_EQ(now(rdma::counters().copied_bytes) - copied, is_known ? 0 : kBytes);
    std::uint64_t token = 0;
    EXPECT_TRUE(eventually([&] { return memory.reap(pair.client, 1, &token) == 1; }));
    EXPECT_EQ(token, 70u);
  }
}

// Whether this kernel registers mappings that may not be written.
bool registers_read_only_memory() {
  utsname system{};
  int major = 0, minor = 0;
  uname(&system);
  return std::sscanf(system.release, "%d.%d", &major, &minor) == 2 &&
         (major > 6 || (major == 6 && minor >= 12));
}

TEST(Rdma, AReadOnlyWindowIsWrittenFromWhereTheKernelAllowsAndElseCopied) {
  NEEDS_A_DEVICE();
  constexpr std::uint64_t kBytes = 1 << 20;
  const int file = memfd_create("window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const std::string content(kBytes, 'w');
  ASSERT_EQ(write(file, content.data(), kBytes), static_cast<ssize_t>(kBytes));
  ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
  void* const window = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  ASSERT_NE(window, MAP_FAILED);
  {
    Pair pair(fresh(), 4, 4096);
    const auto& memory = *pair.tli.provider().memory;
    std::string landing(kBytes, '-');
    lwmq_tli_grant grant{};
    ASSERT_EQ(memory.grant(pair.served, landing.data(), kBytes, &grant), LWMQ_OK);
    ASSERT_EQ(memory.register_memory(pair.client, window, kBytes), LWMQ_OK) << last_error();
    const std::uint64_t copied = now(rdma::counters().copied_bytes);
    const lwmq_bytes piece{static_cast<const std::uint8_t*>(window), kBytes};
    ASSERT_EQ(memory.push(pair.client, &grant, 0, &piece, 1, 7), LWMQ_OK) << last_error();
    expect_carried(pair, "pushed");
    EXPECT_TRUE(landing == content);
    EXPECT_EQ(now(rdma::counters().copied_bytes) - copied, registers_read_only_memory() ? 0 : kBytes);
  }
  munmap(window, kBytes);
}

// A sender that does not look at what was granted, or goes on when it is granted no more.
TEST(Rdma, TheDeviceRefusesAForgedGrant) {
  NEEDS_A_DEVICE();
  for (const int forgery : {0, 1, 2, 3}) {
    SCOPED_TRACE(forgery);
    Pair pair(fresh(), 4, 4096);
    const auto& memory = *pair.tli.provider().memory;
    std::vector<std::uint8_t> landing(128), from(64, 1);
    lwmq_tli_grant grant{};
    ASSERT_EQ(memory.grant(pair.served, landing.data(), 64, &grant), LWMQ_OK);
    if (forgery == 0) grant.bytes = 128;     // behind the end
    if (forgery == 1) grant.key[8] ^= 0x55;  // another key
    if (forgery == 2) grant.key[2] ^= 0x01;  // another place
    if (forgery == 3) memory.revoke(pair.served, &grant);
    const lwmq_bytes piece{from.data(), 64};
    EXPECT_EQ(memory.push(pair.client, &grant, forgery == 0 ? 32 : 0, &piece, 1, 0), LWMQ_OK);
    EXPECT_EQ(pair.send(pair.client, "shown"), LWMQ_OK);
    pair.tli.flush(pair.client);
    Extent extent;
    EXPECT_EQ(pair.land(pair.served, &extent), LWMQ_E_PEER_LOST);
    EXPECT_EQ(landing, std::vector<std::uint8_t>(128, 0));
    EXPECT_TRUE(eventually([&] { return pair.tli.state(pair.client) == LWMQ_TLI_LOST; }));
  }
}

TEST(Rdma, APushBeyondItsGrantIsRefused) {
  NEEDS_A_DEVICE();
  Pair pair(fresh(), 4, 4096);
  const auto& memory = *pair.tli.provider().memory;
  std::uint8_t landing[64] = {}, from[64] = {};
  lwmq_tli_grant grant{};
  ASSERT_EQ(memory.grant(pair.served, landing, 32, &grant), LWMQ_OK);
  const lwmq_bytes piece{from, 32};
  EXPECT_EQ(memory.push(pair.client, &grant, 1, &piece, 1, 0), LWMQ_E_INVALID);
  EXPECT_EQ(memory.push(pair.client, &grant, UINT64_MAX, &piece, 1, 0), LWMQ_E_INVALID);
}

// ---- Keys

TEST(Rdma, BothEndsProveThatTheyHaveTheKey) {
  NEEDS_A_DEVICE();
  const std::string place = fresh("");
  Pair pair(place + "?psk=" + key_file(), 2, 512);
  expect_carried(pair, "secret");
  const std::pair<std::string, std::string> strangers[] = {
      {"?psk=" + secret_file("tests:ffeeddccbbaa99887766554433221100\n"), "does not have the key"},
      {"?psk=" + secret_file("others:ffeeddccbbaa99887766554433221100\n"), "none of that name"},
      {"?auth=none", "the client has no key"}};
  for (const auto& [settings, why] : strangers) {
    SCOPED_TRACE(settings);
    const auto options = options_of(2, 512);
    lwmq_tli_transport* client = nullptr;
    EXPECT_EQ(pair.tli.connect((place + settings).c_str(), &options, 60'000, &client), LWMQ_E_DENIED);
    expect_said(why);
    lwmq_tli_transport* served = nullptr;
    Status status = LWMQ_E_EMPTY;
    EXPECT_TRUE(
        eventually([&] { return (status = pair.tli.accept(pair.listener, &served)) != LWMQ_E_EMPTY; }));
    EXPECT_EQ(status, LWMQ_E_DENIED);
    expect_said("a client was refused");
  }
}

TEST(Rdma, AClientWithAKeyTrustsNoListenerWithoutOne) {
  NEEDS_A_DEVICE();
  const std::string place = fresh("");
  Pair pair(place + "?auth=none", 2, 512);
  const auto options = options_of(2, 512);
  lwmq_tli_transport* client = nullptr;
  EXPECT_EQ(pair.tli.connect((place + "?psk=" + key_file()).c_str(), &options, 60'000, &client),
            LWMQ_E_DENIED);
  expect_said("the client has a key");
}

// ---- Limits

// Without the capability to lock more.
void lock_at_most(rlim_t bytes) {
  const rlimit little{bytes, bytes};
  setrlimit(RLIMIT_MEMLOCK, &little);
  __user_cap_header_struct who{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct may[2] = {};
  syscall(SYS_capget, &who, may);
  may[CAP_IPC_LOCK / 32].effective &= ~(1u << (CAP_IPC_LOCK % 32));
  syscall(SYS_capset, &who, may);
}

LWMQ_CHILD_ROLE(LocksLittleMemory) {
  const std::string address = Child::argument();
  lock_at_most(64 * 1024);
  const Tli tli = rdma();
  const auto options = options_of(4, 64 * 1024);
  lwmq_tli_transport* client = nullptr;
  const Status status = tli.connect(address.c_str(), &options, 60'000, &client);
  Child::report(std::string(status_name(status)) + " " + last_error());
}

TEST(Rdma, SaysWhatLimitOfTheProcessItMeets) {
  NEEDS_A_DEVICE();
  Pair pair(fresh(), 4, 4096);
  Child child("LocksLittleMemory", pair.address);
  const std::string line = child.line();
  EXPECT_EQ(line.find("LWMQ_E_NO_MEMORY"), 0u) << line;
  EXPECT_NE(line.find("this process may lock 64 KiB of memory"), std::string::npos) << line;
  EXPECT_NE(line.find("ulimit -l"), std::string::npos) << line;
}

// Reports what it may register, then whether it could register all of that, and then one page more.
LWMQ_CHILD_ROLE(RegistersAllThatItMay) {
  lock_at_most(8 << 20);
  const Tli tli = rdma();
  const auto options = options_of(4, 64 * 1024);
  lwmq_tli_transport* client = nullptr;
  if (tli.connect(Child::argument(), &options, 60'000, &client) != LWMQ_OK)
    return Child::report(last_error());
  lwmq_limits limits{};
  limits.size = sizeof limits;
  const std::string address = Child::argument(), bare = address.substr(0, address.find('?'));
  const auto ask = [&] {
    tli.limits(bare.c_str(), &limits);
    Child::report(std::to_string(limits.registered_bytes_max) + " " +
                  (limits.regions_max > 0 ? "some" : "none"));
  };
  ask();
  const std::uint64_t bytes = limits.registered_bytes_max;
  void* const all = mmap(nullptr, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const auto& memory = *tli.provider().memory;
  Child::report(status_name(memory.register_memory(client, all, bytes)));
  ask();
  Child::report(status_name(memory.register_memory(client, static_cast<char*>(all) + bytes, 4096)) +
                std::string(" ") + last_error());
}

// rows: L24
TEST(Rdma, WhatTheLimitsSayCanBeRegisteredAndNoMore) {
  NEEDS_A_DEVICE();
  Pair pair(fresh(), 4, 4096);
  Child child("RegistersAllThatItMay", pair.address);
  const std::string may = child.line();
  EXPECT_GT(std::atoll(may.c_str()), 4 << 20) << may;
  EXPECT_LT(std::atoll(may.c_str()), 8 << 20) << may;
  EXPECT_NE(may.find(" some"), std::string::npos) << may;
  EXPECT_EQ(child.line(), "LWMQ_OK");
  EXPECT_EQ(child.line(), "0 some");
  const std::string more = child.line();
  EXPECT_EQ(more.find("LWMQ_E_NO_MEMORY"), 0u) << more;
  EXPECT_NE(more.find("this process may lock 8192 KiB of memory"), std::string::npos) << more;
}

// ---- Signs of life

// A command cuts the network of LWMQ_TEST_RDMA for the connections that there are, and another one mends it.
#define NEEDS_A_NETWORK_TO_CUT()                                    \
  if (!over_rdma() || std::getenv("LWMQ_TEST_RDMA_CUT") == nullptr) \
  GTEST_SKIP() << "LWMQ_TEST_RDMA_CUT names no command that cuts the network"

void run_command(const char* variable) { ASSERT_EQ(std::system(std::getenv(variable)), 0) << variable; }

constexpr const char* kSoon = "?auth=none&silent=2s";

TEST(RdmaLife, TakesASilenceInReason) {
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  EXPECT_EQ(rdma().listen("rdma://localhost:0/x?silent=1s", &options, &listener), LWMQ_E_INVALID);
  expect_said("2s to 900s are possible");
}

TEST(RdmaLife, AnIdlePeerAnswersAndStays) {
  NEEDS_A_DEVICE();
  Pair pair(fresh(kSoon), 4, 4096);
  expect_carried(pair, "first");
  const std::uint64_t asked = now(rdma::counters().asks);
  EXPECT_TRUE(eventually([&] { return now(rdma::counters().asks) >= asked + 6; }));
  EXPECT_EQ(pair.tli.state(pair.client), LWMQ_TLI_CONNECTED);
  EXPECT_EQ(pair.tli.state(pair.served), LWMQ_TLI_CONNECTED);
  expect_carried(pair, std::string(4000, 'x'));
}

TEST(RdmaLife, AStoppedPeerIsNotLost) {
  NEEDS_A_DEVICE();
  const std::string address = fresh(kSoon);
  Child receiver("LandsOverRdmaForEver", address);
  ASSERT_EQ(receiver.line(), "listening");
  const Tli tli = rdma();
  const auto options = options_of(4, 4096);
  lwmq_tli_transport* client = nullptr;
  ASSERT_EQ(tli.connect(address.c_str(), &options, 60'000, &client), LWMQ_OK) << last_error();
  ASSERT_TRUE(receiver.stop());
  const auto send = [&] {
    lwmq_tli_buffer buffer{};
    ASSERT_EQ(tli.acquire(client, &buffer), LWMQ_OK) << last_error();
    std::memset(buffer.next, 'x', 4000);
    tli.show(client, &buffer, 4000, 0);
    tli.ship(client, &buffer);
    tli.flush(client);
  };
  send();
  const std::uint64_t asked = now(rdma::counters().asks);
  EXPECT_TRUE(eventually([&] { return now(rdma::counters().asks) >= asked + 4; }));
  EXPECT_EQ(tli.state(client), LWMQ_TLI_CONNECTED);
  ::kill(receiver.pid(), SIGCONT);
  send();
  EXPECT_TRUE(eventually([&] { return tli.figures(client).unread_extents == 0; }));
  tli.close(client);
}

// One connection is idle when the network is cut, and the other one sends.
TEST(RdmaLife, APeerWhoseHostVanishesIsLostAndTheNextOneIsReached) {
  NEEDS_A_NETWORK_TO_CUT();
  {
    Pair idle(fresh(kSoon), 4, 4096), busy(fresh(kSoon), 4, 4096);
    expect_carried(idle, "first");
    expect_carried(busy, "first");
    std::vector<std::thread> waiting;
    const auto await_loss = [](const Pair& pair, lwmq_tli_transport* transport) {
      Extent extent;
      EXPECT_EQ(pair.tli.wait(transport, LWMQ_TLI_WAIT_EXTENT, 60'000), LWMQ_OK);
      EXPECT_EQ(pair.land(transport, &extent), LWMQ_E_PEER_LOST);
      expect_said("gives no sign of life");
    };
    for (lwmq_tli_transport* end : {idle.client, idle.served})
      waiting.emplace_back([&, end] { await_loss(idle, end); });
    run_command("LWMQ_TEST_RDMA_CUT");
    EXPECT_EQ(busy.send(busy.client, std::string(4000, 'x')), LWMQ_OK);
    busy.tli.flush(busy.client);
    await_loss(busy, busy.client);
    for (std::thread& each : waiting) each.join();
    run_command("LWMQ_TEST_RDMA_MEND");
    Pair next(fresh(kSoon), 4, 4096);
    expect_carried(next, "again");
  }
  EXPECT_TRUE(eventually([] { return now(rdma::counters().regions) == 0; })) << now(rdma::counters().regions);
}

// ---- Deaths

// By RDMA WRITE.
LWMQ_CHILD_ROLE(StreamsOverRdmaForEver) { send_numbers_for_ever(rdma(), 1000); }

// rows: L34
TEST(Rdma, WhatAKilledPeerShowedIsLandedThenTheLossIsTold) {
  NEEDS_A_DEVICE();
  expect_what_a_killed_peer_showed(rdma(), "StreamsOverRdmaForEver", fresh(), 1000, 500);
}

}  // namespace
}  // namespace lwmq::testing
