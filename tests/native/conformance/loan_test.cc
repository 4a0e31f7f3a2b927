// Messages that are lent, over every provider: what receive would have given, in the same order, and theirs
// who looks at them for as long as he does.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "conformance/channel_fixture.h"
#include "conformance/providers.h"
#include "conformance/transport_pair.h"
#include "tli/registry.h"
#include "wire/message_header.h"

namespace lwmq::conformance {
namespace {

class LoanOver : public ::testing::TestWithParam<Subject> {
 protected:
  // 8 KiB where it can be, else what can be.
  [[nodiscard]] std::uint64_t buffer_bytes() const {
    lwmq_limits limits{};
    limits.size = sizeof limits;
    EXPECT_EQ(lwmq_query_limits(address_.c_str(), &limits), LWMQ_OK) << lwmq_last_error();
    return std::min<std::uint64_t>(8192, limits.buffer_bytes_max);
  }
  std::string address_ = GetParam().fresh_address();
};

// A loan, destroyed at the end.
struct Loan {
  lwmq_loan* loan = nullptr;
  const lwmq_lent* lent = nullptr;
  std::uint32_t count = 0;

  explicit Loan(std::uint32_t limit) { EXPECT_EQ(lwmq_loan_create(limit, &loan), LWMQ_OK); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() { lwmq_loan_destroy(loan); }

  lwmq_status receive(const End& end, std::uint32_t timeout_ms = kLimitMs) {
    return lwmq_channel_receive_loan(end.channel, timeout_ms, loan, &lent, &count);
  }
  [[nodiscard]] Frames at(std::uint32_t place) const {
    const lwmq_lent& one = lent[place];
    if (one.message != nullptr) {
      Frames frames = frames_of(one.message);
      EXPECT_EQ(one.data == nullptr ? 0 : one.bytes, frames.empty() ? 0 : frames[0].size());
      return frames;
    }
    return {std::string(static_cast<const char*>(one.data), one.bytes)};
  }
};

// Of any kind: small and larger ones of one frame, empty ones, several frames, none.
Frames frames_at(int place, std::uint64_t most) {
  const auto byte = static_cast<char>('a' + place % 26);
  switch (place % 11) {
    case 3:
      return {"head", std::string(place % 50, byte)};
    case 5:
      return {};
    case 7:
      return {std::string(most - place % 100, byte)};
    case 9:
      return {""};
    default:
      return {std::to_string(place) + std::string(place % 90, byte)};
  }
}

// rows: L40 M01
TEST_P(LoanOver, LendsWhatReceiveWouldHaveGivenInItsOrder) {
  const std::uint64_t buffer_bytes = this->buffer_bytes();
  const Meeting meeting(address_, channel_options(buffer_bytes, 4));
  constexpr int kMessages = 6000;
  std::thread posting([&] {
    std::vector<std::string> texts;
    std::vector<lwmq_bytes> together;
    const auto post_together = [&] {
      together.clear();
      for (const std::string& text : texts) together.push_back({text.data(), text.size()});
      std::uint64_t posted = 0;
      ASSERT_EQ(lwmq_send_queue_post_many(meeting.client.queue, together.data(), together.size(), &posted),
                LWMQ_OK);
      ASSERT_EQ(posted, texts.size());
      texts.clear();
    };
    for (int i = 0; i < kMessages; ++i) {
      const Frames frames = frames_at(i, buffer_bytes);
      if (frames.size() == 1 && i % 1000 < 700) {
        texts.push_back(frames[0]);
        continue;
      }
      post_together();
      ASSERT_EQ(meeting.client.post(frames), LWMQ_OK);
    }
    post_together();
    ASSERT_EQ(lwmq_channel_flush(meeting.client.channel, kLimitMs), LWMQ_OK);
  });
  std::mt19937 random(7);
  Loan few(3);
  Loan many(200);
  for (int i = 0; i < kMessages;) {
    if (random() % 4 == 0) {
      lwmq_loan_give_back(few.loan);
      lwmq_loan_give_back(many.loan);
      ASSERT_EQ(meeting.server.receive(), frames_at(i, buffer_bytes)) << i;
      ++i;
      continue;
    }
    Loan& loan = random() % 2 == 0 ? few : many;
    lwmq_loan_give_back(&loan == &few ? many.loan : few.loan);  // it may have every buffer of the peer
    ASSERT_EQ(loan.receive(meeting.server), LWMQ_OK) << lwmq_last_error();
    ASSERT_GE(loan.count, 1u);
    ASSERT_LE(loan.count, &loan == &few ? 3u : 200u);
    for (std::uint32_t k = 0; k < loan.count; ++k, ++i)
      ASSERT_EQ(loan.at(k), frames_at(i, buffer_bytes)) << i;
  }
  posting.join();
  EXPECT_EQ(few.receive(meeting.server, 0), LWMQ_E_EMPTY);
  EXPECT_EQ(few.receive(meeting.server, 1), LWMQ_E_TIMED_OUT);
  many.receive(meeting.server, 0);
  EXPECT_EQ(meeting.server.statistics().messages_received, static_cast<std::uint64_t>(kMessages));
  EXPECT_TRUE(eventually([&] { return meeting.client.close(kLimitMs) == LWMQ_OK; }));
}

TEST_P(LoanOver, StaysReadableWhenThePeerHasClosedAndTheChannelIsGone) {
  Loan loan(64);
  Loan reports(1);
  {
    Meeting meeting(address_);
    std::vector<lwmq_bytes> texts(20, lwmq_bytes{"as it was", 9});
    std::uint64_t posted = 0;
    ASSERT_EQ(lwmq_send_queue_post_many(meeting.client.queue, texts.data(), texts.size(), &posted), LWMQ_OK);
    ASSERT_EQ(meeting.client.post(Frames{"head", "body"}), LWMQ_OK);
    std::uint32_t lent = 0;
    while (lent < 15) {  // the rest comes by receive, behind it
      ASSERT_EQ(loan.receive(meeting.server), LWMQ_OK);
      lent += loan.count;
    }
    for (; lent < 20; ++lent) EXPECT_EQ(meeting.server.receive_text(), "as it was");
    if (lent == 20) {
      EXPECT_EQ(meeting.server.receive(), (Frames{"head", "body"}));
    }
    meeting.client.close(0);
    EXPECT_EQ(reports.receive(meeting.server), LWMQ_E_CLOSED);
    meeting.server.destroy();
  }
  for (std::uint32_t i = 0; i < loan.count && i < 10; ++i) EXPECT_EQ(loan.at(i), Frames{"as it was"});
}

TEST_P(LoanOver, LendsWhatItHasWaitedForAsItLies) {
  const Meeting meeting(address_);
  Loan loan(8);
  const bool is_lent = tli::fast_of(provider_of(address_)).land_run != nullptr;
  int as_it_lies = 0;
  std::uint64_t received = 0;
  // What comes before we wait may have been landed for us: then we wait once more.
  for (int i = 0; i < 40 && as_it_lies < 4; ++i) {
    std::atomic<bool> waits{false};
    std::thread posting([&] {
      while (!waits) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ASSERT_EQ(meeting.client.post("tick " + std::to_string(i)), LWMQ_OK);
    });
    waits = true;
    const lwmq_status status = loan.receive(meeting.server);
    posting.join();
    ASSERT_EQ(status, LWMQ_OK) << lwmq_last_error();
    ASSERT_EQ(loan.count, 1u);
    EXPECT_EQ(loan.at(0), Frames{"tick " + std::to_string(i)});
    ++received;
    as_it_lies += loan.lent[0].message == nullptr || !is_lent ? 1 : 0;
  }
  EXPECT_EQ(as_it_lies, 4);
  EXPECT_EQ(meeting.server.statistics().messages_received, received);
  lwmq_loan_give_back(loan.loan);
  EXPECT_TRUE(eventually([&] { return meeting.client.close(kLimitMs) == LWMQ_OK; }));
}

// What a peer says last is no message, wherever it lies.
TEST_P(LoanOver, EndsBehindTheLastMessageOfAPeerThatCloses) {
  Meeting meeting(address_);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(meeting.client.post("tick"), LWMQ_OK);
  meeting.client.close(0);
  Loan loan(2);
  lwmq_status status = LWMQ_OK;
  std::uint32_t received = 0;
  while ((status = loan.receive(meeting.server)) == LWMQ_OK) received += loan.count;
  EXPECT_EQ(status, LWMQ_E_CLOSED) << lwmq_last_error();
  EXPECT_EQ(received, 3u);
}

TEST_P(LoanOver, KeepsThePeersBuffersUntilItIsGivenBack) {
  const Meeting meeting(address_, channel_options(1024, 2));
  const std::string text(50, 't');
  for (int i = 0; i < 400; ++i) ASSERT_EQ(meeting.client.post(text), LWMQ_OK);
  std::vector<std::unique_ptr<Loan>> loans;
  int received = 0;
  const auto receive_all = [&](std::uint32_t timeout_ms) {
    for (;;) {
      auto loan = std::make_unique<Loan>(16);
      if (loan->receive(meeting.server, timeout_ms) != LWMQ_OK) return;
      received += static_cast<int>(loan->count);
      loans.push_back(std::move(loan));
    }
  };
  receive_all(100);
  // Two buffers have room for some 34; where a message is handed over or copied, nothing is kept.
  EXPECT_TRUE(received == 400 || received < 60) << received;
  for (const auto& loan : loans)
    for (std::uint32_t i = 0; i < loan->count; ++i) EXPECT_EQ(loan->at(i), Frames{text});
  while (received < 400) {
    loans.clear();
    const int before = received;
    ASSERT_TRUE(eventually([&] {
      receive_all(100);
      return received > before;
    })) << "buffers that were given back are the peer's again";
  }
  EXPECT_EQ(received, 400);
}

TEST_P(LoanOver, LendsHandlesFromAReceiveQueueOfSeveralThreads) {
  auto options = channel_options(1024, 4);
  options.receive_queue = LWMQ_QUEUE_MULTI_UNBOUNDED;
  const End server(address_, LWMQ_ROLE_SERVER, options);
  const End client(address_, LWMQ_ROLE_CLIENT, options);
  ASSERT_EQ(client.wait_connected(), LWMQ_OK);
  constexpr int kMessages = 3000;
  std::atomic<int> received{0};
  std::atomic<std::uint64_t> sum{0};
  std::vector<std::thread> receiving;
  for (int t = 0; t < 2; ++t) {
    receiving.emplace_back([&] {
      Loan loan(7);
      while (received < kMessages) {
        const lwmq_status status = loan.receive(server, 50);
        if (status == LWMQ_E_TIMED_OUT) continue;
        ASSERT_EQ(status, LWMQ_OK) << lwmq_last_error();
        for (std::uint32_t i = 0; i < loan.count; ++i) sum += std::stoul(loan.at(i)[0]);
        received += static_cast<int>(loan.count);
      }
    });
  }
  for (int i = 0; i < kMessages; ++i) ASSERT_EQ(client.post(std::to_string(i)), LWMQ_OK);
  for (auto& thread : receiving) thread.join();
  EXPECT_EQ(received, kMessages);
  EXPECT_EQ(sum, std::uint64_t{kMessages} * (kMessages - 1) / 2) << "each once";
}

// What the peer has sent behind the nonsense is nobody's.
TEST_P(LoanOver, EndsWithThePeerThatSendsNonsense) {
  const End server(address_, LWMQ_ROLE_SERVER);
  const auto& tli = provider_of(address_);
  lwmq_tli_options options = options_of(2, 1024, LWMQ_TLI_FOR_MESSAGES);
  lwmq_tli_transport* liar = nullptr;
  ASSERT_TRUE(eventually(
      [&] { return lwmq::tli::connect(tli, address_.c_str(), options, 60000, &liar) == LWMQ_OK; }));
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(tli.transport->acquire(liar, &buffer), LWMQ_OK);
  for (const std::uint32_t kind : {1, 1, 2, 1, 1, 1}) {
    std::memset(buffer.next, 0xff, 64);
    ASSERT_EQ(tli.transport->show(liar, &buffer, 64, kind), LWMQ_OK);
  }
  lwmq::tli::flush(*tli.transport, liar);
  Loan loan(2);
  std::uint32_t received = 0;
  lwmq_status status = LWMQ_OK;
  while ((status = loan.receive(server)) == LWMQ_OK) received += loan.count;
  EXPECT_EQ(status, LWMQ_E_CORRUPT) << lwmq_last_error();
  EXPECT_EQ(received, 2u);
  tli.transport->close(liar, 0, 0);
  const End client(address_, LWMQ_ROLE_CLIENT);
  ASSERT_EQ(client.post("honest"), LWMQ_OK);
  ASSERT_EQ(loan.receive(server), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(loan.at(0), Frames{"honest"});
}

// A goodbye as large as no goodbye is, and more behind it: given back once.
TEST_P(LoanOver, LendsWhatComesBehindAGoodbyeThatIsNone) {
  if (buffer_bytes() < 8192) GTEST_SKIP() << "its buffers are small";
  const End server(address_, LWMQ_ROLE_SERVER, channel_options(8192, 2));
  const auto& tli = provider_of(address_);
  lwmq_tli_options options = options_of(2, 8192, LWMQ_TLI_FOR_MESSAGES);
  lwmq_tli_transport* liar = nullptr;
  ASSERT_TRUE(eventually(
      [&] { return lwmq::tli::connect(tli, address_.c_str(), options, 60000, &liar) == LWMQ_OK; }));
  std::thread lying([&] {
    const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
    lwmq_tli_buffer buffer{};
    EXPECT_EQ(tli.transport->acquire(liar, &buffer), LWMQ_OK);
    pause();
    std::memset(buffer.next, 0, 4096);
    EXPECT_EQ(
        tli.transport->show(liar, &buffer, 4096, static_cast<std::uint32_t>(wire::ExtentKind::kGoodbye)),
        LWMQ_OK);
    pause();
    for (int i = 0; i < 2; ++i) {
      std::memcpy(buffer.next, "tick", 4);
      EXPECT_EQ(
          tli.transport->show(liar, &buffer, 4, static_cast<std::uint32_t>(wire::ExtentKind::kOneFrame)),
          LWMQ_OK);
    }
    lwmq::tli::flush(*tli.transport, liar);
  });
  Loan loan(4);
  for (std::uint32_t received = 0; received < 2; received += loan.count) {
    ASSERT_EQ(loan.receive(server), LWMQ_OK) << lwmq_last_error();
    for (std::uint32_t i = 0; i < loan.count; ++i) EXPECT_EQ(loan.at(i), Frames{"tick"});
  }
  lying.join();
  EXPECT_EQ(server.statistics().messages_received, 2u);
  lwmq_loan_give_back(loan.loan);
  EXPECT_TRUE(eventually([&] { return unread_extents_of(*tli.transport, liar) == 0; })) << "each once";
  tli.transport->close(liar, 0, 0);
  EXPECT_EQ(loan.receive(server), LWMQ_E_CLOSED) << lwmq_last_error();
}

// rows: L42
TEST_P(LoanOver, BringsWhatWasPostedTogetherBeforeThereWasAPeer) {
  End client;
  client.create(address_, channel_options(1024, 4));
  const lwmq_bytes texts[3] = {{"one", 3}, {"two", 3}, {"three", 5}};
  std::uint64_t posted = 0;
  ASSERT_EQ(lwmq_send_queue_post_many(client.queue, texts, 3, &posted), LWMQ_OK) << "before open";
  ASSERT_EQ(lwmq_channel_open(client.channel, LWMQ_ROLE_CLIENT), LWMQ_OK);
  ASSERT_EQ(lwmq_send_queue_post_many(client.queue, texts, 3, &posted), LWMQ_OK)
      << "before there is a server";
  const End server(address_, LWMQ_ROLE_SERVER);
  Loan loan(4);
  for (std::uint32_t received = 0; received < 6;) {
    ASSERT_EQ(loan.receive(server), LWMQ_OK) << lwmq_last_error();
    for (std::uint32_t i = 0; i < loan.count; ++i, ++received)
      EXPECT_EQ(loan.at(i), Frames{static_cast<const char*>(texts[received % 3].data)});
  }
}

TEST_P(LoanOver, KeepsWhatAReferenceWasTakenOf) {
  const std::uint64_t buffer_bytes = this->buffer_bytes();
  const Meeting meeting(address_, channel_options(buffer_bytes, 2));
  ASSERT_EQ(meeting.client.post(Frames{"head", "body"}), LWMQ_OK);
  ASSERT_EQ(meeting.client.post(Frames{"head", std::string(buffer_bytes - 100, 'v')}), LWMQ_OK);
  std::vector<lwmq_message*> kept;
  Loan loan(8);
  while (kept.size() < 2) {
    ASSERT_EQ(loan.receive(meeting.server), LWMQ_OK);
    for (std::uint32_t i = 0; i < loan.count; ++i) {
      ASSERT_NE(loan.lent[i].message, nullptr);
      lwmq_message* reference = nullptr;
      ASSERT_EQ(lwmq_message_reference(loan.lent[i].message, &reference), LWMQ_OK);
      kept.push_back(reference);
    }
  }
  lwmq_loan_give_back(loan.loan);
  lwmq_loan_give_back(loan.loan);
  EXPECT_EQ(frames_of(kept[0]), (Frames{"head", "body"}));
  EXPECT_EQ(frames_of(kept[1]), (Frames{"head", std::string(buffer_bytes - 100, 'v')}));
  for (lwmq_message* message : kept) lwmq_message_destroy(message);
}

TEST(Loan, IsOfAtLeastOneMessage) {
  lwmq_loan* loan = nullptr;
  EXPECT_EQ(lwmq_loan_create(0, &loan), LWMQ_E_INVALID);
  EXPECT_NE(std::string(lwmq_last_error()).find("limit of 0"), std::string::npos);
  EXPECT_EQ(loan, nullptr);
  lwmq_loan_give_back(nullptr);
  lwmq_loan_destroy(nullptr);
}

LWMQ_OVER_PROVIDERS(LoanOver);
LWMQ_OVER_MANDATORY_TABLES(LoanOver);

}  // namespace
}  // namespace lwmq::conformance
