// Streams through lwmq.h, both ends in this process: what a writer, a reader and a job see of each other.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "lwmq/lwmq.h"
#include "stream/log/log.h"

namespace {

constexpr char kSchema[] = "schema bytes: the library does not read them";

class Stream : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    static std::atomic<int> number{0};
    address_ = std::string(GetParam()) + "://stream-test-" + std::to_string(getpid()) + "-" +
               std::to_string(number++);
  }

  lwmq_writer* open_writer(lwmq_writer_options options = {}) {
    options.size = sizeof options;
    lwmq_writer* writer = nullptr;
    const lwmq_status status = lwmq_writer_open(address_.c_str(), kSchema, sizeof kSchema, &options, &writer);
    EXPECT_EQ(status, LWMQ_OK) << lwmq_last_error();
    return writer;
  }

  // Of a job's tasks, and of its driver, beside an endpoint.
  static lwmq_writer_options in_job(const char* job, std::uint32_t delivery) {
    lwmq_writer_options options{};
    options.size = sizeof options;
    options.role = LWMQ_ROLE_CLIENT;
    options.job = job;
    options.delivery = delivery;
    return options;
  }

  lwmq_job* open_job(lwmq_writer_options options) {
    options.size = sizeof options;
    lwmq_job* job = nullptr;
    EXPECT_EQ(lwmq_job_open(address_.c_str(), kSchema, sizeof kSchema, &options, &job), LWMQ_OK)
        << lwmq_last_error();
    return job;
  }

  lwmq_reader* open_reader(lwmq_reader_options options = {}) {
    options.size = sizeof options;
    lwmq_reader* reader = nullptr;
    const lwmq_status status = lwmq_reader_open(address_.c_str(), &options, &reader);
    EXPECT_EQ(status, LWMQ_OK) << lwmq_last_error();
    return reader;
  }

  static lwmq_status write(lwmq_writer* writer, std::uint64_t number, std::uint32_t partition = 0,
                           std::uint64_t bytes = 1000, std::uint32_t timeout_ms = 60000) {
    lwmq_block block;
    lwmq_status status = lwmq_writer_allocate(writer, bytes, timeout_ms, &block);
    if (status != LWMQ_OK) return status;
    std::memset(block.data, 0, bytes);
    std::memcpy(block.data, &number, sizeof number);
    std::memcpy(block.data + bytes - sizeof number, &number, sizeof number);
    return lwmq_writer_publish(writer, &block, partition, bytes, 1, LWMQ_BATCH_IPC_MESSAGE);
  }

  struct Read {
    lwmq_status status = LWMQ_OK;
    std::vector<std::uint64_t> numbers;
  };

  // Reads to the end; checks that each batch is whole.
  static Read read_all(lwmq_reader* reader, std::uint32_t timeout_ms = 60000) {
    Read result;
    for (;;) {
      lwmq_batch* batch = nullptr;
      result.status = lwmq_reader_next(reader, timeout_ms, &batch);
      if (result.status != LWMQ_OK) return result;
      lwmq_batch_info info{};
      info.size = sizeof info;
      lwmq_batch_query(batch, &info);
      std::uint64_t first = 0, last = 1;
      std::memcpy(&first, info.data, sizeof first);
      std::memcpy(&last, info.data + info.bytes - sizeof last, sizeof last);
      EXPECT_EQ(first, last);
      result.numbers.push_back(first);
      lwmq_batch_release(batch);
    }
  }

  static std::vector<std::uint64_t> iota(std::uint64_t count) {
    std::vector<std::uint64_t> numbers(count);
    for (std::uint64_t i = 0; i < count; ++i) numbers[i] = i;
    return numbers;
  }

  std::string address_;
};

TEST_P(Stream, RefusesOptionsOfTheAddressThatNobodyWouldRead) {
  const std::string address = address_ + "?window_bytes=8MiB";
  lwmq_writer_options options{};
  options.size = sizeof options;
  lwmq_writer* writer = nullptr;
  EXPECT_EQ(lwmq_writer_open(address.c_str(), kSchema, sizeof kSchema, &options, &writer), LWMQ_E_ADDRESS);
  EXPECT_NE(std::strstr(lwmq_last_error(), "members of lwmq_writer_options"), nullptr) << lwmq_last_error();
  lwmq_endpoint* endpoint = nullptr;
  EXPECT_EQ(lwmq_endpoint_open(address.c_str(), &endpoint), LWMQ_E_ADDRESS) << lwmq_last_error();
}

TEST_P(Stream, DeliversEveryBatchInOrderAndEnds) {
  lwmq_writer* writer = open_writer();
  std::thread reading([&] {
    lwmq_reader* reader = open_reader();
    const Read read = read_all(reader);
    EXPECT_EQ(read.status, LWMQ_E_END) << lwmq_last_error();
    EXPECT_EQ(read.numbers, iota(1000));
    lwmq_reader_close(reader, 1000);
  });
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(write(writer, i), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  reading.join();
  lwmq_writer_destroy(writer);
}

TEST_P(Stream, ASchemaMayHaveTensOfMegabytes) {
  std::string schema(20 << 20, '\0');
  for (std::size_t i = 0; i < schema.size(); ++i) schema[i] = static_cast<char>(i * 2654435761U >> 13);
  lwmq_writer_options options{};
  options.size = sizeof options;
  lwmq_writer* writer = nullptr;
  ASSERT_EQ(lwmq_writer_open(address_.c_str(), schema.data(), schema.size(), &options, &writer), LWMQ_OK)
      << lwmq_last_error();
  const void* bytes = nullptr;
  std::uint64_t count = 0;
  const auto same = [&] { return count == schema.size() && std::memcmp(bytes, schema.data(), count) == 0; };
  std::uint32_t partitions = 0;
  EXPECT_EQ(lwmq_writer_schema(writer, &bytes, &count, &partitions), LWMQ_OK);
  EXPECT_TRUE(same());
  lwmq_reader* reader = open_reader();
  EXPECT_EQ(lwmq_reader_schema(reader, 5000, &bytes, &count), LWMQ_OK) << lwmq_last_error();
  EXPECT_TRUE(same());
  lwmq_writer* second = nullptr;
  ASSERT_EQ(lwmq_writer_open(address_.c_str(), kSchema, sizeof kSchema, &options, &second), LWMQ_OK);
  EXPECT_EQ(lwmq_writer_schema(second, &bytes, &count, &partitions), LWMQ_OK);
  EXPECT_TRUE(same());
  lwmq_writer_destroy(second);
  lwmq_reader_close(reader, 0);
  lwmq_writer_destroy(writer);
  schema.resize((64 << 20) + 1);
  EXPECT_EQ(lwmq_writer_open(address_.c_str(), schema.data(), schema.size(), &options, &writer),
            LWMQ_E_SCHEMA);
  EXPECT_NE(std::string(lwmq_last_error()).find("a schema of 67108865 bytes; 1 to 67108864 are possible"),
            std::string::npos)
      << lwmq_last_error();
}

TEST_P(Stream, StartOrderDoesNotMatter) {
  std::thread reading([&] {
    lwmq_reader* reader = open_reader();
    const Read read = read_all(reader);
    EXPECT_EQ(read.status, LWMQ_E_END) << lwmq_last_error();
    EXPECT_EQ(read.numbers, iota(10));
    EXPECT_EQ(lwmq_reader_close(reader, 60000), LWMQ_OK) << lwmq_last_error();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  lwmq_writer* writer = open_writer();
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_EQ(write(writer, i), LWMQ_OK);
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(writer);
  reading.join();
}

TEST_P(Stream, AStreamTenTimesItsWindowPasses) {
  lwmq_writer_options options{};
  options.window_bytes = 1 << 20;
  lwmq_writer* writer = open_writer(options);
  std::thread reading([&] {
    lwmq_reader* reader = open_reader();
    EXPECT_EQ(read_all(reader).numbers, iota(100));
    lwmq_reader_close(reader, 1000);
  });
  for (std::uint64_t i = 0; i < 100; ++i)
    ASSERT_EQ(write(writer, i, 0, 100'000), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_query(writer, nullptr);
  reading.join();
  lwmq_writer_destroy(writer);
}

TEST_P(Stream, AWriterWaitsForRoomAndSaysWhoHoldsIt) {
  lwmq_writer_options options{};
  options.window_bytes = 1 << 20;
  lwmq_writer* writer = open_writer(options);
  lwmq_status status = LWMQ_OK;
  for (std::uint64_t i = 0; i < 100 && status == LWMQ_OK; ++i) status = write(writer, i, 0, 100'000, 50);
  EXPECT_EQ(status, LWMQ_E_TIMED_OUT);
  EXPECT_NE(std::string(lwmq_last_error()).find("batches not yet read"), std::string::npos)
      << lwmq_last_error();
  lwmq_block block;
  EXPECT_EQ(lwmq_writer_allocate(writer, 2 << 20, 0, &block), LWMQ_E_TOO_BIG);
  lwmq_writer_destroy(writer);
}

TEST_P(Stream, LeasedBatchesAreNeverRewritten) {
  lwmq_writer_options options{};
  options.window_bytes = 1 << 20;
  lwmq_writer* writer = open_writer(options);
  lwmq_reader* reader = open_reader();
  std::thread writing([&] {
    for (std::uint64_t i = 0; i < 60; ++i)
      ASSERT_EQ(write(writer, i, 0, 100'000), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  });
  std::vector<lwmq_batch*> held;
  lwmq_batch* batch = nullptr;
  lwmq_status status = LWMQ_OK;
  while ((status = lwmq_reader_next(reader, 60000, &batch)) == LWMQ_OK) held.push_back(batch);
  EXPECT_EQ(status, LWMQ_E_END) << lwmq_last_error();
  writing.join();
  ASSERT_EQ(held.size(), 60u);
  std::uint64_t copied = 0;
  for (std::uint64_t i = 0; i < held.size(); ++i) {
    lwmq_batch_info info{};
    info.size = sizeof info;
    lwmq_batch_query(held[i], &info);
    std::uint64_t number = 0;
    std::memcpy(&number, info.data, sizeof number);
    EXPECT_EQ(number, i);
    copied += info.copied;
    lwmq_batch_release(held[i]);
  }
  EXPECT_GT(copied, 40u);
  EXPECT_LT(copied, 60u);
  lwmq_reader_close(reader, 1000);
  lwmq_writer_destroy(writer);
}

TEST_P(Stream, AWaitTakesNothing) {
  lwmq_writer* writer = open_writer();
  lwmq_reader* reader = open_reader();
  EXPECT_EQ(lwmq_reader_wait(reader, 20), LWMQ_E_TIMED_OUT);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(write(writer, i), LWMQ_OK);
  for (std::uint64_t i = 0; i < 3; ++i) {
    for (int again = 0; again < 2; ++again) {
      ASSERT_EQ(lwmq_reader_wait(reader, 60000), LWMQ_OK) << lwmq_last_error();
    }
    lwmq_batch* batch = nullptr;
    ASSERT_EQ(lwmq_reader_next(reader, 0, &batch), LWMQ_OK) << lwmq_last_error();
    lwmq_batch_info info{};
    info.size = sizeof info;
    lwmq_batch_query(batch, &info);
    EXPECT_EQ(info.seq, i);
    lwmq_batch_release(batch);
  }
  EXPECT_EQ(lwmq_reader_wait(reader, 0), LWMQ_E_TIMED_OUT) << "what next lent last is consumed by the wait";
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_reader_wait(reader, 60000), LWMQ_OK) << "the end is an answer, too";
  lwmq_batch* batch = nullptr;
  EXPECT_EQ(lwmq_reader_next(reader, 0, &batch), LWMQ_E_END);
  lwmq_reader_close(reader, 0);
  lwmq_writer_destroy(writer);
}

TEST_P(Stream, ReadersOfTheSameStreamShareOneWindow) {
  lwmq_writer_options options{};
  options.readers = 2;
  lwmq_writer* writer = open_writer(options);
  lwmq_reader* readers[2] = {open_reader(), open_reader()};
  ASSERT_EQ(write(writer, 7), LWMQ_OK);
  const std::uint8_t* data[2];
  lwmq_batch* batches[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(lwmq_reader_next(readers[i], 60000, &batches[i]), LWMQ_OK) << lwmq_last_error();
    lwmq_batch_info info{};
    info.size = sizeof info;
    lwmq_batch_query(batches[i], &info);
    data[i] = info.data;
    EXPECT_EQ(info.copied, 0u);
  }
  EXPECT_EQ(data[0], data[1]);
  for (int i = 0; i < 2; ++i) {
    lwmq_batch_release(batches[i]);
    lwmq_reader_consume(readers[i]);
  }
  std::thread ending([&] { EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error(); });
  for (auto* reader : readers) {
    EXPECT_EQ(read_all(reader).status, LWMQ_E_END);
    lwmq_reader_close(reader, 1000);
  }
  ending.join();
  lwmq_writer_destroy(writer);
}

TEST_P(Stream, AnAbortComesAfterWhatWasVisible) {
  lwmq_reader* reader = open_reader();
  lwmq_writer* writer = open_writer();
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(write(writer, i), LWMQ_OK);
  EXPECT_EQ(lwmq_writer_abort(writer, "the feed broke"), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(writer);
  const Read read = read_all(reader);
  EXPECT_EQ(read.numbers, iota(3));
  EXPECT_EQ(read.status, LWMQ_E_ABORTED);
  EXPECT_NE(std::string(lwmq_last_error()).find("the feed broke"), std::string::npos) << lwmq_last_error();
  lwmq_reader_close(reader, 1000);
}

TEST_P(Stream, TheFirstCommitOfATaskWins) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_options options{};
  options.size = sizeof options;
  options.role = LWMQ_ROLE_CLIENT;
  options.job = "job-1";
  options.delivery = LWMQ_DELIVERY_TASK;
  lwmq_job* job = open_job(options);
  lwmq_task_commit commits[1] = {};
  for (std::uint64_t attempt = 1; attempt <= 2; ++attempt) {
    options.attempt = attempt;
    lwmq_writer* writer = open_writer(options);
    ASSERT_EQ(write(writer, 0), LWMQ_OK);
    ASSERT_EQ(write(writer, 1), LWMQ_OK);
    lwmq_commit_result result{};
    result.size = sizeof result;
    ASSERT_EQ(lwmq_writer_commit(writer, 60000, &result), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(result.won, attempt == 1 ? 1u : 0u);
    EXPECT_EQ(result.attempt, 1u);
    EXPECT_EQ(result.batches, 2u);
    commits[0] = {0, result.partition, result.attempt, result.batches};
    EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
    lwmq_writer_destroy(writer);
  }
  EXPECT_EQ(lwmq_job_commit(job, 0, commits, 1, 60000), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_job_commit(job, 0, commits, 1, 60000), LWMQ_OK) << lwmq_last_error();
  commits[0].attempt = 9;
  EXPECT_EQ(lwmq_job_commit(job, 0, commits, 1, 60000), LWMQ_E_DATA_LOSS);
  EXPECT_EQ(lwmq_job_close(job), LWMQ_OK) << lwmq_last_error();
  lwmq_reader* reader = open_reader();
  const Read read = read_all(reader);
  EXPECT_EQ(read.numbers, iota(2));
  EXPECT_EQ(read.status, LWMQ_E_END);
  lwmq_reader_close(reader, 1000);
  lwmq_endpoint_close(endpoint, 1000);
}

TEST_P(Stream, ATaskThatComesBehindTheEndOfItsJobHasNotWon) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_options options = in_job("job-of-one-task", LWMQ_DELIVERY_TASK);
  options.job_tasks = 1;
  std::vector<lwmq_writer*> writers;
  for (options.task = 0; options.task < 2; ++options.task) {
    writers.push_back(open_writer(options));
    ASSERT_EQ(write(writers.back(), options.task, LWMQ_PARTITION_OF_TASK), LWMQ_OK);
  }
  for (std::uint32_t task = 0; task < 2; ++task) {
    lwmq_commit_result result{};
    result.size = sizeof result;
    ASSERT_EQ(lwmq_writer_commit(writers[task], 60000, &result), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(result.won, task == 0 ? 1u : 0u);
    EXPECT_EQ(result.range_count, task == 0 ? 1u : 0u);
    EXPECT_EQ(lwmq_writer_close(writers[task], 60000), LWMQ_OK) << lwmq_last_error();
    lwmq_writer_destroy(writers[task]);
  }
  lwmq_reader* reader = open_reader();
  EXPECT_EQ(read_all(reader).numbers, iota(1));
  lwmq_reader_close(reader, 1000);
  lwmq_endpoint_close(endpoint, 1000);
}

TEST_P(Stream, ATaskCommitsAllItsPartitionsTogether) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_options options = in_job("job-of-several-partitions", LWMQ_DELIVERY_JOB);
  options.partitions = 3;
  options.task = 5;
  lwmq_job* job = open_job(options);
  lwmq_writer* writer = open_writer(options);
  ASSERT_EQ(write(writer, 0, 1), LWMQ_OK);
  ASSERT_EQ(write(writer, 1, 0), LWMQ_OK);
  ASSERT_EQ(write(writer, 2, LWMQ_PARTITION_OF_TASK), LWMQ_OK);
  ASSERT_EQ(write(writer, 3, 1), LWMQ_OK);
  EXPECT_EQ(write(writer, 4, 3), LWMQ_E_INVALID);
  lwmq_commit_result result{};
  result.size = sizeof result;
  ASSERT_EQ(lwmq_writer_commit(writer, 60000, &result), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(result.batches, 4u);
  ASSERT_EQ(result.range_count, 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(result.ranges[i].partition, i);
    EXPECT_EQ(result.ranges[i].batches, i == 1 ? 2u : 1u);
    EXPECT_EQ(result.ranges[i].end_seq, result.ranges[i].start_seq) << "the job has not committed";
  }
  const lwmq_task_commit commits[1] = {{5, 0, 0, 4}};
  EXPECT_EQ(lwmq_job_commit(job, 0, commits, 1, 60000), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(writer);
  EXPECT_EQ(lwmq_job_close(job), LWMQ_OK) << lwmq_last_error();
  lwmq_reader* reader = open_reader();
  const Read read = read_all(reader);
  EXPECT_EQ(read.numbers, iota(4));
  EXPECT_EQ(read.status, LWMQ_E_END);
  lwmq_reader_close(reader, 1000);
  lwmq_endpoint_close(endpoint, 1000);
}

// rows: P30
TEST_P(Stream, AReaderOfTasksGetsWhatTheyHaveCommittedAndTheEnd) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_options options = in_job("job-that-is-read-by-tasks", LWMQ_DELIVERY_TASK);
  options.partitions = 2;
  options.retain = LWMQ_RETAIN_ALL;
  lwmq_job* job = open_job(options);
  for (options.task = 0; options.task < 4; ++options.task) {  // the last one does not commit
    lwmq_writer* writer = open_writer(options);
    for (std::uint32_t i = 0; i < 3; ++i) ASSERT_EQ(write(writer, 10 * options.task + i, i % 2), LWMQ_OK);
    lwmq_commit_result result{};
    result.size = sizeof result;
    if (options.task < 3) {
      EXPECT_EQ(lwmq_writer_commit(writer, 60000, &result), LWMQ_OK) << lwmq_last_error();
    }
    lwmq_writer_abort(writer, "enough");
    lwmq_writer_destroy(writer);
  }
  const auto read = [&](std::vector<std::uint32_t> tasks, std::vector<std::uint32_t> partitions = {0, 1}) {
    std::vector<lwmq_range> ranges;
    for (const std::uint32_t p : partitions) ranges.push_back({p, 0, LWMQ_SEQ_EARLIEST, LWMQ_SEQ_END});
    lwmq_reader_options of_tasks{};
    of_tasks.job = options.job;
    of_tasks.tasks = tasks.data(), of_tasks.task_count = static_cast<std::uint32_t>(tasks.size());
    of_tasks.ranges = ranges.data(), of_tasks.range_count = static_cast<std::uint32_t>(ranges.size());
    lwmq_reader* reader = open_reader(of_tasks);
    const Read result = read_all(reader);
    lwmq_reader_close(reader, 1000);
    return result;
  };
  using Numbers = std::vector<std::uint64_t>;
  const auto [end, lost] = std::pair(LWMQ_E_END, LWMQ_E_DATA_LOSS);
  EXPECT_EQ(read({0, 1, 2}).numbers, (Numbers{0, 1, 2, 10, 11, 12, 20, 21, 22}));
  EXPECT_EQ(read({2, 0}, {0}).numbers, (Numbers{0, 2, 20, 22}));
  EXPECT_EQ(read({1}, {1}).numbers, Numbers{11});
  EXPECT_EQ(read({1}, {1}).status, end) << "the job goes on, and the reader ends";
  EXPECT_EQ(read({}).status, end);
  EXPECT_EQ(read({0, 3}).status, lost);
  EXPECT_NE(std::strstr(lwmq_last_error(), "task 3 of job"), nullptr) << lwmq_last_error();
  EXPECT_EQ(read({7}, {1}).status, lost) << "an unknown task is no empty one";
  EXPECT_EQ(lwmq_job_close(job), LWMQ_OK) << lwmq_last_error();
  lwmq_endpoint_close(endpoint, 1000);
}

// A task that commits nothing before its end: its reader cannot give it any room.
TEST_P(Stream, AStagedBatchOfAnySizeThatFitsTheWindowNeverWaitsForTheTasksOwnCommit) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK) << lwmq_last_error();
  constexpr std::uint64_t kWindow = 1 << 20;
  const std::vector<std::vector<std::uint64_t>> tasks = {
      {1000, kWindow},  // the small one takes a window of its own
      {1000, 600'000, 1000, kWindow, 300'000},
      {kWindow, kWindow, kWindow},
      {1000, 2 * kWindow, 1000},  // larger than the window: beside staged batches, in staging
  };
  int jobs = 0;
  for (std::uint32_t delivery : {LWMQ_DELIVERY_TASK, LWMQ_DELIVERY_JOB}) {
    for (const auto& sizes : tasks) {
      lwmq_writer_options options{};
      options.role = LWMQ_ROLE_CLIENT;
      const std::string name = "job-" + std::to_string(jobs++);
      options.job = name.c_str();
      options.delivery = delivery;
      options.window_bytes = kWindow;
      options.staging_bytes = 4 * kWindow;
      lwmq_job* job = open_job(options);
      lwmq_writer* writer = open_writer(options);
      for (const std::uint64_t bytes : sizes) {
        EXPECT_EQ(write(writer, 0, 0, bytes, 2000), LWMQ_OK) << lwmq_last_error();
      }
      EXPECT_EQ(lwmq_writer_abort(writer, "enough"), LWMQ_OK);
      lwmq_writer_destroy(writer);
      EXPECT_EQ(lwmq_job_close(job), LWMQ_OK) << lwmq_last_error();
    }
  }
  lwmq_endpoint_close(endpoint, 0);
}

TEST_P(Stream, AStagingAreaThatIsFullFailsAtOnceWithItsNumbers) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_options options{};
  options.role = LWMQ_ROLE_CLIENT;
  options.job = "job-that-stages-too-much";
  options.delivery = LWMQ_DELIVERY_TASK;
  options.window_bytes = 1 << 20;
  options.staging_bytes = 2 << 20;
  lwmq_job* job = open_job(options);
  lwmq_writer* writer = open_writer(options);
  lwmq_status status = LWMQ_OK;
  std::uint64_t written = 0;
  for (; status == LWMQ_OK && written < 100; ++written) {
    status = write(writer, written, 0, written % 2 == 0 ? 1000 : 900'000, LWMQ_FOREVER);
  }
  EXPECT_EQ(status, LWMQ_E_NO_MEMORY) << lwmq_last_error();
  EXPECT_GE(written, 3u);
  const std::string text = lwmq_last_error();
  EXPECT_NE(text.find("staging_bytes is 2097152 beside a window of 1048576"), std::string::npos) << text;
  EXPECT_EQ(lwmq_writer_abort(writer, "enough"), LWMQ_OK);
  lwmq_writer_destroy(writer);
  EXPECT_EQ(lwmq_job_close(job), LWMQ_OK) << lwmq_last_error();
  lwmq_endpoint_close(endpoint, 0);
}

// promise: the word of a success / then
TEST_P(Stream, ASettledReadIsAcknowledgedOrReadAgain) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK);
  lwmq_writer* writer = open_writer();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_EQ(write(writer, i), LWMQ_OK);
  EXPECT_EQ(lwmq_writer_close(writer, 50), LWMQ_E_TIMED_OUT);
  for (int round = 0; round < 2; ++round) {
    lwmq_reader_options options{};
    options.acknowledge = LWMQ_ACK_SETTLED;
    options.name = "query";
    lwmq_reader* reader = open_reader(options);
    EXPECT_EQ(read_all(reader).numbers, iota(5));
    lwmq_reader_close(reader, 1000);
    EXPECT_EQ(lwmq_stream_settle(address_.c_str(), "query", round == 1, 60000), LWMQ_OK) << lwmq_last_error();
  }
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(writer);
  lwmq_stream_state* state = nullptr;
  ASSERT_EQ(lwmq_stream_describe(address_.c_str(), 1, 60000, &state), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(state->state, static_cast<std::uint32_t>(LWMQ_STREAM_CONSUMED));
  EXPECT_EQ(state->partitions[0].unacked_seq, 5u);
  EXPECT_EQ(state->schema_bytes, sizeof kSchema);
  lwmq_stream_state_destroy(state);
  lwmq_endpoint_close(endpoint, 1000);
}

TEST_P(Stream, AnEmptyStreamIsReadByItsEnd) {
  std::thread reading([&] {
    lwmq_reader* reader = open_reader();
    const Read read = read_all(reader);
    EXPECT_EQ(read.status, LWMQ_E_END) << lwmq_last_error();
    EXPECT_TRUE(read.numbers.empty());
    lwmq_reader_close(reader, 1000);
  });
  lwmq_writer* writer = open_writer();
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  reading.join();
  lwmq_writer_destroy(writer);
}

TEST_P(Stream, AReadByNumbersLetsTheWriterGo) {
  lwmq_writer* writer = open_writer();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(write(writer, i), LWMQ_OK);
  EXPECT_EQ(lwmq_writer_close(writer, 50), LWMQ_E_TIMED_OUT);
  const lwmq_range range{0, 0, 0, 4};
  lwmq_reader_options options{};
  options.ranges = &range;
  options.range_count = 1;
  lwmq_reader* reader = open_reader(options);
  EXPECT_EQ(read_all(reader).numbers, iota(4));
  lwmq_reader_close(reader, 1000);
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(writer);
}

TEST_P(Stream, APartOfAPlannedReadThatComesLateHearsOfTheEnd) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK);
  lwmq_writer_options writing{};
  writing.partitions = 2;
  lwmq_writer* writer = open_writer(writing);
  ASSERT_EQ(write(writer, 0), LWMQ_OK);
  lwmq_reader_options options{};
  lwmq_range range{0, 0, 0, LWMQ_SEQ_END};
  options.ranges = &range;
  options.range_count = 1;
  lwmq_reader* first = open_reader(options);
  ASSERT_EQ(lwmq_writer_close(writer, 0), LWMQ_E_TIMED_OUT);  // ended; not read yet
  lwmq_writer_destroy(writer);
  const Read read = read_all(first);
  EXPECT_EQ(read.status, LWMQ_E_END);
  EXPECT_EQ(read.numbers, iota(1));
  lwmq_reader_statistics statistics{};
  statistics.size = sizeof statistics;
  ASSERT_EQ(lwmq_reader_query(first, &statistics), LWMQ_OK);
  lwmq_reader_close(first, 0);

  range.partition = 1;  // nothing was ever written there
  lwmq_batch* batch = nullptr;
  lwmq_reader* newcomer = open_reader(options);
  EXPECT_EQ(lwmq_reader_next(newcomer, 50, &batch), LWMQ_E_TIMED_OUT) << "it waits for the next producer";
  lwmq_reader_close(newcomer, 0);
  options.generation = statistics.generation;
  lwmq_reader* second = open_reader(options);
  EXPECT_EQ(lwmq_reader_next(second, 60000, &batch), LWMQ_E_END) << lwmq_last_error();
  lwmq_reader_close(second, 0);
  lwmq_endpoint_close(endpoint, 1000);

  options.size = sizeof options;
  options.role = LWMQ_ROLE_CLIENT;
  EXPECT_EQ(lwmq_reader_open(address_.c_str(), &options, &second), LWMQ_E_CLOSED) << "it is gone for good";
}

TEST_P(Stream, WhatWasReleasedIsDataLoss) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK);
  lwmq_writer* writer = open_writer();
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(write(writer, i), LWMQ_OK);
  const lwmq_range range{0, 0, 0, 4};
  lwmq_reader_options options{};
  options.ranges = &range;
  options.range_count = 1;
  for (int round = 0; round < 2; ++round) {
    lwmq_reader* reader = open_reader(options);
    const Read read = read_all(reader);
    EXPECT_EQ(read.status, round == 0 ? LWMQ_E_END : LWMQ_E_DATA_LOSS) << lwmq_last_error();
    EXPECT_EQ(read.numbers.size(), round == 0 ? 4u : 0u);
    lwmq_reader_close(reader, 1000);
  }
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(writer);
  lwmq_endpoint_close(endpoint, 1000);
}

// rows: P15
TEST_P(Stream, AnAttemptGivesWayToOneThatReadsOn) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK);
  lwmq_writer_options writing{};
  writing.window_bytes = 8192;
  writing.buffer_bytes = 1024;
  lwmq_writer* writer = open_writer(writing);
  lwmq_reader_options options{};
  options.acknowledge = LWMQ_ACK_SETTLED;
  options.credit = 1;
  options.task = "stage/0/3";
  const auto open_attempt = [&](std::uint64_t attempt) {
    options.attempt = attempt;
    return open_reader(options);
  };
  const lwmq_range range{0, 0, 0, LWMQ_SEQ_END};
  options.ranges = &range;
  options.range_count = 1;
  lwmq_reader* first = open_attempt(1);
  lwmq_batch* batch = nullptr;
  for (std::uint64_t i = 0; i < 20; ++i) {  // far more than the window: the oldest are released
    ASSERT_EQ(write(writer, i), LWMQ_OK) << lwmq_last_error();
    ASSERT_EQ(lwmq_reader_next(first, 60000, &batch), LWMQ_OK) << lwmq_last_error();
    lwmq_batch_release(batch);
  }
  lwmq_reader* second = open_attempt(2);
  EXPECT_EQ(lwmq_reader_next(second, 60000, &batch), LWMQ_E_SUPERSEDED);
  const std::string text = lwmq_last_error();
  EXPECT_NE(text.find("Attempt 1 at stage/0/3, in process " + std::to_string(getpid())), std::string::npos)
      << text;
  // Neither one that was told so, nor another reader of the same attempt, nor one at another task.
  lwmq_reader* third = open_attempt(1);
  EXPECT_EQ(lwmq_reader_next(third, 60000, &batch), LWMQ_E_DATA_LOSS);
  options.task = "stage/0/4";
  lwmq_reader* other = open_attempt(2);
  EXPECT_EQ(lwmq_reader_next(other, 60000, &batch), LWMQ_E_DATA_LOSS);
  options.task = "stage/0/3";
  lwmq_reader_close(first, 0);
  lwmq_reader* fourth = open_attempt(3);
  EXPECT_EQ(lwmq_reader_next(fourth, 60000, &batch), LWMQ_E_DATA_LOSS);
  for (lwmq_reader* reader : {second, third, other, fourth}) lwmq_reader_close(reader, 0);
  lwmq_writer_destroy(writer);
  lwmq_endpoint_close(endpoint, 0);
}

TEST_P(Stream, ConsumedBatchesMakeRoomForAWriterThatWaits) {
  lwmq_writer_options writing{};
  writing.window_bytes = 1 << 20;
  lwmq_writer* writer = open_writer(writing);
  lwmq_reader_options options{};
  options.acknowledge = LWMQ_ACK_SETTLED;
  options.name = "query";
  lwmq_reader* reader = open_reader(options);
  std::thread reading([&] { EXPECT_EQ(read_all(reader).numbers, iota(100)); });
  for (std::uint64_t i = 0; i < 100; ++i)
    ASSERT_EQ(write(writer, i, 0, 100'000), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  reading.join();
  lwmq_reader_close(reader, 1000);
  lwmq_writer_destroy(writer);
}

TEST_P(Stream, AQuestionWaitsForTheSchemaAndSaysWhatItWaitedFor) {
  lwmq_stream_state* state = nullptr;
  EXPECT_EQ(lwmq_stream_describe(address_.c_str(), 1, 150, &state), LWMQ_E_TIMED_OUT);
  EXPECT_NE(std::string(lwmq_last_error()).find("nobody serves"), std::string::npos);
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK);
  EXPECT_EQ(lwmq_stream_describe(address_.c_str(), 1, 150, &state), LWMQ_E_TIMED_OUT);
  EXPECT_NE(std::string(lwmq_last_error()).find("schema"), std::string::npos);
  ASSERT_EQ(lwmq_stream_describe(address_.c_str(), 0, 150, &state), LWMQ_OK);
  EXPECT_EQ(state->state, static_cast<std::uint32_t>(LWMQ_STREAM_UNDECLARED));
  lwmq_stream_state_destroy(state);
  EXPECT_EQ(lwmq_endpoint_close(endpoint, 60000), LWMQ_OK) << lwmq_last_error();
}

TEST_P(Stream, AQuestionCostsTheSameHoweverLongTheLogIs) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint), LWMQ_OK);
  lwmq_writer_options options{};
  options.retain = LWMQ_RETAIN_ALL;
  lwmq_writer* writer = open_writer(options);
  std::uint64_t written = 0;
  for (const std::uint64_t batches : {10, 20'000}) {
    for (; written < batches; ++written) ASSERT_EQ(write(writer, written), LWMQ_OK) << lwmq_last_error();
    const std::uint64_t walked = lwmq::stream::entries_walked();
    for (int i = 0; i < 3; ++i) {  // the endpoint sees the one before leave, too
      lwmq_stream_state* state = nullptr;
      ASSERT_EQ(lwmq_stream_describe(address_.c_str(), 1, 60000, &state), LWMQ_OK) << lwmq_last_error();
      EXPECT_EQ(state->partitions[0].rows, batches);
      lwmq_stream_state_destroy(state);
    }
    EXPECT_EQ(lwmq::stream::entries_walked() - walked, 0u);
  }
  lwmq_writer_destroy(writer);
  lwmq_endpoint_close(endpoint, 0);
}

INSTANTIATE_TEST_SUITE_P(Loop, Stream, testing::Values("loop"));
#if !defined(__SANITIZE_THREAD__)  // both ends meet through two mappings of one segment, which it takes for
                                   // two memories
INSTANTIATE_TEST_SUITE_P(Ipc, Stream, testing::Values("ipc"));
#endif

}  // namespace
