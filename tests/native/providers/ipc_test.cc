// links: base os stats tli address filters lane modules store providers
// ipc between the two ends of a conversation: addresses, meeting, buffers, waiting. Death and windows have
// files of their own; what every provider must do is in tests/native/conformance.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <thread>
#include <vector>

#include "child.h"
#include "eventually.h"
#include "ipc_fixture.h"
#include "open_descriptors.h"
#include "os/unique_fd.h"
#include "os/unix_socket.h"
#include "providers/ipc/address.h"
#include "providers/ipc/process.h"
#include "system_calls.h"
#include "tli/registry.h"

namespace lwmq::testing {
namespace {

std::string refusal_of(const std::string& address, const lwmq_tli_options& o = options()) {
  lwmq_tli_listener* listener = nullptr;
  const Status status = ipc().listener->listen(address.c_str(), &o, &listener);
  if (status == LWMQ_OK) ipc().listener->close(listener);
  return std::string(status_name(status)) + " " + last_error();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(IpcAddress, MayHave119CharactersHoweverManyBytesTheyTake) {
  std::string name;
  for (int i = 0; i < 119; ++i) name += "\xc3\xa4";
  lwmq_tli_listener* listener = listen("ipc://" + name);
  ASSERT_NE(listener, nullptr);
  ipc().listener->close(listener);
  EXPECT_TRUE(contains(refusal_of("ipc://" + name + "x"), "120 characters, possible are 1 to 119"));
}

// Bytes that only continue a character would count as none, and a name could pass any length.
TEST(IpcAddress, IsUtf8) {
  const std::string name = "a" + std::string(600, '\x95');
  EXPECT_TRUE(contains(refusal_of("ipc://" + name), "a name of 601 bytes that are not UTF-8"));
  for (const char* wrong : {"\xc3", "\xc3x", "\xff", "x\x80", "\xe2\x82", "\xf0\x9f\x98"}) {
    EXPECT_TRUE(contains(refusal_of(std::string("ipc://") + wrong), "are not UTF-8")) << wrong;
  }
}

TEST(IpcAddress, SaysWhatIsWrongWithNumbers) {
  EXPECT_TRUE(contains(refusal_of("ipc://"), "LWMQ_E_ADDRESS ipc://: the name has 0 characters"));
  EXPECT_TRUE(contains(refusal_of("ipc://a:0"), "the port is '0', possible are 1 to 65535"));
  EXPECT_TRUE(contains(refusal_of("ipc://a:65536"), "the port is '65536'"));
  EXPECT_TRUE(contains(refusal_of("ipc://a:x"), "the port is 'x'"));
  EXPECT_TRUE(contains(refusal_of("ipc://a:1:2"), "the port is '1:2'"));
  EXPECT_TRUE(contains(refusal_of("ipc://a?b=1"), "options stand here"));
  EXPECT_TRUE(contains(refusal_of("ipc:///dir/a:1"), "a socket file has no port"));
  EXPECT_TRUE(contains(refusal_of("ipc:///" + std::string(107, 'a')),
                       "the path has 108 bytes, a socket file may have 107"));
}

// rows: M03
TEST(IpcAddress, PortsSeparateUnrelatedChannels) {
  const std::string base = fresh_address();
  lwmq_tli_listener* plain = listen(base);
  lwmq_tli_listener* one = listen(base + ":1");
  lwmq_tli_listener* two = listen(base + ":2");
  EXPECT_TRUE(contains(refusal_of(base + ":01"), "LWMQ_E_ADDRESS"));  // the same port, written otherwise
  for (auto* listener : {plain, one, two}) ipc().listener->close(listener);
}

TEST(IpcAddress, IsRefusedWhileServedAndFreeAtOnceAfterwards) {
  const std::string address = fresh_address();
  lwmq_tli_listener* listener = listen(address);
  EXPECT_TRUE(contains(refusal_of(address), "is served already, by process " + std::to_string(getpid())));
  ipc().listener->close(listener);
  listener = listen(address);
  ipc().listener->close(listener);
}

TEST(IpcAddress, SocketFileOfADeadOwnerIsReplacedAndOneOfALiveOwnerIsNot) {
  const std::string directory = ::testing::TempDir() + "lwmq-test-" + std::to_string(getpid());
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  const std::string path = directory + "/stream";
  {
    // What a killed owner leaves behind: a bound file, nobody listening.
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::strcpy(at.sun_path, path.c_str());
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    close(fd);
  }
  lwmq_tli_listener* listener = listen("ipc://" + path);
  ASSERT_NE(listener, nullptr);
  EXPECT_TRUE(contains(refusal_of("ipc://" + path), "LWMQ_E_ADDRESS"));
  lwmq_tli_transport* client = connect("ipc://" + path);
  ASSERT_NE(client, nullptr);
  ipc().transport->close(client, 0, 0);
  ipc().listener->close(listener);
  struct stat status {};
  EXPECT_NE(stat(path.c_str(), &status), 0) << "the file goes with its owner";
  rmdir(directory.c_str());
}

// A file that is bound and not yet listened at looks as one of a dead owner does: nobody binds beside
// another.
TEST(IpcAddress, FilesOfOneDirectoryAreBoundOneByOne) {
  const std::string directory = ::testing::TempDir() + "lwmq-test-" + std::to_string(getpid());
  ASSERT_EQ(mkdir(directory.c_str(), 0700), 0);
  const std::string path = directory + "/stream";
  const auto is_there = [&path] {
    struct stat status {};
    return stat(path.c_str(), &status) == 0;
  };
  const os::UniqueFd binding(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(flock(binding.get(), LOCK_EX | LOCK_NB), 0);
  // A server waits 100 ms for the directory: an answer that comes later says nothing.
  constexpr std::int64_t kStillWaitingNs = 80'000'000;
  lwmq_tli_listener* listener = nullptr;
  const std::int64_t began = os::now_ns();
  std::thread server([&] { listener = listen("ipc://" + path); });
  usleep(20'000);
  const bool is_bound = is_there();
  const bool is_waiting = os::now_ns() - began < kStillWaitingNs;
  EXPECT_FALSE(is_bound && is_waiting);
  flock(binding.get(), LOCK_UN);
  server.join();
  EXPECT_TRUE(is_there());
  // Whoever keeps the directory keeps nobody from serving there.
  ipc().listener->close(listener);
  ASSERT_EQ(flock(binding.get(), LOCK_EX | LOCK_NB), 0);
  listener = listen("ipc://" + path);
  ASSERT_NE(listener, nullptr);
  ipc().listener->close(listener);
  // But a file that is stale stays so meanwhile.
  os::UniqueFd dead;
  ASSERT_EQ(os::listen_unix(path, &dead), LWMQ_OK) << last_error();
  dead.reset();
  ASSERT_TRUE(is_there());
  EXPECT_TRUE(contains(refusal_of("ipc://" + path), "nobody listens behind that socket file"));
  unlink(path.c_str());
  rmdir(directory.c_str());
}

bool is_readable_soon(int fd) {
  pollfd item{fd, POLLIN, 0};
  return poll(&item, 1, 60000) == 1;
}

// Whoever is to ring may have no descriptor for the doorbell at that moment.
TEST(IpcDoorbell, IsRungWhenItCanBeTaken) {
  Pair pair(options(256, 2), options(256, 2));
  const int fd = ipc().transport->descriptor(pair.server);
  ASSERT_GE(fd, 0) << last_error();
  ASSERT_EQ(ipc().transport->arm(pair.server, LWMQ_TLI_WAIT_EXTENT), 0);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  rlimit none = limit;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(send(pair.client, "for somebody who polls"), LWMQ_OK);
  pollfd item{fd, POLLIN, 0};
  EXPECT_EQ(poll(&item, 1, 0), 0) << "there was none";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(ipc().transport->wait(pair.client, LWMQ_TLI_WAIT_EXTENT, 50), LWMQ_E_TIMED_OUT)
      << "tries again in its sleep";
  EXPECT_TRUE(is_readable_soon(fd));
  std::string got;
  EXPECT_EQ(receive(pair.server, &got), LWMQ_OK);
}

// What lies in a socket counts among the descriptors that a user may have on their way.
TEST(IpcDoorbell, IsTakenByWhoeverSleeps) {
  Pair pair(options(256, 2), options(256, 2));
  const std::uint64_t before = open_descriptors();  // before the thread: a new one opens files for a moment
  std::thread sleeps(
      [&] { EXPECT_EQ(ipc().transport->wait(pair.client, LWMQ_TLI_WAIT_EXTENT, 60000), LWMQ_OK); });
  ASSERT_GE(ipc().transport->descriptor(pair.server), 0) << last_error();
  EXPECT_TRUE(eventually([&] { return open_descriptors() == before + 3; }))
      << "the doorbell, the descriptor, and the doorbell at the other end";
  EXPECT_EQ(send(pair.server, "good morning"), LWMQ_OK);
  sleeps.join();
}

TEST(IpcDoorbell, IsTakenByWhoeverPolls) {
  Pair pair(options(256, 2), options(256, 2));
  const int fd = ipc().transport->descriptor(pair.client);
  ASSERT_GE(fd, 0) << last_error();
  ASSERT_EQ(ipc().transport->arm(pair.client, LWMQ_TLI_WAIT_EXTENT), 0);
  const std::uint64_t before = open_descriptors();
  ASSERT_GE(ipc().transport->descriptor(pair.server), 0) << last_error();
  EXPECT_TRUE(is_readable_soon(fd)) << "who polls looks again";
  EXPECT_EQ(ipc().transport->arm(pair.client, LWMQ_TLI_WAIT_EXTENT), 0);
  EXPECT_EQ(open_descriptors(), before + 4) << "each has one of its own and one of the other's by now";
}

// A client of this process that is refused takes no ring away from whoever polls for others.
TEST(IpcDoorbell, OfADoorStaysUntilThePollerLooks) {
  const std::string address = fresh_address();
  lwmq_tli_listener* listener = listen(address);
  const int fd = ipc().listener->descriptor(listener);
  lwmq_tli_transport* clients[2] = {connect(address), connect(address)};
  lwmq_tli_transport* refused = nullptr;
  const lwmq_tli_options other = options(256, 5000);
  EXPECT_NE(lwmq::tli::connect(ipc(), address.c_str(), other, 60000, &refused), LWMQ_OK);
  for (auto* client : clients) {
    ASSERT_NE(client, nullptr);
    EXPECT_TRUE(is_readable_soon(fd)) << "one for each look";
    lwmq_tli_transport* served = nullptr;
    EXPECT_EQ(ipc().listener->accept(listener, &served), LWMQ_OK) << last_error();
    if (served != nullptr) ipc().transport->close(served, 0, 0);
    ipc().transport->close(client, 0, 0);
  }
  ipc().listener->close(listener);
}

// rows: L21
TEST(IpcBuffers, FourThousandInBothDirectionsTogetherInAnySplit) {
  Pair pair(options(256, 3500), options(256, 500));
  lwmq_tli_peer peer{};
  ipc().transport->peer(pair.client, &peer);
  EXPECT_EQ(peer.buffers, 3500U);
  EXPECT_EQ(free_buffers_of(pair.server), 3500U);
  for (int i = 0; i < 3500; ++i) ASSERT_EQ(send(pair.server, std::to_string(i)), LWMQ_OK);
  std::string got;
  for (int i = 0; i < 3500; ++i) {
    ASSERT_EQ(receive(pair.client, &got), LWMQ_OK);
    ASSERT_EQ(got, std::to_string(i));
  }

  lwmq_tli_transport* transport = nullptr;
  const lwmq_tli_options one_more = options(256, 501);
  EXPECT_EQ(lwmq::tli::connect(ipc(), pair.address.c_str(), one_more, 60000, &transport), LWMQ_E_INVALID);
  EXPECT_TRUE(contains(last_error(), "are 4001; a transport has at most 4000")) << last_error();
  EXPECT_TRUE(
      contains(refusal_of(fresh_address(), options(256, 4001)), "4001 send buffers; possible are 1 to 3999"));
}

// rows: L22
TEST(IpcBuffers, OfFourGigabytesAreAccepted) {
  Pair pair(options(), options(std::uint64_t{4} << 30, 1));
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(ipc().transport->acquire(pair.client, &buffer), LWMQ_OK) << last_error();
  EXPECT_GE(buffer.room, std::uint64_t{4} << 30);
  buffer.next[buffer.room - 1] = 42;
  const std::uint64_t bytes = buffer.room;
  ASSERT_EQ(ipc().transport->show(pair.client, &buffer, bytes, 0), LWMQ_OK);
  ipc().transport->ship(pair.client, &buffer);
  lwmq_tli_extent extent{};
  ASSERT_EQ(ipc().transport->land(pair.server, &extent), LWMQ_OK);
  EXPECT_EQ(extent.bytes, bytes);
  EXPECT_EQ(extent.data[bytes - 1], 42);
  ipc().transport->release(pair.server, &extent);
}

TEST(IpcMeeting, EitherSideMayStartFirst) {
  const std::string address = fresh_address();
  lwmq_tli_transport* client = nullptr;
  const lwmq_tli_options o = options();
  EXPECT_EQ(lwmq::tli::connect(ipc(), address.c_str(), o, 1000, &client), LWMQ_E_EMPTY);
  lwmq_tli_listener* listener = listen(address);
  client = connect(address);
  lwmq_tli_transport* server = accept(listener);
  ASSERT_EQ(send(client, "hello"), LWMQ_OK);
  std::string got;
  ASSERT_EQ(receive(server, &got), LWMQ_OK);
  EXPECT_EQ(got, "hello");
  ipc().transport->close(client, 0, 0);
  ipc().transport->close(server, 0, 0);
  ipc().listener->close(listener);
}

TEST(IpcMeeting, TransportsOutliveTheirListener) {
  Pair pair;
  ipc().listener->close(pair.listener);
  pair.listener = nullptr;
  std::string got;
  ASSERT_EQ(send(pair.server, "still here"), LWMQ_OK);
  ASSERT_EQ(receive(pair.client, &got), LWMQ_OK);
  EXPECT_EQ(got, "still here");
}

TEST(IpcMeeting, DifferentPurposesAreToldApart) {
  const std::string address = fresh_address();
  lwmq_tli_listener* listener = listen(address);
  lwmq_tli_options other = options();
  other.purpose = LWMQ_TLI_FOR_STREAM;
  lwmq_tli_transport* client = nullptr;
  EXPECT_EQ(lwmq::tli::connect(ipc(), address.c_str(), other, 60000, &client), LWMQ_E_VERSION);
  EXPECT_TRUE(contains(last_error(), "a stream")) << last_error();
  EXPECT_TRUE(contains(last_error(), "raw buffers")) << last_error();
  ipc().listener->close(listener);
}

TEST(IpcMeeting, AClientWaitsNoLongerThanAsked) {
  const std::string address = fresh_address();
  Child server("ListensAndNeverAccepts", address);
  ASSERT_EQ(server.line(), "listening");
  lwmq_tli_transport* client = nullptr;
  const lwmq_tli_options o = options();
  const std::int64_t begin = os::now_ns();
  EXPECT_EQ(lwmq::tli::connect(ipc(), address.c_str(), o, 100, &client), LWMQ_E_TIMED_OUT);
  EXPECT_GE(os::now_ns() - begin, kSecond / 10);
}

TEST(IpcMeeting, AnAttemptGoesOnWhenItsListenerLooks) {
  const std::string address = fresh_address();
  Child server("ListensAndAcceptsWhenTold", address);
  ASSERT_EQ(server.line(), "listening");
  const lwmq_tli_attempt_table& table = *ipc().attempt;
  const lwmq_tli_options o = options();
  lwmq_tli_attempt* attempt = nullptr;
  lwmq_tli_transport* client = nullptr;
  ASSERT_EQ(table.begin(address.c_str(), &o, &attempt), LWMQ_OK) << last_error();
  const auto goes_on = [&] { return table.advance(attempt, &client); };
  ASSERT_EQ(ipc::wait_until_held(), LWMQ_OK);
  ASSERT_EQ(goes_on(), LWMQ_E_TIMED_OUT);
  ASSERT_GE(table.descriptor(attempt), 0);
  EXPECT_FALSE(is_readable(table.descriptor(attempt), 0));
  server.say('a');
  EXPECT_TRUE(is_readable(table.descriptor(attempt), 60'000));
  ASSERT_EQ(goes_on(), LWMQ_OK) << last_error();
  std::string got;
  EXPECT_EQ(receive(client, &got), LWMQ_OK);
  EXPECT_EQ(got, "accepted");
  ipc().transport->close(client, 0, 0);
}

LWMQ_CHILD_ROLE(ListensAndAcceptsWhenTold) {
  lwmq_tli_listener* listener = listen(Child::argument());
  Child::report("listening");
  Child::hear();
  lwmq_tli_transport* transport = accept(listener);
  send(transport, "accepted");
  Child::hear();
}

TEST(IpcMeeting, AnAttemptFindsRoomInTheListenersQueueLater) {
  const std::string address = fresh_address();
  ipc::Address parsed;
  ASSERT_EQ(ipc::parse(address.c_str(), &parsed), LWMQ_OK);
  os::UniqueFd listener;
  ASSERT_EQ(os::listen_unix(parsed.socket, &listener), LWMQ_OK) << last_error();
  std::vector<os::UniqueFd> crowd(1);
  while (os::connect_unix(parsed.socket, &crowd.back()) == LWMQ_OK) crowd.emplace_back();
  const lwmq_tli_attempt_table& table = *ipc().attempt;
  const lwmq_tli_options o = options();
  lwmq_tli_attempt* attempt = nullptr;
  lwmq_tli_transport* client = nullptr;
  ASSERT_EQ(table.begin(address.c_str(), &o, &attempt), LWMQ_OK) << last_error();
  ASSERT_EQ(ipc::wait_until_held(), LWMQ_OK);
  EXPECT_EQ(table.advance(attempt, &client), LWMQ_E_TIMED_OUT);
  EXPECT_LT(table.descriptor(attempt), 0);
  os::UniqueFd first;
  ASSERT_EQ(os::accept_unix(listener.get(), &first), LWMQ_OK);
  EXPECT_EQ(table.advance(attempt, &client), LWMQ_E_TIMED_OUT);
  EXPECT_GE(table.descriptor(attempt), 0);
  listener.reset();
  EXPECT_TRUE(is_readable(table.descriptor(attempt), 60'000));
  EXPECT_EQ(table.advance(attempt, &client), LWMQ_E_EMPTY);
}

LWMQ_CHILD_ROLE(ListensAndNeverAccepts) {
  listen(Child::argument());
  Child::report("listening");
  Child::hear();
}

// rows: L34
TEST(IpcEnd, WhatWasShownIsLandedBeforeTheOrderlyEndIsTold) {
  Pair pair;
  ASSERT_EQ(send(pair.server, "one"), LWMQ_OK);
  ASSERT_EQ(send(pair.server, "two"), LWMQ_OK);
  ipc().transport->close(pair.server, 0, 0);
  pair.server = nullptr;
  std::string got;
  EXPECT_EQ(receive(pair.client, &got), LWMQ_OK);
  EXPECT_EQ(receive(pair.client, &got), LWMQ_OK);
  EXPECT_EQ(got, "two");
  EXPECT_EQ(receive(pair.client, &got), LWMQ_E_CLOSED);
  EXPECT_EQ(ipc().transport->state(pair.client, nullptr), LWMQ_TLI_CLOSED);
  EXPECT_EQ(send(pair.client, "late"), LWMQ_E_CLOSED);
}

TEST(IpcEnd, LandedExtentsStayReadableAfterBothEndsClosed) {
  Pair pair;
  ASSERT_EQ(send(pair.server, "kept"), LWMQ_OK);
  lwmq_tli_extent extent{};
  ASSERT_EQ(until_there([&] { return ipc().transport->land(pair.client, &extent); }), LWMQ_OK);
  lwmq_tli_transport* client = pair.client;
  ipc().transport->close(pair.server, 0, 0);
  ipc().transport->close(pair.client, 0, 0);
  pair.server = pair.client = nullptr;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(extent.data), extent.bytes), "kept");
  ipc().transport->release(client, &extent);
}

TEST(IpcWaiting, SleepsUntilAnExtentComes) {
  Pair pair;
  const std::int64_t begin = os::now_ns();
  std::thread sender([&] {
    usleep(50'000);
    send(pair.client, "wake up");
  });
  EXPECT_EQ(ipc().transport->wait(pair.server, LWMQ_TLI_WAIT_EXTENT, 60000), LWMQ_OK);
  EXPECT_GE(os::now_ns() - begin, 40'000'000);
  sender.join();
}

TEST(IpcWaiting, SleepsUntilThereIsRoom) {
  Pair pair(options(), options(256, 1));
  ASSERT_EQ(send(pair.client, "fills it"), LWMQ_OK);
  lwmq_tli_buffer buffer{};
  EXPECT_EQ(ipc().transport->acquire(pair.client, &buffer), LWMQ_E_FULL);
  EXPECT_EQ(ipc().transport->wait(pair.client, LWMQ_TLI_WAIT_ROOM, 10), LWMQ_E_TIMED_OUT);
  std::thread receiver([&] {
    usleep(50'000);
    std::string got;
    lwmq_tli_extent extent{};
    EXPECT_EQ(receive(pair.server, &got), LWMQ_OK);
    EXPECT_EQ(ipc().transport->land(pair.server, &extent), LWMQ_E_EMPTY);  // sees that the buffer was shipped
  });
  EXPECT_EQ(ipc().transport->wait(pair.client, LWMQ_TLI_WAIT_ROOM, 60000), LWMQ_OK);
  EXPECT_EQ(ipc().transport->acquire(pair.client, &buffer), LWMQ_OK);
  receiver.join();
}

TEST(IpcWaiting, NoWakeUpIsLostInManyTurns) {
  constexpr int kTurns = 20'000;
  Pair pair(options(256, 2), options(256, 2));
  std::thread echo([&] {
    std::string got;
    for (int i = 0; i < kTurns; ++i) {
      if (receive(pair.server, &got) != LWMQ_OK || send(pair.server, got) != LWMQ_OK) return;
    }
  });
  std::string got;
  for (int i = 0; i < kTurns; ++i) {
    ASSERT_EQ(send(pair.client, std::to_string(i)), LWMQ_OK);
    ASSERT_EQ(receive(pair.client, &got), LWMQ_OK);
    ASSERT_EQ(got, std::to_string(i));
    if (i % 1000 == 0) usleep(100);  // let the other end fall asleep now and then
  }
  echo.join();
}

constexpr int kAwakeTurns = 20'000;

void send_awake(lwmq_tli_transport* transport, int number) {
  lwmq_tli_buffer buffer{};
  while (ipc().transport->acquire(transport, &buffer) == LWMQ_E_FULL) {
  }
  std::memcpy(buffer.next, &number, sizeof number);
  ASSERT_EQ(ipc().transport->show(transport, &buffer, sizeof number, 0), LWMQ_OK);
  ipc().transport->ship(transport, &buffer);
}

int receive_awake(lwmq_tli_transport* transport) {
  lwmq_tli_extent extent{};
  Status status = LWMQ_OK;
  while ((status = ipc().transport->land(transport, &extent)) == LWMQ_E_EMPTY) {
  }
  if (status != LWMQ_OK) return -1;
  int number = 0;
  std::memcpy(&number, extent.data, sizeof number);
  ipc().transport->release(transport, &extent);
  return number;
}

LWMQ_CHILD_ROLE(EchoesWithoutSystemCalls) {
  lwmq_tli_listener* listener = listen(Child::argument());
  Child::report("listening");
  lwmq_tli_transport* transport = accept(listener);
  send_awake(transport, receive_awake(transport));  // what is set up at first use
  forbid_system_calls();
  for (int i = 0; i < kAwakeTurns; ++i) send_awake(transport, receive_awake(transport));
  Child::report("done");
  while (receive_awake(transport) >= 0) {
  }
}

LWMQ_CHILD_ROLE(AsksWithoutSystemCalls) {
  lwmq_tli_transport* transport = connect(Child::argument());
  send_awake(transport, 1);
  ASSERT_EQ(receive_awake(transport), 1);
  forbid_system_calls();
  for (int i = 0; i < kAwakeTurns; ++i) {
    send_awake(transport, i);
    ASSERT_EQ(receive_awake(transport), i);
  }
  Child::report("done");
  for (;;) {
  }
}

// rows: L02
TEST(IpcWaiting, NoSystemCallIsMadeWhileBothSidesAreAwake) {
  const std::string address = fresh_address();
  Child echo("EchoesWithoutSystemCalls", address);
  ASSERT_EQ(echo.line(), "listening");
  Child asker("AsksWithoutSystemCalls", address);
  EXPECT_EQ(asker.line(), "done");
  EXPECT_EQ(echo.line(), "done");
}

TEST(IpcListenerFd, IsReadableWhenAClientComesAndWhenAnArmedTransportHasSomething) {
  const std::string address = fresh_address();
  lwmq_tli_listener* listener = listen(address);
  const int fd = ipc().listener->descriptor(listener);
  EXPECT_FALSE(is_readable(fd, 0));
  std::atomic<bool> is_armed{false};
  std::thread connecting([&] {
    lwmq_tli_transport* client = connect(address);
    EXPECT_TRUE(eventually([&] { return is_armed.load(); }));
    usleep(20'000);
    send(client, "ding");
    usleep(50'000);
    ipc().transport->close(client, 0, 0);
  });
  EXPECT_TRUE(is_readable(fd, 60000));
  lwmq_tli_transport* server = accept(listener);
  const std::int32_t is_there = ipc().transport->arm(server, LWMQ_TLI_WAIT_EXTENT);
  is_armed = true;
  EXPECT_EQ(is_there, 0);
  EXPECT_TRUE(is_readable(fd, 60000));
  ipc().transport->arm(server, 0);
  std::string got;
  ASSERT_EQ(receive(server, &got), LWMQ_OK);
  lwmq_tli_extent extent{};
  while (ipc().transport->land(server, &extent) == LWMQ_E_EMPTY) {
    if (ipc().transport->arm(server, LWMQ_TLI_WAIT_EXTENT) == 0) {
      ASSERT_TRUE(is_readable(fd, 60000));
    }
    ipc().transport->arm(server, 0);
  }
  EXPECT_EQ(ipc().transport->state(server, nullptr), LWMQ_TLI_CLOSED);
  ipc().transport->arm(server, 0);
  connecting.join();
  ipc().transport->close(server, 0, 0);
  EXPECT_EQ(ipc().listener->accept(listener, &server), LWMQ_E_EMPTY);
  EXPECT_FALSE(is_readable(fd, 0));
  ipc().listener->close(listener);
}

TEST(IpcFork, EveryCallInAForkedChildAnswersClosed) {
  Pair pair;
  lwmq_tli_window* window = nullptr;
  ASSERT_EQ(ipc().memory->create(4096, &window), LWMQ_OK);
  const pid_t pid = fork();
  if (pid == 0) {
    lwmq_tli_buffer buffer{};
    lwmq_tli_extent extent{};
    lwmq_tli_transport* transport = nullptr;
    lwmq_tli_listener* listener = nullptr;
    const lwmq_tli_options o = options();
    bool good = ipc().transport->acquire(pair.client, &buffer) == LWMQ_E_CLOSED;
    good = good && ipc().transport->land(pair.client, &extent) == LWMQ_E_CLOSED;
    good = good && contains(last_error(), "forked");
    good = good && lwmq::tli::connect(ipc(), pair.address.c_str(), o, 0, &transport) == LWMQ_E_CLOSED;
    good = good && ipc().listener->listen("ipc://x", &o, &listener) == LWMQ_E_CLOSED;
    good = good && ipc().listener->accept(pair.listener, &transport) == LWMQ_E_CLOSED;
    good = good && ipc().memory->owner_alive(window) == 0;
    good = good && ipc().memory->export_to(pair.client, window) == LWMQ_E_CLOSED;
    ipc().transport->close(pair.client, 0, 0);
    _exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  std::string got;
  ASSERT_EQ(send(pair.client, "parent goes on"), LWMQ_OK);
  EXPECT_EQ(receive(pair.server, &got), LWMQ_OK);
  ipc().memory->release(window);
}

}  // namespace
}  // namespace lwmq::testing
