// Which bytes of a batch a reader of some columns needs, and what a carrier makes of bytes that lie.
#include "stream/columns.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "golden.h"
#include "lwmq/lwmq.h"

namespace lwmq::stream {
namespace {

constexpr std::uint64_t kValues = 8192;  // bytes of each column
constexpr std::uint32_t kOne = LWMQ_BATCH_IPC_MESSAGE;

const std::string& bytes_of(const char* name) {
  static const auto cases = testing_support::read_golden(LWMQ_SOURCE_ROOT "/tests/wire/columns.hex");
  return cases.at(name).bytes;
}

std::string batch() { return bytes_of("head") + std::string(16 * kValues, 'v'); }

using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Ranges find(Columns& columns, const std::string& bytes, std::uint32_t flags = kOne) {
  Ranges found;
  for (const ByteRange& range :
       columns.find(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), flags))
    found.emplace_back(range.offset, range.bytes);
  return found;
}

Columns declared(std::vector<std::string> names, std::size_t ranges_max = 1024) {
  Columns columns(std::move(names), ranges_max);
  EXPECT_EQ(columns.declare(bytes_of("schema"), "here"), LWMQ_OK) << last_error();
  return columns;
}

TEST(Columns, AllOfThemAreOneRange) {
  Columns all;
  EXPECT_EQ(all.declare("no schema", "here"), LWMQ_OK);
  EXPECT_EQ(find(all, batch()), (Ranges{{0, batch().size()}}));
}

TEST(Columns, CertainOnesAreTheMetadataAndTheirBuffers) {
  const std::uint64_t body = bytes_of("head").size();
  Columns one = declared({"c5"});
  EXPECT_EQ(find(one, batch()), (Ranges{{0, body}, {body + 5 * kValues, kValues}}));
  Columns three = declared({"c9", "c0", "c10"});
  EXPECT_EQ(find(three, batch()), (Ranges{{0, body + kValues}, {body + 9 * kValues, 2 * kValues}}))
      << "in ascending order, and neighbours together";
  Columns none = declared({});
  EXPECT_EQ(find(none, batch()), (Ranges{{0, body}})) << "the rows can be counted";
}

TEST(Columns, ABatchThatIsAStreamBringsItsOwnSchema) {
  const std::string end("\xff\xff\xff\xff\0\0\0\0", 8);
  const std::string bytes = bytes_of("schema") + batch() + end;
  const std::uint64_t body = bytes_of("schema").size() + bytes_of("head").size();
  Columns one({"c15"}, 1024);
  EXPECT_EQ(find(one, bytes, LWMQ_BATCH_IPC_STREAM), (Ranges{{0, body}, {body + 15 * kValues, kValues + 8}}));
  Columns first({"c0"}, 1024);
  EXPECT_EQ(find(first, bytes, LWMQ_BATCH_IPC_STREAM), (Ranges{{0, body + kValues}, {bytes.size() - 8, 8}}));
}

TEST(Columns, NoBatchHasMoreRangesThanAllowed) {
  std::vector<std::string> even;
  for (int i = 0; i < 16; i += 2) even.push_back("c" + std::to_string(i));
  Columns many = declared(even);
  EXPECT_EQ(find(many, batch()).size(), 8u);
  Columns few = declared(even, 3);
  EXPECT_LE(find(few, batch()).size(), 3u);
  EXPECT_EQ(find(few, batch())[0].first, 0u);
}

TEST(Columns, AStreamWithoutAColumnIsAnErrorThatListsWhatIsThere) {
  Columns columns({"c3", "price"});
  EXPECT_EQ(columns.declare(bytes_of("schema"), "tcp://h:1/s"), LWMQ_E_SCHEMA);
  const std::string why = last_error();
  EXPECT_NE(why.find("tcp://h:1/s: the stream has no column \"price\"; its 16 columns are c0, c1, "),
            std::string::npos)
      << why;
}

TEST(Columns, WhatCannotBeTakenApartGoesWhole) {
  const std::string whole = batch();
  const Ranges all{{0, whole.size()}};
  Columns undeclared({"c1"}, 1024);
  EXPECT_EQ(find(undeclared, whole), all);
  Columns broken({"c1"}, 1024);
  EXPECT_EQ(broken.declare("no schema", "here"), LWMQ_OK) << "the reader judges it";
  EXPECT_EQ(find(broken, whole), all);
  Columns one = declared({"c1"});
  EXPECT_EQ(find(one, whole, LWMQ_BATCH_IPC_STREAM), all) << "without a schema in front";
  const std::string cut = whole.substr(0, whole.size() - 1);
  EXPECT_EQ(find(one, cut), (Ranges{{0, cut.size()}})) << "a body that is cut";
}

// Every byte of the schema and of the metadata changed to every extreme: ranges stay inside the batch.
TEST(Columns, NoByteOfAPeerLeadsOutsideOfItsBatch) {
  const auto check = [](Columns& columns, const std::string& bytes, std::uint32_t flags) {
    std::uint64_t end = 0;
    for (const auto& [offset, size] : find(columns, bytes, flags)) {
      ASSERT_TRUE(offset >= end && offset <= bytes.size() && size <= bytes.size() - offset);
      end = offset + size;
    }
  };
  const std::string stream = bytes_of("schema") + batch();
  const std::size_t metadata = bytes_of("schema").size() + bytes_of("head").size();
  for (std::size_t at = 0; at < metadata; ++at) {
    for (const char value : {'\0', '\x01', '\x7f', '\x80', '\xff'}) {
      std::string lie = stream;
      lie[at] = value;
      Columns columns({"c1", "c7"}, 1024);
      columns.declare(lie.substr(0, bytes_of("schema").size()), "here");
      check(columns, lie, LWMQ_BATCH_IPC_STREAM);
      check(columns, lie.substr(bytes_of("schema").size()), kOne);
    }
  }
}

}  // namespace
}  // namespace lwmq::stream
