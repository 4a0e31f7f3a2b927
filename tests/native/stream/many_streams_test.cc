// Many streams in one process, through lwmq.h: behind one address by their names, or each behind its own.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "eventually.h"
#include "lwmq/lwmq.h"
#include "open_descriptors.h"

namespace {

using lwmq::eventually;
using lwmq::open_descriptors;

constexpr char kSchema[] = "schema bytes: the library does not read them";

std::size_t endpoint_threads() {
  std::size_t count = 0;
  std::string name;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream(task.path() / "comm") >> name;
    count += name == "lwmq-endpoint" ? 1 : 0;
  }
  return count;
}

std::uint64_t resident_bytes() {
  std::uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

lwmq_status open_writer(const std::string& address, lwmq_writer** out_writer, lwmq_role role = LWMQ_ROLE_AUTO,
                        std::uint32_t timeout_ms = 60000) {
  lwmq_writer_options options{};
  options.size = sizeof options;
  options.role = role;
  options.timeout_ms = timeout_ms;
  options.window_bytes = 64 * 1024;
  return lwmq_writer_open(address.c_str(), kSchema, sizeof kSchema, &options, out_writer);
}
lwmq_status open_reader(const std::string& address, lwmq_reader** out_reader, lwmq_role role = LWMQ_ROLE_AUTO,
                        std::uint32_t timeout_ms = 60000) {
  lwmq_reader_options options{};
  options.size = sizeof options;
  options.role = role;
  options.timeout_ms = timeout_ms;
  return lwmq_reader_open(address.c_str(), &options, out_reader);
}
lwmq_status write(lwmq_writer* writer, std::uint64_t number) {
  lwmq_block block;
  const lwmq_status status = lwmq_writer_allocate(writer, sizeof number, 60000, &block);
  if (status != LWMQ_OK) return status;
  std::memcpy(block.data, &number, sizeof number);
  return lwmq_writer_publish(writer, &block, 0, sizeof number, 1, LWMQ_BATCH_IPC_MESSAGE);
}
std::uint64_t number_of(const lwmq_batch* batch) {
  lwmq_batch_info info{};
  info.size = sizeof info;
  EXPECT_EQ(lwmq_batch_query(batch, &info), LWMQ_OK);
  std::uint64_t number = 0;
  std::memcpy(&number, info.data, sizeof number);
  return number;
}
// The number in the next batch.
std::uint64_t read(lwmq_reader* reader) {
  lwmq_batch* batch = nullptr;
  EXPECT_EQ(lwmq_reader_next(reader, 60000, &batch), LWMQ_OK) << lwmq_last_error();
  if (batch == nullptr) return ~std::uint64_t{0};
  const std::uint64_t number = number_of(batch);
  lwmq_batch_release(batch);
  return number;
}
void close(lwmq_writer* writer, lwmq_reader* reader) {
  lwmq_batch* batch = nullptr;
  EXPECT_EQ(lwmq_reader_consume(reader), LWMQ_OK);
  EXPECT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_reader_next(reader, 60000, &batch), LWMQ_E_END) << lwmq_last_error();
  EXPECT_EQ(lwmq_reader_close(reader, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(writer);
}

lwmq_statistics statistics() {
  lwmq_statistics statistics{};
  statistics.size = sizeof statistics;
  EXPECT_EQ(lwmq_query_statistics(&statistics), LWMQ_OK);
  return statistics;
}

class Streams : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    static std::atomic<int> number{0};
    door_ = std::string(GetParam()) + "://many-streams-" + std::to_string(getpid()) + "-" +
            std::to_string(number++);
  }

  [[nodiscard]] std::string named(const std::string& name) const { return door_ + "?stream=" + name; }

  std::string door_;
};

TEST_P(Streams, WithNamesShareAnAddressAndNothingElse) {
  lwmq_writer *bids = nullptr, *asks = nullptr;
  lwmq_reader *bid_reader = nullptr, *ask_reader = nullptr;
  ASSERT_EQ(open_writer(named("bids"), &bids), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(open_reader(named("asks"), &ask_reader), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(open_writer(named("asks"), &asks), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(open_reader(named("bids"), &bid_reader), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(endpoint_threads(), 1u);
  ASSERT_EQ(write(bids, 1), LWMQ_OK);
  ASSERT_EQ(write(asks, 2), LWMQ_OK);
  EXPECT_EQ(read(ask_reader), 2u);
  EXPECT_EQ(read(bid_reader), 1u);
  close(bids, bid_reader);  // the end of one is none of the other's
  ASSERT_EQ(write(asks, 4), LWMQ_OK);
  EXPECT_EQ(read(ask_reader), 4u);
  lwmq_stream_state* state = nullptr;
  ASSERT_EQ(lwmq_stream_describe(door_.c_str(), 1, 60000, &state), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(state->address, named("asks")) << "the one that is left";
  lwmq_stream_state_destroy(state);
  close(asks, ask_reader);
  EXPECT_EQ(lwmq_stream_describe(door_.c_str(), 0, 0, &state), LWMQ_E_TIMED_OUT)
      << "the last one closed the door";
}

TEST_P(Streams, OfAnAddressWithoutANameAreTheOneThatIsThere) {
  lwmq_writer* writer = nullptr;
  lwmq_reader* reader = nullptr;
  ASSERT_EQ(open_writer(named("prices"), &writer), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(open_reader(door_, &reader, LWMQ_ROLE_CLIENT), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(write(writer, 7), LWMQ_OK);
  EXPECT_EQ(read(reader), 7u);
  close(writer, reader);
}

TEST_P(Streams, OfAnAddressWithoutANameAreNoneWhereSeveralAreThere) {
  lwmq_writer *bids = nullptr, *asks = nullptr;
  ASSERT_EQ(open_writer(named("bids"), &bids), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(open_writer(named("asks"), &asks), LWMQ_OK) << lwmq_last_error();
  const std::string text =
      door_ + " names no stream, and 2 are there: asks, bids; say which, as in " + named("asks");
  lwmq_writer* writer = nullptr;
  lwmq_reader* reader = nullptr;
  lwmq_stream_state* state = nullptr;
  for (const lwmq_role role : {LWMQ_ROLE_AUTO, LWMQ_ROLE_CLIENT}) {
    EXPECT_EQ(open_writer(door_, &writer, role), LWMQ_E_ADDRESS);
    EXPECT_EQ(lwmq_last_error(), text);
    EXPECT_EQ(open_reader(door_, &reader, role), LWMQ_E_ADDRESS);
    EXPECT_EQ(lwmq_last_error(), text);
  }
  EXPECT_EQ(lwmq_stream_describe(door_.c_str(), 0, 60000, &state), LWMQ_E_ADDRESS);
  EXPECT_EQ(lwmq_last_error(), text);
  // One of them may have none: then that is meant.
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(door_.c_str(), &endpoint), LWMQ_OK) << lwmq_last_error();
  ASSERT_EQ(lwmq_stream_describe(door_.c_str(), 0, 60000, &state), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(state->address, door_);
  lwmq_stream_state_destroy(state);
  EXPECT_EQ(lwmq_endpoint_close(endpoint, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(bids);
  lwmq_writer_destroy(asks);
}

TEST_P(Streams, ThatAreNotThereAreAwaitedByClients) {
  lwmq_endpoint *bids = nullptr, *asks = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(named("bids").c_str(), &bids), LWMQ_OK) << lwmq_last_error();
  lwmq_reader* reader = nullptr;
  EXPECT_EQ(open_reader(named("asks"), &reader, LWMQ_ROLE_CLIENT, 1000), LWMQ_E_TIMED_OUT);
  EXPECT_NE(std::string(lwmq_last_error())
                .find("there is no such stream at the endpoint in process " + std::to_string(getpid())),
            std::string::npos)
      << lwmq_last_error();
  EXPECT_NE(std::string(lwmq_last_error()).find("there are: bids"), std::string::npos) << lwmq_last_error();
  std::atomic<bool> opened{false};
  std::thread waiting([&] {
    EXPECT_EQ(open_reader(named("asks"), &reader, LWMQ_ROLE_CLIENT), LWMQ_OK) << lwmq_last_error();
    opened = true;
  });
  EXPECT_FALSE(opened);
  ASSERT_EQ(lwmq_endpoint_open(named("asks").c_str(), &asks), LWMQ_OK) << lwmq_last_error();
  waiting.join();
  EXPECT_EQ(lwmq_reader_close(reader, 0), LWMQ_OK);
  // Where the stream of a read that was planned has gone, nobody waits.
  const std::uint8_t generation[16] = {};
  lwmq_reader_options options{};
  options.size = sizeof options;
  options.role = LWMQ_ROLE_CLIENT;
  options.generation = generation;
  EXPECT_EQ(lwmq_reader_open(named("trades").c_str(), &options, &reader), LWMQ_E_CLOSED);
  EXPECT_EQ(lwmq_stream_settle(named("trades").c_str(), "name", 1, 60000), LWMQ_E_CLOSED);
  lwmq_endpoint_close(asks, 0);
  lwmq_endpoint_close(bids, 0);
}

TEST_P(Streams, AreMadeOnce) {
  lwmq_endpoint *first = nullptr, *second = nullptr;
  lwmq_writer* writer = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(named("bids").c_str(), &first), LWMQ_OK) << lwmq_last_error();
  EXPECT_EQ(lwmq_endpoint_open(named("bids").c_str(), &second), LWMQ_E_ADDRESS);
  EXPECT_EQ(lwmq_last_error(), named("bids") + " is served already, by process " + std::to_string(getpid()));
  EXPECT_EQ(open_writer(named("bids"), &writer, LWMQ_ROLE_SERVER), LWMQ_E_ADDRESS);
  ASSERT_EQ(open_writer(named("asks"), &writer, LWMQ_ROLE_SERVER), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(writer);
  lwmq_endpoint_close(first, 0);
}

TEST_P(Streams, HaveNamesOfAllowedLetters) {
  lwmq_endpoint* endpoint = nullptr;
  for (const std::string& name : {std::string("a"), std::string("Fx.EUR_USD-1"), std::string(63, 'x')}) {
    EXPECT_EQ(lwmq_endpoint_open(named(name).c_str(), &endpoint), LWMQ_OK) << lwmq_last_error();
    lwmq_endpoint_close(endpoint, 0);
  }
  for (const std::string& name :
       {std::string("a/b"), std::string("a b"), std::string("\xc3\xa4"), std::string(64, 'x')}) {
    EXPECT_EQ(lwmq_endpoint_open(named(name).c_str(), &endpoint), LWMQ_E_ADDRESS) << name;
    EXPECT_NE(std::string(lwmq_last_error()).find("1 to 63"), std::string::npos) << lwmq_last_error();
  }
  EXPECT_EQ(lwmq_endpoint_open(named("").c_str(), &endpoint), LWMQ_E_ADDRESS);
  EXPECT_EQ(lwmq_endpoint_open((named("a") + "&timeout=5s").c_str(), &endpoint), LWMQ_E_ADDRESS);
  EXPECT_EQ(lwmq_endpoint_open((named("a") + "&stream=b").c_str(), &endpoint), LWMQ_E_ADDRESS);
}

// Fifty streams are opened, used and closed, ten times over; each has an address of its own. No round leaves
// anything behind, but what the first has made for all: windows, which stay warm for the next stream.
void use_500_streams(const std::function<std::string(int)>& address_of) {
  std::uint64_t descriptors = 0;
  [[maybe_unused]] std::uint64_t bytes = 0;
  lwmq_statistics first{};
  for (int round = 0; round < 10; ++round) {
    std::vector<lwmq_writer*> writers(50);
    std::vector<lwmq_reader*> readers(50);
    for (int i = 0; i < 50; ++i) {
      const std::string address = address_of(50 * round + i);
      ASSERT_EQ(open_writer(address, &writers[i]), LWMQ_OK) << lwmq_last_error();
      ASSERT_EQ(open_reader(address, &readers[i]), LWMQ_OK) << lwmq_last_error();
    }
    ASSERT_EQ(endpoint_threads(), 1u);
    for (int i = 0; i < 50; ++i) ASSERT_EQ(write(writers[i], i), LWMQ_OK) << lwmq_last_error();
    for (int i = 0; i < 50; ++i) ASSERT_EQ(read(readers[i]), static_cast<std::uint64_t>(i));
    for (int i = 0; i < 50; ++i) close(writers[i], readers[i]);
    if (round == 0) {
      descriptors = open_descriptors();
      bytes = resident_bytes();
      first = statistics();
    }
    EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; })) << open_descriptors();
    EXPECT_TRUE(eventually([&] { return statistics().window_bytes == first.window_bytes; }));
    EXPECT_EQ(statistics().window_bytes_made, first.window_bytes_made) << "no memory that is not warm";
  }
#if !defined(__SANITIZE_ADDRESS__)  // which keeps what was freed
  EXPECT_LT(resident_bytes(), bytes + 4 * lwmq::kMiB);
#endif
}

TEST_P(Streams, LeaveNothingBehindWhereEachHasAnAddressOfItsOwn) {
  use_500_streams([&](int i) { return door_ + "-" + std::to_string(i); });
  EXPECT_TRUE(eventually([] { return endpoint_threads() == 0; })) << "the thread ends with the last endpoint";
}

TEST_P(Streams, LeaveNothingBehindWhereTheyShareAnAddress) {
  lwmq_endpoint* endpoint = nullptr;
  ASSERT_EQ(lwmq_endpoint_open(door_.c_str(), &endpoint), LWMQ_OK) << lwmq_last_error();
  use_500_streams([&](int i) { return named("s" + std::to_string(i)); });
  EXPECT_EQ(endpoint_threads(), 1u);
  EXPECT_EQ(lwmq_endpoint_close(endpoint, 60000), LWMQ_OK) << lwmq_last_error();
}

lwmq_writer_options in_job() {
  lwmq_writer_options options{};
  options.size = sizeof options;
  options.job = "maps";
  options.delivery = LWMQ_DELIVERY_TASK;
  options.retain = LWMQ_RETAIN_ALL;
  options.timeout_ms = 60000;
  return options;
}

lwmq_job* open_job(const std::string& address) {
  const lwmq_writer_options options = in_job();
  lwmq_job* job = nullptr;
  EXPECT_EQ(lwmq_job_open(address.c_str(), kSchema, sizeof kSchema, &options, &job), LWMQ_OK)
      << lwmq_last_error();
  return job;
}

// A stream that keeps everything for readers to come, as an exchange does, and ends with its job. Its writers
// have gone before its readers come. The batch that `kept` gets is held past the end.
void use_job(const std::string& address, std::uint64_t first, lwmq_batch** kept = nullptr) {
  lwmq_job* job = open_job(address);
  lwmq_writer_options options = in_job();
  options.role = LWMQ_ROLE_CLIENT;
  for (options.task = 0; options.task < 2; ++options.task) {
    lwmq_writer* writer = nullptr;
    ASSERT_EQ(lwmq_writer_open(address.c_str(), kSchema, sizeof kSchema, &options, &writer), LWMQ_OK)
        << lwmq_last_error();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(write(writer, first + 3 * options.task + i), LWMQ_OK);
    lwmq_commit_result result{};
    result.size = sizeof result;
    ASSERT_EQ(lwmq_writer_commit(writer, 60000, &result), LWMQ_OK) << lwmq_last_error();
    ASSERT_EQ(lwmq_writer_close(writer, 60000), LWMQ_OK) << lwmq_last_error();
    lwmq_writer_destroy(writer);
  }
  lwmq_reader* reader = nullptr;
  ASSERT_EQ(open_reader(address, &reader, LWMQ_ROLE_CLIENT), LWMQ_OK) << lwmq_last_error();
  if (kept != nullptr) {
    ASSERT_EQ(lwmq_reader_next(reader, 60000, kept), LWMQ_OK) << lwmq_last_error();
  }
  for (std::uint64_t i = kept == nullptr ? 0 : 1; i < 6; ++i) ASSERT_EQ(read(reader), first + i);
  ASSERT_EQ(lwmq_reader_close(reader, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_job_close(job);
}

TEST_P(Streams, WhoseWritersHaveGoneLeaveTheirWindowsToTheNextOnes) {
  lwmq_job* other = open_job(named("other"));  // keeps the address
  use_job(named("first"), 0);
  const std::uint64_t made = statistics().window_bytes_made;
  EXPECT_GT(made, 0u);
  for (int i = 0; i < 5; ++i) use_job(named("s" + std::to_string(i)), 100 * i);
  EXPECT_EQ(statistics().window_bytes_made, made);
  lwmq_job_close(other);
}

TEST_P(Streams, WhoseBatchIsHeldPastTheirEndDoNotLeaveItsWindow) {
  lwmq_job* other = open_job(named("other"));  // keeps the address
  lwmq_batch* kept = nullptr;
  use_job(named("first"), 7, &kept);
  for (int i = 0; i < 5; ++i) use_job(named("s" + std::to_string(i)), 100 * i);
  EXPECT_EQ(number_of(kept), 7u);
  lwmq_batch_release(kept);
  lwmq_job_close(other);
}

INSTANTIATE_TEST_SUITE_P(Loop, Streams, testing::Values("loop"));
#if !defined(__SANITIZE_THREAD__)  // both ends meet through two mappings of one segment, which it takes for
                                   // two memories
INSTANTIATE_TEST_SUITE_P(Ipc, Streams, testing::Values("ipc"));
#endif

}  // namespace
