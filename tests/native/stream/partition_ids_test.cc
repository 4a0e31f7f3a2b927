// Partition ids over arrays of the C data interface. tests/python/arrow/test_split.py has the values of all
// types.
#include "stream/partition_ids.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include "lwmq/lwmq.h"

namespace {

int released = 0;  // structures of the last key

// A key of one column without nulls.
struct Key {
  Key(const char* format, std::int64_t rows, const void* values) : buffers{nullptr, values} {
    column = {rows, 0, 0, 2, 0, buffers.data(), nullptr, nullptr, nullptr, nullptr};
    field = {format, "k", nullptr, 0, 0, nullptr, nullptr, nullptr, nullptr};
    released = 0;
    array = {rows, 0, 0, 0, 1, nullptr, columns.data(), nullptr, [](ArrowArray*) { ++released; }, nullptr};
    schema = {"+s", "", nullptr, 0, 1, fields.data(), nullptr, [](ArrowSchema*) { ++released; }, nullptr};
  }
  lwmq_status ids(std::uint32_t partitions, std::uint32_t* out_ids) {
    return lwmq_partition_ids(&schema, &array, partitions, out_ids);
  }
  std::array<const void*, 2> buffers;
  ArrowArray column, array;
  ArrowSchema field, schema;
  std::array<ArrowArray*, 1> columns{&column};
  std::array<ArrowSchema*, 1> fields{&field};
};

std::uint32_t id_of(std::int32_t hash, std::int32_t partitions) {
  return static_cast<std::uint32_t>((hash % partitions + partitions) % partitions);
}

// hash(0L), hash(-1L) and hash(-9223372036854775808L) of Spark SQL, and the hash of NULL.
constexpr std::array<std::int64_t, 3> kValues{0, -1, INT64_MIN};
constexpr std::array<std::int32_t, 3> kHashes{-1670924195, -939490007, -853646085};
constexpr std::int32_t kHashOfNull = 42;

TEST(PartitionIds, AreRemaindersOfSparksHash) {
  for (const std::int32_t partitions : {1, 2, 3, 8, 1000, 16384}) {
    std::array<std::uint32_t, 3> ids{};
    Key key("l", 3, kValues.data());
    ASSERT_EQ(key.ids(static_cast<std::uint32_t>(partitions), ids.data()), LWMQ_OK) << lwmq_last_error();
    for (std::size_t row = 0; row < ids.size(); ++row) EXPECT_EQ(ids[row], id_of(kHashes[row], partitions));
  }
}

TEST(PartitionIds, BeginWhereBothOffsetsSay) {
  std::array<std::uint32_t, 1> ids{};
  Key key("l", 1, kValues.data());
  key.array.offset = key.column.offset = 1;
  ASSERT_EQ(key.ids(1000, ids.data()), LWMQ_OK);
  EXPECT_EQ(ids[0], id_of(kHashes[2], 1000));
}

TEST(PartitionIds, CountNullsByTheBitmapIfTheArrayDoesNotSay) {
  const std::uint8_t valid = 0b101;
  std::array<std::uint32_t, 3> ids{};
  Key key("l", 3, kValues.data());
  key.buffers[0] = &valid;
  key.column.null_count = -1;
  ASSERT_EQ(key.ids(1000, ids.data()), LWMQ_OK);
  EXPECT_EQ(ids[0], id_of(kHashes[0], 1000));
  EXPECT_EQ(ids[1], id_of(kHashOfNull, 1000));
  EXPECT_EQ(ids[2], id_of(kHashes[2], 1000));
}

TEST(PartitionIds, ReadDecimalsThatAreNotAligned) {
  std::array<char, 32> bytes{};
  const __int128 value = -1;
  std::memcpy(bytes.data() + 8, &value, sizeof value);
  std::array<std::uint32_t, 1> ids{};
  Key key("d:18,2", 1, bytes.data() + 8);
  ASSERT_EQ(key.ids(1000, ids.data()), LWMQ_OK);
  EXPECT_EQ(ids[0], id_of(kHashes[1], 1000));
}

TEST(PartitionIds, TakeBothStructuresAlsoOnFailure) {
  std::array<std::uint32_t, 3> ids{};
  Key sound("l", 3, kValues.data());
  EXPECT_EQ(sound.ids(8, ids.data()), LWMQ_OK);
  EXPECT_EQ(released, 2);
  Key foreign("+l", 3, nullptr);
  EXPECT_EQ(foreign.ids(8, ids.data()), LWMQ_E_UNSUPPORTED);
  EXPECT_NE(std::string(lwmq_last_error()).find("column \"k\" cannot be a key: its Arrow format is \"+l\""),
            std::string::npos);
  EXPECT_EQ(released, 2);
  Key unwanted("l", 3, kValues.data());
  EXPECT_EQ(unwanted.ids(0, ids.data()), LWMQ_E_INVALID);
  EXPECT_EQ(released, 2);
}

TEST(PartitionIds, OfNoRowsNeedNoBuffers) {
  for (const char* format : {"b", "c", "s", "i", "l", "f", "g", "tdD", "tsu:", "d:38,2"}) {
    std::uint32_t none = 0;
    Key key(format, 0, nullptr);
    EXPECT_EQ(key.ids(8, &none), LWMQ_OK) << format;
  }
}

}  // namespace
