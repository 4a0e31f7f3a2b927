// Streams over a network: what crosses, when a block is free again, and remote clients that lie.
#include "stream/carrier/carrier.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "eventually.h"
#include "filters/filtered.h"
#include "golden.h"
#include "hear.h"
#include "os/identity.h"
#include "socket_place.h"
#include "stream/client/connection.h"
#include "stream/client/describe.h"
#include "stream/client/reader.h"
#include "stream/client/writer.h"
#include "stream/near.h"
#include "tli/registry.h"

namespace lwmq::stream {
namespace {

using wire::StreamKind;

constexpr std::uint64_t kWindow = 1 << 20;

std::string fresh_address() {
  static std::atomic<int> number{0};
  static const std::string port = free_port();
  return plain_host() + port + "/s" + std::to_string(number++);
}

template <typename Record>
Record hear_record(Link& link, StreamKind kind) {
  std::string bytes;
  Record record{};
  EXPECT_TRUE(hear(link, kind, &bytes) && read_record(bytes, &record)) << static_cast<unsigned>(kind);
  return record;
}

class Carried : public ::testing::Test {
 protected:
  void SetUp() override {
    address_ = fresh_address();
    ASSERT_EQ(host(address_.c_str(), &stream_), LWMQ_OK) << last_error();
  }
  // Whatever a client does, others are served on.
  void TearDown() override {
    std::unique_ptr<Description> description;
    EXPECT_EQ(describe(address_.c_str(), kWaitServed, 10000, &description), LWMQ_OK) << last_error();
    stream_ = {};
  }

  // A client over the network that has joined.
  std::unique_ptr<Link> join() const {
    const lwmq_tli_provider* provider = nullptr;
    EXPECT_EQ(filters::find(address_.c_str(), &provider), LWMQ_OK);
    lwmq_tli_transport* transport = nullptr;
    EXPECT_EQ(tli::connect(*provider, address_.c_str(), control_options(), 60000, &transport), LWMQ_OK)
        << last_error();
    auto link = std::make_unique<Link>(provider, transport);
    EXPECT_TRUE(link->is_far());
    link->send_letter(StreamKind::kJoin, wire::Join{});
    std::string bytes;
    EXPECT_TRUE(hear(*link, StreamKind::kJoined, &bytes));
    return link;
  }
  std::unique_ptr<Link> writer(const std::string& schema = "schema") const {
    auto link = join();
    wire::OpenProducer letter;
    letter.schema = schema;
    letter.window_bytes = kWindow;
    link->send_letter(StreamKind::kOpenWriter, letter);
    std::string bytes;
    EXPECT_TRUE(hear(*link, StreamKind::kOpened, &bytes));
    wire::Opened answer;
    EXPECT_TRUE(wire::decode(bytes, &answer));
    EXPECT_TRUE(answer.ledger.empty()) << "memory of another host";
    return link;
  }
  // The grant of a mirror of the writer's next window.
  static lwmq_tli_grant mirror(Link& link, std::uint32_t index = 0) {
    wire::Window record{};
    record.index = index;
    record.window_bytes = record.bytes = kWindow;
    link.send_record(StreamKind::kWindow, record);
    const auto answer = hear_record<wire::Granted>(link, StreamKind::kGranted);
    EXPECT_EQ(answer.index, index);
    lwmq_tli_grant grant{};
    std::memcpy(&grant, answer.grant, sizeof grant);
    EXPECT_EQ(grant.bytes, kWindow);
    return grant;
  }
  static void publish(Link& link, const lwmq_tli_grant& grant, std::uint64_t offset, const std::string& text,
                      std::uint32_t slot, std::uint32_t lap = 1) {
    EXPECT_EQ(link.push(grant, offset, text.data(), text.size()), LWMQ_OK);
    wire::Publish record{};
    record.slot = slot, record.lap = lap, record.rows = 1;
    record.offset = offset, record.bytes = text.size();
    link.send_record(StreamKind::kPublish, record);
  }
  std::unique_ptr<lwmq_reader> reader() const {
    lwmq_reader_options options{};
    options.size = sizeof options;
    options.role = LWMQ_ROLE_CLIENT;
    options.writers = 1, options.credit = 8;
    options.timeout_ms = options.stall_ms = 60000;
    std::unique_ptr<lwmq_reader> made;
    EXPECT_EQ(open_reader(address_.c_str(), options, &made), LWMQ_OK) << last_error();
    return made;
  }
  // A remote reader's, of window 0 of the pool.
  static Window make_mirror(Link& to, std::uint64_t pool) {
    const lwmq_tli_provider* provider = nullptr;
    Window made;
    EXPECT_EQ(near_provider(&provider), LWMQ_OK);
    EXPECT_EQ(Window::create(provider, kWindow, &made), LWMQ_OK);
    EXPECT_EQ(to.grant(made, pool, 0), LWMQ_OK);
    return made;
  }
  static std::string next(lwmq_reader& from, lwmq_batch** out_batch) {
    if (stream::next(from, 60000, out_batch) != LWMQ_OK) return last_error();
    return {reinterpret_cast<const char*>((*out_batch)->info.data), (*out_batch)->info.bytes};
  }
  // The carrier ends the conversation, says why, and the endpoint lives.
  static void expect_end(Link& link, const std::string& why) {
    std::string bytes;
    ASSERT_TRUE(hear(link, StreamKind::kFailed, &bytes)) << why;
    wire::Text letter;
    ASSERT_TRUE(wire::decode(bytes, &letter));
    EXPECT_NE(letter.text.find(why), std::string::npos) << letter.text;
    EXPECT_FALSE(hear(link, StreamKind::kFailed, &bytes));
  }

  std::string address_;
  StreamUse stream_;
};

// ---- What crosses

TEST_F(Carried, ABatchOfARemoteWriterIsReadWhereItWasPushed) {
  const auto from = writer();
  const auto here = reader();
  const lwmq_tli_grant grant = mirror(*from);
  publish(*from, grant, 64, "one", 0);
  publish(*from, grant, 128, "two", 1);
  lwmq_batch *one = nullptr, *two = nullptr;
  EXPECT_EQ(next(*here, &one), "one");
  EXPECT_EQ(next(*here, &two), "two");
  EXPECT_EQ(one->info.copied, 0u);
  EXPECT_NE(one->info.window_data, nullptr);
  EXPECT_EQ(two->info.data - one->info.data, 64) << "at the offsets that the writer chose";
  release(one), release(two);
}

TEST_F(Carried, ABlockIsFreeForItsWriterWhenNobodyLooksAtItAnyMore) {
  const auto from = writer();
  const auto here = reader();
  const lwmq_tli_grant grant = mirror(*from);
  publish(*from, grant, 0, "held", 3, 7);
  lwmq_batch *held = nullptr, *none = nullptr;
  EXPECT_EQ(next(*here, &held), "held");
  from->send_record(StreamKind::kWantRoom, wire::WantRoom{kWindow});
  EXPECT_EQ(stream::wait(*here, 0), LWMQ_E_TIMED_OUT);  // moves past it
  std::string bytes;
  EXPECT_TRUE(hear(*from, StreamKind::kRoom, &bytes)) << "the endpoint has dropped it";
  from->send_record(StreamKind::kWantRoom, wire::WantRoom{kWindow});
  for (int i = 0; i < 20; ++i) {
    StreamKind kind{};
    EXPECT_EQ(from->receive(&kind, &bytes), LWMQ_E_EMPTY) << "and its reader holds it";
    usleep(1000);
  }
  release(held);
  const auto released = hear_record<wire::Released>(*from, StreamKind::kReleased);
  EXPECT_EQ(released.slot, 3u);
  EXPECT_EQ(released.lap, 7u);
  EXPECT_EQ(stream::next(*here, 0, &none), LWMQ_E_TIMED_OUT);
}

TEST_F(Carried, ABatchForARemoteReaderWaitsForItsMirrorAndIsLeasedUntilItIsReleased) {
  const auto from = writer();
  publish(*from, mirror(*from), 64, "for you", 5, 2);
  const auto to = join();
  wire::OpenReader letter;
  letter.name = "remote", letter.credit = 8;
  to->send_letter(StreamKind::kOpenReader, letter);
  const auto window = hear_record<wire::Window>(*to, StreamKind::kWindow);
  EXPECT_EQ(window.bytes, kWindow);
  StreamKind kind{};
  std::string bytes;
  EXPECT_EQ(to->receive(&kind, &bytes), LWMQ_E_EMPTY) << "no batch before its mirror";
  const Window landing = make_mirror(*to, window.pool);
  const auto batch = hear_record<wire::Batch>(*to, StreamKind::kBatch);
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(landing.base()) + batch.block.offset, batch.block.bytes),
      "for you");
  to->send_record(StreamKind::kConsumed, wire::Consumed{0, 0, batch.seq});
  from->send_record(StreamKind::kWantRoom, wire::WantRoom{kWindow});
  EXPECT_TRUE(hear(*from, StreamKind::kRoom, &bytes));
  EXPECT_EQ(from->receive(&kind, &bytes), LWMQ_E_EMPTY) << "leased for the reader";
  to->send_record(StreamKind::kReleased, wire::Released{batch.pool, batch.block.slot, batch.block.lap});
  from->send_record(StreamKind::kWantRoom, wire::WantRoom{kWindow});
  EXPECT_EQ(hear_record<wire::Released>(*from, StreamKind::kReleased).slot, 5u);
}

TEST_F(Carried, OfSixteenColumnsTheOneThatIsAskedForCrosses) {
  const auto cases = testing_support::read_golden(LWMQ_SOURCE_ROOT "/tests/wire/columns.hex");
  const std::string& head = cases.at("head").bytes;
  constexpr std::size_t kValues = 8192;  // bytes of each column
  std::string block = head;
  for (char column = 'a'; column < 'a' + 16; ++column) block.append(kValues, column);
  const auto from = writer(cases.at("schema").bytes);
  publish(*from, mirror(*from), 64, block, 5);
  const auto to = join();
  wire::OpenReader letter;
  letter.name = "narrow", letter.credit = 8, letter.has_columns = 1, letter.columns = {{"c3"}};
  to->send_letter(StreamKind::kOpenReader, letter);
  const auto window = hear_record<wire::Window>(*to, StreamKind::kWindow);
  const Window landing = make_mirror(*to, window.pool);
  const auto batch = hear_record<wire::Batch>(*to, StreamKind::kBatch);
  EXPECT_EQ(batch.block.bytes, block.size());
  EXPECT_EQ(batch.pushed, head.size() + kValues);
  EXPECT_LT(batch.pushed, block.size() / 12);
  std::string landed(block.size(), '\0');  // a mirror begins zeroed
  landed.replace(0, head.size(), head);
  landed.replace(head.size() + 3 * kValues, kValues, std::string(kValues, 'd'));
  EXPECT_EQ(std::memcmp(landing.base() + batch.block.offset, landed.data(), landed.size()), 0);
}

TEST_F(Carried, AnEndpointSaysWhereItsOwnHostMeetsIt) {
  const lwmq_tli_provider* provider = nullptr;
  ASSERT_EQ(filters::find(address_.c_str(), &provider), LWMQ_OK);
  lwmq_tli_transport* transport = nullptr;
  ASSERT_EQ(tli::connect(*provider, address_.c_str(), control_options(), 60000, &transport), LWMQ_OK);
  Link link(provider, transport);
  link.send_letter(StreamKind::kJoin, wire::Join{});
  std::string bytes;
  ASSERT_TRUE(hear(link, StreamKind::kJoined, &bytes));
  wire::Joined answer;
  ASSERT_TRUE(wire::decode(bytes, &answer));
  EXPECT_EQ(answer.near.rfind("ipc://", 0), 0u) << answer.near;
  EXPECT_EQ(answer.boot_id, os::identity().boot_id);
  EXPECT_EQ(answer.netns, os::identity().netns);
}

// rows: L34
TEST_F(Carried, ThePeerThatVanishesIsNamedInItsOwnWords) {
  const auto here = reader();
  auto from = writer();
  publish(*from, mirror(*from), 0, "last", 0);
  lwmq_batch* batch = nullptr;
  EXPECT_EQ(next(*here, &batch), "last");
  release(batch);
  from.reset();  // closes without CloseWriter
  const std::string why = next(*here, &batch);
  EXPECT_NE(why.find("without ending the stream"), std::string::npos) << why;
  EXPECT_NE(why.find(over_rdma()    ? "at 10.77."
                     : over_vsock() ? "at CID 1, port "
                                    : "at 127.0.0.1:"),
            std::string::npos)
      << why;
}

// ---- Remote clients that lie

TEST_F(Carried, EveryFieldOfARemoteBatchIsChecked) {
  const std::function<void(wire::Publish&)> lies[] = {
      [](auto& p) { p.window = 1; },    [](auto& p) { p.slot = 65535; },  [](auto& p) { p.slot = ~0U; },
      [](auto& p) { p.lap = 0; },       [](auto& p) { p.offset = 8; },    [](auto& p) { p.offset = kWindow; },
      [](auto& p) { p.bytes = ~0ULL; }, [](auto& p) { p.partition = 7; }, [](auto& p) { p.flags = ~0U; },
  };
  for (const auto& lie : lies) {
    const auto from = writer();
    mirror(*from);
    wire::Publish record{};
    record.lap = 1, record.rows = 1, record.bytes = 100;
    lie(record);
    from->send_record(StreamKind::kPublish, record);
    std::string bytes;
    EXPECT_TRUE(hear(*from, StreamKind::kFailed, &bytes)) << record.window << " " << record.slot;
  }
}

TEST_F(Carried, WindowsOfARemoteWriterComeInOrderAndFitMemory) {
  const std::function<void(wire::Window&)> lies[] = {
      [](auto& w) { w.index = 1; }, [](auto& w) { w.bytes = 0; }, [](auto& w) { w.index = ~0U; }};
  for (const auto& lie : lies) {
    const auto from = writer();
    wire::Window record{};
    record.bytes = 4096;
    lie(record);
    from->send_record(StreamKind::kWindow, record);
    expect_end(*from, "Window is malformed");
  }
  const auto from = writer();
  wire::Window record{};
  record.bytes = std::uint64_t{1} << 60;
  from->send_record(StreamKind::kWindow, record);
  expect_end(*from, "possible are 1 to");
  const auto nobody = join();  // has opened nothing
  record.bytes = 4096;
  nobody->send_record(StreamKind::kWindow, record);
  expect_end(*nobody, "Window is malformed");
}

TEST_F(Carried, MessagesThatNoRemoteClientSendsAreRefused) {
  for (const StreamKind kind : {StreamKind::kLease, StreamKind::kGone}) {
    const auto from = writer();
    from->send(kind, "x", 1);
    expect_end(*from, "is not one that a remote client sends");
  }
  const auto with = [this](StreamKind kind, const auto& record, const char* why) {
    const auto from = writer();
    from->send_record(kind, record);
    expect_end(*from, why);
  };
  with(StreamKind::kReleased, wire::Released{9, 0, 1}, "Released is malformed");
  with(StreamKind::kReleased, wire::Released{0, ~0U, 1}, "Released is malformed");
  with(StreamKind::kGranted, wire::Granted{}, "Granted is malformed");
  with(StreamKind::kPublish, wire::WantRoom{}, "Publish is malformed");
}

TEST_F(Carried, APushOutsideOfItsMirrorEndsTheConversation) {
  const auto from = writer();
  lwmq_tli_grant grant = mirror(*from);
  grant.bytes *= 2;
  const std::string text(64, 'x');
  EXPECT_EQ(from->push(grant, kWindow - 32, text.data(), text.size()), LWMQ_OK);
  from->flush();
  std::string bytes;
  EXPECT_FALSE(hear(*from, StreamKind::kRoom, &bytes));
  EXPECT_FALSE(from->is_connected());
}

TEST_F(Carried, AReaderMayGrantAMirrorOnceAndOfTheSizeOfItsWindow) {
  const auto from = writer();
  publish(*from, mirror(*from), 0, "x", 0);
  for (const bool twice : {false, true}) {
    const auto to = join();
    wire::OpenReader letter;
    letter.name = twice ? "twice" : "small", letter.credit = 8;
    to->send_letter(StreamKind::kOpenReader, letter);
    const auto window = hear_record<wire::Window>(*to, StreamKind::kWindow);
    if (twice) {  // the batch may be pushed in between
      const Window landing = make_mirror(*to, window.pool), second = make_mirror(*to, window.pool);
      expect_end(*to, "Granted is malformed");
    } else {
      wire::Granted answer{};
      answer.pool = window.pool;
      lwmq_tli_grant small{};
      small.bytes = kWindow - 1;
      std::memcpy(answer.grant, &small, sizeof small);
      to->send_record(StreamKind::kGranted, answer);
      expect_end(*to, "a mirror of 1048575 bytes for a window of 1048576");
    }
  }
}

}  // namespace
}  // namespace lwmq::stream
