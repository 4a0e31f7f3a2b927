// Clients and endpoints that lie about streams: the conversation ends in words, nobody waits for ever, and
// others are served on.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "filters/filtered.h"
#include "hear.h"
#include "os/clock.h"
#include "stats/page.h"
#include "stream/client.h"
#include "stream/line.h"
#include "stream/question.h"
#include "stream/reader.h"
#include "tli/registry.h"

namespace lwmq::stream {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

std::string fresh_address() {
  static std::atomic<int> number{0};
  return "loop://hostile-stream-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

std::unique_ptr<Link> connect(const std::string& address) {
  const lwmq_tli_provider* provider = nullptr;
  EXPECT_EQ(filters::find(address.c_str(), &provider), LWMQ_OK);
  const lwmq_tli_options options = control_options();
  lwmq_tli_transport* transport = nullptr;
  const std::int64_t deadline = os::now_ns() + 60 * kSecond;
  Status status = LWMQ_E_EMPTY;  // also while too many wait to be accepted
  while (status == LWMQ_E_EMPTY && os::now_ns() < deadline)
    status = lwmq::tli::connect(*provider, address.c_str(), options, 60000, &transport);
  EXPECT_EQ(status, LWMQ_OK) << last_error();
  return std::make_unique<Link>(provider, transport);
}

wire::OpenProducer producer() {
  wire::OpenProducer letter;
  letter.schema = "schema";
  letter.window_bytes = 1 << 20;
  return letter;
}

// Connected, and with the stream there.
std::unique_ptr<Link> join(const std::string& address) {
  auto link = connect(address);
  link->send_letter(wire::StreamKind::kJoin, wire::Join{});
  std::string bytes;
  EXPECT_TRUE(hear(*link, wire::StreamKind::kJoined, &bytes));
  return link;
}

// ---- Clients that lie to an endpoint
// -----------------------------------------------------------------------

class HostileClient : public ::testing::Test {
 protected:
  void SetUp() override {
    address_ = fresh_address();
    ASSERT_EQ(host(address_.c_str(), &stream_), LWMQ_OK) << last_error();
  }
  void TearDown() override {
    std::unique_ptr<Description> description;
    EXPECT_EQ(describe(address_.c_str(), false, 1000, &description), LWMQ_OK) << last_error();
    stream_ = {};
  }

  std::unique_ptr<Link> writer() {
    auto link = join(address_);
    link->send_letter(wire::StreamKind::kOpenWriter, producer());
    std::string bytes;
    EXPECT_TRUE(hear(*link, wire::StreamKind::kOpened, &bytes));
    return link;
  }
  void show_window(Link& link, std::uint64_t bytes = 4096, std::uint32_t index = 0) {
    Window window;
    ASSERT_EQ(Window::create(link.provider(), bytes, &window), LWMQ_OK);
    link.try_show(window);
    wire::Window record{};
    record.index = index;
    window.copy_id(record.id);
    link.send_record(wire::StreamKind::kWindow, record);
  }
  // The endpoint ends the conversation and says why.
  void expect_end(Link& link, Status status, const std::string& why) {
    std::string bytes;
    ASSERT_TRUE(hear(link, wire::StreamKind::kFailed, &bytes)) << why;
    wire::Text letter;
    ASSERT_TRUE(wire::decode(bytes, &letter));
    EXPECT_EQ(letter.status, status) << letter.text;
    EXPECT_NE(letter.text.find(why), std::string::npos) << letter.text;
    EXPECT_NE(letter.text.find(address_), std::string::npos) << letter.text;
    EXPECT_FALSE(hear(link, wire::StreamKind::kFailed, &bytes));
  }

  std::string address_;
  StreamUse stream_;
};

TEST_F(HostileClient, EveryFieldOfABatchMustLieWithinWhatWasShown) {
  wire::Publish good{};
  good.bytes = 100, good.lap = 1, good.rows = 1;
  const auto with = [&](auto change) {
    wire::Publish bad = good;
    change(bad);
    return bad;
  };
  const wire::Publish all[] = {
      with([](auto& p) { p.partition = 1; }),
      with([](auto& p) { p.partition = ~0U; }),
      with([](auto& p) { p.window = 1; }),
      with([](auto& p) { p.window = ~0U; }),
      with([](auto& p) { p.slot = 65535; }),
      with([](auto& p) { p.slot = ~0U; }),
      with([](auto& p) { p.lap = 0; }),
      with([](auto& p) { p.offset = 8; }),
      with([](auto& p) { p.offset = 4096; }),
      with([](auto& p) { p.offset = ~std::uint64_t{63}; }),
      with([](auto& p) { p.bytes = 4097; }),
      with([](auto& p) { p.bytes = ~std::uint64_t{0}; }),
      with([](auto& p) { p.offset = 64, p.bytes = 4096 - 63; }),
      with([](auto& p) { p.flags = 2; }),
  };
  for (const wire::Publish& bad : all) {
    auto link = writer();
    show_window(*link);
    link->send_record(wire::StreamKind::kPublish, good);
    link->send_record(wire::StreamKind::kPublish, bad);
    expect_end(*link, LWMQ_E_CORRUPT, "a batch of");
  }
}

TEST_F(HostileClient, AWindowThatWasNotShownIsNotAwaited) {
  auto link = writer();
  wire::Window record{};
  link->send_record(wire::StreamKind::kWindow, record);
  expect_end(*link, LWMQ_E_CORRUPT, "names a window that it has not shown");
}

TEST_F(HostileClient, MessagesOutOfTurnOrOfAnotherLengthEndTheConversation) {
  for (const bool has_joined : {false, true}) {
    for (std::uint32_t kind = 0; kind < 40; ++kind) {
      for (const std::size_t length : {0, 1, 16, 24, 40, 56, 100}) {
        auto link = has_joined ? join(address_) : connect(address_);
        link->send(static_cast<wire::StreamKind>(kind), std::string(length, '\x01').data(), length);
      }
    }
  }
}

TEST_F(HostileClient, NothingIsSaidBeforeAStreamIsJoined) {
  auto link = connect(address_);
  link->send_letter(wire::StreamKind::kOpenWriter, producer());
  expect_end(*link, LWMQ_E_CORRUPT, "is not one that a client sends");
  link = join(address_);
  link->send_letter(wire::StreamKind::kJoin, wire::Join{});
  expect_end(*link, LWMQ_E_CORRUPT, "is not one that a client sends");
}

TEST_F(HostileClient, TheNameOfAStreamHasAllowedLettersAlone) {
  for (const char* name : {"a b", "a/b", "\xc3\xa4", "a?b", "a&b"}) {
    auto link = connect(address_);
    wire::Join letter;
    letter.create = 1;
    letter.stream = name;
    link->send_letter(wire::StreamKind::kJoin, letter);
    expect_end(*link, LWMQ_E_CORRUPT, "Join is malformed");
  }
}

TEST_F(HostileClient, AnAddressHasAsManyStreamsAsItCanHaveAndNoMore) {
  std::vector<std::unique_ptr<Link>> clients;  // each keeps one alive
  std::string bytes;
  wire::Joined answer;
  for (std::uint32_t i = 1; i <= kStreamsMax; ++i) {
    auto link = connect(address_);
    wire::Join letter;
    letter.create = 1;
    letter.stream = std::to_string(i);
    link->send_letter(wire::StreamKind::kJoin, letter);
    ASSERT_TRUE(hear(*link, wire::StreamKind::kJoined, &bytes));
    ASSERT_TRUE(wire::decode(bytes, &answer));
    // One is there from the beginning, the one without a name.
    ASSERT_EQ(answer.status, i < kStreamsMax ? LWMQ_OK : LWMQ_E_NO_MEMORY) << i;
    clients.push_back(std::move(link));
  }
  EXPECT_NE(answer.text.find("1024 streams are there"), std::string::npos) << answer.text;
}

TEST_F(HostileClient, PartsOfAMessageHaveTheirLengthAndAnEnd) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, wire::kPartBytes - 1}) {
    auto link = writer();
    link->send(wire::StreamKind::kPart, std::string(bytes, 'x').data(), bytes);
    expect_end(*link, LWMQ_E_CORRUPT, "a part of " + std::to_string(bytes) + " bytes");
  }
  auto link = writer();
  const std::string part(wire::kPartBytes, 'x');
  for (std::uint64_t sent = 0; sent <= kLetterBytesMax; sent += part.size()) {
    link->send(wire::StreamKind::kPart, part.data(), part.size());
  }
  for (int i = 0; i < 5000 && !link->flush(); ++i) link->wait(1);
  expect_end(*link, LWMQ_E_CORRUPT, "behind " + std::to_string(kLetterBytesMax) + ", of a control message");
}

TEST_F(HostileClient, AReaderLeasesOnlyWhatItWasShownAndOnce) {
  auto link = join(address_);
  wire::OpenReader letter;
  letter.name = "r";
  link->send_letter(wire::StreamKind::kOpenReader, letter);
  wire::Lease lease{};
  lease.pool = 1;
  link->send_record(wire::StreamKind::kLease, lease);
  expect_end(*link, LWMQ_E_CORRUPT, "which this reader was not shown or leases already");
}

TEST_F(HostileClient, NobodyAnswersAnExpulsionThatWasNot) {
  auto link = join(address_);
  link->send(wire::StreamKind::kExpelled, nullptr, 0);
  expect_end(*link, LWMQ_E_CORRUPT, "is not one that a client sends");
  link = join(address_);
  wire::OpenReader letter;
  letter.name = "r";
  link->send_letter(wire::StreamKind::kOpenReader, letter);
  link->send(wire::StreamKind::kExpelled, nullptr, 0);
  expect_end(*link, LWMQ_E_CORRUPT, "is not one that a client sends");
}

TEST_F(HostileClient, WhoTalksWithoutAPauseKeepsNobodyOut) {
  std::atomic<bool> over{false};
  std::thread talking([&] {
    auto link = join(address_);
    std::string bytes;
    while (!over) {
      if (!link->has_backlog() || link->flush()) link->send(wire::StreamKind::kPing, nullptr, 0);
      for (wire::StreamKind kind{}; link->receive(&kind, &bytes) == LWMQ_OK;) {
      }
    }
  });
  for (int i = 0; i < 20; ++i) {
    std::unique_ptr<Description> description;
    EXPECT_EQ(describe(address_.c_str(), false, 60000, &description), LWMQ_OK) << last_error();
  }
  over = true;
  talking.join();
}

TEST_F(HostileClient, WhoAsksAndDoesNotListenIsAnsweredAsLongAsThereIsRoom) {
  auto link = join(address_);
  constexpr int kPings = 200'000;
  for (int i = 0; i < kPings; ++i) {
    link->send(wire::StreamKind::kPing, nullptr, 0);
    if (link->has_backlog()) link->wait_for_room(100);
  }
  std::string bytes;
  EXPECT_TRUE(hear(*link, wire::StreamKind::kPong, &bytes));
  int answers = 1;
  for (wire::StreamKind kind{}; link->receive(&kind, &bytes) == LWMQ_OK;) ++answers;
  EXPECT_LT(answers, kPings) << "what nobody reads must not pile up";
}

// ---- Endpoints that lie to a reader and a writer
// -----------------------------------------------------------

class HostileEndpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string address = fresh_address();
    ASSERT_EQ(filters::find(address.c_str(), &provider_), LWMQ_OK);
    const lwmq_tli_options options = control_options();
    ASSERT_EQ(provider_->listener->listen(address.c_str(), &options, &listener_), LWMQ_OK);
    lwmq_tli_transport* transport = nullptr;
    Reach reach;
    reach.provider = provider_;
    reach.address = address;
    reach.link = connect(address);
    ASSERT_EQ(provider_->listener->accept(listener_, &transport), LWMQ_OK);
    endpoint_ = std::make_unique<Link>(provider_, transport);
    reader_.reach = std::move(reach);
    reader_.address = address;
    reader_.entry = std::make_shared<stats::Entry>();
    reader_.credit = 2;
  }
  void TearDown() override {
    close(reader_, 0);
    endpoint_.reset();
    provider_->listener->close(listener_);
  }
  void tell(wire::StreamKind kind, std::int32_t status, const std::string& text) {
    wire::Text letter;
    letter.status = status;
    letter.text = text;
    endpoint_->send_letter(kind, letter);
  }
  Status next() {
    lwmq_batch* batch = nullptr;
    const Status status = stream::next(reader_, 0, &batch);
    if (batch != nullptr) release(batch);
    return status;
  }
  void show_window(std::uint64_t pool) {
    Window window;
    ASSERT_EQ(Window::create(provider_, 4096, &window), LWMQ_OK);
    endpoint_->try_show(window);
    wire::Window record{};
    record.pool = pool;
    record.window_bytes = 4096;
    window.copy_id(record.id);
    endpoint_->send_record(wire::StreamKind::kWindow, record);
  }

  const lwmq_tli_provider* provider_ = nullptr;
  lwmq_tli_listener* listener_ = nullptr;
  std::unique_ptr<Link> endpoint_;
  lwmq_reader reader_;
};

TEST_F(HostileEndpoint, ToldSuccessIsAFailureAllTheSame) {
  for (const std::int32_t status : {0, 1, 3, 4, 5, -1, 12345}) {
    reader_.final_status = LWMQ_OK;
    tell(wire::StreamKind::kFailed, status, "no failure");
    EXPECT_EQ(next(), LWMQ_E_CORRUPT) << status;
  }
}

TEST_F(HostileEndpoint, TheSchemaComesOnce) {
  tell(wire::StreamKind::kDeclared, 0, "first");
  EXPECT_EQ(await_schema(reader_, 0), LWMQ_OK);
  const char* lent = reader_.schema.data();
  tell(wire::StreamKind::kDeclared, 0, "second, and much longer than the first one was");
  EXPECT_EQ(next(), LWMQ_E_CORRUPT);
  EXPECT_EQ(std::string(lent), "first");
}

TEST_F(HostileEndpoint, HandsOverNoMoreThanThereIsCreditFor) {
  show_window(1);
  wire::Batch batch{};
  batch.pool = 1;
  batch.block.lap = 1;
  for (int i = 0; i < 3; ++i) endpoint_->send_record(wire::StreamKind::kBatch, batch);
  EXPECT_EQ(next(), LWMQ_OK);  // what came before the breach
  EXPECT_EQ(next(), LWMQ_OK);
  EXPECT_EQ(next(), LWMQ_E_CORRUPT);
  EXPECT_NE(std::string(last_error()).find("more batches than the 2 it has credit for"), std::string::npos)
      << last_error();
}

TEST_F(HostileEndpoint, EveryFieldOfABatchMustLieWithinWhatWasShown) {
  const auto attack = [&](auto change) {
    wire::Batch batch{};
    batch.pool = 7, batch.block.lap = 1, batch.block.bytes = 100;
    change(batch);
    reader_.final_status = LWMQ_OK;
    endpoint_->send_record(wire::StreamKind::kBatch, batch);
    EXPECT_EQ(next(), LWMQ_E_CORRUPT);
    EXPECT_NE(std::string(last_error()).find("lies outside of what its writer has shown"), std::string::npos);
  };
  show_window(7);
  attack([](wire::Batch& b) { b.pool = 8; });
  attack([](wire::Batch& b) { b.block.window = 1; });
  attack([](wire::Batch& b) { b.block.slot = 65535; });
  attack([](wire::Batch& b) { b.block.lap = 0; });
  attack([](wire::Batch& b) { b.block.offset = 32; });
  attack([](wire::Batch& b) { b.block.offset = 64, b.block.bytes = 4096; });
  attack([](wire::Batch& b) { b.block.bytes = ~std::uint64_t{0}; });
}

TEST_F(HostileEndpoint, BehindTheEndOnlyAnExpulsionIsNews) {
  endpoint_->send(wire::StreamKind::kEnd, nullptr, 0);
  endpoint_->send(wire::StreamKind::kPong, nullptr, 0);
  EXPECT_EQ(next(), LWMQ_E_END);
  tell(wire::StreamKind::kExpelled, LWMQ_E_DATA_LOSS, "expelled");
  EXPECT_EQ(next(), LWMQ_E_DATA_LOSS);
  EXPECT_STREQ(last_error(), "expelled");
  reader_.final_status = LWMQ_E_END;
  tell(wire::StreamKind::kDeclared, 0, "late");
  EXPECT_EQ(next(), LWMQ_E_CORRUPT);
}

TEST_F(HostileEndpoint, AnExpulsionTakesAwayWhatWasHandedOver) {
  show_window(1);
  wire::Batch batch{};
  batch.pool = 1;
  batch.block.lap = 1;
  endpoint_->send_record(wire::StreamKind::kBatch, batch);
  endpoint_->send_record(wire::StreamKind::kBatch, batch);
  EXPECT_EQ(next(), LWMQ_OK);
  tell(wire::StreamKind::kExpelled, LWMQ_OK, "not even a failure");
  EXPECT_EQ(next(), LWMQ_E_CORRUPT) << "and not the second batch";
  std::string bytes;
  EXPECT_TRUE(hear(*endpoint_, wire::StreamKind::kExpelled, &bytes));
}

TEST_F(HostileEndpoint, AWriterSetsNothingApartThatItDoesNotHave) {
  Line line(std::move(reader_.reach));
  wire::HeldUp letter;
  letter.expelled = 1, letter.pid = ~0u, letter.name = "nobody";
  letter.blocks = {{0}, {65535}, {~0u}};
  endpoint_->send_letter(wire::StreamKind::kHeldUp, letter);
  EXPECT_EQ(line.pump(), LWMQ_OK);
  EXPECT_EQ(line.pool.quarantined_bytes(true), 0u);
}

TEST_F(HostileEndpoint, AWriterHearsWhyItsConversationEnded) {
  Line line(std::move(reader_.reach));
  tell(wire::StreamKind::kFailed, LWMQ_E_SYSTEM, "no descriptors");
  EXPECT_EQ(line.pump(), LWMQ_E_SYSTEM);
  EXPECT_STREQ(last_error(), "no descriptors");
  wire::Lease lease{};
  endpoint_->send_record(wire::StreamKind::kLease, lease);
  EXPECT_EQ(line.pump(), LWMQ_E_CORRUPT);
}

}  // namespace
}  // namespace lwmq::stream
