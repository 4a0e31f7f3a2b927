// Whom a service thread serves next.
#include "service/service_thread.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>

#include "conformance/channel_fixture.h"

namespace lwmq::service {
namespace {

class Stub final : public Served {
 public:
  explicit Stub(std::function<void()> turn) : turn_(std::move(turn)) {
    EXPECT_EQ(ServiceThread::calling().add(this), LWMQ_OK);
  }
  ~Stub() override { ServiceThread::calling().remove(this); }
  std::int64_t serve(std::int64_t, bool) noexcept override {
    turn_();
    return kNever;
  }
  void ask() { ServiceThread::calling().request(this); }

 private:
  const std::function<void()> turn_;
};

// Holds the thread until it is let go, so that others ask meanwhile, in an order that we know.
class Gate {
 public:
  Gate() {
    stub_.ask();
    EXPECT_TRUE(eventually([this] { return held_.load(); }));
  }
  ~Gate() { open(); }
  void open() { open_ = true; }

 private:
  std::atomic<bool> held_{false}, open_{false};
  Stub stub_{[this] {
    held_ = true;
    while (!open_) std::this_thread::yield();
  }};
};

TEST(AServiceThread, ServesWhoHasAskedFirstBeforeWhoAsksAgainAndAgain) {
  for (const bool patient_first : {true, false}) {
    std::atomic<int> turns{0}, before{-1};
    Stub patient([&] { before = turns.load(); });
    Stub* hasty_itself = nullptr;
    Stub hasty([&] {
      if (++turns < 1000) hasty_itself->ask();
    });
    hasty_itself = &hasty;
    Gate gate;
    (patient_first ? patient : hasty).ask();
    (patient_first ? hasty : patient).ask();
    gate.open();
    ASSERT_TRUE(eventually([&] { return before >= 0 && turns == 1000; })) << before << " " << turns;
    EXPECT_EQ(before, patient_first ? 0 : 1);
  }
}

TEST(AServiceThread, ServesTheOthersWhereOneIsRemovedThatHasAsked) {
  std::atomic<int> served{0};
  Stub first([&] { ++served; });
  Stub last([&] { ++served; });
  Gate gate;
  first.ask();
  {
    Stub gone([&] { served = -100; });
    gone.ask();
  }
  last.ask();
  gate.open();
  EXPECT_TRUE(eventually([&] { return served == 2; })) << served;
}

// A request that came too early, or too late, is forgotten: it must not stand for those behind it.
TEST(AServiceThread, ServesWhoHadAskedBeforeItWasAddedAndWhoIsAddedAgain) {
  struct Counting final : Served {
    std::int64_t serve(std::int64_t, bool) noexcept override {
      ++served;
      return kNever;
    }
    std::atomic<int> served{0};
  } late;
  ServiceThread& thread = ServiceThread::calling();
  thread.request(&late);
  ASSERT_EQ(thread.add(&late), LWMQ_OK);
  thread.request(&late);
  EXPECT_TRUE(eventually([&] { return late.served == 1; })) << late.served;
  {
    Gate gate;
    thread.request(&late);
    thread.remove(&late);
  }
  ASSERT_EQ(thread.add(&late), LWMQ_OK);
  thread.request(&late);
  EXPECT_TRUE(eventually([&] { return late.served == 2; })) << late.served;
  thread.remove(&late);
}

// What a call-back closes may be what is being served.
TEST(AServiceThread, LetsWhoIsServedBeRemovedByItself) {
  std::atomic<bool> removed{false};
  Stub* itself = nullptr;
  Stub stub([&] {
    ServiceThread::calling().remove(itself);
    removed = true;
  });
  itself = &stub;
  stub.ask();
  EXPECT_TRUE(eventually([&] { return removed.load(); }));
}

TEST(AServiceThread, EndsWithTheLastOneToServeWhereThatWasAskedForAndStartsAnew) {
  struct Counting final : Served {
    std::int64_t serve(std::int64_t, bool) noexcept override {
      thread = static_cast<int>(gettid());
      return kNever;
    }
    std::atomic<int> thread{0};
  };
  ServiceThread& thread = ServiceThread::streaming();
  for (int round = 0; round < 3; ++round) {
    Counting first, second;
    for (Counting* served : {&first, &second}) {
      ASSERT_EQ(thread.add(served), LWMQ_OK);
      thread.request(served);
    }
    ASSERT_TRUE(eventually([&] { return first.thread != 0 && second.thread != 0; }));
    EXPECT_EQ(first.thread, second.thread);
    const std::string task = "/proc/self/task/" + std::to_string(first.thread);
    thread.remove(&first);
    thread.request(&second);
    EXPECT_EQ(access(task.c_str(), F_OK), 0) << "one is left";
    thread.remove(&second);
    EXPECT_TRUE(eventually([&] { return access(task.c_str(), F_OK) != 0; }));
  }
}

}  // namespace
}  // namespace lwmq::service
