// links: base os stats queue tli address filters lane modules store providers
//
// What the tables of lwmq_tli.h promise, over every provider. Nothing of the queueing layer is linked here:
// neither messages nor channels.
#include <poll.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>

#include "base/limits.h"
#include "conformance/providers.h"
#include "conformance/transport_pair.h"
#include "filters/filtered.h"
#include "modules/find.h"
#include "open_descriptors.h"
#include "tli/registry.h"
#include "tli/tables.h"

namespace lwmq::conformance {
namespace {

using namespace std::chrono_literals;

class Transport : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override { run_service(provider_of(address_)); }

  std::string address_ = GetParam().fresh_address();

  static lwmq_limits limits_of(const std::string& address) {
    lwmq_limits limits{};
    limits.size = sizeof limits;
    EXPECT_EQ(provider_of(address).limits(address.c_str(), &limits), LWMQ_OK) << last_error();
    return limits;
  }
};

// ---- Addresses and limits

// rows: L12 L13
TEST_P(Transport, IsClaimedByItsProviderAlone) {
  int claims = 0;
  for (std::uint32_t i = 0; const auto* provider = modules::provider_at(i); ++i)
    claims += provider->claim(modules::behind_filters(address_.c_str()));
  EXPECT_EQ(claims, 1);
}

// rows: L07 L13
TEST_P(Transport, RefusesAMalformedAddressWithATextOfTheProviders) {
  lwmq_limits limits{};
  limits.size = sizeof limits;
  EXPECT_EQ(provider_of(address_).limits(GetParam().malformed, &limits), LWMQ_E_ADDRESS);
  EXPECT_NE(std::string(last_error()).find(GetParam().malformed), std::string::npos) << last_error();
}

// rows: L13
TEST_P(Transport, TakesAnyBytesBehindTheSchemeWithoutHarm) {
  const std::string scheme = address_.substr(0, address_.find("://") + 3);
  std::mt19937 random(20260);  // the seed of what follows
  for (int i = 0; i < 2000; ++i) {
    std::string address = scheme;
    const std::size_t length = random() % 200;
    for (std::size_t k = 0; k < length; ++k) address += static_cast<char>(1 + random() % 255);
    lwmq_limits limits{};
    limits.size = sizeof limits;
    const Status status = provider_of(address_).limits(address.c_str(), &limits);
    EXPECT_TRUE(status == LWMQ_OK || status == LWMQ_E_ADDRESS) << address;
  }
}

// rows: L11 S11
TEST_P(Transport, SaysTruthfullyWhatItCanDo) {
  const lwmq_limits limits = limits_of(address_);
  constexpr std::uint32_t kBoth = LWMQ_CAN_SEND | LWMQ_CAN_RECEIVE;
  EXPECT_EQ(limits.capabilities & kBoth, kBoth);
  EXPECT_EQ((limits.capabilities & LWMQ_CAN_SHARE_WINDOW) != 0, tli::shares_windows(provider_of(address_)));
  EXPECT_GE(limits.buffers_max, 2u);
  EXPECT_GE(limits.buffer_bytes_max, kBufferBytesMin);
}

// rows: L07 L11
TEST_P(Transport, RefusesMoreThanItsLimits) {
  const lwmq_limits limits = limits_of(address_);
  const auto& tli = provider_of(address_);
  lwmq_tli_listener* listener = nullptr;
  auto options = options_of(static_cast<std::uint32_t>(limits.buffers_max) + 1, 512);
  EXPECT_EQ(tli.listener->listen(address_.c_str(), &options, &listener), LWMQ_E_INVALID);
  options = options_of(2, limits.buffer_bytes_max + 1);
  EXPECT_EQ(tli.listener->listen(address_.c_str(), &options, &listener), LWMQ_E_INVALID);
  EXPECT_NE(std::string(last_error()).find(std::to_string(limits.buffer_bytes_max)), std::string::npos)
      << last_error();
}

// ---- Meeting

// rows: L07
TEST_P(Transport, FindsNobodyWhereNobodyListens) {
  const auto options = options_of(2, 512);
  lwmq_tli_transport* transport = nullptr;
  EXPECT_EQ(lwmq::tli::connect(provider_of(address_), address_.c_str(), options, 100, &transport),
            LWMQ_E_EMPTY);
}

// rows: L07
TEST_P(Transport, IsServedByOneListenerAtATime) {
  const auto& tli = provider_of(address_);
  const auto options = options_of(2, 512);
  lwmq_tli_listener* first = nullptr;
  lwmq_tli_listener* second = nullptr;
  ASSERT_EQ(tli.listener->listen(address_.c_str(), &options, &first), LWMQ_OK) << last_error();
  EXPECT_EQ(tli.listener->listen(address_.c_str(), &options, &second), LWMQ_E_ADDRESS);
  tli.listener->close(first);
  ASSERT_EQ(tli.listener->listen(address_.c_str(), &options, &second), LWMQ_OK) << last_error();
  tli.listener->close(second);
}

// By steps: whoever takes them decides when.
class Steps {
 public:
  explicit Steps(const std::string& address, const lwmq_tli_options& options)
      : table_(*provider_of(address).attempt) {
    status = table_.begin(address.c_str(), &options, &attempt_);
    if (status == LWMQ_OK) status = LWMQ_E_TIMED_OUT;
  }
  void take() { status = table_.advance(attempt_, &transport); }
  void cancel() const { table_.cancel(attempt_); }
  [[nodiscard]] int fd() const { return table_.descriptor(attempt_); }

  Status status;  // LWMQ_E_TIMED_OUT: under way
  lwmq_tli_transport* transport = nullptr;

 private:
  const lwmq_tli_attempt_table& table_;
  lwmq_tli_attempt* attempt_ = nullptr;
};

TEST_P(Transport, IsReachedInStepsOfWhichADescriptorTells) {
  const auto& tli = provider_of(address_);
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  ASSERT_EQ(tli.listener->listen(address_.c_str(), &options, &listener), LWMQ_OK) << last_error();
  Steps client(address_, options);
  lwmq_tli_transport* served = nullptr;
  std::optional<int> told;
  for (client.take(); client.status == LWMQ_E_TIMED_OUT; client.take()) {
    const Status accepted = tli.listener->accept(listener, &served);
    ASSERT_TRUE(accepted == LWMQ_OK || accepted == LWMQ_E_EMPTY) << last_error();
    pollfd news{client.fd(), POLLIN, 0};
    ASSERT_TRUE(!told || news.fd == *told) << "once there is one, it stays";
    if (news.fd >= 0) told = news.fd;
    ASSERT_EQ(poll(&news, 1, told ? 60000 : 1), told ? 1 : 0);
  }
  ASSERT_EQ(client.status, LWMQ_OK) << last_error();
  EXPECT_TRUE(served != nullptr ||
              eventually([&] { return tli.listener->accept(listener, &served) == LWMQ_OK; }));
  EXPECT_EQ(tli.transport->state(client.transport, nullptr), LWMQ_TLI_CONNECTED);
  tli.transport->close(client.transport, 0, 0);
  tli.transport->close(served, 0, 0);
  tli.listener->close(listener);
}

TEST_P(Transport, IsReachedByTheNextWhenAnAttemptWasCancelled) {
  Pair pair(address_, 2, 512);
  const std::uint64_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    Steps early(address_, options_of(2, 512));
    ASSERT_EQ(early.status, LWMQ_E_TIMED_OUT) << last_error();
    early.cancel();
    Steps late(address_, options_of(2, 512));
    ASSERT_EQ(late.status, LWMQ_E_TIMED_OUT) << last_error();
    late.take();
    if (late.status == LWMQ_E_TIMED_OUT) {
      late.cancel();
    } else {
      ASSERT_EQ(late.status, LWMQ_OK) << last_error();
      pair.close(&late.transport);
    }
    lwmq_tli_transport* gone = nullptr;
    while (pair.provider.listener->accept(pair.listener, &gone) == LWMQ_OK) pair.close(&gone);
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; })) << "none is left behind";
  lwmq_tli_transport* served = nullptr;
  lwmq_tli_transport* client = nullptr;
  pair.close(&pair.client);
  pair.close(&pair.served);
  pair.meet(options_of(2, 512), &served, &client);
  EXPECT_EQ(pair.send(client, "next"), LWMQ_OK);
  EXPECT_EQ(pair.land_text(served), "next");
  pair.close(&client);
  pair.close(&served);
}

// rows: L07
TEST_P(Transport, SaysWhoThePeerIs) {
  const Pair pair(address_, 3, 512);
  lwmq_tli_peer peer{};
  pair.tli.peer(pair.client, &peer);
  const bool is_far =
      address_.find("far://") != std::string::npos;  // numbers of processes mean nothing there
  EXPECT_EQ(peer.pid, is_far ? 0 : static_cast<std::uint32_t>(getpid()));
  EXPECT_STRNE(peer.name, "");
  EXPECT_EQ(peer.buffers, 3u);
  EXPECT_EQ(peer.buffer_bytes, 512u);
}

// rows: S13
TEST_P(Transport, RefusesAPeerThatIsThereForSomethingElse) {
  const auto& tli = provider_of(address_);
  const auto messages = options_of(2, 512, LWMQ_TLI_FOR_MESSAGES);
  const auto raw = options_of(2, 512, LWMQ_TLI_FOR_RAW);
  lwmq_tli_listener* listener = nullptr;
  ASSERT_EQ(tli.listener->listen(address_.c_str(), &messages, &listener), LWMQ_OK) << last_error();
  Status connected = LWMQ_OK;
  std::atomic<bool> over{false};
  std::thread connecting([&] {
    lwmq_tli_transport* transport = nullptr;
    connected = lwmq::tli::connect(tli, address_.c_str(), raw, 60000, &transport);
    over = true;
  });
  EXPECT_TRUE(eventually([&] {
    lwmq_tli_transport* transport = nullptr;
    EXPECT_NE(tli.listener->accept(listener, &transport), LWMQ_OK);
    return over.load();
  }));
  connecting.join();
  EXPECT_EQ(connected, LWMQ_E_VERSION);
  tli.listener->close(listener);
}

TEST_P(Transport, MakesTheListenersDescriptorReadableWhenSomebodyCame) {
  const auto& tli = provider_of(address_);
  const auto options = options_of(2, 512);
  lwmq_tli_listener* listener = nullptr;
  ASSERT_EQ(tli.listener->listen(address_.c_str(), &options, &listener), LWMQ_OK) << last_error();
  lwmq_tli_transport* served = nullptr;
  lwmq_tli_transport* client = nullptr;
  std::thread connecting([&] { lwmq::tli::connect(tli, address_.c_str(), options, 60000, &client); });
  pollfd descriptor{tli.listener->descriptor(listener), POLLIN, 0};
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (served == nullptr && std::chrono::steady_clock::now() < end) {
    ASSERT_EQ(poll(&descriptor, 1, 60000), 1);
    tli.listener->accept(listener, &served);
  }
  connecting.join();
  ASSERT_NE(served, nullptr);
  ASSERT_NE(client, nullptr);
  EXPECT_EQ(tli.transport->state(client, nullptr), LWMQ_TLI_CONNECTED);
  lwmq_tli_transport* nobody = nullptr;
  EXPECT_EQ(tli.listener->accept(listener, &nobody), LWMQ_E_EMPTY);
  EXPECT_EQ(poll(&descriptor, 1, 0), 0) << "accept has drained it";
  tli.transport->close(client, 0, 0);
  tli.transport->close(served, 0, 0);
  tli.listener->close(listener);
}

// ---- Moving bytes

TEST_P(Transport, BringsExtentsWholeAndInOrderWithTheirKinds) {
  const Pair pair(address_, 4, 512);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.next) % 64, 0u);
  const std::string texts[] = {"a", "", "three", std::string(100, 'x')};
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::memcpy(buffer.next, texts[i].data(), texts[i].size());
    ASSERT_EQ(pair.tli.show(pair.client, &buffer, texts[i].size(), i * 21), LWMQ_OK);
    lwmq::tli::flush(pair.tli, pair.client);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.next) % 8, 0u);
    lwmq_tli_extent extent{};
    ASSERT_EQ(pair.land(pair.served, &extent), LWMQ_OK);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(extent.data), extent.bytes), texts[i]);
    EXPECT_EQ(extent.kind, i * 21);
    pair.tli.release(pair.served, &extent);
  }
  EXPECT_EQ(pair.tli.ship(pair.client, &buffer), LWMQ_OK);
  lwmq_tli_extent extent{};
  EXPECT_EQ(pair.tli.land(pair.served, &extent), LWMQ_E_EMPTY);
}

TEST_P(Transport, HoldsAnExtentOfExactlyABufferAndNotOneByteMore) {
  const Pair pair(address_, 2, 1024);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
  ASSERT_GE(buffer.room, 1024u);
  EXPECT_EQ(pair.tli.show(pair.client, &buffer, buffer.room + 1, 0), LWMQ_E_TOO_BIG);
  ASSERT_EQ(pair.fill(pair.client, &buffer, std::string(1024, 'q')), LWMQ_OK);
  EXPECT_EQ(pair.land_text(pair.served), std::string(1024, 'q'));
}

TEST_P(Transport, RefusesAKindThatDoesNotExist) {
  const Pair pair(address_, 2, 512);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
  EXPECT_EQ(pair.tli.show(pair.client, &buffer, 1, LWMQ_TLI_KIND_MAX + 1), LWMQ_E_TOO_BIG);
  pair.tli.abandon(pair.client, &buffer);
}

// rows: L29
TEST_P(Transport, ClubsManyExtentsInOneBuffer) {
  const Pair pair(address_, 1, 1024);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
  int shown = 0;
  while (buffer.room >= 8) {
    std::memcpy(buffer.next, &shown, sizeof shown);
    ASSERT_EQ(pair.tli.show(pair.client, &buffer, sizeof shown, 0), LWMQ_OK);
    ++shown;
  }
  EXPECT_GE(shown, 32);
  ASSERT_EQ(pair.tli.ship(pair.client, &buffer), LWMQ_OK);
  for (int i = 0; i < shown; ++i) {
    const std::string text = pair.land_text(pair.served);
    ASSERT_EQ(text.size(), sizeof i);
    EXPECT_EQ(std::memcmp(text.data(), &i, sizeof i), 0);
  }
}

// rows: L16 L18 L19
TEST_P(Transport, LendsAsManyBuffersAsWereAskedForWithoutWaiting) {
  const Pair pair(address_, 5, 512);
  lwmq_tli_buffer buffers[6] = {};
  EXPECT_EQ(free_buffers_of(pair.tli, pair.client), 5u);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(pair.tli.acquire(pair.client, &buffers[i]), LWMQ_OK);
  EXPECT_EQ(pair.tli.acquire(pair.client, &buffers[5]), LWMQ_E_FULL);
  EXPECT_EQ(free_buffers_of(pair.tli, pair.client), 0u);
  for (int i = 0; i < 5; ++i) pair.tli.abandon(pair.client, &buffers[i]);
  EXPECT_EQ(free_buffers_of(pair.tli, pair.client), 5u);
}

TEST_P(Transport, FreesABufferWhoseExtentsWereReleasedByTheLandingThreadAndByAnother) {
  const Pair pair(address_, 1, 512);
  if (pair.fast.release_last == nullptr) GTEST_SKIP() << "the provider has no cheaper way";
  for (const bool last_is_kept : {false, true, false}) {
    lwmq_tli_buffer buffer{};
    ASSERT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(pair.tli.show(pair.client, &buffer, 1, 0), LWMQ_OK);
    lwmq_tli_extent extents[3] = {};
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(pair.land(pair.served, &extents[i]), LWMQ_OK);
      if ((i == 0) != last_is_kept) pair.fast.release_last(pair.served, extents[i].token, 1);
    }
    ASSERT_EQ(pair.tli.ship(pair.client, &buffer), LWMQ_OK);
    lwmq_tli_extent none{};
    EXPECT_EQ(pair.tli.land(pair.served, &none), LWMQ_E_EMPTY);
    EXPECT_EQ(free_buffers_of(pair.tli, pair.client), 0u) << "some are still held";
    for (int i = 0; i < 3; ++i) {
      if ((i == 0) == last_is_kept) pair.tli.release(pair.served, &extents[i]);
    }
    EXPECT_TRUE(eventually([&] { return free_buffers_of(pair.tli, pair.client) == 1; }));
    EXPECT_EQ(unread_extents_of(pair.tli, pair.client), 0u);
  }
}

TEST_P(Transport, FreesABufferOfRunsWhoeverReleasesWhichPartOfThem) {
  const Pair pair(address_, 1, 512);
  if (pair.fast.show_run == nullptr || pair.fast.land_run == nullptr) GTEST_SKIP() << "it moves one by one";
  for (const bool by_another : {false, true, false}) {
    lwmq_tli_buffer buffer{};
    ASSERT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
    ASSERT_EQ(pair.tli.show(pair.client, &buffer, 1, 3), LWMQ_OK);
    const lwmq_bytes frames[3] = {{"one", 3}, {"", 0}, {"three", 5}};
    std::uint64_t bytes = 0;
    ASSERT_EQ(pair.fast.show_run(pair.client, &buffer, frames, 3, 4, &bytes), 3u);
    EXPECT_EQ(bytes, 8u);
    EXPECT_EQ(unread_extents_of(pair.tli, pair.client), 4u);
    lwmq_tli_extent first{};
    ASSERT_EQ(pair.land(pair.served, &first), LWMQ_OK);
    std::uint64_t token[2] = {};
    lwmq_tli_piece pieces[8] = {};
    ASSERT_EQ(pair.fast.land_run(pair.served, 100, 8, token, pieces), 3u);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(pieces[i].data), pieces[i].bytes),
                static_cast<const char*>(frames[i].data));
      EXPECT_EQ(pieces[i].kind, 4u);
    }
    EXPECT_EQ(pair.fast.land_run(pair.served, 100, 8, token, pieces), 0u);
    pair.fast.release_last(pair.served, token, 1);
    ASSERT_EQ(pair.tli.ship(pair.client, &buffer), LWMQ_OK);
    lwmq_tli_extent none{};
    EXPECT_EQ(pair.tli.land(pair.served, &none), LWMQ_E_EMPTY);
    pair.tli.release(pair.served, &first);
    EXPECT_EQ(free_buffers_of(pair.tli, pair.client), 0u) << "two are still held";
    const auto release = [&] { pair.fast.release_run(pair.served, token, 2); };
    if (by_another) {
      std::thread(release).join();
    } else {
      release();
    }
    EXPECT_TRUE(eventually([&] { return free_buffers_of(pair.tli, pair.client) == 1; }));
    EXPECT_EQ(unread_extents_of(pair.tli, pair.client), 0u);
  }
}

// rows: L16
TEST_P(Transport, FreesABufferWhenAllItsExtentsWereReleasedInAnyOrder) {
  const Pair pair(address_, 2, 512);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
  for (int i = 0; i < 3; ++i) {
    buffer.next[0] = static_cast<std::uint8_t>(i);
    ASSERT_EQ(pair.tli.show(pair.client, &buffer, 1, 0), LWMQ_OK);
  }
  ASSERT_EQ(pair.tli.ship(pair.client, &buffer), LWMQ_OK);
  lwmq_tli_extent extents[3] = {};
  for (auto& extent : extents) ASSERT_EQ(pair.land(pair.served, &extent), LWMQ_OK);
  lwmq_tli_extent none{};
  EXPECT_EQ(pair.tli.land(pair.served, &none), LWMQ_E_EMPTY);
  EXPECT_EQ(unread_extents_of(pair.tli, pair.client), 3u);
  for (const int i : {2, 0}) pair.tli.release(pair.served, &extents[i]);
  EXPECT_EQ(free_buffers_of(pair.tli, pair.client), 1u);
  EXPECT_EQ(extents[1].data[0], 1) << "an extent stays as it is until it is released";
  std::thread([&] { pair.tli.release(pair.served, &extents[1]); }).join();
  EXPECT_TRUE(eventually([&] { return free_buffers_of(pair.tli, pair.client) == 2; }));
  EXPECT_EQ(unread_extents_of(pair.tli, pair.client), 0u);
}

TEST_P(Transport, GoesOnForManyTimesItsBuffers) {
  const Pair pair(address_, 3, 512);
  const int buffers = GetParam().rounds(3000);
  std::thread sending([&] {
    for (int i = 0; i < buffers; ++i) {
      while (pair.send(pair.client, std::to_string(i)) == LWMQ_E_FULL) {
        pair.tli.wait(pair.client, LWMQ_TLI_WAIT_ROOM, 1000);
      }
    }
  });
  for (int i = 0; i < buffers; ++i) ASSERT_EQ(pair.land_text(pair.served), std::to_string(i));
  sending.join();
}

// rows: L20
TEST_P(Transport, Holds512BuffersInBothDirectionsInOrder) {
  const Pair pair(address_, 512, 512);
  for (int i = 0; i < 512; ++i) {
    ASSERT_EQ(pair.send(pair.client, "there " + std::to_string(i)), LWMQ_OK) << i;
    ASSERT_EQ(pair.send(pair.served, "back " + std::to_string(i)), LWMQ_OK) << i;
  }
  EXPECT_EQ(pair.send(pair.client, "one too many"), LWMQ_E_FULL);
  for (int i = 0; i < 512; ++i) {
    EXPECT_EQ(pair.land_text(pair.served), "there " + std::to_string(i));
    EXPECT_EQ(pair.land_text(pair.client), "back " + std::to_string(i));
  }
  lwmq_tli_extent none{};
  EXPECT_EQ(pair.tli.land(pair.served, &none),
            LWMQ_E_EMPTY);  // a receiver sees the end of a buffer when it looks again
  EXPECT_TRUE(eventually([&] { return free_buffers_of(pair.tli, pair.client) == 512; }));
}

// rows: L26 L27
TEST_P(Transport, StandsAloneBesideOthersToTheSamePeer) {
  if ((limits_of(address_).capabilities & LWMQ_CAN_MULTICAST) != 0)
    GTEST_SKIP() << "a second peer joins the group";
  Pair first(address_, 2, 512);
  lwmq_tli_transport* served = nullptr;
  lwmq_tli_transport* client = nullptr;
  first.meet(options_of(2, 512), &served, &client);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(first.send(first.client, "stopped"), LWMQ_OK);
  ASSERT_EQ(first.send(first.client, "stopped"), LWMQ_E_FULL);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(first.send(client, std::to_string(i)), LWMQ_OK);
    ASSERT_EQ(first.land_text(served), std::to_string(i));
    ASSERT_TRUE(eventually([&] { return free_buffers_of(first.tli, client) > 0; }));
  }
  first.close(&client);
  first.close(&served);
  EXPECT_EQ(first.land_text(first.served), "stopped");
}

// ---- Waiting

// rows: L17
TEST_P(Transport, WaitsNoLongerThanAsked) {
  const Pair pair(address_, 1, 512);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(pair.tli.wait(pair.served, LWMQ_TLI_WAIT_EXTENT, 50), LWMQ_E_TIMED_OUT);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 45ms);
  EXPECT_EQ(pair.tli.wait(pair.served, LWMQ_TLI_WAIT_EXTENT, 0), LWMQ_E_TIMED_OUT);
  EXPECT_EQ(pair.tli.wait(pair.client, LWMQ_TLI_WAIT_ROOM, 0), LWMQ_OK) << "there is room";
}

// As land, and a wait behind it that sleeps at once finds what came in between.
TEST_P(Transport, LandsWhatIsAwaitedWhereItCan) {
  Pair pair(address_, 4, 512);
  if (pair.fast.land_awaited == nullptr) GTEST_SKIP() << "wait and land do as well here";
  lwmq_tli_extent extent{};
  EXPECT_EQ(pair.fast.land_awaited(pair.served, &extent), 0u) << "there is none";
  ASSERT_EQ(pair.send(pair.client, "one", 3), LWMQ_OK);
  EXPECT_EQ(pair.tli.wait(pair.served, LWMQ_TLI_WAIT_EXTENT, 60000), LWMQ_OK)
      << "it has come behind the look";
  ASSERT_EQ(pair.send(pair.client, "two"), LWMQ_OK);
  for (const char* text : {"one", "two"}) {
    ASSERT_EQ(pair.fast.land_awaited(pair.served, &extent), 1u);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(extent.data), extent.bytes), text);
    EXPECT_EQ(extent.kind, text == std::string("one") ? 3u : 0u);
    pair.fast.release_last(pair.served, extent.token, 1);
  }
  EXPECT_EQ(pair.tli.land(pair.served, &extent), LWMQ_E_EMPTY);  // the end of the last buffer
  EXPECT_TRUE(eventually([&] { return free_buffers_of(pair.tli, pair.client) == 4; }));
  ASSERT_EQ(pair.send(pair.client, "before the close"), LWMQ_OK);
  pair.close(&pair.client);
  EXPECT_EQ(pair.fast.land_awaited(pair.served, &extent), 1u);
  pair.fast.release_last(pair.served, extent.token, 1);
  EXPECT_EQ(pair.fast.land_awaited(pair.served, &extent), 0u) << "land says why";
  EXPECT_EQ(pair.tli.land(pair.served, &extent), LWMQ_E_CLOSED);
}

TEST_P(Transport, WakesWhoWaitsForAnExtent) {
  const Pair pair(address_, 2, 512);
  std::string got;
  std::thread receiving([&] { got = pair.land_text(pair.served); });
  std::this_thread::sleep_for(20ms);  // it sleeps by now, most times: both cases must work
  ASSERT_EQ(pair.send(pair.client, "wake up"), LWMQ_OK);
  receiving.join();
  EXPECT_EQ(got, "wake up");
}

TEST_P(Transport, WakesWhoWaitsForRoom) {
  const Pair pair(address_, 1, 512);
  ASSERT_EQ(pair.send(pair.client, "first"), LWMQ_OK);
  Status second = LWMQ_E_FULL;
  std::thread sending([&] {
    for (int i = 0; i < 50 && second == LWMQ_E_FULL; ++i) {
      pair.tli.wait(pair.client, LWMQ_TLI_WAIT_ROOM, 1000);
      second = pair.send(pair.client, "second");
    }
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(pair.land_text(pair.served), "first");
  EXPECT_EQ(pair.land_text(pair.served), "second");
  sending.join();
  EXPECT_EQ(second, LWMQ_OK);
}

TEST_P(Transport, SaysAtTheArmingThatThereIsRoomAgain) {
  const Pair pair(address_, 2, 512);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 2; ++i) ASSERT_EQ(pair.send(pair.client, "full"), LWMQ_OK);
    ASSERT_EQ(pair.send(pair.client, "one too many"), LWMQ_E_FULL);
    for (int i = 0; i < 2; ++i) ASSERT_EQ(pair.land_text(pair.served), "full");
    lwmq_tli_extent none{};
    ASSERT_EQ(pair.tli.land(pair.served, &none), LWMQ_E_EMPTY) << "also the end of the last buffer lands";
    EXPECT_TRUE(eventually([&] { return pair.tli.arm(pair.client, LWMQ_TLI_WAIT_ROOM) == 1; }))
        << "nobody would ring any more";
    pair.tli.arm(pair.client, 0);
  }
}

TEST_P(Transport, WakesWhoWaitsWhenThePeerCloses) {
  Pair pair(address_, 1, 512);
  std::string got;
  std::thread receiving([&] { got = pair.land_text(pair.served); });
  std::this_thread::sleep_for(20ms);
  pair.close(&pair.client);
  receiving.join();
  EXPECT_EQ(got, "<LWMQ_E_CLOSED>");
}

TEST_P(Transport, RingsTheListenersDescriptorForAnArmedTransport) {
  const Pair pair(address_, 2, 512);
  lwmq_tli_transport* none = nullptr;
  EXPECT_EQ(pair.provider.listener->accept(pair.listener, &none),
            LWMQ_E_EMPTY);  // drains what the meeting has left
  ASSERT_EQ(pair.tli.arm(pair.served, LWMQ_TLI_WAIT_EXTENT), 0);
  ASSERT_EQ(pair.send(pair.client, "news"), LWMQ_OK);
  pollfd descriptor{pair.provider.listener->descriptor(pair.listener), POLLIN, 0};
  EXPECT_EQ(poll(&descriptor, 1, 60000), 1);
  pair.tli.arm(pair.served, 0);
  EXPECT_EQ(pair.land_text(pair.served), "news");
  ASSERT_EQ(pair.send(pair.client, "more"), LWMQ_OK);
  EXPECT_TRUE(eventually([&] { return pair.tli.wait(pair.served, LWMQ_TLI_WAIT_EXTENT, 100) == LWMQ_OK; }));
  EXPECT_EQ(pair.tli.arm(pair.served, LWMQ_TLI_WAIT_EXTENT), 1) << "something is there already";
  pair.tli.arm(pair.served, 0);
}

// The descriptor calls until an arming says that something is there: it may call for less than that.
bool is_called(const Pair& pair, lwmq_tli_transport* transport, pollfd* descriptor) {
  return eventually(
      [&] { return poll(descriptor, 1, 60000) == 1 && pair.tli.arm(transport, LWMQ_TLI_WAIT_EXTENT) == 1; });
}

// rows: K11 L57
TEST_P(Transport, EachEndHasADescriptorOfItsOwn) {
  const Pair pair(address_, 2, 512);
  for (const bool from_client : {true, false}) {
    lwmq_tli_transport* sender = from_client ? pair.client : pair.served;
    lwmq_tli_transport* receiver = from_client ? pair.served : pair.client;
    pollfd descriptor{pair.tli.descriptor(receiver), POLLIN, 0};
    ASSERT_GE(descriptor.fd, 0);
    EXPECT_EQ(pair.tli.descriptor(receiver), descriptor.fd);
    for (int round = 0; round < 3; ++round) {
      lwmq_tli_extent none{};
      ASSERT_EQ(pair.tli.land(receiver, &none), LWMQ_E_EMPTY) << "also the end of the last buffer lands";
      const auto is_quiet = [&] {  // behind what has come back from the peer
        EXPECT_EQ(pair.tli.arm(receiver, LWMQ_TLI_WAIT_EXTENT), 0);
        return poll(&descriptor, 1, 0) == 0;
      };
      EXPECT_TRUE(eventually(is_quiet)) << "nothing has come";
      ASSERT_EQ(pair.send(sender, "news"), LWMQ_OK);
      EXPECT_TRUE(is_called(pair, receiver, &descriptor));
      EXPECT_EQ(pair.land_text(receiver), "news");
    }
  }
}

// rows: K11
TEST_P(Transport, ADescriptorTellsTheEndOfThePeer) {
  Pair pair(address_, 2, 512);
  pollfd descriptor{pair.tli.descriptor(pair.served), POLLIN, 0};
  ASSERT_EQ(pair.tli.arm(pair.served, LWMQ_TLI_WAIT_EXTENT), 0);
  pair.close(&pair.client);
  EXPECT_TRUE(is_called(pair, pair.served, &descriptor));
}

// ---- Ends

TEST_P(Transport, DeliversWhatWasShownBeforeAnOrderlyClose) {
  Pair pair(address_, 4, 512);
  ASSERT_EQ(pair.send(pair.client, "last"), LWMQ_OK);
  ASSERT_EQ(pair.send(pair.client, "words"), LWMQ_OK);
  pair.close(&pair.client);
  EXPECT_EQ(pair.land_text(pair.served), "last");
  EXPECT_EQ(pair.land_text(pair.served), "words");
  EXPECT_EQ(pair.land_text(pair.served), "<LWMQ_E_CLOSED>");
  EXPECT_EQ(pair.tli.state(pair.served, nullptr), LWMQ_TLI_CLOSED);
  lwmq_tli_buffer buffer{};
  EXPECT_EQ(pair.tli.acquire(pair.served, &buffer), LWMQ_E_CLOSED);
}

TEST_P(Transport, KeepsWhatWasLandedReadableAfterBothEndsHaveClosed) {
  Pair pair(address_, 2, 512);
  ASSERT_EQ(pair.send(pair.client, "still here"), LWMQ_OK);
  lwmq_tli_extent extent{};
  lwmq_tli_transport* served = pair.served;
  ASSERT_EQ(pair.land(served, &extent), LWMQ_OK);
  pair.close(&pair.client);
  pair.close(&pair.served);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(extent.data), extent.bytes), "still here");
  pair.tli.release(served, &extent);
}

TEST_P(Transport, CountsWhatThePeerHasNotReadWhenItCloses) {
  Pair pair(address_, 4, 512);
  for (const char* text : {"read", "not", "read any more"}) ASSERT_EQ(pair.send(pair.client, text), LWMQ_OK);
  EXPECT_EQ(pair.land_text(pair.served), "read");
  lwmq_tli_extent extent{};
  ASSERT_EQ(pair.land(pair.served, &extent), LWMQ_OK);  // leaves the first buffer for good
  EXPECT_TRUE(eventually([&] {
    free_buffers_of(pair.tli, pair.client);
    return unread_extents_of(pair.tli, pair.client) == 2;
  }));
  lwmq_tli_transport* served = pair.served;
  pair.close(&pair.served);
  EXPECT_TRUE(eventually([&] { return pair.tli.state(pair.client, nullptr) == LWMQ_TLI_CLOSED; }));
  EXPECT_EQ(unread_extents_of(pair.tli, pair.client), 2u);
  pair.tli.release(served, &extent);
}

// ---- Windows

// rows: L01
TEST_P(Transport, ShowsAWindowToThePeerWithoutACopy) {
  const Pair pair(address_, 2, 512);
  if (!tli::shares_windows(pair.provider)) GTEST_SKIP() << "this provider has no windows";
  lwmq_tli_window* window = nullptr;
  ASSERT_EQ(pair.provider.memory->create(1 << 20, &window), LWMQ_OK) << last_error();
  lwmq_tli_window_info info{};
  pair.provider.memory->info(window, &info);
  EXPECT_EQ(info.owned, 1u);
  EXPECT_GE(info.bytes, std::uint64_t{1} << 20);
  ASSERT_EQ(pair.provider.memory->export_to(pair.client, window), LWMQ_OK) << last_error();
  lwmq_tli_window* seen = nullptr;
  ASSERT_EQ(pair.provider.memory->find(pair.served, info.id, 60000, &seen), LWMQ_OK) << last_error();
  lwmq_tli_window_info seen_info{};
  pair.provider.memory->info(seen, &seen_info);
  std::memcpy(info.base + 4096, "written after it was shown", 27);
  EXPECT_STREQ(reinterpret_cast<const char*>(seen_info.base + 4096), "written after it was shown");
  EXPECT_EQ(pair.provider.memory->owner_alive(seen), 1);
  pair.provider.memory->release(seen);
  pair.provider.memory->release(window);
}

TEST_P(Transport, MovesABufferOfManyMegabytesWhereItsLimitAllows) {
  constexpr std::uint64_t kBytes = 48 << 20;
  if (limits_of(address_).buffer_bytes_max < kBytes) GTEST_SKIP() << "the largest unit is smaller";
  const Pair pair(address_, 1, kBytes);
  lwmq_tli_buffer buffer{};
  ASSERT_EQ(pair.tli.acquire(pair.client, &buffer), LWMQ_OK);
  for (std::uint64_t i = 0; i < kBytes; i += 4096) buffer.next[i] = static_cast<std::uint8_t>(i / 4096);
  ASSERT_EQ(pair.tli.show(pair.client, &buffer, kBytes, 3), LWMQ_OK);
  ASSERT_EQ(pair.tli.ship(pair.client, &buffer), LWMQ_OK);
  lwmq_tli_extent extent{};
  ASSERT_EQ(pair.land(pair.served, &extent), LWMQ_OK);
  ASSERT_EQ(extent.bytes, kBytes);
  for (std::uint64_t i = 0; i < kBytes; i += 4096) {
    ASSERT_EQ(extent.data[i], static_cast<std::uint8_t>(i / 4096)) << i;
  }
  pair.tli.release(pair.served, &extent);
}

LWMQ_OVER_ALL_PROVIDERS(Transport);

// ---- The registry

// rows: L07 L08 L09
TEST(Registry, ListsEveryProviderThatIsLinkedAndTheOneThatThisTestAdds) {
  std::set<std::string> names;
  for (std::uint32_t i = 0; const auto* provider = modules::provider_at(i); ++i) names.insert(provider->name);
  for (const char* name : {"loop", "ipc", "stub"}) EXPECT_TRUE(names.contains(name)) << name;
}

// rows: L12
TEST(Registry, NamesWhatThereIsWhenNobodyClaimsAScheme) {
  const lwmq_tli_provider* provider = nullptr;
  EXPECT_EQ(filters::find("carrier-pigeon://coop", &provider), LWMQ_E_ADDRESS);
  const std::string text = last_error();
  for (const char* name : {"carrier-pigeon://coop", "loop", "stub"}) {
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

// rows: L11
TEST(StubDatagram, ReachesEveryMemberOfTheGroupWithOneSend) {  // it has no service to run
  Pair pair(kStubDatagram.fresh_address(), 4, 512);
  const auto options = options_of(4, 512);
  lwmq_tli_transport* second = nullptr;
  ASSERT_EQ(lwmq::tli::connect(pair.provider, pair.address.c_str(), options, 60000, &second), LWMQ_OK);
  ASSERT_EQ(pair.send(pair.served, "to all"), LWMQ_OK);
  EXPECT_EQ(pair.land_text(pair.client), "to all");
  EXPECT_EQ(unread_extents_of(pair.tli, pair.served), 1u);
  EXPECT_EQ(pair.land_text(second), "to all");
  EXPECT_EQ(unread_extents_of(pair.tli, pair.served), 0u);
  pair.close(&second);
}

}  // namespace
}  // namespace lwmq::conformance
