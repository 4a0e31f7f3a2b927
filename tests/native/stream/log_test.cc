// The log of a partition as a table: what is where after which calls.
#include "stream/log/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "seed.h"
#include "stream/endpoint/pool.h"  // which bodies keep

namespace lwmq::stream {
namespace {

PartitionLog log_of(std::uint64_t entries) {
  PartitionLog log;
  for (std::uint64_t i = 0; i < entries; ++i) EXPECT_EQ(log.append(Entry{}), i);
  return log;
}

Entry entry_of(std::uint64_t rows, std::uint64_t bytes) {
  Entry entry;
  entry.rows = rows;
  entry.bytes = bytes;
  return entry;
}

TEST(PartitionLog, NumbersRunOnFromZero) {
  PartitionLog log = log_of(3);
  EXPECT_EQ(log.first_seq(), 0u);
  EXPECT_EQ(log.next_seq(), 3u);
  EXPECT_NE(log.find(2), nullptr);
  EXPECT_EQ(log.find(3), nullptr);
}

TEST(PartitionLog, BeginsAtTheOldestThatIsThere) {
  PartitionLog log = log_of(4);
  log.remove(1, false);
  EXPECT_EQ(log.first_seq(), 0u);
  EXPECT_EQ(log.next_present(1), 2u);
  log.remove(0, false);
  EXPECT_EQ(log.first_seq(), 2u);
  log.remove(2, false);
  log.remove(3, false);
  EXPECT_EQ(log.first_seq(), 4u);
  EXPECT_EQ(log.append(Entry{}), 4u);
}

TEST(PartitionLog, KnowsWhatWasLost) {
  PartitionLog log = log_of(5);
  log.remove(1, true);
  log.remove(2, false);
  EXPECT_FALSE(log.lost_between(0, 1));
  EXPECT_TRUE(log.lost_between(0, 2));
  EXPECT_FALSE(log.lost_between(2, 5));  // acknowledged, not lost
  log.remove(0, false);
  EXPECT_TRUE(log.lost_between(0, 1));  // below the log nobody remembers why
  EXPECT_FALSE(log.lost_between(3, 3));
}

TEST(PartitionLog, ANameReadsOnWhereItHasNotAcknowledged) {
  PartitionLog log = log_of(3);
  log.set_acks_needed(2);
  EXPECT_TRUE(log.find(0)->note_consumed(7));
  EXPECT_EQ(log.unacked_seq_of(7), 0u) << "not yet";
  log.acknowledge(0, 7);
  EXPECT_EQ(log.unacked_seq_of(7), 1u);
  EXPECT_EQ(log.unacked_seq_of(8), 0u);
  EXPECT_EQ(log.unacked_seq(), 0u);
  log.set_acks_needed(1);
  EXPECT_EQ(log.unacked_seq_of(8), 1u) << "one was enough";
  EXPECT_EQ(log.unacked_seq(), 1u);
}

TEST(PartitionLog, KeepsItsSumsWithoutAWalk) {
  PartitionLog log;
  for (const std::uint64_t entries : {10, 100'000}) {
    while (log.next_seq() < entries) log.append(entry_of(1, 100));
    for (std::uint64_t seq = 0; seq < entries / 2; ++seq) {
      if (Entry* entry = log.find(seq)) entry->note_consumed(7);
      log.acknowledge(seq, 7);
      if (seq % 3 == 0 && log.find(seq) != nullptr) log.remove(seq, false);
    }
    const std::uint64_t walked = entries_walked();
    EXPECT_EQ(log.unacked_seq(), entries / 2);
    EXPECT_EQ(log.unacked_rows(), entries / 2);
    EXPECT_EQ(log.unacked_bytes(), entries / 2 * 100);
    EXPECT_EQ(entries_walked(), walked);
  }
}

TEST(PartitionLog, CountsEachNameOnce) {
  PartitionLog log = log_of(1);
  Entry& entry = *log.find(0);
  EXPECT_TRUE(entry.note_consumed(7));
  EXPECT_FALSE(entry.note_consumed(7)) << "a second attempt of the same reader";
  EXPECT_TRUE(entry.note_consumed(8));
  EXPECT_EQ(entry.consumed(), 2u);
  entry.acknowledge(7);
  entry.acknowledge(7);
  entry.acknowledge(9);
  EXPECT_EQ(entry.acknowledged(), 1u) << "nine has not consumed it";
  EXPECT_TRUE(entry.is_acknowledged_by(7));
  EXPECT_FALSE(entry.is_acknowledged_by(8));
}

TEST(PartitionLog, AgreesWithASimpleModelInRandomOrder) {
  const unsigned seed = seed_of_this_run();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  PartitionLog log;
  std::set<std::uint64_t> present, acknowledged;
  std::uint64_t next = 0;
  for (int step = 0; step < 5000; ++step) {
    if (random() % 2 == 0) {
      ASSERT_EQ(log.append(entry_of(next, 0)), next);
      present.insert(next++);
    } else if (next > 0 && random() % 2 == 0) {
      const std::uint64_t seq = random() % next;
      if (Entry* entry = log.find(seq)) entry->note_consumed(1);
      log.acknowledge(seq, 1);
      acknowledged.insert(seq);
    } else if (next > 0 && random() % 4 == 0) {
      const std::uint64_t seq = random() % next;
      if (Entry* entry = log.find(seq); entry != nullptr && entry->forget(1)) log.note_forgotten(seq);
      acknowledged.erase(seq);
    } else if (next > 0) {
      const std::uint64_t seq = random() % next;
      const bool evicted = random() % 2 == 0;
      if (log.find(seq) != nullptr) log.remove(seq, evicted);
      present.erase(seq);
    }
    const std::uint64_t at = next == 0 ? 0 : random() % next;
    const auto expected = present.lower_bound(at);
    ASSERT_EQ(log.next_present(at), expected == present.end() ? next : *expected);
    ASSERT_EQ(log.find(at) != nullptr, present.count(at) == 1);
    ASSERT_EQ(log.first_seq(), present.empty() ? next : *present.begin());
    // Entry n has n rows; half of them need no acknowledgement any more.
    const auto settled = [&](std::uint64_t seq) { return acknowledged.count(seq) == 1; };
    const auto first = std::ranges::find_if_not(present, settled);
    ASSERT_EQ(log.unacked_seq(), first == present.end() ? next : *first);
    ASSERT_EQ(log.unacked_rows(), std::accumulate(first, present.end(), std::uint64_t{0}));
  }
}

}  // namespace
}  // namespace lwmq::stream
