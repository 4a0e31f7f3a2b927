// Peers that live and do not answer: endpoints that fall silent, readers that keep a writer waiting.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "eventually.h"
#include "filters/filtered.h"
#include "os/clock.h"
#include "service/provider_services.h"
#include "stats/page.h"
#include "stream/client.h"
#include "stream/question.h"
#include "stream/reader.h"
#include "stream/writer.h"
#include "tli/registry.h"

namespace lwmq::stream {
namespace {

// For peers that say nothing at all.
constexpr std::uint32_t kShortMs = 200;
// For peers that live and answer, on a machine that is busy with others.
constexpr std::uint32_t kPatientMs = 3000;

std::string fresh_address(const char* scheme) {
  static std::atomic<int> number{0};
  return std::string(scheme) + "://stall-test-" + std::to_string(getpid()) + "-" + std::to_string(number++);
}

bool said(const char* what) { return std::string(last_error()).find(what) != std::string::npos; }

// ---- Endpoints that fall silent ----------------------------------------------------------------------

// An endpoint played by hand: it hears, and says what the test says.
class SilentEndpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string address = fresh_address("loop");
    ASSERT_EQ(filters::find(address.c_str(), &provider_), LWMQ_OK);
    const lwmq_tli_options options = control_options();
    ASSERT_EQ(provider_->listener->listen(address.c_str(), &options, &listener_), LWMQ_OK);
    lwmq_tli_transport* mine = nullptr;
    lwmq_tli_transport* theirs = nullptr;
    ASSERT_EQ(lwmq::tli::connect(*provider_, address.c_str(), options, 60000, &theirs), LWMQ_OK);
    ASSERT_EQ(provider_->listener->accept(listener_, &mine), LWMQ_OK);
    endpoint_ = std::make_unique<Link>(provider_, mine);
    reach_.provider = provider_;
    reach_.address = address;
    reach_.link = std::make_unique<Link>(provider_, theirs);
    reach_.pulse = Pulse(kShortMs);
  }
  void TearDown() override {
    endpoint_.reset();
    provider_->listener->close(listener_);
  }
  void become_reader() {
    reader_.address = reach_.address;
    reader_.reach = std::move(reach_);
    reader_.entry = std::make_shared<stats::Entry>();
    reader_.credit = 2;
  }
  Status next(std::uint32_t timeout_ms = LWMQ_FOREVER) {
    lwmq_batch* batch = nullptr;
    return stream::next(reader_, timeout_ms, &batch);
  }
  // How many messages of this kind have come.
  int count(wire::StreamKind kind) {
    int found = 0;
    std::string bytes;
    for (wire::StreamKind heard{}; endpoint_->receive(&heard, &bytes) == LWMQ_OK;)
      found += heard == kind ? 1 : 0;
    return found;
  }

  const lwmq_tli_provider* provider_ = nullptr;
  lwmq_tli_listener* listener_ = nullptr;
  std::unique_ptr<Link> endpoint_;
  Reach reach_;
  lwmq_reader reader_;
};

TEST_F(SilentEndpoint, IsAskedAndThenReportedByItsProcess) {
  become_reader();
  const std::int64_t began = os::now_ns();
  EXPECT_EQ(next(), LWMQ_E_STALLED);
  EXPECT_GE(os::now_ns() - began, 2 * std::int64_t{kShortMs} * 1'000'000);
  EXPECT_TRUE(said(("process " + std::to_string(getpid()) + " (").c_str())) << last_error();
  EXPECT_TRUE(said("lives and has not answered")) << last_error();
  EXPECT_EQ(reader_.entry->flags.load(), stats::kEntryStalled);
  EXPECT_EQ(count(wire::StreamKind::kPing), 1) << "it is asked once, however often we wait";
  EXPECT_EQ(next(), LWMQ_E_STALLED);
  EXPECT_EQ(count(wire::StreamKind::kPing), 0);
}

TEST_F(SilentEndpoint, IsWaitedForOverManyShortCalls) {
  become_reader();
  Status status = LWMQ_E_TIMED_OUT;
  int calls = 0;
  for (; calls < 1000 && status == LWMQ_E_TIMED_OUT; ++calls) status = next(5);
  EXPECT_EQ(status, LWMQ_E_STALLED);
  EXPECT_GT(calls, 1);
}

TEST_F(SilentEndpoint, GoesOnWhereItHasStopped) {
  become_reader();
  EXPECT_EQ(next(), LWMQ_E_STALLED);
  wire::Text schema;
  schema.text = "schema";
  endpoint_->send(wire::StreamKind::kPong, nullptr, 0);
  endpoint_->send_letter(wire::StreamKind::kDeclared, schema);
  EXPECT_EQ(await_schema(reader_, 60000), LWMQ_OK) << last_error();
  EXPECT_EQ(next(1), LWMQ_E_TIMED_OUT);
  EXPECT_EQ(reader_.entry->flags.load(), 0u);
}

TEST_F(SilentEndpoint, IsWaitedForWhereThatWasAskedFor) {
  reach_.pulse = Pulse(LWMQ_FOREVER);
  become_reader();
  EXPECT_EQ(next(4 * kShortMs), LWMQ_E_TIMED_OUT);
  EXPECT_EQ(count(wire::StreamKind::kPing), 0);
}

TEST_F(SilentEndpoint, OwesOneAnswerForEachCommitOfAJob) {
  lwmq_job job;
  job.reach = std::move(reach_);
  EXPECT_EQ(commit_job(job, 1, nullptr, 0, LWMQ_FOREVER), LWMQ_E_STALLED);
  const Status again = commit_job(job, 1, nullptr, 0, 1);
  EXPECT_TRUE(again == LWMQ_E_TIMED_OUT || again == LWMQ_E_STALLED) << "that where it took long";
  wire::Text good, bad;
  bad.status = LWMQ_E_DATA_LOSS, bad.text = "the second epoch is not here";
  EXPECT_EQ(count(wire::StreamKind::kCommitJob), 1) << "asked again, it is not sent again";
  endpoint_->send_letter(wire::StreamKind::kJobCommitted, good);
  endpoint_->send_letter(wire::StreamKind::kJobCommitted, bad);
  EXPECT_EQ(commit_job(job, 2, nullptr, 0, 60000), LWMQ_E_DATA_LOSS) << "not the answer to another question";
}

TEST_F(SilentEndpoint, ThatSendsPongsForEverIsNoReasonToStay) {
  become_reader();
  for (int i = 0; i < 100; ++i) endpoint_->send(wire::StreamKind::kPong, nullptr, 0);
  EXPECT_EQ(next(1), LWMQ_E_TIMED_OUT);
}

TEST(StallOfAListener, IsReportedByWhoOpens) {
  const std::string address = fresh_address("ipc");
  const lwmq_tli_provider* provider = nullptr;
  ASSERT_EQ(filters::find(address.c_str(), &provider), LWMQ_OK);
  ASSERT_EQ(service::start_service(*provider), LWMQ_OK);
  const lwmq_tli_options options = control_options();
  lwmq_tli_listener* listener = nullptr;  // nobody calls accept
  ASSERT_EQ(provider->listener->listen(address.c_str(), &options, &listener), LWMQ_OK);
  lwmq_reader_options asked{};
  asked.size = sizeof asked;
  asked.stall_ms = kShortMs, asked.timeout_ms = LWMQ_FOREVER;
  std::unique_ptr<lwmq_reader> reader;
  EXPECT_EQ(open_reader(address.c_str(), asked, &reader), LWMQ_E_STALLED);
  EXPECT_TRUE(said("has not answered")) << last_error();
  asked.stall_ms = LWMQ_FOREVER, asked.timeout_ms = 2 * kShortMs;
  EXPECT_EQ(open_reader(address.c_str(), asked, &reader), LWMQ_E_TIMED_OUT);
  EXPECT_TRUE(said("has not answered")) << last_error();
  provider->listener->close(listener);
}

// ---- Readers that keep a writer waiting --------------------------------------------------------------

constexpr std::uint64_t kBatchBytes = 60'000;
constexpr std::uint64_t kWindowBytes = 16 * kBatchBytes;

class SlowReader : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    address_ = fresh_address(GetParam());
    ASSERT_EQ(lwmq_endpoint_open(address_.c_str(), &endpoint_), LWMQ_OK) << lwmq_last_error();
  }
  void TearDown() override { lwmq_endpoint_close(endpoint_, 0); }

  lwmq_writer* writer(std::uint32_t expel_after_ms, std::uint32_t readers = 1,
                      std::uint32_t stall_ms = kPatientMs) {
    lwmq_writer_options options{};
    options.size = sizeof options;
    options.window_bytes = kWindowBytes;
    options.readers = readers;
    options.stall_ms = stall_ms;
    options.expel_after_ms = expel_after_ms;
    lwmq_writer* made = nullptr;
    EXPECT_EQ(lwmq_writer_open(address_.c_str(), "schema", 6, &options, &made), LWMQ_OK) << lwmq_last_error();
    return made;
  }
  lwmq_reader* reader(const char* name) {
    lwmq_reader_options options{};
    options.size = sizeof options;
    options.name = name;
    lwmq_reader* made = nullptr;
    EXPECT_EQ(lwmq_reader_open(address_.c_str(), &options, &made), LWMQ_OK) << lwmq_last_error();
    return made;
  }
  static lwmq_status write(lwmq_writer* writer, std::uint64_t number, std::uint32_t timeout_ms = 60000) {
    lwmq_block block{};
    const lwmq_status status = lwmq_writer_allocate(writer, kBatchBytes, timeout_ms, &block);
    if (status != LWMQ_OK) return status;
    for (std::uint64_t i = 0; i < kBatchBytes / 8; ++i)
      reinterpret_cast<std::uint64_t*>(block.data)[i] = number;
    return lwmq_writer_publish(writer, &block, 0, kBatchBytes, 1, 0);
  }
  // What a batch says, all over; ~0 where it is not whole.
  static std::uint64_t number_of(const lwmq_batch* batch) {
    lwmq_batch_info info{};
    info.size = sizeof info;
    lwmq_batch_query(batch, &info);
    const auto* words = reinterpret_cast<const std::uint64_t*>(info.data);
    for (std::uint64_t i = 1; i < info.bytes / 8; ++i) {
      if (words[i] != words[0]) return ~std::uint64_t{0};
    }
    return words[0];
  }
  // Writes until there is no room, although the one reader was expelled before. How many batches that were.
  std::uint64_t fill_past_the_expelled(lwmq_writer* writer) {
    for (std::uint64_t written = 0; written < 100;) {
      lwmq_stream_state* seen = state();
      const bool was_expelled = seen->readers_expelled > 0;
      lwmq_stream_state_destroy(seen);
      const lwmq_status status = write(writer, written, 6 * kShortMs);
      if (status == LWMQ_OK) {
        ++written;
      } else if (status != LWMQ_E_TIMED_OUT || was_expelled) {
        EXPECT_EQ(status, LWMQ_E_TIMED_OUT) << lwmq_last_error();
        return written;
      }
    }
    ADD_FAILURE() << "there is room without an end";
    return 100;
  }
  lwmq_stream_state* state() {
    lwmq_stream_state* found = nullptr;
    EXPECT_EQ(lwmq_stream_describe(address_.c_str(), 0, 60000, &found), LWMQ_OK) << lwmq_last_error();
    return found;
  }

  std::string address_;
  lwmq_endpoint* endpoint_ = nullptr;
};

TEST_P(SlowReader, IsNamedAndWaitedFor) {
  // Called stalled after a second, in which the endpoint runs.
  lwmq_writer* w = writer(0, 1, 1000);
  lwmq_reader* r = reader("slow");
  std::uint64_t written = 0;
  EXPECT_TRUE(eventually([&] {
    const lwmq_status status = write(w, written, 4 * kShortMs);
    written += status == LWMQ_OK ? 1 : 0;
    return status == LWMQ_E_TIMED_OUT &&
           std::string(lwmq_last_error()).find("no batch was taken for long by reader slow of process") !=
               std::string::npos;
  })) << lwmq_last_error();
  lwmq_stream_state* seen = state();
  EXPECT_EQ(seen->readers_stalled, 1u);
  EXPECT_EQ(seen->readers_expelled, 0u);
  EXPECT_EQ(seen->stalled_pid, static_cast<std::uint32_t>(getpid()));
  lwmq_stream_state_destroy(seen);
  lwmq_batch* batch = nullptr;
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_EQ(lwmq_reader_next(r, 60000, &batch), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(number_of(batch), i);
    lwmq_batch_release(batch);
  }
  EXPECT_EQ(write(w, 100), LWMQ_OK) << lwmq_last_error();
  seen = state();
  EXPECT_EQ(seen->readers_stalled, 0u);
  lwmq_stream_state_destroy(seen);
  lwmq_writer_destroy(w);
  lwmq_reader_close(r, 0);
}

TEST_P(SlowReader, IsExpelledSoThatOthersGoOn) {
  lwmq_writer* w = writer(kPatientMs);
  lwmq_reader* slow = reader("slow");
  lwmq_batch* first = nullptr;
  ASSERT_EQ(write(w, 0), LWMQ_OK);
  ASSERT_EQ(lwmq_reader_next(slow, 60000, &first), LWMQ_OK);
  std::thread reading([&] {
    lwmq_reader* quick = reader("quick");
    std::uint64_t expected = 0;
    for (;; ++expected) {
      lwmq_batch* batch = nullptr;
      const lwmq_status status = lwmq_reader_next(quick, 60000, &batch);
      if (status == LWMQ_E_END) break;
      ASSERT_EQ(status, LWMQ_OK) << lwmq_last_error();
      EXPECT_EQ(number_of(batch), expected);
      lwmq_batch_release(batch);
    }
    EXPECT_EQ(expected, 100u);
    lwmq_reader_close(quick, 0);
  });
  for (std::uint64_t i = 1; i < 100; ++i) ASSERT_EQ(write(w, i), LWMQ_OK) << i << ": " << lwmq_last_error();
  EXPECT_EQ(number_of(first), 0u) << "what the expelled reader leases is never written again";
  lwmq_writer_statistics statistics{};
  statistics.size = sizeof statistics;
  lwmq_writer_query(w, &statistics);
  EXPECT_EQ(statistics.readers_expelled, 1u);
  EXPECT_LE(statistics.window_bytes, 2 * kWindowBytes + kWindowBytes / 4) << "quarantine has its bound";
  lwmq_stream_state* seen = state();
  EXPECT_EQ(seen->readers_expelled, 1u);
  lwmq_stream_state_destroy(seen);

  lwmq_batch* batch = nullptr;
  EXPECT_EQ(lwmq_reader_next(slow, 60000, &batch), LWMQ_E_DATA_LOSS);
  for (const char* part : {"(slow) was expelled at 20", "UTC: it had taken nothing for", "waited to write",
                           "expel_after=3000ms", "open anew"}) {
    EXPECT_NE(std::string(lwmq_last_error()).find(part), std::string::npos)
        << part << ": " << lwmq_last_error();
  }
  EXPECT_EQ(lwmq_reader_next(slow, 0, &batch), LWMQ_E_DATA_LOSS) << "and again";
  EXPECT_EQ(lwmq_reader_consume(slow), LWMQ_OK);
  EXPECT_EQ(number_of(first), 0u);
  for (std::uint64_t i = 0; i < 3;
       ++i) {  // now that it has heard, its blocks come back, but for what it leases
    EXPECT_EQ(number_of(first), 0u);
  }
  lwmq_batch_release(first);
  lwmq_reader_close(slow, 0);
  EXPECT_EQ(lwmq_writer_close(w, 60000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(w);
  reading.join();
}

TEST_P(SlowReader, GivesItsAcknowledgementUp) {
  lwmq_writer* w = writer(kPatientMs, 2);
  lwmq_reader* slow = reader("slow");
  std::atomic<std::uint64_t> read{0};
  std::thread reading([&] {
    lwmq_reader* quick = reader("quick");
    lwmq_batch* batch = nullptr;
    while (lwmq_reader_next(quick, 60000, &batch) == LWMQ_OK) {
      EXPECT_EQ(number_of(batch), read.load());
      ++read;
      lwmq_batch_release(batch);
    }
    lwmq_reader_close(quick, 0);
  });
  for (std::uint64_t i = 0; i < 60; ++i) ASSERT_EQ(write(w, i), LWMQ_OK) << i << ": " << lwmq_last_error();
  EXPECT_EQ(lwmq_writer_close(w, 60000), LWMQ_OK) << lwmq_last_error();
  reading.join();
  EXPECT_EQ(read.load(), 60u);
  lwmq_stream_state* seen = state();
  EXPECT_EQ(seen->readers, 1u) << "one acknowledgement less from then on";
  EXPECT_EQ(seen->state, static_cast<std::uint32_t>(LWMQ_STREAM_CONSUMED));
  lwmq_stream_state_destroy(seen);
  lwmq_reader_close(slow, 0);
  lwmq_writer_destroy(w);
}

TEST_P(SlowReader, LeavesWhatItDidNotReadToTheNext) {
  lwmq_writer* w = writer(2 * kShortMs);
  lwmq_reader* slow = reader("slow");
  // The only reader is expelled, and its batches are nobody's: the window with its quarantine fills up.
  const std::uint64_t written = fill_past_the_expelled(w);
  EXPECT_GE(written, 20u) << "what the expelled reader holds counts no more";
  EXPECT_LE(written, 34u) << "but at most as much as the window once more";
  lwmq_reader* next = reader("next");
  for (std::uint64_t i = 0; i < written; ++i) {
    lwmq_batch* batch = nullptr;
    ASSERT_EQ(lwmq_reader_next(next, 60000, &batch), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(number_of(batch), i);
    lwmq_batch_release(batch);
  }
  lwmq_batch* batch = nullptr;
  EXPECT_EQ(lwmq_reader_next(slow, 60000, &batch), LWMQ_E_DATA_LOSS);
  EXPECT_EQ(lwmq_reader_next(next, 0, &batch), LWMQ_E_TIMED_OUT);
  lwmq_writer_statistics statistics{};
  statistics.size = sizeof statistics;
  // It has heard: nothing is set apart any more.
  EXPECT_TRUE(eventually([&] {
    lwmq_block block{};
    EXPECT_EQ(lwmq_writer_allocate(w, 64, 60000, &block), LWMQ_OK);
    lwmq_writer_discard(w, &block);
    lwmq_writer_query(w, &statistics);
    return statistics.unread_batches <= 1;
  })) << statistics.unread_batches;
  lwmq_writer_destroy(w);
  lwmq_reader_close(slow, 0);
  lwmq_reader_close(next, 0);
}

TEST_P(SlowReader, MayLeaveBeforeItHears) {
  lwmq_writer* w = writer(2 * kShortMs);
  lwmq_reader* slow = reader("slow");
  const std::uint64_t written = fill_past_the_expelled(w);
  EXPECT_EQ(lwmq_reader_close(slow, 0), LWMQ_OK);
  lwmq_reader* next = reader("next");
  for (std::uint64_t i = 0; i < written; ++i) {
    lwmq_batch* batch = nullptr;
    ASSERT_EQ(lwmq_reader_next(next, 60000, &batch), LWMQ_OK) << lwmq_last_error();
    EXPECT_EQ(number_of(batch), i);
    lwmq_batch_release(batch);
  }
  EXPECT_EQ(write(w, 1000), LWMQ_OK) << lwmq_last_error();
  lwmq_writer_destroy(w);
  lwmq_reader_close(next, 0);
}

TEST_P(SlowReader, IsNotExpelledWhereEverythingIsKept) {
  lwmq_writer_options options{};
  options.size = sizeof options;
  options.window_bytes = kWindowBytes;
  options.retain = LWMQ_RETAIN_ALL;
  options.stall_ms = kPatientMs;
  options.expel_after_ms = kShortMs;
  lwmq_writer* w = nullptr;
  ASSERT_EQ(lwmq_writer_open(address_.c_str(), "schema", 6, &options, &w), LWMQ_OK) << lwmq_last_error();
  lwmq_reader* r = reader("slow");
  lwmq_status status = LWMQ_OK;
  for (std::uint64_t i = 0; i < 100 && status == LWMQ_OK; ++i) status = write(w, i, 4 * kShortMs);
  EXPECT_EQ(status, LWMQ_E_TIMED_OUT);
  lwmq_batch* batch = nullptr;
  EXPECT_EQ(lwmq_reader_next(r, 60000, &batch), LWMQ_OK) << lwmq_last_error();
  lwmq_batch_release(batch);
  lwmq_writer_destroy(w);
  lwmq_reader_close(r, 0);
}

TEST_P(SlowReader, ThatHoldsOnlyLeasesIsNotExpelled) {
  lwmq_writer* w = writer(kPatientMs);
  lwmq_reader* r = reader("holder");
  std::vector<lwmq_batch*> held;
  for (std::uint64_t i = 0; i < 60; ++i) {
    ASSERT_EQ(write(w, i), LWMQ_OK) << i << ": " << lwmq_last_error();
    held.push_back(nullptr);
    ASSERT_EQ(lwmq_reader_next(r, 60000, &held.back()), LWMQ_OK) << lwmq_last_error();
  }
  for (std::uint64_t i = 0; i < held.size(); ++i) {
    EXPECT_EQ(number_of(held[i]), i);
    lwmq_batch_release(held[i]);
  }
  lwmq_stream_state* seen = state();
  EXPECT_EQ(seen->readers_expelled, 0u);
  lwmq_stream_state_destroy(seen);
  lwmq_writer_destroy(w);
  lwmq_reader_close(r, 0);
}

INSTANTIATE_TEST_SUITE_P(Loop, SlowReader, testing::Values("loop"));
#if !defined(__SANITIZE_THREAD__)  // as in stream_test.cc: two mappings of one segment
INSTANTIATE_TEST_SUITE_P(Ipc, SlowReader, testing::Values("ipc"));
#endif

}  // namespace
}  // namespace lwmq::stream
