// links: base os stats queue tli address filters lane sockets modules store providers
// tcps:// where it differs from what the conformance suite asks of every provider: credentials and strangers.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comes_whole.h"
#include "conformance/providers.h"
#include "conformance/transport_pair.h"
#include "os/tls_keys.h"
#include "os/unique_fd.h"
#include "sockets/wire.h"

namespace lwmq::testing {
namespace {

using calls::Extent;
using calls::Tli;
using conformance::key_file;
using conformance::options_of;
using conformance::Pair;
using conformance::provider_of;
using conformance::run_service;
using conformance::secret_file;

constexpr char kOneKey[] = "00112233445566778899aabbccddeeff";
constexpr char kOtherKey[] = "ffeeddccbbaa99887766554433221100";

Tli tcps() {
  const Tli tli = provider_of(secure_host() + "1");
  run_service(tli);
  return tli;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A listener, and what its user hears of those who are refused.
struct Serving {
  Tli tli = tcps();
  std::string port = free_port();
  lwmq_tli_listener* listener = nullptr;

  explicit Serving(const std::string& settings, const std::string& host = secure_host(),
                   const std::string& name = "") {
    const auto options = options_of(2, 512);
    const std::string address =
        host + port + (name.empty() ? "" : "/" + name) + (settings.empty() ? "" : "?" + settings);
    tli = provider_of(address);
    EXPECT_EQ(tli.listen(address.c_str(), &options, &listener), LWMQ_OK) << last_error();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving() { tli.listener_close(listener); }

  // Looks once: somebody who was refused.
  std::string look() const {
    lwmq_tli_transport* transport = nullptr;
    const Status status = tli.accept(listener, &transport);
    if (status == LWMQ_OK) tli.close(transport);
    return is_failure(status) ? last_error() : "";
  }
  std::string refusal() const {
    std::string text;
    EXPECT_TRUE(eventually([&] { return !(text = look()).empty(); }));
    return text;
  }
};

struct Refused {
  Status status = LWMQ_OK;
  std::string client;    // what it hears
  std::string listener;  // what the other end hears
};

// A client that is refused, by itself or by the listener.
Refused refused(const Serving& serving, const std::string& address) {
  const auto options = options_of(2, 512);
  Refused found;
  std::atomic<bool> is_over{false};
  std::thread connecting([&] {
    lwmq_tli_transport* client = nullptr;
    found.status = provider_of(address).connect(address.c_str(), &options, 60'000, &client);
    found.client = last_error();
    if (client != nullptr) serving.tli.close(client);
    is_over = true;
  });
  EXPECT_TRUE(eventually([&] {
    if (found.listener.empty()) found.listener = serving.look();
    return is_over.load();
  }));
  connecting.join();
  if (found.listener.empty()) found.listener = serving.refusal();
  return found;
}

void expect_meeting(const Serving& serving, const std::string& address) {
  const auto options = options_of(2, 512);
  lwmq_tli_transport *client = nullptr, *served = nullptr;
  std::string text;
  std::thread connecting([&] {
    if (serving.tli.connect(address.c_str(), &options, 60'000, &client) != LWMQ_OK) text = last_error();
  });
  EXPECT_TRUE(eventually([&] { return serving.tli.accept(serving.listener, &served) == LWMQ_OK; }));
  connecting.join();
  ASSERT_NE(client, nullptr) << text;
  serving.tli.close(client);
  serving.tli.close(served);
}

// A client that speaks for itself.
struct Stranger {
  int socket;

  explicit Stranger(const std::string& port) : socket(socket_after(::connect, port)) {}
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  ~Stranger() { close(socket); }
  void say(const std::string& bytes) const {
    EXPECT_EQ(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
};

std::string at(const Serving& serving, const std::string& settings, const std::string& host = loopback()) {
  return secure_scheme() + host + ":" + serving.port + (settings.empty() ? "" : "?" + settings);
}

std::string refusal_to_listen(const std::string& address) {
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  EXPECT_TRUE(is_failure(provider_of(address).listen(address.c_str(), &options, &listener))) << address;
  return last_error();
}

// ---- A key that both ends share

TEST(Tcps, RefusesAnotherKeyOfTheSameIdentity) {
  const Serving serving("psk=" + key_file());
  const std::string other = secret_file(std::string("tests:") + kOtherKey + "\n");
  const Refused found = refused(serving, at(serving, "psk=" + other));
  EXPECT_EQ(found.status, LWMQ_E_DENIED);
  EXPECT_TRUE(has(found.client, "it has another key of identity 'tests'")) << found.client;
  EXPECT_TRUE(has(found.listener, "binder does not verify")) << found.listener;
  for (const std::string& text : {found.client, found.listener}) {
    EXPECT_FALSE(has(text, kOneKey) || has(text, kOtherKey)) << text;
  }
  expect_meeting(serving, at(serving, "psk=" + key_file()));
}

TEST(Tcps, RefusesAnIdentityThatItDoesNotKnow) {
  const Serving serving("psk=" + key_file());
  const std::string other = secret_file(std::string("stranger\x01:") + kOneKey + "\n");
  const Refused found = refused(serving, at(serving, "psk=" + other));
  EXPECT_EQ(found.status, LWMQ_E_DENIED);
  EXPECT_TRUE(has(found.client, "it has no key of identity 'stranger")) << found.client;
  EXPECT_TRUE(has(found.listener, "no key of identity 'stranger?'")) << found.listener;
}

TEST(Tcps, TakesEachOfSeveralKeysAndOneWithoutAnIdentity) {
  const std::string line = std::string(kOtherKey) + "  \r\n";
  const Serving serving(
      "psk=" + secret_file("# ours\n\ntests:" + std::string(kOneKey) + "\n" + line + "a:b:" + kOneKey));
  expect_meeting(serving, at(serving, "psk=" + key_file()));
  expect_meeting(serving, at(serving, "psk=" + secret_file(std::string("lwmq:") + kOtherKey)));
  expect_meeting(serving, at(serving, "psk=" + secret_file(line)));
  expect_meeting(serving, at(serving, "psk=" + secret_file(std::string("a:b:") + kOneKey)));
}

TEST(Tcps, WantsAKeyFileThatOnlyItsOwnerMayReadAndShowsNothingOfIt) {
  const std::string key = secret_file(std::string("tests:") + kOneKey + "\n");
  const std::string address = secure_host() + free_port() + "?psk=";
  for (const mode_t mode : {0640, 0604, 0620}) {
    ASSERT_EQ(chmod(key.c_str(), mode), 0);
    EXPECT_TRUE(has(refusal_to_listen(address + key), "group or others have access to the secret"));
  }
  EXPECT_TRUE(has(refusal_to_listen(address + "/no/such/file"), "No such file")) << last_error();
  EXPECT_TRUE(has(refusal_to_listen(address + "/tmp"), "no regular file")) << last_error();
  for (const std::string& wrong :
       {std::string("tests:") + kOneKey + "0", std::string("tests:0011"),
        std::string("tests:secret-secret-secret-"), ":" + std::string(kOneKey),
        std::string("0123456789abcdef0123456789abcdeg"), std::string(161, 'i') + ":" + kOneKey}) {
    const std::string text = refusal_to_listen(address + secret_file("# first\n" + wrong + "\n"));
    EXPECT_TRUE(has(text, "line 2 is not identity:key")) << text;
    EXPECT_FALSE(has(text, wrong)) << text;
  }
  EXPECT_TRUE(has(refusal_to_listen(address + secret_file("# none\n")), "no key; write a line"))
      << last_error();
  EXPECT_TRUE(has(refusal_to_listen(address + secret_file(std::string(70'000, '#'))), "or more of keys"));
}

// ---- Keys that the process was given

constexpr char kPricesLine[] = "app/prices:00112233445566778899aabbccddeeff";

std::string named(const Serving& serving, const std::string& name) {
  return secure_host() + serving.port + "/" + name;
}

TEST(Tcps, UsesTheKeyOfTheListenerWhereAnAddressHasNoCredentials) {
  ASSERT_EQ(os::keep_key("prices", kPricesLine), LWMQ_OK) << last_error();
  const Serving serving("", secure_host(), "prices");
  expect_meeting(serving, named(serving, "prices"));
  expect_meeting(serving, named(serving, "prices?psk=" + secret_file(kPricesLine)));
  EXPECT_TRUE(has(refusal_to_listen(secure_host() + free_port() + "/others"), "no credentials"));
}

TEST(Tcps, AKeyOfOneListenerReachesNoOther) {
  ASSERT_EQ(os::keep_key("prices", kPricesLine), LWMQ_OK);
  ASSERT_EQ(os::keep_key("orders", std::string("app/orders:") + kOtherKey), LWMQ_OK);
  const Serving serving("", secure_host(), "orders");
  expect_meeting(serving, named(serving, "orders"));
  const Refused found = refused(serving, named(serving, "orders?psk=" + secret_file(kPricesLine)));
  EXPECT_EQ(found.status, LWMQ_E_DENIED);
  for (const std::string& text : {found.client, found.listener})
    EXPECT_TRUE(has(text, "the client's key is for 'prices', and it asks for 'orders'")) << text;
}

TEST(Tcps, TakesAKeyThatThePortWasGivenAfterItWasBound) {
  ASSERT_EQ(os::keep_key("late", std::string("app/late:") + kOneKey), LWMQ_OK);
  const Serving serving("", secure_host(), "late");
  ASSERT_EQ(os::keep_key("late", std::string("app/late:") + kOtherKey), LWMQ_OK);
  expect_meeting(serving, named(serving, "late"));
  const std::string old = secret_file(std::string("app/late:") + kOneKey);
  EXPECT_TRUE(has(refused(serving, named(serving, "late?psk=" + old)).client, "it has another key"));
  const std::string unknown = secret_file(std::string("app/never:") + kOneKey);
  EXPECT_TRUE(has(refused(serving, named(serving, "late?psk=" + unknown)).listener,
                  "no key of identity 'app/never' in this process"));
}

TEST(Tcps, RefusesAMalformedKeyAndShowsNothingOfIt) {
  EXPECT_EQ(os::keep_key("prices", "app/prices:secret"), LWMQ_E_INVALID);
  EXPECT_TRUE(has(last_error(), "the key for 'prices' is not identity:key")) << last_error();
  EXPECT_FALSE(has(last_error(), "secret")) << last_error();
}

TEST(Tcps, WantsCredentialsThatAreWhole) {
  const std::string address = secure_host() + free_port();
  EXPECT_TRUE(has(refusal_to_listen(address), "no credentials: give psk=FILE")) << last_error();
  EXPECT_TRUE(has(refusal_to_listen(address + "?certificate=/c&authority=/a"), "a part of the credentials"));
  EXPECT_TRUE(has(refusal_to_listen(address + "?psk=/k&authority=/a"), "a key and certificates"));
  const auto options = options_of(2, 512);
  lwmq_tli_transport* client = nullptr;
  EXPECT_EQ(tcps().connect(address.c_str(), &options, 1000, &client), LWMQ_E_INVALID);
}

TEST(Tcps, ServesOtherHostsBecauseTheyProveThemselves) {
  const std::string address = secure_scheme() + "*:0?psk=" + key_file();
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  ASSERT_EQ(tcps().listen(address.c_str(), &options, &listener), LWMQ_OK) << last_error();
  EXPECT_EQ(std::string(tcps().provider().listener->address(listener))
                .find(over_vsock() ? "vsocks://" : "tcps://*:"),
            0u);
  tcps().listener_close(listener);
}

// What does not fit the socket is sent by the net thread; a close waits for nothing.
TEST(Tcps, WhatWasShownBeforeACloseComesWhole) {
  conformance::comes_whole_behind_a_close(conformance::kTcps.fresh_address(), 1 << 20, (1 << 20) - 11);
}

// ---- One language a port

TEST(Tcps, APortIsServedInOneWay) {
  const Serving serving("psk=" + key_file());
  EXPECT_TRUE(
      has(refusal_to_listen(plain_host() + serving.port + "/x"), "serves the port as " + secure_scheme()));
  const std::string same = secret_file(std::string("tests:") + kOneKey + "\n");
  EXPECT_TRUE(has(refusal_to_listen(secure_host() + serving.port + "/x?psk=" + same), "other credentials"));
  const Serving plain("", plain_host());
  EXPECT_TRUE(has(refusal_to_listen(secure_host() + plain.port + "/x?psk=" + key_file()),
                  "serves the port as " + plain_scheme()));
}

TEST(Tcps, TellsAClientWithoutTlsAtBothEnds) {
  const Serving serving("psk=" + key_file());
  const Refused found = refused(serving, plain_host() + serving.port);
  EXPECT_EQ(found.status, LWMQ_E_DENIED);
  EXPECT_TRUE(has(found.client, "is served as " + secure_scheme())) << found.client;
  EXPECT_TRUE(has(found.listener, "the client speaks no TLS")) << found.listener;
}

TEST(Tcps, TellsAClientOfAPortWithoutTlsAtBothEnds) {
  const Serving serving("", plain_host());
  const Refused found = refused(serving, at(serving, "psk=" + key_file()));
  EXPECT_EQ(found.status, LWMQ_E_DENIED);
  EXPECT_TRUE(has(found.client, "the listener speaks no TLS")) << found.client;
  EXPECT_TRUE(has(found.listener, "the client speaks TLS")) << found.listener;
}

TEST(Tcps, DropsGarbageAndStallsAndServesTheNext) {
  const Serving serving("psk=" + key_file());
  const Stranger silent(serving.port);
  const Stranger browser(serving.port);
  browser.say("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(has(serving.refusal(), "http request"));
  const Stranger half(serving.port);
  half.say(std::string("\x16\x03\x01\x02\x00\x01", 6));
  for (int round = 0; round < 20; ++round) {
    const Stranger liar(serving.port);
    std::string bytes(600, '\0');
    for (char& byte : bytes) byte = static_cast<char>(rand());  // NOLINT: any will do
    bytes.replace(
        0, 5,
        round % 2 == 0 ? std::string("\x16\x03\x01\x02\x53", 5) : std::string("\x17\x03\x03\x02\x53", 5));
    liar.say(bytes);
    EXPECT_NE(serving.refusal(), "");
  }
  expect_meeting(serving, at(serving, "psk=" + key_file()));
}

// Passes one client on to a port, and keeps what the client says.
std::string what_a_client_says(const Serving& serving) {
  const std::string port = free_port();
  const os::UniqueFd listening(socket_after(::bind, port));
  EXPECT_EQ(listen(listening.get(), 1), 0);
  std::string said;
  std::thread passing([&] {
    const os::UniqueFd client(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const Stranger server(serving.port);
    pollfd both[2] = {{client.get(), POLLIN, 0}, {server.socket, POLLIN, 0}};
    char bytes[4096];
    for (;;) {
      poll(both, 2, -1);
      const int from = both[0].revents != 0 ? 0 : 1;
      const ssize_t got = recv(both[from].fd, bytes, sizeof bytes, 0);
      if (got <= 0) return;
      if (from == 0) said.append(bytes, static_cast<std::size_t>(got));
      send(both[1 - from].fd, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL);
    }
  });
  expect_meeting(serving, secure_host() + port + "?psk=" + key_file());
  passing.join();
  return said;
}

TEST(Tcps, RefusesWhatWasRecordedOfAnotherClient) {
  const Serving serving("psk=" + key_file());
  const std::string said = what_a_client_says(serving);
  ASSERT_GT(said.size(), sizeof(sockets::Hello))
      << "the hello of TLS, the end of its handshake, and our hello";
  const Stranger replays(serving.port);
  replays.say(said);
  const std::string text = serving.refusal();
  EXPECT_TRUE(has(text, "a client was refused: ") && has(text, "decryption failed")) << text;
  expect_meeting(serving, at(serving, "psk=" + key_file()));
}

// ---- Certificates

// Made by the command `openssl`, in a folder of its own.
class Certificates {
 public:
  static const Certificates& all() {
    static const Certificates made;
    return made;
  }
  // "certificate=...&private_key=...&authority=...": of `who`, who trusts what `authority` has signed.
  [[nodiscard]] std::string of(const std::string& who, const std::string& authority = "ca") const {
    return "certificate=" + path(who + ".pem") + "&private_key=" + path(who + ".key") +
           "&authority=" + path(authority + ".pem");
  }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] bool are_there() const { return are_there_; }

 private:
  Certificates() {
    std::string name = "/tmp/lwmq-test-certificates-" + std::string(6, 'X');  // as mkdtemp wants it
    folder_ = mkdtemp(name.data());
    are_there_ = make_authority("ca") && make_authority("other-ca") && sign("server", "ca", 30) &&
                 sign("client", "ca", 30) && sign("expired", "ca", -1) && sign("foreign", "other-ca", 30);
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }

  [[nodiscard]] bool openssl(const std::string& arguments) const {
    const std::string call = "cd " + folder_ + " && openssl " + arguments + " >/dev/null 2>&1 </dev/null";
    return system(call.c_str()) == 0;  // NOLINT: the arguments are this file's
  }
  [[nodiscard]] bool make_authority(const std::string& name) const {
    return openssl("req -x509 -newkey ed25519 -nodes -keyout " + name + ".key -out " + name +
                   ".pem -subj /CN=" + name + " -days 30");
  }
  [[nodiscard]] bool sign(const std::string& name, const std::string& authority, int days) const {
    std::ofstream(path("names")) << "subjectAltName=DNS:localhost,IP:127.0.0.1,DNS:1\n";
    return openssl("req -newkey ed25519 -nodes -keyout " + name + ".key -out " + name +
                   ".csr -subj /CN=" + name) &&
           openssl("x509 -req -in " + name + ".csr -CA " + authority + ".pem -CAkey " + authority +
                   ".key -CAcreateserial -extfile names -days " + std::to_string(days) + " -out " + name +
                   ".pem");
  }

  std::string folder_;
  bool are_there_ = false;
};

class TcpsCertificates : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!made_.are_there()) GTEST_SKIP() << "certificates are made by the command openssl, which is not here";
  }
  const Certificates& made_ = Certificates::all();
};

TEST_F(TcpsCertificates, ProveBothEndsToEachOther) {
  const Serving serving(made_.of("server"));
  expect_meeting(serving, at(serving, made_.of("client")));
  expect_meeting(serving, at(serving, made_.of("client"), over_vsock() ? "1" : "localhost"));
}

TEST_F(TcpsCertificates, MustNameTheHostThatWasAskedFor) {
  if (over_vsock()) GTEST_SKIP() << "vsock has one loopback address";
  const auto options = options_of(2, 512);
  const std::string port = free_port();
  const std::string address = "tcps://127.0.0.2:" + port + "?";
  lwmq_tli_listener* listener = nullptr;
  ASSERT_EQ(tcps().listen((address + made_.of("server")).c_str(), &options, &listener), LWMQ_OK)
      << last_error();
  lwmq_tli_transport* client = nullptr;
  Status status = LWMQ_OK;
  std::string text;
  std::atomic<bool> is_over{false};
  std::thread connecting([&] {
    status = tcps().connect((address + made_.of("client")).c_str(), &options, 60'000, &client);
    text = last_error();
    is_over = true;
  });
  EXPECT_TRUE(eventually([&] {
    lwmq_tli_transport* nobody = nullptr;
    EXPECT_NE(tcps().accept(listener, &nobody), LWMQ_OK);
    return is_over.load();
  }));
  connecting.join();
  EXPECT_EQ(status, LWMQ_E_DENIED);
  EXPECT_TRUE(has(text, "the other end's certificate: IP address mismatch")) << text;
  tcps().listener_close(listener);
}

TEST_F(TcpsCertificates, OfAnotherAuthorityAreRefusedAtBothEnds) {
  const Serving serving(made_.of("server"));
  const Refused client = refused(serving, at(serving, made_.of("foreign")));
  EXPECT_EQ(client.status, LWMQ_E_DENIED);
  EXPECT_TRUE(has(client.client, "the other end refused the TLS handshake: tlsv1 alert unknown ca"))
      << client.client;
  EXPECT_TRUE(has(client.listener, "the other end's certificate: unable to get local issuer"))
      << client.listener;
  const Refused server = refused(serving, at(serving, made_.of("client", "other-ca")));
  EXPECT_EQ(server.status, LWMQ_E_DENIED);
  EXPECT_TRUE(has(server.client, "the other end's certificate: self-signed certificate in certificate chain"))
      << server.client;
  EXPECT_TRUE(has(server.listener, "tlsv1 alert unknown ca")) << server.listener;
}

TEST_F(TcpsCertificates, ThatHaveExpiredAreRefusedAtBothEnds) {
  const Serving serving(made_.of("server"));
  const Refused client = refused(serving, at(serving, made_.of("expired")));
  EXPECT_EQ(client.status, LWMQ_E_DENIED);
  EXPECT_TRUE(has(client.client, "alert certificate expired")) << client.client;
  EXPECT_TRUE(has(client.listener, "certificate has expired")) << client.listener;
  const Serving late(made_.of("expired"));
  const Refused server = refused(late, at(late, made_.of("client")));
  EXPECT_TRUE(has(server.client, "certificate has expired")) << server.client;
  EXPECT_TRUE(has(server.listener, "alert certificate expired")) << server.listener;
}

TEST_F(TcpsCertificates, AndKeysDoNotMix) {
  const Serving keyed("psk=" + key_file());
  const Refused certified = refused(keyed, at(keyed, made_.of("client")));
  EXPECT_EQ(certified.status, LWMQ_E_DENIED);
  EXPECT_TRUE(has(certified.client, "perhaps it wants a key (psk)")) << certified.client;
  EXPECT_NE(certified.listener, "");
  const Serving serving(made_.of("server"));
  const Refused offers = refused(serving, at(serving, "psk=" + key_file()));
  EXPECT_EQ(offers.status, LWMQ_E_DENIED) << "a certificate is no stand-in for the key";
  EXPECT_NE(offers.client, "");
  EXPECT_NE(offers.listener, "");
}

TEST_F(TcpsCertificates, AreWantedOfEachClientInTls13) {
  if (over_vsock()) GTEST_SKIP() << "the command openssl knows no vsock";
  const Serving serving(made_.of("server"));
  const auto call = [&](const std::string& how) {
    const std::string command =
        "openssl s_client -connect 127.0.0.1:" + serving.port + " " + how + " >/dev/null 2>&1 </dev/null";
    std::thread calling(
        [&] { [[maybe_unused]] const int done = system(command.c_str()); });  // NOLINT: as above
    std::string text = serving.refusal();
    calling.join();
    return text;
  };
  EXPECT_TRUE(has(call("-tls1_3"), "peer did not return a certificate"));
  EXPECT_TRUE(has(call("-tls1_2"), "unsupported protocol"));
}

TEST_F(TcpsCertificates, InFilesThatDoNotFitAreRefusedByName) {
  const std::string address = secure_host() + free_port() + "?";
  const auto replaced = [&](const std::string& what, const std::string& by) {
    std::string all = made_.of("server");
    all.replace(all.find(what), what.size(), by);
    return refusal_to_listen(address + all);
  };
  EXPECT_TRUE(has(replaced("server.key", "client.key"), "client.key: not the key of the certificate") ||
              has(last_error(), "client.key: no private key"))
      << last_error();
  EXPECT_TRUE(has(replaced("server.pem", "server.key"), "server.key: no certificate in PEM")) << last_error();
  EXPECT_TRUE(has(replaced("ca.pem", "no.pem"), "no.pem: no certificates in PEM")) << last_error();
  EXPECT_TRUE(has(replaced("server.key", "server.pem"), "group or others have access")) << last_error();
  ASSERT_EQ(chmod(made_.path("client.pem").c_str(), 0600), 0);
  EXPECT_TRUE(has(replaced("server.key", "client.pem"), "client.pem: no private key in PEM")) << last_error();
}

}  // namespace
}  // namespace lwmq::testing
