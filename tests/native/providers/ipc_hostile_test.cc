// links: base os stats tli providers
// Peers that lie: each is refused or ends its conversation, in words, and nobody else is disturbed.
#include <fcntl.h>
#include <sys/mman.h>

#include <functional>

#include "ipc_fixture.h"
#include "os/unix_socket.h"
#include "providers/ipc/address.h"
#include "providers/ipc/handshake.h"
#include "providers/ipc/process.h"
#include "tli/record_lane.h"

namespace lwmq::testing {
namespace {

// A client of our own making. What it sends, and what its side holds, the test decides.
class RawClient {
 public:
  explicit RawClient(const std::string& address) {
    ipc();
    EXPECT_EQ(ipc::parse(address.c_str(), &address_), LWMQ_OK);
    EXPECT_EQ(ipc::wait_until_held(), LWMQ_OK);
    EXPECT_EQ(os::connect_unix(address_.socket, &socket_), LWMQ_OK) << last_error();
    EXPECT_EQ(ipc::make_offer(options(), &offer_), LWMQ_OK);
    hello_.head = {ipc::kMagic, kProtocolVersion, ipc::kHello};
    hello_.purpose = LWMQ_TLI_FOR_RAW;
    hello_.buffer_bytes = options().buffer_bytes;
    hello_.buffers = options().buffers_send;
    hello_.side_bytes = offer_.side.memory.bytes();
    hello_.pid = os::identity().pid;
    hello_.death_word = offer_.death_word;
    hello_.name_bytes = static_cast<std::uint32_t>(address_.name.size());
    std::memcpy(hello_.instance, os::identity().instance, sizeof hello_.instance);
    std::memcpy(hello_.name, address_.name.data(), address_.name.size());
  }

  ipc::Hello& hello() { return hello_; }
  std::uint8_t* side() { return offer_.side.memory.data(); }

  void send(const void* data, std::size_t bytes, int side_fd = -1) {
    const int fds[] = {ipc::own_page_fd(), side_fd >= 0 ? side_fd : offer_.side.fd.get()};
    EXPECT_EQ(os::send_message(socket_.get(), data, bytes, fds, 2), LWMQ_OK) << last_error();
  }
  void say_hello(int side_fd = -1) { send(&hello_, sizeof hello_, side_fd); }

  void show_window(const ipc::WindowNotice& notice, int fd) {
    const int fds[] = {fd, ipc::own_page_fd()};
    EXPECT_EQ(os::send_message(socket_.get(), &notice, sizeof notice, fds, 2), LWMQ_OK) << last_error();
  }

  // The listener's answer: its refusal as "STATUS text", "hello", or "closed".
  std::string answer(lwmq_tli_listener* listener) {
    lwmq_tli_transport* transport = nullptr;
    if (ipc().accept(listener, &transport) == LWMQ_OK) accepted_ = transport;
    ipc::AnyMessage message{};
    os::Received received;
    if (os::receive_message(socket_.get(), &message, sizeof message, &received) != LWMQ_OK) return "closed";
    if (message.head.kind == ipc::kHello) return "hello";
    return std::string(status_name(message.refusal.status)) + " " + message.refusal.text;
  }

  lwmq_tli_transport* accepted() { return accepted_; }

 private:
  ipc::Address address_;
  os::UniqueFd socket_;
  ipc::Offer offer_;
  ipc::Hello hello_{};
  lwmq_tli_transport* accepted_ = nullptr;
};

// A listener that lies are told to; afterwards an honest client must still be served.
class IpcHostile : public ::testing::Test {
 protected:
  void SetUp() override {
    address_ = fresh_address();
    listener_ = listen(address_);
  }
  void TearDown() override {
    lwmq_tli_transport* client = connect(address_);
    lwmq_tli_transport* server = accept(listener_);
    ASSERT_NE(server, nullptr);
    ASSERT_EQ(send(client, "honest"), LWMQ_OK);
    std::string got;
    EXPECT_EQ(receive(server, &got), LWMQ_OK);
    ipc().close(client);
    ipc().close(server);
    ipc().listener_close(listener_);
  }

  void expect_refusal(const std::string& beginning, const std::function<void(RawClient&)>& lie) {
    RawClient client(address_);
    lie(client);
    const std::string answer = client.answer(listener_);
    EXPECT_EQ(answer.substr(0, answer.find(' ')), beginning) << answer;
    last_answer_ = answer;
  }

  std::string address_;
  lwmq_tli_listener* listener_ = nullptr;
  std::string last_answer_;
};

TEST_F(IpcHostile, ClientOfAnotherVersionIsToldBothVersions) {
  expect_refusal("LWMQ_E_VERSION", [](RawClient& client) {
    client.hello().head.version = 99;
    client.say_hello();
  });
  EXPECT_NE(last_answer_.find("speaks version 99 of the protocol, the listener 1"), std::string::npos)
      << last_answer_;
}

TEST_F(IpcHostile, ClientOfAnotherVersionMayHaveAnotherHello) {
  expect_refusal("LWMQ_E_VERSION", [](RawClient& client) {
    client.hello().head.version = 2;
    client.send(&client.hello(), 100);
  });
}

TEST_F(IpcHostile, UnsealedSegmentIsRefused) {
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& client) {
    const os::UniqueFd fd(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(client.hello().side_bytes)), 0);
    ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
    client.say_hello(fd.get());
  });
  EXPECT_NE(last_answer_.find("seals 0x4, needed are"), std::string::npos) << last_answer_;
}

TEST_F(IpcHostile, SegmentOfAnotherSizeIsRefused) {
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& client) {
    os::Segment other;
    ASSERT_EQ(os::create_segment("small", 4096, &other), LWMQ_OK);
    client.say_hello(other.fd.get());
  });
}

TEST_F(IpcHostile, NumbersThatCannotBeAreRefused) {
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& c) { c.hello().buffers = 0, c.say_hello(); });
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& c) { c.hello().buffers = 0xffffffff, c.say_hello(); });
  expect_refusal("LWMQ_E_CORRUPT",
                 [](RawClient& c) { c.hello().buffer_bytes = ~std::uint64_t{0}, c.say_hello(); });
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& c) { c.hello().side_bytes += 4096, c.say_hello(); });
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& c) { c.hello().death_word = 1000, c.say_hello(); });
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& c) { c.hello().name_bytes = 10'000, c.say_hello(); });
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& c) { c.hello().instance[0] ^= 1, c.say_hello(); });
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& c) { c.hello().head.magic = 0, c.say_hello(); });
  expect_refusal("LWMQ_E_CORRUPT", [](RawClient& c) { c.send("x", 1); });
  expect_refusal("LWMQ_E_ADDRESS", [](RawClient& c) { c.hello().name[0] ^= 1, c.say_hello(); });
}

TEST_F(IpcHostile, SilentClientHoldsUpNobody) {
  RawClient silent(address_);
  lwmq_tli_transport* none = nullptr;
  EXPECT_EQ(ipc().accept(listener_, &none), LWMQ_E_EMPTY);
  // TearDown connects an honest one while this one is still silent.
  lwmq_tli_transport* client = connect(address_);
  lwmq_tli_transport* server = accept(listener_);
  EXPECT_NE(server, nullptr);
  ipc().close(client);
  ipc().close(server);
}

TEST_F(IpcHostile, HundredsOfSilentClientsHoldUpNobody) {
  std::vector<os::UniqueFd> crowd(200);
  ipc::Address parsed;
  ASSERT_EQ(ipc::parse(address_.c_str(), &parsed), LWMQ_OK);
  for (auto& socket : crowd) {
    ASSERT_EQ(os::connect_unix(parsed.socket, &socket), LWMQ_OK);
    lwmq_tli_transport* none = nullptr;
    EXPECT_EQ(ipc().accept(listener_, &none), LWMQ_E_EMPTY);
  }
  lwmq_tli_transport* client = connect(address_);
  lwmq_tli_transport* server = accept(listener_);
  EXPECT_NE(server, nullptr);
  ipc().close(client);
  ipc().close(server);
}

// A peer that is through the handshake and then writes what it likes into its side.
void expect_broken(RawClient& client, lwmq_tli_listener* listener,
                   const std::function<void(std::uint8_t*)>& lie) {
  client.say_hello();
  ASSERT_EQ(client.answer(listener), "hello");
  lie(client.side());
  lwmq_tli_extent extent{};
  EXPECT_EQ(ipc().land(client.accepted(), &extent), LWMQ_E_CORRUPT);
  EXPECT_EQ(ipc().state(client.accepted()), LWMQ_TLI_LOST);
  EXPECT_EQ(ipc().land(client.accepted(), &extent), LWMQ_E_PEER_LOST);
  EXPECT_NE(std::string(last_error()).find("broke the protocol"), std::string::npos) << last_error();
  ipc().close(client.accepted());
}

void put(std::uint8_t* at, std::uint64_t value) { std::memcpy(at, &value, sizeof value); }

TEST_F(IpcHostile, BufferThatDoesNotExistEndsTheConversation) {
  RawClient client(address_);
  expect_broken(client, listener_, [](std::uint8_t* side) {
    put(side + tli::SideLayout::kOrderOffset, std::uint64_t{1} << 32 | 1 << 16 | 999);
  });
}

TEST_F(IpcHostile, ExtentPastTheEndOfItsBufferEndsTheConversation) {
  RawClient client(address_);
  expect_broken(client, listener_, [](std::uint8_t* side) {
    const tli::SideLayout layout = tli::SideLayout::of(options().buffers_send, options().buffer_bytes);
    put(side + layout.data_offset + 56,
        std::uint64_t{1} << 48 | std::uint64_t{1} << 40 | (layout.stride - 63));
    put(side + tli::SideLayout::kOrderOffset, std::uint64_t{1} << 32 | 1 << 16 | 1);
  });
}

TEST_F(IpcHostile, ControlMessageOfNonsenseEndsTheConversation) {
  RawClient client(address_);
  client.say_hello();
  ASSERT_EQ(client.answer(listener_), "hello");
  client.say_hello();  // a second one
  lwmq_tli_window* window = nullptr;
  const std::uint8_t id[16] = {};
  EXPECT_EQ(ipc().window_find(client.accepted(), id, 5000, &window), LWMQ_E_PEER_LOST);
  EXPECT_EQ(ipc().state(client.accepted()), LWMQ_TLI_LOST);
  ipc().close(client.accepted());
}

TEST_F(IpcHostile, UnsealedWindowEndsTheConversation) {
  RawClient client(address_);
  client.say_hello();
  ASSERT_EQ(client.answer(listener_), "hello");
  const os::UniqueFd fd(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  ipc::WindowNotice notice{};
  notice.head = {ipc::kMagic, kProtocolVersion, ipc::kWindowNotice};
  notice.bytes = 4096;
  std::memcpy(notice.owner, os::identity().instance, sizeof notice.owner);
  client.show_window(notice, fd.get());
  lwmq_tli_window* window = nullptr;
  EXPECT_EQ(ipc().window_find(client.accepted(), notice.id, 5000, &window), LWMQ_E_PEER_LOST);
  ipc().close(client.accepted());
}

}  // namespace
}  // namespace lwmq::testing
