// links: base os stats tli address filters lane modules store providers
// Peers that lie: each is refused or ends its conversation, in words, and nobody else is disturbed.
#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>

#include "ipc_fixture.h"
#include "lane/record_lane.h"
#include "os/unix_socket.h"
#include "providers/ipc/address.h"
#include "providers/ipc/handshake.h"
#include "providers/ipc/process.h"
#include "seed.h"
#include "skewed_clock.h"
#include "tli/registry.h"

namespace lwmq::testing {
namespace {

// Of a window of this process.
ipc::WindowNotice notice_of(std::uint64_t bytes) {
  ipc::WindowNotice notice{};
  notice.head = {ipc::kMagic, kProtocolVersion, ipc::kWindowNotice};
  notice.bytes = bytes;
  std::memcpy(notice.owner, os::identity().instance, sizeof notice.owner);
  return notice;
}

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
  void say_hello_with(const std::vector<int>& fds) {
    EXPECT_EQ(os::send_message(socket_.get(), &hello_, sizeof hello_, fds.data(), fds.size()), LWMQ_OK);
  }
  int socket() const { return socket_.get(); }
  // The doorbell that the listener has sent since.
  os::UniqueFd doorbell() {
    ipc::AnyMessage message{};
    os::Received received;
    EXPECT_EQ(os::receive_message(socket_.get(), &message, sizeof message, &received), LWMQ_OK);
    EXPECT_EQ(message.head.kind, ipc::kDoorbell);
    EXPECT_EQ(received.fd_count, 1u);
    return std::move(received.fds[0]);
  }
  void send_doorbell(int fd) {
    const ipc::Doorbell doorbell{{ipc::kMagic, kProtocolVersion, ipc::kDoorbell}};
    EXPECT_EQ(os::send_message(socket_.get(), &doorbell, sizeof doorbell, &fd, 1), LWMQ_OK) << last_error();
  }

  void show_window(const ipc::WindowNotice& notice, int fd) {
    const int fds[] = {fd, ipc::own_page_fd()};
    EXPECT_EQ(os::send_message(socket_.get(), &notice, sizeof notice, fds, 2), LWMQ_OK) << last_error();
  }

  // The listener's answer: its refusal as "STATUS text", "hello", or "closed".
  std::string answer(lwmq_tli_listener* listener) {
    lwmq_tli_transport* transport = nullptr;
    EXPECT_NE(ipc().listener->accept(listener, &transport), LWMQ_OK);
    ipc::AnyMessage message{};
    os::Received received;
    if (os::receive_message(socket_.get(), &message, sizeof message, &received) != LWMQ_OK) return "closed";
    if (message.head.kind == ipc::kHello) {
      if (meets_) {
        EXPECT_EQ(ipc::send_met(socket_.get()), LWMQ_OK) << last_error();
      }
      if (ipc().listener->accept(listener, &transport) == LWMQ_OK) accepted_ = transport;
      return "hello";
    }
    return std::string(status_name(message.refusal.status)) + " " + message.refusal.text;
  }

  lwmq_tli_transport* accepted() { return accepted_; }
  // It leaves it at the listener's answer.
  void stay_silent() { meets_ = false; }

 private:
  ipc::Address address_;
  os::UniqueFd socket_;
  ipc::Offer offer_;
  ipc::Hello hello_{};
  lwmq_tli_transport* accepted_ = nullptr;
  bool meets_ = true;
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
    ipc().transport->close(client, 0, 0);
    ipc().transport->close(server, 0, 0);
    ipc().listener->close(listener_);
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
  const std::string both =
      "speaks version 99 of the protocol, the listener " + std::to_string(kProtocolVersion);
  EXPECT_NE(last_answer_.find(both), std::string::npos) << last_answer_;
}

TEST_F(IpcHostile, ClientOfAnotherVersionMayHaveAnotherHello) {
  expect_refusal("LWMQ_E_VERSION", [](RawClient& client) {
    client.hello().head.version = kProtocolVersion + 1;
    client.send(&client.hello(), 100);
  });
}

TEST_F(IpcHostile, ClientThatLeavesAtTheAnswerIsNobody) {
  lwmq_tli_transport* nobody = nullptr;
  {
    RawClient client(address_);
    client.stay_silent();
    client.say_hello();
    ASSERT_EQ(client.answer(listener_), "hello");
    EXPECT_EQ(client.accepted(), nullptr) << "it has not met us yet";
    EXPECT_EQ(ipc().listener->accept(listener_, &nobody), LWMQ_E_EMPTY);
  }
  EXPECT_EQ(ipc().listener->accept(listener_, &nobody), LWMQ_E_EMPTY);
}

TEST_F(IpcHostile, ClientThatHasGivenUpBeforeTheAnswerIsNotRefused) {
  for (int i = 0; i < 3; ++i) {
    RawClient client(address_);
    client.say_hello();
  }
  lwmq_tli_transport* nobody = nullptr;
  EXPECT_EQ(ipc().listener->accept(listener_, &nobody), LWMQ_E_EMPTY) << last_error();
}

TEST_F(IpcHostile, ClientsThatHaveTheirAnswerDoNotGiveWayToACrowd) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::uint32_t i = 0; i < 2 * ipc::kPendingHandshakesMax; ++i) {
    clients.push_back(std::make_unique<RawClient>(address_));
    clients.back()->stay_silent();
    clients.back()->say_hello();
  }
  std::size_t accepted = 0;
  lwmq_tli_transport* transport = nullptr;
  ASSERT_EQ(ipc().listener->accept(listener_, &transport), LWMQ_E_EMPTY);  // and half of them are answered
  for (auto& client : clients) ASSERT_EQ(ipc::send_met(client->socket()), LWMQ_OK);
  while (ipc().listener->accept(listener_, &transport) == LWMQ_OK) {
    ++accepted;
    EXPECT_EQ(ipc().transport->state(transport, nullptr), LWMQ_TLI_CONNECTED);
    ipc().transport->close(transport, 0, 0);
  }
  EXPECT_EQ(accepted, clients.size());
}

TEST_F(IpcHostile, ClientThatSaysSomethingElseAtTheEndOfTheHandshakeIsDropped) {
  for (const std::uint32_t kind : {0u, static_cast<std::uint32_t>(ipc::kHello), 99u}) {
    RawClient client(address_);
    client.stay_silent();
    client.say_hello();
    ASSERT_EQ(client.answer(listener_), "hello");
    const ipc::Met met{{ipc::kMagic, kProtocolVersion, kind}};
    ASSERT_EQ(os::send_message(client.socket(), &met, sizeof met, nullptr, 0), LWMQ_OK);
    lwmq_tli_transport* nobody = nullptr;
    EXPECT_EQ(ipc().listener->accept(listener_, &nobody), LWMQ_E_CORRUPT);
    EXPECT_NE(std::string(last_error()).find("ends no handshake"), std::string::npos) << last_error();
  }
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
  EXPECT_EQ(ipc().listener->accept(listener_, &none), LWMQ_E_EMPTY);
  // TearDown connects an honest one while this one is still silent.
  lwmq_tli_transport* client = connect(address_);
  lwmq_tli_transport* server = accept(listener_);
  EXPECT_NE(server, nullptr);
  ipc().transport->close(client, 0, 0);
  ipc().transport->close(server, 0, 0);
}

TEST_F(IpcHostile, HundredsOfSilentClientsHoldUpNobody) {
  std::vector<os::UniqueFd> crowd(200);
  ipc::Address parsed;
  ASSERT_EQ(ipc::parse(address_.c_str(), &parsed), LWMQ_OK);
  for (auto& socket : crowd) {
    ASSERT_EQ(os::connect_unix(parsed.socket, &socket), LWMQ_OK);
    lwmq_tli_transport* none = nullptr;
    EXPECT_EQ(ipc().listener->accept(listener_, &none), LWMQ_E_EMPTY);
  }
  lwmq_tli_transport* client = connect(address_);
  lwmq_tli_transport* server = accept(listener_);
  EXPECT_NE(server, nullptr);
  ipc().transport->close(client, 0, 0);
  ipc().transport->close(server, 0, 0);
}

// A peer that is through the handshake and then writes what it likes into its side.
void expect_broken(RawClient& client, lwmq_tli_listener* listener,
                   const std::function<void(std::uint8_t*)>& lie) {
  client.say_hello();
  ASSERT_EQ(client.answer(listener), "hello");
  lie(client.side());
  lwmq_tli_extent extent{};
  EXPECT_EQ(ipc().transport->land(client.accepted(), &extent), LWMQ_E_CORRUPT);
  EXPECT_EQ(ipc().transport->state(client.accepted(), nullptr), LWMQ_TLI_LOST);
  EXPECT_EQ(ipc().transport->land(client.accepted(), &extent), LWMQ_E_CORRUPT);
  EXPECT_NE(std::string(last_error()).find("broke the protocol"), std::string::npos) << last_error();
  ipc().transport->close(client.accepted(), 0, 0);
}

void put(std::uint8_t* at, std::uint64_t value) { std::memcpy(at, &value, sizeof value); }

TEST_F(IpcHostile, BufferThatDoesNotExistEndsTheConversation) {
  RawClient client(address_);
  expect_broken(client, listener_, [](std::uint8_t* side) {
    put(side + lane::SideLayout::kOrderOffset, std::uint64_t{1} << 32 | 1 << 16 | 999);
  });
}

TEST_F(IpcHostile, ExtentPastTheEndOfItsBufferEndsTheConversation) {
  RawClient client(address_);
  expect_broken(client, listener_, [](std::uint8_t* side) {
    const lane::SideLayout layout = lane::SideLayout::of(options().buffers_send, options().buffer_bytes);
    put(side + layout.data_offset + 56,
        std::uint64_t{1} << 48 | std::uint64_t{1} << 40 | (layout.stride - 63));
    put(side + lane::SideLayout::kOrderOffset, std::uint64_t{1} << 32 | 1 << 16 | 1);
  });
}

TEST_F(IpcHostile, ControlMessageOfNonsenseEndsTheConversation) {
  RawClient client(address_);
  client.say_hello();
  ASSERT_EQ(client.answer(listener_), "hello");
  client.say_hello();  // a second one
  lwmq_tli_window* window = nullptr;
  const std::uint8_t id[16] = {};
  EXPECT_EQ(ipc().memory->find(client.accepted(), id, 60000, &window), LWMQ_E_PEER_LOST);
  EXPECT_EQ(ipc().transport->state(client.accepted(), nullptr), LWMQ_TLI_LOST);
  ipc().transport->close(client.accepted(), 0, 0);
}

TEST_F(IpcHostile, UnsealedWindowEndsTheConversation) {
  RawClient client(address_);
  client.say_hello();
  ASSERT_EQ(client.answer(listener_), "hello");
  const os::UniqueFd fd(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  ipc::WindowNotice notice = notice_of(4096);
  client.show_window(notice, fd.get());
  lwmq_tli_window* window = nullptr;
  EXPECT_EQ(ipc().memory->find(client.accepted(), notice.id, 60000, &window), LWMQ_E_PEER_LOST);
  ipc().transport->close(client.accepted(), 0, 0);
}

// ---- Every field, every descriptor -----------------------------------------------------------------------

// What became of a hello: it is refused in words, or the transport that follows from it is closed.
void expect_an_answer(RawClient& client, lwmq_tli_listener* listener, const std::string& what) {
  const std::string answer = client.answer(listener);
  EXPECT_TRUE(answer == "hello" || (answer.starts_with("LWMQ_E_") && answer.size() > 20))
      << what << ": " << answer;
  if (client.accepted() != nullptr) {
    lwmq_tli_extent extent{};
    EXPECT_NE(ipc().transport->land(client.accepted(), &extent), LWMQ_OK) << what;
    ipc().transport->close(client.accepted(), 0, 0);
  }
}

TEST_F(IpcHostile, EveryWordOfAHelloMayBeAnything) {
  for (std::size_t at = 0; at < offsetof(ipc::Hello, name); at += 4) {
    for (const std::uint32_t value : {0U, 1U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
      RawClient client(address_);
      std::memcpy(reinterpret_cast<std::uint8_t*>(&client.hello()) + at, &value, sizeof value);
      client.say_hello();
      expect_an_answer(client, listener_, "word at " + std::to_string(at) + " is " + std::to_string(value));
    }
  }
}

TEST_F(IpcHostile, RandomHellosAreAnswered) {
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    RawClient client(address_);
    auto* bytes = reinterpret_cast<std::uint8_t*>(&client.hello());
    for (unsigned i = random() % 4; i < 5; ++i) {
      bytes[random() % sizeof(ipc::Hello)] = static_cast<std::uint8_t>(random());
    }
    client.send(&client.hello(), random() % 4 == 0 ? 1 + random() % sizeof(ipc::Hello) : sizeof(ipc::Hello));
    expect_an_answer(client, listener_, "round " + std::to_string(round));
  }
}

TEST_F(IpcHostile, DescriptorsOfEveryWrongKindAndNumberAreRefused) {
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  const os::UniqueFd in(pipe_ends[0]);
  const os::UniqueFd out(pipe_ends[1]);
  const os::UniqueFd event(eventfd(0, EFD_CLOEXEC));  // one whose reads and writes wait
  const os::UniqueFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const os::UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const os::UniqueFd folder(open("/", O_PATH | O_CLOEXEC));
  os::Segment page;  // sealed and of the right size, but no process page
  ASSERT_EQ(os::create_segment("page", ipc::kProcessPageBytes, &page), LWMQ_OK);
  const int own = ipc::own_page_fd();
  ipc::Offer side_offer;
  ASSERT_EQ(ipc::make_offer(options(), &side_offer), LWMQ_OK);
  const os::Segment& side = side_offer.side;
  for (const int wrong : {in.get(), out.get(), event.get(), null.get(), folder.get(), page.fd.get()}) {
    expect_refusal("LWMQ_E_CORRUPT", [&](RawClient& c) { c.say_hello_with({own, wrong}); });
    expect_refusal("LWMQ_E_CORRUPT", [&](RawClient& c) { c.say_hello_with({wrong, side.fd.get()}); });
  }
  for (const int wrong : {in.get(), out.get(), event.get(), null.get(), folder.get(), page.fd.get()}) {
    RawClient client(address_);
    client.say_hello();
    ASSERT_EQ(client.answer(listener_), "hello");
    client.send_doorbell(wrong);
    ipc().transport->arm(client.accepted(), LWMQ_TLI_WAIT_EXTENT);
    lwmq_tli_extent extent{};
    EXPECT_EQ(ipc().transport->land(client.accepted(), &extent), LWMQ_E_CORRUPT);
    EXPECT_NE(std::string(last_error()).find(address_ + ": the peer's doorbell is no eventfd"),
              std::string::npos)
        << last_error();
    ipc().transport->close(client.accepted(), 0, 0);
  }
  for (const std::vector<int>& number : {std::vector<int>{}, {own}, {own, own, own}, {own, own, own, own}}) {
    expect_refusal("LWMQ_E_CORRUPT", [&](RawClient& c) { c.say_hello_with(number); });
    EXPECT_NE(last_answer_.find(std::to_string(number.size()) + " descriptors"), std::string::npos)
        << last_answer_;
  }
}

TEST_F(IpcHostile, ASealedSegmentCannotBeShrunkUnderItsReader) {
  RawClient client(address_);
  client.say_hello();
  ASSERT_EQ(client.answer(listener_), "hello");
  os::Segment window;
  ASSERT_EQ(os::create_segment("window", 8192, &window), LWMQ_OK);
  ipc::WindowNotice notice = notice_of(8192);
  notice.id[0] = 1;
  client.show_window(notice, window.fd.get());
  lwmq_tli_window* found = nullptr;
  ASSERT_EQ(ipc().memory->find(client.accepted(), notice.id, 60000, &found), LWMQ_OK) << last_error();
  EXPECT_NE(ftruncate(window.fd.get(), 0), 0);
  EXPECT_NE(fallocate(window.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  lwmq_tli_window_info info{};
  ipc().memory->info(found, &info);
  EXPECT_EQ(info.base[8191], 0);
  ipc().memory->release(found);
  ipc().transport->close(client.accepted(), 0, 0);
}

TEST_F(IpcHostile, EveryWordOfAWindowNoticeMayBeAnything) {
  os::Segment window;
  ASSERT_EQ(os::create_segment("window", 8192, &window), LWMQ_OK);
  for (std::size_t at = 0; at < sizeof(ipc::WindowNotice); at += 4) {
    for (const std::uint32_t value : {0U, 1U, 0x7fffffffU, 0xffffffffU}) {
      SCOPED_TRACE(::testing::Message() << "word at " << at << " is " << value);
      RawClient client(address_);
      client.say_hello();
      ASSERT_EQ(client.answer(listener_), "hello");
      ipc::WindowNotice notice = notice_of(8192);
      std::memcpy(reinterpret_cast<std::uint8_t*>(&notice) + at, &value, sizeof value);
      client.show_window(notice, window.fd.get());
      lwmq_tli_window* found = nullptr;
      const Status status = ipc().memory->find(client.accepted(), notice.id, 60000, &found);
      EXPECT_TRUE(status == LWMQ_OK || status == LWMQ_E_PEER_LOST) << status_name(status);
      if (status == LWMQ_OK) ipc().memory->release(found);
      ipc().transport->close(client.accepted(), 0, 0);
    }
  }
}

// One notice again and again takes no place: of those there may be no end, so a look takes some.
TEST_F(IpcHostile, AWindowShownForEverHoldsUpNobody) {
  os::Segment window;
  ASSERT_EQ(os::create_segment("window", 8192, &window), LWMQ_OK);
  RawClient client(address_);
  client.say_hello();
  ASSERT_EQ(client.answer(listener_), "hello");
  ASSERT_GE(ipc().transport->descriptor(client.accepted()), 0)
      << last_error();  // who makes a doorbell looks, too
  ipc::WindowNotice notice = notice_of(8192);
  for (int i = 0; i < 100; ++i) client.show_window(notice, window.fd.get());
  const auto look = [&client] {
    ipc().transport->arm(client.accepted(), LWMQ_TLI_WAIT_EXTENT);
    ipc().transport->arm(client.accepted(), 0);
    int left = 0;
    EXPECT_EQ(ioctl(client.socket(), SIOCOUTQ, &left), 0);
    return left;
  };
  EXPECT_GT(look(), 0);
  EXPECT_EQ(look(), 0);
  ipc().transport->close(client.accepted(), 0, 0);
}

// Those who connect and leave take no place either: what one look leaves is looked at by the next, and that
// one is asked for.
TEST_F(IpcHostile, ACrowdThatLeavesAtOnceIsMetInParts) {
  const os::UniqueFd edges(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  ASSERT_EQ(epoll_ctl(edges.get(), EPOLL_CTL_ADD, ipc().listener->descriptor(listener_), &event), 0);
  const auto is_called = [&] { return epoll_wait(edges.get(), &event, 1, 0) == 1; };
  for (const bool accepts : {true, false}) {
    const auto look = [&] {
      lwmq_tli_transport* transport = nullptr;
      if (accepts) {
        EXPECT_EQ(ipc().listener->accept(listener_, &transport), LWMQ_E_EMPTY);
      } else {
        ipc().listener->tend(listener_);
      }
    };
    for (int i = 0; i < 200; ++i) {
      RawClient client(address_);
      client.say_hello();
    }
    EXPECT_TRUE(is_called());
    look();
    EXPECT_TRUE(is_called()) << "72 are left";
    look();
    EXPECT_FALSE(is_called());
  }
}

// A hello that is not heard keeps descriptors on their way, of which a user has so many.
TEST_F(IpcHostile, AClientThatWaitsIsHeardWhenThoseWhoHaveGivenUpAreLetGo) {
  RawClient patient(address_);
  patient.say_hello();
  for (int i = 0; i < 300; ++i) {
    RawClient client(address_);
    client.say_hello();
    ipc().listener->tend(listener_);
  }
  EXPECT_EQ(patient.answer(listener_), "hello");
  ipc().transport->close(patient.accepted(), 0, 0);
}

// A host that watches for edges looks when it is called, and nothing calls it but time. False: not even that.
template <typename Condition>
bool look_until(lwmq_tli_listener* listener, Condition&& condition) {
  const os::UniqueFd edges(epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  EXPECT_EQ(epoll_ctl(edges.get(), EPOLL_CTL_ADD, ipc().listener->descriptor(listener), &event), 0);
  for (;;) {
    lwmq_tli_transport* nobody = nullptr;
    EXPECT_EQ(ipc().listener->accept(listener, &nobody), LWMQ_E_EMPTY);
    if (condition()) return true;
    if (epoll_wait(edges.get(), &event, 1, 60'000) != 1) return false;
  }
}

TEST_F(IpcHostile, ACrowdThatIsSilentAtItsAnswerGivesWayToWhoeverWaits) {
  std::vector<std::unique_ptr<RawClient>> crowd;
  for (std::uint32_t i = 0; i < ipc::kPendingHandshakesMax; ++i) {
    crowd.push_back(std::make_unique<RawClient>(address_));
    crowd.back()->say_hello();
  }
  lwmq_tli_transport* nobody = nullptr;
  ASSERT_EQ(ipc().listener->accept(listener_, &nobody), LWMQ_E_EMPTY);
  RawClient patient(address_);
  patient.say_hello();
  EXPECT_TRUE(look_until(listener_, [&] { return is_readable(patient.socket(), 0); }));
}

TEST_F(IpcHostile, ASilentClientIsDroppedWhenNobodyElseComes) {
  RawClient silent(address_);
  lwmq_tli_transport* nobody = nullptr;
  ASSERT_EQ(ipc().listener->accept(listener_, &nobody), LWMQ_E_EMPTY);
  clock_is_ahead_s += 4;  // of the 5 that it has
  EXPECT_TRUE(look_until(listener_, [&] { return os::is_hung_up(silent.socket()); }));
}

// The doorbell is one open file for both: whoever holds it can make its reads and writes wait.
TEST_F(IpcHostile, ADoorbellThatAPeerHasMadeBlockingHoldsUpNobody) {
  RawClient client(address_);
  client.say_hello();
  ASSERT_EQ(client.answer(listener_), "hello");
  ipc().transport->arm(client.accepted(), LWMQ_TLI_WAIT_EXTENT);
  const os::UniqueFd doorbell = client.doorbell();
  ASSERT_GE(doorbell.get(), 0);
  ASSERT_EQ(fcntl(doorbell.get(), F_SETFL, 0), 0);
  std::atomic<bool> done{false}, waited{false};
  std::thread guard([&] {  // lets a reader that waits go on, so that the test ends, and fails
    for (int i = 0; i < 600 && !done; ++i) usleep(100'000);
    waited = !done;
    if (waited) eventfd_write(doorbell.get(), 1);
  });
  ipc().transport->arm(client.accepted(), LWMQ_TLI_WAIT_EXTENT);
  ipc().transport->arm(client.accepted(), 0);
  done = true;
  guard.join();
  EXPECT_FALSE(waited);
  ipc().transport->close(client.accepted(), 0, 0);
}

TEST_F(IpcHostile, APeerHasOneDoorbell) {
  RawClient client(address_);
  client.say_hello();
  ASSERT_EQ(client.answer(listener_), "hello");
  const os::UniqueFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  client.send_doorbell(bell.get());
  ipc().transport->arm(client.accepted(), LWMQ_TLI_WAIT_EXTENT);
  EXPECT_EQ(ipc().transport->state(client.accepted(), nullptr), LWMQ_TLI_CONNECTED);
  client.send_doorbell(bell.get());
  ipc().transport->arm(client.accepted(), 0);  // what stands armed is not armed again
  ipc().transport->arm(client.accepted(), LWMQ_TLI_WAIT_EXTENT);
  lwmq_tli_extent extent{};
  EXPECT_EQ(ipc().transport->land(client.accepted(), &extent), LWMQ_E_CORRUPT);
  ipc().transport->close(client.accepted(), 0, 0);
}

// A peer that opens and ends buffers without anything in them, as fast as it can: a call that lands comes
// back.
TEST_F(IpcHostile, EmptyBuffersForEverKeepNobody) {
  RawClient client(address_);
  client.say_hello();
  ASSERT_EQ(client.answer(listener_), "hello");
  const auto layout = lane::SideLayout::of(options().buffers_send, options().buffer_bytes);
  std::uint8_t* side = client.side();
  for (std::uint64_t i = 0; i < options().buffers_send; ++i) {
    put(side + layout.data_offset + i * layout.stride + 56,
        std::uint64_t{1} << 48 | std::uint64_t{255} << 40);
  }
  // Every order entry is right for whatever number is next: written again and again.
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> next{0};
  std::thread peer([&] {
    while (!stop) {
      const std::uint64_t base = next.load();
      for (std::uint64_t n = base; n < base + layout.order_slots; ++n) {
        put(side + lane::SideLayout::kOrderOffset + (n & (layout.order_slots - 1)) * sizeof(lane::OrderEntry),
            (n + 1) << 32 | 1 << 16 | (n % options().buffers_send + 1));
      }
      next += 1;
    }
  });
  lwmq_tli_extent extent{};
  for (int i = 0; i < 100; ++i) {
    const Status status = ipc().transport->land(client.accepted(), &extent);
    EXPECT_NE(status, LWMQ_OK);
    if (status == LWMQ_E_CORRUPT || status == LWMQ_E_PEER_LOST) break;
  }
  stop = true;
  peer.join();
  ipc().transport->close(client.accepted(), 0, 0);
}

// A host that accepts nobody for now lets him wait: he has the whole time for his last word.
TEST_F(IpcHostile, AClientThatHasWaitedLongForItsAnswerIsNotDropped) {
  RawClient client(address_);
  client.say_hello();
  ipc().listener->tend(listener_);
  clock_is_ahead_s += 60;
  EXPECT_EQ(client.answer(listener_), "hello");
  ASSERT_NE(client.accepted(), nullptr);
  ipc().transport->close(client.accepted(), 0, 0);
}

// ---- The other end: a listener that lies ------------------------------------------------------------------

// Answers the next client with `message` and `fds`; what the client makes of it is the result.
Status connect_to_liar(const ipc::AnyMessage& message, std::size_t bytes, const std::vector<int>& fds) {
  const std::string address = fresh_address();
  ipc::Address parsed;
  EXPECT_EQ(ipc::parse(address.c_str(), &parsed), LWMQ_OK);
  os::UniqueFd listener;
  EXPECT_EQ(os::listen_unix(parsed.socket, &listener), LWMQ_OK);
  std::thread liar([&] {
    os::UniqueFd socket;
    os::poll_socket(listener.get(), false, 60000);
    if (os::accept_unix(listener.get(), &socket) != LWMQ_OK) return;
    ipc::AnyMessage hello{};
    os::Received received;
    os::poll_socket(socket.get(), false, 60000);
    os::receive_message(socket.get(), &hello, sizeof hello, &received);
    os::send_message(socket.get(), &message, bytes, fds.data(), fds.size());
    os::poll_socket(socket.get(), false, 200);
  });
  const lwmq_tli_options o = options();
  lwmq_tli_transport* transport = nullptr;
  const Status status = lwmq::tli::connect(ipc(), address.c_str(), o, 60000, &transport);
  if (status == LWMQ_OK) ipc().transport->close(transport, 0, 0);
  liar.join();
  return status;
}

TEST(IpcHostileListener, OfAnotherVersionIsAVersionErrorWithBothVersions) {
  ipc();
  ipc::AnyMessage message{};
  message.head = {ipc::kMagic, kProtocolVersion + 1, ipc::kHello};
  EXPECT_EQ(connect_to_liar(message, sizeof message.hello, {}), LWMQ_E_VERSION);
  const std::string both = "the listener speaks version " + std::to_string(kProtocolVersion + 1) +
                           " of the protocol, the client " + std::to_string(kProtocolVersion);
  EXPECT_NE(std::string(last_error()).find(both), std::string::npos) << last_error();
}

TEST(IpcHostileListener, CannotRefuseWithASuccess) {
  ipc();
  ipc::AnyMessage message{};
  message.head = {ipc::kMagic, kProtocolVersion, ipc::kRefusal};
  for (const std::int32_t status : {0, 1, 4, 5, 9999, -1}) {
    message.refusal.status = status;
    std::memset(message.refusal.text, 'x', sizeof message.refusal.text);  // without an end
    EXPECT_EQ(connect_to_liar(message, sizeof message.refusal, {}), LWMQ_E_CORRUPT) << status;
  }
}

TEST(IpcHostileListener, MayAnswerAnything) {
  ipc();
  ASSERT_EQ(ipc::wait_until_held(), LWMQ_OK);
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const os::UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int round = 0; round < 30; ++round) {
    ipc::AnyMessage message{};
    message.head = {ipc::kMagic, kProtocolVersion, ipc::kHello};
    auto* bytes = reinterpret_cast<std::uint8_t*>(&message);
    for (int i = 0; i < 100; ++i)
      bytes[12 + random() % (sizeof message - 12)] = static_cast<std::uint8_t>(random());
    std::vector<int> fds(random() % 5, null.get());
    const Status status = connect_to_liar(message, 1 + random() % sizeof message, fds);
    EXPECT_TRUE(is_failure(status)) << "round " << round << ": " << status_name(status);
  }
}

}  // namespace
}  // namespace lwmq::testing
