// A writer's pool of windows, with an endpoint that drops batches when the test says so.
#include "stream/window_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "fuzz/plain_windows.h"

namespace {

using lwmq::kMiB;
using lwmq::stream::WindowPool;

constexpr std::uint64_t kWindow = 64 * kMiB;

class Pool : public testing::Test {
 protected:
  Pool() {
    lwmq::stream::LapPage ledger;
    EXPECT_EQ(lwmq::stream::LapPage::create(&table_, &ledger), LWMQ_OK);
    ledger_ = ledger.window().base();
    pool_.set_ledger(std::move(ledger));
  }

  lwmq_status write(std::uint64_t bytes, bool staged = false) {
    lwmq_block block{};
    std::int64_t made = -1;
    const lwmq_status status = pool_.allocate(bytes, kWindow, &block, &made);
    if (status != LWMQ_OK) return status;
    lwmq::wire::Publish record{};
    EXPECT_TRUE(pool_.publish(block, staged, &record));
    in_flight_.push_back(record);
    return LWMQ_OK;
  }

  void drop_oldest() {
    const auto& record = in_flight_.front();
    const std::uint32_t lap = record.lap;
    std::memcpy(ledger_ + record.slot * sizeof lap, &lap, sizeof lap);
    in_flight_.pop_front();
  }

  lwmq_tli_provider table_ = lwmq::fuzz::plain_windows();
  WindowPool pool_{&table_, "test", [](void*) { return true; }, nullptr};
  std::uint8_t* ledger_ = nullptr;
  std::deque<lwmq::wire::Publish> in_flight_;
};

lwmq_block lend(WindowPool& pool, std::uint64_t bytes) {
  lwmq_block block{};
  std::int64_t made = -1;
  EXPECT_EQ(pool.allocate(bytes, kWindow, &block, &made), LWMQ_OK);
  return block;
}

// Blocks that are lent one after the other, until there is no room; none overlaps `held`.
int lend_all(WindowPool& pool, const lwmq_block& held) {
  int count = 0;
  for (std::int64_t made = -1;; ++count) {
    lwmq_block block{};
    if (pool.allocate(kMiB, kWindow, &block, &made) != LWMQ_OK) break;
    EXPECT_TRUE(block.data + block.bytes <= held.data || held.data + held.bytes <= block.data);
  }
  return count;
}

TEST_F(Pool, UsesAHeldBlockOnlyWhenItsHoldHasEnded) {
  for (const char* end : {"discarded", "published", "forgotten"}) {
    SCOPED_TRACE(end);
    const std::uint64_t used = pool_.used_bytes();
    const lwmq_block block = lend(pool_, kMiB);
    lwmq_hold* hold = pool_.hold(block);
    ASSERT_NE(hold, nullptr);
    EXPECT_EQ(pool_.hold(block), nullptr);
    lwmq::wire::Publish record{};
    if (end[0] == 'd') {
      EXPECT_TRUE(pool_.discard(block));
      EXPECT_FALSE(pool_.discard(block));
    } else if (end[0] == 'p') {
      EXPECT_TRUE(pool_.publish(block, false, &record));
      in_flight_.push_back(record);
      drop_oldest();
    }
    EXPECT_EQ(pool_.holders().lent, end[0] == 'd' ? 0U : 1U);
    EXPECT_GT(lend_all(pool_, block), 0);
    pool_.discard_lent();
    EXPECT_EQ(pool_.used_bytes(), used + block.bytes);
    hold->end();
    EXPECT_TRUE(pool_.discard(lend(pool_, kMiB)));
    EXPECT_EQ(pool_.used_bytes(), used);
  }
}

TEST(PoolThatHasGone, LeavesWhatIsHeldWhereItIs) {
  lwmq_tli_provider table = lwmq::fuzz::plain_windows();
  lwmq_block block{};
  lwmq_hold* hold = nullptr;
  {
    WindowPool pool(
        &table, "test", [](void*) { return true; }, nullptr);
    lwmq::stream::LapPage ledger;
    ASSERT_EQ(lwmq::stream::LapPage::create(&table, &ledger), LWMQ_OK);
    pool.set_ledger(std::move(ledger));
    block = lend(pool, kMiB);
    hold = pool.hold(block);
    ASSERT_NE(hold, nullptr);
    std::memset(block.data, 0x5a, block.bytes);
    pool.keep_spares();
  }
  std::memset(block.data, 0x5b, block.bytes);
  EXPECT_EQ(block.data[kMiB / 2], 0x5b);
  hold->end();
}

TEST_F(Pool, WantsReadersFirstBeyondAWorkingSetUntilTheyHaveFreedABlock) {
  const std::uint64_t working_set = WindowPool::working_set(kMiB);
  while (pool_.used_bytes() + kMiB <= working_set) {
    EXPECT_FALSE(pool_.wants_readers_first(kMiB));
    ASSERT_EQ(write(kMiB), LWMQ_OK);
  }
  EXPECT_TRUE(pool_.wants_readers_first(kMiB));
  drop_oldest();
  EXPECT_FALSE(pool_.wants_readers_first(kMiB));
}

TEST_F(Pool, GivesReadersThatAreBehindTheWholeWindowUntilTheyHaveCaughtUp) {
  const std::uint64_t working_set = WindowPool::working_set(kMiB);
  while (!pool_.wants_readers_first(kMiB)) ASSERT_EQ(write(kMiB), LWMQ_OK);
  pool_.set_readers_behind(true);
  while (write(kMiB) == LWMQ_OK) EXPECT_FALSE(pool_.wants_readers_first(kMiB));
  EXPECT_GE(pool_.used_bytes(), kWindow - kMiB);
  while (pool_.used_bytes() > working_set / 2) {
    drop_oldest();
    EXPECT_FALSE(pool_.wants_readers_first(kMiB));  // looks at what was dropped
  }
  while (pool_.used_bytes() + kMiB <= working_set) ASSERT_EQ(write(kMiB), LWMQ_OK);
  EXPECT_TRUE(pool_.wants_readers_first(kMiB));
}

TEST_F(Pool, UsesWhatWasFreedLastFirst) {
  for (int i = 0; i < 8; ++i) ASSERT_EQ(write(kMiB), LWMQ_OK);
  const auto second = in_flight_[1];
  drop_oldest();
  drop_oldest();
  ASSERT_EQ(write(kMiB), LWMQ_OK);
  EXPECT_EQ(in_flight_.back().slot, second.slot);
}

// A writer of little takes little; a reader of much is shown few windows.
TEST_F(Pool, BeginsSmallAndDoubles) {
  constexpr std::uint64_t kBlock = 64 * lwmq::kKiB;
  int windows = 0;
  for (std::uint64_t lent = 0; lent < kWindow / 2; lent += kBlock) {
    lwmq_block block{};
    std::int64_t made = -1;
    ASSERT_EQ(pool_.allocate(kBlock, kWindow, &block, &made), LWMQ_OK);
    windows += made >= 0 ? 1 : 0;
    if (lent == 0) {
      EXPECT_EQ(pool_.own_bytes(), 256 * lwmq::kKiB);
    }
  }
  EXPECT_EQ(windows, 8);  // 256 and 256 and 512 KiB, 1, 2, 4, 8 and 16 MiB
}

TEST_F(Pool, CountsTheWindowsOfStagedBlocksAsTheWritersOwn) {
  EXPECT_EQ(pool_.own_bytes(), 0u);
  ASSERT_EQ(write(1000, true), LWMQ_OK);
  EXPECT_EQ(pool_.own_bytes(), pool_.window_bytes()) << "one small block holds its whole window";
  ASSERT_EQ(write(1000), LWMQ_OK);
  pool_.settle_staged();
  EXPECT_EQ(pool_.own_bytes(), 0u);
}

}  // namespace
