// A condition that comes true some time.
#pragma once

#include <chrono>
#include <thread>

namespace lwmq {

// Waits for it, with a limit that many times suffices. False: it did not come true.
template <typename Condition>
bool eventually(Condition&& condition, std::chrono::milliseconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace lwmq
