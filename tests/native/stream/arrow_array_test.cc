// Arrays of the C data interface over batches: what a plan or a layout does not cover is refused, and a batch
// is released once, whichever of its arrays goes last.
#include "stream/client/arrow_array.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>

namespace {

// A record batch of two columns of 8 bytes, as a producer would export it.
struct Example {
  explicit Example(std::int64_t rows) {
    top_buffers = {nullptr};
    top = {rows, 0, 0, 1, 2, top_buffers.data(), children.data(), nullptr, nullptr, nullptr};
    for (std::size_t i = 0; i < 2; ++i) {
      buffers[i] = {nullptr, values[i].data()};
      columns[i] = {rows, 0, 0, 2, 0, buffers[i].data(), nullptr, nullptr, nullptr, nullptr};
      children[i] = &columns[i];
      for (std::size_t row = 0; row < values[i].size(); ++row) values[i][row] = 100 * i + row;
    }
  }
  std::array<std::array<std::uint64_t, 16>, 2> values;
  std::array<std::array<const void*, 2>, 2> buffers;
  std::array<const void*, 1> top_buffers;
  std::array<ArrowArray, 2> columns;
  std::array<ArrowArray*, 2> children{&columns[0], &columns[1]};
  ArrowArray top;
};

class ArrowArrays : public testing::Test {
 protected:
  void SetUp() override {
    address_ = "loop://arrow-array-" + std::to_string(getpid());
    lwmq_writer_options writing{};
    writing.size = sizeof writing;
    ASSERT_EQ(lwmq_writer_open(address_.c_str(), "s", 1, &writing, &writer_), LWMQ_OK) << lwmq_last_error();
    lwmq_reader_options reading{};
    reading.size = sizeof reading;
    ASSERT_EQ(lwmq_reader_open(address_.c_str(), &reading, &reader_), LWMQ_OK) << lwmq_last_error();
    plan_.size = sizeof plan_;
    plan_.head = head_.data();
    plan_.head_bytes = head_.size();
    plan_.rows_at = 8;
    plan_.body_bytes_at = 16;
    plan_.nodes_at = 24;
    plan_.buffers_at = 56;
    plan_.bits = bits_.data();
    plan_.column_count = 2;
    plan_.bytes_max = 4096;
  }
  void TearDown() override {
    if (reader_ != nullptr) lwmq_reader_close(reader_, 0);
    lwmq_writer_destroy(writer_);
  }

  lwmq_status write(const Example& example) {
    return lwmq_writer_write_array(writer_, &plan_, &example.top, 0, 1000);
  }

  lwmq_batch* read(lwmq_batch_info* out_info) {
    lwmq_batch* batch = nullptr;
    EXPECT_EQ(lwmq_reader_next(reader_, 60000, &batch), LWMQ_OK) << lwmq_last_error();
    out_info->size = sizeof *out_info;
    EXPECT_EQ(lwmq_batch_query(batch, out_info), LWMQ_OK);
    return batch;
  }

  // Arrays over the batch where `write` has laid its columns.
  static void point_into(const lwmq_batch_info& info, Example* example) {
    example->buffers[0][1] = info.data + 128;
    example->buffers[1][1] = info.data + 256;
  }

  std::uint64_t leased() {
    lwmq_reader_statistics now{};
    now.size = sizeof now;
    EXPECT_EQ(lwmq_reader_query(reader_, &now), LWMQ_OK);
    return now.leased_batches;
  }

  std::string address_;
  lwmq_writer* writer_ = nullptr;
  lwmq_reader* reader_ = nullptr;
  std::array<std::uint8_t, 128> head_{};
  std::array<std::uint32_t, 2> bits_{64, 64};
  lwmq_array_plan plan_{};
};

TEST_F(ArrowArrays, ABatchIsWrittenWithItsNumbers) {
  head_[0] = 7;
  ASSERT_EQ(write(Example(16)), LWMQ_OK) << lwmq_last_error();
  lwmq_batch_info info{};
  lwmq_batch* batch = read(&info);
  EXPECT_EQ(info.bytes, 128u + 2 * 128);
  EXPECT_EQ(info.rows, 16u);
  EXPECT_EQ(info.data[0], 7);
  const std::array<std::uint64_t, 14> numbers{16, 256, 16, 0, 16, 0, 0, 0, 0, 128, 128, 0, 128, 128};
  EXPECT_EQ(std::memcmp(info.data + 8, numbers.data(), sizeof numbers), 0);
  EXPECT_EQ(std::memcmp(info.data + 256, Example(16).values[1].data(), 128), 0);
  lwmq_batch_release(batch);
}

TEST_F(ArrowArrays, WhatAPlanDoesNotCoverIsRefusedBeforeAnythingWasDone) {
  EXPECT_EQ(write(Example(0)), LWMQ_E_UNSUPPORTED);
  Example other(4);
  other.columns[1].length = 3;
  EXPECT_EQ(write(other), LWMQ_E_UNSUPPORTED);
  Example deep(4);
  deep.columns[0].n_children = 1;
  EXPECT_EQ(write(deep), LWMQ_E_UNSUPPORTED);
  const std::uint8_t bitmap = 5;
  Example bits(4);
  bits.columns[0].offset = 3;
  bits.columns[0].null_count = -1;
  bits.buffers[0][0] = &bitmap;
  EXPECT_EQ(write(bits), LWMQ_E_UNSUPPORTED);
  plan_.bytes_max = 383;
  EXPECT_EQ(write(Example(16)), LWMQ_E_UNSUPPORTED);
  lwmq_writer_statistics now{};
  now.size = sizeof now;
  ASSERT_EQ(lwmq_writer_query(writer_, &now), LWMQ_OK);
  EXPECT_EQ(now.batches, 0u);
}

TEST_F(ArrowArrays, NullsInAColumnDeclaredNotNullAreRefusedWithItsNameAndTheirNumber) {
  const std::array<const char*, 2> not_null{nullptr, "price"};
  const std::uint16_t bitmap = 0b1110'1111'1111'1010;
  Example example(16);
  for (std::size_t i = 0; i < 2; ++i) {
    example.columns[i].null_count = -1;
    example.buffers[i][0] = &bitmap;
  }
  plan_.not_null = not_null.data();
  ASSERT_EQ(write(example), LWMQ_E_SCHEMA);
  EXPECT_EQ(std::string(lwmq_last_error()), "3 nulls in price, which the stream " + address_ +
                                                " declares not null: filter them out, or declare the field "
                                                "nullable");
  example.columns[1].null_count = 1;
  ASSERT_EQ(write(example), LWMQ_E_SCHEMA);
  EXPECT_EQ(std::string(lwmq_last_error()).substr(0, 15), "1 null in price");
  lwmq_writer_statistics now{};
  now.size = sizeof now;
  ASSERT_EQ(lwmq_writer_query(writer_, &now), LWMQ_OK);
  EXPECT_EQ(now.batches, 0u);

  example.columns[1].null_count = 0;  // nulls in the other column, which may have them
  EXPECT_EQ(write(example), LWMQ_OK) << lwmq_last_error();
  example.columns[1].null_count = -1;  // a caller that was built before plans said so
  plan_.size = offsetof(lwmq_array_plan, not_null);
  EXPECT_EQ(write(example), LWMQ_OK) << lwmq_last_error();
}

TEST_F(ArrowArrays, APlanWhoseNumbersLieOutsideOfItsHeadIsRefused) {
  for (std::uint64_t* place : {&plan_.rows_at, &plan_.body_bytes_at, &plan_.nodes_at, &plan_.buffers_at}) {
    const std::uint64_t good = *place;
    for (const std::uint64_t wrong : {std::uint64_t{121}, UINT64_MAX, UINT64_MAX - 7}) {
      *place = wrong;
      EXPECT_EQ(write(Example(4)), LWMQ_E_INVALID);
    }
    *place = good;
  }
  plan_.head_bytes = 100;
  EXPECT_EQ(write(Example(4)), LWMQ_E_INVALID);
}

TEST_F(ArrowArrays, ALayoutShowsBatchesWithTheSameHeadAndNoOthers) {
  ASSERT_EQ(write(Example(16)), LWMQ_OK);
  lwmq_batch_info info{};
  lwmq_batch* batch = read(&info);
  Example example(16);
  point_into(info, &example);
  lwmq_array_layout* layout = nullptr;
  ASSERT_EQ(lwmq_array_layout_create(&example.top, &info, info.data, 128, &layout), LWMQ_OK)
      << lwmq_last_error();
  lwmq_batch_release(batch);

  ASSERT_EQ(write(Example(16)), LWMQ_OK);
  batch = read(&info);
  ArrowArray shown{};
  ASSERT_EQ(lwmq_batch_export(batch, layout, &shown), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(shown.length, 16);
  EXPECT_EQ(shown.children[1]->buffers[1], info.data + 256);
  EXPECT_EQ(leased(), 1u);
  ArrowArray moved = *shown.children[1];  // as a consumer moves a child away
  shown.children[1]->release = nullptr;
  shown.release(&shown);
  EXPECT_EQ(shown.release, nullptr);
  EXPECT_EQ(leased(), 1u);
  moved.release(&moved);
  EXPECT_EQ(leased(), 0u);

  head_[0] = 1;  // another head, then another size, then other rows of the same size
  ASSERT_EQ(write(Example(16)), LWMQ_OK);
  batch = read(&info);
  EXPECT_EQ(lwmq_batch_export(batch, layout, &shown), LWMQ_E_EMPTY);
  lwmq_batch_release(batch);
  head_[0] = 0;
  for (const std::int64_t rows : {8, 15}) {
    ASSERT_EQ(write(Example(rows)), LWMQ_OK);
    batch = read(&info);
    EXPECT_EQ(lwmq_batch_export(batch, layout, &shown), LWMQ_E_EMPTY) << rows;
    lwmq_batch_release(batch);
  }
  lwmq_array_layout_destroy(layout);
}

TEST_F(ArrowArrays, ABufferOutsideOfTheBatchIsNoLayout) {
  ASSERT_EQ(write(Example(16)), LWMQ_OK);
  lwmq_batch_info info{};
  lwmq_batch* batch = read(&info);
  Example example(16);
  point_into(info, &example);
  lwmq_array_layout* layout = nullptr;
  EXPECT_EQ(lwmq_array_layout_create(&example.top, &info, info.data, info.bytes + 1, &layout),
            LWMQ_E_INVALID);
  example.buffers[1][1] = info.data + info.bytes + 1;
  EXPECT_EQ(lwmq_array_layout_create(&example.top, &info, info.data, 128, &layout), LWMQ_E_UNSUPPORTED);
  EXPECT_EQ(layout, nullptr);
  lwmq_batch_release(batch);
}

}  // namespace
