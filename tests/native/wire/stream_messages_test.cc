// The bytes that streams say: golden, and refused where they are cut, too long or of another size.
#include "wire/stream_messages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "golden.h"
#include "lwmq/lwmq.h"

namespace lwmq::wire {
namespace {

using testing_support::read_golden;

const auto& golden() {
  static const auto cases = read_golden(LWMQ_SOURCE_ROOT "/tests/wire/stream.hex");
  return cases;
}

template <typename Record>
std::string bytes_of(const Record& record) {
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

CommitJob commit_job() {
  CommitJob letter;
  letter.epoch = 7;
  letter.tasks.push_back({0, 0, 1, 3});
  letter.tasks.push_back({1, 1, 9, 0});
  return letter;
}

OpenReader open_reader() {
  OpenReader letter;
  letter.acknowledge = LWMQ_ACK_SETTLED;
  letter.named = 1, letter.name = "q";
  letter.task = "t", letter.attempt = 7;
  letter.ranges.push_back({2, LWMQ_SEQ_EARLIEST, LWMQ_SEQ_END});
  letter.job = "m", letter.epoch = 3, letter.tasks = {{4}};
  return letter;
}

HeldUp held_up() {
  HeldUp letter;
  letter.expelled = 1, letter.pid = 42, letter.name = "slow";
  letter.blocks = {{3}, {5}};
  return letter;
}

TaskCommitted task_committed() {
  TaskCommitted letter;
  letter.won = 1, letter.attempt = 7, letter.instance = "0123456789abcdef";
  letter.ranges = {{2, 5, 8, 3, 30, 1000}};
  return letter;
}

Join join() {
  Join letter;
  letter.create = 1, letter.stream = "prices";
  return letter;
}

Joined joined() {
  Joined letter;
  letter.status = LWMQ_E_EMPTY, letter.text = "a";
  return letter;
}

OpenProducer open_writer() {
  OpenProducer letter;
  letter.stall_ms = 5000, letter.expel_after_ms = 10'000;
  letter.window_bytes = kMiB;
  letter.schema = "s";
  return letter;
}

// rows: L48
TEST(StreamMessages, WritesTheGoldenBytes) {
  Publish publish{};
  publish.partition = 1, publish.window = 2, publish.slot = 3, publish.lap = 4;
  publish.offset = 64, publish.bytes = 1000, publish.rows = 10, publish.timestamp_ns = 123456789;
  publish.flags = LWMQ_BATCH_IPC_STREAM;
  Consumed consumed{};
  consumed.partition = 1, consumed.seq = 5;
  Settle settle;
  settle.acknowledge = 1, settle.name = "query";

  EXPECT_EQ(bytes_of(publish), golden().at("publish").bytes);
  EXPECT_EQ(bytes_of(consumed), golden().at("consumed").bytes);
  EXPECT_EQ(encode(settle), golden().at("settle").bytes);
  EXPECT_EQ(encode(commit_job()), golden().at("commit_job").bytes);
  EXPECT_EQ(encode(open_reader()), golden().at("open_reader").bytes);
  EXPECT_EQ(encode(held_up()), golden().at("held_up").bytes);
  EXPECT_EQ(encode(open_writer()), golden().at("open_writer").bytes);
  EXPECT_EQ(encode(task_committed()), golden().at("task_committed").bytes);
  EXPECT_EQ(encode(join()), golden().at("join").bytes);
  EXPECT_EQ(encode(joined()), golden().at("joined").bytes);
  EXPECT_EQ(golden().at("joined").kind, static_cast<std::uint32_t>(StreamKind::kJoined));
  EXPECT_EQ(golden().at("publish").kind, static_cast<std::uint32_t>(StreamKind::kPublish));
  EXPECT_EQ(golden().at("open_reader").kind, static_cast<std::uint32_t>(StreamKind::kOpenReader));
}

// rows: L48
TEST(StreamMessages, ReadsBackWhatItWrote) {
  CommitJob job;
  ASSERT_TRUE(decode(golden().at("commit_job").bytes, &job));
  ASSERT_EQ(job.tasks.size(), 2u);
  EXPECT_EQ(job.epoch, 7u);
  EXPECT_EQ(job.tasks[1].attempt, 9u);
  OpenReader reader;
  ASSERT_TRUE(decode(golden().at("open_reader").bytes, &reader));
  EXPECT_EQ(reader.name, "q");
  EXPECT_EQ(reader.task, "t");
  EXPECT_EQ(reader.attempt, 7u);
  EXPECT_EQ(reader.ranges.at(0).end, LWMQ_SEQ_END);
  EXPECT_EQ(reader.job, "m");
  EXPECT_EQ(reader.epoch, 3u);
  EXPECT_EQ(reader.tasks.at(0).task, 4u);
}

TEST(StreamMessages, RefusesALetterThatIsCutOrContinued) {
  for (const char* name : {"settle", "commit_job", "open_reader", "held_up", "open_writer", "task_committed",
                           "join", "joined"}) {
    const std::string whole = golden().at(name).bytes;
    for (std::size_t length = 0; length <= whole.size() + 1; ++length) {
      const std::string bytes = (whole + '\0').substr(0, length);
      Settle settle;
      CommitJob job;
      OpenReader reader;
      HeldUp held;
      OpenProducer producer;
      TaskCommitted task;
      Join joining;
      Joined answer;
      const std::map<std::string, std::function<bool()>> decoders = {
          {"settle", [&] { return decode(bytes, &settle); }},
          {"commit_job", [&] { return decode(bytes, &job); }},
          {"task_committed", [&] { return decode(bytes, &task); }},
          {"open_reader", [&] { return decode(bytes, &reader); }},
          {"held_up", [&] { return decode(bytes, &held); }},
          {"open_writer", [&] { return decode(bytes, &producer); }},
          {"join", [&] { return decode(bytes, &joining); }},
          {"joined", [&] { return decode(bytes, &answer); }}};
      const bool read = decoders.at(name)();
      EXPECT_EQ(read, length == whole.size()) << name << ", " << length << " of " << whole.size() << " bytes";
    }
  }
}

TEST(StreamMessages, RefusesCountsThatAreNotThere) {
  std::string bytes = golden().at("commit_job").bytes;
  const std::uint32_t many = 0xffffffff;
  std::memcpy(bytes.data() + 8, &many, sizeof many);
  CommitJob job;
  EXPECT_FALSE(decode(bytes, &job));
  EXPECT_LE(job.tasks.size(), 3u);  // nothing was reserved for what never came
}

}  // namespace
}  // namespace lwmq::wire
