#include "base/yield_point.h"

#if defined(LWMQ_YIELD_POINTS)

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lwmq::yield {
namespace {

enum class Act { kNothing, kKill, kStop, kList };

// What LWMQ_YIELD asks for. Read once.
struct Order {
  Act act = Act::kNothing;
  char name[64] = {};
  std::int64_t passing = 0;

  Order() noexcept {
    const char* text = std::getenv("LWMQ_YIELD");
    if (text == nullptr) return;
    char word[8] = {};
    long long number = 0;
    if (std::strcmp(text, "list") == 0) {
      act = Act::kList;
    } else if (std::sscanf(text, "%7[^:]:%63[^:]:%lld", word, name, &number) == 3 && number > 0) {
      act = std::strcmp(word, "kill") == 0 ? Act::kKill : Act::kStop;
      passing = number;
    }
  }
};

const Order& order() noexcept {
  static const Order instance;
  return instance;
}

void say(const char* name) noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  char line[128];
  const int bytes = std::snprintf(line, sizeof line, "yield %s %lld\n", name,
                                  static_cast<long long>(now.tv_sec) * 1'000'000'000 + now.tv_nsec);
  [[maybe_unused]] const auto written = ::write(2, line, static_cast<std::size_t>(bytes));
}

}  // namespace

Point::Point(const char* name) noexcept : name_(name) {
  if (order().act == Act::kList) say(name);
  if (order().passing > 0 && std::strcmp(order().name, name) == 0) left_.store(order().passing);
}

void Point::act() noexcept {
  if (left_.fetch_sub(1) != 1) return;
  say(name_);
  // To this thread: it must not take another step. The signal ends or stops the others with it.
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), order().act == Act::kKill ? SIGKILL : SIGSTOP);
}

bool planted(const char* bug) noexcept {
  static const char* const asked = std::getenv("LWMQ_PLANTED");
  return asked != nullptr && std::strcmp(asked, bug) == 0;
}

}  // namespace lwmq::yield

#endif
