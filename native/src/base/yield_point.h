// Named points between the stores that a peer can see. In the build of tests/stress (LWMQ_YIELD_POINTS) a
// process can be ended or stopped at one of them; in every other build they are nothing.
//
//   LWMQ_YIELD=kill:lane.word:3    SIGKILL at the third passing of lane.word, whichever thread comes by
//   LWMQ_YIELD=stop:lane.word:1    SIGSTOP there
//   LWMQ_YIELD=list                goes on, and names each point once
//   LWMQ_PLANTED=accept_twice      a bug on purpose: the tests must see it
//
// What happens is said on the standard error first: "yield <name> <CLOCK_MONOTONIC in ns>".
#pragma once

#if defined(LWMQ_YIELD_POINTS)

#include <atomic>
#include <cstdint>

namespace lwmq::yield {

class Point {
 public:
  explicit Point(const char* name) noexcept;
  void pass() noexcept {
    if (left_.load(std::memory_order_relaxed) > 0) act();
  }

 private:
  void act() noexcept;

  const char* const name_;
  std::atomic<std::int64_t> left_{0};  // passings before it acts; 0: never
};

[[nodiscard]] bool planted(const char* bug) noexcept;

}  // namespace lwmq::yield

#define LWMQ_YIELD(name)                    \
  do {                                      \
    static ::lwmq::yield::Point here(name); \
    here.pass();                            \
  } while (false)
#define LWMQ_PLANTED(bug) ::lwmq::yield::planted(bug)

#else

#define LWMQ_YIELD(name) static_cast<void>(0)
#define LWMQ_PLANTED(bug) false

#endif
