// What a test with random steps begins with.
#pragma once

#include <cstdlib>
#include <iostream>
#include <random>
#include <string_view>

namespace lwmq {

// The same in every everyday run; another one in each slow run, which is printed. LWMQ_SEED=7 repeats that
// one.
inline unsigned seed_of_this_run() {
  if (const char* given = std::getenv("LWMQ_SEED"); given != nullptr)
    return static_cast<unsigned>(std::strtoul(given, nullptr, 10));
  const char* slow = std::getenv("LWMQ_SLOW");
  if (slow == nullptr || std::string_view(slow) != "1") return 20260;
  const unsigned seed = std::random_device{}();
  std::cout << "again with LWMQ_SEED=" << seed << std::endl;
  return seed;
}

}  // namespace lwmq
