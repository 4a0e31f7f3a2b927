// links: base os stats queue tli address filters lane sockets modules store providers
// tcp:// where it differs from what the conformance suite asks of every provider: ports, strangers, deaths.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "comes_whole.h"
#include "conformance/providers.h"
#include "conformance/transport_pair.h"

// Behind the others: it has a namespace `testing` of its own.
#include "base/crc32c.h"
#include "child.h"
#include "killed_peer.h"
#include "lane/mirror_head.h"
#include "os/unique_fd.h"
#include "providers/tcp/family.h"
#include "sockets/wire.h"
#include "stats/process_counters.h"

namespace {

constexpr char kUnanswered[] = "unanswered.test";
std::mutex g_name_server;  // answers nobody who asks for that name while it is locked

}  // namespace

// Instead of libc's.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  if (node != nullptr && std::strcmp(node, kUnanswered) == 0 && (hints->ai_flags & AI_NUMERICHOST) == 0) {
    const std::lock_guard asked(g_name_server);
    return EAI_AGAIN;
  }
  static const auto libc = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  return libc(node, service, hints, found);
}

namespace lwmq::testing {
namespace {

using calls::Extent;
using calls::Tli;
using conformance::fresh_name;
using conformance::options_of;
using conformance::Pair;
using conformance::provider_of;
using conformance::run_service;
using conformance::tcp_port;

Tli tcp() {
  const Tli tli = provider_of(plain_host() + "1");
  run_service(tli);
  return tli;
}

// A client that speaks for itself.
struct Stranger {
  int socket;

  Stranger() : socket(socket_after(::connect, tcp_port())) {}
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { close(socket); }
  void say(const void* data, std::size_t bytes) const {
    EXPECT_EQ(send(socket, data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
  }
  sockets::Greeting hear() const {
    sockets::Greeting greeting{};
    recv(socket, &greeting, sizeof greeting, MSG_WAITALL);
    return greeting;
  }
  static sockets::Hello hello(const std::string& name) {
    sockets::Hello hello{};
    hello.magic = sockets::kMagic;
    hello.version = kProtocolVersion;
    hello.kind = static_cast<std::uint32_t>(sockets::Kind::kHello);
    hello.purpose = LWMQ_TLI_FOR_RAW;
    hello.buffer_bytes = 512;
    hello.buffers = 2;
    hello.name_bytes = static_cast<std::uint32_t>(name.size());
    std::memcpy(hello.name, name.data(), name.size());
    return hello;
  }
};

// What a listener says to whom it refuses, and its own user hears.
struct Serving {
  Tli tli = tcp();
  std::string name = fresh_name();
  std::string address = plain_host() + tcp_port() + "/" + name;
  lwmq_tli_listener* listener = nullptr;

  explicit Serving(const std::string& engine = "epoll") {
    const auto options = options_of(2, 512);
    const std::string asked = address + "?engine=" + engine;
    EXPECT_EQ(tli.listen(asked.c_str(), &options, &listener), LWMQ_OK) << last_error();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving() { tli.listener_close(listener); }
  // The text of the next refusal.
  std::string refusal() const {
    std::string text;
    EXPECT_TRUE(eventually([&] {
      lwmq_tli_transport* transport = nullptr;
      const Status status = tli.accept(listener, &transport);
      if (is_failure(status)) text = last_error();
      return is_failure(status);
    }));
    return text;
  }
  lwmq_tli_transport* accept() const {
    lwmq_tli_transport* transport = nullptr;
    EXPECT_TRUE(eventually([&] { return tli.accept(listener, &transport) == LWMQ_OK; })) << last_error();
    return transport;
  }
  // Both ends have said hello.
  lwmq_tli_transport* meet(const Stranger& stranger) const {
    const auto hello = Stranger::hello(name);
    stranger.say(&hello, sizeof hello);
    lwmq_tli_transport* transport = accept();
    stranger.hear();
    return transport;
  }
};

// What depends on who reads the socket, over both engines.
struct TcpBy : ::testing::TestWithParam<const char*> {
  static void SetUpTestSuite() { tcp(); }  // Pair takes for granted that the service runs
  static std::string fresh() { return conformance::kTcp.fresh_address() + "?engine=" + GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Engine, TcpBy, ::testing::Values("epoll", "uring"),
                         [](const auto& each) { return std::string(each.param); });

TEST(TcpAddress, ReadsAddressesAndSaysWhatIsWrongWithThem) {
  lwmq_limits limits{};
  limits.size = sizeof limits;
  for (const char* good : {"tcp://localhost:1", "tcp://127.0.0.1:65535/a/b", "tcp://[::1]:0/name",
                           "tcp://host-1.example.org:80", "tcp://*:5"}) {
    EXPECT_EQ(tcp().limits(good, &limits), LWMQ_OK) << last_error();
  }
  const std::pair<const char*, const char*> bad[] = {
      {"tcp://", "host is missing"},         {"tcp://host", "port is missing"},
      {"tcp://host:", "0 to 65535"},         {"tcp://host:65536", "0 to 65535"},
      {"tcp://host:8x", "0 to 65535"},       {"tcp://[::1:5", "without its ']'"},
      {"tcp://[::g]:5", "no IPv6 number"},   {"tcp://ho st:5", "characters other than"},
      {"tcp://host:5/a b", "a blank"},       {"tcp://host:99999999999999999999", "0 to 65535"},
      {"tcp://::1:5", "the host is missing"}};
  for (const auto& [address, why] : bad) {
    EXPECT_EQ(tcp().limits(address, &limits), LWMQ_E_ADDRESS) << address;
    EXPECT_NE(std::string(last_error()).find(why), std::string::npos) << last_error();
  }
}

TEST(TcpAddress, TellsTheAddressWhereTheSystemHasChosenThePort) {
  const auto options = options_of(2, 512);
  for (const char* asked : {"tcp://127.0.0.1:0/one", "tcp://localhost:0", "tcp://[::1]:0/six"}) {
    lwmq_tli_listener* listener = nullptr;
    const Status status = tcp().listen(asked, &options, &listener);
    if (status != LWMQ_OK && std::string(asked).find("::1") != std::string::npos) continue;  // no IPv6 here
    ASSERT_EQ(status, LWMQ_OK) << last_error();
    const std::string bound = tcp().provider().listener->address(listener);
    EXPECT_EQ(bound.find(":0"), std::string::npos) << bound;
    lwmq_tli_transport *client = nullptr, *served = nullptr;
    std::thread connecting([&] { tcp().connect(bound.c_str(), &options, 60000, &client); });
    EXPECT_TRUE(eventually([&] { return tcp().accept(listener, &served) == LWMQ_OK; }));
    connecting.join();
    ASSERT_NE(client, nullptr) << bound;
    tcp().close(client);
    tcp().close(served);
    tcp().listener_close(listener);
  }
}

TEST(TcpAddress, ServesNothingButLoopbackWithoutCredentials) {
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  for (const char* address : {"tcp://*:0", "tcp://0.0.0.0:0/x"}) {
    EXPECT_EQ(tcp().listen(address, &options, &listener), LWMQ_E_DENIED) << address;
    EXPECT_NE(std::string(last_error()).find("neither credentials nor encryption"), std::string::npos)
        << last_error();
  }
}

TEST(TcpAddress, ServesEveryInterfaceWhereItIsToldThatNobodyIsToProveAnything) {
  auto options = options_of(2, 512);
  const lwmq_tli_setting open{"auth", "none"};
  const lwmq_tli_setting wrong{"auth", "any"};
  options.settings_count = 1;
  options.settings = &wrong;
  lwmq_tli_listener* listener = nullptr;
  EXPECT_EQ(tcp().listen("tcp://*:0", &options, &listener), LWMQ_E_INVALID);
  EXPECT_NE(std::string(last_error()).find("there is 'auth=none' alone"), std::string::npos) << last_error();
  options.settings = &open;
  ASSERT_EQ(tcp().listen("tcp://*:0", &options, &listener), LWMQ_OK) << last_error();
  const std::string bound = tcp().provider().listener->address(listener);
  const auto closed = options_of(2, 512);
  lwmq_tli_listener* second = nullptr;
  EXPECT_EQ(tcp().listen((bound + "/second").c_str(), &closed, &second), LWMQ_E_DENIED)
      << "each listener of a port says it for itself";
  tcp().listener_close(listener);
}

TEST(TcpAddress, SaysOfLoopbackThatItIsAnotherOneInAnotherNetworkNamespace) {
  const auto is_in_network = [](const char* address) {
    lwmq_limits limits{};
    limits.size = sizeof limits;
    EXPECT_EQ(tcp().limits(address, &limits), LWMQ_OK) << last_error();
    return (limits.capabilities & LWMQ_IS_IN_NETWORK) != 0;
  };
  for (const char* here : {"tcp://localhost:1", "tcp://127.0.0.2:1", "tcp://[::1]:1"})
    EXPECT_TRUE(is_in_network(here)) << here;
  for (const char* anywhere : {"tcp://10.0.0.7:1", "tcp://[fe80::1]:1", "tcp://host:1", "tcp://*:1"})
    EXPECT_FALSE(is_in_network(anywhere)) << anywhere;
}

TEST(TcpAddress, ConnectsToAHostByItsName) {
  const Serving serving;
  const auto options = options_of(2, 512);
  char host[256] = "localhost";
  const std::string address = "tcp://" + std::string(host) + ":" + tcp_port() + "/" + serving.name;
  lwmq_tli_transport* client = nullptr;
  std::thread connecting([&] { serving.tli.connect(address.c_str(), &options, 60000, &client); });
  lwmq_tli_transport* served = serving.accept();
  connecting.join();
  ASSERT_NE(client, nullptr);
  lwmq_tli_peer peer{};
  serving.tli.peer(client, &peer);
  EXPECT_EQ(peer.pid, static_cast<std::uint32_t>(getpid()));
  EXPECT_NE(std::string(peer.name).find("127.0.0.1:" + tcp_port()), std::string::npos) << peer.name;
  serving.tli.close(client);
  serving.tli.close(served);
}

TEST(TcpAddress, FindsNobodyAtAHostThatNobodyKnows) {
  const auto options = options_of(2, 512);
  lwmq_tli_transport* client = nullptr;
  EXPECT_EQ(tcp().connect("tcp://no-such-host.invalid:5555", &options, 60000, &client), LWMQ_E_EMPTY);
}

TEST(TcpAddress, ANameServerThatNeverAnswersHoldsUpNobody) {
  const Serving serving;
  const auto options = options_of(2, 512);
  const std::string address = "tcp://" + std::string(kUnanswered) + ":5555";
  const lwmq_tli_transport_table& steps = *serving.tli.provider().transport;
  lwmq_tli_transport *asks = nullptr, *client = nullptr;
  std::unique_lock silent(g_name_server);
  ASSERT_EQ(steps.connect(address.c_str(), &options, &asks), LWMQ_OK);
  EXPECT_EQ(steps.proceed(asks), LWMQ_E_FULL);
  EXPECT_GE(steps.descriptor(asks), 0);
  std::thread listens([&] {
    lwmq_tli_listener* listener = nullptr;
    EXPECT_NE(serving.tli.listen(address.c_str(), &options, &listener), LWMQ_OK);
  });
  const std::string named = "tcp://localhost:" + tcp_port() + "/" + serving.name;
  std::thread connecting([&] { serving.tli.connect(named.c_str(), &options, 60000, &client); });
  lwmq_tli_transport* served = serving.accept();
  connecting.join();
  ASSERT_NE(client, nullptr);
  const Serving another;
  EXPECT_EQ(steps.proceed(asks), LWMQ_E_FULL);
  steps.close(asks, 0, 0);  // waits for no answer
  lwmq_tli_transport* later = nullptr;
  ASSERT_EQ(steps.connect(address.c_str(), &options, &later), LWMQ_OK);
  silent.unlock();
  Status status = LWMQ_E_FULL;
  EXPECT_TRUE(eventually([&] { return (status = steps.proceed(later)) != LWMQ_E_FULL; }));
  EXPECT_EQ(status, LWMQ_E_TIMED_OUT) << "whoever may serve the address, too, does not ask again";
  steps.close(later, 0, 0);
  listens.join();
  serving.tli.close(client);
  serving.tli.close(served);
}

TEST(Tcp, AsksForANameThatThePortDoesNotServe) {
  const Serving serving;
  const auto options = options_of(2, 512);
  lwmq_tli_transport* client = nullptr;
  Status status = LWMQ_E_FULL;
  std::string text;
  std::atomic<bool> over{false};
  std::thread connecting([&] {
    const std::string address = plain_host() + tcp_port() + "/nobody";
    status = serving.tli.connect(address.c_str(), &options, 60000, &client);
    text = last_error();
    over = true;
  });
  EXPECT_TRUE(eventually([&] {
    lwmq_tli_transport* nobody = nullptr;
    EXPECT_EQ(serving.tli.accept(serving.listener, &nobody), LWMQ_E_EMPTY);
    return over.load();
  }));
  connecting.join();
  EXPECT_EQ(status, LWMQ_E_EMPTY) << text;
}

// ---- Strangers

TEST(Tcp, RefusesAnotherVersionOfTheProtocolAndSaysSoToBoth) {
  const Serving serving;
  const Stranger stranger;
  auto hello = Stranger::hello(serving.name);
  hello.version += 1;
  stranger.say(&hello, sizeof hello);
  EXPECT_NE(serving.refusal().find("speaks version"), std::string::npos);
  const sockets::Greeting answer = stranger.hear();
  EXPECT_EQ(answer.refusal.status, LWMQ_E_VERSION);
  EXPECT_NE(std::string(answer.refusal.text).find("speaks version"), std::string::npos);
}

TEST(Tcp, DropsWhoSpeaksAnotherProtocolAndServesTheNext) {
  const Serving serving;
  const Stranger browser;
  browser.say("GET / HTTP/1.1\r\n\r\n", 18);
  const Stranger silent;
  const Stranger half;
  const auto hello = Stranger::hello(serving.name);
  half.say(&hello, 100);
  const Stranger good;
  good.say(&hello, sizeof hello);
  lwmq_tli_transport* served = serving.accept();
  EXPECT_EQ(static_cast<sockets::Kind>(good.hear().hello.kind), sockets::Kind::kHello);
  char byte = 0;
  EXPECT_EQ(recv(browser.socket, &byte, 1, 0), 0) << "it was dropped";
  serving.tli.close(served);
}

TEST(Tcp, RefusesAHelloWithNumbersThatCannotBe) {
  const Serving serving;
  const auto refuse = [&](auto&& change) {
    const Stranger stranger;
    auto hello = Stranger::hello(serving.name);
    change(hello);
    stranger.say(&hello, sizeof hello);
    EXPECT_NE(serving.refusal(), "");
    EXPECT_EQ(static_cast<sockets::Kind>(stranger.hear().refusal.kind), sockets::Kind::kRefusal);
  };
  refuse([](sockets::Hello& hello) { hello.buffers = 0; });
  refuse([](sockets::Hello& hello) { hello.buffers = UINT32_MAX; });
  refuse([](sockets::Hello& hello) { hello.buffer_bytes = UINT64_MAX; });
  refuse([](sockets::Hello& hello) { hello.purpose = 99; });
  refuse([](sockets::Hello& hello) { hello.kind = 7; });
}

TEST_P(TcpBy, EndsAConversationWhosePeerBreaksTheProtocol) {
  const Serving serving(GetParam());
  const Stranger liar;
  lwmq_tli_transport* served = serving.meet(liar);
  const lane::MirrorHead lie{2, 500, 1, 56, 0, 8};
  liar.say(&lie, sizeof lie);
  Extent extent;
  Status status = LWMQ_E_EMPTY;
  EXPECT_TRUE(eventually([&] {
    status = serving.tli.land(served, &extent);
    return status != LWMQ_E_EMPTY;
  }));
  EXPECT_EQ(status, LWMQ_E_CORRUPT);
  EXPECT_NE(std::string(last_error()).find("buffer 500"), std::string::npos) << last_error();
  EXPECT_EQ(serving.tli.state(served), LWMQ_TLI_LOST);
  serving.tli.close(served);
}

TEST_P(TcpBy, BelievesNothingThatCameDamaged) {
  const Serving serving(GetParam());
  for (const bool is_damaged : {false, true}) {
    const Stranger sender;
    const auto hello = Stranger::hello(serving.name);
    sender.say(&hello, sizeof hello);
    lwmq_tli_transport* served = serving.accept();
    sender.hear();
    struct {
      lane::MirrorHead head{static_cast<std::uint32_t>(lane::MirrorKind::kAccount), 0, 0, 0, 0, 6};
      std::uint8_t bytes[6]{};
    } piece;
    const std::size_t size = sizeof piece.head + sizeof piece.bytes;
    const std::uint32_t crc = crc32c(0, &piece, size);
    if (is_damaged) piece.bytes[3] ^= 1;
    sender.say(&piece, size);
    sender.say(&crc, sizeof crc);
    shutdown(sender.socket, SHUT_WR);
    Extent extent;
    Status status = LWMQ_E_EMPTY;
    EXPECT_TRUE(eventually([&] {
      status = serving.tli.land(served, &extent);
      return status != LWMQ_E_EMPTY;
    }));
    EXPECT_EQ(status, is_damaged ? LWMQ_E_CORRUPT : LWMQ_E_PEER_LOST);
    const std::string text = is_damaged ? "a piece of 6 bytes came damaged" : "died or vanished";
    EXPECT_NE(std::string(last_error()).find(text), std::string::npos) << last_error();
    serving.tli.close(served);
  }
}

TEST_P(TcpBy, SurvivesAnyBytesBehindAHello) {
  const Serving serving(GetParam());
  for (int round = 0; round < 50; ++round) {
    const Stranger liar;
    lwmq_tli_transport* served = serving.meet(liar);
    std::vector<std::uint8_t> bytes(4000);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::uint8_t>(rand() % (round % 3 == 0 ? 3 : 256));  // NOLINT: any will do
    bytes[0] = static_cast<std::uint8_t>(1 + round % 5);
    bytes[1] = bytes[2] = bytes[3] = 0;
    if (round % 2 == 0) {  // a piece that ends, with its checksum
      const std::uint64_t behind = 8 * static_cast<std::uint64_t>(round % 7);
      std::memcpy(&bytes[24], &behind, sizeof behind);
      const std::size_t piece = sizeof(lane::MirrorHead) + behind;
      const std::uint32_t crc = crc32c(0, bytes.data(), piece);
      std::memcpy(&bytes[piece], &crc, sizeof crc);
    }
    liar.say(bytes.data(), bytes.size());
    shutdown(liar.socket, SHUT_WR);
    Extent extent;
    EXPECT_TRUE(eventually([&] {
      const Status status = serving.tli.land(served, &extent);
      if (status == LWMQ_OK) serving.tli.release(served, &extent);
      return status != LWMQ_OK && status != LWMQ_E_EMPTY;
    }));
    serving.tli.close(served);
  }
}

// ---- Memory that a peer writes

// Tokens of pushes that have gone, as they come.
std::vector<std::uint64_t> reap_all(const Tli& tli, lwmq_tli_transport* t, std::size_t count) {
  std::vector<std::uint64_t> tokens;
  EXPECT_TRUE(eventually([&] {
    std::uint64_t some[4];
    const std::uint32_t came = tli.provider().memory->reap(t, 4, some);
    tokens.insert(tokens.end(), some, some + came);
    return tokens.size() >= count;
  }));
  return tokens;
}

TEST_P(TcpBy, APushIsThereBeforeWhatIsShownLater) {
  Pair pair(fresh(), 4, 4096);
  const auto& memory = *pair.tli.provider().memory;
  constexpr std::uint64_t kBytes = 4 << 20;
  std::vector<std::uint8_t> landing(kBytes + 8), from(kBytes);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 7 + i / 999);
  lwmq_tli_grant grant{};
  ASSERT_EQ(memory.grant(pair.served, landing.data(), kBytes + 8, &grant), LWMQ_OK);
  std::thread pushing([&] {
    const lwmq_bytes pieces[] = {
        {from.data(), 100}, {from.data() + 100, 0}, {from.data() + 100, kBytes - 100}};
    for (std::uint64_t round = 0; round < 3; ++round) {
      EXPECT_EQ(memory.push(pair.client, &grant, 8, pieces, 3, 70 + round), LWMQ_OK) << last_error();
      lwmq_tli_buffer buffer{};
      EXPECT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
      EXPECT_EQ(pair.tli.show(pair.client, &buffer, 8, 1), LWMQ_OK);
      pair.tli.ship(pair.client, &buffer);
    }
  });
  for (int round = 0; round < 3; ++round) {
    Extent extent;
    const Status status = pair.land(pair.served, &extent);
    EXPECT_EQ(status, LWMQ_OK) << last_error();
    if (status != LWMQ_OK) break;
    EXPECT_EQ(std::memcmp(landing.data() + 8, from.data(), kBytes), 0);
    pair.tli.release(pair.served, &extent);
  }
  pushing.join();
  EXPECT_EQ(reap_all(pair.tli, pair.client, 3), (std::vector<std::uint64_t>{70, 71, 72}));
}

TEST_P(TcpBy, APushBeyondItsGrantIsRefusedAtBothEnds) {
  Pair pair(fresh(), 4, 4096);
  const auto& memory = *pair.tli.provider().memory;
  std::uint8_t landing[64] = {}, from[64] = {};
  lwmq_tli_grant grant{};
  ASSERT_EQ(memory.grant(pair.served, landing, 32, &grant), LWMQ_OK);
  const lwmq_bytes piece{from, 32};
  EXPECT_EQ(memory.push(pair.client, &grant, 1, &piece, 1, 0), LWMQ_E_INVALID);
  EXPECT_EQ(memory.push(pair.client, &grant, UINT64_MAX, &piece, 1, 0), LWMQ_E_INVALID);
  grant.bytes = 64;  // a sender that does not look
  EXPECT_EQ(memory.push(pair.client, &grant, 8, &piece, 1, 0), LWMQ_OK);
  pair.tli.flush(pair.client);
  Extent extent;
  Status status = LWMQ_E_EMPTY;
  EXPECT_TRUE(eventually([&] { return (status = pair.tli.land(pair.served, &extent)) != LWMQ_E_EMPTY; }));
  EXPECT_EQ(status, LWMQ_E_CORRUPT);
  EXPECT_NE(std::string(last_error()).find("32 bytes at 8 of grant 1, which has 32"), std::string::npos)
      << last_error();
}

TEST_P(TcpBy, ARevokedGrantIsWrittenNoMore) {
  Pair pair(fresh(), 4, 4096);
  const auto& memory = *pair.tli.provider().memory;
  std::uint8_t landing[64] = {}, from[64] = {1, 2, 3};
  lwmq_tli_grant grant{};
  ASSERT_EQ(memory.grant(pair.served, landing, 64, &grant), LWMQ_OK);
  memory.revoke(pair.served, &grant);
  const lwmq_bytes piece{from, 64};
  EXPECT_EQ(memory.push(pair.client, &grant, 0, &piece, 1, 0), LWMQ_OK);
  pair.tli.flush(pair.client);
  Extent extent;
  Status status = LWMQ_E_EMPTY;
  EXPECT_TRUE(eventually([&] { return (status = pair.tli.land(pair.served, &extent)) != LWMQ_E_EMPTY; }));
  EXPECT_EQ(status, LWMQ_E_CORRUPT);
  EXPECT_EQ(landing[0], 0);
}

// Another thread writes there meanwhile, which is what the test is about.
__attribute__((no_sanitize("thread"))) bool is_one(const std::uint8_t* byte) {
  return *static_cast<const volatile std::uint8_t*>(byte) == 1;
}

// The peer is in the middle of a push, and a thread of ours sleeps until the rest comes.
TEST_P(TcpBy, AGrantThatIsRevokedDuringAPushIsWrittenNoMore) {
  const Serving serving(GetParam());
  const Stranger pusher;
  lwmq_tli_transport* served = serving.meet(pusher);
  constexpr std::uint64_t kBytes = 256 * 1024;
  std::vector<std::uint8_t> landing(kBytes);
  const std::vector<std::uint8_t> ones(kBytes, 1);
  lwmq_tli_grant grant{};
  const auto& memory = *serving.tli.provider().memory;
  ASSERT_EQ(memory.grant(served, landing.data(), kBytes, &grant), LWMQ_OK);
  const lane::MirrorHead head{static_cast<std::uint32_t>(lane::MirrorKind::kPush), 0, 0, 0, 1, kBytes};
  pusher.say(&head, sizeof head);
  std::thread waiting([&] {
    EXPECT_EQ(serving.tli.wait(served, LWMQ_TLI_WAIT_EXTENT, 60'000), LWMQ_OK) << "the transport has ended";
  });
  pusher.say(ones.data(), 1);
  EXPECT_TRUE(eventually([&] { return is_one(landing.data()); }));
  lwmq_tli_grant another{};
  EXPECT_EQ(memory.grant(served, landing.data(), 1, &another), LWMQ_OK) << "waits for nobody";
  memory.revoke(served, &another);
  memory.revoke(served, &grant);
  landing.assign(kBytes, 0);
  send(pusher.socket, ones.data(), kBytes / 2, MSG_NOSIGNAL);
  waiting.join();
  Extent extent;
  EXPECT_EQ(serving.tli.land(served, &extent), LWMQ_E_PEER_LOST);
  serving.tli.close(served);
  EXPECT_EQ(landing, std::vector<std::uint8_t>(kBytes, 0));
}

TEST_P(TcpBy, APushThatHasNotGoneGoesNoMoreAfterTheClose) {
  Pair pair(fresh(), 4, 4096);
  const auto& memory = *pair.tli.provider().memory;
  std::vector<std::uint8_t> landing(64 << 20), from(64 << 20, 1);  // more than sockets hold
  lwmq_tli_grant grant{};
  ASSERT_EQ(memory.grant(pair.served, landing.data(), landing.size(), &grant), LWMQ_OK);
  const lwmq_bytes piece{from.data(), from.size()};
  ASSERT_EQ(memory.push(pair.client, &grant, 0, &piece, 1, 0), LWMQ_OK);
  pair.tli.flush(pair.client);
  pair.close(&pair.client);
  Extent extent;
  Status status = LWMQ_E_EMPTY;
  EXPECT_TRUE(eventually([&] { return (status = pair.tli.land(pair.served, &extent)) != LWMQ_E_EMPTY; }));
  EXPECT_EQ(status, LWMQ_E_PEER_LOST);
}

// ---- Silence

TEST(Tcp, ProbesASilentHostForAsLongAsTheAddressSays) {
  struct Case {
    std::uint32_t silent_s;
    int after_s, every_s, probes;
  };
  for (const Case& each : {Case{tcp::kFamily.silent_s, 5, 1, 5}, Case{2, 1, 1, 1}, Case{3, 1, 1, 2},
                           Case{60, 30, 6, 5}, Case{900, 450, 90, 5}}) {
    const os::UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
    const auto get = [&](int level, int option) {
      int value = -1;
      socklen_t bytes = sizeof value;
      getsockopt(socket.get(), level, option, &value, &bytes);
      return value;
    };
    tcp::kFamily.prepare(socket.get(), each.silent_s);
    EXPECT_EQ(get(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(get(IPPROTO_TCP, TCP_KEEPIDLE), each.after_s) << each.silent_s;
    EXPECT_EQ(get(IPPROTO_TCP, TCP_KEEPINTVL), each.every_s) << each.silent_s;
    EXPECT_EQ(get(IPPROTO_TCP, TCP_KEEPCNT), each.probes) << each.silent_s;
    tcp::kFamily.prepare(socket.get(), 0);
    EXPECT_EQ(get(SOL_SOCKET, SO_KEEPALIVE), 0);
  }
}

TEST(TcpAddress, SaysWhatIsWrongWithATimeOfSilence) {
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  for (const auto& [value, why] : {std::pair{"soon", "not a duration"}, std::pair{"1s", "2s to 900s"},
                                   std::pair{"1999ms", "2s to 900s"}, std::pair{"16m", "2s to 900s"}}) {
    const std::string address = conformance::kTcp.fresh_address() + "?silent=" + value;
    EXPECT_EQ(tcp().listen(address.c_str(), &options, &listener), LWMQ_E_INVALID) << value;
    EXPECT_NE(std::string(last_error()).find(why), std::string::npos) << last_error();
  }
}

// ---- Ends

LWMQ_CHILD_ROLE(StreamsOverTcpForEver) { send_numbers_for_ever(tcp(), 0); }

// rows: L34
TEST_P(TcpBy, WhatAKilledPeerShowedIsLandedThenTheLossIsTold) {
  expect_what_a_killed_peer_showed(tcp(), "StreamsOverTcpForEver", fresh(), 0, 3000);
}

TEST(Tcp, CountsWhoIsReadByIoUringAndWhoWantedToBe) {
  const auto& counters = stats::process();
  const auto connections = [&] { return stats::get(counters.uring_connections); };
  const auto refused = [&] { return stats::get(counters.uring_refused); };
  const std::uint64_t before = connections() + refused();
  const auto meet_and_wait = [](const std::string& address) {
    const Pair pair(address, 2, 512);
    for (lwmq_tli_transport* end : {pair.served, pair.client})
      EXPECT_EQ(pair.tli.wait(end, LWMQ_TLI_WAIT_EXTENT, 1), LWMQ_E_TIMED_OUT);
  };
  meet_and_wait(conformance::kTcp.fresh_address());
  EXPECT_EQ(connections() + refused(), before);
  meet_and_wait(conformance::kTcpByUring.fresh_address());
  EXPECT_EQ(connections() + refused(), before + 2) << "both ends";
  const std::uint64_t refused_before = refused();
  meet_and_wait(conformance::kTcps.fresh_address() + "&engine=uring");
  EXPECT_EQ(refused(), refused_before + 2) << "TLS reads its socket itself";
  Pair other(conformance::kTcp.fresh_address(), 2, 512);
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  const std::string unknown = conformance::kTcp.fresh_address() + "?engine=kqueue";
  EXPECT_EQ(other.tli.listen(unknown.c_str(), &options, &listener), LWMQ_E_INVALID);
  EXPECT_NE(std::string(last_error()).find("there are 'epoll' and 'uring'"), std::string::npos)
      << last_error();
}

// Everything that was shown comes, although its sender has closed while the connection took no more.
TEST_P(TcpBy, WhatWasShownBeforeACloseComesWhole) {
  conformance::comes_whole_behind_a_close(fresh(), 1 << 20, 1 << 20);
}

}  // namespace
}  // namespace lwmq::testing
